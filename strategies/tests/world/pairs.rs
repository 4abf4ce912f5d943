//! Pairs that average whenever they are ready: replayed from their records, with tables by hand.

use crate::reference::{Sgd, gradient};
use crate::scene::Scene;
use recipe::{Averaging, Codec, Compression, Extent, Graph, LrShape, Strategy, Topology};
use record::{AveragedRecord, Event, GossipAct, GossipRecord, Nanos, Rank};
use std::collections::BTreeMap;
use strategies::algorithm::ad_psgd::{Active, Passive, Worker};
use strategies::gossip::{Local, neighbour};
use strategies::sim::{Costs, WorldOutcome};
use strategies::toy::Quadratic;
use strategies::{
    Blueprint, GroupRank, Learner, Loss, Roles, Runtime, Service, StepError, Vector, WorkerContext,
};

pub(crate) fn pairs(topology: Topology) -> Strategy {
    Strategy::AdPsgd { topology, averaging: Averaging::EachStep }
}

pub(crate) fn continuous(topology: Topology) -> Strategy {
    Strategy::AdPsgd { topology, averaging: Averaging::Continuous }
}

/// Workers of uneven speed whose every piece of work takes another time, and a rate that changes.
pub(crate) fn scene(strategy: Strategy, workers: u32, seed: u64) -> Scene {
    let mut scene = Scene::new(strategy, workers).seed(seed).change(|spec| {
        spec.train.global_batch = 2 * workers;
        spec.train.length = Extent::Steps(12);
        spec.train.optimizer.momentum = 0.5;
        spec.train.optimizer.weight_decay = 0.01;
        spec.train.schedule.shape = LrShape::Step { every: Extent::Steps(4), factor: 0.5 };
    });
    scene.world.jitter = 1.0;
    scene.world.slow.insert(Rank(1), 3.0);
    scene.world.costs = Costs {
        forward: vec![Nanos(9_000), Nanos(11_000)],
        backward: vec![Nanos(20_000), Nanos(10_000)],
        update: 10.0,
        reduce: 5.0,
        code: 1.0,
        ..Costs::default()
    };
    scene
}

pub(crate) fn acts(outcome: &WorldOutcome, rank: usize) -> Vec<GossipRecord> {
    let of = outcome.ranks[rank].events.iter().filter_map(|event| match event {
        Event::Gossip(record) => Some(record.clone()),
        _ => None,
    });
    let mut acts: Vec<GossipRecord> = of.collect();
    acts.sort_by_key(|record| record.sequence);
    assert!(acts.iter().zip(1..).all(|(record, number)| record.sequence == number));
    acts
}

pub(crate) fn averagings(outcome: &WorldOutcome) -> Vec<AveragedRecord> {
    let events = outcome.ranks.iter().flat_map(|rank| &rank.events);
    let averaged = events.filter_map(|event| match event {
        Event::Averaged(record) => Some(record.clone()),
        _ => None,
    });
    averaged.collect()
}

/// The nearest number of 16 bits, ties to even; there are none beyond the largest here.
fn half(x: f32) -> f32 {
    let exponent = (x.to_bits() >> 23 & 0xff).cast_signed() - 127;
    let quantum = 2_f32.powi(exponent.max(-14) - 10);
    (x / quantum).round_ties_even() * quantum
}

/// The result of replaying the records of a run.
pub(crate) struct Replay {
    x: Vec<Vector>,
    /// Weights with which each gradient was computed, by rank and step.
    read: BTreeMap<(usize, u64), Vector>,
    /// Snapshots, by rank and samples that all ranks had consumed.
    pub(crate) kept: BTreeMap<(usize, u64), Vector>,
    /// All models before and after each averaging, with the pair.
    averaged: Vec<(usize, usize, Vec<Vector>, Vec<Vector>)>,
}

/// Replays the records of a run.
pub(crate) fn replay(
    scene: &Scene,
    learner: &mut dyn Learner,
    start: Vec<Vector>,
    outcome: &WorldOutcome,
) -> Replay {
    let plan = scene.plan();
    let n = start.len();
    let orders: Vec<Vec<GossipRecord>> = (0..n).map(|rank| acts(outcome, rank)).collect();
    let mut rules: Vec<Sgd> = start.iter().map(|x| Sgd::new(scene, x.len())).collect();
    let mut g: Vec<Vector> = start.iter().map(|x| Vector::zeros(x.len())).collect();
    let mut at = vec![0; n];
    let mut all = Replay { x: start, read: BTreeMap::new(), kept: BTreeMap::new(), averaged: vec![] };
    let head = |at: &[usize], rank: usize| orders[rank].get(at[rank]).map(|record| record.act);
    loop {
        let mut moved = false;
        for rank in 0..n {
            match head(&at, rank) {
                Some(GossipAct::Read { step }) => {
                    let mut x = all.x[rank].clone();
                    x.add(&g[rank]);
                    all.read.insert((rank, step), x);
                }
                Some(GossipAct::Kept { samples }) => {
                    let mut x = all.x[rank].clone();
                    x.add(&g[rank]);
                    all.kept.insert((rank, samples), x);
                }
                Some(GossipAct::Added { step, samples }) => {
                    let w = &all.read[&(rank, step)];
                    let gradient = gradient(learner, w, &plan.sampler.batch(step, rank));
                    let mut moved = w.clone();
                    rules[rank].step(&mut moved, &gradient, plan.learning_rate.at(samples));
                    let rate = plan.learning_rate.at(samples);
                    let steps: Vec<f32> = rules[rank].v.iter().map(|v| -rate * v).collect();
                    g[rank].add(&steps);
                }
                Some(GossipAct::Flushed) => {
                    let buffer = std::mem::replace(&mut g[rank], Vector::zeros(all.x[rank].len()));
                    all.x[rank].add(&buffer);
                }
                Some(GossipAct::Averaged { peer, number }) => {
                    let other = peer.index();
                    let answer = GossipAct::Averaged { peer: Rank(rank as u32), number };
                    if rank % 2 == 1 || head(&at, other) != Some(answer) {
                        continue;
                    }
                    let before = all.x.clone();
                    // Each end takes the mean of its own model and of what came of the other's.
                    let travelled =
                        |x: f32| if scene.spec.compression == Compression::None { x } else { half(x) };
                    let mean = |own: usize, other: usize| -> Vector {
                        let both = before[own].iter().zip(before[other].iter());
                        both.map(|(own, other)| own / 2.0 + travelled(*other) / 2.0)
                            .collect::<Vec<_>>()
                            .into()
                    };
                    (all.x[rank], all.x[other]) = (mean(rank, other), mean(other, rank));
                    at[other] += 1;
                    all.averaged.push((rank, other, before, all.x.clone()));
                }
                None => continue,
            }
            at[rank] += 1;
            moved = true;
        }
        if !moved {
            break;
        }
    }
    assert!((0..n).all(|rank| at[rank] == orders[rank].len()), "the records contradict each other");
    all
}

pub(crate) fn cases() -> impl Iterator<Item = (Strategy, u32)> {
    let kinds = [pairs as fn(Topology) -> Strategy, continuous];
    let graphs = |n: u32| {
        let all = [Topology::Ring, Topology::Complete, Topology::Exponential, Topology::ExponentialWide];
        let any = [Topology::Ring, Topology::Complete];
        all.into_iter().filter(move |topology| any.contains(topology) || n.is_multiple_of(2) || n == 1)
    };
    let sizes = [1, 2, 3, 4, 5, 8];
    sizes.into_iter().flat_map(move |n| {
        graphs(n).flat_map(move |topology| kinds.into_iter().map(move |kind| (kind(topology), n)))
    })
}

#[test]
fn a_run_is_replayed_from_its_records_to_equal_bits() {
    let mut orders = std::collections::BTreeSet::new();
    for (strategy, workers) in cases() {
        for seed in 1..=3 {
            let scene = scene(strategy.clone(), workers, seed);
            let outcome = scene.run();
            let start = vec![scene.learner().initial(); workers as usize];
            let replayed = replay(&scene, &mut scene.learner(), start, &outcome);
            for (rank, x) in replayed.x.iter().enumerate() {
                let what = format!("{strategy:?} {workers}, seed {seed}, rank {rank}");
                assert_eq!(outcome.ranks[rank].model().sha256(), x.sha256(), "{what}");
            }
            let told = averagings(&outcome);
            assert_eq!(told.len(), replayed.averaged.len());
            orders.insert((workers, told.iter().map(|one| (one.rank, one.peer)).collect::<Vec<_>>()));
        }
    }
    assert!(orders.len() > 30, "only {} orders were tried", orders.len());
}

/// One process that draws its samples at its own pace.
#[test]
fn one_worker_is_plain_sgd() {
    for strategy in [pairs(Topology::Ring), continuous(Topology::Complete), pairs(Topology::Exponential)] {
        let scene = scene(strategy, 1, 1);
        let outcome = scene.run();
        let plan = scene.plan();
        let mut learner = scene.learner();
        let mut w = learner.initial();
        let mut rule = Sgd::new(&scene, w.len());
        for t in 1..=12 {
            let g = gradient(&mut learner, &w, &plan.sampler.batch(t, 0));
            rule.step(&mut w, &g, plan.learning_rate.at(2 * (t - 1)));
        }
        assert_eq!(outcome.ranks[0].model().sha256(), w.sha256());
        assert_eq!(outcome.messages, 0);
    }
}

/// A worker that begins with a model of its own.
struct Apart {
    worker: Worker,
    own: Vec<f32>,
}

impl strategies::Trainer for Apart {
    fn start(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        self.worker.start(ctx)?;
        ctx.weights_mut().copy_from_slice(&self.own);
        self.worker.begin(ctx);
        Ok(())
    }
    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        self.worker.step(ctx)
    }
    fn progress(&self, ctx: &WorkerContext) -> strategies::Progress {
        self.worker.progress(ctx)
    }
    fn finish(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        self.worker.finish(ctx)
    }
    fn model<'a>(&'a self, ctx: &'a WorkerContext) -> std::borrow::Cow<'a, Vector> {
        self.worker.model(ctx)
    }
}

/// A run from models of their own on; the loss is x^2 / 2.
fn apart(scene: &Scene, topology: Topology, start: &dyn Fn(usize) -> Vec<f32>) -> WorldOutcome {
    let workers = scene.spec.cluster.workers() as usize;
    let length = start(0).len();
    let graph = Graph::bipartite(topology, workers);
    let blueprint = Blueprint::new(&scene.spec, scene.plan(), length);
    let learner = |_| Box::new(Quadratic::new(1.0, vec![0.0; length], 1)) as Box<dyn Learner>;
    let roles = |rank: Rank, runtime: &dyn Runtime, _: &_| {
        let me = rank.index();
        let neighbours: Vec<GroupRank> = graph.neighbours(me).map(GroupRank).collect();
        let lanes = if me.is_multiple_of(2) { neighbours.len().min(1) } else { neighbours.len() };
        let local = Local::new(workers, lanes, runtime.bell(format!("model of rank {me}")));
        let services: Vec<Box<dyn Service>> = if me.is_multiple_of(2) {
            vec![Box::new(Active::new(local.clone(), Averaging::EachStep, neighbours, length))]
        } else {
            let passive = |place| Box::new(Passive::new(local.clone(), place, length)) as _;
            neighbours.into_iter().map(passive).collect()
        };
        let trainer = Apart { worker: Worker::new(local), own: start(me) };
        Roles { trainer: Some(Box::new(trainer)), services, ..Roles::default() }
    };
    scene.world.run_roles(&blueprint, learner, roles).unwrap()
}

/// Whole numbers, halved a few times: nothing is rounded.
#[test]
fn without_a_rate_averaging_keeps_the_mean_and_lowers_the_spread_exactly() {
    for (topology, workers) in [
        (Topology::Ring, 2),
        (Topology::Ring, 3),
        (Topology::Ring, 4),
        (Topology::Ring, 7),
        (Topology::Complete, 5),
        (Topology::Exponential, 8),
    ] {
        for seed in 0..10 {
            let scene = scene(pairs(topology), workers, seed).change(|spec| {
                spec.train.length = Extent::Steps(3);
                spec.train.optimizer = recipe::OptimizerSettings::sgd(0.0);
            });
            let start = |i: usize| vec![(2 * workers) as f32 * i as f32];
            let outcome = apart(&scene, topology, &start);
            let mean = f64::from(workers * (workers - 1));
            let begin = (0..workers as usize).map(|i| Vector::from(start(i))).collect();
            let mut learner = Quadratic::new(1.0, vec![0.0], 1);
            let replayed = replay(&scene, &mut learner, begin, &outcome);
            let spread = |x: &[Vector]| -> f64 { x.iter().map(|x| (f64::from(x[0]) - mean).powi(2)).sum() };
            assert!(replayed.averaged.len() >= 3, "{}", replayed.averaged.len());
            for (i, j, before, after) in &replayed.averaged {
                let lost = (f64::from(before[*i][0]) - f64::from(before[*j][0])).powi(2) / 2.0;
                let [was, is] = [before, after].map(|x| spread(x));
                assert_eq!((was - is).to_bits(), lost.to_bits(), "{topology:?} {workers} {seed}");
            }
            let models: Vec<f32> = outcome.ranks.iter().map(|rank| rank.model()[0]).collect();
            let sum: f64 = models.iter().map(|x| f64::from(*x)).sum();
            assert_eq!(sum.to_bits(), (mean * f64::from(workers)).to_bits());
            assert!(models.iter().zip(&replayed.x).all(|(a, b)| a.to_bits() == b[0].to_bits()));
        }
    }
}

/// Two workers, one of 50 us per step and one of 70, with rate 1/2 on x^2 / 2. Each gradient is of the model that was
/// read, and is applied after what was averaged meanwhile.
#[test]
fn gradients_of_old_models_are_applied_after_averaging() {
    let mut scene = Scene::new(pairs(Topology::Ring), 2).change(|spec| {
        spec.train.optimizer.lr = 0.5;
        spec.train.length = Extent::Steps(2);
    });
    scene.world.costs = Costs { forward: vec![Nanos(50_000)], ..Costs::default() };
    scene.world.slow.insert(Rank(1), 1.4);
    let start = |i: usize| vec![[8.0, 16.0][i]];
    let outcome = apart(&scene, Topology::Ring, &start);
    let begin = (0..2).map(|i| Vector::from(start(i))).collect();
    let replayed = replay(&scene, &mut Quadratic::new(1.0, vec![0.0], 1), begin, &outcome);
    // us  rank 0                      rank 1
    //  0  reads 8                     reads 16
    // 50  x = 8 - 4 = 4, reads 4
    // 52  both have (4 + 16) / 2 = 10
    // 70                              g = -8, reads 10 - 8 = 2
    // 100 x = 10 - 2 = 8, reads 8
    // 102 both have (8 + 10 - 8) / 2 = 5
    // 140                             g = -1; knows of 8 + 8 samples, the budget
    // 150 x = 5 - 4 = 1; knows of 12 + 4
    // 152 both have (1 + 5 - 1) / 2 = 2.5
    let read = |rank: usize| -> Vec<f32> {
        let of = replayed.read.iter().filter(|((own, _), _)| *own == rank);
        of.map(|(_, x)| x[0]).collect()
    };
    assert_eq!(read(0), [8.0, 4.0, 8.0]);
    assert_eq!(read(1), [16.0, 2.0]);
    let after: Vec<f32> = replayed.averaged.iter().map(|(.., after)| after[0][0]).collect();
    assert_eq!(after, [10.0, 5.0, 2.5]);
    for rank in &outcome.ranks {
        assert_eq!(rank.model()[0].to_bits(), 2.5_f32.to_bits());
    }
}

#[test]
fn neighbours_are_drawn_uniformly() {
    // The 99.9th percentiles of chi-square with 1, 2, 4 and 7 degrees of freedom.
    for (of, limit) in [(2, 10.83), (3, 13.82), (5, 18.47), (8, 24.32)] {
        for rank in [0, 2, 30] {
            let mut counts = vec![0_u32; of];
            (1..=100_000).for_each(|number| counts[neighbour(7, Rank(rank), number, of)] += 1);
            let expected = 1e5 / of as f64;
            let squares = counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected);
            let chi: f64 = squares.sum();
            assert!(chi < limit, "{of}: {chi}");
        }
    }
    let draws = |seed, rank| -> Vec<usize> {
        (1..=64).map(|number| neighbour(seed, Rank(rank), number, 4)).collect()
    };
    assert!(draws(1, 0) != draws(2, 0) && draws(1, 0) != draws(1, 2) && draws(3, 4) == draws(3, 4));
}

/// Both models of a pair travel in 16 bits, and each end takes the mean with its own in full: replayed to equal bits.
#[test]
fn each_end_averages_its_own_model_with_a_coded_one() {
    for (strategy, workers) in cases().filter(|(_, workers)| *workers > 1) {
        let exact = scene(strategy.clone(), workers, 1);
        let exact_bytes = exact.run().bytes;
        let coded = exact.change(|spec| {
            spec.compression =
                Compression::Coded { codec: Codec::Fp16, parameters: true, error_feedback: false };
        });
        let outcome = coded.run();
        let start = vec![coded.learner().initial(); workers as usize];
        let replayed = replay(&coded, &mut coded.learner(), start, &outcome);
        assert!(!replayed.averaged.is_empty());
        for (rank, x) in replayed.x.iter().enumerate() {
            assert_eq!(
                outcome.ranks[rank].model().sha256(),
                x.sha256(),
                "{strategy:?} {workers}, rank {rank}"
            );
        }
        assert!(outcome.bytes < exact_bytes * 8 / 10, "{strategy:?} {workers}");
    }
}
