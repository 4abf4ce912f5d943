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
//! With `averaged-by = "servers"` ranks that train nothing add the averaged tensors (`server/adder.rs`); section 4 of the paper has both.
//!
//! Departures: gradients are averaged in each step where the recipe does not say `average-every`; the paper averages
//! parameters now and then. Gradients are means over samples, so that a round of few rows weighs as its rows do. Momentum and weight
//! decay, which the paper does not mention, and moments of AdamW act at each update; the division of L_FC's gradient by K in each round is one of the rate, decay included. What the
//! partition does otherwise stands in `recipe::ModelPartition`.

use crate::model_parallel::{Round, modulo, shard};
use crate::schedule::{GradientParts, Part};
use crate::vector::Block;
use crate::{Averaging, Batch, Group, GroupRank, Loss, StepError, Trainer, WorkerContext};
use recipe::{FcUpdate, ModelPartition, ModuloScheme};

/// A worker of a group that holds one model together.
pub struct Gmp {
    partition: ModelPartition,
    scheme: ModuloScheme,
    fc_update: FcUpdate,
    average_every: Option<u64>,
    group: Group,
    holders: Group,
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
pub struct GroupPlan {
    /// The layers that are split.
    pub partition: ModelPartition,
    /// Whose samples come together.
    pub scheme: ModuloScheme,
    /// When the layers above the modulo layer are updated.
    pub fc_update: FcUpdate,
    /// Steps from one average of the weights to the next; `None` where gradients are averaged.
    pub average_every: Option<u64>,
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

/// How much a gradient of L_FC counts.
#[derive(Clone, Copy)]
struct Weight {
    /// Samples of this group that it is of, and of all groups.
    mine: usize,
    all: usize,
    /// The part of the rate that it is applied with.
    share: f32,
}

/// A gradient of L_FC that is yet to be averaged.
struct Due {
    g: GradientParts,
    weight: Weight,
}

/// The backward pass of one round.
struct Backward<'a> {
    round: &'a Round,
    /// Samples of this worker.
    own: usize,
    /// Parts that are overwritten with the gradient of L_FC.
    g: &'a mut GradientParts,
    /// Block that is overwritten with this worker's rows of L_M's gradient.
    gradient: &'a mut Block,
}

impl Gmp {
    /// A worker at rest.
    pub fn new(rounds: GroupPlan, neighbours: Neighbours) -> Self {
        let GroupPlan { partition, scheme, fc_update, average_every } = rounds;
        let Neighbours { group, holders } = neighbours;
        Self { partition, scheme, fc_update, average_every, group, holders }
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
        if !self.adds_in_each_step() {
            ctx.tell_servers_of_step()?;
        }
        let loss = if self.partition.parts() > 1 { self.compute(ctx)? } else { self.compute_alone(ctx)? };
        if self.average_every.is_some_and(|every| ctx.t().is_multiple_of(every)) {
            self.average_weights(ctx)?;
        }
        Ok(loss)
    }

    fn finish(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        if self.average_every.is_some_and(|every| !ctx.t().is_multiple_of(every)) {
            self.average_weights(ctx)?;
        }
        ctx.leave_servers()
    }
}

impl Gmp {
    /// Whether something is averaged in each step.
    fn adds_in_each_step(&self) -> bool {
        let shared = !self.partition.below().is_empty() || !self.partition.whole_above().is_empty();
        self.average_every.is_none() && (self.holders.size() > 1 || shared)
    }

    /// A step of a worker that holds the whole model.
    fn compute_alone(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        if self.average_every.is_some() {
            let (loss, g) = ctx.gradient()?;
            ctx.apply_gradient(g);
            return Ok(loss);
        }
        let loss = ctx.forward()?;
        let travelling = ctx.backward_sending()?;
        let g = ctx.arrived(travelling)?;
        ctx.apply_parts(g);
        Ok(loss)
    }

    fn compute(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        ctx.load()?;
        for layer in self.partition.below() {
            ctx.forward_layer(layer)?;
        }
        let own = ctx.take_activations()?;
        let (loss, gradient, Due { g, weight }) = self.rounds(ctx, &own)?;
        let mut travelling = ctx.begin_sending(self.partition.above().len());
        for part in g {
            let averaging = self.above(ctx, &part, weight);
            ctx.send_part(part, averaging.as_ref(), &mut travelling)?;
        }
        let below = self.partition.below();
        if !below.is_empty() {
            ctx.put_activations(gradient)?;
            // As in `local-sgd`, each worker's own mean counts where weights are averaged.
            let everyone = self.average_every.is_none().then(|| ctx.over_all_samples());
            ctx.backward_sending_layers(below, everyone.as_ref(), &mut travelling)?;
        }
        let travelling = ctx.all_sent(travelling)?;
        let g = ctx.arrived(travelling)?;
        self.learn(ctx, g, weight.share);
        Ok(loss)
    }

    /// L_M, L_FC and L_S in rounds: the mean loss of the group's samples, the gradient of this worker's mean loss with respect
    /// to `own`, its activations, and the gradient of L_FC that has not been learned.
    fn rounds(&mut self, ctx: &mut WorkerContext, own: &Block) -> Result<(Loss, Block, Due), StepError> {
        let samples = self.samples(ctx);
        let sizes: Vec<usize> = samples.batches.iter().map(|batch| batch.examples.len()).collect();
        let mut gradient = Block::zeros(samples.own, own.width);
        let mut loss = 0.0;
        let mut due: Option<Due> = None;
        for number in 0..self.scheme.rounds(self.group.size()) {
            let round = Round::new(self.scheme, &sizes, number);
            let share = round.rows() as f32 / samples.of_group.max(1) as f32;
            if let Some(due) = due.take_if(|_| self.fc_update == FcUpdate::PerRound) {
                self.learn_round(ctx, due)?;
            }
            let mut g = ctx.parts_of(self.partition.above());
            if round.rows() > 0 {
                loss += share * self.forward(ctx, own, &round, &round.batch(&samples.batches))?.0;
                let pass = Backward { round: &round, own: samples.own, g: &mut g, gradient: &mut gradient };
                self.backward(ctx, pass)?;
            }
            due = Some(match self.fc_update {
                FcUpdate::PerRound => Due { g, weight: self.weight_of_round(ctx, number) },
                FcUpdate::PerBatch => {
                    let weight = Weight { mine: samples.of_group, all: samples.all, share: 1.0 };
                    Due { g: sum(ctx, due, g, share), weight }
                }
            });
        }
        let nothing = || Due { g: GradientParts::default(), weight: Weight { mine: 0, all: 0, share: 0.0 } };
        Ok((Loss(loss), gradient, due.unwrap_or_else(nothing)))
    }

    /// The forward pass of one round.
    fn forward(
        &self,
        ctx: &mut WorkerContext,
        own: &Block,
        round: &Round,
        batch: &Batch,
    ) -> Result<Loss, StepError> {
        let rows = ctx.exchange_rows(&self.group, |tag, wire| modulo::gather(own, round, tag, wire))?;
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
            ctx.backward_into_parts(layer, g.parts_mut())?;
        }
        if self.partition.below().is_empty() {
            return Ok(());
        }
        let part = ctx.take_activations()?;
        ctx.exchange_rows(&self.group, |tag, wire| {
            modulo::return_gradient(&part, round, gradient, tag, wire)
        })?;
        // From the mean over the round's rows to the mean over this worker's.
        let factor = round.rows() as f32 / own.max(1) as f32;
        ctx.scale(gradient.rows_of_mut(round.of(self.group.me())), factor);
        Ok(())
    }

    /// Weight of the gradient of a round: the round's share of all samples; zero where no group has rows in it.
    fn weight_of_round(&self, ctx: &WorkerContext, number: usize) -> Weight {
        let own = self.number_of_group(ctx);
        let mine = self.round_of(ctx, own, number).rows();
        let (all, samples) = if self.average_every.is_some() {
            (mine, self.samples_of_group(ctx, own))
        } else {
            let groups = 0..self.holders.size();
            (groups.map(|group| self.round_of(ctx, group, number).rows()).sum(), self.all_samples(ctx))
        };
        Weight { mine, all, share: all as f32 / samples.max(1) as f32 }
    }

    /// Who averages a part of L_FC's gradient: of split layers those who hold the same part, and of whole layers above them, which each
    /// member of a group has computed alike, all workers. A codec would drive their copies apart. `None` where weights are averaged.
    fn above(&self, ctx: &WorkerContext, part: &Part, weight: Weight) -> Option<Averaging> {
        let Weight { mine, all, .. } = weight;
        if self.average_every.is_some() {
            return None;
        }
        if all == 0 {
            // A round without rows: there is nothing to average, and the step may be over.
            return ctx.alone();
        }
        let whole = ctx.layout().span(self.partition.whole_above());
        let group = if whole.is_empty() || part.at < whole.start { &self.holders } else { ctx.trainers() };
        Some(Averaging { group: group.clone(), weight: (self.holders.size() * mine) as f32 / all as f32 })
    }

    /// Updates L_FC after a round that is not the last one.
    fn learn_round(&self, ctx: &mut WorkerContext, Due { g, weight }: Due) -> Result<(), StepError> {
        let mut parts = Vec::new();
        let mut own = Vec::new();
        for part in g {
            match self.above(ctx, &part, weight) {
                Some(averaging) => parts.push((part, averaging)),
                None => own.push(part),
            }
        }
        let averaged = ctx.average_parts(parts)?;
        self.learn(ctx, averaged.into_iter().chain(own).collect(), weight.share);
        Ok(())
    }

    /// Applies mean gradients: those of L_FC with a share of the rate.
    fn learn(&self, ctx: &mut WorkerContext, g: GradientParts, share: f32) {
        let above = ctx.layout().span(self.partition.above()).start;
        let apply = |part: Part| {
            let share = if part.at < above { 1.0 } else { share };
            if share > 0.0 { ctx.apply_part(part, share) } else { part }
        };
        let applied = g.into_iter().map(apply).collect();
        ctx.recycle_parts(applied);
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

/// The sum over the rounds of a step, each with its share of the samples.
fn sum(ctx: &mut WorkerContext, before: Option<Due>, g: GradientParts, share: f32) -> GradientParts {
    let Some(Due { g: mut sum, .. }) = before else {
        let scaled = g.into_iter().map(|Part { at, values }| Part { at, values: ctx.scaled(values, share) });
        return scaled.collect();
    };
    for (sum, part) in sum.parts_mut().iter_mut().zip(g.parts()) {
        ctx.add_share(&mut sum.values, &part.values, share);
    }
    ctx.recycle_parts(g);
    sum
}
