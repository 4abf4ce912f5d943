//! The learner by hand, for methods that put something between two layers.

use super::Node;
use crate::learner::Batch;
use crate::vector::Block;
use crate::{Group, Kind, Loss, StepError, Tag, Wire};
use record::{Phase, Work};

impl Node {
    /// Puts my samples of the step into the cursor.
    pub fn load(&mut self) -> Result<(), StepError> {
        let Self { desk, learner, batch, t, trainers, .. } = self;
        let (course, place) = (&desk.seat.course, trainers.place().0);
        desk.lane.clock.timed(Phase::Data, Work::Data, || {
            *batch = course.batch(*t, place);
            learner.load(batch)
        })
    }

    /// The samples that were loaded.
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Takes the cursor through one layer, upwards.
    pub fn forward_layer(&mut self, layer: usize) -> Result<(), StepError> {
        let Self { desk, learner, params, .. } = self;
        desk.lane.clock.timed(Phase::Forward, Work::Forward(layer), || learner.forward(params, layer))
    }

    /// The mean loss of these samples; leaves its gradient in the cursor.
    pub fn loss(&mut self, batch: &Batch) -> Result<Loss, StepError> {
        let Self { desk, learner, .. } = self;
        desk.lane.clock.timed(Phase::Forward, Work::Loss, || learner.loss(batch))
    }

    /// Takes the cursor through one layer, downwards, and writes the gradient of the layer's weights.
    pub fn backward_layer(&mut self, layer: usize, gradient: &mut [f32]) -> Result<(), StepError> {
        let Self { desk, learner, params, .. } = self;
        desk.lane
            .clock
            .timed(Phase::Backward, Work::Backward(layer), || learner.backward(params, layer, gradient))
    }

    /// Fetches the cursor to the host.
    pub fn take(&mut self) -> Result<Block, StepError> {
        self.learner.take()
    }

    /// Sets the cursor from the host.
    pub fn put(&mut self, cursor: Block) -> Result<(), StepError> {
        self.learner.put(cursor)
    }

    /// Something travels here: the cursor goes to the host, through `f`, and back.
    pub fn exchange(
        &mut self,
        group: &Group,
        f: impl FnOnce(Block, Tag, &mut Wire<'_>) -> Result<Block, StepError>,
    ) -> Result<(), StepError> {
        let tag = self.tag(Kind::Exchange);
        let cursor = self.learner.take()?;
        let cursor = f(cursor, tag, &mut self.desk.lane.wire(group).exact())?;
        self.learner.put(cursor)
    }

    /// Keeps only a slice of a layer's outputs; my weights become the slice of the same initial ones.
    pub fn cut(&mut self, layer: usize, part: usize, of: usize) -> Result<(), StepError> {
        self.learner.cut(layer, part, of)?;
        self.params = self.learner.initial();
        self.spare.clear();
        Ok(())
    }
}
