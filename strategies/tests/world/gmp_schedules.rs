//! Groups whose gradients travel layer by layer: the same bits by every schedule, and during the backward pass.

use crate::groups::{Groups, WIDTHS, model, partition};
use crate::resume::check_from;
use crate::scene::{Scene, digests};
use crate::schedules::{last_step, records};
use recipe::{
    AveragedBy, Codec, Compute, ComputeSplit, Extent, FcUpdate, ModuloScheme, Network, OptimizerSettings,
    ReduceOrder, Schedule,
};
use record::Event;
use std::time::Duration;
use strategies::Learner;
use strategies::sim::World;

const SCHEDULES: [Schedule; 6] = [
    Schedule::PerLayer,
    // Between what different parts hold of the last layer, where four outputs are divided by three.
    Schedule::Fixed { bytes: 100 },
    Schedule::Fixed { bytes: 1 },
    Schedule::Fixed { bytes: u64::MAX },
    Schedule::Merged,
    Schedule::MergedExact,
];

fn scene(groups: Groups, schedule: Schedule, batch: u32) -> Scene {
    groups.scene(12, batch).change(|spec| {
        spec.communication.schedule = schedule;
        let sgd = spec.train.optimizer;
        spec.train.optimizer = OptimizerSettings { momentum: 0.5, weight_decay: 0.01, ..sgd };
    })
}

/// Groups of two with three layers below the split ones, which are a tenth of the model; 12 ms of computing in each step.
fn timed(schedule: Schedule, network: Network) -> Scene {
    let widths = [30, 60, 60, 60, 20, 10];
    let split = ComputeSplit::Given { forward: 0.25, backward: 0.5, update: 0.25 };
    let groups = Groups { fc_update: FcUpdate::PerRound, ..Groups::of(4, 2) };
    let mut scene = groups.scene(20, 16).widths(&widths).change(|spec| {
        spec.model = model(&widths, 3);
        spec.communication.schedule = schedule;
        spec.communication.reduce_order = ReduceOrder::Ring;
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

#[test]
fn no_schedule_changes_a_bit_of_groups_in_rank_order() {
    for fc_update in FcUpdate::ALL.iter().copied() {
        for scheme in ModuloScheme::ALL.iter().copied() {
            for (workers, mp, batch) in [(4, 1, 15), (4, 2, 16), (4, 2, 6), (4, 4, 13), (8, 4, 5), (6, 3, 18)]
            {
                let groups = Groups { scheme, fc_update, ..Groups::of(workers, mp) };
                let expected = digests(&scene(groups, Schedule::Single, batch).run());
                for schedule in SCHEDULES {
                    let other = digests(&scene(groups, schedule, batch).run());
                    assert_eq!(other, expected, "{fc_update} {scheme} {workers} {mp} {batch} {schedule:?}");
                }
            }
        }
    }
}

/// Activations and gradients share what a peer has room for.
#[test]
fn buckets_and_activations_end_at_any_pace_however_little_room_there_is() {
    let groups = Groups { fc_update: FcUpdate::PerRound, ..Groups::of(8, 4) };
    let expected = digests(&scene(groups, Schedule::Single, 24).run());
    for schedule in SCHEDULES {
        for seed in 0..8 {
            let mut run = scene(groups, schedule, 24);
            run.world.seed = seed;
            run.world.jitter = 0.5;
            run.world.costs.forward = vec![record::Nanos(1000); 4];
            run.world.costs.backward = vec![record::Nanos(2000); 4];
            run.world.window = Some(1);
            assert_eq!(digests(&run.run()), expected, "{schedule:?} {seed}");
        }
    }
}

#[test]
fn holders_of_a_part_agree_on_its_coded_layers() {
    for schedule in SCHEDULES {
        for codec in [Codec::Quantize8, Codec::TopK { ratio: 0.2 }] {
            let groups = Groups { fc_update: FcUpdate::PerRound, ..Groups::of(4, 2) };
            let own = digests(&scene(groups, schedule, 16).coded(codec, true).run());
            assert_eq!((&own[0], &own[1]), (&own[2], &own[3]), "{schedule:?} {codec:?}");
        }
    }
}

/// Layers that other workers average never share a message.
#[test]
fn no_message_reaches_across_what_the_same_workers_average() {
    assert_eq!((partition(2).below(), partition(2).split()), (0..1, 1..4));
    for schedule in [Schedule::Fixed { bytes: u64::MAX }, Schedule::Merged, Schedule::MergedExact] {
        let slow = Network { bandwidth: 2_000_000, latency: Duration::from_millis(20) };
        let all = records(&timed(schedule, slow).run());
        let layers: Vec<usize> =
            all.last().unwrap().buckets.iter().map(|bucket| bucket.layers.len()).collect();
        assert_eq!(layers, [2, 3], "{schedule:?}");
    }
    let fast = Network { bandwidth: 200_000_000, latency: Duration::from_micros(1) };
    // The gradients of both split layers are there at the same moment: two messages would be one start-up too many.
    for (schedule, messages) in [(Schedule::PerLayer, 5), (Schedule::MergedExact, 4)] {
        let all = records(&timed(schedule, fast).run());
        assert_eq!(all.last().unwrap().buckets.len(), messages, "{schedule:?}");
    }
}

/// The plan knows what messages of each section cost: between two holders, and between four workers.
#[test]
fn messages_of_groups_travel_when_the_plan_says() {
    for latency in [100, 300, 1000] {
        let network = Network { bandwidth: 2_000_000, latency: Duration::from_micros(latency) };
        let all = records(&timed(Schedule::MergedExact, network).run());
        assert_eq!(all.len(), 2, "when it is decided, and at the end");
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

/// With one sample for each worker the last of two rounds has no rows in any group: the split layers send nothing then.
#[test]
fn a_plan_knows_which_messages_are_sent_when_a_round_is_empty() {
    let network = Network { bandwidth: 2_000_000, latency: Duration::from_micros(300) };
    let run = timed(Schedule::MergedExact, network).change(|spec| spec.train.global_batch = 4);
    let all = records(&run.run());
    assert_eq!((all.len(), all[1].steps), (2, 12));
    // The last two layers leave first, in one message that is none.
    let (split, below) = all[1].buckets.split_first().unwrap();
    assert_eq!(split.layers.len(), 2);
    let predicted = split.predicted.unwrap();
    let measured = split.measured.unwrap();
    assert_eq!((predicted.0, measured.0), (predicted.1, measured.1));
    for bucket in below {
        let predicted = bucket.predicted.unwrap();
        let measured = bucket.measured.unwrap();
        let off = (predicted.1.seconds() - measured.1.seconds()).abs();
        assert!(off < 0.03 * predicted.1.seconds(), "{predicted:?} {measured:?}");
    }
}

/// The backward pass of the layers below hides communication, and nothing is slower than the best plan.
#[test]
fn gradients_of_groups_travel_during_the_backward_pass() {
    for latency in [1, 300, 4000] {
        let network = Network { bandwidth: 8_000_000, latency: Duration::from_micros(latency) };
        let step = |schedule| last_step(&timed(schedule, network).run());
        let exact = step(Schedule::MergedExact) as f64;
        for other in SCHEDULES.into_iter().chain([Schedule::Single]) {
            assert!(exact <= 1.001 * step(other) as f64, "{latency} us, {other:?}: {exact} {}", step(other));
        }
        if latency == 1 {
            assert!(exact < 0.9 * step(Schedule::Single) as f64, "{exact} {}", step(Schedule::Single));
        }
    }
}

/// Memories of error feedback, plans and velocities, also where the first layer is split and each round sends its gradient.
#[test]
fn groups_that_are_continued_end_as_those_that_are_not() {
    for fc_update in FcUpdate::ALL.iter().copied() {
        for convolutions in [0, 1] {
            for schedule in [Schedule::Single, Schedule::PerLayer, Schedule::MergedExact] {
                // Of batches of four, the last round has no rows: no part of a gradient says that the step is over.
                for batch in [16, 4] {
                    let groups = Groups { fc_update, ..Groups::of(4, 2) };
                    let continued = scene(groups, schedule, batch).coded(Codec::Quantize8, true);
                    let continued = continued.change(|spec| {
                        spec.model = model(&WIDTHS, convolutions);
                        spec.train.checkpoint = Some(Extent::Steps(1));
                    });
                    let name = format!("{fc_update} {convolutions} {schedule:?} {batch}");
                    check_from(&continued, &name, &[schedule.measured_steps().max(1), 11]);
                }
            }
        }
    }
}

/// Servers add in rank order, whatever they add and on which lane it travels.
#[test]
fn servers_that_add_change_no_bit() {
    let by_servers = |groups: Groups, servers: usize, schedule| {
        let groups = Groups { averaged_by: AveragedBy::Servers, ..groups };
        let mut served = scene(groups, schedule, 15);
        let server = served.spec.cluster.placements.last().unwrap().clone();
        served.spec.cluster.placements.extend(vec![server; servers - 1]);
        served
    };
    for fc_update in FcUpdate::ALL.iter().copied() {
        for (workers, mp) in [(1, 1), (4, 1), (4, 2), (4, 4), (8, 4)] {
            for (servers, average_every) in [(1, None), (3, None), (2, Some(5))] {
                let groups = Groups { fc_update, average_every, ..Groups::of(workers, mp) };
                let own = |scene: Scene| digests(&scene.run())[..workers as usize].to_vec();
                let expected = own(scene(groups, Schedule::Single, 15));
                for schedule in [Schedule::Single, Schedule::PerLayer, Schedule::MergedExact] {
                    if average_every.is_some() && schedule != Schedule::Single {
                        continue;
                    }
                    let mut served = by_servers(groups, servers, schedule);
                    served.world.window = Some(1);
                    served.world.jitter = 0.5;
                    assert_eq!(own(served), expected, "{fc_update} {workers} {mp} {servers} {schedule:?}");
                }
            }
        }
    }
}

/// Vectors are coded on their way to a server, and sums come back as they are.
#[test]
fn codes_through_servers_are_those_of_each_worker() {
    let groups = Groups { averaged_by: AveragedBy::Servers, ..Groups::of(4, 2) };
    for codec in [Codec::Quantize8, Codec::TopK { ratio: 0.2 }] {
        for schedule in [Schedule::Single, Schedule::PerLayer] {
            let coded = scene(groups, schedule, 16).coded(codec, true);
            let own = digests(&coded.run());
            assert_eq!((&own[0], &own[1]), (&own[2], &own[3]), "{codec:?}");
            let exact = digests(&scene(groups, schedule, 16).run());
            assert_ne!(own[0].last(), exact[0].last(), "{codec:?}");
        }
    }
}

/// Servers hold nothing, but a checkpoint is of all ranks.
#[test]
fn runs_with_servers_are_continued_however_seldom_they_add() {
    for (mp, average_every) in [(2, None), (2, Some(5)), (4, Some(5)), (4, None)] {
        for convolutions in [0, 1] {
            let groups = Groups { average_every, averaged_by: AveragedBy::Servers, ..Groups::of(4, mp) };
            let continued = scene(groups, Schedule::Single, 16).change(|spec| {
                spec.model = model(&WIDTHS, convolutions);
                spec.train.checkpoint = Some(Extent::Steps(1));
            });
            check_from(&continued, &format!("{mp} {average_every:?} {convolutions}"), &[1, 3, 11]);
        }
    }
}

/// Memory for gradients is used again, also where one part is as long as all weights.
#[test]
fn a_worker_keeps_no_more_memory_after_more_steps() {
    for convolutions in [0, 1] {
        for fc_update in FcUpdate::ALL.iter().copied() {
            let kept = |steps| {
                let groups = Groups { fc_update, ..Groups::of(4, 2) };
                let run = groups.scene(steps, 16).change(|spec| spec.model = model(&WIDTHS, convolutions));
                let usage = |event: &Event| match event {
                    Event::Usage(usage) => Some(usage.gradients),
                    _ => None,
                };
                run.run().ranks[0].events.iter().find_map(usage).unwrap()
            };
            assert_eq!(kept(4), kept(20), "{convolutions} {fc_update}");
        }
    }
}
