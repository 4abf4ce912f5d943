//! Numbers of which only the bounds are known.

/// A number from `least` to `most`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The least that it can be.
    pub least: usize,
    /// The most that it can be.
    pub most: usize,
}
