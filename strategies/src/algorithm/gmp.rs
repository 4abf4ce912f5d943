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
//! workers, and of L_FC's over the holders (of layers above the split ones over all workers), in each round with
//! `fc-update = "per-round"`. With `average-every` weights are
//! averaged in their place, every n steps and after the last one.
//!
//! Departures: gradients are averaged in each step where the recipe does not say `average-every`; the paper averages
//! parameters now and then. Gradients are means over samples, so that a round of few rows weighs as its rows do. Momentum and weight
//! decay, which the paper does not mention, and moments of AdamW act at each update; the division of L_FC's gradient by K in each round is one of the rate, decay included. What the
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

/// The samples of a step.
struct Samples {
    /// Those of each member of the group.
    batches: Vec<Batch>,
    /// Numbers of samples: of all workers, of the group, and of this worker.
    all: usize,
    of_group: usize,
    own: usize,
}

/// How much a part of the gradient counts.
struct Weight {
    /// Samples of this group that it is of, and of all groups.
    mine: usize,
    all: usize,
    /// The part of the rate that it is applied with.
    share: f32,
}

/// The backward pass of one round.
struct Backward<'a> {
    round: &'a Round,
    /// Samples of this worker.
    own: usize,
    /// What the gradient of L_FC is written over.
    g: &'a mut [f32],
    /// What this worker's rows of L_M's gradient are written over.
    gradient: &'a mut Block,
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
        // As in `local-sgd`, each worker's own mean counts where weights are averaged.
        let g = if self.average_every.is_some() { g.into() } else { ctx.weighted(g.into()) };
        self.memory.below = self.learn(ctx, &everyone, Part { at: 0, values: g }, 1.0)?;
        Ok(loss)
    }

    /// L_M, L_FC and L_S in rounds: the mean loss of the group's samples, and the gradient of this worker's mean loss with respect
    /// to `own`, its activations.
    fn rounds(&mut self, ctx: &mut WorkerContext, own: &Block) -> Result<(Loss, Block), StepError> {
        let samples = self.samples(ctx);
        let sizes: Vec<usize> = samples.batches.iter().map(|batch| batch.examples.len()).collect();
        let above = ctx.layout().span(self.partition.above());
        let mut gradient = Block::zeros(samples.own, own.width);
        let mut loss = 0.0;
        let mut sum = std::mem::take(&mut self.memory.above);
        sum.clear();
        sum.resize(above.len(), 0.0);
        for number in 0..self.scheme.rounds(self.group.size()) {
            let round = Round::new(self.scheme, &sizes, number);
            let share = round.rows() as f32 / samples.of_group.max(1) as f32;
            let mut g = std::mem::take(&mut self.memory.round);
            g.resize(above.len(), 0.0);
            if round.rows() > 0 {
                loss += share * self.forward(ctx, own, &round, &round.batch(&samples.batches))?.0;
                self.backward(
                    ctx,
                    Backward { round: &round, own: samples.own, g: &mut g, gradient: &mut gradient },
                )?;
            }
            let part = Part { at: above.start, values: g.into() };
            self.memory.round = match self.fc_update {
                FcUpdate::PerRound => self.learn_round(ctx, part, number)?,
                FcUpdate::PerBatch => {
                    // Of an empty round, the memory holds another gradient.
                    if round.rows() > 0 {
                        ctx.add_share(&mut sum, &part.values, share);
                    }
                    part.values.into_inner()
                }
            };
        }
        if self.fc_update == FcUpdate::PerBatch {
            let part = Part { at: above.start, values: sum.into() };
            let weight = Weight { mine: samples.of_group, all: samples.all, share: 1.0 };
            sum = self.learn_weighted(ctx, part, weight)?;
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

    /// The backward pass of one round.
    fn backward(&self, ctx: &mut WorkerContext, pass: Backward<'_>) -> Result<(), StepError> {
        let Backward { round, own, g, gradient } = pass;
        let split = self.partition.split();
        let first = ctx.layout().span(self.partition.above()).start;
        for layer in self.partition.above().rev() {
            if split.contains(&layer) {
                let columns = self.columns(layer);
                let above_is_split = split.contains(&(layer + 1));
                ctx.exchange_activations(&self.group, |gy, tag, wire| {
                    if above_is_split {
                        shard::reduce(&gy, &columns, tag, wire)
                    } else {
                        Ok(shard::take(&gy, columns[wire.group().me().0].clone(), wire))
                    }
                })?;
            }
            let span = ctx.layout().layers()[layer].span.clone();
            ctx.backward_layer(layer, &mut g[span.start - first..span.end - first])?;
        }
        if self.partition.below().is_empty() {
            return Ok(());
        }
        let part = ctx.take_activations()?;
        let tag = ctx.tag(Kind::Exchange);
        let wire = &mut ctx.wire_over(&self.group).exact();
        modulo::return_gradient(&part, round, gradient, tag, wire)?;
        // From the mean over the round's rows to the mean over this worker's.
        let factor = round.rows() as f32 / own.max(1) as f32;
        ctx.scale(gradient.rows_of_mut(round.of(self.group.me())), factor);
        Ok(())
    }

    /// Updates L_FC after a round, with the share of the rate that the round has of all samples.
    fn learn_round(&self, ctx: &mut WorkerContext, g: Part, number: usize) -> Result<Vec<f32>, StepError> {
        let own = self.number_of_group(ctx);
        let mine = self.round_of(ctx, own, number).rows();
        let (rows, samples) = if self.average_every.is_some() {
            (mine, self.samples_of_group(ctx, own))
        } else {
            let groups = 0..self.holders.size();
            (groups.map(|group| self.round_of(ctx, group, number).rows()).sum(), self.all_samples(ctx))
        };
        if rows == 0 {
            return Ok(g.values.into_inner());
        }
        self.learn_weighted(ctx, g, Weight { mine, all: rows, share: rows as f32 / samples as f32 })
    }

    /// Weighs a part of the gradient by the samples that it is of, and learns it.
    fn learn_weighted(
        &self,
        ctx: &mut WorkerContext,
        mut g: Part,
        weight: Weight,
    ) -> Result<Vec<f32>, StepError> {
        let Weight { mine, all, share } = weight;
        if self.average_every.is_none() {
            g.values = ctx.scaled(g.values, (self.holders.size() * mine) as f32 / all as f32);
        }
        self.learn_above(ctx, g, share)
    }

    /// Learns a gradient of L_FC: that of split layers from those who hold the same part, and that of whole layers above them, which each
    /// member of a group has computed alike, from all workers. A codec would drive their copies apart.
    fn learn_above(&self, ctx: &mut WorkerContext, g: Part, share: f32) -> Result<Vec<f32>, StepError> {
        let Part { at, values } = g;
        let mut values = values.into_inner();
        let whole = ctx.layout().span(self.partition.whole_above());
        if whole.is_empty() {
            return self.learn(ctx, &self.holders, Part { at, values: values.into() }, share);
        }
        let everyone = ctx.trainers().clone();
        let top = values.split_off(whole.start - at);
        let mut values = self.learn(ctx, &self.holders, Part { at, values: values.into() }, share)?;
        values.extend(self.learn(ctx, &everyone, Part { at: whole.start, values: top.into() }, share)?);
        Ok(values)
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
        let Self { partition, holders, .. } = self;
        if partition.parts() == 1 {
            return ctx.average_weights();
        }
        let everyone = ctx.trainers().clone();
        let layers = [
            (&everyone, partition.below()),
            (holders, partition.split()),
            (&everyone, partition.whole_above()),
        ];
        for (group, layers) in layers {
            let span = ctx.layout().span(layers);
            if !span.is_empty() {
                ctx.average_weights_of(group, span)?;
            }
        }
        Ok(())
    }

    /// The outputs of a layer that each member of the group has.
    fn columns(&self, layer: usize) -> Vec<std::ops::Range<usize>> {
        (0..self.group.size()).map(|part| self.partition.columns(layer, part)).collect()
    }

    fn samples(&self, ctx: &WorkerContext) -> Samples {
        let batch = |member: GroupRank| {
            if member == self.group.me() {
                ctx.batch().clone()
            } else {
                ctx.info().plan.sampler.batch(ctx.t(), self.group.rank(member).index())
            }
        };
        let batches: Vec<Batch> = self.group.members().map(batch).collect();
        let of_group = batches.iter().map(|batch| batch.examples.len()).sum();
        Samples { batches, all: self.all_samples(ctx), of_group, own: ctx.batch().examples.len() }
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
