//! Reading, changing and sending parts of the weights.

use super::WorkerContext;
use crate::{GroupRank, StepError, Tag};
use record::{Phase, Work};
use std::ops::Range;

impl WorkerContext {
    /// Copies the weights, which the step will change.
    pub fn read_weights(&mut self, copy: impl FnOnce(&[f32])) {
        let Self { service, weights, .. } = self;
        service.lane.clock.timed(Phase::Copy, Work::Snapshot(weights.len()), || copy(weights));
    }

    /// Changes a part of the weights in place. The cost of an update is counted where it is computed.
    pub fn change_weights(&mut self, span: Range<usize>, change: impl FnOnce(&mut [f32])) {
        let Self { service, weights, .. } = self;
        service.lane.clock.timed(Phase::Update, Work::Update(0), || change(&mut weights[span]));
    }

    /// Computes an update by a rule of the strategy's own, from the weights: counted as an update of all of them.
    pub fn compute_own_update(&mut self, compute: impl FnOnce(&[f32])) {
        let Self { service, weights, .. } = self;
        service.lane.clock.timed(Phase::Update, Work::Update(weights.len()), || compute(weights));
    }

    /// Sends a part of the weights.
    pub fn send_weights_of(&mut self, to: GroupRank, tag: Tag, span: Range<usize>) -> Result<(), StepError> {
        let Self { service, weights, .. } = self;
        service.wire().weights().send(to, tag, span.start, &weights[span])
    }
}
