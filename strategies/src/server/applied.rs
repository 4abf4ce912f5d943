//! An update that a server has applied, and its record.

use crate::GroupRank;
use crate::service_context::ServiceContext;
use record::{Event, UpdateRecord};

/// Facts about a gradient at the moment when it is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Number of the update, from 1: the version of the weights after it.
    pub version: u64,
    /// Updates between the weights that the gradient was computed with and those that it is applied to.
    pub staleness: u64,
    /// Samples of all applied gradients before this one.
    pub consumed: u64,
    /// The same with this one.
    pub samples: u64,
}

impl Applied {
    /// Records the update, which applied what a worker sent in its step `step`.
    pub fn record(self, ctx: &ServiceContext, worker: GroupRank, step: u64) {
        let Self { version, staleness, samples, .. } = self;
        ctx.record(Event::Update(UpdateRecord {
            rank: ctx.info.rank,
            worker: ctx.info.everyone.rank(worker),
            step,
            version,
            staleness,
            samples,
            at: ctx.lane.clock.now(),
        }));
    }
}
