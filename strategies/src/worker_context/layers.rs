//! Single layers, for methods that communicate between two layers.

use super::WorkerContext;
use crate::learner::Batch;
use crate::vector::Block;
use crate::{Group, Kind, Loss, StepError, Tag, Wire};
use record::{BatchShare, Phase, Work};
use std::ops::Range;

impl WorkerContext {
    /// Loads this worker's samples of the step as activations.
    pub fn load(&mut self) -> Result<(), StepError> {
        self.exchange.began = self.service.lane.clock.now();
        let Self { service, learner, batch, share, t, trainers, .. } = self;
        let sampler = &service.info.plan.sampler;
        *share = BatchShare::WHOLE;
        service.lane.clock.timed(Phase::Data, Work::Data, || {
            *batch = sampler.batch(*t, trainers.me().0);
            learner.load(batch)?;
            let next = |step: u64| sampler.batch(step, trainers.me().0);
            let next: Vec<Batch> = (*t + 1..).take(learner.looks_ahead()).map(next).collect();
            learner.announce(&next);
            Ok::<(), StepError>(())
        })?;
        self.upload_batch()
    }

    /// Copies the loaded samples to the learner's device, if it has one.
    pub(super) fn upload_batch(&mut self) -> Result<(), StepError> {
        let Self { service, learner, .. } = self;
        if !learner.has_device() {
            return Ok(());
        }
        service.lane.clock.timed(Phase::Copy, Work::Transfer(0), || learner.upload_batch())
    }

    /// This worker's samples of the step, as they were loaded.
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// The forward pass through one layer.
    pub fn forward_layer(&mut self, layer: usize) -> Result<(), StepError> {
        let Self { service, learner, weights, share, .. } = self;
        if learner.has_device() {
            let copied = Work::Transfer(learner.layout().layers()[layer].span.len());
            service.lane.clock.timed(Phase::Copy, copied, || learner.upload_layer(weights, layer))?;
        }
        let work = Work::Forward { layer, share: *share };
        service.lane.clock.timed(Phase::Forward, work, || learner.forward(weights, layer))
    }

    /// The mean loss of these samples; its gradient replaces the activations.
    pub fn loss(&mut self, batch: &Batch) -> Result<Loss, StepError> {
        let Self { service, learner, share, kept, .. } = self;
        service.lane.clock.timed(Phase::Forward, Work::Loss(*share), || {
            *kept = learner.kept_bytes().max(*kept);
            learner.loss(batch)
        })
    }

    /// The backward pass through one layer; writes the gradient of the layer's weights.
    pub fn backward_layer(&mut self, layer: usize, gradient: &mut [f32]) -> Result<(), StepError> {
        let Self { service, learner, weights, share, .. } = self;
        let work = Work::Backward { layer, share: *share };
        service.lane.clock.timed(Phase::Backward, work, || learner.backward(weights, layer, gradient))?;
        if !learner.has_device() {
            return Ok(());
        }
        let copied = Work::Transfer(gradient.len());
        service.lane.clock.timed(Phase::Copy, copied, || learner.download_gradient(layer, gradient))
    }

    /// Fetches the activations, or their gradients, to host memory.
    pub fn take_activations(&mut self) -> Result<Block, StepError> {
        let Self { service, learner, .. } = self;
        service.lane.clock.timed(Phase::Copy, Work::Snapshot(0), || learner.take_activations())
    }

    /// Sets the activations of the loaded samples, or their gradients, from host memory.
    pub fn put_activations(&mut self, activations: Block) -> Result<(), StepError> {
        self.share = BatchShare::WHOLE;
        self.write_activations(activations)
    }

    fn write_activations(&mut self, activations: Block) -> Result<(), StepError> {
        let Self { service, learner, .. } = self;
        let work = Work::Snapshot(activations.values.len());
        service.lane.clock.timed(Phase::Copy, work, || learner.put_activations(activations))
    }

    /// The same for activations of other examples than those that were loaded: their random numbers follow the
    /// examples, and passes over them count as that part of a worker's mean batch in this step.
    pub fn put_activations_of(&mut self, batch: &Batch, activations: Block) -> Result<(), StepError> {
        self.learner.set_examples(batch)?;
        let sampler = &self.service.info.plan.sampler;
        let rows = batch.examples.len() * sampler.workers();
        self.share = BatchShare { rows: rows as u64, of: sampler.samples(self.t) as u64 };
        self.write_activations(activations)
    }

    /// Passes the activations through `f`, which may exchange them with the group.
    pub fn exchange_activations(
        &mut self,
        group: &Group,
        f: impl FnOnce(Block, Tag, &mut Wire<'_>) -> Result<Block, StepError>,
    ) -> Result<(), StepError> {
        let activations = self.take_activations()?;
        let activations = self.exchange_rows(group, |tag, wire| f(activations, tag, wire))?;
        self.write_activations(activations)
    }

    /// Exchanges activations, or gradients of them, with the group; communication and waiting count as exchanging.
    pub fn exchange_rows<T>(
        &mut self,
        group: &Group,
        f: impl FnOnce(Tag, &mut Wire<'_>) -> Result<T, StepError>,
    ) -> Result<T, StepError> {
        let before = self.service.lane.clock.exposed();
        let tag = self.tag(Kind::Exchange);
        let result = f(tag, &mut self.service.lane.wire(group).exact());
        self.exchanging += self.service.lane.clock.exposed().since(before);
        result
    }

    /// Keeps only the `part`-th of `of` slices of the outputs of some layers; the weights become the slices of the same
    /// initial weights.
    pub fn shard_layers(&mut self, layers: Range<usize>, part: usize, of: usize) -> Result<(), StepError> {
        if layers.is_empty() {
            return Ok(());
        }
        for layer in layers {
            self.learner.shard_layer(layer, part, of)?;
        }
        self.weights = self.learner.initial();
        self.exchange = self.exchange.again(self.learner.layout());
        self.spare.clear();
        Ok(())
    }
}
