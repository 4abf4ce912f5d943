//! What becomes of a gradient: the weights move.

use super::Node;
use crate::vector::Vector;
use record::{Phase, Work};

impl Node {
    /// Turns a gradient into what is to be added to the weights, velocity included, without adding it.
    #[must_use]
    pub fn direction(&mut self, mut g: Vector) -> Vector {
        let rate = self.rate();
        let Self { desk, optimizer, params, .. } = self;
        desk.lane
            .clock
            .timed(Phase::Update, Work::Update(g.len()), || optimizer.direction(params, &mut g, rate));
        g
    }

    /// Clips a gradient as the recipe asks for: where each is applied by itself, and perhaps in parts, its norm
    /// is known here only.
    #[must_use]
    pub fn clipped(&mut self, mut g: Vector) -> Vector {
        if let Some(longest) = self.desk.seat.course.optimizer().clip {
            let clock = &mut self.desk.lane.clock;
            clock.timed(Phase::Update, Work::Update(0), || crate::optimizer::shorten(&mut g, longest));
        }
        g
    }

    /// Moves my weights against a gradient.
    pub fn descend(&mut self, mut g: Vector) {
        let rate = self.rate();
        let Self { desk, optimizer, params, .. } = self;
        desk.lane
            .clock
            .timed(Phase::Update, Work::Update(g.len()), || optimizer.descend(params, &mut g, rate));
        self.recycle(g);
    }

    /// Adds to my weights what [`Node::direction`] made of a gradient.
    pub fn advance(&mut self, direction: Vector) {
        let Self { desk, params, .. } = self;
        desk.lane.clock.timed(Phase::Update, Work::Update(0), || params.add(&direction));
        self.recycle(direction);
    }

    /// Gives a vector's memory back for the next step.
    pub fn recycle(&mut self, vector: Vector) {
        if vector.len() == self.params.len() {
            self.spare.push(vector);
        }
    }

    /// A vector of the model's length with no particular content.
    pub fn spare(&mut self) -> Vector {
        self.spare.pop().unwrap_or_else(|| Vector::zeros(self.params.len()))
    }
}
