//! Computation of one step of one worker, layer by layer.

use crate::finite::is_amount;

/// The backward pass of one layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerTime {
    /// t_b of the layer, in seconds.
    pub backward: f64,
    /// Its gradient; zero for a layer without weights.
    pub bytes: u64,
}

/// One step: the forward pass, then the layers in the order in which the backward pass finishes them.
#[derive(Clone, Debug, PartialEq)]
pub struct StepProfile {
    forward: f64,
    /// When each layer's gradient is finished, from the start of the forward pass: tau_b + t_b (Eq. 6, 19).
    finished: Vec<f64>,
    /// Bytes of all layers before each one, and of all.
    before: Vec<u64>,
    /// Where sections of layers end, but for the last one.
    walls: Vec<usize>,
}

/// Why numbers are no step.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ProfileError {
    /// The forward pass has no time.
    #[error("the forward pass takes {seconds} s; a time has to be finite and not negative")]
    Forward {
        /// The value given as its time.
        seconds: f64,
    },
    /// A layer's backward pass has no time.
    #[error("the backward pass of layer {layer} takes {seconds} s; a time has to be finite and not negative")]
    Backward {
        /// Index in the order of the backward pass.
        layer: usize,
        /// The value given as its time.
        seconds: f64,
    },
    /// The gradients are larger than a number of bytes can be, or the times than a time.
    #[error("the layers up to {layer} are too large, or take too long, to be added")]
    Overflow {
        /// Index in the order of the backward pass.
        layer: usize,
    },
}

impl StepProfile {
    /// `forward` in seconds; `layers` in the order in which the backward pass finishes them.
    ///
    /// # Errors
    /// A time is negative, infinite or NaN, or a sum overflows.
    pub fn new(forward: f64, layers: &[LayerTime]) -> Result<Self, ProfileError> {
        if !is_amount(forward) {
            return Err(ProfileError::Forward { seconds: forward });
        }
        let mut now = forward;
        let mut bytes = 0_u64;
        let mut profile = Self { forward, finished: Vec::new(), before: vec![0], walls: Vec::new() };
        for (layer, time) in layers.iter().enumerate() {
            if !is_amount(time.backward) {
                return Err(ProfileError::Backward { layer, seconds: time.backward });
            }
            now += time.backward;
            bytes = bytes
                .checked_add(time.bytes)
                .filter(|_| now.is_finite())
                .ok_or(ProfileError::Overflow { layer })?;
            profile.finished.push(now);
            profile.before.push(bytes);
        }
        Ok(profile)
    }

    /// The same step with sections of layers that no group reaches across: one ends after each of these numbers of layers, in
    /// ascending order. The last one ends with the last layer, whether it is named or not.
    #[must_use]
    pub fn in_sections(self, ends: &[usize]) -> Self {
        let layers = self.layers();
        Self { walls: ends.iter().copied().filter(|end| (1..layers).contains(end)).collect(), ..self }
    }

    /// Number of layers, those without weights included.
    pub fn layers(&self) -> usize {
        self.finished.len()
    }

    /// When the backward pass ends: t_f + t_b, in seconds from the start of the forward pass.
    pub fn computed(&self) -> f64 {
        self.finished.last().copied().unwrap_or(self.forward)
    }

    /// The section of a layer, counted from 0.
    pub(super) fn section(&self, layer: usize) -> usize {
        self.walls.partition_point(|wall| *wall <= layer)
    }

    /// Whether a section ends with a layer.
    pub(super) fn ends_section(&self, layer: usize) -> bool {
        self.walls.binary_search(&(layer + 1)).is_ok()
    }

    /// When the gradient of a layer is finished.
    pub(super) fn finished(&self, layer: usize) -> f64 {
        self.finished[layer]
    }

    /// Bytes of the layers from `first` up to but not including `end`.
    pub(super) fn bytes(&self, first: usize, end: usize) -> u64 {
        self.before[end] - self.before[first]
    }
}
