//! Pairs that average, with ranks of uneven speed: no rank holds another up, evaluation points are exact, and messages
//! are as many as stated.

use crate::pairs::{averagings, cases, continuous, pairs, replay, scene};
use recipe::{Extent, Graph, Topology};
use record::{Event, LaneId, Nanos, Rank, SnapshotRecord};
use strategies::Learner;
use strategies::sim::WorldOutcome;

/// Steps that the compute lane took, without the drain at the end.
pub(crate) fn steps(outcome: &WorldOutcome, rank: usize) -> Vec<&record::StepRecord> {
    let steps = outcome.ranks[rank].steps(LaneId::Compute);
    steps.into_iter().filter(|step| !step.drain).collect()
}

fn used(outcome: &WorldOutcome) -> u64 {
    let ranks = 0..outcome.ranks.len();
    ranks.flat_map(|rank| steps(outcome, rank)).map(|step| u64::from(step.own_samples)).sum()
}

#[test]
fn no_neighbour_is_left_out() {
    for (topology, workers) in [(Topology::Ring, 8), (Topology::Complete, 8), (Topology::Exponential, 16)] {
        let scene = scene(pairs(topology), workers, 1).change(|spec| spec.train.length = Extent::Steps(60));
        let outcome = scene.run();
        let graph = Graph::bipartite(topology, workers as usize);
        let all = averagings(&outcome);
        for active in (0..workers).step_by(2) {
            let own: Vec<Rank> =
                all.iter().filter(|one| one.rank == Rank(active)).map(|one| one.peer).collect();
            for passive in graph.neighbours(active as usize) {
                let served: Vec<usize> =
                    (0..own.len()).filter(|number| own[*number].index() == passive).collect();
                let gaps = served.windows(2).map(|two| two[1] - two[0]);
                let longest = gaps.chain(served.first().copied()).max().unwrap();
                let degree = graph.neighbours(active as usize).len();
                assert!(longest <= 10 * degree, "{topology:?}: {active} left {passive} out {longest} times");
            }
        }
    }
}

/// Whichever rank is slow, active or passive, all end, and consume less than one step more than the budget.
#[test]
fn a_run_ends_with_any_slow_rank() {
    for (strategy, workers) in cases().filter(|(_, workers)| *workers > 1) {
        for slow in 0..workers.min(4) {
            for factor in [10.0, 100.0] {
                let mut scene = scene(strategy.clone(), workers, u64::from(slow));
                scene.world.slow = [(Rank(slow), factor)].into();
                let outcome = scene.run();
                let budget = scene.plan().budget.samples();
                let what = format!("{strategy:?} {workers}, rank {slow} by {factor}");
                // Each step takes 2 samples.
                let used = used(&outcome);
                assert!((budget..budget + 2).contains(&used), "{what}: {used} samples of {budget}");
            }
        }
    }
}

/// Snapshots that a rank took at evaluation points.
fn evaluated(outcome: &WorldOutcome, rank: usize) -> Vec<&SnapshotRecord> {
    let snapshots = outcome.ranks[rank].events.iter().filter_map(|event| match event {
        Event::Snapshot(snapshot) => Some(snapshot),
        _ => None,
    });
    snapshots.filter(|snapshot| snapshot.mark > 0 && !snapshot.last).collect()
}

/// One rank is a hundred times as slow as the others and ends one or two steps in the whole run. Each evaluation point is
/// reached at the end of a step: all ranks snapshot the models that they hold at that moment, and the curve has all its
/// points.
#[test]
fn evaluated_models_are_those_that_all_ranks_hold_when_the_point_is_reached() {
    for (strategy, workers, slow) in [
        (pairs(Topology::Ring), 16, 0),
        (pairs(Topology::Exponential), 16, 1),
        (continuous(Topology::Ring), 8, 2),
        (pairs(Topology::Complete), 3, 1),
    ] {
        let mut scene = scene(strategy.clone(), workers, 1).change(|spec| {
            spec.train.length = Extent::Steps(40);
            spec.train.evaluate = Extent::Steps(1);
        });
        scene.world.slow = [(Rank(slow), 100.0)].into();
        let outcome = scene.run();
        let plan = scene.plan();
        let start = vec![scene.learner().initial(); workers as usize];
        let kept = replay(&scene, &mut scene.learner(), start, &outcome).kept;
        // When each step of any rank ended, and the samples of all steps that had ended by then.
        let ranks = 0..workers as usize;
        let all = ranks.clone().flat_map(|rank| steps(&outcome, rank));
        let mut ends: Vec<(Nanos, u64)> =
            all.map(|step| (step.begin + step.length, u64::from(step.own_samples))).collect();
        ends.sort_unstable();
        let mut samples = 0;
        let reached: Vec<(u64, u64, Nanos)> = ends
            .iter()
            .filter_map(|(at, own)| {
                let before = plan.evaluations.last(samples);
                samples += own;
                (plan.evaluations.last(samples) > before)
                    .then(|| (plan.evaluations.last(samples), samples, *at))
            })
            .collect();
        assert!(reached.len() >= 36, "{strategy:?}: {} points", reached.len());
        for rank in ranks {
            let what = format!("{strategy:?} {workers}, rank {rank}");
            let made = evaluated(&outcome, rank);
            let seen: Vec<_> = made.iter().map(|made| (made.mark, made.samples, made.at)).collect();
            assert_eq!(seen, reached, "{what}");
            for made in made {
                assert_eq!(made.sha256, kept[&(rank, made.samples)].sha256(), "{what}, point {}", made.mark);
            }
        }
        assert!(steps(&outcome, slow as usize).len() <= 2, "{strategy:?}");
    }
}

/// The other ranks do not notice one that is s times slower, and a pass takes n / (n - 1 + 1 / s) times as long.
#[test]
fn a_straggler_delays_no_other_rank() {
    for (workers, slow) in [(4, 10.0), (4, 2.0), (8, 10.0), (16, 10.0), (5, 4.0)] {
        let run = |factor: f64, straggler: u32| {
            let mut scene = scene(pairs(Topology::Ring), workers, 1).change(|spec| {
                spec.train.length = Extent::Steps(100);
                spec.train.optimizer.lr = 0.001;
            });
            scene.world.jitter = 0.0;
            scene.world.slow = [(Rank(straggler), factor)].into();
            scene.run()
        };
        let others = |outcome: &WorldOutcome, straggler: usize| {
            let ranks = (0..workers as usize).filter(move |rank| *rank != straggler);
            let lengths = ranks.flat_map(|rank| steps(outcome, rank)[1..50].to_vec()).map(|step| step.length);
            lengths.max().unwrap()
        };
        for straggler in [0, 1] {
            let even = run(1.0, straggler);
            let uneven = run(slow, straggler);
            let [fast, held] = [&even, &uneven].map(|outcome| others(outcome, straggler as usize));
            assert_eq!(fast, held, "{workers} with one {slow} times slower");
            // The moment when the others knew that training was over.
            let end = |outcome: &WorldOutcome| {
                let last = |rank| steps(outcome, rank).last().map(|step| step.begin + step.length).unwrap();
                let ranks = (0..workers as usize).filter(|rank| *rank != straggler as usize);
                ranks.map(last).max().unwrap().0 as f64
            };
            let n = f64::from(workers);
            let ratio = end(&uneven) / end(&even) * (n - 1.0 + 1.0 / slow) / n;
            assert!((0.93..1.07).contains(&ratio), "{workers}, {slow}: {ratio} of what was expected");
        }
    }
}

/// An averaging is a note and a model there and back, and a note to each other neighbour; at the end, a note to all. Each
/// step is claimed, granted and finished; the end of each worker is announced and replied to; each evaluation point, and the
/// end of all, is announced to all workers.
#[test]
fn messages_are_the_stated_ones() {
    for (topology, workers) in [(Topology::Ring, 2), (Topology::Ring, 5), (Topology::Complete, 8)] {
        let outcome = scene(pairs(topology), workers, 1).run();
        let graph = Graph::bipartite(topology, workers as usize);
        let of = |active: usize| {
            let all = averagings(&outcome);
            let degree = graph.neighbours(active).count();
            let own = all.iter().filter(|one| one.rank.index() == active).count();
            own * (4 + degree - 1) + degree
        };
        let expected: usize = (0..workers as usize).step_by(2).map(of).sum();
        let broadcast = workers as usize - 1;
        let claims = (0..workers as usize).map(|rank| 3 * steps(&outcome, rank).len() + 2).sum::<usize>();
        let points = evaluated(&outcome, 0).len() + 1;
        let counted = claims + workers as usize * points;
        assert_eq!(outcome.messages as usize, broadcast + expected + counted, "{topology:?} of {workers}");
    }
}
