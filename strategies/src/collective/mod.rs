//! All-reduces: one per file, each with its drawing, its index formula and its cost. Whatever they are, all
//! places of the group end with the same bits.

mod rank_order;
mod ring;
mod star;

pub use rank_order::RankOrder;
pub use ring::Ring;
pub use star::Star;

use crate::compress::{Guarantee, Slot};
use crate::{StepError, Tag, Wire};
use recipe::{Communication, ReduceOrder};
use std::sync::Arc;

/// An all-reduce.
pub trait Collective: Send + Sync {
    /// Replaces `x` on every place by the sum over all places.
    fn all_reduce_sum(&self, x: &mut [f32], tag: Tag, wire: &mut Wire<'_>) -> Result<(), StepError>;

    /// What place `place` of `places` sends for a vector of `elements`.
    fn cost(&self, elements: usize, places: usize, place: usize) -> Cost;
}

/// What one place sends in one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Messages.
    pub messages: usize,
    /// Elements in all of them.
    pub elements: usize,
}

/// The collective that the recipe asks for.
pub fn build(communication: &Communication) -> Arc<dyn Collective> {
    match (communication.collective, communication.reduce_order) {
        // A star adds in rank order by itself.
        (recipe::Collective::Star, ReduceOrder::Ring | ReduceOrder::Rank) => Arc::new(Star),
        (recipe::Collective::Ring, ReduceOrder::Ring) => Arc::new(Ring),
        (recipe::Collective::Ring, ReduceOrder::Rank) => Arc::new(RankOrder),
    }
}

/// Adds this place's own part as the owner of the sum would have received it: through the codec if that
/// changes it. Where there is only one place, nothing travels, and nothing is coded.
fn add_own(sum: &mut [f32], own: &[f32], slot: Slot, wire: &mut Wire<'_>) -> Result<(), StepError> {
    if wire.guarantee() == Guarantee::Exact || wire.group().size() == 1 {
        wire.reduce(sum, own);
        return Ok(());
    }
    let packet = wire.encode(slot, own);
    wire.decode_add(&packet, sum)
}
