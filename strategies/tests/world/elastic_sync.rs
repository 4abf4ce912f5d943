//! Synchronous elastic averaging: three variants with the same bits and times of their own.

use crate::elastic::{Size, TARGETS, fixed, nudged};
use crate::reference::gradient;
use crate::scene::{Scene, digests};
use recipe::{Extent, LrShape, MovingRate, Schedule, Strategy, SyncVariant};
use record::{Event, Nanos, Rank, SnapshotGroup, SnapshotRecord, Standing};
use strategies::sim::{Costs, World, WorldOutcome};
use strategies::toy::Quadratic;
use strategies::{Blueprint, Learner, Vector};

const VARIANTS: [SyncVariant; 3] = [SyncVariant::Master, SyncVariant::FirstWorker, SyncVariant::Overlapped];

fn sync(variant: SyncVariant, moving_rate: MovingRate) -> Strategy {
    Strategy::EasgdSync { moving_rate, variant }
}

/// Which rank has the centre.
fn home(variant: SyncVariant, workers: usize) -> usize {
    if variant == SyncVariant::Master { workers } else { 0 }
}

fn scene(variant: SyncVariant, workers: u32) -> Scene {
    Scene::new(sync(variant, MovingRate::Rho(1.5)), workers).change(|spec| {
        spec.train.global_batch = 10;
        spec.train.length = Extent::Steps(12);
        spec.train.optimizer.weight_decay = 0.01;
        spec.train.schedule.shape = LrShape::Step { every: Extent::Steps(4), factor: 0.5 };
    })
}

/// p = 4, a = 1/8, x = 0, 4, 8, 20, c = 2: after three rounds c = 419/64, and the sum is still 34.
#[test]
fn the_worked_example_comes_out_exactly() {
    for variant in VARIANTS {
        let outcome =
            nudged(sync(variant, fixed(0.125)), &TARGETS, 0.0, Size { steps: 4, weights: 5 }, World::new(1));
        let centre = outcome.ranks[home(variant, 4)].model()[0];
        assert_eq!(centre.to_bits(), (419.0_f32 / 64.0).to_bits(), "{variant:?}");
    }
    let outcome = nudged(
        sync(SyncVariant::Master, fixed(0.125)),
        &TARGETS,
        0.0,
        Size { steps: 4, weights: 5 },
        World::new(1),
    );
    for step in 1..=4 {
        let sum: f32 = outcome.ranks.iter().map(|rank| rank.weights[&step][0]).sum();
        assert_eq!(sum.to_bits(), 34.0_f32.to_bits(), "after step {step}");
    }
}

#[test]
fn at_moving_rate_1_one_worker_and_the_centre_swap() {
    for variant in VARIANTS {
        for (steps, expected) in [(1, 2.0_f32), (2, 8.0), (3, 2.0)] {
            let outcome =
                nudged(sync(variant, fixed(1.0)), &[8.0], 0.0, Size { steps, weights: 3 }, World::new(1));
            let centre = outcome.ranks[home(variant, 1)].model()[0];
            assert_eq!(centre.to_bits(), expected.to_bits(), "{variant:?}, {steps} steps");
        }
    }
}

/// On h x^2 / 2 with rate * h = 1/4 and a = 1/4: (mean, centre) follow [[1/2, 1/4], [1, 0]], and what a worker is
/// apart from the mean halves in every step.
#[test]
fn mean_and_centre_follow_their_matrix_and_disagreement_decays() {
    let outcome = nudged(
        sync(SyncVariant::Master, fixed(0.25)),
        &TARGETS,
        0.25,
        Size { steps: 6, weights: 1 },
        World::new(1),
    );
    let at = |rank: usize, step: u64| outcome.ranks[rank].weights[&step][0];
    let mean = |step| (0..4).map(|rank| at(rank, step)).sum::<f32>() / 4.0;
    for step in 1..6 {
        assert_eq!(mean(step + 1).to_bits(), (mean(step) / 2.0 + at(4, step) / 4.0).to_bits(), "step {step}");
        assert_eq!(at(4, step + 1).to_bits(), mean(step).to_bits(), "step {step}");
        for rank in 0..4 {
            let apart = |step| at(rank, step) - mean(step);
            assert_eq!(apart(step + 1).to_bits(), (apart(step) / 2.0).to_bits(), "rank {rank}, step {step}");
        }
    }
}

/// Algorithm 2 in plain code. The weights of all workers, and the centre.
fn reference(scene: &Scene) -> (Vec<Vec<f32>>, Vec<f32>) {
    let plan = scene.plan();
    let mut learner = scene.learner();
    let Strategy::EasgdSync { moving_rate, .. } = scene.spec.strategy else { unreachable!() };
    let p = plan.workers();
    let decay = scene.spec.train.optimizer.weight_decay;
    let mut c = learner.initial().into_inner();
    let mut workers = vec![c.clone(); p];
    for t in 1..=plan.budget.steps() {
        let rate = plan.learning_rate.at(plan.budget.samples_after(t - 1));
        let a = moving_rate.at(rate, p);
        let mut sums = workers.clone();
        for far in (0..).map(|i| 1 << i).take_while(|far| *far < p) {
            for k in (0..p - far).step_by(2 * far) {
                let other = sums[k + far].clone();
                sums[k].iter_mut().zip(other).for_each(|(sum, x)| *sum += x);
            }
        }
        for (k, worker) in workers.iter_mut().enumerate() {
            let x = Vector::from(worker.clone());
            let g = gradient(&mut learner, &x, &plan.sampler.batch(t, k));
            for i in 0..c.len() {
                worker[i] = (x[i] - rate * (g[i] + decay * x[i])) - a * (x[i] - c[i]);
            }
        }
        for (c, sum) in c.iter_mut().zip(&sums[0]) {
            *c += a * (sum - p as f32 * *c);
        }
    }
    (workers, c)
}

#[test]
fn all_variants_end_with_the_bits_of_the_plain_code() {
    for workers in [1, 2, 3, 4, 5, 8] {
        let expected = reference(&scene(SyncVariant::Master, workers));
        let schedules = [Schedule::Single, Schedule::PerLayer, Schedule::Fixed { bytes: 100 }];
        for (variant, schedule) in VARIANTS.iter().flat_map(|variant| schedules.map(|one| (*variant, one))) {
            for seed in 1..4 {
                let mut scene = scene(variant, workers).seed(seed);
                scene.spec.communication.schedule = schedule;
                scene.world.jitter = 1.0;
                scene.world.slow.insert(Rank(0), 3.0);
                scene.world.costs =
                    Costs { forward: vec![Nanos(700), Nanos(300)], update: 5.0, ..Costs::default() };
                let outcome = scene.run();
                let home = home(variant, workers as usize);
                let what = format!("{variant:?}, {schedule:?}, {workers} workers, seed {seed}");
                let sha = |x: &[f32]| Vector::from(x.to_vec()).sha256();
                assert_eq!(outcome.ranks[home].model().sha256(), sha(&expected.1), "{what}");
                for k in 0..workers as usize {
                    // Beside the centre is the model that the worker itself ends with, its last pull included.
                    let beside = outcome.ranks[k].beside.values().last().filter(|_| k == home);
                    let own = beside.unwrap_or_else(|| outcome.ranks[k].model());
                    assert_eq!(beside.is_some(), k == home, "{what}, worker {k}");
                    assert_eq!(own.sha256(), sha(&expected.0[k]), "{what}, worker {k}");
                }
            }
        }
    }
}

/// Hash for hash after every step, also where a code loses something on the way.
#[test]
fn the_variants_have_one_hash_in_every_step() {
    for codec in [None, Some(recipe::Codec::Fp16)] {
        let hashes = |variant| {
            let scene = scene(variant, 4).change(|spec| {
                if let Some(codec) = codec {
                    spec.compression =
                        recipe::Compression::Coded { codec, parameters: true, error_feedback: false };
                }
            });
            let all = digests(&scene.run());
            // Of worker 0 only variant 1 shows its own weights.
            (all[home(variant, 4)].clone(), all[1..4].to_vec())
        };
        let [first, second, third] = VARIANTS.map(hashes);
        assert_eq!(first.0.len(), 13);
        assert!(first == second && second == third, "{codec:?}");
    }
}

/// A run of equal steps: its time, and the workers' samples.
fn timed(strategy: Strategy, workers: u32, steps: u64, costs: &Costs) -> WorldOutcome {
    let mut scene = Scene::new(strategy, workers).change(|spec| {
        spec.train.length = Extent::Steps(steps);
        spec.train.optimizer.lr = 0.25;
        spec.measure.hash_every_step = false;
    });
    scene.world = World {
        costs: costs.clone(),
        link: strategies::sim::Link { latency: Nanos(1_000), nanos_per_byte: 0.5 },
        ..World::new(1)
    };
    let blueprint = Blueprint::new(&scene.spec, scene.plan(), 10_000);
    let learner = |_| Box::new(Quadratic::new(1.0, vec![1.0; 10_000], 1)) as Box<dyn Learner>;
    scene.world.run(&blueprint, learner).unwrap()
}

const STEPS: u64 = 10;
const LATENCY: u64 = 1_000;
/// 10000 weights at half a nanosecond per byte.
const TRANSFER: u64 = 20_000;
const COMPUTE: u64 = 150_000;

fn compute() -> Costs {
    Costs { forward: vec![Nanos(COMPUTE)], ..Costs::default() }
}

/// With log2 p levels, a step takes
/// - variant 2: computing, the centre down and the sum up: C + 2 log2 p (alpha + n beta);
/// - variant 1: a word and a transfer more between worker 0 and the master: the sum is under way to it while the
///   workers compute again;
/// - variant 3: the longer of computing and of communicating, both ways at once;
/// - the original, for as many samples: p turns, each of two words and the longer of computing and a transfer.
#[test]
fn steps_take_what_the_algorithms_say() {
    let time = |strategy, workers| timed(strategy, workers, STEPS, &compute()).time.0;
    let within = |measured: u64, expected: u64, what: &str| {
        // Words of a few bytes, and one way at the end.
        let slack = STEPS * 100 + 2 * LATENCY + TRANSFER;
        assert!(measured.abs_diff(expected) <= slack, "{what}: {measured} instead of {expected}");
    };
    let a = fixed(0.0625);
    for (workers, levels) in [(2, 1), (4, 2), (8, 3)] {
        let travel = 2 * levels * (LATENCY + TRANSFER);
        let second = time(sync(SyncVariant::FirstWorker, a), workers);
        within(second, STEPS * (COMPUTE + travel), "variant 2");
        let first = time(sync(SyncVariant::Master, a), workers);
        within(first, STEPS * (COMPUTE + travel + 2 * LATENCY + TRANSFER), "variant 1");
        let third = time(sync(SyncVariant::Overlapped, a), workers);
        within(third, STEPS * COMPUTE, "variant 3");
        let turns = STEPS * u64::from(workers);
        let original = |overlap| time(Strategy::EasgdOriginal { moving_rate: a, overlap }, workers);
        let overlapped = original(true);
        let plain = original(false);
        assert!(
            overlapped.abs_diff(turns * (2 * LATENCY + COMPUTE)) <= turns * 100 + TRANSFER,
            "{overlapped}"
        );
        assert!(
            plain.abs_diff(turns * (2 * LATENCY + COMPUTE + 2 * TRANSFER)) <= turns * 100 + TRANSFER,
            "{plain}"
        );
        assert!(third < second && second < first && first < overlapped && overlapped < plain);
    }
}

/// Where the transfers take longer, they are what a step of variant 3 takes: of four workers the one in the middle sends
/// twice, up when its child's weights have come, and down. One way after the other would take four messages' time.
#[test]
fn a_short_computation_hides_behind_the_transfers() {
    let costs = Costs { forward: vec![Nanos(10_000)], ..Costs::default() };
    let time = timed(sync(SyncVariant::Overlapped, fixed(0.125)), 4, STEPS, &costs).time.0;
    assert!(
        time.abs_diff(STEPS * 3 * (LATENCY + TRANSFER)) <= STEPS * 100 + 2 * LATENCY + TRANSFER,
        "{time}"
    );
}

/// Every worker's own model is compared, also the one beside the centre, which stands for its rank.
#[test]
fn all_variants_put_the_same_models_aside() {
    for variant in VARIANTS {
        let outcome = scene(variant, 3).run();
        let marks = scene(variant, 3).plan().evaluations.count() + 2;
        let home = home(variant, 3);
        for (rank, events) in outcome.ranks.iter().map(|rank| &rank.events).enumerate() {
            let copies: Vec<&SnapshotRecord> = events
                .iter()
                .filter_map(|event| if let Event::Snapshot(copy) = event { Some(copy) } else { None })
                .collect();
            let centres = copies.iter().filter(|copy| copy.model == "centre");
            let is_judged = |copy: &SnapshotRecord| copy.standing == Standing::Judged && copy.digested;
            let judged = centres.filter(|copy| is_judged(copy) && copy.group.is_none()).count() as u64;
            assert_eq!(judged, if rank == home { marks } else { 0 }, "{variant:?}, rank {rank}");
            let own = copies.iter().filter(|copy| copy.model == format!("rank {rank}"));
            let standing = if rank == 0 { Standing::Beside } else { Standing::Member };
            let group = Some(SnapshotGroup { size: 3, judged: false });
            let is_own = |copy: &SnapshotRecord| copy.standing == standing && copy.group == group;
            let compared = own.filter(|copy| is_own(copy) && copy.digested == (rank != home)).count() as u64;
            assert_eq!(compared, if rank < 3 { marks } else { 0 }, "{variant:?}, rank {rank}");
            assert_eq!(copies.len() as u64, judged + compared, "{variant:?}, rank {rank}");
        }
    }
}
