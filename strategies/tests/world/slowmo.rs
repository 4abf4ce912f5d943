//! `SlowMo` against local SGD, the paper's lines in plain code, and a table by hand.

use crate::reference::{Sgd, gradient};
use crate::scene::{Scene, digests};
use recipe::{Extent, LrShape, Strategy};
use record::{LaneId, Nanos, Rank};
use strategies::sim::{Costs, WorldOutcome};
use strategies::toy::Quadratic;
use strategies::{Learner, Vector};

fn scene(strategy: Strategy, workers: u32) -> Scene {
    Scene::new(strategy, workers).rank_order().change(|spec| {
        spec.train.global_batch = 10;
        spec.train.length = Extent::Steps(10);
        spec.train.optimizer.momentum = 0.5;
        spec.train.optimizer.weight_decay = 0.01;
        spec.train.schedule.shape = LrShape::Cosine { floor: 0.0 };
    })
}

fn slowmo(period: u64, slow_momentum: f32, slow_lr: f32) -> Strategy {
    Strategy::Slowmo { period, slow_momentum, slow_lr }
}

#[test]
fn without_slow_momentum_it_is_local_sgd_bit_for_bit() {
    for workers in 1..=4 {
        for period in [1, 3, 5, 10, 11] {
            let run = |strategy| digests(&scene(strategy, workers).run());
            let local = run(Strategy::LocalSgd { period });
            assert!(local[0].len() > 10);
            assert_eq!(run(slowmo(period, 0.0, 1.0)), local, "p = {workers}, period {period}");
            if workers > 1 {
                assert_ne!(run(slowmo(period, 0.0, 0.5)), local, "another slow rate is another method");
            }
        }
    }
}

/// Every worker's model after every step, by lines 1 to 9 as the paper prints them, in 64 bits where it says
/// nothing about gradients.
fn reference(scene: &Scene, tau: u64, beta: f64, alpha: f64) -> Vec<Vec<Vec<f64>>> {
    let plan = scene.plan();
    let mut learner = scene.learner();
    let steps = plan.budget.steps();
    let mut anchor: Vec<f64> = learner.initial().iter().map(|x| f64::from(*x)).collect();
    let mut u = vec![0.0; anchor.len()];
    let mut models = vec![learner.initial(); plan.workers()];
    let mut rules: Vec<Sgd> = models.iter().map(|w| Sgd::new(scene, w.len())).collect();
    let mut trajectory = Vec::new();
    for t in 1..=steps {
        let gamma = plan.learning_rate.at(plan.budget.samples_after(t - 1));
        for (k, x) in models.iter_mut().enumerate() {
            let g = gradient(&mut learner, x, &plan.sampler.batch(t, k));
            rules[k].step(x, &g, gamma);
        }
        if t % tau == 0 || t == steps {
            for i in 0..anchor.len() {
                let mean = models.iter().map(|x| f64::from(x[i])).sum::<f64>() / models.len() as f64;
                u[i] = beta * u[i] + (anchor[i] - mean) / f64::from(gamma);
                anchor[i] -= alpha * f64::from(gamma) * u[i];
            }
            models.fill(anchor.iter().map(|x| *x as f32).collect::<Vec<_>>().into());
        }
        trajectory.push(models.iter().map(|x| x.iter().map(|x| f64::from(*x)).collect()).collect());
    }
    trajectory
}

#[test]
fn it_is_the_lines_of_the_paper_in_plain_code() {
    for (beta, alpha) in [(0.0, 1.0), (0.5, 1.0), (0.75, 0.5), (0.25, 1.5)] {
        for workers in [1, 2, 4] {
            for period in [1, 2, 3, 10, 11] {
                let scene = scene(slowmo(period, beta, alpha), workers);
                let outcome = scene.run();
                let expected = reference(&scene, period, f64::from(beta), f64::from(alpha));
                for (t, models) in (1..).zip(expected) {
                    for (rank, expected) in models.iter().enumerate() {
                        let seen = &outcome.ranks[rank].weights[&t];
                        let off = seen
                            .iter()
                            .zip(expected)
                            .map(|(seen, x)| (f64::from(*seen) - x).abs())
                            .fold(0.0, f64::max);
                        assert!(
                            off < 2e-5,
                            "beta {beta}, alpha {alpha}, p = {workers}, period {period}, rank {rank}, step {t}: {off}"
                        );
                    }
                }
            }
        }
    }
}

fn descent_from_one(strategy: Strategy, steps: u64) -> WorldOutcome {
    let scene = Scene::new(strategy, 2).change(|spec| {
        spec.train.length = Extent::Steps(steps);
        spec.train.optimizer.lr = 0.5;
        spec.train.optimizer.momentum = 0.0;
        spec.train.optimizer.weight_decay = 0.0;
    });
    let learner = || Box::new(Quadratic::new(1.0, vec![1.0], 1)) as Box<dyn Learner>;
    let blueprint = strategies::Blueprint::new(&scene.spec, scene.plan(), 1);
    scene.world.run(&blueprint, |_| learner()).unwrap()
}

/// On x^2 / 2 with gamma = 1/2, a local step halves x. With tau = 1, beta = 1/2, alpha = 1:
///
/// | x_t,0 | x_t,tau | u_t+1 | x_t+1,0 |
/// |---|---|---|---|
/// | 1 | 1/2 | 1 | 1/2 |
/// | 1/2 | 1/4 | 1/2 + 1/2 = 1 | 0 |
/// | 0 | 0 | 1/2 | -1/4 |
/// | -1/4 | -1/8 | 1/4 - 1/4 = 0 | -1/4 |
///
/// With tau = 2, alpha = 1/2: x_t,tau is a quarter, u 3/2, 3/4 + 15/16, and x 5/8, 13/64.
#[test]
fn slow_momentum_follows_the_table() {
    for (strategy, expected) in [
        (slowmo(1, 0.5, 1.0), vec![0.5, 0.0, -0.25, -0.25]),
        (slowmo(2, 0.5, 0.5), vec![0.5, 0.625, 0.3125, 0.203_125]),
    ] {
        let outcome = descent_from_one(strategy.clone(), 4);
        for rank in &outcome.ranks {
            let seen: Vec<f32> = (1..=4).map(|step| rank.weights[&step][0]).collect();
            assert_eq!(seen, expected, "{strategy:?}");
        }
    }
}

/// A rate that falls to zero within a round: line 7 would divide by it.
#[test]
fn a_round_that_ends_at_rate_zero_ends_with_the_average() {
    let run = |strategy| {
        let scene = scene(strategy, 3).change(|spec| {
            spec.train.schedule.shape = LrShape::Step { every: Extent::Steps(1), factor: 1e-30 };
            spec.train.length = Extent::Steps(5);
        });
        assert!(scene.plan().learning_rate.at(20).abs() < f32::MIN_POSITIVE);
        digests(&scene.run())
    };
    assert_eq!(run(slowmo(3, 0.5, 0.5)), run(Strategy::LocalSgd { period: 3 }));
}

#[test]
fn neither_interleaving_nor_stragglers_change_a_bit() {
    let run = |seed, jitter, slow| {
        let mut scene = scene(slowmo(3, 0.5, 0.75), 4).seed(seed);
        scene.world.jitter = jitter;
        scene.world.slow.insert(Rank(2), slow);
        scene.world.costs = Costs { forward: vec![Nanos(700), Nanos(300)], update: 1.0, ..Costs::default() };
        scene.run().ranks.iter().map(|rank| rank.model().sha256()).collect::<Vec<_>>()
    };
    let quiet = run(1, 0.0, 1.0);
    assert!(quiet.iter().all(|digest| *digest == quiet[0]), "all end with the same weights");
    assert!((2..20).all(|seed| run(seed, 0.7, 8.0) == quiet));
}

#[test]
fn it_sends_what_local_sgd_sends() {
    let sent = |strategy| {
        let outcome = scene(strategy, 3).run();
        let of_rank = |rank: &strategies::sim::RankOutcome| -> Vec<u64> {
            rank.steps(LaneId::Compute).iter().map(|step| step.bytes_out).collect()
        };
        outcome.ranks.iter().map(of_rank).collect::<Vec<_>>()
    };
    assert_eq!(sent(slowmo(4, 0.5, 1.0)), sent(Strategy::LocalSgd { period: 4 }));
}

#[test]
fn all_start_a_round_with_the_same_weights_and_drift_apart_in_it() {
    let outcome = scene(slowmo(4, 0.5, 1.0), 3).run();
    for step in 0..=10 {
        let models: Vec<&Vector> = outcome.ranks.iter().map(|rank| &rank.weights[&step]).collect();
        let together = step % 4 == 0;
        assert_eq!(models.iter().all(|model| *model == models[0]), together || step == 10, "step {step}");
    }
}
