//! The mean of a vector over a group: a plain sum by the collective of the run, behind the projection of the lane where
//! the recipe asks for one, scaled once.

use crate::collective::CollectiveAlgorithm;
use crate::group::Group;
use crate::handoff::Handoff;
use crate::projection::Projector;
use crate::vector::Vector;
use crate::wire::Wire;
use crate::{Lane, StateError, StateVisitor, StepError, Tag};
use record::{Nanos, Phase, Work};
use std::sync::Arc;

/// The all-reduce of one lane.
pub struct AllReduce {
    collective: Arc<dyn CollectiveAlgorithm>,
    /// Projects gradients; its memory belongs to the lane.
    projector: Option<Projector>,
}

/// Work for the communication lane: vectors, and what comes back for them.
pub type CommQueue = Handoff<ReduceJob, Reduced>;

/// Result of a [`ReduceJob`], from the communication lane; with parameter servers, from the receiving lane.
#[derive(Debug)]
pub struct Reduced {
    /// The mean of the vector; from a parameter server, the new weights in its place.
    pub x: Vector,
    /// When the communication began, on the clock of the run; not before that of earlier vectors had ended.
    pub began: Nanos,
    /// When the communication ended, on the clock of the run.
    pub ended: Nanos,
}

/// Communication that another lane asks for.
pub struct ReduceJob {
    /// A gradient, or a part of one.
    pub x: Vector,
    /// Position of its first element in the vector that it is part of.
    pub at: usize,
    /// The group that takes part.
    pub group: Group,
    /// The tag of the call.
    pub tag: Tag,
    /// Steps of which nothing is left to send after it.
    pub steps: u64,
}

impl AllReduce {
    /// Sums by `collective`, of gradients only their projection.
    pub fn new(collective: Arc<dyn CollectiveAlgorithm>, projector: Option<Projector>) -> Self {
        Self { collective, projector }
    }

    /// Whether gradients are projected.
    pub fn projects(&self) -> bool {
        self.projector.is_some()
    }

    /// The memory of its projection.
    ///
    /// # Errors
    /// The loaded state does not fit.
    pub fn state(&mut self, state: &mut StateVisitor<'_>) -> Result<(), StateError> {
        self.projector
            .as_mut()
            .map_or(Ok(()), |projector| state.within("projector", |state| projector.state(state)))
    }

    /// Replaces `x` by its mean over the group of the wire. Only gradients are projected.
    pub fn mean(&mut self, x: &mut [f32], tag: Tag, mut wire: Wire<'_>) -> Result<(), StepError> {
        if let Some(projector) = self.projector.as_mut().filter(|_| wire.carries_gradients()) {
            projector.all_reduce_sum(x, tag, self.collective.as_ref(), &mut wire)?;
        } else {
            agree_on_range(self.collective.as_ref(), x, tag, &mut wire)?;
            self.collective.all_reduce_sum(x, tag, &mut wire)?;
        }
        let places = wire.group().size();
        scale(x, places, wire.lane());
        Ok(())
    }
}

/// Where a codec has one range for a whole gradient, the ranks of the group agree on it: all get the same bits of the sum
/// of their reaches.
fn agree_on_range(
    collective: &dyn CollectiveAlgorithm,
    x: &[f32],
    tag: Tag,
    wire: &mut Wire<'_>,
) -> Result<(), StepError> {
    let Some(reach) = wire.reach(tag, x) else { return Ok(()) };
    let mut reach = [reach];
    // The calls of a step count from one: the highest bit keeps this sum apart from all others.
    let apart = Tag { call: tag.call | 1 << 31, ..tag };
    collective.all_reduce_sum(&mut reach, apart, &mut wire.reaching())?;
    wire.agree(reach[0]);
    Ok(())
}

/// Turns a sum over `places` ranks into a mean.
pub(crate) fn scale(x: &mut [f32], places: usize, lane: &mut Lane) {
    let share = 1.0 / places as f32;
    lane.clock.timed(Phase::Reduce, Work::Reduce(x.len()), || crate::arithmetic::scale(x, share));
}
