//! Compression as a description: which codec, what it codes, and the properties of each codec.

use crate::spec::family::family;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

family! {
    /// The compressions that a recipe can name.
    pub enum CompressionKind {
        None = "none": "32-bit floats as they are.",
        Truncate16 = "truncate16": "The upper 16 bits of each float: rounds towards zero.",
        Quantize8 = "quantize8": "8 bits per value, as multiples of a 127th of the largest that travels \
            with it.",
        Fp16 = "fp16": "Half precision, rounded: 10 bits of fraction, from 2^-24 to 65504.",
        Bf16 = "bf16": "The upper 16 bits of each float, rounded: 7 bits of fraction, the range of 32 bits.",
        TopK = "top-k": "The largest values as they are, with their positions, 8 bytes each; of the others \
            nothing.",
        RandomK = "random-k": "Values at positions that all ranks draw alike: only these are all-reduced. \
            With error feedback they stay as they are; without they are scaled to be right on average, \
            which at 1 % is a hundred times.",
        Sign = "sign": "1 bit per value: its sign, times the mean magnitude of all.",
        Terngrad = "terngrad": "1.6 bits per value: -1, 0 or 1 times the largest of its bucket, by chance.",
        Qsgd = "qsgd": "A few bits per value: a level of the length of its bucket, rounded by chance.",
        Powersgd = "powersgd": "Two thin factors of each matrix of weights are all-reduced; a tensor no \
            larger than its factors goes as it is.",
        Custom = "custom": "A codec of your own, in a `bakeoff-worker` that you build with it: `custom` is its name there, \
            `settings` are its numbers. A gradient is encoded once, and its sum at most once more.",
    }
}

family! {
    /// Which values share the range of `quantize8`.
    pub enum QuantizeRange {
        Chunk = "chunk": "The largest magnitude of what travels together: of each chunk, anew on each hop.",
        Gradient = "gradient": "One for the whole gradient and all its partial sums, as in Li et al., \
            NeurIPS 2018: before each gradient the workers all-reduce the largest magnitudes, exactly; a \
            step is a (127 - p)th of their sum, so that no partial sum is clipped.",
    }
}

/// Encoding of vectors on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Compression {
    /// Vectors travel as 32-bit floats.
    None,
    /// Gradients are encoded, with a loss.
    Coded {
        /// The codec of gradients.
        codec: Codec,
        /// Whether weights are encoded, too.
        parameters: bool,
        /// Whether the error of a gradient is added to the next one.
        error_feedback: bool,
    },
}

/// An encoding of fewer than 32 bits per value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Codec {
    /// The upper 16 bits of each float.
    Truncate16,
    /// 8 bits per value, scaled by the largest.
    Quantize8,
    /// `quantize8` with one range for a whole gradient, on which all ranks agree: `range = "gradient"`.
    Quantize8Gradient,
    /// IEEE half precision, rounded.
    Fp16,
    /// The upper 16 bits of each float, rounded.
    Bf16,
    /// The elements of largest magnitude, with their positions.
    TopK {
        /// Share of the elements that are sent.
        ratio: f64,
    },
    /// Elements drawn at random, the same on all ranks.
    RandomK {
        /// Share of the elements that are sent.
        ratio: f64,
    },
    /// One bit per value, and the mean magnitude.
    Sign,
    /// -1, 0 or 1 by chance, scaled by the largest.
    Terngrad {
        /// Neighbouring elements that share a scale.
        bucket: u32,
    },
    /// A few levels by chance, scaled by the length.
    Qsgd {
        /// Levels on each side of zero.
        levels: u32,
        /// Neighbouring elements that share a scale.
        bucket: u32,
    },
    /// Two thin factors of each matrix of weights.
    Powersgd {
        /// Columns of the factors.
        rank: u32,
    },
    /// A codec of another crate: [`RunSpec::custom_codec`](crate::RunSpec::custom_codec).
    Custom,
}

/// A codec of another crate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CustomCodec {
    /// Its name in the registry of `bakeoff-worker`.
    pub name: String,
    /// Its numbers, by name.
    pub settings: BTreeMap<String, f64>,
}

/// How encoded gradients become a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodedSum {
    /// Partial sums are encoded anew on every hop: any all-reduce, any server.
    EveryHop,
    /// A gradient is encoded once, and its sum at most once more: the errors of more hops would be too large.
    Once,
    /// An all-reduce adds linear projections of the whole gradients.
    Projected,
}

/// Part of a codec's work that is on a whole gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NeedsWhole {
    /// It encodes any vector by itself.
    Nothing,
    /// The range of its steps, which the largest element of all sets.
    Range,
    /// A projection that all ranks add: of layers as well as of all, but of nothing that only some ranks have.
    Projection,
    /// Factors of matrices, which are projections, too; they and the matrices that stay as they are travel together.
    Factors,
}

impl Codec {
    /// One of each kind but `custom`, with settings for small vectors.
    pub const ALL: [Self; 10] = [
        Self::Truncate16,
        Self::Quantize8,
        Self::Fp16,
        Self::Bf16,
        Self::TopK { ratio: 0.1 },
        Self::RandomK { ratio: 0.1 },
        Self::Sign,
        Self::Terngrad { bucket: 16 },
        Self::Qsgd { levels: 7, bucket: 16 },
        Self::Powersgd { rank: 2 },
    ];

    /// Kind of the codec, without its settings.
    pub fn kind(self) -> CompressionKind {
        match self {
            Self::Truncate16 => CompressionKind::Truncate16,
            Self::Quantize8 | Self::Quantize8Gradient => CompressionKind::Quantize8,
            Self::Fp16 => CompressionKind::Fp16,
            Self::Bf16 => CompressionKind::Bf16,
            Self::TopK { .. } => CompressionKind::TopK,
            Self::RandomK { .. } => CompressionKind::RandomK,
            Self::Sign => CompressionKind::Sign,
            Self::Terngrad { .. } => CompressionKind::Terngrad,
            Self::Qsgd { .. } => CompressionKind::Qsgd,
            Self::Powersgd { .. } => CompressionKind::Powersgd,
            Self::Custom => CompressionKind::Custom,
        }
    }

    /// The name of its kind, as in recipes and reports.
    pub fn name(self) -> &'static str {
        self.kind().name()
    }

    /// How gradients under this codec become a sum.
    pub fn route(self) -> CodedSum {
        self.profile().route
    }

    /// Whether its error has the same direction step after step.
    pub fn is_biased(self) -> bool {
        self.profile().biased
    }

    /// Part of its work for which it needs a gradient whole.
    pub(crate) fn needs_whole(self) -> NeedsWhole {
        self.profile().needs_whole
    }

    /// Why a run cannot be continued from a checkpoint with the same bits; `None` if it can.
    pub fn not_continued(self) -> Option<&'static str> {
        self.profile().not_continued
    }

    fn profile(self) -> CodecProfile {
        const HOP: CodecProfile = CodecProfile::new(CodedSum::EveryHop);
        const ONCE: CodecProfile = CodecProfile::new(CodedSum::Once);
        const PROJECTED: CodecProfile = CodecProfile::new(CodedSum::Projected);
        match self {
            Self::Truncate16 | Self::Quantize8 | Self::Fp16 | Self::Bf16 => HOP,
            Self::Quantize8Gradient => CodecProfile { needs_whole: NeedsWhole::Range, ..HOP },
            Self::TopK { .. } | Self::Sign => CodecProfile { biased: true, ..ONCE },
            Self::Terngrad { .. } | Self::Qsgd { .. } => ONCE,
            // Of a codec of another crate nothing is known here but that it is encoded once.
            Self::Custom => CodecProfile {
                not_continued: Some("only the codec itself knows what it remembers from step to step"),
                ..ONCE
            },
            Self::RandomK { .. } => CodecProfile { needs_whole: NeedsWhole::Projection, ..PROJECTED },
            Self::Powersgd { .. } => {
                CodecProfile { biased: true, needs_whole: NeedsWhole::Factors, ..PROJECTED }
            }
        }
    }

    /// The most by which encoding changes a vector on average, as a multiple of its squared length; `None` where it depends
    /// on the vector. The memory of error feedback stays bounded where this is below 1.
    pub fn variance(self) -> Option<f64> {
        match self {
            // Of one element s and d - 1 of a s, the largest (s |x|_1 - |x|_2^2) / |x|_2^2 there is over a.
            Self::Terngrad { bucket } => Some((f64::from(bucket).sqrt() - 1.0) / 2.0),
            Self::Qsgd { levels, bucket } => {
                let s = f64::from(levels);
                let d = f64::from(bucket);
                Some((d / (s * s)).min(d.sqrt() / s))
            }
            Self::Truncate16
            | Self::Quantize8
            | Self::Quantize8Gradient
            | Self::Fp16
            | Self::Bf16
            | Self::TopK { .. }
            | Self::RandomK { .. }
            | Self::Sign
            | Self::Powersgd { .. }
            | Self::Custom => None,
        }
    }
}

/// Properties that a codec has whatever its settings are.
struct CodecProfile {
    route: CodedSum,
    biased: bool,
    needs_whole: NeedsWhole,
    not_continued: Option<&'static str>,
}

impl CodecProfile {
    const fn new(route: CodedSum) -> Self {
        Self { route, biased: false, needs_whole: NeedsWhole::Nothing, not_continued: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_has_one_codec_of_each_kind_that_is_not_of_another_crate() {
        let kinds: Vec<CompressionKind> = Codec::ALL.into_iter().map(Codec::kind).collect();
        let [CompressionKind::None, own @ .., CompressionKind::Custom] = CompressionKind::ALL else {
            panic!("{:?}", CompressionKind::ALL)
        };
        assert_eq!(kinds, own);
    }
}
