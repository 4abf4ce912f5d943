//! What a strategy does to parts of its weights.

use super::Node;
use crate::{Place, StepError, Tag};
use record::{Phase, Work};
use std::ops::Range;

impl Node {
    /// Copies from my weights, which the step goes on to change.
    pub fn aside(&mut self, copy: impl FnOnce(&[f32])) {
        let Self { desk, params, .. } = self;
        desk.lane.clock.timed(Phase::Copy, Work::Snapshot(params.len()), || copy(params));
    }

    /// Changes a part of my weights in place, as an update of that many.
    pub fn update(&mut self, span: Range<usize>, change: impl FnOnce(&mut [f32])) {
        let Self { desk, params, .. } = self;
        desk.lane.clock.timed(Phase::Update, Work::Update(span.len()), || change(&mut params[span]));
    }

    /// Sends a part of my weights.
    pub fn send_params_of(&mut self, to: Place, tag: Tag, span: Range<usize>) -> Result<(), StepError> {
        let Self { desk, params, .. } = self;
        desk.wire().weights().send(to, tag, span.start, &params[span])
    }
}
