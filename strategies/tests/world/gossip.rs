//! Gossip in step: every worker averages with its neighbours in every step, along a graph or pushing along a directed
//! one.

use crate::reference::{Sgd, gradient};
use crate::scene::Scene;
use recipe::{Codec, Compression, Extent, MixOrder, Strategy, Topology};
use record::{LaneId, Nanos, Rank};
use std::sync::{Arc, Mutex};
use strategies::algorithm::d_psgd;
use strategies::algorithm::sgp::Sgp;
use strategies::gossip::Rounds;
use strategies::sim::{Costs, WorldOutcome};
use strategies::toy::Quadratic;
use strategies::{Handoff, Learner, Loss, Roles, StepError, Vector, WorkerContext};

const TOPOLOGIES: [Topology; 4] =
    [Topology::Ring, Topology::Exponential, Topology::ExponentialWide, Topology::Complete];
const ORDERS: [MixOrder; 2] = [MixOrder::MixThenStep, MixOrder::StepThenMix];

fn mixing(topology: Topology, order: MixOrder) -> Strategy {
    Strategy::DPsgd { topology, order }
}

fn scene(strategy: Strategy, workers: u32, seed: u64) -> Scene {
    let mut scene = Scene::new(strategy, workers).seed(seed).change(|spec| {
        spec.train.global_batch = 10;
        spec.train.length = Extent::Steps(7);
        spec.train.optimizer.momentum = 0.5;
        spec.train.optimizer.weight_decay = 0.01;
    });
    scene.world.jitter = 1.0;
    scene.world.costs = Costs { forward: vec![Nanos(900)], backward: vec![Nanos(2_000)], ..Costs::default() };
    scene
}

/// Who weighs how much for a rank, from the definition.
fn metropolis(topology: Topology, n: usize) -> Vec<Vec<f32>> {
    let joined = |i: usize, j: usize| {
        let apart = (n + j - i) % n;
        // Around an even number, i and j are of different parity where a hop is odd.
        let sends = |i: usize| topology != Topology::Exponential || i.is_multiple_of(2);
        let hops: Vec<usize> = match topology {
            Topology::Ring => vec![1],
            Topology::Exponential | Topology::ExponentialWide => vec![1, 3, 5, 9, 17],
            Topology::Complete => (1..n).collect(),
        };
        let joins = |hop: &usize| sends(i) && *hop == apart || sends(j) && n - hop == apart;
        i != j && hops.iter().any(|hop| *hop < n && joins(hop))
    };
    let degree = |i: usize| (0..n).filter(|j| joined(i, *j)).count();
    let weight = |i, j| if joined(i, j) { 1.0 / (1 + degree(i).max(degree(j))) as f64 } else { 0.0 };
    let row = |i: usize| -> Vec<f32> {
        // In single precision each row is still 1 in all.
        let others: f32 = (0..n).map(|j| weight(i, j) as f32).sum();
        (0..n).map(|j| if i == j { 1.0 - others } else { weight(i, j) as f32 }).collect()
    };
    (0..n).map(row).collect()
}

/// D-PSGD on one thread.
fn reference(scene: &Scene, w: &[Vec<f32>], order: MixOrder) -> Vec<Vector> {
    let plan = scene.plan();
    let mut learner = scene.learner();
    let n = w.len();
    let mut x = vec![learner.initial(); n];
    let mut rules: Vec<Sgd> = x.iter().map(|x| Sgd::new(scene, x.len())).collect();
    for t in 1..=plan.budget.steps() {
        let mut stepped = x.clone();
        for i in 0..n {
            let g = gradient(&mut learner, &x[i], &plan.sampler.batch(t, i));
            rules[i].step(&mut stepped[i], &g, plan.learning_rate.at(0));
        }
        let from = if order == MixOrder::MixThenStep { x.clone() } else { stepped };
        for i in 0..n {
            for e in 0..x[i].len() {
                let row = (0..n).filter(|j| w[i][*j] > 0.0).map(|j| w[i][j] * from[j][e]);
                x[i][e] = row.reduce(|sum, part| sum + part).unwrap();
                if order == MixOrder::MixThenStep {
                    x[i][e] += -plan.learning_rate.at(0) * rules[i].v[e];
                }
            }
        }
    }
    x
}

fn same(outcome: &WorldOutcome, expected: &[Vector], what: &str) {
    for (rank, expected) in expected.iter().enumerate() {
        assert_eq!(outcome.ranks[rank].model().sha256(), expected.sha256(), "{what}, rank {rank}");
    }
}

#[test]
fn every_graph_in_both_orders_is_the_plain_algorithm() {
    for workers in [1, 2, 3, 4, 5, 8] {
        for topology in TOPOLOGIES {
            if topology == Topology::Exponential && workers % 2 == 1 {
                continue;
            }
            for order in ORDERS {
                let scene = scene(mixing(topology, order), workers, u64::from(workers));
                let expected = reference(&scene, &metropolis(topology, workers as usize), order);
                same(&scene.run(), &expected, &format!("{topology:?} {order:?} of {workers}"));
            }
        }
    }
}

#[test]
fn orders_and_graphs_make_a_difference() {
    let end = |strategy| scene(strategy, 8, 1).run().ranks[0].model().sha256();
    let ends = TOPOLOGIES.into_iter().flat_map(|topology| ORDERS.map(|order| end(mixing(topology, order))));
    assert_eq!(ends.collect::<std::collections::BTreeSet<_>>().len(), 8);
}

/// A strategy whose ranks begin apart, and which tells its ends.
struct Apart<S> {
    inner: S,
    own: Vec<f32>,
    told: Arc<Mutex<Vec<(usize, Vector)>>>,
    tell: fn(&S, &WorkerContext) -> Vector,
}

impl<S: strategies::Trainer> strategies::Trainer for Apart<S> {
    fn start(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        self.inner.start(ctx)?;
        ctx.weights_mut().copy_from_slice(&self.own);
        Ok(())
    }
    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        let loss = self.inner.step(ctx)?;
        let told = (ctx.rank().index(), (self.tell)(&self.inner, ctx));
        self.told.lock().unwrap().push(told);
        Ok(loss)
    }
    fn finish(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        self.inner.finish(ctx)
    }
}

/// Any strategy that was built elsewhere.
struct Inner(Box<dyn strategies::Trainer>);

impl strategies::Trainer for Inner {
    fn start(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        self.0.start(ctx)
    }
    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        self.0.step(ctx)
    }
    fn finish(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        self.0.finish(ctx)
    }
}

/// The models of all ranks after every step, from models of their own on; the loss is h x^2 / 2.
fn models(scene: &Scene, curvature: f32, start: &dyn Fn(usize) -> Vec<f32>) -> Vec<Vec<Vector>> {
    let n = scene.spec.cluster.workers() as usize;
    let length = start(0).len();
    let told: Arc<Mutex<Vec<(usize, Vector)>>> = Arc::default();
    let blueprint = strategies::Blueprint::new(&scene.spec, scene.plan(), length);
    let learner = |_| Box::new(Quadratic::new(curvature, vec![0.0; length], 1)) as Box<dyn Learner>;
    let roles = |rank: Rank, runtime: &dyn strategies::Runtime, comm: &_| {
        let Roles { trainer, services, attendants, evaluated } =
            blueprint.roles(rank, runtime, comm).unwrap();
        let tell = |_: &Inner, ctx: &WorkerContext| ctx.weights().clone();
        let own = start(rank.index());
        let told = told.clone();
        let apart = Apart { inner: Inner(trainer.unwrap()), own, told, tell };
        Roles { trainer: Some(Box::new(apart)), services, attendants, evaluated }
    };
    scene.world.run_roles(&blueprint, learner, roles).unwrap();
    let told = std::mem::take(&mut *told.lock().unwrap());
    (0..n).map(|rank| told.iter().filter(|(of, _)| *of == rank).map(|(_, x)| x.clone()).collect()).collect()
}

fn plain(strategy: Strategy, workers: u32, steps: u64, lr: f32) -> Scene {
    scene(strategy, workers, 3).change(|spec| {
        spec.train.length = Extent::Steps(steps);
        spec.train.optimizer = recipe::OptimizerSettings::sgd(lr);
    })
}

/// A wave around the ring is an eigenvector of W: in one order it shrinks by lambda - eta h, in the other by
/// lambda (1 - eta h).
#[test]
fn waves_around_a_ring_shrink_by_the_order() {
    const RATE: f32 = 0.25;
    const CURVATURE: f32 = 0.5;
    const STEPS: u64 = 6;
    for n in 3..=8_usize {
        for order in ORDERS {
            for m in 0..n {
                let angle = |i: usize| 2.0 * std::f64::consts::PI * (m * i) as f64 / n as f64;
                let scene = plain(mixing(Topology::Ring, order), n as u32, STEPS, RATE);
                let models = models(&scene, CURVATURE, &|i| vec![angle(i).cos() as f32]);
                let lambda = (1.0 + 2.0 * angle(1).cos()) / 3.0;
                let decay = f64::from(RATE * CURVATURE);
                let factor = match order {
                    MixOrder::MixThenStep => lambda - decay,
                    MixOrder::StepThenMix => lambda * (1.0 - decay),
                };
                for (i, steps) in models.iter().enumerate() {
                    let expected = angle(i).cos() * factor.powi(STEPS as i32);
                    let end = f64::from(steps.last().unwrap()[0]);
                    assert!((end - expected).abs() < 1e-5, "{n} {order:?} {m}: {end} {expected}");
                }
            }
        }
    }
}

/// Dyadic weights and whole numbers: nothing is rounded.
#[test]
fn without_a_rate_the_mean_stays_exactly() {
    for (strategy, workers) in [
        (mixing(Topology::Complete, MixOrder::MixThenStep), 8),
        (mixing(Topology::Complete, MixOrder::StepThenMix), 4),
        (mixing(Topology::Ring, MixOrder::MixThenStep), 2),
        (Strategy::Sgp, 2),
        (Strategy::Sgp, 3),
        (Strategy::Sgp, 5),
        (Strategy::Sgp, 8),
    ] {
        let scene = plain(strategy.clone(), workers, 6, 0.0);
        let models = models(&scene, 1.0, &|i| vec![4.0 * i as f32, 1.0 + (i * i) as f32]);
        let sum = |step: usize, e: usize| -> f32 { models.iter().map(|of_rank| of_rank[step][e]).sum() };
        for (e, own) in [|i: u32| 4 * i, |i: u32| 1 + i * i].into_iter().enumerate() {
            let expected = (0..workers).map(own).sum::<u32>() as f32;
            let stays = |step| sum(step, e).to_bits() == expected.to_bits();
            assert!((0..6).all(stays), "{strategy:?} {workers}");
        }
    }
}

/// A path of three, whose ends weigh themselves more: every graph of the recipe is regular, and would not show whose
/// weights are taken. Quarters of whole numbers: nothing is rounded.
#[test]
fn every_row_has_weights_of_its_own() {
    const ROWS: [[f32; 3]; 3] = [[0.75, 0.25, 0.0], [0.25, 0.5, 0.25], [0.0, 0.25, 0.75]];
    for order in ORDERS {
        let scene = plain(mixing(Topology::Ring, order), 3, 4, 0.0);
        let told: Arc<Mutex<Vec<(usize, Vector)>>> = Arc::default();
        let blueprint = strategies::Blueprint::new(&scene.spec, scene.plan(), 1);
        let learner = |_| Box::new(Quadratic::new(1.0, vec![0.0], 1)) as Box<dyn Learner>;
        let roles = |rank: Rank, runtime: &dyn strategies::Runtime, _: &_| {
            let row = ROWS[rank.index()].iter().enumerate().filter(|(_, weight)| **weight > 0.0);
            let row = row.map(|(other, weight)| (strategies::GroupRank(other), *weight)).collect();
            let models = Handoff::new(runtime.bell(format!("models of rank {rank}")));
            let inner = d_psgd::Worker::new(order, models.clone());
            let mixer = d_psgd::Mixer::new(row, models);
            let tell = |_: &d_psgd::Worker, ctx: &WorkerContext| ctx.weights().clone();
            let own = vec![4096.0 * rank.0 as f32];
            let apart = Apart { inner, own, told: told.clone(), tell };
            Roles { trainer: Some(Box::new(apart)), services: vec![Box::new(mixer)], ..Roles::default() }
        };
        scene.world.run_roles(&blueprint, learner, roles).unwrap();
        let mut x = [0.0_f32, 4096.0, 8192.0];
        for step in 0..4 {
            x = ROWS.map(|row| row.iter().zip(x).map(|(weight, x)| weight * x).sum());
            for (rank, expected) in x.iter().enumerate() {
                let told = told.lock().unwrap();
                let (_, model) = told.iter().filter(|(of, _)| *of == rank).nth(step).unwrap();
                assert_eq!(model[0].to_bits(), expected.to_bits(), "{order:?}, step {step}, rank {rank}");
            }
        }
    }
}

/// After as many rounds as the number of ranks has binary digits, everybody has the mean.
#[test]
fn one_peer_per_step_brings_a_power_of_two_together_exactly() {
    for (workers, rounds) in [(2, 1), (4, 2), (8, 3), (16, 4)] {
        let scene = plain(Strategy::Sgp, workers, rounds, 0.0);
        let models = models(&scene, 1.0, &|i| vec![8.0 * i as f32]);
        let mean = 4.0 * (workers - 1) as f32;
        assert!(models.iter().all(|steps| steps.last().unwrap()[0].to_bits() == mean.to_bits()));
        let early =
            |steps: &Vec<Vector>| steps.iter().rev().skip(1).all(|x| x[0].to_bits() != mean.to_bits());
        assert!(models.iter().any(early));
    }
}

/// Stochastic gradient push on one thread: the models z, and x and w of every rank.
fn pushed(scene: &Scene, rounds: &Rounds) -> (Vec<Vector>, Vec<f32>) {
    let plan = scene.plan();
    let mut learner = scene.learner();
    let n = plan.workers();
    let mut x = vec![learner.initial(); n];
    let mut z = x.clone();
    let mut w = vec![1.0_f32; n];
    let mut rules: Vec<Sgd> = x.iter().map(|x| Sgd::new(scene, x.len())).collect();
    for t in 1..=plan.budget.steps() {
        let mut half = x.clone();
        let mut weight = w.clone();
        for i in 0..n {
            let g = gradient(&mut learner, &z[i], &plan.sampler.batch(t, i));
            for e in 0..g.len() {
                rules[i].v[e] = rules[i].momentum * rules[i].v[e] + (g[e] + rules[i].decay * z[i][e]);
                half[i][e] = (x[i][e] + -plan.learning_rate.at(0) * rules[i].v[e])
                    / (1 + rounds.receivers(t, i).len()) as f32;
            }
            weight[i] /= (1 + rounds.receivers(t, i).len()) as f32;
        }
        for i in 0..n {
            let from: Vec<usize> =
                (0..n).filter(|j| *j == i || rounds.receivers(t, *j).contains(&i)).collect();
            w[i] = from.iter().map(|j| weight[*j]).sum();
            for e in 0..x[i].len() {
                x[i][e] = from.iter().map(|j| half[*j][e]).reduce(|sum, part| sum + part).unwrap();
                z[i][e] = x[i][e] / w[i];
            }
        }
    }
    (z, w)
}

/// Ranks send to one or to three others: shares of a half and a quarter.
fn uneven() -> Rounds {
    Rounds::new(vec![
        vec![vec![1, 2, 3], vec![2], vec![3], vec![0]],
        vec![vec![2], vec![0], vec![0], vec![0]],
    ])
}

fn run_uneven(
    scene: &Scene,
    told: &Arc<Mutex<Vec<(usize, Vector)>>>,
    own: &dyn Fn(usize) -> Vec<f32>,
) -> WorldOutcome {
    let blueprint = scene.blueprint();
    let roles = |rank: Rank, _: &dyn strategies::Runtime, _: &_| {
        let own = own(rank.index());
        let told = told.clone();
        let tell = |sgp: &Sgp, _: &WorkerContext| {
            let (x, w) = sgp.biased();
            Vector::from(vec![x[0], w])
        };
        let apart = Apart { inner: Sgp::new(uneven()), own, told, tell };
        Roles { trainer: Some(Box::new(apart)), ..Roles::default() }
    };
    scene.world.run_roles(&blueprint, |_| Box::new(scene.learner()), roles).unwrap()
}

#[test]
fn pushing_is_the_plain_algorithm() {
    for workers in [1, 2, 3, 4, 5, 7, 8] {
        let scene = scene(Strategy::Sgp, workers, u64::from(workers));
        let (expected, w) = pushed(&scene, &Rounds::exponential(workers as usize));
        same(&scene.run(), &expected, &format!("{workers} workers"));
        assert!(w.iter().all(|w| w.to_bits() == 1.0_f32.to_bits()), "as many senders as receivers");
    }
    let scene = scene(Strategy::Sgp, 4, 1);
    let (expected, w) = pushed(&scene, &uneven());
    assert!(w.iter().any(|w| (w - 1.0).abs() > 0.2), "{w:?}");
    let initial = scene.learner().initial().into_inner();
    same(&run_uneven(&scene, &Arc::default(), &|_| initial.clone()), &expected, "uneven");
}

#[test]
fn two_that_push_are_two_that_step_and_mix() {
    let end = |strategy| scene(strategy, 2, 1).run().ranks.iter().map(|rank| rank.model().sha256()).collect();
    let pushed: Vec<String> = end(Strategy::Sgp);
    assert_eq!(pushed, end(mixing(Topology::Ring, MixOrder::StepThenMix)));
    assert_ne!(pushed, end(mixing(Topology::Ring, MixOrder::MixThenStep)));
}

/// On a graph that gives some ranks more than others, x alone goes astray; x / w does not. Both sums stay.
#[test]
fn the_weights_take_the_bias_away() {
    let told: Arc<Mutex<Vec<(usize, Vector)>>> = Arc::default();
    let scene = plain(Strategy::Sgp, 4, 8, 0.0).widths(&[1, 1]);
    run_uneven(&scene, &told, &|i| vec![64.0 * i as f32, 0.0]);
    let told = std::mem::take(&mut *told.lock().unwrap());
    for step in 0..8 {
        let of_step = (0..4).map(|rank| told.iter().filter(|(of, _)| *of == rank).nth(step).unwrap());
        let [x, w] = of_step.fold([0.0_f32; 2], |[x, w], (_, told)| [x + told[0], w + told[1]]);
        assert_eq!((x.to_bits(), w.to_bits()), (384.0_f32.to_bits(), 4.0_f32.to_bits()), "step {step}");
    }
    let long = plain(Strategy::Sgp, 4, 60, 0.0).widths(&[1, 1]);
    let last: Arc<Mutex<Vec<(usize, Vector)>>> = Arc::default();
    let outcome = run_uneven(&long, &last, &|i| vec![64.0 * i as f32, 0.0]);
    assert!(outcome.ranks.iter().all(|rank| (rank.model()[0] - 96.0).abs() < 1e-3), "all have the mean");
    assert!(last.lock().unwrap().iter().rev().take(4).any(|(_, told)| (told[0] - 96.0).abs() > 20.0));
}

/// The exchange takes as long as the gradient: in the paper's order a step is as long as one of the two.
#[test]
fn models_travel_while_gradients_are_computed() {
    let length = |order| {
        let mut scene = scene(mixing(Topology::Ring, order), 4, 1).change(|spec| spec.train.global_batch = 8);
        scene.world.jitter = 0.0;
        scene.world.costs = Costs { forward: vec![Nanos(40_000)], ..Costs::default() };
        scene.world.link = strategies::sim::Link { latency: Nanos(40_000), nanos_per_byte: 0.0 };
        scene.run().ranks[0].steps(LaneId::Compute)[3].length
    };
    assert_eq!(length(MixOrder::MixThenStep), Nanos(40_000));
    assert_eq!(length(MixOrder::StepThenMix), Nanos(80_000));
}

#[test]
fn coded_weights_come_near() {
    for strategy in [mixing(Topology::Ring, MixOrder::MixThenStep), Strategy::Sgp] {
        let exact = scene(strategy.clone(), 4, 1).run();
        let coded = scene(strategy, 4, 1).change(|spec| {
            let codec = Codec::Fp16;
            spec.compression = Compression::Coded { codec, parameters: true, error_feedback: false };
        });
        let coded = coded.run();
        assert!(coded.bytes < exact.bytes * 6 / 10);
        let apart = |rank: usize| {
            let pairs = exact.ranks[rank].model().iter().zip(coded.ranks[rank].model().iter());
            pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
        };
        assert!((0..4).all(|rank| apart(rank) < 0.02 && apart(rank) > 0.0));
    }
}
