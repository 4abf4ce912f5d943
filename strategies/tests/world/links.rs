//! Links that drop: which of them a strategy needs, and what becomes of a run that has lost one.

use crate::lost_workers::{DEADLINE, all_fail, first_failures, lost, survivors};
use crate::planned_faults::{self, AT, VICTIM, WORKERS};
use crate::scene::Scene;
use recipe::{Collective, Extent, FaultAction, PlannedFault, ReduceOrder, Schedule, Strategy};
use record::{Nanos, Rank};
use std::collections::BTreeSet;
use strategies::StepError;
use strategies::sim::{Aftermath, Faults, LaneEnd};

/// Outcome of a run in which the victim loses its link with a peer; `None` if nothing changes.
fn of_link(strategy: &Strategy, peer: Rank) -> Option<&'static str> {
    let undisturbed = planned_faults::run(strategy, vec![]);
    let after = planned_faults::strike(strategy, VICTIM, FaultAction::DropLink { peer: peer.0 });
    let what = format!("{strategy:?}, link with rank {peer}");
    let ends = [VICTIM, peer];
    let finished = |rank: Rank| {
        let mut lanes = after.endings.iter().filter(|ending| ending.rank == rank);
        lanes.all(|ending| ending.end == LaneEnd::Finished)
    };
    let told = lost(&after.outcome);
    if (0..after.outcome.ranks.len() as u32).map(Rank).all(finished) {
        let between = |rank, peer| ends.contains(&rank) && ends.contains(&peer) && rank != peer;
        assert!(told.iter().all(|lost| between(lost.rank, lost.peer)), "{what}: {told:?}");
        if told.is_empty() {
            is_unchanged(&undisturbed, &after, &what);
            return None;
        }
        return Some("continues without the link");
    }
    let first = first_failures(&after);
    if survivors(&after, VICTIM).all(|ending| ending.end == LaneEnd::Finished) {
        // The server, which is as patient, may have left meanwhile.
        assert!(matches!(first[..], [(VICTIM, error)] if error.is_absence_of(peer)), "{what}: {first:?}");
        assert!(told.iter().all(|lost| lost.peer == VICTIM) && !told.is_empty(), "{what}: {told:?}");
        return Some("continues without the worker");
    }
    // Of the first who complain one waited until its deadline; ranks that wait for it in turn are left by it at the same moment.
    let waited = |(_, error): &(Rank, &StepError)| matches!(error, StepError::Silent { waited, .. } if *waited == DEADLINE);
    assert!(first.iter().any(waited), "{what}: {first:?}");
    all_fail(&after, Rank(u32::MAX), &what);
    Some("fails")
}

fn is_unchanged(undisturbed: &Aftermath, after: &Aftermath, what: &str) {
    for (rank, other) in after.outcome.ranks.iter().zip(&undisturbed.outcome.ranks) {
        assert_eq!(rank.model(), other.model(), "{what}");
    }
    assert_eq!(after.endings, undisturbed.endings, "{what}");
}

/// The cell of the table: the same for every link of a worker that the strategy needs. A lost link has an effect if and
/// only if the check of recipes says that it carries messages.
pub(crate) fn cell(strategy: &Strategy) -> &'static str {
    let scene = planned_faults::scene(strategy, vec![]);
    let peers = (0..scene.spec.cluster.ranks()).filter(|peer| *peer != VICTIM.0);
    let used = scene.spec.used_links();
    let mut cells = BTreeSet::new();
    for peer in peers {
        let seen = of_link(strategy, Rank(peer));
        if let Some(expected) = used.carries([VICTIM.0, peer]) {
            assert_eq!(seen.is_some(), expected, "{strategy:?}, link with rank {peer}");
        }
        cells.extend(seen);
    }
    let cells: Vec<_> = cells.into_iter().collect();
    let [cell] = cells[..] else { panic!("{strategy:?}: {cells:?}") };
    cell
}

/// Six workers that step together, of which rank 1 loses a link.
fn drops(collective: Collective, reduce_order: ReduceOrder, peer: u32) -> bool {
    let mut scene = Scene::new(Strategy::DSync, 6).change(|spec| {
        spec.train.length = Extent::Steps(8);
        spec.communication.collective = collective;
        spec.communication.reduce_order = reduce_order;
    });
    scene.world.faults = vec![PlannedFault { rank: 1, step: 3, action: FaultAction::DropLink { peer } }];
    let none = Faults { patience: DEADLINE, faults: vec![] };
    let run = |scene: &Scene| {
        scene.world.run_into(&none, &scene.blueprint(), |_| Box::new(scene.learner())).unwrap()
    };
    let after = run(&scene);
    let ends = after.endings.iter().any(|ending| matches!(ending.end, LaneEnd::Failed(_)));
    let expected = scene.spec.used_links().carries([1, peer]);
    assert!(
        expected.is_none_or(|expected| expected == ends),
        "{collective:?} {reduce_order:?}, 1 and {peer}"
    );
    ends
}

#[test]
fn which_links_an_all_reduce_needs_is_known_before_the_run_or_not_at_all() {
    let pipelined = Collective::PipelinedRing { segments: 2 };
    let grouped = Collective::Hierarchical { group_size: Some(3) };
    for (collective, order, needs) in [
        (Collective::Ring, ReduceOrder::Ring, vec![0, 2]),
        (Collective::Ring, ReduceOrder::Rank, vec![0, 2, 3, 4, 5]),
        (pipelined, ReduceOrder::Ring, vec![0, 2]),
        (Collective::Star, ReduceOrder::Ring, vec![0]),
        (Collective::AllGather, ReduceOrder::Ring, vec![0, 2, 3, 4, 5]),
        (Collective::Tree, ReduceOrder::Ring, vec![0]),
        (grouped, ReduceOrder::Ring, vec![0]),
    ] {
        let seen: Vec<u32> =
            [0, 2, 3, 4, 5].into_iter().filter(|peer| drops(collective, order, *peer)).collect();
        assert_eq!(seen, needs, "{collective:?} {order:?}");
    }
    for collective in [Collective::RecursiveDoubling, Collective::HalvingDoubling] {
        let seen = [0, 2, 3, 4, 5].into_iter().filter(|peer| drops(collective, ReduceOrder::Ring, *peer));
        assert!((1..5).contains(&seen.count()), "{collective:?}");
    }
}

/// The traffic under way and the end at which the link drops decide which rank complains, not whether one does.
#[test]
fn a_link_drops_at_either_end() {
    for strategy in Strategy::samples().iter().filter(|strategy| strategy.servers() > 0) {
        let server = WORKERS;
        let after = |rank: u32, peer: u32| {
            planned_faults::run(
                strategy,
                vec![PlannedFault { rank, step: AT, action: FaultAction::DropLink { peer } }],
            )
        };
        let ended = |after: &Aftermath| -> Vec<(Rank, bool)> {
            let lanes = after.endings.iter();
            lanes.map(|ending| (ending.rank, ending.end == LaneEnd::Finished)).collect()
        };
        assert_eq!(ended(&after(VICTIM.0, server)), ended(&after(server, VICTIM.0)), "{strategy:?}");
    }
}

/// With a window that any message fills, a sender over a lost link waits for no room.
#[test]
fn who_sends_over_a_lost_link_waits_for_no_room() {
    for (strategy, schedule) in [
        (Strategy::DSync, Schedule::Single),
        (Strategy::DSync, Schedule::PerLayer),
        (Strategy::PsSync, Schedule::Single),
        (Strategy::PsSync, Schedule::PerLayer),
    ] {
        let mut scene = Scene::new(strategy.clone(), 3).change(|spec| {
            spec.train.length = Extent::Steps(8);
            spec.communication.schedule = schedule;
        });
        let peer = if strategy == Strategy::PsSync { 3 } else { 2 };
        scene.world.window = Some(1);
        scene.world.faults = vec![PlannedFault { rank: 1, step: 2, action: FaultAction::DropLink { peer } }];
        let none = Faults { patience: Nanos(50_000_000), faults: vec![] };
        let after = scene.world.run_into(&none, &scene.blueprint(), |_| Box::new(scene.learner())).unwrap();
        let errors = after.endings.iter().filter_map(|ending| match &ending.end {
            LaneEnd::Failed(error @ StepError::Silent { .. }) => Some(error.to_string()),
            _ => None,
        });
        let errors: Vec<String> = errors.collect();
        assert!(!errors.is_empty() && errors.iter().all(|error| !error.contains("room")), "{errors:?}");
    }
}
