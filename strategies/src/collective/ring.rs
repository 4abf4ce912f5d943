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
//! Cost per place: 2 (p - 1) messages; all chunks but (k + 1) and all but (k + 2), which is 2 n (p - 1) / p
//! elements where p divides n.
//!
//! Time: 2 (p - 1) (alpha + c beta) + (p - 1) c gamma for chunks of c elements; exact where p divides n.
//!
//! Order of sums: chunk c is added in the order c, c + 1, ..., c - 1 (mod p).
//!
//! Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.

use super::{Collective, Cost, Rates};
use crate::vector::piece;
use crate::{StepError, Tag, Wire};
use std::ops::Range;

/// Scatter-reduce and all-gather around a ring.
#[derive(Clone, Copy, Debug)]
pub struct Ring;

impl Collective for Ring {
    fn all_reduce_sum(&self, x: &mut [f32], tag: Tag, wire: &mut Wire<'_>) -> Result<(), StepError> {
        let (p, k, n) = (wire.group().size(), wire.group().place().0, x.len());
        if p == 1 {
            return Ok(());
        }
        let (right, left) = (wire.group().after(1), wire.group().after(p - 1));
        for i in 0..p - 1 {
            let leaving = chunk(n, p, k + p - i);
            wire.send(right, tag.part(i), leaving.start, &x[leaving])?;
            wire.recv_add(left, tag.part(i), &mut x[chunk(n, p, k + 2 * p - i - 1)])?;
        }
        let mine = chunk(n, p, k + 1);
        let mut packet = wire.encode(wire.slot(right, tag, mine.start), &x[mine.clone()]);
        // The owner adopts what the others will decode, or the ranks would drift apart under a lossy codec.
        wire.adopt(&packet, &mut x[mine])?;
        for i in 0..p - 1 {
            wire.send_packet(right, tag.part(p + i), packet)?;
            packet = wire.recv_packet(left, tag.part(p + i))?;
            wire.decode(&packet, &mut x[chunk(n, p, k + p - i)])?;
        }
        Ok(())
    }

    fn cost(&self, elements: usize, places: usize, place: usize) -> Cost {
        if places == 1 {
            return Cost::default();
        }
        let all_but = |c: usize| elements - chunk(elements, places, c).len();
        Cost { messages: 2 * (places - 1), elements: all_but(place + 1) + all_but(place + 2) }
    }

    fn time(&self, elements: usize, places: usize, rates: Rates) -> f64 {
        let chunk = elements.div_ceil(places);
        (places - 1) as f64 * (2.0 * rates.message(chunk) + rates.sum(chunk))
    }
}

/// Chunk `c` mod `p` of `0..n`.
fn chunk(n: usize, p: usize, c: usize) -> Range<usize> {
    piece(n, p, c % p)
}
