//! Pairs whose ranks die, hang, or are slow: the others go on.

use crate::lost_workers::{DEADLINE, go_wrong, lost};
use crate::pairs::{acts, cases, pairs, scene};
use crate::pairs_pace::steps;
use recipe::{Graph, Topology};
use record::{Event, GossipAct, Nanos, Rank};
use strategies::sim::{Fault, LaneEnd, WorldOutcome};

/// Whom the others went on without; records of the victim's own lanes do not count.
fn told(outcome: &WorldOutcome, victim: Rank) -> Vec<record::LostRecord> {
    lost(outcome).into_iter().filter(|lost| lost.rank != victim).collect()
}

#[test]
fn a_run_goes_on_without_a_worker_that_fails() {
    for (topology, workers) in
        [(Topology::Ring, 2), (Topology::Ring, 4), (Topology::Ring, 5), (Topology::Complete, 6)]
    {
        for victim in 0..workers.min(3) {
            for seed in 0..5 {
                for fault in [Fault::Kill(Rank(victim)), Fault::Stop(Rank(victim))] {
                    let what = format!("{topology:?} {workers}, {fault:?}, seed {seed}");
                    let scene = scene(pairs(topology), workers, seed)
                        .change(|spec| spec.train.evaluate = recipe::Extent::Steps(2));
                    let half = Nanos(scene.run().time.0 / 3 + 1_000 * seed);
                    let after = go_wrong(&scene, &[(half, fault)]);
                    let others = || after.endings.iter().filter(|ending| ending.rank != Rank(victim));
                    assert!(
                        others().all(|ending| ending.end == LaneEnd::Finished),
                        "{what}: {:?}",
                        after.endings
                    );
                    let lost = told(&after.outcome, Rank(victim));
                    assert!(lost.iter().all(|lost| lost.peer == Rank(victim)), "{what}: {lost:?}");
                    let graph = Graph::bipartite(topology, workers as usize);
                    let near = graph.neighbours(victim as usize).len();
                    // Rank 0 holds the count for all.
                    let tell = near + if victim == 0 { workers as usize - 1 } else { 1 };
                    assert!(lost.len() <= tell && !lost.is_empty(), "{what}: {lost:?}");
                    let used = used_with(&after.outcome, Rank(victim), half);
                    let budget = scene.plan().budget.samples();
                    let most = if victim == 0 {
                        // The others count by what their neighbours tell.
                        budget + 6 * u64::from(2 * workers) + if workers == 5 { budget } else { 0 }
                    } else {
                        // A last step of less than its 2 samples, and one of the victim that was not counted.
                        budget + 4
                    };
                    // The step that the victim had claimed, and the one before, may be missing, where all others had ended.
                    assert!((budget - 4..most).contains(&used), "{what}: {used} samples of {budget}");
                    assert!(
                        victim > 0 || marks_after(&after.outcome, half) > 0,
                        "{what}: no mark after the loss"
                    );
                    goes_on_averaging(&after.outcome, &graph, Rank(victim), half, &what);
                    let late = after.endings.iter().map(|ending| ending.at).max().unwrap();
                    assert!(late < after.origin + Nanos(scene.run().time.0 * 4 + 5 * DEADLINE.0), "{what}");
                }
            }
        }
    }
}

/// Samples of all steps; of the victim, those that it had begun before the fault.
fn used_with(outcome: &WorldOutcome, victim: Rank, fault: Nanos) -> u64 {
    let own = |rank: usize| {
        let counts = move |begin: Nanos| rank != victim.index() || begin < fault;
        let taken = steps(outcome, rank).into_iter().filter(move |step| counts(step.begin));
        taken.map(|step| u64::from(step.own_samples)).sum::<u64>()
    };
    (0..outcome.ranks.len()).map(own).sum()
}

/// Snapshots that ranks made at marks after the loss.
fn marks_after(outcome: &WorldOutcome, fault: Nanos) -> usize {
    let events = outcome.ranks.iter().flat_map(|rank| &rank.events);
    events
        .filter(|event| matches!(event, Event::Snapshot(one) if one.at > fault && one.mark > 0 && !one.last))
        .count()
}

/// Active survivors average with those neighbours that are left, about once per step of theirs.
fn goes_on_averaging(outcome: &WorldOutcome, graph: &Graph, victim: Rank, fault: Nanos, what: &str) {
    // The survivors wait for the victim once, for up to three deadlines.
    let after = fault + Nanos(3 * DEADLINE.0);
    for active in (0..graph.ranks()).step_by(2).filter(|rank| *rank != victim.index()) {
        if graph.neighbours(active).all(|peer| peer == victim.index()) {
            continue;
        }
        let later = |at: Nanos| at > after;
        let taken = steps(outcome, active).iter().filter(|step| later(step.begin)).count();
        let events = outcome.ranks[active].events.iter();
        let averaged = events
            .filter(|event| matches!(event, Event::Averaged(one) if later(one.at) && one.peer != victim))
            .count();
        assert!(averaged >= taken / 2, "{what}: rank {active} averaged {averaged} times in {taken} steps");
    }
    let all = outcome.ranks.iter().flat_map(|rank| &rank.events);
    let survivors = graph.ranks() > 2;
    let averaged =
        |event: &Event| matches!(event, Event::Averaged(one) if one.at > fault && one.peer != victim);
    assert!(!survivors || all.clone().any(averaged), "{what}: no rank averaged any more");
}

/// Without a living neighbour, a worker is alone, and trains on.
#[test]
fn the_ranks_that_are_left_continue_alone() {
    for left in 0..3 {
        let scene = scene(pairs(Topology::Ring), 3, 1);
        let faults: Vec<(Nanos, Fault)> = (0..3)
            .filter(|rank| *rank != left)
            .map(|rank| (Nanos(200_000 + u64::from(rank)), Fault::Kill(Rank(rank))))
            .collect();
        let after = go_wrong(&scene, &faults);
        let own = after.endings.iter().filter(|ending| ending.rank == Rank(left));
        assert!(own.clone().all(|ending| ending.end == LaneEnd::Finished), "{:?}", after.endings);
        let last = steps(&after.outcome, left as usize).last().unwrap().samples;
        assert!(last >= scene.plan().budget.samples());
        let acts = acts(&after.outcome, left as usize);
        assert!(matches!(acts.last().unwrap().act, GossipAct::Flushed), "nothing is left in the buffer");
    }
}

#[test]
fn a_slow_rank_is_no_fault() {
    for (strategy, workers) in cases().filter(|(_, workers)| *workers > 1) {
        let mut scene = scene(strategy.clone(), workers, 1);
        scene.world.slow = [(Rank(1), 30.0)].into();
        let after = go_wrong(&scene, &[]);
        assert!(lost(&after.outcome).is_empty(), "{strategy:?} {workers}");
        assert!(after.endings.iter().all(|ending| ending.end == LaneEnd::Finished), "{strategy:?}");
    }
}

/// The run is judged by the mean of all ranks: every rank that is left gives its last model to it, once, and says of how
/// many it is one.
#[test]
fn each_rank_that_is_left_gives_a_last_model_to_the_mean() {
    for fault in [Fault::Kill(Rank(1)), Fault::Stop(Rank(1))] {
        let scene = scene(pairs(Topology::Ring), 4, 1);
        let after = go_wrong(&scene, &[(Nanos(scene.run().time.0 / 3), fault)]);
        for (rank, left) in after.outcome.ranks.iter().enumerate() {
            let last = left.events.iter().filter_map(|event| match event {
                Event::Snapshot(snapshot) if snapshot.last => Some(snapshot),
                _ => None,
            });
            let last: Vec<_> = last.collect();
            assert_eq!(last.len(), usize::from(rank != 1), "{fault:?}, rank {rank}");
            for snapshot in last {
                let group = snapshot.group.unwrap();
                assert_eq!((group.size, group.judged), (4, true));
                // Samples that the others had claimed when this rank ended: at most two steps each.
                let claimed = 3 * 2 * 2;
                assert!(
                    snapshot.samples >= scene.plan().budget.samples() - claimed,
                    "{fault:?}, rank {rank}"
                );
                assert_eq!(left.weights[&snapshot.step].sha256(), left.model().sha256());
            }
        }
    }
}
