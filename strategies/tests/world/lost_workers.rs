//! Ranks that die, hang, or are slow: synchronous methods end within the deadline and say who it was; servers that
//! wait for no other continue.

use crate::asynchronous::{scene, updates};
use crate::scene::Scene;
use crate::sharding::judged;
use recipe::{ExchangeThrough, Extent, Serve, StepPace, Strategy};
use record::{Event, LostRecord, Nanos, Rank};
use strategies::StepError;
use strategies::sim::{Aftermath, Ending, Fault, Faults, LaneEnd, WorldOutcome};

pub(crate) const DEADLINE: Nanos = Nanos(2_000_000);

/// Strategies that exchange like this. Those with a centre are in `elastic_lost.rs`.
pub(crate) fn exchanging(pace: StepPace, through: impl Fn(ExchangeThrough) -> bool) -> Vec<Strategy> {
    let profile = |strategy: &Strategy| strategy.kind().profile();
    let chosen = |strategy: &Strategy| profile(strategy).pace == pace && through(profile(strategy).exchange);
    Strategy::samples().into_iter().filter(chosen).collect()
}

fn synchronous() -> Vec<Strategy> {
    exchanging(StepPace::Common, |through| through != ExchangeThrough::Centre)
}

/// Of those at their own pace, pairs without a server are in `pairs_lost.rs`.
fn asynchronous() -> Vec<Strategy> {
    exchanging(StepPace::Own, |through| match through {
        ExchangeThrough::AllReduce | ExchangeThrough::SyncServer | ExchangeThrough::AsyncServer => true,
        ExchangeThrough::Centre | ExchangeThrough::Neighbours => false,
    })
}

/// A run in which ranks fail at moments counted from its start.
pub(crate) fn go_wrong(scene: &Scene, faults: &[(Nanos, Fault)]) -> Aftermath {
    let run = |faults: Vec<(Nanos, Fault)>| {
        let faults = Faults { patience: DEADLINE, faults };
        scene.world.run_into(&faults, &scene.blueprint(), |_| Box::new(scene.learner())).unwrap()
    };
    let origin = run(vec![]).origin;
    let after = run(faults.iter().map(|(at, fault)| (origin + *at, *fault)).collect());
    assert_eq!(after.origin, origin);
    after
}

/// Four workers; rank 1 fails in the middle of the run.
fn run(strategy: &Strategy, servers: usize, seed: u64, fault: fn(Rank) -> Fault) -> Aftermath {
    let scene = scene(strategy.clone(), 4, servers, seed);
    let half = scene.run().time.0 / 3 + 1_000 * seed;
    go_wrong(&scene, &[(Nanos(half), fault(Rank(1)))])
}

/// The lanes of ranks that nothing happened to.
pub(crate) fn survivors(after: &Aftermath, victim: Rank) -> impl Iterator<Item = &Ending> {
    after.endings.iter().filter(move |ending| ending.rank != victim)
}

/// Who failed first, and why: all that failed at that moment.
pub(crate) fn first_failures(after: &Aftermath) -> Vec<(Rank, &StepError)> {
    let failed = || {
        after.endings.iter().filter_map(|ending| match &ending.end {
            LaneEnd::Failed(error) if *error != StepError::Stopped => Some((ending.at, (ending.rank, error))),
            _ => None,
        })
    };
    let first = failed().map(|(at, _)| at).min();
    failed().filter(|(at, _)| Some(*at) == first).map(|(_, failure)| failure).collect()
}

/// Every rank but the victim failed, too.
pub(crate) fn all_fail(after: &Aftermath, victim: Rank, what: &str) {
    let failed = |ending: &Ending| matches!(ending.end, LaneEnd::Failed(_));
    for rank in survivors(after, victim).map(|ending| ending.rank) {
        let its = after.endings.iter().filter(|ending| ending.rank == rank);
        assert!(its.clone().any(failed), "{what}: {:?}", its.collect::<Vec<_>>());
    }
}

pub(crate) fn gone(after: &Aftermath, peer: Rank) -> bool {
    let names = |error: &StepError| matches!(error, StepError::Gone { .. }) && error.peer() == Some(peer);
    let first = first_failures(after);
    // A rank that waits for one that fails on account of the victim fails at the same moment.
    first.iter().all(|(_, error)| matches!(error, StepError::Gone { .. }))
        && first.iter().any(|(_, error)| names(error))
}

fn silent(after: &Aftermath) -> bool {
    // Of several that wait for each other, the first to complain need not be the victim's neighbour.
    first_failures(after)
        .iter()
        .any(|(_, error)| matches!(error, StepError::Silent { waited, .. } if *waited == DEADLINE))
}

#[test]
fn a_synchronous_run_ends_within_the_deadline_of_a_rank_that_fails() {
    for strategy in synchronous() {
        for servers in 0..=3 * strategy.servers() as usize {
            if (servers == 0) != (strategy.servers() == 0) {
                continue;
            }
            for seed in 0..10 {
                let what = format!("{strategy:?}, {servers} servers, seed {seed}");
                let died = run(&strategy, servers, seed, Fault::Kill);
                assert!(gone(&died, Rank(1)), "{what}: {:?}", died.endings);
                all_fail(&died, Rank(1), &what);
                let hung = run(&strategy, servers, seed, Fault::Stop);
                assert!(silent(&hung), "{what}: {:?}", hung.endings);
                all_fail(&hung, Rank(1), &what);
            }
        }
    }
}

pub(crate) fn lost(outcome: &WorldOutcome) -> Vec<LostRecord> {
    let events = outcome.ranks.iter().flat_map(|rank| &rank.events);
    let lost = events.filter_map(|event| match event {
        Event::Lost(lost) => Some(lost.clone()),
        _ => None,
    });
    lost.collect()
}

#[test]
fn an_asynchronous_run_goes_on_without_a_worker_that_fails() {
    for strategy in asynchronous() {
        for servers in 1..=3 {
            for seed in 0..10 {
                for fault in [Fault::Kill, Fault::Stop] {
                    let what = format!("{strategy:?}, {servers} servers, seed {seed}");
                    let after = run(&strategy, servers, seed, fault);
                    let fine = |ending: &Ending| ending.end == LaneEnd::Finished;
                    assert!(survivors(&after, Rank(1)).all(fine), "{what}: {:?}", after.endings);
                    let outcome = after.outcome;
                    let lost = lost(&outcome);
                    // Every server notices it, and tells it once.
                    assert_eq!(lost.len(), servers, "{what}");
                    assert!(lost.iter().all(|lost| lost.peer == Rank(1)), "{what}");
                    let updates = updates(&outcome, 4);
                    let of_lost = updates.iter().filter(|update| update.worker == Rank(1)).count() as u64;
                    assert!((1..20).contains(&of_lost), "{what}: {of_lost} of it");
                    assert_eq!(lost[0].step, of_lost + 1, "{what}");
                    // Other workers make up for the batch that the lost one had begun, unless they had already ended.
                    let samples = updates.last().unwrap().samples;
                    assert!((197..204).contains(&samples), "{what}: {samples} samples");
                    assert!(judged(&outcome).last().unwrap().3, "{what}: no final model");
                }
            }
        }
    }
}

/// The last gradient of a worker that dies comes to the first server and not to the second, so that a mark is passed
/// on one of them only; still the parts of one moment are put together.
#[test]
fn a_gradient_that_came_to_one_server_only_confuses_no_server() {
    let mut scene = scene(Strategy::AsyncSgd { serve: Serve::One, staleness_bound: None }, 2, 2, 1);
    scene.spec.train.evaluate = Extent::Epochs(0.199);
    scene.world.jitter = 0.0;
    // A packet sent before the end still arrives, so the worker has to die between its two sends.
    scene.world.costs.code = 200.0;
    let end = scene.run().time;
    let mut apart = 0;
    for back in 0..150 {
        let outcome = go_wrong(&scene, &[(end - Nanos(1_000 * back), Fault::Kill(Rank(1)))]).outcome;
        let [first, second] = [2, 3].map(|server| updates(&outcome, server).last().unwrap().samples);
        apart += u32::from(first > 199 && second < 199);
        assert!(judged(&outcome).last().unwrap().3);
    }
    assert!(apart > 0, "no gradient came to one server only");
}

#[test]
fn a_run_without_a_single_worker_has_failed() {
    for strategy in asynchronous() {
        let scene = scene(strategy.clone(), 2, 1, 1);
        let after = go_wrong(&scene, &[0, 1].map(|rank| (Nanos(50_000), Fault::Kill(Rank(rank)))));
        let first = first_failures(&after);
        assert!(
            matches!(first[..], [(Rank(2), StepError::Gone { .. })]),
            "{strategy:?}: {:?}",
            after.endings
        );
    }
}

#[test]
fn a_run_without_one_of_its_servers_has_failed() {
    for strategy in asynchronous() {
        let fails = |fault| go_wrong(&scene(strategy.clone(), 2, 2, 1), &[(Nanos(50_000), fault)]);
        let died = fails(Fault::Kill(Rank(3)));
        assert!(gone(&died, Rank(3)), "{strategy:?}: {:?}", died.endings);
        all_fail(&died, Rank(3), "died");
        // The other server hears no more of workers that wait for this one, and may be the first to complain.
        let hung = fails(Fault::Stop(Rank(3)));
        assert!(silent(&hung), "{strategy:?}: {:?}", hung.endings);
        all_fail(&hung, Rank(3), "hung");
    }
}

#[test]
fn a_slow_rank_is_no_fault() {
    for strategy in synchronous().into_iter().chain(asynchronous()) {
        let mut scene = scene(strategy.clone(), 4, strategy.servers() as usize, 1);
        scene.world.slow = [(Rank(1), 30.0)].into();
        let after = go_wrong(&scene, &[]);
        assert!(lost(&after.outcome).is_empty(), "{strategy:?}");
        assert!(after.endings.iter().all(|ending| ending.end == LaneEnd::Finished), "{strategy:?}");
    }
}
