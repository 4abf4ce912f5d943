//! Groupings that know no cost.

use super::{Grouping, StepProfile};

/// Wait-free backward propagation: each layer alone.
pub fn per_layer(profile: &StepProfile) -> Grouping {
    Grouping::closed_after(profile.layers(), |_| true)
}

/// All layers of a section in one group; no group where there is no layer.
pub fn single(profile: &StepProfile) -> Grouping {
    Grouping::closed_after(profile.layers(), |layer| profile.ends_section(layer))
}

/// Buckets: a group ends with the layer by which it holds at least `bytes`, or with its section. This is PyTorch DDP's rule, without its smaller
/// first bucket; with zero bytes each layer is alone.
pub fn fixed(profile: &StepProfile, bytes: u64) -> Grouping {
    let mut begin = 0;
    Grouping::closed_after(profile.layers(), |layer| {
        let full = profile.bytes(begin, layer + 1) >= bytes || profile.ends_section(layer);
        if full {
            begin = layer + 1;
        }
        full
    })
}
