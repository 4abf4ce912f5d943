//! How bytes become values that a model takes.

/// How the bytes of one channel are normalised: x / 255, minus the mean, divided by the deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normal {
    /// Mean over all pixels of the channel in the whole training file, 0 to 1; of pictures in files ImageNet's.
    pub mean: f64,
    /// Their population deviation; 1 where all pixels are equal.
    pub deviation: f64,
}
