//! Local SGD against D-Sync, one process, and a few lines of plain code.

use crate::reference::{Sgd, gradient};
use crate::scene::{Scene, common_digests};
use recipe::{Extent, Strategy};
use record::{LaneId, Nanos, Rank};
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
    let (course, mut learner) = (scene.course(), scene.learner());
    let p = course.workers();
    let mut models = vec![learner.initial(); p];
    let mut rules: Vec<Sgd> = models.iter().map(|w| Sgd::new(scene, w.len())).collect();
    let mut trajectory = vec![models.clone()];
    for t in 1..=course.steps() {
        for k in 0..p {
            let g = gradient(&mut learner, &models[k], &course.batch(t, k));
            rules[k].step(&mut models[k], &g, course.rate(course.samples_after(t - 1)));
        }
        if t % period == 0 || t == course.steps() {
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
