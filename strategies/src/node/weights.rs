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

    /// Changes a part of my weights in place. What an update takes is counted where its direction is found.
    pub fn update(&mut self, span: Range<usize>, change: impl FnOnce(&mut [f32])) {
        let Self { desk, params, .. } = self;
        desk.lane.clock.timed(Phase::Update, Work::Update(0), || change(&mut params[span]));
    }

    /// Finds a direction by a rule of the method's own, from my weights: counted as an update of all of them.
    pub fn own_direction(&mut self, find: impl FnOnce(&[f32])) {
        let Self { desk, params, .. } = self;
        desk.lane.clock.timed(Phase::Update, Work::Update(params.len()), || find(params));
    }

    /// Sends a part of my weights.
    pub fn send_params_of(&mut self, to: Place, tag: Tag, span: Range<usize>) -> Result<(), StepError> {
        let Self { desk, params, .. } = self;
        desk.wire().weights().send(to, tag, span.start, &params[span])
    }
}
