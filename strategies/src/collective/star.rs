//! The star: everything to the first place, which adds in rank order and sends the sum to everyone.
//!
//! ```text
//!            1   2   3            1   2   3
//!             \  |  /              ^  ^  ^
//!   reduce     v v v     then       \ | /     spread
//!                0                    0
//! ```
//!
//! Cost: the first place sends p - 1 messages of n elements, each other place one.
//!
//! Time: 2 (alpha + (p - 1) n beta), as the centre's link carries everything; exact where sums cost nothing. Sums
//! that cost add between n gamma (the last one) and p n gamma (all, where the first part comes last).
//!
//! Order of sums: from zero, place 0 first: the same bits as [`RankOrder`](super::RankOrder).

use super::{CollectiveAlgorithm, Cost, Rates, add_own};
use crate::{GroupRank, StepError, Tag, Wire};

/// Everything to the first place and back.
#[derive(Clone, Copy, Debug)]
pub struct Star;

impl CollectiveAlgorithm for Star {
    fn all_reduce_sum(&self, x: &mut [f32], tag: Tag, wire: &mut Wire<'_>) -> Result<(), StepError> {
        let group = wire.group();
        let centre = GroupRank(0);
        if group.size() == 1 {
            return Ok(());
        }
        if group.me() != centre {
            wire.send(centre, tag, 0, x)?;
            return wire.recv_into(centre, tag.part(1), x);
        }
        let mut sum = vec![0.0; x.len()];
        let slot = wire.slot(group.after(1), tag, 0);
        add_own(&mut sum, x, slot, wire)?;
        for from in group.others() {
            wire.recv_add(from, tag, &mut sum)?;
        }
        x.copy_from_slice(&sum);
        let packet = wire.encode(slot, &sum);
        wire.adopt(&packet, x)?;
        for to in group.others() {
            wire.send_packet(to, tag.part(1), packet.clone())?;
        }
        Ok(())
    }

    fn cost(&self, elements: usize, places: usize, place: usize) -> Cost {
        let messages = if place == 0 { places - 1 } else { 1 };
        Cost { messages, elements: messages * elements }
    }

    fn time(&self, elements: usize, places: usize, rates: Rates) -> f64 {
        if places == 1 {
            return 0.0;
        }
        2.0 * rates.message((places - 1) * elements) + rates.sum(elements)
    }
}
