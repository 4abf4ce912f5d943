//! Servers that answer each worker as it comes, replayed from their own records by a few lines of plain code.

use crate::reference::{Sgd, gradient};
use crate::scene::{Scene, lanes};
use crate::sharding::judged;
use recipe::{ExchangeThrough, Extent, LrShape, Serve, Strategy};
use record::{Event, LaneId, Nanos, Phase, Rank, UpdateRecord};
use std::collections::BTreeMap;
use strategies::sim::{Costs, WorldOutcome};
use strategies::toy::Quadratic;
use strategies::vector::piece;
use strategies::{Blueprint, Learner, Vector};

fn sgd(staleness_bound: Option<u64>) -> Strategy {
    Strategy::AsyncSgd { serve: Serve::One, staleness_bound }
}

fn msgd(staleness_bound: Option<u64>) -> Strategy {
    Strategy::AsyncMsgd { momentum: 0.5, serve: Serve::One, staleness_bound }
}

fn sgd_at_once(staleness_bound: Option<u64>) -> Strategy {
    Strategy::AsyncSgd { serve: Serve::All, staleness_bound }
}

fn hogwild(staleness_bound: Option<u64>) -> Strategy {
    Strategy::HogwildSgd { staleness_bound }
}

/// Workers of uneven speed whose every piece of work takes another time, and a rate that changes.
pub(crate) fn scene(strategy: Strategy, workers: u32, servers: usize, seed: u64) -> Scene {
    let mut scene = Scene::new(strategy, workers).servers(servers).seed(seed).change(|spec| {
        spec.train.global_batch = 10;
        spec.train.length = Extent::Steps(20);
        spec.train.evaluate = Extent::Steps(6);
        spec.train.optimizer.weight_decay = 0.01;
        spec.train.schedule.shape = LrShape::Step { every: Extent::Steps(4), factor: 0.5 };
    });
    scene.world.jitter = 1.0;
    scene.world.slow.insert(Rank(1), 3.0);
    scene.world.costs = Costs {
        forward: vec![Nanos(900), Nanos(1_100)],
        backward: vec![Nanos(2_000), Nanos(1_000)],
        update: 10.0,
        code: 1.0,
        ..Costs::default()
    };
    scene
}

/// Updates that a server applied, in its order.
pub(crate) fn updates(outcome: &WorldOutcome, server: usize) -> Vec<UpdateRecord> {
    let mut updates: Vec<UpdateRecord> = outcome.ranks[server]
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Update(update) => Some(update.clone()),
            _ => None,
        })
        .collect();
    updates.sort_by_key(|update| update.version);
    updates
}

/// Does what the records say and nothing else. The weights of each server, version by version.
fn replay(scene: &Scene, outcome: &WorldOutcome) -> Vec<Vec<Vec<f32>>> {
    let plan = scene.plan();
    let mut learner = scene.learner();
    let initial = learner.initial();
    let p = plan.workers();
    let servers = outcome.ranks.len() - p;
    let span = |server| piece(initial.len(), servers, server);
    let orders: Vec<Vec<UpdateRecord>> = (0..servers).map(|server| updates(outcome, p + server)).collect();
    // Versions of the weights with which each gradient was computed: one of each server's part.
    let mut read: BTreeMap<(Rank, u64), Vec<u64>> = BTreeMap::new();
    for order in &orders {
        for (n, update) in order.iter().enumerate() {
            assert_eq!(update.version, n as u64 + 1);
            read.entry((update.worker, update.step)).or_default().push(update.version - 1 - update.staleness);
        }
    }
    let mut weights: Vec<Vec<Vec<f32>>> =
        (0..servers).map(|server| vec![initial[span(server)].to_vec()]).collect();
    let mut rules: Vec<Sgd> = (0..servers).map(|server| Sgd::new(scene, span(server).len())).collect();
    let momentum = match scene.spec.strategy {
        Strategy::AsyncMsgd { momentum, .. } => Some(momentum),
        _ => None,
    };
    while (0..servers).any(|server| weights[server].len() <= orders[server].len()) {
        let mut moved = false;
        for server in 0..servers {
            let Some(update) = orders[server].get(weights[server].len() - 1) else { continue };
            let versions = &read[&(update.worker, update.step)];
            if versions.iter().zip(&weights).any(|(version, known)| *version >= known.len() as u64) {
                continue;
            }
            let parts =
                versions.iter().zip(&weights).flat_map(|(version, known)| known[*version as usize].clone());
            let w = Vector::from(parts.collect::<Vec<_>>());
            let batch = plan.sampler.batch(update.step, update.worker.index());
            let g = gradient(&mut learner, &w, &batch);
            let before = update.samples - batch.examples.len() as u64;
            let rate = plan.learning_rate.at(before);
            let rule = &mut rules[server];
            let mut next = Vector::from(weights[server].last().unwrap().clone());
            match momentum {
                None => rule.step(&mut next, &g[span(server)], rate),
                Some(mu) => {
                    for (i, g) in g[span(server)].iter().enumerate() {
                        rule.v[i] = mu * rule.v[i] - rate * (g + rule.decay * next[i]);
                        next[i] += rule.v[i];
                    }
                }
            }
            weights[server].push(next.into_inner());
            moved = true;
        }
        assert!(moved, "the records contradict each other");
    }
    weights
}

#[test]
fn a_run_is_replayed_from_its_records_to_equal_bits() {
    let mut orders = std::collections::BTreeSet::new();
    for strategy in [sgd, msgd, sgd_at_once] {
        for (workers, servers) in [(1, 1), (2, 1), (3, 1), (5, 1), (1, 2), (3, 2), (4, 3)] {
            for bound in [None, Some(0), Some(2)] {
                for seed in 1..=4 {
                    let scene = scene(strategy(bound), workers, servers, seed);
                    let outcome = scene.run();
                    let what = format!("{:?}, {workers} and {servers}, seed {seed}", scene.spec.strategy);
                    let replayed = replay(&scene, &outcome);
                    let whole: Vec<f32> =
                        replayed.iter().flat_map(|versions| versions.last().unwrap().clone()).collect();
                    let judged = outcome.ranks[workers as usize].model();
                    assert_eq!(judged.sha256(), Vector::from(whole).sha256(), "{what}");
                    let order = updates(&outcome, workers as usize);
                    orders.insert((
                        workers,
                        servers,
                        order.iter().map(|update| update.worker).collect::<Vec<_>>(),
                    ));
                }
            }
        }
    }
    assert!(orders.len() > 40, "only {} orders were tried", orders.len());
}

/// One process that draws its samples at its own pace.
#[test]
fn one_worker_is_plain_sgd() {
    for strategy in [sgd(None), sgd(Some(0)), sgd_at_once(None), hogwild(None), msgd(None)] {
        for servers in [1, 3] {
            let mut scene = scene(strategy.clone(), 1, servers, 1);
            scene.spec.train.schedule.shape = LrShape::Constant;
            let outcome = scene.run();
            let plan = scene.plan();
            let mut learner = scene.learner();
            let mut w = learner.initial();
            let mut rule = Sgd::new(&scene, w.len());
            if let Strategy::AsyncMsgd { momentum, .. } = strategy {
                rule.momentum = momentum;
            }
            for t in 1..=20 {
                let g = gradient(&mut learner, &w, &plan.sampler.batch(t, 0));
                // With rate 1/8, inside or outside of the velocity makes no difference to a bit.
                rule.step(&mut w, &g, plan.learning_rate.at(0));
            }
            assert_eq!(outcome.ranks[1].model().sha256(), w.sha256(), "{strategy:?}, {servers} servers");
            assert!(updates(&outcome, 1).iter().all(|update| update.staleness == 0));
        }
    }
}

/// One clipped gradient after the other, whole or in parts.
#[test]
fn workers_clip_before_their_gradients_are_divided() {
    for strategy in [sgd(None), hogwild(None), msgd(None)] {
        let run = |servers, clip| {
            let mut scene = scene(strategy.clone(), 1, servers, 1);
            scene.spec.train.optimizer.clip = clip;
            scene.run().ranks[1].model().sha256()
        };
        assert_eq!(run(1, Some(0.5)), run(3, Some(0.5)), "{strategy:?}");
        assert_ne!(run(1, Some(0.5)), run(1, None), "{strategy:?}");
        assert_eq!(run(1, Some(1e6)), run(1, None), "{strategy:?}");
    }
}

/// Two workers of one speed take turns, so that every gradient but the first is one update old: the recurrence
/// w[v] = w[v - 1] - a w[v - 2].
#[test]
fn two_workers_in_turn_are_the_recurrence_with_delay_1() {
    for (strategy, name) in [(sgd(None), "sgd"), (hogwild(None), "hogwild")] {
        let mut scene = Scene::new(strategy, 2).change(|spec| {
            spec.train.optimizer.lr = 0.5;
            spec.train.length = Extent::Steps(8);
        });
        scene.world.costs = Costs { forward: vec![Nanos(50_000)], ..Costs::default() };
        let learner = || Quadratic::new(1.0, vec![1.0; 3], 1);
        let blueprint = Blueprint::new(&scene.spec, scene.plan(), 3);
        let outcome = scene.world.run(&blueprint, |_| Box::new(learner())).unwrap();
        let mut w = vec![1.0_f32, 0.5];
        for v in 2..=16 {
            w.push(w[v - 1] - 0.5 * w[v - 2]);
        }
        let updates = updates(&outcome, 2);
        assert_eq!(updates.len(), 16);
        let stale: Vec<u64> = updates.iter().map(|update| update.staleness).collect();
        assert_eq!(stale, [&[0][..], &[1; 15]].concat(), "{name}");
        assert_eq!(outcome.ranks[2].model()[0].to_bits(), w[16].to_bits(), "{name}");
    }
}

#[test]
fn training_ends_with_exactly_the_samples_of_the_budget() {
    for (workers, gradients) in [(1, 20), (2, 40), (5, 100), (10, 200)] {
        for seed in 0..5 {
            let outcome = scene(sgd(None), workers, 1, seed).run();
            let updates = updates(&outcome, workers as usize);
            assert_eq!((updates.len(), updates.last().unwrap().samples), (gradients, 200));
            // Each worker's steps are what the server saw of it, and the last it hears of is never more than all.
            for rank in 0..workers {
                let own = updates.iter().filter(|update| update.worker == Rank(rank)).count();
                let steps = outcome.ranks[rank as usize].steps(LaneId::Compute);
                assert_eq!(steps.iter().filter(|step| !step.drain).count(), own);
                assert!(steps.iter().all(|step| step.samples <= 200));
            }
        }
    }
    // Where shares are uneven, the gradient that reaches the budget is the last to be begun.
    let outcome = scene(sgd(None), 3, 1, 1).run();
    let samples = updates(&outcome, 3).last().unwrap().samples;
    assert!((200..204).contains(&samples), "{samples}");
}

#[test]
fn the_server_is_judged_at_the_marks_and_at_the_end() {
    for strategy in [sgd, sgd_at_once, msgd, hogwild] {
        for servers in [1, 3] {
            for seed in 0..5 {
                let scene = scene(strategy(None), 4, servers, seed);
                let judged = judged(&scene.run());
                assert!(
                    judged.iter().all(|(rank, model, ..)| (*rank, model.as_str()) == (Rank(4), "server"))
                );
                let seen: Vec<(u64, bool)> =
                    judged.iter().map(|(.., samples, last)| (*samples, *last)).collect();
                assert_eq!(seen.len(), 5, "{seen:?}");
                for ((samples, last), due) in seen.iter().zip([0, 60, 120, 180, 200]) {
                    // 2 or 3 samples per gradient: a lane or two may have gone on before the model was copied.
                    assert!((due..due + 12).contains(samples), "{samples} instead of {due}");
                    assert_eq!(*last, due == 200);
                }
            }
        }
    }
}

/// Gradients wait for a server that is slower than its workers, in the order in which they came: round after round.
#[test]
fn the_first_to_come_is_served_first() {
    for seed in 0..20 {
        let mut scene = scene(sgd(None), 4, 1, seed);
        (scene.world.jitter, scene.world.slow) = (0.0, BTreeMap::new());
        scene.world.costs.update = 200.0;
        let order: Vec<Rank> = updates(&scene.run(), 4).iter().map(|update| update.worker).collect();
        assert!(order.windows(5).all(|five| five[0] == five[4]), "seed {seed}: {order:?}");
    }
}

/// How many steps the worker of each update was ahead of the slowest when it began the step, as far as the server's
/// order tells: at most that, since the slowest may have caught up.
fn leads(updates: &[UpdateRecord], workers: usize) -> Vec<u64> {
    let mut steps = vec![0; workers];
    let mut leads = Vec::new();
    for update in updates {
        let slowest = steps.iter().copied().min().unwrap();
        leads.push(steps[update.worker.index()] - slowest);
        steps[update.worker.index()] += 1;
    }
    leads
}

#[test]
fn the_bound_is_never_exceeded_and_reached() {
    for strategy in [sgd, sgd_at_once, msgd, hogwild] {
        for bound in [0, 1, 3] {
            for servers in [1, 2] {
                let mut furthest = 0;
                let mut stalest = 0;
                for seed in 0..20 {
                    let outcome = scene(strategy(Some(bound)), 4, servers, seed).run();
                    let updates = updates(&outcome, 4);
                    furthest = furthest.max(leads(&updates, 4).into_iter().max().unwrap());
                    stalest = stalest.max(updates.iter().map(|update| update.staleness).max().unwrap());
                }
                assert_eq!(furthest, bound, "{:?}", strategy(Some(bound)));
                // Each of the three others makes at most 2 S + 1 steps between a reading and its update.
                assert!(stalest <= 3 * (2 * bound + 1) && stalest >= 3, "{stalest}");
            }
        }
        let free: u64 = (0..20)
            .map(|seed| {
                leads(&updates(&scene(strategy(None), 4, 1, seed).run(), 4), 4).into_iter().max().unwrap()
            })
            .max()
            .unwrap();
        assert!(free > 3, "the bounds did not hold anybody back: {free}");
    }
}

#[test]
fn a_straggler_delays_no_other_worker() {
    let pace = |strategy: Strategy, slow: f64| {
        let mut scene = scene(strategy, 3, 1, 1);
        scene.world.jitter = 0.0;
        scene.world.slow = [(Rank(1), slow)].into();
        let outcome = scene.run();
        outcome.ranks[0].steps(LaneId::Compute)[2..12].iter().map(|step| step.length).max().unwrap()
    };
    for strategy in [sgd, sgd_at_once, msgd, hogwild] {
        assert!(pace(strategy(None), 50.0) <= pace(strategy(None), 1.0), "{:?}", strategy(None));
        assert!(pace(strategy(Some(1)), 50.0).0 > pace(strategy(None), 1.0).0 * 10, "a bound waits");
    }
}

#[test]
fn every_lane_is_tiled_and_its_named_phases_cover_everything() {
    for strategy in Strategy::samples() {
        let servers = match strategy.kind().profile().exchange {
            ExchangeThrough::SyncServer | ExchangeThrough::AsyncServer => 2,
            ExchangeThrough::AllReduce | ExchangeThrough::Centre | ExchangeThrough::Neighbours => {
                strategy.servers() as usize
            }
        };
        let outcome = scene(strategy.clone(), 3, servers, 5).run();
        let lanes = lanes(&outcome);
        assert!(lanes.len() >= 3);
        for (rank, lane) in lanes {
            let mut at = Nanos(0);
            for step in outcome.ranks[rank.index()].steps(lane) {
                let place = format!("{strategy:?}, rank {rank} {lane} step {}", step.step);
                assert_eq!(step.begin, at, "{place}");
                assert_eq!(step.phases.total(), step.length, "{place}");
                assert_eq!(step.phases[Phase::Other], Nanos(0), "{place}");
                at += step.length;
            }
            assert!(at > Nanos(0) && at <= outcome.time);
        }
    }
}
