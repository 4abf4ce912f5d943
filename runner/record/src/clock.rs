//! Sources of time, and the work that costs time.

use crate::{Nanos, Phase};

/// Work that costs time. A real clock ignores it, because the time has passed; a virtual clock advances by its cost. Sizes
/// are in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Loading the examples of a batch.
    Data,
    /// Forward pass of one layer.
    Forward(usize),
    /// The loss at the top, and its gradient.
    Loss,
    /// Backward pass of one layer.
    Backward(usize),
    /// Updating this many weights.
    Update(usize),
    /// Adding this many elements.
    Reduce(usize),
    /// Encoding this many elements.
    Encode(usize),
    /// Decoding this many elements.
    Decode(usize),
    /// Copying this many elements for a snapshot.
    Snapshot(usize),
}

/// A source of time for one rank.
pub trait Clock: Send + Sync {
    /// The time since the start of the run.
    fn now(&self) -> Nanos;
    /// Advances a virtual clock by the cost of `work`.
    fn spend(&self, work: Work);
    /// Ends work that began at `begun`: an emulating clock waits for the rest of its stated time.
    fn settle(&self, _work: Work, _begun: Nanos) {}
    /// Reports that the lane has entered a phase of a step, so that its current activity can be observed. Called at every
    /// switch, so it must be cheap.
    fn entered(&self, _step: u64, _phase: Phase) {}
}
