//! Local SGD against D-Sync, one process, and a few lines of plain code.

use crate::reference::{Sgd, gradient};
use crate::scene::{Scene, common_digests};
use recipe::{Extent, Strategy};
use record::{Event, LaneId, Nanos, Rank, SnapshotGroup, SnapshotRecord, Standing};
use strategies::sim::Costs;
use strategies::{Learner, Vector};

fn scene(period: u64, workers: u32) -> Scene {
    Scene::new(Strategy::LocalSgd { period }, workers).rank_order().change(|spec| {
        spec.train.global_batch = 10;
        spec.train.length = Extent::Steps(10);
        spec.train.optimizer.momentum = 0.5;
        spec.train.optimizer.weight_decay = 0.01;
    })
}

/// Every worker's model after every step, the last one after the last average.
fn reference(scene: &Scene, period: u64) -> Vec<Vec<Vector>> {
    let plan = scene.plan();
    let mut learner = scene.learner();
    let p = plan.workers();
    let mut models = vec![learner.initial(); p];
    let mut rules: Vec<Sgd> = models.iter().map(|w| Sgd::new(scene, w.len())).collect();
    let mut trajectory = vec![models.clone()];
    for t in 1..=plan.budget.steps() {
        for k in 0..p {
            let g = gradient(&mut learner, &models[k], &plan.sampler.batch(t, k));
            rules[k].step(&mut models[k], &g, plan.learning_rate.at(plan.budget.samples_after(t - 1)));
        }
        if t % period == 0 || t == plan.budget.steps() {
            let mut mean = Vector::zeros(models[0].len());
            for w in &models {
                mean.add(w);
            }
            mean.scale(1.0 / p as f32);
            models.fill(mean);
        }
        trajectory.push(models.clone());
    }
    trajectory
}

#[test]
fn local_steps_and_averages_are_their_reference_bit_for_bit() {
    for workers in 1..=4 {
        for period in [1, 2, 3, 5, 10, 11, 1_000] {
            let scene = scene(period, workers);
            let outcome = scene.run();
            for (t, models) in reference(&scene, period).iter().enumerate() {
                for (rank, w) in models.iter().enumerate() {
                    let seen = outcome.ranks[rank].weights[&(t as u64)].sha256();
                    assert_eq!(seen, w.sha256(), "p = {workers}, period {period}, rank {rank}, step {t}");
                }
            }
        }
    }
}

/// With equal shares and period 1, the mean of w - eta g_i is w minus eta times the mean of g_i: the same weights
/// where arithmetic is exact, also with momentum, because the local velocities have the mean of D-Sync's.
#[test]
fn a_period_of_1_is_d_sync() {
    for momentum in [0.0, 0.5] {
        for workers in [1, 2, 4] {
            let run = |strategy| {
                let scene = Scene::new(strategy, workers).widths(&[6, 4]).change(|spec| {
                    spec.train.global_batch = 16;
                    spec.train.length = Extent::Steps(3);
                    spec.train.optimizer.momentum = momentum;
                });
                common_digests(&scene.run())
            };
            assert_eq!(run(Strategy::LocalSgd { period: 1 }), run(Strategy::DSync), "{workers} workers");
        }
    }
}

#[test]
fn nothing_travels_between_averages() {
    let outcome = scene(4, 2).run();
    let sent: Vec<u64> = outcome.ranks[1].steps(LaneId::Compute).iter().map(|step| step.bytes_out).collect();
    let all = 4 * 92;
    assert_eq!(sent, [0, 0, 0, all, 0, 0, 0, all, 0, 0, all], "steps 4 and 8, and once more at the end");
    let outcome = scene(5, 2).run();
    let steps = outcome.ranks[1].steps(LaneId::Compute);
    assert_eq!(steps.last().unwrap().bytes_out, 0, "step 10 ended with an average");
}

#[test]
fn neither_interleaving_nor_stragglers_change_a_bit() {
    let run = |seed, jitter, slow| {
        let mut scene = scene(3, 4).seed(seed);
        scene.world.jitter = jitter;
        scene.world.slow.insert(Rank(2), slow);
        scene.world.costs = Costs { forward: vec![Nanos(700), Nanos(300)], update: 1.0, ..Costs::default() };
        let outcome = scene.run();
        outcome.ranks.iter().map(|rank| rank.model().sha256()).collect::<Vec<_>>()
    };
    let quiet = run(1, 0.0, 1.0);
    assert!(quiet.iter().all(|digest| *digest == quiet[0]));
    assert!((2..20).all(|seed| run(seed, 0.7, 8.0) == quiet));
}

#[test]
fn all_models_are_put_aside_at_each_mark_and_differ_between_averages() {
    let scene = scene(4, 3).change(|spec| spec.train.evaluate = Extent::Steps(2));
    assert!(scene.spec.strategy.models_differ());
    let outcome = scene.run();
    for rank in 0..3 {
        let copies: Vec<&SnapshotRecord> = outcome.ranks[rank]
            .events
            .iter()
            .filter_map(|event| if let Event::Snapshot(copy) = event { Some(copy) } else { None })
            .collect();
        let marks: Vec<_> = copies.iter().map(|copy| (copy.mark, copy.step, copy.last)).collect();
        assert_eq!(
            marks,
            [(0, 0, false), (1, 2, false), (2, 4, false), (3, 6, false), (4, 8, false), (5, 10, true)]
        );
        let standing = if rank == 0 { Standing::Judged } else { Standing::Member };
        assert!(copies.iter().all(|copy| copy.standing == standing));
        assert!(copies.iter().all(|copy| copy.group == Some(SnapshotGroup { size: 3, judged: false })));
    }
    for step in [0, 2, 4, 6, 8, 10] {
        let models: Vec<&Vector> = outcome.ranks.iter().map(|rank| &rank.weights[&step]).collect();
        let together = step % 4 == 0 || step == 10;
        assert_eq!(models.iter().all(|model| *model == models[0]), together, "step {step}");
    }
}

#[test]
fn one_worker_has_no_company() {
    let events = &scene(4, 1).run().ranks[0].events;
    let alone =
        |event: &Event| matches!(event, Event::Snapshot(copy) if copy.group.is_none() && copy.is_result());
    assert!(events.iter().any(alone));
}
