//! Recursive doubling: whole vectors between partners at distances 1, 2, 4, ...
//!
//! After round i, blocks of 2^(i + 1) neighbours share one partial sum. With p = 4, and an arrow for one vector
//! each way:
//!
//! ```text
//!   place        0       1       2       3
//!   round 0      0 <---> 1       2 <---> 3        0 1 | 2 3
//!         1      0 <-----------> 2
//!                        1 <-----------> 3        0 1 2 3
//! ```
//!
//! Index formula: in round i, number k meets number k xor 2^i. Where p is no power of two, some places are
//! guests of others ([`fold`](super::fold)), which takes a vector to the host before and one back afterwards.
//!
//! Cost per place: log2 q messages of n elements, q the largest power of two up to p, and one more to a guest; a
//! guest sends one.
//!
//! Time: log2 q (alpha + n beta + n gamma), and 2 (alpha + n beta) + n gamma for the fold; exact where p is a
//! power of two. Else a place may get two messages at the same time: at most n beta more.
//!
//! Order of sums: pairs of neighbours, then pairs of pairs; a guest after its host. Addition commutes, so that
//! partners end with the same bits. Partners that hold the same partial sum each encode it on their own: a codec
//! must make the same packets of the same history of vectors.
//!
//! Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH",
//! 2005; Shi et al., MG-WFBP, table II.

use super::fold::{Fold, FoldRole};
use super::{CollectiveAlgorithm, Cost, Rates, complete};
use crate::compress::Guarantee;
use crate::{StepError, Tag, Wire};

/// Whole vectors between partners at doubling distances.
#[derive(Clone, Copy, Debug)]
pub struct RecursiveDoubling;

impl CollectiveAlgorithm for RecursiveDoubling {
    fn all_reduce_sum(&self, x: &mut [f32], tag: Tag, wire: &mut Wire<'_>) -> Result<(), StepError> {
        let group = wire.group();
        let fold = Fold::of(group.size());
        let last = tag.part(1 + fold.rounds());
        let (number, guest) = match fold.role(group.me()) {
            FoldRole::Host { number, guest } => (number, guest),
            FoldRole::Guest(host) => {
                wire.send(host, tag, 0, x)?;
                return wire.recv_into(host, last, x);
            }
        };
        if let Some(guest) = guest {
            wire.recv_add(guest, tag, x)?;
        }
        for round in 0..fold.rounds() {
            let partner = fold.place(number ^ (1 << round));
            let tag = tag.part(1 + round);
            let packet = wire.encode(wire.slot(partner, tag, 0), x);
            // The partner adds what it decodes: so must I, or the two would hold different sums.
            wire.adopt(&packet, x)?;
            wire.send_packet(partner, tag, packet)?;
            wire.recv_add(partner, tag, x)?;
        }
        // A sum for a guest goes through the codec once more: so does that of every host, or places would differ.
        if guest.is_some() || fold.guests > 0 && wire.guarantee() != Guarantee::Exact {
            let packet = complete(x, 0, last, wire)?;
            if let Some(guest) = guest {
                wire.send_packet(guest, last, packet)?;
            }
        }
        Ok(())
    }

    fn cost(&self, elements: usize, places: usize, place: usize) -> Cost {
        let fold = Fold::of(places);
        let messages = match fold.role(crate::GroupRank(place)) {
            FoldRole::Host { guest, .. } => fold.rounds() + usize::from(guest.is_some()),
            FoldRole::Guest(_) => 1,
        };
        Cost { messages, elements: messages * elements }
    }

    fn time(&self, elements: usize, places: usize, rates: Rates) -> f64 {
        let fold = Fold::of(places);
        fold.rounds() as f64 * (rates.message(elements) + rates.sum(elements)) + fold.time(elements, rates)
    }
}
