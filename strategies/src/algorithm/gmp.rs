//! GMP: SplitBrain's group model parallelism.
//!
//! Source: Lai, Kadav and Kruus, "SplitBrain: Hybrid Data and Model Parallel Deep Learning", 2021, section 3.
//!
//! | paper | here |
//! |---|---|
//! | N | `ctx.trainers().size()` |
//! | K, mp | `group.size()` |
//! | iProc | `group.me()` |
//! | L_Conv | the layers `partition.below()` |
//! | L_M | `modulo::gather`, `modulo::return_gradient` |
//! | L_FC | the layers `partition.above()` |
//! | L_S | `shard::gather`, `shard::reduce` |
//! | workers with the same model shard | `holders` |
//!
//! Each worker computes L_Conv for its own batch. Then the group computes L_FC in rounds, each worker its own outputs for
//! the rows of all. The paper's rounds are those of `scheme = "b/k"`.
//!
//! Sent per step: within the group each worker's rows and their gradients once to each other member, and columns of each split layer's
//! outputs and of their gradients for each row of the group; between groups an all-reduce of L_Conv's gradient over all
//! workers, and of L_FC's over the holders, in each round with `fc-update = "per-round"`. With `average-every` weights are
//! averaged in their place, every n steps and after the last one.
//!
//! Departures: gradients are averaged in each step where the recipe does not say `average-every`; the paper averages
//! parameters now and then. Gradients are means over samples, so that a round of few rows weighs as its rows do. Momentum and weight
//! decay, which the paper does not mention, act at each update; the division of L_FC's gradient by K in each round is one of the rate, decay included. What the
//! partition does otherwise stands in `recipe::ModelPartition`.

use crate::model_parallel::{Round, modulo, shard};
use crate::schedule::Part;
use crate::vector::Block;
use crate::{Batch, Group, GroupRank, Kind, Loss, StepError, Trainer, WorkerContext};
use recipe::{FcUpdate, ModelPartition, ModuloScheme};

/// Every worker.
pub struct Gmp {
    partition: ModelPartition,
    scheme: ModuloScheme,
    fc_update: FcUpdate,
    average_every: Option<u64>,
    group: Group,
    holders: Group,
    memory: Memory,
}

/// Who a worker computes with.
#[derive(Clone, Debug)]
pub struct Neighbours {
    /// The workers that hold one model together.
    pub group: Group,
    /// The workers that hold the same part as this one.
    pub holders: Group,
}

/// How a group computes.
#[derive(Clone, Debug)]
pub struct Rounds {
    /// The layers that are split.
    pub partition: ModelPartition,
    /// Whose samples come together.
    pub scheme: ModuloScheme,
    /// When the layers above the modulo layer are updated.
    pub fc_update: FcUpdate,
    /// Steps from one average of the weights to the next; `None` where gradients are averaged.
    pub average_every: Option<u64>,
}

/// Gradients, whose memory the next step uses again.
#[derive(Default)]
struct Memory {
    below: Vec<f32>,
    above: Vec<f32>,
    round: Vec<f32>,
}

/// The batches of a step.
struct Batches {
    of_group: Vec<Batch>,
    /// Samples of the group, and of this worker.
    group: usize,
    own: usize,
}

impl Gmp {
    /// A worker at rest.
    pub fn new(rounds: Rounds, neighbours: Neighbours) -> Self {
        let Rounds { partition, scheme, fc_update, average_every } = rounds;
        let Neighbours { group, holders } = neighbours;
        Self { partition, scheme, fc_update, average_every, group, holders, memory: Memory::default() }
    }
}

impl Trainer for Gmp {
    /// In groups nothing is sent: each rank cuts its part out of the same seeded weights.
    fn start(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        if self.partition.parts() == 1 {
            return ctx.broadcast_weights_from(GroupRank(0));
        }
        ctx.shard_layers(self.partition.split(), self.group.me().0, self.group.size())
    }

    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        let loss = if self.partition.parts() > 1 { self.compute(ctx)? } else { self.compute_alone(ctx)? };
        if self.average_every.is_some_and(|every| ctx.t().is_multiple_of(every)) {
            self.average_weights(ctx)?;
        }
        Ok(loss)
    }

    fn finish(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        let apart = self.average_every.is_some_and(|every| !ctx.t().is_multiple_of(every));
        if apart { self.average_weights(ctx) } else { Ok(()) }
    }
}

impl Gmp {
    /// A step of a worker that holds the whole model.
    fn compute_alone(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        let (loss, g) = ctx.gradient()?;
        let g = if self.average_every.is_some() { g } else { ctx.all_reduce_mean(g)? };
        ctx.apply_gradient(g);
        Ok(loss)
    }

    fn compute(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        ctx.load()?;
        for layer in self.partition.below() {
            ctx.forward_layer(layer)?;
        }
        let own = ctx.take_activations()?;
        let (loss, gradient) = self.rounds(ctx, &own)?;
        let below = ctx.layout().span(self.partition.below());
        if below.is_empty() {
            return Ok(loss);
        }
        let mut g = std::mem::take(&mut self.memory.below);
        g.resize(below.len(), 0.0);
        ctx.put_activations(gradient)?;
        for layer in self.partition.below().rev() {
            let span = ctx.layout().layers()[layer].span.clone();
            ctx.backward_layer(layer, &mut g[span])?;
        }
        let everyone = ctx.trainers().clone();
        let g = ctx.weighted(g.into());
        self.memory.below = self.learn(ctx, &everyone, Part { at: 0, values: g }, 1.0)?;
        Ok(loss)
    }

    /// L_M, L_FC and L_S in rounds: the mean loss of the group's samples, and the gradient of this worker's mean loss with respect
    /// to `own`, its activations.
    fn rounds(&mut self, ctx: &mut WorkerContext, own: &Block) -> Result<(Loss, Block), StepError> {
        let batches = self.batches(ctx);
        let sizes: Vec<usize> = batches.of_group.iter().map(|batch| batch.examples.len()).collect();
        let span = ctx.layout().span(self.partition.above());
        let mut gradient = Block::zeros(batches.own, own.width);
        let mut loss = 0.0;
        let mut sum = std::mem::take(&mut self.memory.above);
        sum.clear();
        sum.resize(span.len(), 0.0);
        for number in 0..self.scheme.rounds(self.group.size()) {
            let round = Round::new(self.scheme, &sizes, number);
            let mut g = std::mem::take(&mut self.memory.round);
            g.resize(span.len(), 0.0);
            let share = round.rows() as f32 / batches.group as f32;
            if round.rows() > 0 {
                let batch = round.batch(&batches.of_group);
                loss += share * self.forward(ctx, own, &round, &batch)?.0;
                self.backward(ctx, &round, &batches, &mut g, &mut gradient)?;
            }
            self.memory.round = match self.fc_update {
                FcUpdate::PerRound => self.learn_round(ctx, &round, number, span.start, g)?,
                FcUpdate::PerBatch => {
                    ctx.add_share(&mut sum, &g, share);
                    g
                }
            };
        }
        if self.fc_update == FcUpdate::PerBatch {
            let weight = self.holders.size() as f32 * batches.group as f32 / self.all_samples(ctx) as f32;
            sum = self.learn_weighted(ctx, Part { at: span.start, values: sum.into() }, weight, 1.0)?;
        }
        self.memory.above = sum;
        Ok((Loss(loss), gradient))
    }

    /// The forward pass of one round.
    fn forward(
        &self,
        ctx: &mut WorkerContext,
        own: &Block,
        round: &Round,
        batch: &Batch,
    ) -> Result<Loss, StepError> {
        let tag = ctx.tag(Kind::Exchange);
        let rows = modulo::gather(own, round, tag, &mut ctx.wire_over(&self.group).exact())?;
        ctx.put_activations_of(batch, rows)?;
        for layer in self.partition.above() {
            ctx.forward_layer(layer)?;
            if self.partition.split().contains(&layer) {
                let columns = self.columns(layer);
                ctx.exchange_activations(&self.group, |y, tag, wire| shard::gather(&y, &columns, tag, wire))?;
            }
        }
        ctx.loss(batch)
    }

    /// The backward pass of one round: its gradient of L_FC over `g`, and this worker's rows of that of L_M over `gradient`.
    fn backward(
        &self,
        ctx: &mut WorkerContext,
        round: &Round,
        batches: &Batches,
        g: &mut [f32],
        gradient: &mut Block,
    ) -> Result<(), StepError> {
        let split = self.partition.split();
        let first = ctx.layout().span(self.partition.above()).start;
        for layer in self.partition.above().rev() {
            if split.contains(&layer) {
                let columns = self.columns(layer);
                let above_is_split = split.contains(&(layer + 1));
                ctx.exchange_activations(&self.group, |gy, tag, wire| match above_is_split {
                    true => shard::reduce(&gy, &columns, tag, wire),
                    false => Ok(shard::take(&gy, columns[wire.group().me().0].clone(), wire)),
                })?;
            }
            let span = ctx.layout().layers()[layer].span.clone();
            ctx.backward_layer(layer, &mut g[span.start - first..span.end - first])?;
        }
        if self.partition.below().is_empty() {
            return Ok(());
        }
        let part = ctx.take_activations()?;
        // From the mean over the round's rows to the mean over this worker's.
        let factor = round.rows() as f32 / batches.own.max(1) as f32;
        let tag = ctx.tag(Kind::Exchange);
        let wire = &mut ctx.wire_over(&self.group).exact();
        modulo::return_gradient(&part, round, factor, gradient, tag, wire)
    }

    /// Updates L_FC after a round, with the share of the rate that the round has of all samples.
    fn learn_round(
        &self,
        ctx: &mut WorkerContext,
        round: &Round,
        number: usize,
        at: usize,
        g: Vec<f32>,
    ) -> Result<Vec<f32>, StepError> {
        let part = Part { at, values: g.into() };
        if self.average_every.is_some() {
            let own = self.samples_of_group(ctx, self.number_of_group(ctx));
            return match round.rows() {
                0 => Ok(part.values.into_inner()),
                rows => self.learn_weighted(ctx, part, 1.0, rows as f32 / own as f32),
            };
        }
        let groups = 0..self.holders.size();
        let rows: usize = groups.map(|group| self.round_of(ctx, group, number).rows()).sum();
        if rows == 0 {
            return Ok(part.values.into_inner());
        }
        let weight = self.holders.size() as f32 * round.rows() as f32 / rows as f32;
        self.learn_weighted(ctx, part, weight, rows as f32 / self.all_samples(ctx) as f32)
    }

    fn learn_weighted(
        &self,
        ctx: &mut WorkerContext,
        mut part: Part,
        weight: f32,
        share: f32,
    ) -> Result<Vec<f32>, StepError> {
        if self.average_every.is_none() {
            part.values = ctx.scaled(part.values, weight);
        }
        self.learn(ctx, &self.holders, part, share)
    }

    /// Averages a part of the gradient over those who hold the same weights, and applies it with a share of the rate.
    fn learn(
        &self,
        ctx: &mut WorkerContext,
        holders: &Group,
        part: Part,
        share: f32,
    ) -> Result<Vec<f32>, StepError> {
        let part =
            if self.average_every.is_some() { part } else { ctx.all_reduce_mean_of_part(holders, part)? };
        Ok(ctx.apply_part(part, share).values.into_inner())
    }

    /// Averages the weights: each over those who hold it.
    fn average_weights(&self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        let everyone = ctx.trainers().clone();
        let below = ctx.layout().span(self.partition.below());
        let above = ctx.layout().span(self.partition.above());
        if !below.is_empty() {
            ctx.average_weights_of(&everyone, below)?;
        }
        if above.is_empty() { Ok(()) } else { ctx.average_weights_of(&self.holders, above) }
    }

    /// The outputs of a layer that each member of the group has.
    fn columns(&self, layer: usize) -> Vec<std::ops::Range<usize>> {
        (0..self.group.size()).map(|part| self.partition.columns(layer, part)).collect()
    }

    fn batches(&self, ctx: &WorkerContext) -> Batches {
        let batch = |member: GroupRank| match member == self.group.me() {
            true => ctx.batch().clone(),
            false => ctx.info().plan.sampler.batch(ctx.t(), self.group.rank(member).index()),
        };
        let of_group: Vec<Batch> = self.group.members().map(batch).collect();
        let group = of_group.iter().map(|batch| batch.examples.len()).sum();
        Batches { of_group, group, own: ctx.batch().examples.len() }
    }

    fn number_of_group(&self, ctx: &WorkerContext) -> usize {
        ctx.trainers().me().0 / self.group.size()
    }

    /// Sizes of the batches of a group.
    fn sizes(&self, ctx: &WorkerContext, group: usize) -> Vec<usize> {
        let first = group * self.group.size();
        let members = first..first + self.group.size();
        members.map(|worker| ctx.info().plan.sampler.own_samples(ctx.t(), worker)).collect()
    }

    fn samples_of_group(&self, ctx: &WorkerContext, group: usize) -> usize {
        self.sizes(ctx, group).iter().sum()
    }

    fn all_samples(&self, ctx: &WorkerContext) -> usize {
        (0..self.holders.size()).map(|group| self.samples_of_group(ctx, group)).sum()
    }

    fn round_of(&self, ctx: &WorkerContext, group: usize, number: usize) -> Round {
        Round::new(self.scheme, &self.sizes(ctx, group), number)
    }
}
