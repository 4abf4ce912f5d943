//! What strategies without a centre have in common: sums in rank order, who pushes to whom, a model that two lanes
//! share, and what neighbours tell each other beside their models.

mod count;
mod edge;
mod local;
mod note;
mod rounds;

pub use count::{CountClient, MarkSnapshots, SampleCount};
pub use edge::{Edge, neighbour};
pub use local::{Finished, Local};
pub use note::{Note, Then};
pub use rounds::Rounds;

/// sum <- sum + weight x, or weight x for the first of a sum.
pub fn mix(sum: &mut [f32], weight: f32, x: &[f32], first: bool) {
    if first {
        sum.iter_mut().zip(x).for_each(|(sum, x)| *sum = weight * x);
    } else {
        sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += weight * x);
    }
}
