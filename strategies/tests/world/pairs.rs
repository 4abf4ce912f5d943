//! Pairs that average whenever they are ready: replayed from what they wrote down, with hand tables and stragglers.

use crate::reference::{Sgd, gradient};
use crate::scene::Scene;
use recipe::{Averaging, Codec, Compression, Extent, Graph, LrShape, Strategy, Topology};
use record::{AveragedRecord, Event, GossipAct, GossipRecord, LaneId, Nanos, Rank, SnapshotRecord};
use std::collections::BTreeMap;
use strategies::algorithm::ad_psgd::{Active, Passive, Worker};
use strategies::gossip::{Local, neighbour};
use strategies::sim::{Costs, Outcome};
use strategies::toy::Quadratic;
use strategies::{
    Blueprint, GroupRank, Learner, Loss, Roles, Runtime, Service, StepError, Vector, WorkerContext,
};

pub(crate) fn pairs(topology: Topology) -> Strategy {
    Strategy::AdPsgd { topology, averaging: Averaging::EachStep }
}

fn continuous(topology: Topology) -> Strategy {
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

pub(crate) fn acts(outcome: &Outcome, rank: usize) -> Vec<GossipRecord> {
    let of = outcome.ranks[rank].events.iter().filter_map(|event| match event {
        Event::Gossip(record) => Some(record.clone()),
        _ => None,
    });
    let mut acts: Vec<GossipRecord> = of.collect();
    acts.sort_by_key(|record| record.sequence);
    assert!(acts.iter().zip(1..).all(|(record, number)| record.sequence == number));
    acts
}

fn averagings(outcome: &Outcome) -> Vec<AveragedRecord> {
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

/// What doing as the records say comes to.
struct Replay {
    x: Vec<Vector>,
    /// What each gradient was computed with.
    read: BTreeMap<(usize, u64), Vector>,
    /// What was put aside when all ranks had consumed that many samples.
    kept: BTreeMap<(usize, u64), Vector>,
    /// All models before and after each averaging, with the pair.
    averaged: Vec<(usize, usize, Vec<Vector>, Vec<Vector>)>,
}

/// Does what the records say and nothing else.
fn replay(scene: &Scene, learner: &mut dyn Learner, start: Vec<Vector>, outcome: &Outcome) -> Replay {
    let (plan, n) = (scene.plan(), start.len());
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
        let (plan, mut learner) = (scene.plan(), scene.learner());
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

impl strategies::Strategy for Apart {
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
fn apart(scene: &Scene, topology: Topology, start: &dyn Fn(usize) -> Vec<f32>) -> Outcome {
    let (workers, length) = (scene.spec.cluster.workers() as usize, start(0).len());
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
                spec.train.optimizer = recipe::Sgd { lr: 0.0, momentum: 0.0, weight_decay: 0.0, clip: None };
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

/// Steps that a lane took, without the last entry of the books.
pub(crate) fn steps(outcome: &Outcome, rank: usize) -> Vec<&record::StepRecord> {
    let steps = outcome.ranks[rank].steps(LaneId::Compute);
    steps.into_iter().filter(|step| !step.drain).collect()
}

pub(crate) fn used(outcome: &Outcome) -> u64 {
    let ranks = 0..outcome.ranks.len();
    ranks.flat_map(|rank| steps(outcome, rank)).map(|step| u64::from(step.own_samples)).sum()
}

#[test]
fn nobody_is_left_out() {
    for (topology, workers) in [(Topology::Ring, 8), (Topology::Complete, 8), (Topology::Exponential, 16)] {
        let scene = scene(pairs(topology), workers, 1).change(|spec| spec.train.length = Extent::Steps(60));
        let outcome = scene.run();
        let graph = Graph::bipartite(topology, workers as usize);
        let all = averagings(&outcome);
        for active in (0..workers).step_by(2) {
            let own: Vec<Rank> =
                all.iter().filter(|one| one.rank == Rank(active)).map(|one| one.peer).collect();
            for passive in graph.neighbours(active as usize) {
                let served: Vec<usize> =
                    (0..own.len()).filter(|number| own[*number].index() == passive).collect();
                let gaps = served.windows(2).map(|two| two[1] - two[0]);
                let longest = gaps.chain(served.first().copied()).max().unwrap();
                let degree = graph.neighbours(active as usize).len();
                assert!(longest <= 10 * degree, "{topology:?}: {active} left {passive} out {longest} times");
            }
        }
    }
}

/// Whichever rank is slow, active or passive, all end, and consume less than one step more than the budget.
#[test]
fn a_run_ends_whoever_is_slow() {
    for (strategy, workers) in cases().filter(|(_, workers)| *workers > 1) {
        for slow in 0..workers.min(4) {
            for factor in [10.0, 100.0] {
                let mut scene = scene(strategy.clone(), workers, u64::from(slow));
                scene.world.slow = [(Rank(slow), factor)].into();
                let (outcome, budget) = (scene.run(), scene.plan().budget.samples());
                let what = format!("{strategy:?} {workers}, rank {slow} by {factor}");
                // Each step takes 2 samples.
                let used = used(&outcome);
                assert!((budget..budget + 2).contains(&used), "{what}: {used} samples of {budget}");
            }
        }
    }
}

/// Snapshots that a rank made when a mark was reached.
fn marks(outcome: &Outcome, rank: usize) -> Vec<&SnapshotRecord> {
    let snapshots = outcome.ranks[rank].events.iter().filter_map(|event| match event {
        Event::Snapshot(snapshot) => Some(snapshot),
        _ => None,
    });
    snapshots.filter(|snapshot| snapshot.mark > 0 && !snapshot.last).collect()
}

/// One rank is a hundred times as slow as the others and ends a step or two in the whole run. At each mark all ranks put
/// aside what they hold when the step ends with which the mark is reached, and the curve has all its points.
#[test]
fn what_is_evaluated_is_what_all_ranks_hold_when_the_mark_is_reached() {
    for (strategy, workers, slow) in [
        (pairs(Topology::Ring), 16, 0),
        (pairs(Topology::Exponential), 16, 1),
        (continuous(Topology::Ring), 8, 2),
        (pairs(Topology::Complete), 3, 1),
    ] {
        let mut scene = scene(strategy.clone(), workers, 1).change(|spec| {
            spec.train.length = Extent::Steps(40);
            spec.train.evaluate = Extent::Steps(1);
        });
        scene.world.slow = [(Rank(slow), 100.0)].into();
        let (outcome, plan) = (scene.run(), scene.plan());
        let start = vec![scene.learner().initial(); workers as usize];
        let kept = replay(&scene, &mut scene.learner(), start, &outcome).kept;
        // When each step of any rank ended, and the samples of all steps that had ended by then.
        let ranks = 0..workers as usize;
        let all = ranks.clone().flat_map(|rank| steps(&outcome, rank));
        let mut ends: Vec<(Nanos, u64)> =
            all.map(|step| (step.begin + step.length, u64::from(step.own_samples))).collect();
        ends.sort_unstable();
        let mut samples = 0;
        let reached: Vec<(u64, u64, Nanos)> = ends
            .iter()
            .filter_map(|(at, own)| {
                let before = plan.evaluations.last(samples);
                samples += own;
                (plan.evaluations.last(samples) > before)
                    .then(|| (plan.evaluations.last(samples), samples, *at))
            })
            .collect();
        assert!(reached.len() >= 36, "{strategy:?}: {} marks", reached.len());
        for rank in ranks {
            let what = format!("{strategy:?} {workers}, rank {rank}");
            let made = marks(&outcome, rank);
            let seen: Vec<_> = made.iter().map(|made| (made.mark, made.samples, made.at)).collect();
            assert_eq!(seen, reached, "{what}");
            for made in made {
                assert_eq!(made.sha256, kept[&(rank, made.samples)].sha256(), "{what}, mark {}", made.mark);
            }
        }
        assert!(steps(&outcome, slow as usize).len() <= 2, "{strategy:?}");
    }
}

/// The other ranks do not notice one that is s times slower, and a pass takes n / (n - 1 + 1 / s) times as long.
#[test]
fn a_straggler_holds_nobody_up() {
    for (workers, slow) in [(4, 10.0), (4, 2.0), (8, 10.0), (16, 10.0), (5, 4.0)] {
        let run = |factor: f64, straggler: u32| {
            let mut scene = scene(pairs(Topology::Ring), workers, 1).change(|spec| {
                spec.train.length = Extent::Steps(100);
                spec.train.optimizer.lr = 0.001;
            });
            scene.world.jitter = 0.0;
            scene.world.slow = [(Rank(straggler), factor)].into();
            scene.run()
        };
        let others = |outcome: &Outcome, straggler: usize| {
            let ranks = (0..workers as usize).filter(move |rank| *rank != straggler);
            let lengths = ranks.flat_map(|rank| steps(outcome, rank)[1..50].to_vec()).map(|step| step.length);
            lengths.max().unwrap()
        };
        for straggler in [0, 1] {
            let (even, uneven) = (run(1.0, straggler), run(slow, straggler));
            let [fast, held] = [&even, &uneven].map(|outcome| others(outcome, straggler as usize));
            assert_eq!(fast, held, "{workers} with one {slow} times slower");
            // The moment when the others knew that all was done.
            let end = |outcome: &Outcome| {
                let last = |rank| steps(outcome, rank).last().map(|step| step.begin + step.length).unwrap();
                let ranks = (0..workers as usize).filter(|rank| *rank != straggler as usize);
                ranks.map(last).max().unwrap().0 as f64
            };
            let n = f64::from(workers);
            let ratio = end(&uneven) / end(&even) * (n - 1.0 + 1.0 / slow) / n;
            assert!((0.93..1.07).contains(&ratio), "{workers}, {slow}: {ratio} of what was expected");
        }
    }
}

/// An averaging is a note and a model there and back, and a note to each other neighbour; at the end, a note to all. Each
/// step is claimed, granted and finished, and each worker says that it has ended, which is replied to; each mark, and that none follows, is told to all.
#[test]
fn messages_are_the_stated_ones() {
    for (topology, workers) in [(Topology::Ring, 2), (Topology::Ring, 5), (Topology::Complete, 8)] {
        let outcome = scene(pairs(topology), workers, 1).run();
        let graph = Graph::bipartite(topology, workers as usize);
        let of = |active: usize| {
            let (all, degree) = (averagings(&outcome), graph.neighbours(active).count());
            let own = all.iter().filter(|one| one.rank.index() == active).count();
            own * (4 + degree - 1) + degree
        };
        let expected: usize = (0..workers as usize).step_by(2).map(of).sum();
        let broadcast = workers as usize - 1;
        let claims = (0..workers as usize).map(|rank| 3 * steps(&outcome, rank).len() + 2).sum::<usize>();
        let marks = marks(&outcome, 0).len() + 1;
        let counted = claims + workers as usize * marks;
        assert_eq!(outcome.messages as usize, broadcast + expected + counted, "{topology:?} of {workers}");
    }
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
