//! Made-up sweeps for tests and for looking at a page: those of comparisons, with the spans of their runs, and searches.

mod searched;
mod spans;

pub use comparison::sample::{GridAxis, Noise, Sample, SampleArm, Straggler, on_grid, under_conditions};
pub use searched::{decided, searched};
pub use spans::timelines;
