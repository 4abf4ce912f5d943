//! Everything that can go wrong with a rank, at every moment of a run: no rank waits forever, who is to blame can be
//! told from what the others say, and nothing that came before is changed.

use crate::scene::Scene;
use proptest::prelude::*;
use recipe::Strategy as Kinds;
use record::{Event, Nanos, Phase, Rank, StepRecord};
use strategies::StepError;
use strategies::sim::{Aftermath, Ending, Fault, LaneEnd};

/// Longer than any step takes.
const PATIENCE: Nanos = Nanos(50_000_000);
const STEPS: u64 = 12;

/// A run in which everything takes time, and a snapshot is taken after every fourth step.
fn scene(strategy: Kinds, seed: u64) -> Scene {
    Scene::timed(strategy, 3, STEPS).seed(seed)
}

fn go_wrong(scene: &Scene, faults: Vec<(Nanos, Fault)>) -> Aftermath {
    scene.with_faults(PATIENCE, faults)
}

fn steps(aftermath: &Aftermath) -> Vec<&StepRecord> {
    let events = aftermath.outcome.ranks.iter().flat_map(|rank| &rank.events);
    let steps = events.filter_map(|event| match event {
        Event::Step(step) => Some(step),
        _ => None,
    });
    steps.collect()
}

/// The moments of a run that goes well, counted from the beginning of its world.
fn moments(scene: &Scene) -> Vec<(&'static str, Nanos)> {
    let well = go_wrong(scene, vec![]);
    assert!(well.endings.iter().all(|ending| ending.end == LaneEnd::Finished), "{:?}", well.endings);
    let step = |number: u64| {
        let step = steps(&well).into_iter().find(|step| step.rank == Rank(0) && step.step == number).unwrap();
        well.origin + step.begin + Nanos(step.length.0 / 2)
    };
    let snapshots = well.outcome.ranks.iter().flat_map(|rank| &rank.events).filter_map(|event| match event {
        Event::Snapshot(snapshot) if snapshot.step == 4 => Some(well.origin + snapshot.at + Nanos(1)),
        _ => None,
    });
    let snapshot = snapshots.min().unwrap();
    let last = well.endings.iter().map(|ending| ending.at).max().unwrap();
    let end = Nanos(last.0 - 1);
    vec![
        ("start-up", Nanos(well.origin.0 / 2)),
        ("first step", step(1)),
        ("mid-run", step(STEPS / 2)),
        ("snapshot", snapshot),
        ("shut-down", end),
    ]
}

/// The lanes of ranks that nothing happened to.
fn others(aftermath: &Aftermath, victim: Rank) -> impl Iterator<Item = &Ending> {
    aftermath.endings.iter().filter(move |ending| ending.rank != victim)
}

/// No lane waits longer than the deadline after the fault, and what a step needs.
fn no_lane_hangs(scene: &Scene, aftermath: &Aftermath, at: Nanos) {
    let longest = Nanos(2_000_000);
    // Where no rank waits for the victim any more, the run continues to its end.
    let well = go_wrong(scene, vec![]).endings.iter().map(|ending| ending.at).max().unwrap();
    for ending in aftermath.endings.iter().filter(|ending| ending.end != LaneEnd::Hangs) {
        let limit = (at + PATIENCE + longest).max(well + longest);
        assert!(ending.at <= limit, "fault at {at}: {ending:?}");
    }
}

/// Asserts that the steps that ended before the fault are those of a run without it.
fn the_past_is_as_it_was(scene: &Scene, aftermath: &Aftermath, at: Nanos) {
    let well = go_wrong(scene, vec![]);
    let before = |aftermath: &Aftermath| -> Vec<String> {
        let ended = |step: &&StepRecord| well.origin + step.begin + step.length < at;
        steps(aftermath).into_iter().filter(ended).map(|step| format!("{step:?}")).collect()
    };
    if at > well.origin {
        assert_eq!(before(aftermath), before(&well));
    }
}

fn each(check: impl Fn(&Scene, &str, Nanos, Rank)) {
    for strategy in [Kinds::DSync, Kinds::PsSync] {
        for seed in 1..4 {
            let scene = scene(strategy.clone(), seed);
            for (moment, at) in moments(&scene) {
                for rank in 0..scene.spec.cluster.ranks() {
                    check(&scene, moment, at, Rank(rank));
                }
            }
        }
    }
}

#[test]
fn a_killed_rank_is_noticed_without_a_deadline_and_named() {
    each(|scene, moment, at, victim| {
        let after = go_wrong(scene, vec![(at, Fault::Kill(victim))]);
        no_lane_hangs(scene, &after, at);
        the_past_is_as_it_was(scene, &after, at);
        let silent = |ending: &&Ending| matches!(ending.end, LaneEnd::Failed(StepError::Silent { .. }));
        assert_eq!(others(&after, victim).find(silent), None, "{moment}");
        let was_there =
            after.endings.iter().any(|ending| ending.rank == victim && ending.end == LaneEnd::Killed);
        let blames = |ending: &Ending| match &ending.end {
            LaneEnd::Failed(error @ StepError::Gone { .. }) => error.peer() == Some(victim),
            _ => false,
        };
        let named = others(&after, victim).any(blames);
        let all_finish = others(&after, victim).all(|ending| ending.end == LaneEnd::Finished);
        assert!(named || !was_there || all_finish || moment == "start-up", "{moment}: {:?}", after.endings);
        assert!(!all_finish || moment == "shut-down", "{moment}, rank {victim}: {:?}", after.endings);
    });
}

#[test]
fn a_stopped_rank_is_noticed_at_the_deadline_by_the_ranks_that_wait_for_it() {
    each(|scene, moment, at, victim| {
        let after = go_wrong(scene, vec![(at, Fault::Stop(victim))]);
        no_lane_hangs(scene, &after, at);
        the_past_is_as_it_was(scene, &after, at);
        let hangs = after.endings.iter().any(|ending| ending.rank == victim && ending.end == LaneEnd::Hangs);
        if moment == "shut-down" && !hangs {
            return;
        }
        let silent: Vec<&Ending> = others(&after, victim)
            .filter(|ending| match &ending.end {
                LaneEnd::Failed(StepError::Silent { peer, waited, .. }) => {
                    assert_eq!(*waited, PATIENCE);
                    peer.is_none_or(|peer| peer == victim)
                }
                _ => false,
            })
            .collect();
        let finished = others(&after, victim).all(|ending| ending.end == LaneEnd::Finished);
        assert!(!silent.is_empty() || finished || moment == "start-up", "{moment}: {:?}", after.endings);
        assert!(silent.iter().all(|ending| ending.phase == Phase::WaitPeer), "{moment}: {silent:?}");
        if moment == "mid-run" {
            assert!(silent.iter().all(|ending| ending.step >= STEPS / 2), "{silent:?}");
        }
    });
}

#[test]
fn with_the_driver_everybody_dies_in_that_moment() {
    each(|scene, _, at, _| {
        let after = go_wrong(scene, vec![(at, Fault::KillAll)]);
        the_past_is_as_it_was(scene, &after, at);
        assert!(after.endings.iter().all(|ending| match ending.end {
            LaneEnd::Killed => true,
            LaneEnd::Finished => ending.at <= at,
            _ => false,
        }));
        assert!(after.endings.iter().any(|ending| ending.end == LaneEnd::Killed));
    });
}

#[test]
fn a_full_disk_ends_the_run_at_its_next_snapshot_and_the_rank_says_why() {
    each(|scene, moment, at, _| {
        let after = go_wrong(scene, vec![(at, Fault::FullDisk)]);
        no_lane_hangs(scene, &after, at);
        the_past_is_as_it_was(scene, &after, at);
        let full = |ending: &&Ending| matches!(&ending.end, LaneEnd::Failed(StepError::Environment(reason)) if reason.contains("no space left"));
        let told: Vec<&Ending> = after.endings.iter().filter(full).collect();
        // The last model is aside by then.
        assert_eq!(told.is_empty(), moment == "shut-down", "{moment}: {:?}", after.endings);
        assert!(told.iter().all(|ending| ending.rank == told[0].rank), "one rank writes: {told:?}");
        // The others find themselves left alone, one after the other, and none has to wait for a deadline.
        let unexplained = after.endings.iter().filter(|ending| match &ending.end {
            LaneEnd::Finished => false,
            LaneEnd::Failed(error) => {
                !matches!(error, StepError::Environment(_) | StepError::Stopped | StepError::Gone { .. })
            }
            LaneEnd::Killed | LaneEnd::Hangs => true,
        });
        assert_eq!(unexplained.count(), 0, "{moment}: {:?}", after.endings);
    });
}

#[test]
fn a_world_that_goes_wrong_goes_wrong_in_the_same_way_each_time() {
    let scene = scene(Kinds::PsSync, 5);
    let at = moments(&scene)[2].1;
    let endings = |fault| go_wrong(&scene, vec![(at, fault)]).endings;
    for fault in [Fault::Kill(Rank(1)), Fault::Stop(Rank(3)), Fault::KillAll, Fault::FullDisk] {
        assert_eq!(endings(fault), endings(fault));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_no_rank_waits_forever(
        seed in 0..1000_u64,
        share in 0.0..1.1_f64,
        second in 0.0..1.1_f64,
        kinds in (0..4_u8, 0..4_u8),
        ranks in (0..3_u32, 0..3_u32),
        server in any::<bool>(),
    ) {
        let scene = scene(if server { Kinds::PsSync } else { Kinds::DSync }, seed);
        let end = go_wrong(&scene, vec![]).endings.iter().map(|ending| ending.at).max().unwrap();
        let moment = |share: f64| Nanos((end.0 as f64 * share) as u64);
        let fault = |kind: u8, rank: u32| match kind {
            0 => Fault::Kill(Rank(rank)),
            1 => Fault::Stop(Rank(rank)),
            2 => Fault::KillAll,
            _ => Fault::FullDisk,
        };
        let faults = vec![(moment(share), fault(kinds.0, ranks.0)), (moment(second), fault(kinds.1, ranks.1))];
        let after = go_wrong(&scene, faults);
        no_lane_hangs(&scene, &after, moment(share).max(moment(second)));
    }
}
