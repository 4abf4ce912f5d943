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
//! Index formula: that of the ring; segment j of a chunk is the j-th of its s nearly equal pieces. Where a chunk has
//! fewer than s elements, s is the number of elements of the shortest one, and at least 1.
//!
//! All segments of the first chunk leave at once where there is room for them, which is when the formula below is exact;
//! else as many as there is room for, and another one for each that arrives ([`journey`](super::journey)): no place
//! waits for one that waits for it, however long the segments are.
//!
//! Cost per place: the elements of a ring, in 2 (p - 1) s messages.
//!
//! Time: with chunks of c elements, segments of m = c / s and sums no slower than transfers (gamma <= beta)
//! (p - 1) max(c beta, alpha + m (beta + gamma)) + (p - 2) max(c beta, alpha + m beta) + alpha + c beta; exact
//! where p and p s divide n. With one segment, this is the ring's time (Pipe-SGD's equation 5); with many, the
//! rest is the transfer of 2 n (p - 1) / p elements, and one latency.
//!
//! Order of sums: that of the ring, and the same bits where the codec is exact.
//!
//! Source: Li et al., Pipe-SGD, NeurIPS 2018, section 3.2 and figure 3, which has no equation: the formula follows from the
//! pipeline.

use super::journey::{self, Journey};
use super::{CollectiveAlgorithm, Cost, Rates, Ring};
use crate::{StepError, Tag, Wire};

/// A ring in which transfers hide sums.
#[derive(Clone, Copy, Debug)]
pub struct PipelinedRing {
    segments: usize,
}

impl PipelinedRing {
    /// A ring with `segments` segments per chunk; 0 counts as 1.
    pub fn new(segments: usize) -> Self {
        Self { segments: segments.max(1) }
    }

    /// Into how many segments each chunk of `0..n` is cut.
    fn count(self, n: usize, p: usize) -> usize {
        self.segments.min(n / p).max(1)
    }
}

impl CollectiveAlgorithm for PipelinedRing {
    fn all_reduce_sum(&self, x: &mut [f32], tag: Tag, wire: &mut Wire<'_>) -> Result<(), StepError> {
        let p = wire.group().size();
        let n = x.len();
        if p == 1 {
            return Ok(());
        }
        let segments = self.count(n, p);
        Journey::new(x, tag, wire, segments, segments).travel()
    }

    fn cost(&self, elements: usize, places: usize, place: usize) -> Cost {
        let messages = 2 * (places - 1) * self.count(elements, places);
        Cost { messages, ..Ring.cost(elements, places, place) }
    }

    fn time(&self, elements: usize, places: usize, rates: Rates) -> f64 {
        journey::time(elements, places, self.segments, rates)
    }
}
