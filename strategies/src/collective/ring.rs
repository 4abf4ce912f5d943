//! The ring.
//!
//! The vector is cut into p chunks. In the scatter-reduce, each place passes a growing partial sum to its
//! right neighbour; after p - 1 rounds each chunk is complete somewhere. In the all-gather the complete
//! chunks travel once more round the ring. With p = 4, `c` for the chunk that a place sends:
//!
//! ```text
//!   round          place 0     place 1     place 2     place 3
//!   scatter  0     c0 ->       c1 ->       c2 ->       c3 ->  (to place 0)
//!            1     c3 ->       c0 ->       c1 ->       c2 ->
//!            2     c2 ->       c3 ->       c0 ->       c1 ->
//!   complete       c1          c2          c3          c0
//!   gather   0     c1 ->       c2 ->       c3 ->       c0 ->
//!            1     c0 ->       c1 ->       c2 ->       c3 ->
//!            2     c3 ->       c0 ->       c1 ->       c2 ->
//! ```
//!
//! Index formula: in round i of the scatter-reduce, place k sends chunk (k - i) mod p and adds chunk
//! (k - i - 1) mod p; chunk c starts on place c and is complete on place c - 1, its owner. In round i of the
//! all-gather, place k sends chunk (k + 1 - i) mod p.
//!
//! Each chunk is cut into segments of at most 512 KiB, so that one segment is summed while the next is on its way,
//! and the segment in work stays in the processor's cache. A segment travels through all 2 (p - 1) rounds by itself; up
//! to 4 segments of each chunk are on their way at once (2 MiB: a link whose bandwidth times latency is below that
//! is kept busy), and each place sends, receives and adds them in turn, where there is room for all of them:
//!
//! ```text
//!   send s0, s1, ... s3 of round 0
//!   round 0: receive s0, send s0 of round 1; receive s1, send s1 of round 1; ...
//!   ...
//!   last round: receive s0, send s4 of round 0; receive s1, send s5 of round 0; ...
//! ```
//!
//! Where there is less room, each place sends as much as there is room for before it receives
//! ([`journey`](super::journey)): no place waits for one that waits for it.
//!
//! A codec that loses something is given whole chunks: what it rounds together does not depend on such numbers.
//!
//! Cost per place: 2 (p - 1) messages for each segment of a chunk, under such a codec in all; all chunks but (k + 1)
//! and all but (k + 2), which is 2 n (p - 1) / p elements where p divides n.
//!
//! Time: for up to 4 segments of a chunk, that of a [`PipelinedRing`](super::PipelinedRing) with as many; with one,
//! 2 (p - 1) (alpha + c beta) + (p - 1) c gamma for chunks of c elements. Exact where p divides n and the segments are
//! equal; above 4 segments a lower bound, since the next four leave when the first have come round.
//!
//! Order of sums: chunk c is added in the order c, c + 1, ..., c - 1 (mod p), whatever its segments.
//!
//! Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.

use super::journey::{self, Journey};
use super::{CollectiveAlgorithm, Cost, Rates};
use crate::compress::Guarantee;
use crate::vector::piece;
use crate::{StepError, Tag, Wire};
use std::ops::Range;

/// The most elements of a segment.
const SEGMENT: usize = predict::all_reduce::RING_SEGMENT / size_of::<f32>();
/// The most segments of a chunk that are on their way at once.
const WINDOW: usize = predict::all_reduce::RING_WINDOW;

/// Scatter-reduce and all-gather around a ring.
#[derive(Clone, Copy, Debug)]
pub struct Ring;

impl CollectiveAlgorithm for Ring {
    fn all_reduce_sum(&self, x: &mut [f32], tag: Tag, wire: &mut Wire<'_>) -> Result<(), StepError> {
        let p = wire.group().size();
        let n = x.len();
        if p == 1 {
            return Ok(());
        }
        let whole = wire.guarantee() != Guarantee::Exact;
        let segments = if whole { 1 } else { segments(n, p) };
        Journey::new(x, tag, wire, segments, WINDOW).travel()
    }

    fn cost(&self, elements: usize, places: usize, place: usize) -> Cost {
        if places == 1 {
            return Cost::default();
        }
        let all_but = |c: usize| elements - chunk(elements, places, c).len();
        let messages = 2 * (places - 1) * segments(elements, places);
        Cost { messages, elements: all_but(place + 1) + all_but(place + 2) }
    }

    fn time(&self, elements: usize, places: usize, rates: Rates) -> f64 {
        journey::time(elements, places, segments(elements, places), rates)
    }
}

/// Into how many segments each chunk of `0..n` is cut.
fn segments(n: usize, p: usize) -> usize {
    n.div_ceil(p).div_ceil(SEGMENT).max(1)
}

/// Chunk `c` mod `p` of `0..n`.
fn chunk(n: usize, p: usize, c: usize) -> Range<usize> {
    piece(n, p, c % p)
}
