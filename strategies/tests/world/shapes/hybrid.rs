//! Model parallelism: layers cut into parts, activations that travel between them.

use super::{run, trains};
use crate::scene::Scene;
use recipe::{Extent, Strategy as Kinds};
use record::Rank;
use strategies::toy::Perceptron;
use strategies::vector::piece;
use strategies::*;

/// Hybrid parallelism: layers below `first_cut` on every rank, the others cut into as many parts as there are
/// ranks; the ranks take turns with their examples in the cut part.
struct Hybrid {
    first_cut: usize,
    widths: Vec<usize>,
}

impl Hybrid {
    fn gather_rows(mine: Block, round: usize, tag: Tag, wire: &mut Wire<'_>) -> Result<Block, StepError> {
        let (p, rows) = (wire.group().size(), mine.values.len() / mine.width);
        let part = piece(rows, p, round);
        let own = mine.values[part.start * mine.width..part.end * mine.width].to_vec();
        for to in wire.group().others() {
            wire.send(to, tag, 0, &own)?;
        }
        let mut all = Vec::new();
        for from in wire.group().members() {
            let mut values = own.clone();
            if from != wire.group().me() {
                wire.recv_into(from, tag, &mut values)?;
            }
            all.extend(values);
        }
        Ok(Block { width: mine.width, values: all })
    }

    fn gather_columns(mine: &Block, width: usize, tag: Tag, wire: &mut Wire<'_>) -> Result<Block, StepError> {
        for to in wire.group().others() {
            wire.send(to, tag, 0, &mine.values)?;
        }
        let (p, rows) = (wire.group().size(), mine.values.len() / mine.width);
        let mut whole = Block { width, values: vec![0.0; rows * width] };
        for from in wire.group().members() {
            let columns = piece(width, p, from.0);
            let mut values = vec![0.0; rows * columns.len()];
            if from == wire.group().me() {
                values.copy_from_slice(&mine.values);
            } else {
                wire.recv_into(from, tag, &mut values)?;
            }
            for (row, part) in values.chunks(columns.len()).enumerate() {
                whole.values[row * width + columns.start..row * width + columns.end].copy_from_slice(part);
            }
        }
        Ok(whole)
    }

    fn sum(mut mine: Block, tag: Tag, wire: &mut Wire<'_>) -> Result<Block, StepError> {
        strategies::collective::CollectiveAlgorithm::all_reduce_sum(
            &strategies::collective::RankOrder,
            &mut mine.values,
            tag,
            wire,
        )?;
        Ok(mine)
    }
}

fn columns(block: &Block, at: std::ops::Range<usize>) -> Block {
    let values = block.values.chunks(block.width).flat_map(|row| row[at.clone()].to_vec()).collect();
    Block { width: at.len(), values }
}

impl Trainer for Hybrid {
    fn start(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        let group = ctx.trainers().clone();
        (self.first_cut..self.widths.len())
            .try_for_each(|layer| ctx.shard_layer(layer, group.me().0, group.size()))
    }

    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        let group = ctx.trainers().clone();
        let (p, me, layers) = (group.size(), group.me().0, self.widths.len());
        let mut g = Vector::zeros(ctx.weights().len());
        let mut loss = 0.0;
        ctx.load()?;
        (0..self.first_cut).try_for_each(|layer| ctx.forward_layer(layer))?;
        let own = ctx.take_activations()?;
        let rows = own.values.len() / own.width;
        let mut own_gradient = Block { width: own.width, values: vec![0.0; own.values.len()] };
        for round in 0..p {
            let plan = ctx.info().plan.clone();
            let epoch = ctx.batch().epoch;
            let examples = (0..p)
                .flat_map(|k| plan.sampler.batch(ctx.t(), k).examples[piece(rows, p, round)].to_vec())
                .collect();
            ctx.put_activations(own.clone())?;
            ctx.exchange_activations(&group, |x, tag, wire| Self::gather_rows(x, round, tag, wire))?;
            for layer in self.first_cut..layers {
                ctx.forward_layer(layer)?;
                let width = self.widths[layer];
                ctx.exchange_activations(&group, |y, tag, wire| Self::gather_columns(&y, width, tag, wire))?;
            }
            loss += ctx.loss(&Batch { epoch, examples })?.0 / p as f32;
            for layer in (self.first_cut..layers).rev() {
                let whole = ctx.take_activations()?;
                ctx.put_activations(columns(&whole, piece(self.widths[layer], p, me)))?;
                let span = ctx.layout().layers()[layer].span.clone();
                let mut part = vec![0.0; span.len()];
                ctx.backward_layer(layer, &mut part)?;
                g[span].iter_mut().zip(&part).for_each(|(g, part)| *g += part / p as f32);
                ctx.exchange_activations(&group, Self::sum)?;
            }
            let activations = ctx.take_activations()?;
            let mine = piece(rows, p, round);
            let from = me * mine.len() * own.width;
            let back = &activations.values[from..from + mine.len() * own.width];
            own_gradient.values[mine.start * own.width..mine.end * own.width].copy_from_slice(back);
        }
        ctx.put_activations(own_gradient)?;
        for layer in (0..self.first_cut).rev() {
            let span = ctx.layout().layers()[layer].span.clone();
            ctx.backward_layer(layer, &mut g[span])?;
        }
        let below = ctx.layout().span(0..self.first_cut);
        let mean = ctx.all_reduce_mean_over(&group, g[below.clone()].to_vec().into())?;
        g[below].copy_from_slice(&mean);
        ctx.apply_gradient(g);
        Ok(Loss(loss))
    }
}

#[test]
fn model_parallelism_is_one_process_after_a_step_of_exact_numbers() {
    let widths = [6, 8, 8, 4];
    let scene = |workers| {
        Scene::new(Kinds::DSync, workers).widths(&widths).change(|spec| {
            spec.train.length = Extent::Steps(1);
            spec.train.global_batch = 16;
        })
    };
    let expected = scene(1).run();
    for p in [2_u32, 4] {
        let scene = scene(p);
        let roles = |_: Rank, _: &dyn Runtime, _: &CommQueue| {
            trains(Hybrid { first_cut: 1, widths: vec![8, 8, 4] }, vec![])
        };
        let outcome = run(&scene, || Box::new(scene.learner()), roles).unwrap();
        let whole = Perceptron::new(&widths);
        let mut joined = Vector::zeros(whole.layout().size());
        for layer in 0..3 {
            let span = whole.layout().layers()[layer].span.clone();
            let row = widths[layer] + 1;
            for (k, rank) in outcome.ranks.iter().enumerate() {
                let mut cut = Perceptron::new(&widths);
                (1..3).for_each(|layer| cut.shard_layer(layer, k, p as usize).unwrap());
                let kept = if layer == 0 { 0..widths[1] } else { piece(widths[layer + 1], p as usize, k) };
                let part = &rank.model()[cut.layout().layers()[layer].span.clone()];
                joined[span.start + kept.start * row..span.start + kept.end * row].copy_from_slice(part);
            }
        }
        assert_eq!(joined.sha256(), expected.ranks[0].model().sha256(), "{p} parts");
    }
}
