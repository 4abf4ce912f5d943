//! Throughput between any two ranks, from the steps whose spans are kept.
//!
//! A receiver sees a whole transfer only if it was already waiting when the message began to arrive: then the span before
//! the transfer's is a wait for the same peer. Otherwise it sees the rest of the transfer, or almost nothing of a message
//! that had already arrived; such transfers are counted separately, because their time is only a lower bound. Messages
//! below 1 KiB do not count: their time is not that of their bytes.

use crate::TransferRow;
use record::{Nanos, Phase, Rank};
use std::collections::BTreeMap;

/// Smaller messages do not count.
const FEWEST_BYTES: u64 = 1024;

/// A lane of a rank in a step, whose spans follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneStep {
    pub(crate) lane: i64,
    pub(crate) step: i64,
    pub(crate) rank: u32,
}

/// A span of a lane in a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneSpan {
    pub(crate) of: LaneStep,
    /// Number of its phase in the database.
    pub(crate) phase: i64,
    /// The rank at the other end, where it has one.
    pub(crate) peer: Option<u32>,
    pub(crate) bytes: u64,
    pub(crate) length: Nanos,
}

/// The transfers of an attempt, while its spans are read in the order of lanes, steps, ranks and time.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    before: Option<LaneSpan>,
    /// By source and destination.
    found: BTreeMap<(u32, u32), TransferRow>,
}

impl Transfers {
    /// Takes the next span.
    pub(crate) fn add(&mut self, span: LaneSpan) {
        let before = self.before.replace(span);
        let Some(peer) = span.peer else { return };
        if span.phase != Phase::Transfer as i64 || span.bytes < FEWEST_BYTES {
            return;
        }
        let was_waited_for = before.is_some_and(|before| {
            before.of == span.of && before.phase == Phase::WaitPeer as i64 && before.peer == Some(peer)
        });
        let rank = span.of.rank;
        let row = self.found.entry((peer, rank)).or_insert_with(|| TransferRow {
            from: Rank(peer),
            to: Rank(rank),
            bytes: 0,
            time: Nanos(0),
            cut_bytes: 0,
            cut_time: Nanos(0),
        });
        let (bytes, time) = if was_waited_for {
            (&mut row.bytes, &mut row.time)
        } else {
            (&mut row.cut_bytes, &mut row.cut_time)
        };
        *bytes += span.bytes;
        *time = Nanos(time.0 + span.length.0);
    }

    /// All between ranks of the attempt, of which there are `ranks`.
    pub(crate) fn rows(self, ranks: u32) -> Vec<TransferRow> {
        self.found.into_values().filter(|row| row.from.0 < ranks).collect()
    }
}
