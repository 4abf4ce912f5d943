//! Rank order: each chunk goes straight to its owner, who adds the parts in rank order and sends the sum to
//! everyone. With p = 3:
//!
//! ```text
//!              place 0            place 1            place 2
//!   scatter    c1 -> 1, c2 -> 2   c0 -> 0, c2 -> 2   c0 -> 0, c1 -> 1
//!   add        c0 = 0 + 1 + 2     c1 = 0 + 1 + 2     c2 = 0 + 1 + 2
//!   gather     c0 -> 1, 2         c1 -> 0, 2         c2 -> 0, 1
//! ```
//!
//! Index formula: place k owns chunk k and sends chunk j to place j, its right neighbour first: at each moment every
//! place sends to another one.
//!
//! Cost per place: 2 (p - 1) messages; n - |c_k| + (p - 1) |c_k| elements, which is 2 n (p - 1) / p where p
//! divides n: the bytes of a ring, in another pattern.
//!
//! Time: 2 (alpha + (p - 1) c beta) for chunks of c elements; exact where p divides n and sums cost nothing. Sums
//! that cost add between c gamma (the last one) and p c gamma (all, where the first part comes last).
//!
//! Order of sums: from zero, place 0 first, for every element. Neither the chunks nor what travels together
//! changes a bit, and a parameter server that adds its workers in rank order ends with the same bits.

use super::{CollectiveAlgorithm, Cost, Rates, add_own};
use crate::vector::piece;
use crate::{StepError, Tag, Wire};

/// Each chunk is added by its owner, in rank order.
#[derive(Clone, Copy, Debug)]
pub struct RankOrder;

impl CollectiveAlgorithm for RankOrder {
    fn all_reduce_sum(&self, x: &mut [f32], tag: Tag, wire: &mut Wire<'_>) -> Result<(), StepError> {
        let group = wire.group();
        let n = x.len();
        if group.size() == 1 {
            return Ok(());
        }
        let chunk = |place: crate::GroupRank| piece(n, group.size(), place.0);
        let me = group.me();
        let right = group.after(1);
        // A codec's residual of an element is missing from the same sum, whether it was encoded in a part or in a sum:
        // it belongs to the element's position, at any owner.
        for owner in (1..group.size()).map(|steps| group.after(steps)) {
            let part = chunk(owner);
            let packet = wire.encode(wire.slot(right, tag, part.start), &x[part]);
            wire.send_packet(owner, tag, packet)?;
        }
        let mine = chunk(me);
        let mut sum = vec![0.0; mine.len()];
        for from in group.members() {
            if from == me {
                add_own(&mut sum, &x[mine.clone()], wire.slot(right, tag, mine.start), wire)?;
            } else {
                wire.recv_add(from, tag, &mut sum)?;
            }
        }
        x[mine.clone()].copy_from_slice(&sum);
        let packet = wire.encode(wire.slot(right, tag, mine.start), &sum);
        wire.adopt(&packet, &mut x[mine])?;
        for to in (1..group.size()).map(|steps| group.after(steps)) {
            wire.send_packet(to, tag.part(1), packet.clone())?;
        }
        for from in group.others() {
            wire.recv_into(from, tag.part(1), &mut x[chunk(from)])?;
        }
        Ok(())
    }

    fn cost(&self, elements: usize, places: usize, place: usize) -> Cost {
        let own = piece(elements, places, place).len();
        Cost { messages: 2 * (places - 1), elements: elements - own + (places - 1) * own }
    }

    fn time(&self, elements: usize, places: usize, rates: Rates) -> f64 {
        if places == 1 {
            return 0.0;
        }
        let chunk = elements.div_ceil(places);
        2.0 * rates.message((places - 1) * chunk) + rates.sum(chunk)
    }
}
