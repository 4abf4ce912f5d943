//! SplitBrain's group model parallelism: against one process, against a reference of its own, and against itself.

use crate::groups::{Groups, WIDTHS, joined, model, partition};
use crate::scene::{Scene, digests};
use recipe::{
    Codec, Compression, Compute, ComputeSplit, Extent, FcUpdate, ModuloScheme, OptimizerSettings, Strategy,
    UpdateRule,
};
use record::{Event, Phase};
use std::time::Duration;
use strategies::sim::World;
use strategies::toy::Perceptron;
use strategies::{Batch, Blueprint, Learner, Optimizer, Vector};

/// One process that takes the steps of all workers: the gradient of each group's round at the weights that the round meets.
fn reference(scene: &Scene, groups: Groups) -> Vec<f32> {
    let plan = scene.plan();
    let mut learner = scene.learner();
    let Groups { workers, mp, scheme, fc_update, .. } = groups;
    let mut w = learner.initial();
    let cut = learner.layout().layers()[partition(mp).above().start].span.start;
    let steps = match scene.spec.train.length {
        Extent::Steps(steps) => steps,
        Extent::Epochs(_) => unreachable!(),
    };
    let rule = || Optimizer::new(scene.spec.train.optimizer, [].into());
    let mut rule_below = rule();
    let mut rule_above = rule();
    for step in 1..=steps {
        let batches: Vec<Batch> =
            (0..workers as usize).map(|worker| plan.sampler.batch(step, worker)).collect();
        let all: usize = batches.iter().map(|batch| batch.examples.len()).sum();
        let mut below = vec![0.0_f32; cut];
        let mut above = vec![0.0_f32; w.len() - cut];
        for number in 0..scheme.rounds(mp as usize) {
            let mut examples = Vec::new();
            for members in batches.chunks(mp as usize) {
                for (member, batch) in members.iter().enumerate() {
                    let rows = batch.examples.len();
                    let own = match scheme {
                        ModuloScheme::All => 0..rows,
                        ModuloScheme::Turns if member == number => 0..rows,
                        ModuloScheme::Turns => 0..0,
                        ModuloScheme::Shares => strategies::vector::piece(rows, mp as usize, number),
                    };
                    examples.extend_from_slice(&batch.examples[own]);
                }
            }
            if examples.is_empty() {
                continue;
            }
            let share = examples.len() as f32 / all as f32;
            let g = gradient(&mut learner, &w, &Batch { epoch: batches[0].epoch, examples });
            below.iter_mut().zip(&g[..cut]).for_each(|(sum, g)| *sum += share * g);
            if fc_update == FcUpdate::PerRound {
                let rate = scene.spec.train.optimizer.lr * share;
                rule_above.apply_gradient(&mut w[cut..], &mut g[cut..].to_vec().into(), rate);
            } else {
                above.iter_mut().zip(&g[cut..]).for_each(|(sum, g)| *sum += share * g);
            }
        }
        let rate = scene.spec.train.optimizer.lr;
        rule_below.apply_gradient(&mut w[..cut], &mut below.into(), rate);
        if fc_update == FcUpdate::PerBatch {
            rule_above.apply_gradient(&mut w[cut..], &mut above.into(), rate);
        }
    }
    w.into_inner()
}

fn gradient(learner: &mut Perceptron, w: &Vector, batch: &Batch) -> Vector {
    let spans: Vec<_> = learner.layout().layers().iter().map(|layer| layer.span.clone()).collect();
    learner.load(batch).unwrap();
    (0..spans.len()).for_each(|layer| learner.forward(w, layer).unwrap());
    learner.loss(batch).unwrap();
    let mut g = Vector::zeros(w.len());
    for (layer, span) in spans.into_iter().enumerate().rev() {
        learner.backward(w, layer, &mut g[span]).unwrap();
    }
    g
}

fn furthest(one: &[f32], other: &[f32]) -> f32 {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max)
}

/// All numbers of the first step are exact, so that no order of sums shows.
#[test]
fn a_step_of_groups_of_any_size_is_the_step_of_one_process_bit_for_bit() {
    let single = Scene::new(Strategy::DSync, 1).widths(&WIDTHS).change(|spec| {
        spec.train.length = Extent::Steps(1);
        spec.train.global_batch = 16;
    });
    let expected = single.run().ranks[0].model().sha256();
    for mp in [1, 2, 4] {
        for scheme in ModuloScheme::ALL.iter().copied() {
            let outcome = Groups { scheme, ..Groups::of(4, mp) }.scene(1, 16).run();
            for group in 0..4 / mp {
                assert_eq!(joined(&outcome, mp, group).sha256(), expected, "mp {mp} {scheme} group {group}");
            }
        }
    }
}

#[test]
fn steps_follow_a_reference_in_every_scheme_and_with_batches_that_do_not_divide() {
    for fc_update in FcUpdate::ALL.iter().copied() {
        for scheme in ModuloScheme::ALL.iter().copied() {
            for (workers, mp, batch) in
                [(4, 2, 16), (4, 4, 16), (4, 2, 15), (6, 3, 20), (4, 4, 5), (8, 8, 16), (4, 2, 6), (8, 4, 28)]
            {
                let groups = Groups { scheme, fc_update, ..Groups::of(workers, mp) };
                let scene = groups.scene(4, batch);
                let outcome = scene.run();
                let expected = reference(&scene, groups);
                for group in 0..workers / mp {
                    let apart = furthest(&joined(&outcome, mp, group), &expected);
                    assert!(apart < 2e-5, "{fc_update} {scheme} {workers} {mp} {batch}: {apart}");
                }
            }
        }
    }
    // The two kinds of update differ by far more than rounding.
    let groups = Groups { fc_update: FcUpdate::PerRound, ..Groups::of(4, 4) };
    let scene = groups.scene(4, 16);
    let other = reference(&scene, Groups { fc_update: FcUpdate::PerBatch, ..groups });
    assert!(furthest(&reference(&scene, groups), &other) > 1e-3);
}

/// The last batch of an epoch has two samples, of one group.
#[test]
fn a_group_without_samples_takes_part() {
    for scheme in ModuloScheme::ALL.iter().copied() {
        for fc_update in FcUpdate::ALL.iter().copied() {
            let groups = Groups { scheme, fc_update, ..Groups::of(4, 2) };
            let scene = groups.scene(4, 499);
            let apart = furthest(&joined(&scene.run(), 2, 1), &reference(&scene, groups));
            assert!(apart < 2e-5, "{scheme} {fc_update}: {apart}");
            let alone = Groups { average_every: Some(4), ..groups }.scene(4, 499).run();
            assert!(joined(&alone, 2, 0).iter().all(|weight| weight.is_finite()), "{scheme} {fc_update}");
        }
    }
}

#[test]
fn velocities_and_decay_of_parts_are_those_of_the_whole() {
    let optimizer = |scene: Scene| {
        let of = |sgd: OptimizerSettings| OptimizerSettings { momentum: 0.9, weight_decay: 0.01, ..sgd };
        scene.change(|spec| spec.train.optimizer = of(spec.train.optimizer))
    };
    let d_sync = Groups::of(4, 1).scene(5, 16).change(|spec| spec.strategy = Strategy::DSync);
    let expected = optimizer(d_sync).run();
    for mp in [2, 4] {
        let outcome = optimizer(Groups::of(4, mp).scene(5, 16)).run();
        let apart = furthest(&joined(&outcome, mp, 0), expected.ranks[0].model());
        assert!(apart < 2e-5, "{mp}: {apart}");
    }
}

/// AdamW counts an update of the layers below per step, and one of those above per round or per step. With a small epsilon, noise
/// of rounding in the place of a gradient of zero would be a whole step.
#[test]
fn moments_of_parts_follow_the_reference_in_every_scheme() {
    let adamw = UpdateRule::Adamw { beta1: 0.5, beta2: 0.75, epsilon: 0.125 };
    let mut seen = Vec::new();
    for fc_update in FcUpdate::ALL.iter().copied() {
        for scheme in ModuloScheme::ALL.iter().copied() {
            for (workers, mp, batch) in [(4, 2, 16), (4, 4, 13), (2, 2, 15)] {
                let groups = Groups { scheme, fc_update, ..Groups::of(workers, mp) };
                let scene = groups.scene(6, batch).change(|spec| {
                    let settings = OptimizerSettings::sgd(0.0625);
                    spec.train.optimizer = OptimizerSettings { rule: adamw, weight_decay: 0.125, ..settings };
                });
                let outcome = scene.run();
                let expected = reference(&scene, groups);
                for group in 0..workers / mp {
                    let apart = furthest(&joined(&outcome, mp, group), &expected);
                    assert!(apart < 2e-5, "{fc_update} {scheme} {workers} {mp} {batch}: {apart}");
                }
                seen.push(expected);
            }
        }
    }
    // Counted per step, the first rounds of all would be corrected as later ones.
    let (per_round, per_batch) = seen.split_at(seen.len() / 2);
    assert!(furthest(&per_round[6], &per_batch[6]) > 1e-3, "the test could not tell the two apart");
}

#[test]
fn a_group_of_one_is_d_sync_bit_for_bit() {
    let groups = Groups { fc_update: FcUpdate::PerRound, ..Groups::of(4, 1) };
    let momentum = |scene: Scene| {
        scene.change(|spec| {
            spec.train.optimizer =
                OptimizerSettings { momentum: 0.9, weight_decay: 0.01, ..spec.train.optimizer };
        })
    };
    let d_sync = momentum(groups.scene(6, 13).change(|spec| spec.strategy = Strategy::DSync));
    assert_eq!(digests(&momentum(groups.scene(6, 13)).run()), digests(&d_sync.run()));
}

#[test]
fn parts_begin_as_slices_of_the_same_weights_and_holders_stay_equal() {
    for mp in [2, 4] {
        let outcome = Groups::of(4, mp).scene(5, 18).run();
        let own = digests(&outcome);
        for rank in mp as usize..4 {
            assert_eq!(own[rank], own[rank % mp as usize], "mp {mp} rank {rank}");
        }
        assert_ne!(own[0].last(), own[1].last());
    }
    let whole = Perceptron::new(&WIDTHS).initial();
    let start = Groups::of(4, 4).scene(1, 16).change(|spec| spec.train.optimizer.lr = 0.0).run();
    assert_eq!(joined(&start, 4, 0), whole);
}

/// Weights averaged after each step are those of averaged gradients: without momentum the step is linear.
#[test]
fn averages_of_weights_and_of_gradients_are_the_same_after_each_step() {
    for scheme in ModuloScheme::ALL.iter().copied() {
        let groups = Groups { scheme, ..Groups::of(4, 2) };
        let gradients = groups.scene(5, 16).run();
        let weights = Groups { average_every: Some(1), ..groups }.scene(5, 16).run();
        let apart = furthest(&joined(&gradients, 2, 0), &joined(&weights, 2, 0));
        assert!(apart < 2e-6, "{scheme}: {apart}");
    }
}

#[test]
fn between_two_averages_groups_go_their_own_ways_and_end_together() {
    let groups = Groups { average_every: Some(4), ..Groups::of(4, 2) };
    let own = digests(&groups.scene(6, 16).run());
    let at = |rank: usize, step: u64| own[rank].iter().rev().find(|(at, _)| *at == step).unwrap().1.clone();
    assert_eq!(at(0, 4), at(2, 4));
    assert_ne!(at(0, 5), at(2, 5));
    // The last digest is that after the average of the end.
    assert_eq!(own[0].last(), own[2].last());
    assert_eq!(own[1].last(), own[3].last());
}

#[test]
fn exchanges_within_groups_and_between_them_end_at_any_pace() {
    let expected = Groups::of(8, 4).scene(4, 24).run();
    for seed in 0..12 {
        let mut scene = Groups::of(8, 4).scene(4, 24).seed(seed);
        scene.world.jitter = 0.5;
        scene.world.costs.forward = vec![record::Nanos(1000); 4];
        // One message at a time to each peer.
        scene.world.window = Some(1);
        let outcome = scene.run();
        assert_eq!(digests(&outcome), digests(&expected), "{seed}");
    }
}

/// The last layer has fewer outputs than the group has ranks: each holds all of it, beside other parts of the others.
#[test]
fn codecs_do_not_drive_whole_layers_above_split_ones_apart() {
    assert_eq!((partition(8).split(), partition(8).whole_above()), (1..3, 3..4));
    for codec in [Codec::Quantize8, Codec::Bf16] {
        let groups = Groups { fc_update: FcUpdate::PerRound, ..Groups::of(16, 8) };
        let outcome = groups.scene(4, 32).coded(codec, true).run();
        let top = WIDTHS[4] * (WIDTHS[3] + 1);
        let of = |rank: usize| {
            let model = outcome.ranks[rank].model();
            model[model.len() - top..].iter().map(|weight| weight.to_bits()).collect::<Vec<_>>()
        };
        for rank in 1..16 {
            assert_eq!(of(rank), of(0), "rank {rank}");
        }
    }
}

/// `plan --full` and the paper's figure of memory stand on these numbers.
#[test]
fn what_travels_within_a_group_is_what_the_partition_says() {
    for scheme in ModuloScheme::ALL.iter().copied() {
        for mp in [2, 4] {
            let groups = Groups { scheme, average_every: Some(1000), ..Groups::of(4, mp) };
            let mut scene = groups.scene(3, 16);
            scene.spec.compression = Compression::None;
            let outcome = scene.run();
            let sent: u64 = outcome.ranks[0]
                .events
                .iter()
                .filter_map(|event| match event {
                    record::Event::Step(step) if !step.drain => Some(step.bytes_out),
                    _ => None,
                })
                .sum();
            assert_eq!(sent, 3 * 4 * 4 * partition(mp).values_sent() as u64, "{scheme} {mp}");
        }
    }
}

/// Groups do the arithmetic of one process, whatever the scheme, also with fewer samples per worker than a group has workers.
#[test]
fn groups_compute_as_long_in_all_as_workers_that_hold_the_whole_model() {
    let split = ComputeSplit::Given { forward: 0.375, backward: 0.5, update: 0.125 };
    let computed = |groups: Groups, strategy: Strategy, batch: u32| {
        let mut scene = groups.scene(2, batch).change(|spec| {
            spec.strategy = strategy;
            spec.emulation.compute = Some(Compute { step_time: Duration::from_millis(8), split });
        });
        let layers = WIDTHS.len() - 1;
        let size = scene.learner().layout().size();
        scene.world = World::new(1).emulating(&scene.spec, 1, layers, size);
        let steps =
            scene.run().ranks.into_iter().flat_map(|rank| rank.events).filter_map(|event| match event {
                Event::Step(step) => Some(step.phases[Phase::Forward].0 + step.phases[Phase::Backward].0),
                _ => None,
            });
        steps.sum::<u64>()
    };
    for (workers, mp, batch) in [(4, 2, 16), (4, 4, 16), (4, 4, 4), (4, 4, 5), (4, 2, 7), (8, 4, 28)] {
        for scheme in ModuloScheme::ALL.iter().copied() {
            let groups = Groups { scheme, ..Groups::of(workers, mp) };
            let expected = u64::from(workers) * 2 * 7_000_000;
            for strategy in [Strategy::DSync, groups.strategy()] {
                // Times of passes are rounded down to nanoseconds.
                let missing = expected - computed(groups, strategy.clone(), batch);
                assert!(missing < 2000, "{workers} {mp} {batch} {scheme} {strategy:?}: {missing}");
            }
        }
    }
}

/// A blueprint takes the partition of a learner that the recipe does not know.
#[test]
fn a_partition_can_be_given() {
    let groups = Groups::of(2, 2);
    let expected = groups.scene(3, 16).run();
    let other = groups.scene(3, 16).change(|spec| spec.model = model(&[6, 4], 0));
    let blueprint: Blueprint = other.blueprint().with_partition(partition(2));
    let outcome = other.world.run(&blueprint, |_| Box::new(other.learner())).unwrap();
    assert_eq!(digests(&outcome), digests(&expected));
}
