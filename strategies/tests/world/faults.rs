//! Ranks that die, hang, or are slow: synchronous methods end within the deadline and say who it was; servers that
//! wait for nobody go on.

use crate::asynchronous::{scene, updates};
use crate::sharding::judged;
use recipe::{Extent, Strategy};
use record::{Event, LostRecord, Nanos, Rank};
use strategies::StepError;
use strategies::sim::{Fault, Outcome, WorldError};

const DEADLINE: Nanos = Nanos(2_000_000);

fn synchronous() -> [Strategy; 4] {
    let pipe = Strategy::PipeSgd { depth: 2, warmup: Extent::Steps(0), segments: 2 };
    [Strategy::DSync, Strategy::PsSync, pipe, Strategy::LocalSgd { period: 3 }]
}

fn asynchronous() -> [Strategy; 4] {
    [
        Strategy::AsyncSgd { staleness_bound: None },
        Strategy::AsyncSgd { staleness_bound: Some(1) },
        Strategy::AsyncMsgd { momentum: 0.5, staleness_bound: None },
        Strategy::HogwildSgd { staleness_bound: Some(0) },
    ]
}

/// Four workers; rank 1 fails in the middle of the run.
fn run(
    strategy: &Strategy,
    servers: usize,
    seed: u64,
    fault: fn(Nanos) -> Fault,
) -> Result<Outcome, WorldError> {
    let mut scene = scene(strategy.clone(), 4, servers, seed);
    scene.world.deadline = Some(DEADLINE);
    let half = scene.run().time.0 / 3 + 1_000 * seed;
    scene.world.faults = [(Rank(1), fault(Nanos(half)))].into();
    scene.world.run(&scene.blueprint(), |_| Box::new(scene.learner()))
}

#[test]
fn a_synchronous_run_ends_within_the_deadline_of_a_rank_that_fails() {
    for strategy in synchronous() {
        for servers in 0..=3 * strategy.servers() as usize {
            if (servers == 0) != (strategy.servers() == 0) {
                continue;
            }
            for seed in 0..10 {
                let died = run(&strategy, servers, seed, Fault::Dies).unwrap_err();
                let WorldError::Failed { source: StepError::Gone { peer, .. }, .. } = died else {
                    panic!("{strategy:?}: {died}")
                };
                assert_eq!(peer, Rank(1), "{strategy:?}");
                let hung = run(&strategy, servers, seed, Fault::Hangs).unwrap_err();
                let WorldError::Failed { source: StepError::Silent { waited, .. }, .. } = hung else {
                    panic!("{strategy:?}: {hung}")
                };
                assert_eq!(waited, DEADLINE, "{strategy:?}");
            }
        }
    }
}

fn lost(outcome: &Outcome) -> Vec<LostRecord> {
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
                for fault in [Fault::Dies, Fault::Hangs] {
                    let what = format!("{strategy:?}, {servers} servers, seed {seed}");
                    let outcome = run(&strategy, servers, seed, fault)
                        .unwrap_or_else(|error| panic!("{what}: {error}"));
                    let lost = lost(&outcome);
                    // Every server notices it, and tells it once.
                    assert_eq!(lost.len(), servers, "{what}");
                    assert!(lost.iter().all(|lost| lost.peer == Rank(1)), "{what}");
                    let updates = updates(&outcome, 4);
                    let of_lost = updates.iter().filter(|update| update.worker == Rank(1)).count() as u64;
                    assert!((1..20).contains(&of_lost), "{what}: {of_lost} of it");
                    assert_eq!(lost[0].step, of_lost + 1, "{what}");
                    // What the lost one was computing is computed by others, unless they had gone home.
                    let samples = updates.last().unwrap().samples;
                    assert!((197..204).contains(&samples), "{what}: {samples} samples");
                    assert!(judged(&outcome).last().unwrap().3, "{what}: no final model");
                }
            }
        }
    }
}

#[test]
fn a_run_without_a_single_worker_has_failed() {
    for strategy in asynchronous() {
        let mut scene = scene(strategy.clone(), 2, 1, 1);
        scene.world.faults = [0, 1].map(|rank| (Rank(rank), Fault::Dies(Nanos(50_000)))).into();
        let error = scene.world.run(&scene.blueprint(), |_| Box::new(scene.learner())).unwrap_err();
        let WorldError::Failed { rank: Rank(2), source: StepError::Gone { .. }, .. } = error else {
            panic!("{strategy:?}: {error}")
        };
    }
}

#[test]
fn a_run_without_one_of_its_servers_has_failed() {
    for strategy in asynchronous() {
        let fails = |fault| {
            let mut scene = scene(strategy.clone(), 2, 2, 1);
            scene.world.deadline = Some(DEADLINE);
            scene.world.faults = [(Rank(3), fault)].into();
            scene.world.run(&scene.blueprint(), |_| Box::new(scene.learner())).unwrap_err()
        };
        let died = fails(Fault::Dies(Nanos(50_000)));
        assert!(
            matches!(died, WorldError::Failed { source: StepError::Gone { peer: Rank(3), .. }, .. }),
            "{strategy:?}: {died}"
        );
        // The other server hears no more of workers that wait for this one, and may be the first to complain.
        let hung = fails(Fault::Hangs(Nanos(50_000)));
        assert!(
            matches!(hung, WorldError::Failed { source: StepError::Silent { waited: DEADLINE, .. }, .. }),
            "{strategy:?}: {hung}"
        );
    }
}

#[test]
fn a_slow_rank_is_no_fault() {
    for strategy in synchronous().into_iter().chain(asynchronous()) {
        let mut scene = scene(strategy.clone(), 4, strategy.servers() as usize, 1);
        scene.world.deadline = Some(DEADLINE);
        scene.world.slow = [(Rank(1), 30.0)].into();
        assert!(lost(&scene.run()).is_empty(), "{strategy:?}");
    }
}
