//! From the rows of a sweep to graded comparisons: which arm is faster, by how much, and how sure that is.
//!
//! The flow is rows, study (conditions, arms and their judged runs), comparisons (ratios, intervals, grades). It has numbers and no
//! sentences; nothing here reads a file, a clock or a network.

mod compare;
mod compared;
mod compared_cells;
mod error;
mod look;
pub mod looks;
mod noise_floor;
#[doc(hidden)]
pub mod sample;
pub mod statistics;
pub mod study;

pub use compare::{
    Across, Advice, Beside, Comparison, Contrast, FEWEST_PAIRS, Grade, Quality, QualityGap, SWEEP_AXIS,
    Thresholds, across, beside, beside_by, compare, compare_by, exact_p, same_weights,
};
pub use compared::Compared;
pub use compared_cells::compared_cells;
pub use error::UnknownBaseline;
pub use look::{Look, look};
pub use noise_floor::{NoiseFloor, POWER, Range, Smallest, noise_floor, smallest_in_deviations};
