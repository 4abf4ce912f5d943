//! Strategies, collectives and compression as descriptions; the `strategies` crate builds the live ones.

use crate::{Extent, Topology};
use serde::{Deserialize, Serialize};

/// How the ranks train together. A variant here, and the compiler lists what else a new strategy needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Strategy {
    /// Synchronous parameter server: gradients up, weights down.
    PsSync,
    /// Decentralised synchronous SGD: an all-reduce of the gradients.
    DSync,
    /// Asynchronous parameter server: first come, first served.
    AsyncSgd {
        /// Steps by which a worker may be ahead of the slowest one; as many as it likes where there is none.
        staleness_bound: Option<u64>,
    },
    /// Asynchronous parameter server with momentum.
    AsyncMsgd {
        /// Of the server's one velocity.
        momentum: f32,
        /// As for [`Strategy::AsyncSgd`].
        staleness_bound: Option<u64>,
    },
    /// Asynchronous parameter server without locks.
    HogwildSgd {
        /// As for [`Strategy::AsyncSgd`].
        staleness_bound: Option<u64>,
    },
    /// All-reduce in a pipeline: communication overlaps the next steps.
    PipeSgd {
        /// Steps from a gradient to its update, 1 or more.
        depth: u32,
        /// D-Sync for so long.
        warmup: Extent,
        /// Pieces in which a gradient travels, each as soon as it is there; 1 for all of it after the
        /// backward pass.
        segments: u32,
    },
    /// Local steps, and an average of all models now and then.
    LocalSgd {
        /// Local steps from one average to the next.
        period: u64,
    },
    /// Gossip: each worker averages with its neighbours in every step.
    DPsgd {
        /// Who its neighbours are.
        topology: Topology,
        /// What comes first.
        order: MixOrder,
    },
    /// Gossip without waiting: pairs average whenever they are ready.
    AdPsgd {
        /// Who may average with whom.
        topology: Topology,
        /// How often a pair does.
        averaging: Averaging,
    },
    /// Gossip over a directed graph: stochastic gradient push.
    Sgp,
}

/// Which comes first in a step of gossip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MixOrder {
    /// x <- W x - gamma g(x): models travel while gradients are computed.
    MixThenStep,
    /// x <- W (x - gamma g(x)).
    StepThenMix,
}

/// How often an active worker averages with a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Averaging {
    /// Whenever there is a new gradient in its buffer: at most once per step.
    EachStep,
    /// Again as soon as the last averaging is over.
    Continuous,
}

impl Strategy {
    /// The recipe's `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::PsSync => "ps-sync",
            Self::DSync => "d-sync",
            Self::AsyncSgd { .. } => "async-sgd",
            Self::AsyncMsgd { .. } => "async-msgd",
            Self::HogwildSgd { .. } => "hogwild-sgd",
            Self::PipeSgd { .. } => "pipe-sgd",
            Self::LocalSgd { .. } => "local-sgd",
            Self::DPsgd { .. } => "d-psgd",
            Self::AdPsgd { .. } => "ad-psgd",
            Self::Sgp => "sgp",
        }
    }

    /// Server ranks beside the workers, where the recipe does not ask for more.
    pub fn servers(&self) -> u32 {
        match self {
            Self::PsSync | Self::AsyncSgd { .. } | Self::AsyncMsgd { .. } | Self::HogwildSgd { .. } => 1,
            Self::DSync
            | Self::PipeSgd { .. }
            | Self::LocalSgd { .. }
            | Self::DPsgd { .. }
            | Self::AdPsgd { .. }
            | Self::Sgp => 0,
        }
    }

    /// Steps by which a worker may be ahead of the slowest one, where there is a bound.
    pub fn staleness_bound(&self) -> Option<u64> {
        match self {
            Self::AsyncSgd { staleness_bound }
            | Self::AsyncMsgd { staleness_bound, .. }
            | Self::HogwildSgd { staleness_bound } => *staleness_bound,
            Self::PsSync
            | Self::DSync
            | Self::PipeSgd { .. }
            | Self::LocalSgd { .. }
            | Self::DPsgd { .. }
            | Self::AdPsgd { .. }
            | Self::Sgp => None,
        }
    }

    /// Whether each worker goes at its own pace. Such a run goes on without a worker that is lost.
    pub fn is_asynchronous(&self) -> bool {
        match self {
            Self::AsyncSgd { .. }
            | Self::AsyncMsgd { .. }
            | Self::HogwildSgd { .. }
            | Self::AdPsgd { .. } => true,
            Self::PsSync
            | Self::DSync
            | Self::PipeSgd { .. }
            | Self::LocalSgd { .. }
            | Self::DPsgd { .. }
            | Self::Sgp => false,
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
