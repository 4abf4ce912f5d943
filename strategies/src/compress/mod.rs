//! Vectors as packets: one compressor per file, each with its guarantee.
//!
//! Compression acts on gradients. Weights travel as they are, but for `compression.parameters`, and the initial ones
//! always do; nothing is coded where there is one worker.

mod bf16;
mod counted;
mod error_feedback;
mod fp16;
mod identity;
mod kernels;
mod narrow;
mod qsgd;
mod quantize8;
mod quantize8_gradient;
#[cfg(test)]
mod samples;
mod sign;
mod stochastic;
mod terngrad;
mod top_k;
mod truncate16;

pub use bf16::Bf16;
pub use error_feedback::ErrorFeedback;
pub use fp16::Fp16;
pub use identity::Identity;
pub use qsgd::Qsgd;
pub use quantize8::Quantize8;
pub use quantize8_gradient::Quantize8Gradient;
pub use sign::Sign;
pub use stochastic::Origin;
pub use terngrad::Terngrad;
pub use top_k::TopK;
pub use truncate16::Truncate16;

pub(crate) use kernels::{Distance, distance, dot};

use crate::{Kind, Packet, StateError, StateVisitor, StepError};
use recipe::{Codec, CodedSum, Compression};
use record::Rank;

/// Where a vector is encoded. What a compressor remembers between steps is keyed by this but for the step, so that
/// it survives when layers are grouped anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// Purpose of the message.
    pub kind: Kind,
    /// Position of the first element in the flat vector.
    pub at: usize,
    /// Step of the sender; not part of the key of remembered errors.
    pub step: u64,
    /// Who receives it; in an all-reduce always the same one, so that the error of an element is in one place.
    pub peer: Rank,
}

/// How far a decoded vector can be from what was encoded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Guarantee {
    /// Not at all: the same bits.
    Exact,
    /// By at most this share of each element's magnitude, for elements in the range that the codec states.
    RelativeError(f64),
    /// Each element by at most this share of the largest magnitude in the vector.
    ShareOfLargest(f64),
    /// Each element by at most this share of a range that all places agree on before each all-reduce, by
    /// [`Compressor::reach`] and [`Compressor::agree`].
    ShareOfRange(f64),
    /// By anything, but right on average.
    Unbiased,
    /// The squared error is at most `1 - delta` of the squared length.
    Contraction {
        /// The share that survives.
        delta: f64,
    },
}

/// Turns vectors into packets and back.
pub trait Compressor: Send {
    /// Encodes `x`; a codec with error feedback adds the error remembered for the slot, and remembers the new one.
    fn encode(&mut self, slot: Slot, x: &[f32]) -> Packet;
    /// Replaces `due` by the vector that [`Compressor::encode`] would turn into a packet now: `x`, and the error remembered there.
    fn due(&self, _: Slot, x: &[f32], due: &mut Vec<f32>) {
        due.clear();
        due.extend_from_slice(x);
    }
    /// The largest magnitude of `x`, and with it the largest remembered error of its positions, for each receiver by
    /// itself; an infinity where one of them is no number. Asked for only under [`Guarantee::ShareOfRange`].
    fn reach(&self, _: Slot, _: &[f32]) -> f32 {
        0.0
    }
    /// Takes the sum of what the places of an all-reduce reach, and their number.
    fn agree(&mut self, _reach: f32, _places: usize) {}
    /// Decodes a packet over `into`, whose length must be that of the encoded vector.
    fn decode(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError>;
    /// Adds the decoded packet to `into`: the same bits as decoding and adding element by element.
    fn decode_add(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        let mut decoded = vec![0.0; into.len()];
        self.decode(packet, &mut decoded)?;
        crate::vector::add(into, &decoded);
        Ok(())
    }
    /// Encodes the sum of a packet and `x`, which stays as it is, in one pass: the bits that `decode_add` into `x` and `encode` would give.
    /// `None` where that saves nothing.
    fn encode_sum(&self, _packet: &Packet, _x: &[f32]) -> Option<Result<Packet, StepError>> {
        None
    }
    /// How many elements a packet of its own holds: what would have travelled without it is four times that, and a server learns
    /// from it how much of a gradient has come.
    fn elements(&self, packet: &Packet) -> usize {
        packet.0.len() / 4
    }
    /// How far a decoded vector can be from the encoded one.
    fn guarantee(&self) -> Guarantee;
    /// Whether a decoded sum is the sum of its decoded terms.
    fn linear(&self) -> bool;
    /// Saves or loads the state that the next packet depends on beside the vector and its slot.
    ///
    /// # Errors
    /// The loaded state does not fit.
    fn state(&mut self, _state: &mut StateVisitor<'_>) -> Result<(), StateError> {
        Ok(())
    }
}

impl Compressor for Box<dyn Compressor> {
    fn encode(&mut self, slot: Slot, x: &[f32]) -> Packet {
        self.as_mut().encode(slot, x)
    }

    fn due(&self, slot: Slot, x: &[f32], due: &mut Vec<f32>) {
        self.as_ref().due(slot, x, due);
    }

    fn reach(&self, slot: Slot, x: &[f32]) -> f32 {
        self.as_ref().reach(slot, x)
    }

    fn agree(&mut self, reach: f32, places: usize) {
        self.as_mut().agree(reach, places);
    }

    fn decode(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        self.as_ref().decode(packet, into)
    }

    fn decode_add(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        self.as_ref().decode_add(packet, into)
    }

    fn encode_sum(&self, packet: &Packet, x: &[f32]) -> Option<Result<Packet, StepError>> {
        self.as_ref().encode_sum(packet, x)
    }

    fn elements(&self, packet: &Packet) -> usize {
        self.as_ref().elements(packet)
    }

    fn guarantee(&self) -> Guarantee {
        self.as_ref().guarantee()
    }

    fn linear(&self) -> bool {
        self.as_ref().linear()
    }

    fn state(&mut self, state: &mut StateVisitor<'_>) -> Result<(), StateError> {
        self.as_mut().state(state)
    }
}

/// The codecs of a lane.
pub struct LaneCodecs {
    /// Codec for gradients and vectors made of them.
    pub gradients: Box<dyn Compressor>,
    /// Codec for weights; exact unless the recipe codes `parameters`.
    pub weights: Box<dyn Compressor>,
}

impl LaneCodecs {
    /// The codecs that the recipe asks for; `custom` builds the one of another crate. A gradient that is projected before it is all-reduced
    /// travels as it is.
    pub fn build(
        compression: Compression,
        origin: Origin,
        custom: impl Fn() -> Result<Box<dyn Compressor>, StepError>,
    ) -> Result<Self, StepError> {
        let Compression::Coded { codec, parameters, error_feedback } = compression else {
            return Ok(Self { gradients: Box::new(Identity), weights: Box::new(Identity) });
        };
        let new = || if codec == Codec::Custom { custom() } else { Ok(plain(codec, origin)) };
        let gradients = new()?;
        let remembers = error_feedback && codec.route() != CodedSum::Projected;
        let gradients = if remembers { Box::new(ErrorFeedback::new(gradients)) } else { gradients };
        // Weights replace what was there: what was lost of them is not missing from the next ones.
        let weights = if parameters { new()? } else { Box::new(Identity) };
        Ok(Self { gradients, weights })
    }
}

fn plain(codec: Codec, origin: Origin) -> Box<dyn Compressor> {
    match codec {
        Codec::Truncate16 => Box::new(Truncate16::default()),
        Codec::Quantize8 => Box::new(Quantize8),
        Codec::Quantize8Gradient => Box::new(Quantize8Gradient::default()),
        Codec::Fp16 => Box::new(Fp16::default()),
        Codec::Bf16 => Box::new(Bf16::default()),
        Codec::TopK { ratio } => Box::new(TopK::new(ratio)),
        Codec::Sign => Box::new(Sign),
        Codec::Terngrad { bucket } => Box::new(Terngrad::new(bucket as usize, origin)),
        Codec::Qsgd { levels, bucket } => Box::new(Qsgd::new(levels, bucket as usize, origin)),
        // The registry builds codecs of other crates; projections send exact floats.
        Codec::RandomK { .. } | Codec::Powersgd { .. } | Codec::Custom => Box::new(Identity),
    }
}

#[cfg(test)]
mod tests {
    use super::samples::{ORIGIN, SLOT};
    use super::*;
    use crate::rng;

    /// Numbers whose sums are not rounded, of more digits than any codec keeps.
    fn numbers(seed: u64) -> Vec<f32> {
        let mut random = rng::keyed(seed, "linear", &[]);
        (0..200).map(|_| rng::below(&mut random, 60_001) as f32 - 30_000.0).collect()
    }

    #[test]
    fn packets_have_the_sizes_that_a_plan_says() {
        let buckets = [Codec::Terngrad { bucket: 7 }, Codec::Qsgd { levels: 4, bucket: 3 }];
        let codecs = Codec::ALL.into_iter().chain(buckets).chain([Codec::Quantize8Gradient]);
        for codec in codecs.filter(|codec| codec.route() != CodedSum::Projected) {
            let mut encoder = plain(codec, ORIGIN);
            for elements in (0..40).chain([1000]) {
                let packet = encoder.encode(SLOT, &vec![1.5; elements]);
                assert_eq!(Some(packet.0.len()), codec.packet_bytes(elements), "{codec:?} of {elements}");
            }
        }
    }

    #[test]
    fn what_says_that_it_is_linear_is_and_nothing_else() {
        let x = numbers(1);
        let y = numbers(2);
        let sum: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
        let codecs = Codec::ALL.into_iter().filter(|codec| codec.route() != CodedSum::Projected);
        let codecs = codecs.map(|codec| (codec.name(), plain(codec, ORIGIN)));
        for (name, mut codec) in codecs.chain([("none", Box::new(Identity) as Box<dyn Compressor>)]) {
            let mut sent = |x: &[f32]| {
                let packet = codec.encode(SLOT, x);
                let mut decoded = vec![0.0; x.len()];
                codec.decode(&packet, &mut decoded).map(|()| decoded)
            };
            let [x, y, sum] = [&x, &y, &sum].map(|x| sent(x).unwrap());
            let adds_up = sum.iter().zip(x.iter().zip(&y)).all(|(sum, (x, y))| *sum - (x + y) == 0.0);
            assert_eq!(adds_up, codec.linear(), "{name}");
        }
    }
}
