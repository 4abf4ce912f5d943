//! Strategies with their settings, as descriptions. The `strategies` crate builds the live ones.

use crate::spec::strategy_choice::{
    AveragedBy, Averaging, FcUpdate, MixOrder, ModuloScheme, MovingRate, Serve, SyncVariant,
};
use crate::spec::strategy_kind::{ExchangeThrough, Profile, Replicas, StepPace};
use crate::{Extent, Role, StrategyKind, Topology};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How the ranks train together: one variant for each [`StrategyKind`], with its settings.
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
        /// Steps by which a worker may be ahead of the slowest one; `None` for no bound.
        staleness_bound: Option<u64>,
    },
    /// Asynchronous parameter server with momentum.
    AsyncMsgd {
        /// Momentum of the server's one velocity.
        momentum: f32,
        /// How many workers the server serves at a time.
        #[serde(default = "Serve::stored")]
        serve: Serve,
        /// Steps by which a worker may be ahead of the slowest one; `None` for no bound.
        staleness_bound: Option<u64>,
    },
    /// Asynchronous parameter server without locks.
    HogwildSgd {
        /// Steps by which a worker may be ahead of the slowest one; `None` for no bound.
        staleness_bound: Option<u64>,
    },
    /// All-reduce in a pipeline: communication overlaps the next steps.
    PipeSgd {
        /// Steps from a gradient to its update, 1 or more.
        depth: u32,
        /// Length of the start without a pipeline, as `d-sync`.
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
    /// Local SGD whose averages are steps of an outer optimizer with momentum.
    Slowmo {
        /// Local steps from one average to the next.
        period: u64,
        /// Momentum of the outer optimizer.
        slow_momentum: f32,
        /// Rate of the outer optimizer, as a multiple of the learning rate.
        slow_lr: f32,
    },
    /// Gossip: each worker averages with its neighbours in every step.
    DPsgd {
        /// Graph that gives each worker its neighbours.
        topology: Topology,
        /// Whether models are mixed before or after the gradient step.
        order: MixOrder,
    },
    /// Gossip without waiting: pairs average whenever they are ready.
    AdPsgd {
        /// Graph of the pairs that may average.
        topology: Topology,
        /// How often a pair averages.
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
        /// How far worker and centre go towards each other.
        moving_rate: MovingRate,
        /// Local steps from one exchange with the centre to the next.
        period: u64,
        /// How many workers the server serves at a time.
        #[serde(default = "Serve::stored")]
        serve: Serve,
    },
    /// [`Strategy::EasgdAsync`] with momentum on the workers.
    MeasgdAsync {
        /// How far worker and centre go towards each other.
        moving_rate: MovingRate,
        /// Momentum of each worker's velocity.
        momentum: f32,
        /// Local steps from one exchange with the centre to the next.
        period: u64,
        /// How many workers the server serves at a time.
        #[serde(default = "Serve::stored")]
        serve: Serve,
    },
    /// Elastic averaging without locks.
    EasgdHogwild {
        /// How far worker and centre go towards each other.
        moving_rate: MovingRate,
        /// Local steps from one exchange with the centre to the next.
        period: u64,
    },
    /// Elastic averaging of all workers at once.
    EasgdSync {
        /// How far worker and centre go towards each other.
        moving_rate: MovingRate,
        /// Where the centre is, and what overlaps: the same weights in all three.
        variant: SyncVariant,
    },
    /// Elastic averaging with momentum and a communication period.
    Eamsgd {
        /// How far worker and centre go towards each other.
        moving_rate: MovingRate,
        /// Momentum of each worker's velocity.
        momentum: f32,
        /// Local steps from one exchange with the centre to the next.
        period: u64,
        /// How many workers the server serves at a time.
        #[serde(default = "Serve::stored")]
        serve: Serve,
        /// Whether gradients are those of the weights after the velocity's next move.
        look_ahead: bool,
    },
    /// Hybrid data and model parallelism: SplitBrain's group model parallelism.
    Gmp {
        /// Workers of a group, which hold one model together.
        mp: u32,
        /// Which samples a group works on in each round of a step.
        scheme: ModuloScheme,
        /// When the layers that a group computes together are updated.
        fc_update: FcUpdate,
        /// Steps from one average of the weights to the next; `None` where gradients are averaged in each step.
        average_every: Option<u64>,
        /// Linear layers are split whose ratio of computation to communication is above this.
        least_ccr: f64,
        /// Which ranks add the tensors that are averaged.
        #[serde(default, skip_serializing_if = "AveragedBy::is_workers")]
        averaged_by: AveragedBy,
    },
    /// A strategy of another crate.
    Custom {
        /// Its name in the registry of `bakeoff-worker`.
        name: String,
        /// Its numbers, by name.
        settings: BTreeMap<String, f64>,
    },
}

impl Strategy {
    /// Kind of the strategy, without its settings.
    pub fn kind(&self) -> StrategyKind {
        match self {
            Self::PsSync => StrategyKind::PsSync,
            Self::DSync => StrategyKind::DSync,
            Self::AsyncSgd { .. } => StrategyKind::AsyncSgd,
            Self::AsyncMsgd { .. } => StrategyKind::AsyncMsgd,
            Self::HogwildSgd { .. } => StrategyKind::HogwildSgd,
            Self::PipeSgd { .. } => StrategyKind::PipeSgd,
            Self::LocalSgd { .. } => StrategyKind::LocalSgd,
            Self::Slowmo { .. } => StrategyKind::Slowmo,
            Self::DPsgd { .. } => StrategyKind::DPsgd,
            Self::AdPsgd { .. } => StrategyKind::AdPsgd,
            Self::Sgp => StrategyKind::Sgp,
            Self::EasgdOriginal { .. } => StrategyKind::EasgdOriginal,
            Self::EasgdAsync { .. } => StrategyKind::EasgdAsync,
            Self::MeasgdAsync { .. } => StrategyKind::MeasgdAsync,
            Self::EasgdHogwild { .. } => StrategyKind::EasgdHogwild,
            Self::EasgdSync { .. } => StrategyKind::EasgdSync,
            Self::Eamsgd { .. } => StrategyKind::Eamsgd,
            Self::Gmp { .. } => StrategyKind::Gmp,
            Self::Custom { .. } => StrategyKind::Custom,
        }
    }

    /// The name of a strategy of another crate, in the registry of `bakeoff-worker`.
    pub fn custom_name(&self) -> Option<&str> {
        if let Self::Custom { name, .. } = self { Some(name) } else { None }
    }

    fn profile(&self) -> Profile {
        self.kind().profile()
    }

    /// Server ranks beside the workers, where the recipe does not ask for more.
    pub fn servers(&self) -> u32 {
        match self.profile().exchange {
            ExchangeThrough::AllReduce => u32::from(self.averages_through_servers()),
            ExchangeThrough::Neighbours => 0,
            ExchangeThrough::SyncServer | ExchangeThrough::AsyncServer => 1,
            ExchangeThrough::Centre => u32::from(!self.centre_is_on_a_worker()),
        }
    }

    /// Whether servers, which hold no weights, add what the workers average.
    pub fn averages_through_servers(&self) -> bool {
        self.options().averaged_by == AveragedBy::Servers
    }

    fn centre_is_on_a_worker(&self) -> bool {
        self.options().variant.is_some_and(SyncVariant::has_centre_on_a_worker)
    }

    /// Steps by which a worker may be ahead of the slowest one; `None` where there is no bound.
    pub fn staleness_bound(&self) -> Option<u64> {
        self.options().staleness_bound
    }

    /// Steps after which a worker's pattern of work repeats.
    pub fn period(&self) -> u64 {
        self.options().period.max(1)
    }

    /// Steps from a gradient to its update.
    pub fn depth(&self) -> u64 {
        self.options().depth
    }

    /// Equal pieces in which a gradient travels, wherever its layers end; 1 for all of it at once, or by its layers.
    pub fn segments(&self) -> u32 {
        self.options().segments
    }

    /// How many workers a server of workers at their own pace serves at a time, where that is a choice.
    pub fn serve(&self) -> Option<Serve> {
        self.options().serve
    }

    /// Whether workers that step by themselves wait for others all the same: for their turn, or because of the staleness
    /// bound.
    pub fn holds_workers_back(&self) -> bool {
        self.options().in_turn || self.staleness_bound().is_some() || self.serve() == Some(Serve::One)
    }

    /// Whether each worker steps by itself.
    pub fn is_asynchronous(&self) -> bool {
        self.profile().pace == StepPace::Own
    }

    /// Whether all ranks that hold the model, or the same part of it, must end with the same weights, bit for bit.
    pub fn ranks_agree(&self) -> bool {
        matches!(self.profile().models, Replicas::Equal | Replicas::Averaged)
    }

    /// Workers that hold one model together.
    pub fn parts(&self) -> u32 {
        self.options().split.map_or(1, |split| split.parts)
    }

    /// How the workers that hold one model together split it; `None` where each holds a whole one.
    pub fn split(&self) -> Option<ModelSplit> {
        self.options().split
    }

    /// The beginning of the training in which the strategy is another one; empty for one that has none.
    pub fn warm_up(&self) -> Extent {
        self.options().warm_up
    }

    /// Sets of ranks that must begin with equal weights, bit for bit, and end with them if ranks agree: ranks of different sets may
    /// hold different parts of a model. Of `ranks` in all, the first `workers` train; a server that only adds is in no set.
    pub fn replica_groups(&self, ranks: u32, workers: u32) -> Vec<Vec<u32>> {
        let parts = self.parts();
        let holding = if self.averages_through_servers() { workers } else { ranks };
        (0..parts).map(|part| (part..holding).step_by(parts as usize).collect()).collect()
    }

    /// Whether the workers' models differ during training. If so, each worker takes snapshots, not only the one that the
    /// run is judged by.
    pub fn models_differ(&self) -> bool {
        matches!(self.profile().models, Replicas::Averaged | Replicas::Own)
    }

    /// Whether the workers update their models themselves. Otherwise a server does, and they load what it sends.
    pub fn workers_update(&self) -> bool {
        match self.profile().models {
            Replicas::Equal => self.servers() == 0 || self.averages_through_servers(),
            Replicas::Received => false,
            Replicas::Averaged | Replicas::Own => true,
        }
    }

    /// How many of the `ranks` ranks in a role may fail once training has begun without ending the run: all workers but
    /// one where no worker waits for another, and no server.
    pub fn dispensable(&self, role: Role, ranks: u32) -> u32 {
        match (self.profile().pace, role) {
            (StepPace::Own, Role::Worker) => ranks.saturating_sub(1),
            (StepPace::Own, Role::Server) | (StepPace::Common, _) => 0,
        }
    }

    /// The settings that several strategies share.
    fn options(&self) -> Options {
        let none = Options {
            period: 1,
            depth: 0,
            segments: 1,
            staleness_bound: None,
            serve: None,
            split: None,
            warm_up: Extent::Steps(0),
            variant: None,
            averaged_by: AveragedBy::Workers,
            in_turn: false,
        };
        match self {
            Self::PsSync
            | Self::DSync
            | Self::DPsgd { .. }
            | Self::AdPsgd { .. }
            | Self::Sgp
            | Self::Custom { .. } => none,
            Self::EasgdOriginal { .. } => Options { in_turn: true, ..none },
            Self::EasgdSync { variant, .. } => Options { variant: Some(*variant), ..none },
            Self::PipeSgd { depth, warmup, segments } => {
                Options { depth: u64::from(*depth), segments: *segments, warm_up: *warmup, ..none }
            }
            Self::Gmp { mp, scheme, average_every, least_ccr, averaged_by, fc_update: _ } => Options {
                averaged_by: *averaged_by,
                period: average_every.unwrap_or(1),
                split: Some(ModelSplit { parts: *mp, scheme: *scheme, least_ccr: *least_ccr }),
                ..none
            },
            Self::AsyncSgd { serve, staleness_bound } | Self::AsyncMsgd { serve, staleness_bound, .. } => {
                Options { serve: Some(*serve), staleness_bound: *staleness_bound, ..none }
            }
            Self::HogwildSgd { staleness_bound } => Options { staleness_bound: *staleness_bound, ..none },
            Self::LocalSgd { period } | Self::Slowmo { period, .. } | Self::EasgdHogwild { period, .. } => {
                Options { period: *period, ..none }
            }
            Self::EasgdAsync { period, serve, .. }
            | Self::MeasgdAsync { period, serve, .. }
            | Self::Eamsgd { period, serve, .. } => Options { period: *period, serve: Some(*serve), ..none },
        }
    }
}

/// The settings that several strategies share.
struct Options {
    period: u64,
    depth: u64,
    segments: u32,
    staleness_bound: Option<u64>,
    serve: Option<Serve>,
    split: Option<ModelSplit>,
    warm_up: Extent,
    variant: Option<SyncVariant>,
    averaged_by: AveragedBy,
    /// Whether workers that step by themselves do so one after the other.
    in_turn: bool,
}

/// How workers split a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelSplit {
    /// Workers that hold one model together.
    pub parts: u32,
    /// How the split layers take the rows of the group.
    pub scheme: ModuloScheme,
    /// The computing for each value communicated, from which on a layer is split.
    pub least_ccr: f64,
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
            assert_eq!((strategy.kind().name(), strategy.serve()), (kind, Some(Serve::All)));
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
    fn only_workers_that_no_rank_waits_for_can_be_spared_and_never_all() {
        let staleness_bound = Some(1);
        let serve = Serve::One;
        let moving_rate = MovingRate::Fixed(0.1);
        let topology = Topology::Ring;
        let period = 2;
        let momentum = 0.5;
        let sync = |variant| Strategy::EasgdSync { moving_rate, variant };
        for (strategy, spare) in [
            (Strategy::PsSync, 0),
            (Strategy::DSync, 0),
            (Strategy::PipeSgd { depth: 2, warmup: Extent::Steps(0), segments: 1 }, 0),
            (Strategy::LocalSgd { period }, 0),
            (Strategy::Slowmo { period, slow_momentum: momentum, slow_lr: 1.0 }, 0),
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
            assert_eq!(strategy.dispensable(Role::Worker, 4), spare, "{strategy:?}");
            assert_eq!(strategy.dispensable(Role::Worker, 1), 0, "{strategy:?}");
            assert_eq!(strategy.dispensable(Role::Server, 2), 0, "{strategy:?}");
        }
    }
}
