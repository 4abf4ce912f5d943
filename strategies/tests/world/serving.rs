//! Servers that serve one worker at a time, from its request to the end of the answer: how long that takes, that no worker
//! waits for ever, and that one who dies during its turn gives it back.

use crate::asynchronous::{scene, updates};
use crate::elastic::fixed;
use crate::interleavings::search;
use crate::lost_workers::{go_wrong, lost, survivors};
use crate::scene::{Scene, lanes};
use recipe::{Extent, Serve, Strategy};
use record::{LaneId, Nanos, Phase, Rank};
use strategies::sim::{Costs, Ending, Fault, LaneEnd, Link, WorldOutcome};
use strategies::toy::Quadratic;
use strategies::{Blueprint, Learner};

/// The kinds whose servers may serve one worker at a time.
pub(crate) fn kinds(wanted: Serve) -> Vec<Strategy> {
    let mut strategies = Strategy::samples();
    strategies.retain(|strategy| strategy.serve() == Some(wanted));
    for strategy in &mut strategies {
        match strategy {
            Strategy::AsyncSgd { staleness_bound, .. } | Strategy::AsyncMsgd { staleness_bound, .. } => {
                *staleness_bound = None;
            }
            Strategy::EasgdAsync { period, .. } | Strategy::MeasgdAsync { period, .. } => *period = 1,
            Strategy::Eamsgd { period, look_ahead, .. } => (*period, *look_ahead) = (1, true),
            other => panic!("{other:?} serves workers and has no settings here"),
        }
    }
    strategies.dedup();
    strategies
}

const WEIGHTS: usize = 10_000;
/// Nanoseconds of a vector on a card, of an update, of a message's way, and of a gradient.
const VECTOR: u64 = 4 * WEIGHTS as u64;
const UPDATE: u64 = 2 * WEIGHTS as u64;
const LATENCY: u64 = 500;

/// Workers of one speed whose gradients take `computing` nanoseconds, for `steps` steps each.
fn run(strategy: Strategy, workers: u32, computing: u64, steps: u64) -> WorldOutcome {
    let mut scene = Scene::new(strategy, workers).change(|spec| spec.train.length = Extent::Steps(steps));
    scene.world.link = Link { latency: Nanos(LATENCY), nanos_per_byte: 1.0 };
    // Updates take time on the server alone.
    scene.world.costs = Costs { forward: vec![Nanos(computing << 30)], update: 2.0, ..Costs::default() };
    scene.world.slow = (0..workers).map(|worker| (Rank(worker), 1.0 / f64::from(1 << 30))).collect();
    let blueprint = Blueprint::new(&scene.spec, scene.plan(), WEIGHTS);
    let learner = |_| Box::new(Quadratic::new(0.01, vec![1.0; WEIGHTS], 1)) as Box<dyn Learner>;
    scene.world.run(&blueprint, learner).unwrap()
}

/// Nanoseconds from one update of each worker to its next, when all have fallen into step.
fn round(strategy: Strategy, workers: u32, computing: u64) -> u64 {
    let updates = updates(&run(strategy, workers, computing, 10), workers as usize);
    let p = workers as usize;
    let last = updates.len() - workers as usize;
    let rounds: Vec<u64> = (4 * p..last - p).map(|i| (updates[i + p].at - updates[i].at).0).collect();
    assert!(rounds.iter().all(|round| round.abs_diff(rounds[0]) <= 1), "{rounds:?}");
    rounds[0]
}

/// Bytes of the words of an exchange that lie on its way: a permission, a note and a receipt.
fn words(strategy: &Strategy) -> u64 {
    let note =
        if matches!(strategy, Strategy::AsyncSgd { .. } | Strategy::AsyncMsgd { .. }) { 9 } else { 16 };
    1 + note + 1
}

/// A vector up, the update, a vector down, with four messages one after the other; then the next worker.
#[test]
fn one_at_a_time_takes_both_transfers_and_the_update_of_each_worker() {
    for strategy in kinds(Serve::One) {
        let turn = 2 * VECTOR + UPDATE + 4 * LATENCY + words(&strategy);
        for workers in [2, 4, 7] {
            let expected = u64::from(workers) * turn;
            let seen = round(strategy.clone(), workers, 1_000);
            // The grain of a vector's time on a card.
            assert!(
                seen.abs_diff(expected) <= 8 * u64::from(workers),
                "{strategy:?}, {workers}: {seen}, {expected}"
            );
        }
    }
}

/// Transfers of several workers overlap with each other's updates and replies: the card is the full resource, in each
/// direction by itself.
#[test]
fn all_at_once_takes_one_transfer_of_each_worker() {
    let hogwild = Strategy::HogwildSgd { staleness_bound: None };
    let elastic = Strategy::EasgdHogwild { moving_rate: fixed(0.125), period: 1 };
    for strategy in kinds(Serve::All).into_iter().chain([hogwild, elastic]) {
        let seen = round(strategy.clone(), 4, 1_000);
        assert!(seen.abs_diff(4 * VECTOR) <= 100, "{strategy:?}: {seen}");
    }
}

/// Where computing takes longer than all turns, an elastic worker's exchange is hidden, its wait for the turn included;
/// one that needs the answer to go on adds its own.
#[test]
fn an_elastic_worker_computes_while_it_waits_for_its_turn() {
    let computing = 1_000_000;
    for serve in [Serve::One, Serve::All] {
        let kinds = kinds(serve);
        let [sgd, _, elastic, ..] = &kinds[..] else { panic!("{kinds:?}") };
        assert!(round(elastic.clone(), 4, computing).abs_diff(computing) <= 100, "{serve:?}");
        let words = if serve == Serve::One { 4 * LATENCY + words(sgd) } else { 2 * LATENCY + 9 };
        let ask = if serve == Serve::One { LATENCY + 1 } else { 0 };
        // The receipt is on its way while the worker computes.
        let receipt = if serve == Serve::One { LATENCY + 1 } else { 0 };
        let expected = computing + 2 * VECTOR + UPDATE + words + ask - receipt;
        let seen = round(sgd.clone(), 4, computing);
        assert!(seen.abs_diff(expected) <= 100, "{serve:?}: {seen}, {expected}");
    }
}

/// A worker waits for its turn as it waits for any peer, and the lanes' books close.
#[test]
fn waiting_for_a_turn_is_waiting_for_the_server() {
    for strategy in kinds(Serve::One) {
        let outcome = run(strategy.clone(), 4, 1_000, 10);
        let lane = if outcome.ranks[0].steps(LaneId::Communication).is_empty() {
            LaneId::Compute
        } else {
            LaneId::Communication
        };
        let step = outcome.ranks[0].steps(lane)[5];
        let turn = 2 * VECTOR + UPDATE;
        assert!(step.phases[Phase::WaitPeer].0 > 3 * turn, "{strategy:?}: {:?}", step.phases);
        for (rank, lane) in lanes(&outcome) {
            for step in outcome.ranks[rank.index()].steps(lane) {
                assert_eq!(
                    (step.phases.total(), step.phases[Phase::Other]),
                    (step.length, Nanos(0)),
                    "{strategy:?}"
                );
            }
        }
    }
}

/// A worker of which the server hears no more, at every moment of a round; some of these lie in its own turn.
#[test]
fn a_worker_that_fails_during_its_turn_gives_it_back() {
    for strategy in kinds(Serve::One) {
        for servers in [1, 2] {
            let mut during = 0;
            for fault in [Fault::Kill, Fault::Stop] {
                let scene = scene(strategy.clone(), 3, servers, 3);
                let time = scene.run().time.0;
                let moments = 40;
                for moment in 0..moments {
                    let when = Nanos(time / 3 + moment * time / (8 * moments));
                    let after = go_wrong(&scene, &[(when, fault(Rank(1)))]);
                    let what = format!(
                        "{strategy:?}, {servers} servers, {fault:?} at {when}",
                        fault = fault(Rank(1))
                    );
                    let fine = |ending: &Ending| ending.end == LaneEnd::Finished;
                    assert!(survivors(&after, Rank(1)).all(fine), "{what}: {:?}", after.endings);
                    let lost = lost(&after.outcome);
                    assert_eq!(lost.len(), servers, "{what}");
                    let own = |reason: &str| reason.contains("part 1") || reason.contains("part 2");
                    during += lost.iter().filter(|lost| own(&lost.reason)).count();
                    let samples = updates(&after.outcome, 3).last().unwrap().samples;
                    assert!((180..204).contains(&samples), "{what}: {samples} samples");
                }
            }
            assert!(during > 5, "{strategy:?}, {servers} servers: {during} failed in their turns");
        }
    }
}

/// Every order in which two workers and two servers can act: no worker waits for a server while it keeps another one.
#[test]
fn in_no_order_do_workers_wait_for_each_others_turns() {
    for strategy in [
        Strategy::AsyncSgd { serve: Serve::One, staleness_bound: None },
        Strategy::AsyncSgd { serve: Serve::One, staleness_bound: Some(0) },
    ] {
        let mut scene = Scene::new(strategy.clone(), 2).servers(2).change(|spec| {
            spec.train.global_batch = 2;
            spec.train.length = Extent::Steps(1);
        });
        scene.spec.measure.hash_every_step = false;
        scene.world.link = Link { latency: Nanos(0), nanos_per_byte: 0.0 };
        scene.world.costs = Costs::default();
        let deadlocks = search("two servers", |choices| {
            let mut world = scene.world.clone();
            world.choices = Some(choices.clone());
            world.run(&scene.blueprint(), |_| Box::new(scene.learner()))
        });
        assert_eq!(deadlocks, 0, "{strategy:?}");
    }
}

/// Samples that were consumed: the budget, and less than one step of each worker more.
#[test]
fn no_server_lets_its_workers_go_beyond_the_budget_by_a_step_each() {
    let hogwild = Strategy::HogwildSgd { staleness_bound: Some(2) };
    let elastic = Strategy::EasgdHogwild { moving_rate: fixed(0.125), period: 3 };
    let long = Strategy::EasgdAsync { moving_rate: fixed(0.125), period: 7, serve: Serve::One };
    let original = Strategy::EasgdOriginal { moving_rate: fixed(0.125), overlap: true };
    let all =
        kinds(Serve::One).into_iter().chain(kinds(Serve::All)).chain([hogwild, elastic, long, original]);
    for strategy in all {
        for (workers, servers) in [(1, 1), (3, 1), (5, 1), (4, 2)] {
            if servers > 1 && matches!(strategy, Strategy::EasgdOriginal { .. }) {
                continue;
            }
            for seed in 0..5 {
                let outcome = scene(strategy.clone(), workers, servers, seed).run();
                let computed: u64 = (0..workers as usize)
                    .flat_map(|rank| outcome.ranks[rank].steps(LaneId::Compute))
                    .map(|step| u64::from(step.own_samples))
                    .sum();
                // 200 samples in shares of up to 10 / workers, rounded up; the last to be handed out reaches the budget.
                let share = 10_u64.div_ceil(u64::from(workers));
                assert!(
                    (200..200 + share).contains(&computed),
                    "{strategy:?}, {workers}, seed {seed}: {computed}"
                );
            }
        }
    }
}
