//! The pipelined ring: a ring whose chunks travel in segments, so that a place adds one while the next arrives.
//!
//! Chunks go round as in a [`Ring`](super::Ring). Each is cut into s segments, and a segment travels on as soon as
//! it is added; the sums are hidden behind the transfers, and so is whatever a codec does to a segment. (A ring cuts
//! long chunks as well, by its own rule and where the codec is exact; here the recipe chooses s, for any codec.) One
//! round at place k with s = 3, `a` the segments of the chunk that arrives there:
//!
//! ```text
//!   one segment      in    |--- a ---|
//!                    add             |- a -|
//!                    out                   |--- a ---|
//!
//!   three            in    |a0 |a1 |a2 |
//!                    add       |a0||a1||a2|
//!                    out          |a0 |a1 |a2 |
//! ```
//!
//! Index formula: that of the ring; segment j of a chunk is the j-th of its s nearly equal pieces, and a chunk of
//! fewer than s elements has one segment for each (an empty one has one, which is empty).
//!
//! Cost per place: the elements of a ring, in 2 (p - 1) s messages where the chunks are long enough.
//!
//! Time: with chunks of c elements, segments of m = c / s and sums no slower than transfers (gamma <= beta)
//! (p - 1) max(c beta, alpha + m (beta + gamma)) + (p - 2) max(c beta, alpha + m beta) + alpha + c beta; exact
//! where p and p s divide n. With one segment, this is the ring's time (Pipe-SGD's equation 5); with many, what is
//! left is the transfer of 2 n (p - 1) / p elements, and one latency.
//!
//! Order of sums: that of the ring, and the same bits where the codec is exact.
//!
//! Source: Li et al., Pipe-SGD, NeurIPS 2018, section 3.2 and figure 3.

use super::{Collective, Cost, Rates};
use crate::vector::piece;
use crate::{StepError, Tag, Wire};
use std::ops::Range;

/// A ring in which transfers hide sums.
#[derive(Clone, Copy, Debug)]
pub struct PipelinedRing {
    segments: usize,
}

impl PipelinedRing {
    /// A ring with so many segments in each chunk; none count as one.
    pub fn new(segments: usize) -> Self {
        Self { segments: segments.max(1) }
    }

    /// The segments of chunk `c` mod `p` of `0..n`.
    fn segments(self, n: usize, p: usize, c: usize) -> impl ExactSizeIterator<Item = Range<usize>> + use<> {
        let chunk = piece(n, p, c % p);
        let count = self.segments.min(chunk.len()).max(1);
        (0..count).map(move |j| {
            let segment = piece(chunk.len(), count, j);
            chunk.start + segment.start..chunk.start + segment.end
        })
    }
}

impl Collective for PipelinedRing {
    fn all_reduce_sum(&self, x: &mut [f32], tag: Tag, wire: &mut Wire<'_>) -> Result<(), StepError> {
        let (p, k, n) = (wire.group().size(), wire.group().place().0, x.len());
        if p == 1 {
            return Ok(());
        }
        let (right, left) = (wire.group().after(1), wire.group().after(p - 1));
        let tag = |round: usize, j: usize| tag.part(round * self.segments + j);
        for (j, own) in self.segments(n, p, k).enumerate() {
            wire.send(right, tag(0, j), own.start, &x[own])?;
        }
        for round in 1..p {
            for (j, at) in self.segments(n, p, k + p - round).enumerate() {
                wire.recv_add(left, tag(round - 1, j), &mut x[at.clone()])?;
                let packet = wire.encode(wire.slot(right, tag(round, j), at.start), &x[at.clone()]);
                if round == p - 1 {
                    // Complete: the owner adopts what the others will decode.
                    wire.adopt(&packet, &mut x[at])?;
                }
                wire.send_packet(right, tag(round, j), packet)?;
            }
        }
        for round in p..2 * p - 1 {
            for (j, at) in self.segments(n, p, k + 2 * p - round).enumerate() {
                let packet = wire.recv_packet(left, tag(round - 1, j))?;
                if round < 2 * p - 2 {
                    wire.send_packet(right, tag(round, j), packet.clone())?;
                }
                wire.decode(&packet, &mut x[at])?;
            }
        }
        Ok(())
    }

    fn cost(&self, elements: usize, places: usize, place: usize) -> Cost {
        // What leaves in rounds 0..p - 1, and then the complete chunks.
        let leaving = (0..2 * (places - 1)).map(|round| place + 2 * places - round);
        let mut cost = Cost::default();
        for segment in leaving.flat_map(|chunk| self.segments(elements, places, chunk)) {
            cost.messages += 1;
            cost.elements += segment.len();
        }
        cost
    }

    fn time(&self, elements: usize, places: usize, rates: Rates) -> f64 {
        time(elements, places, self.segments, rates)
    }
}

/// How long a ring takes whose chunks are cut into so many segments.
pub(super) fn time(elements: usize, places: usize, segments: usize, rates: Rates) -> f64 {
    if places == 1 {
        return 0.0;
    }
    let chunk = elements.div_ceil(places);
    let segment = chunk.div_ceil(segments);
    let busy = rates.transfer(chunk);
    let scatter = busy.max(rates.message(segment) + rates.sum(segment));
    let gather = busy.max(rates.message(segment));
    (places - 1) as f64 * scatter + (places - 2) as f64 * gather + rates.message(chunk)
}
