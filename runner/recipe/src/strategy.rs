//! Strategies, collectives and compression as descriptions; the `strategies` crate builds the live ones.

use serde::{Deserialize, Serialize};

/// How the ranks train together. A variant here, and the compiler lists what else a new strategy needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Strategy {
    /// Synchronous parameter server: gradients up, weights down.
    PsSync,
    /// Decentralised synchronous SGD: an all-reduce of the gradients.
    DSync,
}

impl Strategy {
    /// The recipe's `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::PsSync => "ps-sync",
            Self::DSync => "d-sync",
        }
    }

    /// Server ranks beside the workers.
    pub fn servers(&self) -> u32 {
        match self {
            Self::PsSync => 1,
            Self::DSync => 0,
        }
    }
}

/// How ranks communicate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Communication {
    /// The algorithm of an all-reduce.
    pub collective: Collective,
    /// Which gradients travel together.
    pub schedule: Schedule,
    /// In which order an element's parts are added.
    pub reduce_order: ReduceOrder,
}

/// The algorithm of an all-reduce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
            Self::Hierarchical { .. } => "hierarchical",
        }
    }
}

/// In which order an element's parts are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReduceOrder {
    /// The collective's own order; all ranks still end with the same bits.
    Ring,
    /// Rank 0 first: the same bits for every schedule and for a parameter server.
    Rank,
}

/// Which gradients travel together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Schedule {
    /// All layers in one message after the backward pass.
    Single,
}

/// What happens to vectors on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Codec {
    /// The upper 16 bits of each float.
    Truncate16,
    /// 8 bits per value, scaled by the largest.
    Quantize8,
    /// IEEE half precision, rounded.
    Fp16,
    /// The upper 16 bits of each float, rounded.
    Bf16,
}

impl Codec {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Truncate16, Self::Quantize8, Self::Fp16, Self::Bf16];

    /// The recipe's `kind`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Truncate16 => "truncate16",
            Self::Quantize8 => "quantize8",
            Self::Fp16 => "fp16",
            Self::Bf16 => "bf16",
        }
    }
}
