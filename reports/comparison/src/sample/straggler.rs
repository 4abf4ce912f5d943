//! A made-up slow worker: its phases, and the waiting of the others.

use record::{Nanos, Phase, Rank};
use store::{LinkRow, RankRow, TransferRow};

/// A worker that computes or communicates slower than the others, by these factors.
#[derive(Clone, Copy, Debug)]
pub struct Straggler {
    /// Rank that is slower than the others.
    pub rank: Rank,
    /// Factor of the time of its computing.
    pub compute: f64,
    /// Factor of the time of every byte from it and to it.
    pub link: f64,
}

/// The part of all communication in which bytes move.
const MOVING: f64 = 0.29;

/// Nanoseconds that a byte takes between two ordinary ranks.
const PER_BYTE: f64 = 0.9;

/// How the workers of a made-up run step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// Each waits for the slowest.
    Together,
    Independent,
}

impl Straggler {
    /// No worker is slower than the others.
    pub const NONE: Self = Self { rank: Rank(0), compute: 1.0, link: 1.0 };

    /// The step of workers that step together, in milliseconds.
    pub(super) fn step(self, [compute, communicate]: [f64; 2]) -> f64 {
        compute * self.compute + communicate * (1.0 + MOVING * (self.link - 1.0))
    }

    /// The phases of a rank's mean step, in milliseconds.
    pub(super) fn parts(
        self,
        rank: Rank,
        pace: Pace,
        [compute, communicate]: [f64; 2],
        lean: f64,
    ) -> Vec<(Phase, f64)> {
        let (own, link) = if rank == self.rank { (self.compute, self.link) } else { (1.0, 1.0) };
        let busy = compute * lean * own;
        let behind = compute * self.compute - busy + communicate * MOVING * (self.link - link);
        vec![
            (Phase::Data, busy * 0.05),
            (Phase::Forward, busy * 0.27),
            (Phase::Backward, busy * 0.58),
            (Phase::Encode, communicate * 0.04),
            (Phase::Send, communicate * 0.12),
            (Phase::WaitPeer, communicate * 0.45 + if pace == Pace::Together { behind } else { 0.0 }),
            (Phase::Transfer, communicate * MOVING * link),
            (Phase::Decode, communicate * 0.03),
            (Phase::Reduce, communicate * 0.07),
            (Phase::Update, busy * 0.10),
            (Phase::Other, 0.08),
        ]
    }

    /// Timed transfers: a hundredth of the traffic of each link.
    pub(super) fn transfers(self, links: &[LinkRow]) -> Vec<TransferRow> {
        let row = |link: &LinkRow| {
            let slow = link.from == self.rank || link.to == self.rank;
            let bytes = link.bytes / 100;
            let factor = if slow { self.link } else { 1.0 };
            TransferRow {
                from: link.from,
                to: link.to,
                bytes,
                time: Nanos((bytes as f64 * PER_BYTE * factor) as u64),
                cut_bytes: bytes / 10,
                cut_time: Nanos(0),
            }
        };
        links.iter().map(row).collect()
    }
}

/// Compares workers that step together: their steps are alike, so that the same one is always last. Returns the
/// number of those rounds.
pub(super) fn compare(ranks: &mut [RankRow], own_pace: bool) -> u64 {
    let paces = || ranks.iter().filter_map(|rank| Some((rank, rank.pace?)));
    let longest = paces().map(|(rank, pace)| (pace.own, rank.rank, rank.steady.steps)).max();
    let Some((own, last, rounds)) = longest.filter(|_| !own_pace) else { return 0 };
    let waited = |rank: &RankRow| {
        let row = rank.phases.iter().find(|row| row.phase == Phase::WaitPeer);
        row.map_or(Nanos(0), |row| row.p50)
    };
    let held: u64 = paces().map(|(rank, pace)| waited(rank).min(own - pace.own).0).sum();
    for pace in ranks.iter_mut().filter(|rank| rank.rank == last).filter_map(|rank| rank.pace.as_mut()) {
        (pace.last, pace.imposed) = (rounds, Nanos(held * rounds));
    }
    rounds
}
