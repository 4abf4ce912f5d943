//! What measuring costs, and whether the books close, on real ranks that train a model of the usual size.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::{Sketch, Trained, train};
use record::{Event, LaneId, Overhead, Phase, Rank};

fn run(strategy: &'static str) -> Trained {
    let recipe =
        Sketch { samples: 1000, batch: 100, rate: "0.05", ..Sketch::perceptron("recording", strategy, 200) };
    train(&recipe.to_string()).unwrap().done().unwrap()
}

fn overheads(trained: &Trained) -> Vec<&Overhead> {
    let overheads = trained.events.iter().filter_map(|event| match event {
        Event::Overhead(overhead) => Some(overhead),
        _ => None,
    });
    overheads.collect()
}

/// The share of an independent clock that the compute lane of a rank spent in phases that have a name.
fn named(trained: &Trained, overhead: &Overhead) -> f64 {
    let lane =
        |rank: Rank| trained.steps().filter(move |step| step.rank == rank && step.lane == LaneId::Compute);
    let named: u64 =
        lane(overhead.rank).map(|step| (step.phases.total() - step.phases[Phase::Other]).0).sum();
    named as f64 / overhead.wall.0 as f64
}

#[test]
fn recording_takes_less_than_a_hundredth_and_phases_leave_no_gap() {
    for (strategy, ranks) in [("d-sync", 2), ("ps-sync", 3)] {
        let trained = run(strategy);
        let overheads = overheads(&trained);
        assert_eq!(overheads.len(), ranks);
        for overhead in &overheads {
            let share = overhead.recording.0 as f64 / overhead.wall.0 as f64;
            assert!(share > 0.0, "{strategy}: recording costs something");
            assert!(
                share < 0.01,
                "{strategy}: recording took {:.2} % of rank {}",
                share * 100.0,
                overhead.rank
            );
        }
        for overhead in overheads.into_iter().filter(|overhead| overhead.rank < Rank(2)) {
            let share = named(&trained, overhead);
            assert!(
                share >= 0.98,
                "{strategy}: phases cover {:.2} % of rank {}",
                share * 100.0,
                overhead.rank
            );
            assert!(share <= 1.0, "{strategy}: phases cover {share} of rank {}", overhead.rank);
        }
    }
}
