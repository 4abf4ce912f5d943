//! The cost of measuring, and whether the books close, on real ranks that train a model of the usual size.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::{Sketch, Trained, train};
use record::{Event, LaneId, Overhead, Phase, Rank};
use std::collections::BTreeMap;

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

/// Of a rank over several runs: what the machine does beside only adds to one and takes from the other.
#[derive(Clone, Copy)]
struct Best {
    recording: f64,
    named: f64,
}

impl Best {
    const NONE: Self = Self { recording: f64::INFINITY, named: 0.0 };

    fn will_do(self, rank: Rank) -> bool {
        // Servers are idle most of the time, and need not say what they are called meanwhile.
        self.recording < 0.01 && (self.named >= 0.98 || rank >= Rank(2))
    }
}

const RUNS: usize = 5;

#[test]
fn recording_takes_less_than_a_hundredth_and_phases_leave_no_gap() {
    for (strategy, ranks) in [("d-sync", 2), ("ps-sync", 3)] {
        let mut best = BTreeMap::new();
        for _ in 0..RUNS {
            let trained = run(strategy);
            let overheads = overheads(&trained);
            assert_eq!(overheads.len(), ranks);
            for overhead in overheads {
                let recording = overhead.recording.0 as f64 / overhead.wall.0 as f64;
                let named = named(&trained, overhead);
                assert!(recording > 0.0, "{strategy}: recording costs something");
                assert!(named <= 1.0, "{strategy}: phases cover {named} of rank {}", overhead.rank);
                let best = best.entry(overhead.rank).or_insert(Best::NONE);
                *best = Best { recording: best.recording.min(recording), named: best.named.max(named) };
            }
            if best.iter().all(|(rank, best)| best.will_do(*rank)) {
                break;
            }
        }
        for (rank, best) in best {
            let Best { recording, named } = best;
            assert!(best.will_do(rank), "{strategy}: rank {rank} records for {recording}, names {named}");
        }
    }
}
