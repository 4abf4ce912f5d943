//! The gradient of a step, whole or layer by layer, of a batch that is computed at once or in micro-batches.

use super::{Accumulated, LayerGradient, WorkerContext};
use crate::learner::Batch;
use crate::vector::{Vector, piece};
use crate::{Loss, StepError};
use record::{BatchShare, Phase, Work};
use std::ops::Range;

impl WorkerContext {
    /// The mean loss over this worker's samples of the step, and its gradient.
    pub fn gradient(&mut self) -> Result<(Loss, Vector), StepError> {
        let loss = self.forward()?;
        let mut g = self.spare();
        while self.backward_into(&mut g)?.is_some() {}
        Ok((loss, g))
    }

    /// The forward pass alone; [`WorkerContext::backward_next`] follows. With micro-batches, this is everything but the
    /// last backward pass.
    pub fn forward(&mut self) -> Result<Loss, StepError> {
        self.exchange.began = self.service.lane.clock.now();
        if let Some(stale) = self.accumulated.take() {
            self.recycle(stale.sum);
        }
        let plan = &self.service.info.plan;
        let samples = plan.sampler.own_samples(self.t, self.trainers.me().0);
        let pieces = plan.accumulate().min(samples);
        if pieces <= 1 {
            self.load()?;
            let batch = std::mem::take(&mut self.batch);
            let loss = self.forward_over(&batch);
            self.batch = batch;
            return loss;
        }
        let mut loss = 0.0;
        for k in 0..pieces {
            let part = self.load_micro_batch(k, pieces)?;
            let share = part.examples.len() as f32 / samples as f32;
            if let Some(Accumulated { last, .. }) = &mut self.accumulated {
                *last = share;
            }
            loss += share * self.forward_over(&part)?.0;
            if k + 1 < pieces {
                self.accumulate(share)?;
            }
        }
        Ok(Loss(loss))
    }

    /// The next finished layer, from the last to the first; `None` when the pass is over.
    pub fn backward_next(&mut self) -> Result<Option<LayerGradient>, StepError> {
        let Some(layer) = self.next_backward.checked_sub(1) else { return Ok(None) };
        self.next_backward = layer;
        let span = self.layout().layers()[layer].span.clone();
        let mut gradient = Vector::zeros(span.len());
        self.backward_layer(layer, &mut gradient)?;
        if let Some(Accumulated { sum, last }) = self.accumulated.take() {
            self.join(&sum[span], last, &mut gradient);
            self.accumulated = Some(Accumulated { sum, last });
        }
        Ok(Some(LayerGradient { layer, gradient }))
    }

    /// The backward pass through the next layer, from the last to the first: writes its gradient into its span of `g` and
    /// returns the span; `None` when the pass is over.
    pub fn backward_into(&mut self, g: &mut Vector) -> Result<Option<Range<usize>>, StepError> {
        let span = self.backward_through(g)?;
        if let Some(Accumulated { sum, last }) = self.accumulated.take() {
            let Some(span) = &span else {
                self.recycle(sum);
                return Ok(None);
            };
            self.join(&sum[span.clone()], last, &mut g[span.clone()]);
            self.accumulated = Some(Accumulated { sum, last });
        }
        Ok(span)
    }

    fn load_micro_batch(&mut self, k: usize, pieces: usize) -> Result<Batch, StepError> {
        let Self { service, learner, batch, share, t, trainers, .. } = self;
        let sampler = &service.info.plan.sampler;
        let part = service.lane.clock.timed(Phase::Data, Work::Data, || {
            if k == 0 {
                *batch = sampler.batch(*t, trainers.me().0);
            }
            let part = micro_batch(batch, pieces, k);
            *share = BatchShare { rows: part.examples.len() as u64, of: batch.examples.len() as u64 };
            learner.load(&part)?;
            let ahead = learner.looks_ahead();
            let mut next: Vec<Batch> =
                (k + 1..pieces).map(|k| micro_batch(batch, pieces, k)).take(ahead).collect();
            let later = (*t + 1..).take(ahead).map(|step| sampler.batch(step, trainers.me().0));
            let later = later.flat_map(|batch| (0..pieces).map(move |k| micro_batch(&batch, pieces, k)));
            next.extend(later.take(ahead - next.len()));
            learner.announce(&next);
            Ok::<Batch, StepError>(part)
        })?;
        self.upload_batch()?;
        Ok(part)
    }

    fn forward_over(&mut self, batch: &Batch) -> Result<Loss, StepError> {
        let layers = self.layout().layers().len();
        for layer in 0..layers {
            self.forward_layer(layer)?;
        }
        self.next_backward = layers;
        self.loss(batch)
    }

    /// The backward pass of the loaded micro-batch through its next layer.
    fn backward_through(&mut self, g: &mut Vector) -> Result<Option<Range<usize>>, StepError> {
        let Some(layer) = self.next_backward.checked_sub(1) else { return Ok(None) };
        self.next_backward = layer;
        let span = self.layout().layers()[layer].span.clone();
        self.backward_layer(layer, &mut g[span.clone()])?;
        Ok(Some(span))
    }

    /// Adds the gradient of the current micro-batch to those before it.
    fn accumulate(&mut self, share: f32) -> Result<(), StepError> {
        let mut g = self.spare();
        while self.backward_through(&mut g)?.is_some() {}
        let sum = match self.accumulated.take() {
            None => {
                g.scale(share);
                g
            }
            Some(Accumulated { sum, .. }) => {
                self.join(&sum, share, &mut g);
                self.recycle(sum);
                g
            }
        };
        self.accumulated = Some(Accumulated { sum, last: 0.0 });
        Ok(())
    }

    /// sum <- sum + share g.
    pub fn add_share(&mut self, sum: &mut [f32], g: &[f32], share: f32) {
        self.service.lane.clock.timed(Phase::Backward, Work::Reduce(g.len()), || {
            for (sum, g) in sum.iter_mut().zip(g) {
                *sum += share * *g;
            }
        });
    }

    /// g <- share g + sum.
    pub(super) fn join(&mut self, sum: &[f32], share: f32, g: &mut [f32]) {
        self.service.lane.clock.timed(Phase::Backward, Work::Reduce(g.len()), || {
            for (g, sum) in g.iter_mut().zip(sum) {
                *g = *g * share + *sum;
            }
        });
    }
}

/// The `k`-th of `pieces` parts of a batch.
fn micro_batch(batch: &Batch, pieces: usize, k: usize) -> Batch {
    let examples = batch.examples[piece(batch.examples.len(), pieces, k)].to_vec();
    Batch { epoch: batch.epoch, examples }
}
