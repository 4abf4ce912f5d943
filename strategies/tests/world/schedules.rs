//! Gradients that travel layer by layer: the same bits by every schedule, and the times that the plans promise.

use crate::scene::{Scene, common_digests};
use predict::linear::Linear;
use predict::schedule::{LayerTime, StepProfile, merged, merged_exact};
use recipe::{Codec, Collective, Compute, ComputeSplit, Extent, Network, Schedule, Slow, Strategy, Whom};
use record::{Event, LaneId, Nanos, ScheduleRecord};
use std::time::Duration;
use strategies::Learner;
use strategies::sim::{Costs, Link, World, WorldOutcome};

const SCHEDULES: [Schedule; 7] = [
    Schedule::Single,
    Schedule::PerLayer,
    Schedule::Fixed { bytes: 1 },
    Schedule::Fixed { bytes: 200 },
    Schedule::Fixed { bytes: u64::MAX },
    Schedule::Merged,
    Schedule::MergedExact,
];

fn strategies() -> [Strategy; 4] {
    let pipe = |depth, warmup| Strategy::PipeSgd { depth, warmup: Extent::Steps(warmup), segments: 1 };
    [Strategy::DSync, Strategy::PsSync, pipe(2, 3), pipe(3, 0)]
}

fn scene(strategy: Strategy, workers: u32, schedule: Schedule) -> Scene {
    Scene::new(strategy, workers).rank_order().widths(&[6, 7, 5, 4]).change(|spec| {
        spec.communication.schedule = schedule;
        spec.train.optimizer.momentum = 0.5;
        spec.train.optimizer.weight_decay = 0.01;
        spec.train.length = Extent::Steps(14);
    })
}

/// A network and a computing time of their own: 12 ms per step, by the layers' sizes.
fn timed(strategy: Strategy, schedule: Schedule, network: Network) -> Scene {
    let split = ComputeSplit::Given { forward: 0.25, backward: 0.5, update: 0.25 };
    let mut scene = scene(strategy, 4, schedule).widths(&[30, 40, 40, 40, 10]).change(|spec| {
        spec.communication.reduce_order = recipe::ReduceOrder::Ring;
        spec.train.global_batch = 16;
        spec.train.optimizer.lr = 0.001;
        spec.train.length = Extent::Steps(20);
        spec.emulation.compute = Some(Compute { step_time: Duration::from_millis(12), split });
        spec.emulation.network = Some(network);
    });
    let layers = scene.learner().layout().layers().len();
    let size = scene.learner().layout().size();
    scene.world = World::new(1).emulating(&scene.spec, 1, layers, size);
    scene
}

/// 16 Mbit/s, and so much per message.
fn network(latency: Duration) -> Network {
    Network { bandwidth: 2_000_000, latency }
}

/// Records of the schedule, which only rank 0 makes, in order.
pub(crate) fn records(outcome: &WorldOutcome) -> Vec<ScheduleRecord> {
    let all = outcome.ranks.iter().flat_map(|rank| &rank.events);
    let records = all.filter_map(|event| match event {
        Event::Schedule(record) => Some(record.clone()),
        _ => None,
    });
    records.collect()
}

/// The length of the last step of the compute lane before the pipe is drained.
pub(crate) fn last_step(outcome: &WorldOutcome) -> u64 {
    let steps = outcome.ranks[0].steps(LaneId::Compute);
    steps.iter().rev().find(|step| !step.drain).map(|step| step.length.0).unwrap()
}

#[test]
fn no_schedule_changes_a_bit_in_rank_order() {
    for strategy in strategies() {
        for workers in [1, 2, 3] {
            let single = common_digests(&scene(strategy.clone(), workers, Schedule::Single).run());
            for schedule in SCHEDULES {
                let other = common_digests(&scene(strategy.clone(), workers, schedule).run());
                assert_eq!(other, single, "{strategy:?}, {workers} workers, {schedule:?}");
            }
        }
    }
}

#[test]
fn micro_batches_clipping_and_servers_are_as_without_a_schedule() {
    let clipped = |schedule| {
        scene(Strategy::DSync, 3, schedule).change(|spec| {
            spec.train.optimizer.clip = Some(0.01);
            spec.train.accumulate = 2;
        })
    };
    let served = |schedule| {
        let mut scene = scene(Strategy::PsSync, 2, schedule);
        let server = scene.spec.cluster.placements.last().unwrap().clone();
        scene.spec.cluster.placements.extend([server.clone(), server]);
        scene.change(|spec| spec.train.accumulate = 2)
    };
    for schedule in SCHEDULES {
        let expected = common_digests(&clipped(Schedule::Single).run());
        assert_eq!(common_digests(&clipped(schedule).run()), expected, "{schedule:?}");
        let workers = |outcome: WorldOutcome| outcome.ranks[0].model().sha256();
        let expected = workers(served(Schedule::Single).run());
        assert_eq!(workers(served(schedule).run()), expected, "three servers, {schedule:?}");
    }
}

/// Elements of each bucket, where gradients do not travel whole.
fn buckets(outcome: &WorldOutcome) -> Vec<Vec<u64>> {
    let elements = |record: ScheduleRecord| record.buckets.iter().map(|bucket| bucket.elements).collect();
    records(outcome).into_iter().map(elements).collect()
}

/// Two workers and two servers that hold parts of three buckets, with room for one message on each way: the lanes that send buckets, those that
/// receive their weights, and the servers end in many orders. (All orders with one server and two buckets take half a minute: none was a deadlock.)
#[test]
fn no_seed_of_buckets_through_servers_is_a_deadlock() {
    let mut scene = Scene::new(Strategy::PsSync, 2).change(|spec| {
        spec.train.global_batch = 2;
        spec.train.length = Extent::Steps(3);
        spec.communication.schedule = Schedule::PerLayer;
        let server = spec.cluster.placements.last().unwrap().clone();
        spec.cluster.placements.push(server);
    });
    scene.world.link = Link { latency: Nanos(0), nanos_per_byte: 0.0 };
    scene.world.costs = Costs::default();
    scene.world.window = Some(1);
    for seed in 0..200 {
        scene.world.seed = seed;
        scene.run();
    }
}

/// A layer's code has a range of its own, so that codes differ with the schedule; ranks agree all the same.
#[test]
fn ranks_agree_on_coded_layers_however_little_room_there_is() {
    for strategy in strategies() {
        for (collective, codec) in [
            (Collective::PipelinedRing { segments: 3 }, Codec::Quantize8),
            (Collective::Tree, Codec::Truncate16),
            (Collective::AllGather, Codec::TopK { ratio: 0.2 }),
        ] {
            let served = matches!(strategy, Strategy::PsSync);
            for schedule in SCHEDULES {
                let mut free = scene(strategy.clone(), 4, schedule).coded(codec, true).change(|spec| {
                    if !served {
                        spec.communication.collective = collective;
                        spec.communication.reduce_order = recipe::ReduceOrder::Ring;
                    }
                });
                let roomy = free.run();
                free.world.window = Some(1);
                let tight = free.run();
                let [expected, found] = [&roomy, &tight].map(common_digests);
                // With little room, messages through servers wait for each other while a plan is measured, and it may be another one: then
                // codes of several elements at a time see other layers together.
                let same_plan = !served || buckets(&roomy) == buckets(&tight);
                if same_plan || codec == Codec::Truncate16 {
                    assert_eq!(found, expected, "{strategy:?}, {collective:?}, {schedule:?}");
                }
            }
        }
    }
}

#[test]
fn a_plan_is_from_the_constants_of_the_network() {
    for latency in [Duration::from_micros(20), Duration::from_millis(1), Duration::from_millis(8)] {
        let outcome = timed(Strategy::DSync, Schedule::MergedExact, network(latency)).run();
        let record = &records(&outcome)[0];
        let cost = record.cost.unwrap();
        // Six messages in a row around a ring of four, each of a quarter.
        let a = 6.0 * latency.as_secs_f64();
        let b = 6.0 / 4.0 / 2e6;
        assert!((cost.start_up - a).abs() < 0.02 * a.max(1e-3), "{latency:?}: {cost:?}, not {a}");
        assert!((cost.per_byte - b).abs() < 0.02 * b, "{latency:?}: {cost:?}, not {b}");
        assert!(cost.worst < 0.02, "{cost:?}");
    }
}

/// The worker that computes three times as long decides what a layer takes.
#[test]
fn a_plan_holds_what_each_layer_took() {
    let slow = Slow { whom: Whom::Rank(2), compute: 3.0, link: 1.0, probability: 1.0 };
    let mut scene = timed(Strategy::DSync, Schedule::Merged, network(Duration::from_millis(1)));
    scene.spec.emulation.slow = vec![slow];
    let count = scene.learner().layout().layers().len();
    let size = scene.learner().layout().size();
    scene.world = World::new(1).emulating(&scene.spec, 1, count, size);
    let record = &records(&scene.run())[0];
    let computed = record.cost.unwrap().computed.seconds();
    let layers: Vec<f64> = record.layers.iter().map(|time| time.seconds()).collect();
    assert_eq!(layers.len(), count);
    assert!(layers.iter().all(|time| (time - 3.0 * 6e-3 / 4.0).abs() < 1e-4), "{layers:?}");
    assert!((layers.iter().sum::<f64>() + 3.0 * 3e-3 - computed).abs() < 1e-4, "{layers:?} {computed}");
}

/// The same plan as from the constants themselves, on both sides of every crossover.
#[test]
fn a_plan_changes_where_the_constants_say() {
    let mut plans = std::collections::BTreeSet::new();
    for latency in [3, 30, 70, 110, 150, 190, 230, 330, 530, 910, 2100, 4300] {
        let network = network(Duration::from_micros(latency));
        for schedule in [Schedule::Merged, Schedule::MergedExact] {
            let run = timed(Strategy::DSync, schedule, network);
            let learner = run.learner();
            let layers = learner.layout().layers().iter().rev();
            let times: Vec<LayerTime> = layers
                .map(|layer| LayerTime { backward: 6e-3 / 4.0, bytes: 4 * layer.span.len() as u64 })
                .collect();
            let profile = StepProfile::new(3e-3, &times).unwrap();
            let cost = Linear::new(6.0 * network.latency.as_secs_f64(), 6.0 / 4.0 / 2e6).unwrap();
            let expected = match schedule {
                Schedule::Merged => merged(&profile, cost),
                _ => merged_exact(&profile, cost),
            };
            let planned: Vec<usize> =
                records(&run.run())[0].buckets.iter().map(|bucket| bucket.layers.len()).collect();
            let expected: Vec<usize> = expected.groups().map(|group| group.len()).collect();
            assert_eq!(planned, expected, "{latency} us, {schedule:?}");
            plans.insert(planned);
        }
    }
    assert!(plans.len() >= 3, "{plans:?}");
}

/// A pipeline waits for the sum of its messages: where that is more than what it computes, merging all is the shortest.
#[test]
fn a_pipeline_that_waits_sends_one_message() {
    let pipe = || Strategy::PipeSgd { depth: 2, warmup: Extent::Steps(0), segments: 1 };
    let messages = |network| {
        let all = records(&timed(pipe(), Schedule::MergedExact, network).run());
        all[0].buckets.len()
    };
    assert_eq!(messages(network(Duration::from_micros(300))), 1);
    let fast = Network { bandwidth: 200_000_000, latency: Duration::from_micros(1) };
    assert_eq!(messages(fast), 4);
}

#[test]
fn expensive_messages_are_merged_and_cheap_ones_are_not() {
    for schedule in [Schedule::Merged, Schedule::MergedExact] {
        let buckets = |network| {
            let records = records(&timed(Strategy::DSync, schedule, network).run());
            assert_eq!((records[0].from_step, records[0].steps), (9, 0));
            records[0].buckets.iter().map(|bucket| bucket.layers.len()).collect::<Vec<_>>()
        };
        let fast = Network { bandwidth: 200_000_000, latency: Duration::from_micros(1) };
        assert_eq!(buckets(fast), [1, 1, 1, 1], "{schedule:?}");
        assert_eq!(buckets(network(Duration::from_millis(50))), [4], "{schedule:?}");
    }
}

#[test]
fn messages_travel_when_the_plan_says() {
    for latency in [100, 300, 1000] {
        let network = network(Duration::from_micros(latency));
        let all = records(&timed(Strategy::DSync, Schedule::MergedExact, network).run());
        assert_eq!(all.len(), 2, "when it is decided, and at the end");
        assert_eq!(all[1].steps, 12);
        for bucket in &all[1].buckets {
            let predicted = bucket.predicted.unwrap();
            let measured = bucket.measured.unwrap();
            for (predicted, measured) in [(predicted.0, measured.0), (predicted.1, measured.1)] {
                let off = (predicted.seconds() - measured.seconds()).abs();
                assert!(off < 0.03 * predicted.seconds(), "{latency} us: {predicted:?} {measured:?}");
            }
        }
    }
}

#[test]
fn the_exact_plan_is_the_fastest_step() {
    for latency in [1, 100, 300, 1000, 4000] {
        let step = |schedule| {
            last_step(&timed(Strategy::DSync, schedule, network(Duration::from_micros(latency))).run())
        };
        let exact = step(Schedule::MergedExact);
        for other in SCHEDULES {
            let other_step = step(other);
            // Chunks of a ring are whole elements, and the fit is of whole nanoseconds.
            assert!(
                exact as f64 <= 1.001 * other_step as f64,
                "{latency} us: {exact}, {other:?} {other_step}"
            );
        }
    }
}

/// Each rank measures other times, and all take the plan of the first.
#[test]
fn ranks_that_measure_other_times_have_one_plan() {
    for schedule in [Schedule::Merged, Schedule::MergedExact] {
        for seed in 1..6 {
            let mut run = timed(Strategy::DSync, schedule, network(Duration::from_micros(300))).rank_order();
            run.world.jitter = 0.5;
            run.world.seed = seed;
            let expected =
                timed(Strategy::DSync, Schedule::Single, network(Duration::from_micros(300))).rank_order();
            assert_eq!(
                common_digests(&run.run()),
                common_digests(&expected.run()),
                "{schedule:?}, seed {seed}"
            );
        }
    }
}

#[test]
fn what_is_not_divided_has_no_record() {
    for schedule in [Schedule::Single, Schedule::PerLayer] {
        let count = |workers| records(&scene(Strategy::DSync, workers, schedule).run()).len();
        assert_eq!(count(1), 0);
        assert_eq!(count(2), usize::from(schedule == Schedule::PerLayer));
    }
    let record = &records(&scene(Strategy::DSync, 2, Schedule::PerLayer).run())[0];
    assert!(record.cost.is_none() && record.buckets.iter().all(|bucket| bucket.predicted.is_none()));
    assert_eq!(record.buckets.iter().map(|bucket| bucket.elements).collect::<Vec<_>>(), [24, 40, 49]);
    assert_eq!(record.steps, 14);
}
