//! Gradients that are projected before they are all-reduced: a linear map leaves a few numbers of each, any all-reduce
//! adds these as they are, and the sum is mapped back. One law per file, with its guarantee.
//!
//! This is no codec: a codec sees one vector on its way to one place, and a projection needs what all places agree on
//! (which elements, which basis). Nothing is coded anew on the way, so that every collective will do and a sum is
//! rounded as floats are, no more.
//!
//! With error feedback, y = x + e is projected, and e becomes y less what the projection left of this rank's own y. The
//! projection is linear: all memories together are what the sum is short of, up to the rounding of floats. Where the
//! difference is no number, nothing is remembered.
//!
//! Source of the memory: Vogels, Karimireddy and Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for
//! Distributed Optimization", NeurIPS 2019, Algorithm 2.

mod powersgd;
mod random_k;

pub use powersgd::Powersgd;
pub use random_k::RandomK;

use crate::collective::CollectiveAlgorithm;
use crate::compress::distance;
use crate::matrices::Matrix;
use crate::{StateError, StateVisitor, StepError, Tag, Wire, arithmetic};
use recipe::{Codec, Compression};
use record::{Phase, Work};
use std::sync::Arc;

/// A linear map of gradients, in front of an all-reduce.
pub trait Projection: Send {
    /// Replaces `x` by the projection of the sum over all places; `own` becomes that of this place's own `x`, where
    /// it is asked for.
    fn reduce(
        &mut self,
        x: &mut [f32],
        own: Option<&mut [f32]>,
        adder: &mut ProjectionAdder<'_, '_>,
    ) -> Result<(), StepError>;

    /// Saves or loads the state that the next projection depends on beside the vector.
    ///
    /// # Errors
    /// The loaded state does not fit.
    fn state(&mut self, _state: &mut StateVisitor<'_>) -> Result<(), StateError> {
        Ok(())
    }
}

/// How projections are added: an all-reduce whose messages are not counted as gradients of their own.
pub struct ProjectionAdder<'a, 'b> {
    collective: &'a dyn CollectiveAlgorithm,
    wire: &'a mut Wire<'b>,
    tag: Tag,
    /// Whether the next sum is the second one of this vector, which is the last.
    second: bool,
}

impl ProjectionAdder<'_, '_> {
    /// Replaces `y` by the sum over all places.
    pub fn sum(&mut self, y: &mut [f32]) -> Result<(), StepError> {
        // The calls of a step count from one: a second sum of the same call is far away from them.
        let tag = Tag { call: self.tag.call | u32::from(self.second) << 31, ..self.tag };
        self.second = true;
        self.collective.all_reduce_sum(y, tag, &mut self.wire.projected())
    }

    /// Runs work on `elements` elements before they are sent.
    pub fn encode<R>(&mut self, elements: usize, f: impl FnOnce() -> R) -> R {
        self.wire.lane().clock.timed(Phase::Encode, Work::Encode(elements), f)
    }

    /// Runs work on `elements` received elements.
    pub fn decode<R>(&mut self, elements: usize, f: impl FnOnce() -> R) -> R {
        self.wire.lane().clock.timed(Phase::Decode, Work::Decode(elements), f)
    }

    /// Which vector this is: the same numbers on all places, and different ones for every vector of a run.
    pub fn keys(&self) -> [u64; 4] {
        let Tag { kind, step, call, .. } = self.tag;
        [kind as u64, step, u64::from(call), self.wire.base() as u64]
    }
}

/// A projection and the memory of its losses.
pub struct Projector {
    projection: Box<dyn Projection>,
    /// The loss so far, by position; `None` without error feedback.
    memory: Option<Vec<f32>>,
    // Scratch: the vector to project, and its projection.
    due: Vec<f32>,
    own: Vec<f32>,
}

impl Projector {
    /// A projection that has lost nothing yet, with a memory or without.
    pub fn new(projection: Box<dyn Projection>, remembers: bool) -> Self {
        Self { projection, memory: remembers.then(Vec::new), due: Vec::new(), own: Vec::new() }
    }

    /// The memory, by position; positions beyond its end have lost nothing so far.
    pub fn memory(&self) -> &[f32] {
        self.memory.as_deref().unwrap_or_default()
    }

    /// The memory, and what the projection keeps.
    ///
    /// # Errors
    /// The loaded state does not fit.
    pub fn state(&mut self, state: &mut StateVisitor<'_>) -> Result<(), StateError> {
        if let Some(memory) = &mut self.memory {
            state.list("memory", memory)?;
        }
        self.projection.state(state)
    }

    /// Replaces `x` by the projection of the sum over all places.
    pub fn all_reduce_sum(
        &mut self,
        x: &mut [f32],
        tag: Tag,
        collective: &dyn CollectiveAlgorithm,
        wire: &mut Wire<'_>,
    ) -> Result<(), StepError> {
        let group = wire.group();
        let at = wire.base();
        let raw = collective.cost(x.len(), group.size(), group.me().0).elements;
        let keeps_spans = wire.lane().clock.keeps_spans();
        let Self { projection, memory, due, own } = self;
        let memory = memory.as_mut().map(|memory| {
            memory.resize(memory.len().max(at + x.len()), 0.0);
            &mut memory[at..at + x.len()]
        });
        let looks = memory.is_some() || keeps_spans;
        // The cost of a memory is part of its codec's.
        wire.lane().clock.timed(Phase::Encode, Work::Encode(0), || {
            own.resize(x.len(), 0.0);
            due.clear();
            if let Some(memory) = &memory {
                arithmetic::add(x, memory);
            }
            if looks {
                due.extend_from_slice(x);
            }
        });
        let mut adder = ProjectionAdder { collective, wire: &mut *wire, tag, second: false };
        projection.reduce(x, looks.then_some(&mut own[..]), &mut adder)?;
        wire.count_projected(raw, keeps_spans.then(|| distance(due, own)));
        if let Some(memory) = memory {
            wire.lane().clock.timed(Phase::Decode, Work::Decode(0), || remember(memory, due, own));
        }
        Ok(())
    }
}

fn remember(memory: &mut [f32], due: &[f32], sent: &[f32]) {
    for (lost, (due, sent)) in memory.iter_mut().zip(due.iter().zip(sent)) {
        let difference = due - sent;
        *lost = if difference.is_finite() { difference } else { 0.0 };
    }
}

/// The projection that the recipe asks for, of a model with these matrices.
pub fn build(compression: Compression, seed: u64, matrices: &Arc<[Matrix]>) -> Option<Projector> {
    let Compression::Coded { codec, error_feedback, .. } = compression else { return None };
    let projection: Box<dyn Projection> = match codec {
        Codec::RandomK { ratio } if error_feedback => Box::new(RandomK::contracting(ratio, seed)),
        Codec::RandomK { ratio } => Box::new(RandomK::unbiased(ratio, seed)),
        Codec::Powersgd { rank } => Box::new(Powersgd::new(rank as usize, matrices.clone(), seed)),
        Codec::Truncate16
        | Codec::Quantize8
        | Codec::Quantize8Gradient
        | Codec::Fp16
        | Codec::Bf16
        | Codec::TopK { .. }
        | Codec::Sign
        | Codec::Terngrad { .. }
        | Codec::Qsgd { .. }
        | Codec::Custom => return None,
    };
    Some(Projector::new(projection, error_feedback))
}
