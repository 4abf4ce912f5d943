//! A lane: a line of execution inside a rank, with its transport, its codecs and its clock.

use crate::compress::{Compressor, Guarantee, Identity};
use crate::{StateError, StateVisitor, Transport};
use record::PhaseClock;

/// Bytes that travelled over a lane during a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Encoded bytes that the lane sent.
    pub bytes_out: u64,
    /// Encoded bytes that the lane received.
    pub bytes_in: u64,
}

/// Savings and losses of coding on a lane since the run's clock started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Coding {
    /// Bytes sent, as they were encoded.
    pub bytes: u64,
    /// The bytes of the same vectors as 32-bit floats.
    pub raw_bytes: u64,
    /// Squared length of the vectors that were encoded in steps which keep their spans, residuals of error feedback
    /// included.
    pub squared: f64,
    /// Squared length of their encoding errors.
    pub squared_error: f64,
}

/// The content of a vector, which decides how it is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Gradients and vectors made of them.
    Gradients,
    /// Weights while they are trained.
    Weights,
    /// Vectors that must arrive bit for bit: initial weights, activations.
    Exact,
    /// Projections of gradients, which travel bit for bit.
    Projected,
    /// Reaches of gradients, which travel only because gradients are coded.
    Reach,
}

impl Content {
    const ALL: [Self; 5] = [Self::Gradients, Self::Weights, Self::Exact, Self::Projected, Self::Reach];

    /// Its number in a message.
    pub(crate) fn number(self) -> u32 {
        self as u32
    }

    /// The content with that number.
    pub(crate) fn of_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }
}

/// The codecs of a lane, one for each content.
pub(crate) struct Codecs {
    pub(crate) gradients: Box<dyn Compressor>,
    weights: Box<dyn Compressor>,
    exact: Identity,
}

impl Codecs {
    pub(crate) fn of(&mut self, content: Content) -> &mut dyn Compressor {
        match content {
            Content::Gradients => self.gradients.as_mut(),
            Content::Weights => self.weights.as_mut(),
            Content::Exact | Content::Projected | Content::Reach => &mut self.exact,
        }
    }
}

/// The resources of one lane; nothing in it is shared with another.
pub struct Lane {
    /// The lane's handle of the rank's transport.
    pub transport: Box<dyn Transport>,
    pub(crate) codecs: Codecs,
    projection: Projection,
    /// Measures the phases of the lane.
    pub clock: PhaseClock,
    /// Bytes since the last step ended.
    pub traffic: Traffic,
    pub(crate) coding: Coding,
    // Scratch for measuring encoding errors: the vector to encode, and its decoding.
    pub(crate) due: Vec<f32>,
    pub(crate) decoded: Vec<f32>,
}

/// Whether gradients of a lane are projected before they are all-reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Projection {
    None,
    Gradients,
}

impl Lane {
    /// A lane that has sent nothing yet, with a codec for gradients; weights travel as they are.
    pub fn new(transport: Box<dyn Transport>, gradients: Box<dyn Compressor>, clock: PhaseClock) -> Self {
        let codecs = Codecs { gradients, weights: Box::new(Identity), exact: Identity };
        Self {
            transport,
            codecs,
            projection: Projection::None,
            clock,
            traffic: Traffic::default(),
            coding: Coding::default(),
            due: Vec::new(),
            decoded: Vec::new(),
        }
    }

    /// The same lane with a codec for weights.
    #[must_use]
    pub fn coding_weights(mut self, codec: Box<dyn Compressor>) -> Self {
        self.codecs.weights = codec;
        self
    }

    /// The same lane, whose gradients are projected before they are all-reduced.
    #[must_use]
    pub fn projecting_gradients(self) -> Self {
        Self { projection: Projection::Gradients, ..self }
    }

    /// The run's clock starts with this step: neither the time nor the traffic of the start-up counts.
    pub(crate) fn restart(&mut self, step: u64) {
        self.clock.restart(step);
        self.traffic = Traffic::default();
        self.coding = Coding::default();
    }

    /// Saves or loads the residuals of its codecs, and their savings and losses so far.
    pub(crate) fn state(&mut self, state: &mut StateVisitor<'_>) -> Result<(), StateError> {
        state.within("gradients", |state| self.codecs.gradients.state(state))?;
        state.within("weights", |state| self.codecs.weights.state(state))?;
        let Coding { bytes, raw_bytes, squared, squared_error } = &mut self.coding;
        state.within("coding", |state| {
            state.number("bytes", bytes)?;
            state.number("raw-bytes", raw_bytes)?;
            state.double("squared", squared)?;
            state.double("squared-error", squared_error)
        })
    }

    /// Savings and losses of coding; `None` on a lane whose codecs are exact.
    pub fn coding(&self) -> Option<Coding> {
        let exact = |codec: &dyn Compressor| codec.guarantee() == Guarantee::Exact;
        let lossless = exact(self.codecs.gradients.as_ref()) && exact(self.codecs.weights.as_ref());
        (!lossless || self.projection == Projection::Gradients).then_some(self.coding)
    }
}
