//! Which layers' gradients travel together, and when: MG-WFBP.
//!
//! Layers stand in the order in which the backward pass finishes them, the paper's layer L first: index 0 here is its layer L.
//! A group is a range of consecutive layers; its message begins when its last layer is finished and the message before it
//! has ended (Eq. 7, 20). Where not all layers are averaged by the same ranks, they lie in sections, and no group reaches across
//! two. One function per way of grouping:
//!
//! | groups | function |
//! |---|---|
//! | each layer alone (WFBP) | [`per_layer`] |
//! | all layers in one | [`single`] |
//! | buckets of a size, as PyTorch DDP makes them | [`fixed`] |
//! | MG-WFBP Algorithm 1, mended | [`merged`] |
//! | the least iteration time of all groupings | [`merged_exact`] |

mod grouping;
mod merged;
mod merged_exact;
mod message_cost;
mod plain;
mod step_profile;
mod time_line;

pub use grouping::{Grouping, GroupingError};
pub use merged::merged;
pub use merged_exact::merged_exact;
pub use message_cost::{MessageCost, SectionCosts};
pub use plain::{fixed, per_layer, single};
pub use step_profile::{LayerTime, ProfileError, StepProfile};
pub use time_line::{GroupMessage, TimeLine};
