//! D-Sync and PS-Sync against each other, against one process, and against a few lines of plain code.

use crate::scene::{Scene, common_digests, lanes};
use recipe::{Collective, Strategy};
use record::{Event, LaneId, Nanos, Phase, Rank, Work};
use strategies::sim::Costs;
use strategies::{Learner, Loss, Vector};

/// SGD with momentum on one process, without anything of this crate but the learner and the partition.
fn reference(scene: &Scene, steps: u64) -> Vec<Vector> {
    let plan = scene.plan();
    let mut learner = scene.learner();
    let sgd = scene.spec.train.optimizer;
    let mut w = learner.initial();
    let mut v = vec![0.0_f32; w.len()];
    let mut trajectory = Vec::new();
    for t in 1..=steps {
        let mut batch = plan.sampler.batch(t, 0);
        for k in 1..plan.workers() {
            batch.examples.extend(plan.sampler.batch(t, k).examples);
        }
        learner.load(&batch).unwrap();
        let layers = learner.layout().layers().len();
        (0..layers).for_each(|l| learner.forward(&w, l).unwrap());
        let _: Loss = learner.loss(&batch).unwrap();
        let mut g = Vector::zeros(w.len());
        for l in (0..layers).rev() {
            let span = learner.layout().layers()[l].span.clone();
            learner.backward(&w, l, &mut g[span]).unwrap();
        }
        for i in 0..w.len() {
            v[i] = sgd.momentum * v[i] + g[i];
            w[i] -= plan.learning_rate.at(plan.budget.samples_after(t - 1)) * v[i];
        }
        trajectory.push(w.clone());
    }
    trajectory
}

#[test]
fn workers_with_a_shared_batch_are_one_process_bit_for_bit() {
    for strategy in [Strategy::DSync, Strategy::PsSync] {
        for workers in [1, 2, 4, 8] {
            let scene = Scene::new(strategy.clone(), workers).widths(&[6, 4]).change(|spec| {
                spec.train.global_batch = 64;
                spec.train.length = recipe::Extent::Steps(3);
            });
            let expected = reference(&scene, 3);
            let outcome = scene.run();
            for rank in &outcome.ranks {
                for (t, w) in expected.iter().enumerate() {
                    assert_eq!(
                        rank.weights[&(t as u64 + 1)].sha256(),
                        w.sha256(),
                        "{strategy:?}, {workers} workers, step {}",
                        t + 1
                    );
                }
            }
        }
    }
}

#[test]
fn a_parameter_server_is_an_all_reduce_in_rank_order_bit_for_bit() {
    for (momentum, weight_decay) in [(0.0, 0.0), (0.5, 0.0), (0.9, 0.01)] {
        for workers in 1..=5 {
            let digests = [Strategy::DSync, Strategy::PsSync].map(|strategy| {
                let scene = Scene::new(strategy, workers).rank_order().change(|spec| {
                    spec.train.optimizer.momentum = momentum;
                    spec.train.optimizer.weight_decay = weight_decay;
                    spec.train.length = recipe::Extent::Steps(30);
                    spec.train.global_batch = 10;
                });
                common_digests(&scene.run())
            });
            assert_eq!(digests[0].len(), 31);
            assert_eq!(digests[0], digests[1], "{workers} workers, momentum {momentum}");
        }
    }
}

#[test]
fn samples_carry_the_weight_and_not_ranks() {
    // 8 samples over 3 workers: 3, 3 and 2; the mean over ranks of means would weigh the last too much.
    for strategy in [Strategy::DSync, Strategy::PsSync] {
        let scene = Scene::new(strategy, 3).change(|spec| spec.train.length = recipe::Extent::Steps(5));
        let expected = reference(&scene, 5);
        let outcome = scene.run();
        let apart =
            |w: &Vector| w.iter().zip(expected[4].iter()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(apart(outcome.ranks[0].model()) < 1e-6);
        let one_third_each = per_rank_mean(&scene, 5);
        assert!(apart(&one_third_each) > 1e-3, "the test could not tell the two apart");
    }
}

/// Weights after `steps` steps in which each rank's mean gradient counts once, whatever the size of its batch.
fn per_rank_mean(scene: &Scene, steps: u64) -> Vector {
    let plan = scene.plan();
    let mut learner = scene.learner();
    let mut w = learner.initial();
    for t in 1..=steps {
        let mut sum = Vector::zeros(w.len());
        for k in 0..plan.workers() {
            let batch = plan.sampler.batch(t, k);
            learner.load(&batch).unwrap();
            let layers = learner.layout().layers().len();
            (0..layers).for_each(|l| learner.forward(&w, l).unwrap());
            learner.loss(&batch).unwrap();
            let mut g = Vector::zeros(w.len());
            for l in (0..layers).rev() {
                let span = learner.layout().layers()[l].span.clone();
                learner.backward(&w, l, &mut g[span]).unwrap();
            }
            sum.add(&g);
        }
        for (w, g) in w.iter_mut().zip(sum.iter()) {
            *w -= plan.learning_rate.at(0) * g / plan.workers() as f32;
        }
    }
    w
}

#[test]
fn neither_interleaving_nor_stragglers_change_a_bit() {
    for strategy in [Strategy::DSync, Strategy::PsSync] {
        let run = |seed, jitter: f64, slow: f64| {
            let mut scene = Scene::new(strategy.clone(), 4).seed(seed);
            scene.world.jitter = jitter;
            scene.world.slow.insert(Rank(2), slow);
            scene.world.costs = Costs {
                forward: vec![Nanos(700), Nanos(300)],
                backward: vec![Nanos(900), Nanos(500)],
                ..Costs::default()
            };
            common_digests(&scene.run())
        };
        let quiet = run(1, 0.0, 1.0);
        for seed in 2..20 {
            assert_eq!(run(seed, 0.7, 8.0), quiet);
        }
    }
}

#[test]
fn every_lane_is_tiled_and_its_named_phases_cover_everything() {
    for strategy in [Strategy::DSync, Strategy::PsSync] {
        let mut scene = Scene::new(strategy, 3);
        scene.spec.measure.trace_first_steps = 5;
        scene.world.jitter = 0.5;
        scene.world.costs = Costs {
            data: Nanos(50),
            forward: vec![Nanos(700), Nanos(300)],
            backward: vec![Nanos(900), Nanos(500)],
            loss: Nanos(20),
            update: 1.0,
            reduce: 2.0,
            code: 0.5,
            decode: 0.0,
            snapshot: 1.0,
        };
        let outcome = scene.run();
        for (rank, lane) in lanes(&outcome) {
            let mut at = Nanos(0);
            for step in outcome.ranks[rank.index()].steps(lane) {
                assert_eq!(step.begin, at, "rank {rank} {lane} step {}", step.step);
                assert_eq!(step.phases.total(), step.length);
                assert_eq!(step.phases[Phase::Other], Nanos(0), "rank {rank} {lane} step {}", step.step);
                at += step.length;
            }
            assert!(at > Nanos(0) && at <= outcome.time);
        }
    }
}

/// p = 4, n = 68 weights in chunks of 17, all costs per byte or element known.
#[test]
fn the_step_time_of_a_ring_is_the_closed_formula() {
    let mut scene = Scene::new(Strategy::DSync, 4).widths(&[6, 4, 8]);
    scene.spec.measure.hash_every_step = false;
    scene.world.link = strategies::sim::Link { latency: Nanos(1_000), nanos_per_byte: 2.0 };
    scene.world.costs = Costs {
        forward: vec![Nanos(100); 2],
        backward: vec![Nanos(200); 2],
        update: 1.0,
        ..Costs::default()
    };
    let n = scene.learner().layout().size() as u64;
    assert_eq!(n, 68);
    let outcome = scene.run();
    let steps = outcome.ranks[0].steps(LaneId::Compute);
    let chunk_bytes = 17 * 4;
    // 2 (p - 1) rounds; a chunk leaves one card and enters another, one after the other.
    let round = 1_000 + 2 * 2 * chunk_bytes - 2 * chunk_bytes;
    let expected = 600 + 6 * round + n;
    assert_eq!(steps[1].length, Nanos(expected));
    assert_eq!(scene.world.costs.of(Work::Update(68)), Nanos(68));
}

#[test]
fn a_straggler_shows_as_waiting_and_never_as_transfer() {
    let run = |slow: f64| {
        let mut scene = Scene::new(Strategy::DSync, 3);
        scene.spec.measure.hash_every_step = false;
        scene.world.costs = Costs { forward: vec![Nanos(50_000)], ..Costs::default() };
        scene.world.slow.insert(Rank(1), slow);
        scene.run().ranks[2].steps(LaneId::Compute)[2].clone()
    };
    let even = run(1.0);
    let held_up = run(2.0);
    let longer = held_up.length - even.length;
    // Less than the 50,000 by what the straggler's own neighbours no longer make it wait.
    assert!(longer > Nanos(45_000) && longer <= Nanos(50_000), "the step became {longer} longer");
    for (phase, time) in held_up.phases.iter() {
        let expected = even.phases[phase] + if phase == Phase::WaitPeer { longer } else { Nanos(0) };
        assert_eq!(time, expected, "{phase}");
    }
}

#[test]
fn a_star_ends_with_the_bits_of_the_rank_order() {
    let order = common_digests(&Scene::new(Strategy::DSync, 5).rank_order().run());
    let star = Scene::new(Strategy::DSync, 5).change(|spec| spec.communication.collective = Collective::Star);
    assert_eq!(common_digests(&star.run()), order);
}

/// The same batch in pieces: on dyadic numbers, not a bit differs; without the pieces' shares it would.
#[test]
fn a_batch_in_pieces_is_the_whole_batch() {
    for strategy in [Strategy::DSync, Strategy::PsSync] {
        for (workers, accumulate) in [(1, 2), (2, 4), (4, 16), (2, 64)] {
            let scene = |accumulate| {
                Scene::new(strategy.clone(), workers).widths(&[6, 4]).change(|spec| {
                    spec.train.accumulate = accumulate;
                    spec.train.global_batch = 64;
                    spec.train.length = recipe::Extent::Steps(3);
                })
            };
            let whole = common_digests(&scene(1).run());
            let pieces = common_digests(&scene(accumulate).run());
            assert_eq!(whole, pieces, "{strategy:?}, {workers} workers, {accumulate} pieces");
        }
    }
}

/// Pieces of unequal lengths weigh by their samples.
#[test]
fn unequal_pieces_weigh_by_samples() {
    let scene = |accumulate| {
        Scene::new(Strategy::DSync, 1).change(|spec| {
            spec.train.accumulate = accumulate;
            spec.train.global_batch = 10;
            spec.train.length = recipe::Extent::Steps(5);
        })
    };
    let whole = scene(1).run();
    let pieces = scene(3).run();
    let last =
        |outcome: &strategies::sim::WorldOutcome| outcome.ranks[0].weights.values().last().unwrap().clone();
    let apart = last(&whole).iter().zip(last(&pieces).iter()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(apart < 1e-5, "{apart}");
}
#[test]
fn the_samples_of_every_rank_and_step_are_told_where_that_is_asked_for() {
    for strategy in [Strategy::DSync, Strategy::PsSync] {
        let scene = |samples| {
            let scene = Scene::new(strategy.clone(), 3);
            scene.change(|spec| {
                (spec.measure.samples, spec.train.length) = (samples, recipe::Extent::Steps(7));
            })
        };
        let told = |outcome: &strategies::sim::WorldOutcome| -> Vec<(u32, u64, Vec<u32>)> {
            let events = outcome.ranks.iter().flat_map(|rank| &rank.events);
            let told = events.filter_map(|event| match event {
                Event::Samples(told) => Some((told.rank.0, told.step, told.samples.clone())),
                _ => None,
            });
            told.collect()
        };
        let asked = scene(true);
        let unasked = scene(false);
        let plan = asked.plan();
        let expected: Vec<_> = (0..3_u32)
            .flat_map(|k| (1..=7).map(move |t| (k, t)))
            .map(|(k, t)| (k, t, plan.sampler.batch(t, k as usize).examples))
            .collect();
        let outcome = asked.run();
        assert_eq!(told(&outcome), expected);
        let silent = unasked.run();
        assert_eq!(told(&silent), []);
        assert_eq!(common_digests(&outcome), common_digests(&silent), "asking changes no weights");
    }
}
