//! Building blocks of strategies without a centre: sums in rank order, graphs, a model that two lanes share, and the
//! notes between neighbours.

mod count;
mod edge;
mod local;
mod note;
mod rounds;

pub use count::{CountClient, EvaluationSnapshots, SampleCount};
pub use edge::{Edge, neighbour};
pub use local::{Finished, Local};
pub use note::{Note, Then};
pub use rounds::Rounds;

/// sum <- sum + weight x.
pub fn mix(sum: &mut [f32], weight: f32, x: &[f32]) {
    sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += weight * x);
}

/// sum <- weight x: the first term of a sum.
pub fn begin_mix(sum: &mut [f32], weight: f32, x: &[f32]) {
    sum.iter_mut().zip(x).for_each(|(sum, x)| *sum = weight * x);
}
