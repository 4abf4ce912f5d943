//! How vectors travel, as a description: the collective, the schedule, the order of sums.

use crate::spec::family::family;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How vectors travel between ranks: algorithm, grouping, order of sums and path of the bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Communication {
    /// The algorithm of an all-reduce.
    pub collective: Collective,
    /// Which gradients travel together.
    pub schedule: Schedule,
    /// In which order an element's parts are added.
    pub reduce_order: ReduceOrder,
    /// Where the bytes of a message are between sender and receiver. Runs from before there was a choice used the socket.
    #[serde(default, skip_serializing_if = "PayloadPath::is_socket")]
    pub transport: PayloadPath,
}

impl Communication {
    /// Whether an all-reduce goes around a ring, each rank adding its part to those that come.
    pub fn adds_around_a_ring(&self) -> bool {
        self.collective == Collective::Ring && self.reduce_order == ReduceOrder::Ring
    }
}

family! {
    /// The algorithms of an all-reduce that a recipe can name.
    pub enum CollectiveKind {
        Ring = "ring": "Scatter-reduce and all-gather around a ring: every link is used all the time.",
        PipelinedRing = "pipelined-ring": "A ring whose chunks travel in segments: sums overlap with \
            transfers.",
        Tree = "tree": "Up and down a binomial tree: few messages in a row, each of everything.",
        RecursiveDoubling = "recursive-doubling": "Everything between partners at doubling distances: the \
            fewest in a row.",
        HalvingDoubling = "halving-doubling": "Halves, quarters, ... between partners, and back: a ring's \
            bytes, fewer in a row.",
        Star = "star": "Everything to the first rank and back.",
        AllGather = "all-gather": "Each worker sends its whole vector to all others: a codec loses nothing of a sum.",
        Hierarchical = "hierarchical": "A tree inside each group of ranks, then a tree between the groups.",
    }
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
        /// Ranks of a group, consecutive by number; `None` for one group per machine.
        group_size: Option<u32>,
    },
}

impl Collective {
    /// Kind of the algorithm, without its settings.
    pub fn kind(self) -> CollectiveKind {
        match self {
            Self::Ring => CollectiveKind::Ring,
            Self::PipelinedRing { .. } => CollectiveKind::PipelinedRing,
            Self::Tree => CollectiveKind::Tree,
            Self::RecursiveDoubling => CollectiveKind::RecursiveDoubling,
            Self::HalvingDoubling => CollectiveKind::HalvingDoubling,
            Self::Star => CollectiveKind::Star,
            Self::AllGather => CollectiveKind::AllGather,
            Self::Hierarchical { .. } => CollectiveKind::Hierarchical,
        }
    }

    /// The order in which it adds where `reduce-order = "rank"` is asked for, and where it is not.
    pub fn adds(self) -> Adds {
        match self {
            Self::Star | Self::AllGather => Adds::InRankOrder,
            Self::Ring => Adds::InEitherOrder,
            Self::PipelinedRing { .. }
            | Self::Tree
            | Self::RecursiveDoubling
            | Self::HalvingDoubling
            | Self::Hierarchical { .. } => Adds::InItsOwnOrder,
        }
    }

    /// Vectors that error feedback remembers in all of its ranks together.
    pub(crate) fn memories(self, workers: u32) -> u32 {
        match self {
            // One for each partner, and one more for the result that guests receive.
            Self::RecursiveDoubling => {
                let rounds = workers.ilog2();
                let hosts = 1 << rounds;
                let guests = workers - hosts;
                hosts * (rounds + u32::from(guests > 0)) + guests
            }
            Self::Ring
            | Self::PipelinedRing { .. }
            | Self::Tree
            | Self::HalvingDoubling
            | Self::Star
            | Self::AllGather
            | Self::Hierarchical { .. } => workers,
        }
    }
}

/// The orders in which a collective can add an element's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adds {
    /// In rank order only.
    InRankOrder,
    /// In rank order where the recipe asks for it, else in its own.
    InEitherOrder,
    /// In its own order only, which adds partial sums to each other.
    InItsOwnOrder,
}

family! {
    /// The order in which an element's parts are added.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum ReduceOrder {
        Ring = "ring": "The collective's own order; all ranks still end with the same bits.",
        Rank = "rank": "Rank 0 first.",
    }
}

family! {
    /// The transports that a recipe can ask for.
    pub enum TransportKind {
        Zeromq = "zeromq": "Sockets.",
        SharedMemory = "shared-memory": "Memory that the ranks of one machine share: a packet is read where it was written.",
        Auto = "auto": "Shared memory where all ranks are on one machine and no network is emulated, else sockets.",
    }
}

/// Where the bytes of a message are between sender and receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PayloadPath {
    /// In a ZeroMQ socket.
    #[default]
    Zeromq,
    /// In memory that ranks of one machine share; announcements go through sockets.
    SharedMemory,
}

impl PayloadPath {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
    fn is_socket(&self) -> bool {
        *self == Self::Zeromq
    }

    /// Setting of `communication.transport` that asks for this path alone.
    pub fn kind(self) -> TransportKind {
        match self {
            Self::Zeromq => TransportKind::Zeromq,
            Self::SharedMemory => TransportKind::SharedMemory,
        }
    }
}

family! {
    /// Which gradients travel together, and when.
    pub enum ScheduleKind {
        Single = "single": "All layers in one message after the backward pass.",
        PerLayer = "per-layer": "Each layer as soon as its gradient is there: wait-free backpropagation (WFBP).",
        Fixed = "fixed": "Neighbouring layers until a message has at least the `size`, as PyTorch DDP's buckets.",
        Merged = "merged": "Neighbouring layers merged by Algorithm 1 of MG-WFBP, from times that the run measures in \
            its first steps.",
        MergedExact = "merged-exact": "Neighbouring layers merged so that the step's last message ends earliest, from the same times.",
    }
    settings {
        "wfbp": "Wait-free backpropagation: each layer travels as soon as its gradient is there."
            => "`schedule = \"per-layer\"`",
        "mg-wfbp": "Merged-gradient wait-free backpropagation."
            => "`schedule = \"merged\"`",
        "ddp": "The buckets of PyTorch's DistributedDataParallel."
            => "`schedule = { kind = \"fixed\", size = \"25MiB\" }`",
    }
}

/// Which gradients travel together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Schedule {
    /// All layers in one message after the backward pass.
    Single,
    /// Each layer as soon as its gradient is there.
    PerLayer,
    /// Neighbouring layers until a message has at least this size.
    Fixed {
        /// Of the gradient, before it is coded.
        bytes: u64,
    },
    /// Neighbouring layers by Algorithm 1 of MG-WFBP.
    Merged,
    /// Neighbouring layers so that the step ends earliest.
    MergedExact,
}

impl Schedule {
    /// Kind of the schedule, without its settings.
    pub fn kind(self) -> ScheduleKind {
        match self {
            Self::Single => ScheduleKind::Single,
            Self::PerLayer => ScheduleKind::PerLayer,
            Self::Fixed { .. } => ScheduleKind::Fixed,
            Self::Merged => ScheduleKind::Merged,
            Self::MergedExact => ScheduleKind::MergedExact,
        }
    }

    /// Steps at the beginning of a run that it measures before it plans; communication overlaps nothing in them.
    pub fn measured_steps(self) -> u64 {
        match self {
            Self::Single | Self::PerLayer | Self::Fixed { .. } => 0,
            Self::Merged | Self::MergedExact => 8,
        }
    }
}
