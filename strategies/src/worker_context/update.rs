//! Updates: from a gradient to new weights.

use super::WorkerContext;
use crate::schedule::{GradientParts, Part};
use crate::vector::Vector;
use record::{Phase, Work};

impl WorkerContext {
    /// Computes the update of the weights for a gradient, velocity included, without applying it.
    #[must_use]
    pub fn compute_update(&mut self, mut g: Vector) -> Vector {
        let rate = self.rate();
        let Self { service, optimizer, weights, .. } = self;
        service
            .lane
            .clock
            .timed(Phase::Update, Work::Update(g.len()), || optimizer.compute_update(weights, &mut g, rate));
        g
    }

    /// Clips a gradient as the recipe asks for: a server that applies each gradient by itself, perhaps only a part of it,
    /// does not know its norm.
    #[must_use]
    pub fn clipped(&mut self, mut g: Vector) -> Vector {
        if let Some(longest) = self.service.info.plan.optimizer().clip {
            let clock = &mut self.service.lane.clock;
            clock.timed(Phase::Update, Work::Update(0), || crate::optimizer::shorten(&mut g, longest));
        }
        g
    }

    /// Applies a gradient to the weights.
    pub fn apply_gradient(&mut self, mut g: Vector) {
        let rate = self.rate();
        let Self { service, optimizer, weights, .. } = self;
        service
            .lane
            .clock
            .timed(Phase::Update, Work::Update(g.len()), || optimizer.apply_gradient(weights, &mut g, rate));
        self.recycle(g);
    }

    /// Applies a gradient in parts to the weights.
    pub fn apply_parts(&mut self, mut g: GradientParts) {
        let rate = self.rate();
        let Self { service, optimizer, weights, .. } = self;
        let work = Work::Update(weights.len());
        let clock = &mut service.lane.clock;
        clock.timed(Phase::Update, work, || optimizer.apply_parts(weights, &mut g, rate));
        self.recycle_parts(g);
    }

    /// Applies a part of a gradient to its weights, with a share of the rate. The memory of the part is left with arbitrary
    /// content.
    pub fn apply_part(&mut self, mut g: Part, share: f32) -> Part {
        let rate = self.rate() * share;
        let Self { service, optimizer, weights, .. } = self;
        let work = Work::Update(g.values.len());
        service.lane.clock.timed(Phase::Update, work, || optimizer.apply_part(weights, &mut g, rate));
        g
    }

    /// Adds an update that [`WorkerContext::compute_update`] returned to the weights.
    pub fn apply_update(&mut self, update: Vector) {
        let Self { service, weights, .. } = self;
        service.lane.clock.timed(Phase::Update, Work::Update(0), || weights.add(&update));
        self.recycle(update);
    }

    /// Keeps the memory of a vector for the next step.
    pub fn recycle(&mut self, vector: Vector) {
        if vector.len() == self.weights.len() {
            self.spare.push(vector);
        }
    }

    /// A vector of the model's length with arbitrary content.
    pub fn spare(&mut self) -> Vector {
        self.spare.pop().unwrap_or_else(|| Vector::zeros(self.weights.len()))
    }
}
