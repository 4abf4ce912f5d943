//! Strategies as descriptions; the `strategies` crate builds the live ones.

use crate::{Extent, Role, Topology};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the ranks train together. A variant here, and the compiler lists what else a new strategy needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Strategy {
    /// Synchronous parameter server: gradients up, weights down.
    PsSync,
    /// Decentralised synchronous SGD: an all-reduce of the gradients.
    DSync,
    /// Asynchronous parameter server: first come, first served.
    AsyncSgd {
        /// How many workers its server serves at a time.
        #[serde(default = "Serve::stored")]
        serve: Serve,
        /// Steps by which a worker may be ahead of the slowest one; as many as it likes where there is none.
        staleness_bound: Option<u64>,
    },
    /// Asynchronous parameter server with momentum.
    AsyncMsgd {
        /// Of the server's one velocity.
        momentum: f32,
        /// As for [`Strategy::AsyncSgd`].
        #[serde(default = "Serve::stored")]
        serve: Serve,
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
    /// Elastic averaging, one worker after the other.
    EasgdOriginal {
        /// How far worker and centre go towards each other.
        moving_rate: MovingRate,
        /// Whether weights travel while the worker computes.
        overlap: bool,
    },
    /// Elastic averaging, first come, first served.
    EasgdAsync {
        /// As for [`Strategy::EasgdOriginal`].
        moving_rate: MovingRate,
        /// Local steps from one exchange with the centre to the next.
        period: u64,
        /// As for [`Strategy::AsyncSgd`].
        #[serde(default = "Serve::stored")]
        serve: Serve,
    },
    /// The same with momentum on the workers.
    MeasgdAsync {
        /// As for [`Strategy::EasgdOriginal`].
        moving_rate: MovingRate,
        /// Of each worker's velocity.
        momentum: f32,
        /// As for [`Strategy::EasgdAsync`].
        period: u64,
        /// As for [`Strategy::AsyncSgd`].
        #[serde(default = "Serve::stored")]
        serve: Serve,
    },
    /// Elastic averaging without locks.
    EasgdHogwild {
        /// As for [`Strategy::EasgdOriginal`].
        moving_rate: MovingRate,
        /// As for [`Strategy::EasgdAsync`].
        period: u64,
    },
    /// Elastic averaging of all workers at once.
    EasgdSync {
        /// As for [`Strategy::EasgdOriginal`].
        moving_rate: MovingRate,
        /// Where the centre is, and what overlaps: the same weights in all three.
        variant: SyncVariant,
    },
    /// Elastic averaging with momentum and a communication period.
    Eamsgd {
        /// As for [`Strategy::EasgdOriginal`].
        moving_rate: MovingRate,
        /// As for [`Strategy::MeasgdAsync`].
        momentum: f32,
        /// As for [`Strategy::EasgdAsync`].
        period: u64,
        /// As for [`Strategy::AsyncSgd`].
        #[serde(default = "Serve::stored")]
        serve: Serve,
        /// Whether gradients are those of the weights after the velocity's next move.
        look_ahead: bool,
    },
}

/// How many workers a server serves at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Serve {
    /// One, from its request to the end of the answer; the others wait in the order of their requests.
    One,
    /// All: only the arithmetic waits for a lock.
    All,
}

impl Serve {
    /// What servers did before it was a choice: a stored specification without it means this.
    fn stored() -> Self {
        Self::All
    }
}

/// How far worker and centre of an elastic method go towards each other: a of x - a (x - c) and c + a (x - c).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MovingRate {
    /// a = learning rate * rho: it follows the schedule of the learning rate.
    Rho(f32),
    /// a itself.
    Fixed(f32),
    /// a = this / number of workers.
    Divided(f32),
}

impl MovingRate {
    /// a, at a learning rate and among so many workers.
    pub fn at(self, rate: f32, workers: usize) -> f32 {
        match self {
            Self::Rho(rho) => rate * rho,
            Self::Fixed(a) => a,
            Self::Divided(all) => all / workers as f32,
        }
    }
}

/// Where the centre of synchronous elastic averaging is, and what overlaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SyncVariant {
    /// On a master of its own, behind a tree of the workers.
    Master,
    /// On the first worker.
    FirstWorker,
    /// The same, and weights travel during forward and backward pass.
    Overlapped,
}

/// Which comes first in a step of gossip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MixOrder {
    /// x <- W x - gamma g(x): models travel while gradients are computed.
    MixThenStep,
    /// x <- W (x - gamma g(x)).
    StepThenMix,
}

/// How often an active worker averages with a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
            Self::EasgdOriginal { .. } => "easgd-original",
            Self::EasgdAsync { .. } => "easgd-async",
            Self::MeasgdAsync { .. } => "measgd-async",
            Self::EasgdHogwild { .. } => "easgd-hogwild",
            Self::EasgdSync { .. } => "easgd-sync",
            Self::Eamsgd { .. } => "eamsgd",
        }
    }

    /// Server ranks beside the workers, where the recipe does not ask for more.
    pub fn servers(&self) -> u32 {
        self.manner().servers
    }

    /// Steps by which a worker may be ahead of the slowest one, where there is a bound.
    pub fn staleness_bound(&self) -> Option<u64> {
        self.manner().staleness_bound
    }

    /// Steps after which what a worker does repeats.
    pub fn period(&self) -> u64 {
        self.manner().period
    }

    /// Whether workers that go at their own pace wait for others all the same: for their turn, or because they may not be
    /// further ahead.
    pub fn holds_back(&self) -> bool {
        self.staleness_bound().is_some()
            || matches!(self, Self::EasgdOriginal { .. })
            || self.serve() == Some(Serve::One)
    }

    /// How many workers a server of workers at their own pace serves at a time, where that is a choice.
    pub fn serve(&self) -> Option<Serve> {
        match self {
            Self::AsyncSgd { serve, .. }
            | Self::AsyncMsgd { serve, .. }
            | Self::EasgdAsync { serve, .. }
            | Self::MeasgdAsync { serve, .. }
            | Self::Eamsgd { serve, .. } => Some(*serve),
            _ => None,
        }
    }

    /// Whether each worker goes at its own pace.
    pub fn is_asynchronous(&self) -> bool {
        self.manner().pace == Pace::Own
    }

    /// Whether all ranks that hold the model must end with the same weights, bit for bit.
    pub fn ranks_agree(&self) -> bool {
        matches!(self.manner().models, Models::Equal | Models::Averaged)
    }

    /// Whether the models of its workers differ on the way: then all of them are put aside at a mark, not only the one
    /// that the run is judged by.
    pub fn models_differ(&self) -> bool {
        matches!(self.manner().models, Models::Averaged | Models::Own)
    }

    /// Whether its workers change their models themselves; otherwise a server does, and they take what it says.
    pub fn workers_update(&self) -> bool {
        let Manner { models, servers, .. } = self.manner();
        match models {
            Models::Equal => servers == 0,
            Models::Told => false,
            Models::Averaged | Models::Own => true,
        }
    }

    /// How many of its `ranks` ranks in a role a run may lose, once it has begun, and still go on to its end: all workers
    /// but one where nobody waits for them, and no server.
    pub fn spares(&self, role: Role, ranks: u32) -> u32 {
        match (self.manner().pace, role) {
            (Pace::Own, Role::Worker) => ranks.saturating_sub(1),
            (Pace::Own, Role::Server) | (Pace::Common, _) => 0,
        }
    }

    fn manner(&self) -> Manner {
        match self {
            Self::PsSync => Manner::of(Pace::Common, Models::Equal).with_servers(1),
            Self::DSync | Self::PipeSgd { .. } => Manner::of(Pace::Common, Models::Equal),
            Self::LocalSgd { period } => Manner::of(Pace::Common, Models::Averaged).every(*period),
            Self::AsyncSgd { staleness_bound, .. }
            | Self::AsyncMsgd { staleness_bound, .. }
            | Self::HogwildSgd { staleness_bound } => {
                Manner::of(Pace::Own, Models::Told).with_servers(1).bounded_by(*staleness_bound)
            }
            Self::AdPsgd { .. } => Manner::of(Pace::Own, Models::Own),
            Self::EasgdSync { variant: SyncVariant::Master, .. } => {
                Manner::of(Pace::Common, Models::Own).with_servers(1)
            }
            Self::EasgdSync { .. } | Self::DPsgd { .. } | Self::Sgp => Manner::of(Pace::Common, Models::Own),
            Self::EasgdOriginal { .. } => Manner::of(Pace::Own, Models::Own).with_servers(1),
            Self::EasgdAsync { period, .. }
            | Self::MeasgdAsync { period, .. }
            | Self::EasgdHogwild { period, .. }
            | Self::Eamsgd { period, .. } => {
                Manner::of(Pace::Own, Models::Own).with_servers(1).every(*period)
            }
        }
    }
}

/// What others than the strategy itself must know of how it trains.
struct Manner {
    pace: Pace,
    models: Models,
    servers: u32,
    period: u64,
    staleness_bound: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// A step of one worker needs that of every other, at once or through its neighbours.
    Common,
    /// Nobody waits for a worker.
    Own,
}

/// Which models the workers have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Models {
    /// One and the same after each step.
    Equal,
    /// Their own, until an average at the end, whose bits all share.
    Averaged,
    /// The one of the server, each as it was told last.
    Told,
    /// Their own.
    Own,
}

impl Manner {
    fn of(pace: Pace, models: Models) -> Self {
        Self { pace, models, servers: 0, period: 1, staleness_bound: None }
    }

    fn with_servers(self, servers: u32) -> Self {
        Self { servers, ..self }
    }

    fn every(self, period: u64) -> Self {
        Self { period: period.max(1), ..self }
    }

    fn bounded_by(self, staleness_bound: Option<u64>) -> Self {
        Self { staleness_bound, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stored_before_servers_had_a_choice_can_be_read() {
        let kinds = ["async-sgd", "async-msgd", "easgd-async", "measgd-async", "eamsgd"];
        for kind in kinds {
            let stored = format!(
                r#"{{"kind":"{kind}","staleness_bound":null,"momentum":0.5,"moving_rate":{{"fixed":0.1}},"period":1,"look_ahead":false}}"#
            );
            let strategy: Strategy = serde_json::from_str(&stored).expect(kind);
            assert_eq!((strategy.kind(), strategy.serve()), (kind, Some(Serve::All)));
        }
    }

    #[test]
    fn a_server_updates_only_what_it_holds_for_its_workers() {
        let moving_rate = MovingRate::Fixed(0.1);
        assert!(Strategy::DSync.workers_update() && Strategy::Sgp.workers_update());
        assert!(Strategy::EasgdHogwild { moving_rate, period: 1 }.workers_update());
        assert!(!Strategy::PsSync.workers_update());
        assert!(!Strategy::HogwildSgd { staleness_bound: None }.workers_update());
    }

    #[test]
    fn only_where_nobody_waits_for_workers_can_they_be_spared_and_never_all() {
        let (staleness_bound, serve) = (Some(1), Serve::One);
        let moving_rate = MovingRate::Fixed(0.1);
        let (topology, period, momentum) = (Topology::Ring, 2, 0.5);
        let sync = |variant| Strategy::EasgdSync { moving_rate, variant };
        for (strategy, spare) in [
            (Strategy::PsSync, 0),
            (Strategy::DSync, 0),
            (Strategy::PipeSgd { depth: 2, warmup: Extent::Steps(0), segments: 1 }, 0),
            (Strategy::LocalSgd { period }, 0),
            (Strategy::DPsgd { topology, order: MixOrder::MixThenStep }, 0),
            (Strategy::Sgp, 0),
            (sync(SyncVariant::Master), 0),
            (sync(SyncVariant::Overlapped), 0),
            (Strategy::AsyncSgd { serve, staleness_bound }, 3),
            (Strategy::AsyncMsgd { momentum, serve, staleness_bound }, 3),
            (Strategy::HogwildSgd { staleness_bound }, 3),
            (Strategy::AdPsgd { topology, averaging: Averaging::EachStep }, 3),
            (Strategy::EasgdOriginal { moving_rate, overlap: true }, 3),
            (Strategy::EasgdAsync { moving_rate, period, serve }, 3),
            (Strategy::MeasgdAsync { moving_rate, momentum, period, serve }, 3),
            (Strategy::EasgdHogwild { moving_rate, period }, 3),
            (Strategy::Eamsgd { moving_rate, momentum, period, serve, look_ahead: false }, 3),
        ] {
            assert_eq!(strategy.spares(Role::Worker, 4), spare, "{strategy:?}");
            assert_eq!(strategy.spares(Role::Worker, 1), 0, "{strategy:?}");
            assert_eq!(strategy.spares(Role::Server, 2), 0, "{strategy:?}");
        }
    }
}
