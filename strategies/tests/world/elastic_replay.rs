//! Elastic averaging, one worker at a time, replayed from its records by a few lines of plain code.

use crate::asynchronous::{scene, updates};
use crate::elastic::fixed;
use crate::reference::gradient;
use crate::scene::Scene;
use recipe::{Extent, LrShape, MovingRate, Serve, Strategy};
use record::{LaneId, UpdateRecord};
use std::collections::BTreeMap;
use strategies::sim::WorldOutcome;
use strategies::vector::piece;
use strategies::{Learner, Vector};

/// A server's part of the centre before an exchange, and the record's samples: by server, worker and the worker's step.
type Met = BTreeMap<(usize, usize, u64), (Vec<f32>, u64)>;

/// A worker of the replay.
struct Replica {
    x: Vec<f32>,
    v: Vec<f32>,
    /// The step that it is about to take, with an exchange.
    t: u64,
}

/// One step of a worker, in plain code: the gradient first, then both terms from the old weights.
fn step(
    scene: &Scene,
    worker: usize,
    replica: &mut Replica,
    consumed: u64,
    pull: impl Fn(usize, f32) -> f32,
) {
    let plan = scene.plan();
    let mut learner = scene.learner();
    let (momentum, ahead) = match scene.spec.strategy {
        Strategy::MeasgdAsync { momentum, .. } => (momentum, false),
        Strategy::Eamsgd { momentum, look_ahead, .. } => (momentum, look_ahead),
        _ => (0.0, false),
    };
    let Replica { x, v, t } = replica;
    let at = |i: usize| if ahead { x[i] + momentum * v[i] } else { x[i] };
    let at = Vector::from((0..x.len()).map(at).collect::<Vec<_>>());
    let g = gradient(&mut learner, &at, &plan.sampler.batch(*t, worker));
    let rate = plan.learning_rate.at(consumed);
    let decay = scene.spec.train.optimizer.weight_decay;
    for i in 0..x.len() {
        v[i] = momentum * v[i] - rate * (g[i] + decay * x[i]);
        x[i] = (x[i] + v[i]) - pull(i, x[i]);
    }
    *t += 1;
}

fn moving_rate(scene: &Scene, samples: u64) -> f32 {
    match scene.spec.strategy {
        Strategy::EasgdOriginal { moving_rate, .. }
        | Strategy::EasgdAsync { moving_rate, .. }
        | Strategy::MeasgdAsync { moving_rate, .. }
        | Strategy::EasgdHogwild { moving_rate, .. }
        | Strategy::EasgdSync { moving_rate, .. }
        | Strategy::Eamsgd { moving_rate, .. } => {
            moving_rate.at(scene.plan().learning_rate.at(samples), scene.plan().workers())
        }
        _ => unreachable!(),
    }
}

/// Does what the records say and nothing else: workers, then the centre.
fn replay(scene: &Scene, outcome: &WorldOutcome) -> (Vec<Vec<f32>>, Vec<f32>) {
    let plan = scene.plan();
    let initial = scene.learner().initial().into_inner();
    let p = plan.workers();
    let n = initial.len();
    let servers = outcome.ranks.len() - p;
    let orders: Vec<Vec<UpdateRecord>> = (0..servers).map(|server| updates(outcome, p + server)).collect();
    let exchanges: Vec<Vec<u64>> = (0..p)
        .map(|k| {
            orders[0].iter().filter(|update| update.worker.index() == k).map(|update| update.step).collect()
        })
        .collect();
    let steps: Vec<u64> = (0..p)
        .map(|k| outcome.ranks[k].steps(LaneId::Compute).iter().filter(|step| !step.drain).count() as u64)
        .collect();
    let mut centre = initial.clone();
    let mut workers: Vec<Replica> =
        (0..p).map(|_| Replica { x: initial.clone(), v: vec![0.0; n], t: 1 }).collect();
    let mut next = vec![0; servers];
    let mut met = Met::new();
    loop {
        let mut moved = false;
        for server in 0..servers {
            let Some(update) = orders[server].get(next[server]) else { continue };
            let k = update.worker.index();
            if workers[k].t != update.step {
                continue;
            }
            let span = piece(n, servers, server);
            let a = moving_rate(scene, update.samples);
            met.insert((server, k, update.step), (centre[span.clone()].to_vec(), update.samples));
            for i in span {
                centre[i] += a * (workers[k].x[i] - centre[i]);
            }
            next[server] += 1;
            moved = true;
        }
        for k in 0..p {
            let t = workers[k].t;
            if !(0..servers).all(|server| met.contains_key(&(server, k, t))) {
                continue;
            }
            let parts: Vec<_> = (0..servers).filter_map(|server| met.remove(&(server, k, t))).collect();
            let told = parts[0].1;
            let c: Vec<f32> = parts.iter().flat_map(|(c, _)| c.clone()).collect();
            let a: Vec<f32> =
                parts.iter().flat_map(|(c, samples)| vec![moving_rate(scene, *samples); c.len()]).collect();
            step(scene, k, &mut workers[k], told, |i, x| a[i] * (x - c[i]));
            let end = exchanges[k].iter().copied().find(|next| *next > t).unwrap_or(steps[k] + 1);
            for j in 1..end - t {
                let own = j * plan.sampler.own_samples(1, k) as u64;
                step(scene, k, &mut workers[k], told + own, |_, _| 0.0);
            }
            moved = true;
        }
        if !moved {
            break;
        }
    }
    assert!(
        (0..servers).all(|server| next[server] == orders[server].len()),
        "the records contradict each other"
    );
    (workers.into_iter().map(|worker| worker.x).collect(), centre)
}

fn replayed(scene: &Scene) -> WorldOutcome {
    let outcome = scene.run();
    let (workers, centre) = replay(scene, &outcome);
    let p = workers.len();
    for (k, x) in workers.into_iter().enumerate() {
        let what = format!("{:?}, worker {k} of {p}", scene.spec.strategy);
        assert_eq!(outcome.ranks[k].model().sha256(), Vector::from(x).sha256(), "{what}");
    }
    let judged = outcome.ranks[p].model().sha256();
    assert_eq!(judged, Vector::from(centre).sha256(), "{:?}: the centre", scene.spec.strategy);
    outcome
}

#[test]
fn a_run_is_replayed_from_its_records_to_equal_bits() {
    let rho = MovingRate::Rho(2.0);
    let methods = |period| {
        [
            Strategy::EasgdAsync { moving_rate: rho, period, serve: Serve::All },
            Strategy::EasgdAsync { moving_rate: rho, period, serve: Serve::One },
            Strategy::MeasgdAsync { moving_rate: rho, momentum: 0.5, period, serve: Serve::One },
            Strategy::Eamsgd {
                moving_rate: MovingRate::Divided(0.9),
                momentum: 0.5,
                period,
                serve: Serve::One,
                look_ahead: false,
            },
            Strategy::Eamsgd {
                moving_rate: rho,
                momentum: 0.75,
                period,
                serve: Serve::All,
                look_ahead: true,
            },
        ]
    };
    for (workers, servers) in [(1, 1), (2, 1), (5, 1), (1, 3), (3, 2)] {
        for period in [1, 3] {
            for strategy in methods(period) {
                for seed in 1..=3 {
                    replayed(&scene(strategy.clone(), workers, servers, seed));
                }
            }
        }
    }
    for overlap in [true, false] {
        let strategy = Strategy::EasgdOriginal { moving_rate: rho, overlap };
        for workers in 1..=4 {
            let outcome = turn_by_turn(&scene(strategy.clone(), workers, 1, 1));
            assert_eq!(updates(&outcome, workers as usize).len(), 20 * workers as usize);
        }
    }
}

/// One lock-free worker meets no other: its run can be replayed as well.
#[test]
fn one_worker_without_a_lock_is_one_with_a_lock() {
    for period in [1, 4] {
        replayed(&scene(Strategy::EasgdHogwild { moving_rate: fixed(0.25), period }, 1, 2, 1));
    }
}

/// Algorithm 1 in plain code, workers in this order.
fn round_robin(scene: &Scene, order: &[usize], turns: usize) -> (Vec<Vec<f32>>, Vec<f32>) {
    let plan = scene.plan();
    let mut learner = scene.learner();
    let initial = learner.initial().into_inner();
    let mut workers = vec![initial.clone(); order.len()];
    let mut c = initial;
    let mut consumed = 0;
    let mut steps = vec![0; order.len()];
    for j in order.iter().copied().cycle().take(turns) {
        steps[j] += 1;
        let batch = plan.sampler.batch(steps[j], j);
        let g = gradient(&mut learner, &Vector::from(workers[j].clone()), &batch);
        let rate = plan.learning_rate.at(consumed);
        let a = moving_rate(scene, consumed);
        for i in 0..c.len() {
            let x = workers[j][i];
            let apart = workers[j][i] - c[i];
            workers[j][i] = (x - rate * (g[i] + scene.spec.train.optimizer.weight_decay * x)) - a * apart;
            c[i] += a * apart;
        }
        consumed += batch.examples.len() as u64;
    }
    (workers, c)
}

/// A round robin, replayed by Algorithm 1 in the order of its records.
fn turn_by_turn(scene: &Scene) -> WorldOutcome {
    let outcome = scene.run();
    let p = scene.plan().workers();
    let order: Vec<usize> = updates(&outcome, p).iter().map(|update| update.worker.index()).collect();
    let (workers, c) = round_robin(scene, &order[..p], order.len());
    for (k, x) in workers.into_iter().enumerate() {
        let what = format!("{:?}, worker {k} of {p}", scene.spec.strategy);
        assert_eq!(outcome.ranks[k].model().sha256(), Vector::from(x).sha256(), "{what}");
    }
    let judged = outcome.ranks[p].model().sha256();
    assert_eq!(judged, Vector::from(c).sha256(), "{:?}: the centre of {p}", scene.spec.strategy);
    outcome
}

#[test]
fn the_round_robin_is_the_sequential_product_from_rank_0_on() {
    for overlap in [true, false] {
        let original = Strategy::EasgdOriginal { moving_rate: MovingRate::Rho(2.0), overlap };
        // The rate changes within rounds, too.
        let every = Extent::Epochs(0.007);
        let scene = scene(original, 4, 1, 3)
            .change(|spec| spec.train.schedule.shape = LrShape::Step { every, factor: 0.9 });
        let outcome = scene.run();
        let order = updates(&outcome, 4);
        assert!(order.iter().enumerate().all(|(turn, update)| update.worker.index() == turn % 4));
        let (workers, c) = round_robin(&scene, &[0, 1, 2, 3], order.len());
        for (k, x) in workers.into_iter().enumerate() {
            assert_eq!(outcome.ranks[k].model().sha256(), Vector::from(x).sha256(), "worker {k}");
        }
        let judged = outcome.ranks[4].model().sha256();
        assert_eq!(judged, Vector::from(c).sha256());
        let (_, other) = round_robin(&scene, &[1, 0, 2, 3], order.len());
        assert_ne!(judged, Vector::from(other).sha256(), "the order does not show");
    }
}
