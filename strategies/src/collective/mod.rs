//! All-reduces: one per file, each with its drawing, its index formula and its cost. With each of them, all
//! places of the group end with the same bits.

mod all_gather;
mod bundle;
mod fold;
mod halving_doubling;
mod hierarchical;
mod journey;
mod pipelined_ring;
mod rank_order;
mod recursive_doubling;
mod ring;
mod star;
pub(crate) mod through_servers;
mod tree;

pub use all_gather::AllGather;
pub use halving_doubling::HalvingDoubling;
pub use hierarchical::Hierarchical;
pub use pipelined_ring::PipelinedRing;
pub use rank_order::RankOrder;
pub use recursive_doubling::RecursiveDoubling;
pub use ring::Ring;
pub use star::Star;
pub use through_servers::ThroughServers;
pub use tree::{Branch, Tree};

use crate::compress::{Guarantee, Slot};
use crate::{Packet, StepError, Tag, Wire};
use recipe::{Cluster, Communication, ReduceOrder};
use std::sync::Arc;

/// Algorithm of an all-reduce, with its cost in messages and in time.
pub trait CollectiveAlgorithm: Send + Sync {
    /// Replaces `x` on every place by the sum over all places.
    fn all_reduce_sum(&self, x: &mut [f32], tag: Tag, wire: &mut Wire<'_>) -> Result<(), StepError>;

    /// Messages and elements that place `place` of `places` sends for a vector of `elements`.
    fn cost(&self, elements: usize, places: usize, place: usize) -> Cost;

    /// How long a vector of `elements` takes on `places` places that begin together, by the model of [`Rates`]; in
    /// the unit of the rates. Each file says for which numbers this is exact.
    fn time(&self, elements: usize, places: usize, rates: Rates) -> f64;
}

/// Traffic that one place sends in one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Messages that a place sends.
    pub messages: usize,
    /// Elements in all of them.
    pub elements: usize,
}

/// Costs of messages and sums, by the alpha-beta-gamma model of Thakur, Rabenseifner and Gropp, 2005. A place sends one
/// message and receives one at the same time; several at once share its link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// alpha: from sending to arriving, for each message.
    pub latency: f64,
    /// beta: for each element, on the sender's and on the receiver's side of the link.
    pub per_element: f64,
    /// gamma: for each element that is added.
    pub per_sum: f64,
}

impl Rates {
    fn transfer(self, elements: usize) -> f64 {
        self.per_element * elements as f64
    }

    fn message(self, elements: usize) -> f64 {
        self.latency + self.transfer(elements)
    }

    fn sum(self, elements: usize) -> f64 {
        self.per_sum * elements as f64
    }
}

/// The collective that the recipe asks for. Only a ring and a star are asked to add in rank order.
pub fn build(communication: &Communication, cluster: &Cluster) -> Arc<dyn CollectiveAlgorithm> {
    match communication.collective {
        recipe::Collective::Ring if communication.reduce_order == ReduceOrder::Rank => Arc::new(RankOrder),
        recipe::Collective::Ring => Arc::new(Ring),
        recipe::Collective::PipelinedRing { segments } => Arc::new(PipelinedRing::new(segments as usize)),
        recipe::Collective::Tree => Arc::new(Tree),
        recipe::Collective::RecursiveDoubling => Arc::new(RecursiveDoubling),
        recipe::Collective::HalvingDoubling => Arc::new(HalvingDoubling),
        recipe::Collective::Star => Arc::new(Star),
        recipe::Collective::AllGather => Arc::new(AllGather),
        recipe::Collective::Hierarchical { group_size: Some(size) } => {
            Arc::new(Hierarchical::of_neighbours(size as usize))
        }
        recipe::Collective::Hierarchical { group_size: None } => {
            let machines: Vec<u32> = cluster.placements.iter().map(|placement| placement.node).collect();
            Arc::new(Hierarchical::of_machines(machines))
        }
    }
}

/// Adds this place's own part as the owner of the sum would have received it: through the codec if that
/// changes it.
fn add_own(sum: &mut [f32], own: &[f32], slot: Slot, wire: &mut Wire<'_>) -> Result<(), StepError> {
    if wire.guarantee() == Guarantee::Exact {
        wire.reduce(sum, own);
        return Ok(());
    }
    let packet = wire.encode(slot, own);
    wire.decode_add(&packet, sum)
}

/// Encodes a complete sum for all others. The place that completes it takes the vector that the others will decode, or the
/// ranks would drift apart under a lossy codec. `at` is the position of its first element.
fn complete(sum: &mut [f32], at: usize, tag: Tag, wire: &mut Wire<'_>) -> Result<Packet, StepError> {
    let packet = wire.encode(wire.slot(wire.group().me(), tag, at), sum);
    wire.adopt(&packet, sum)?;
    Ok(packet)
}
