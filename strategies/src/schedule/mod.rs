//! Which parts of a gradient travel together, and when: the schedules of `communication.schedule`.
//!
//! A *bucket* is a part of the flat gradient that travels in one message, as soon as the backward pass has finished it: buckets
//! leave in the order of the backward pass, the last layers first. Where not all layers are averaged by the same workers, as in the
//! groups of `gmp`, the layers lie in *sections*, and no bucket reaches across two. Each bucket is memory of its own, which the backward pass writes, the
//! communication lane reduces and the update reads, so that nothing is copied on the way.
//!
//! | schedule | buckets |
//! |---|---|
//! | `single` | one of each section, when the backward pass through its layers is over |
//! | `per-layer` | a layer each |
//! | `fixed` | neighbouring layers until a size is reached |
//! | `merged`, `merged-exact` | what MG-WFBP, or its optimum, takes from measured times |
//! | pieces (`gradient-segments` of `pipe-sgd`) | equal parts, wherever layers end |
//!
//! The rules are in [`predict::schedule`]; `planner.rs` measures what they need.

mod buckets;
mod parts;
mod planner;
mod sections;
mod times;

pub use buckets::Buckets;
pub use parts::{GradientParts, Part};
pub(crate) use planner::{MeasuredStep, MessageOrder, PlanOrigin, Planner, StepBound, describe};
pub use sections::Sections;
pub(crate) use times::{BucketTime, BucketTimes};

use crate::vector::{Layout, LayoutLayer};
use predict::schedule::{LayerTime, StepProfile};

/// How a gradient is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// By the schedule of the recipe.
    Layers(recipe::Schedule),
    /// Into equal parts, wherever layers end; at least one.
    Pieces(usize),
}

/// The lane on which a gradient travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GradientLane {
    /// The compute lane, after the backward pass.
    Compute,
    /// The communication lane, during the backward pass.
    Communication,
}

impl Division {
    /// Whether parts of a gradient leave before all of it is there.
    pub fn divides(self) -> bool {
        !matches!(self, Self::Layers(recipe::Schedule::Single) | Self::Pieces(0 | 1))
    }

    /// The buckets of a run's first step. `bytes` are those of each layer by which all workers decide, where they hold different
    /// parts of a model; else those of the layout.
    pub fn buckets(self, layout: &Layout, sections: &Sections, bytes: Option<&[u64]>) -> Buckets {
        match self {
            Self::Pieces(count) => Buckets::pieces(layout.size(), count),
            Self::Layers(recipe::Schedule::PerLayer) => Buckets::per_layer(layout),
            Self::Layers(recipe::Schedule::Fixed { bytes: size }) => {
                let given = bytes;
                let profile = sizes(layout, given).map(|profile| sections.divide(profile));
                let grouping = profile.map(|profile| predict::schedule::fixed(&profile, size));
                grouping.map_or_else(
                    || Buckets::per_section(layout, sections),
                    |grouping| Buckets::of(layout, &grouping),
                )
            }
            Self::Layers(
                recipe::Schedule::Single | recipe::Schedule::Merged | recipe::Schedule::MergedExact,
            ) => Buckets::per_section(layout, sections),
        }
    }
}

/// The layers of a model without their times; `None` for one of more bytes than can be counted.
fn sizes(layout: &Layout, given: Option<&[u64]>) -> Option<StepProfile> {
    let layers = layout.layers().iter().enumerate().rev();
    let bytes = |(number, layer): (usize, &LayoutLayer)| {
        let own = 4 * layer.span.len() as u64;
        given.and_then(|given| given.get(number).copied()).unwrap_or(own)
    };
    let sizes: Vec<LayerTime> =
        layers.map(|layer| LayerTime { backward: 0.0, bytes: bytes(layer) }).collect();
    StepProfile::new(0.0, &sizes).ok()
}
