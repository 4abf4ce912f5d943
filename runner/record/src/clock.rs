//! Sources of time, and the work that costs time.

use crate::{Nanos, Phase};

/// Work that costs time. A real clock ignores it, because the time has passed; a virtual clock advances by its cost. Sizes
/// are in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Loading the examples of a batch.
    Data,
    /// Forward pass through a layer.
    Forward {
        /// Its number in the layout.
        layer: usize,
        /// The rows of this pass.
        share: BatchShare,
    },
    /// The loss at the top, and its gradient.
    Loss(BatchShare),
    /// Backward pass through a layer.
    Backward {
        /// Its number in the layout.
        layer: usize,
        /// The rows of this pass.
        share: BatchShare,
    },
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
    /// Copying this many elements between the host and the device that a learner computes on: a part of computing.
    Transfer(usize),
}

/// The rows of a pass, relative to a worker's batch: a micro-batch is a part of it, and a group of workers may take rows of
/// several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchShare {
    /// Rows of the pass.
    pub rows: u64,
    /// Rows of the batch; where it has none, the pass counts as a whole one.
    pub of: u64,
}

impl BatchShare {
    /// All rows of the batch.
    pub const WHOLE: Self = Self { rows: 1, of: 1 };

    /// This share of `whole`, exactly `whole` for a whole batch.
    pub fn times(self, whole: f64) -> f64 {
        if self.rows == self.of || self.of == 0 { whole } else { whole * self.rows as f64 / self.of as f64 }
    }
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
