//! How vectors travel, as descriptions: collectives, orders of sums, and codes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How ranks communicate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Communication {
    /// The algorithm of an all-reduce.
    pub collective: Collective,
    /// Which gradients travel together.
    pub schedule: Schedule,
    /// In which order an element's parts are added.
    pub reduce_order: ReduceOrder,
}

/// The algorithm of an all-reduce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Collective {
    /// Scatter-reduce and all-gather around a ring.
    Ring,
    /// The same with each chunk in segments, so that sums overlap with transfers.
    PipelinedRing {
        /// Segments of a chunk, at least 1.
        segments: u32,
    },
    /// Up and down a binomial tree.
    Tree,
    /// Everything between partners at doubling distances.
    RecursiveDoubling,
    /// Halves, quarters, ... between partners, and back.
    HalvingDoubling,
    /// Everything to the first rank and back.
    Star,
    /// Everything from everyone to everyone.
    AllGather,
    /// A tree inside each group, then a tree between the groups.
    Hierarchical {
        /// Ranks of a group, neighbours by number; `None` for one group per machine.
        group_size: Option<u32>,
    },
}

impl Collective {
    /// The recipe's `kind`.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::PipelinedRing { .. } => "pipelined-ring",
            Self::Tree => "tree",
            Self::RecursiveDoubling => "recursive-doubling",
            Self::HalvingDoubling => "halving-doubling",
            Self::Star => "star",
            Self::AllGather => "all-gather",
            Self::Hierarchical { .. } => "hierarchical",
        }
    }
}

/// In which order an element's parts are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReduceOrder {
    /// The collective's own order; all ranks still end with the same bits.
    Ring,
    /// Rank 0 first: the same bits for every schedule and for a parameter server.
    Rank,
}

/// Which gradients travel together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Schedule {
    /// All layers in one message after the backward pass.
    Single,
}

/// What happens to vectors on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Compression {
    /// Nothing: 32-bit floats.
    None,
    /// Gradients are coded, and lose something.
    Coded {
        /// By which code.
        codec: Codec,
        /// Whether weights are coded, too.
        parameters: bool,
        /// Whether what is lost of a gradient is added to the next one.
        error_feedback: bool,
    },
}

/// A code that needs fewer than 32 bits per value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Codec {
    /// The upper 16 bits of each float.
    Truncate16,
    /// 8 bits per value, scaled by the largest.
    Quantize8,
    /// The same in one range for a whole gradient, on which all ranks agree: `range = "gradient"`.
    Quantize8Gradient,
    /// IEEE half precision, rounded.
    Fp16,
    /// The upper 16 bits of each float, rounded.
    Bf16,
    /// The largest elements.
    TopK {
        /// Share of the elements that travels.
        ratio: f64,
    },
    /// Elements that are drawn, the same ones on all ranks.
    RandomK {
        /// Share of the elements that travels.
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
}

/// How coded gradients become a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Partial sums are coded anew on every hop: any all-reduce, any server.
    EveryHop,
    /// Coded once where it begins, and perhaps once as a sum: too much is lost of it otherwise.
    Once,
    /// A linear projection of the whole gradient, of which an all-reduce adds the result.
    Projected,
}

impl Codec {
    /// One of each kind, with settings for small vectors.
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

    /// The recipe's `kind`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Truncate16 => "truncate16",
            Self::Quantize8 | Self::Quantize8Gradient => "quantize8",
            Self::Fp16 => "fp16",
            Self::Bf16 => "bf16",
            Self::TopK { .. } => "top-k",
            Self::RandomK { .. } => "random-k",
            Self::Sign => "sign",
            Self::Terngrad { .. } => "terngrad",
            Self::Qsgd { .. } => "qsgd",
            Self::Powersgd { .. } => "powersgd",
        }
    }

    /// How gradients under this code become a sum.
    pub fn route(self) -> Route {
        match self {
            Self::Truncate16 | Self::Quantize8 | Self::Quantize8Gradient | Self::Fp16 | Self::Bf16 => {
                Route::EveryHop
            }
            Self::TopK { .. } | Self::Sign | Self::Terngrad { .. } | Self::Qsgd { .. } => Route::Once,
            Self::RandomK { .. } | Self::Powersgd { .. } => Route::Projected,
        }
    }

    /// Whether what it loses is lost in one direction, step after step.
    pub fn is_biased(self) -> bool {
        matches!(self, Self::TopK { .. } | Self::Sign | Self::Powersgd { .. })
    }

    /// By how many times its squared length an encoded vector is changed on average at most; nothing is known where it
    /// depends on the vector. What error feedback remembers stays bounded where this is below 1.
    pub fn variance(self) -> Option<f64> {
        match self {
            // Of one element s and d - 1 of a s, the largest (s |x|_1 - |x|_2^2) / |x|_2^2 there is over a.
            Self::Terngrad { bucket } => Some((f64::from(bucket).sqrt() - 1.0) / 2.0),
            Self::Qsgd { levels, bucket } => {
                let (s, d) = (f64::from(levels), f64::from(bucket));
                Some((d / (s * s)).min(d.sqrt() / s))
            }
            _ => None,
        }
    }
}
