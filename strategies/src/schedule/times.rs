//! When the buckets of a step travelled.

use record::Nanos;

/// When each bucket began and ended to travel, from the start of the forward pass; added up over steps.
#[derive(Clone, Debug, Default)]
pub(crate) struct BucketTimes {
    steps: u64,
    sums: Vec<BucketTime>,
}

/// When one bucket began and ended to travel, from the start of the forward pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BucketTime {
    pub(crate) begin: Nanos,
    pub(crate) end: Nanos,
}

impl BucketTimes {
    /// Adds those of one step.
    pub(crate) fn add(&mut self, step: impl ExactSizeIterator<Item = BucketTime>) {
        self.sums.resize(step.len(), BucketTime::default());
        for (sum, time) in self.sums.iter_mut().zip(step) {
            sum.begin += time.begin;
            sum.end += time.end;
        }
        self.steps += 1;
    }

    /// Steps that were added.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// Their means; nothing before the first step.
    pub(crate) fn means(&self) -> impl Iterator<Item = BucketTime> {
        let mean = |sum: Nanos| Nanos(sum.0 / self.steps.max(1));
        self.sums.iter().map(move |sum| BucketTime { begin: mean(sum.begin), end: mean(sum.end) })
    }
}
