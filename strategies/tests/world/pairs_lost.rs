//! Pairs whose ranks die, hang, or are slow: the others go on.

use crate::lost_workers::{DEADLINE, go_wrong, lost};
use crate::pairs::{acts, cases, pairs, scene, steps, used};
use recipe::{Graph, Topology};
use record::{Event, GossipAct, Nanos, Rank};
use strategies::sim::{Fault, LaneEnd, Outcome};

/// Whom the others went on without; what is left of the victim's own lanes does not count.
fn told(outcome: &Outcome, victim: Rank) -> Vec<record::LostRecord> {
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
                    let scene = scene(pairs(topology), workers, seed);
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
                    assert!(lost.len() <= near && !lost.is_empty(), "{what}: {lost:?}");
                    // Steps that the victim took and told nobody of are not missed.
                    assert!(used(&after.outcome) >= scene.course().budget(), "{what}");
                    let late = after.endings.iter().map(|ending| ending.at).max().unwrap();
                    assert!(late < after.origin + Nanos(scene.run().time.0 * 4 + 5 * DEADLINE.0), "{what}");
                }
            }
        }
    }
}

/// Without a living neighbour, a worker is alone, and trains on.
#[test]
fn whoever_is_left_goes_on_alone() {
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
        assert!(last >= scene.course().budget());
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
fn whoever_is_left_gives_a_last_model_to_the_mean() {
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
                let company = snapshot.company.unwrap();
                assert_eq!((company.size, company.judged), (4, true));
                assert!(snapshot.samples >= scene.course().budget(), "{fault:?}, rank {rank}");
                assert_eq!(left.weights[&snapshot.step].sha256(), left.model().sha256());
            }
        }
    }
}
