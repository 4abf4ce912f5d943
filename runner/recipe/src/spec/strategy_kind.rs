//! The strategies by name, and what the rest of the program must know of each without knowing its algorithm.

use crate::Serve;
use crate::spec::family::family;

family! {
    /// The strategies that a recipe can name.
    pub enum StrategyKind {
        PsSync = "ps-sync": "Synchronous parameter server: gradients up, weights down, one update per step.",
        DSync = "d-sync": "Decentralised synchronous SGD: an all-reduce of the gradients in every step.",
        AsyncSgd = "async-sgd": "Asynchronous parameter server: gradients up, weights down, first come, \
            first served. Each of p workers' gradients is an update of its own, of B / p samples at the \
            full rate: at one rate the weights move p times as far per sample as with `d-sync`, so that \
            `lr` / p is where to begin.",
        AsyncMsgd = "async-msgd": "Asynchronous parameter server with momentum on the server: at one rate \
            the weights of p workers move p times as far per sample as with `d-sync` and momentum.",
        HogwildSgd = "hogwild-sgd": "Asynchronous parameter server without locks: gradients are added \
            element by element. As with `async-sgd`, the weights of p workers move p times as far per \
            sample as with `d-sync` at one rate.",
        PipeSgd = "pipe-sgd": "All-reduce in a pipeline: communication overlaps the next steps.",
        EasgdOriginal = "easgd-original": "Elastic averaging, round robin: one worker after the other \
            computes and exchanges with the centre. Like all elastic methods it is judged by the centre, \
            with rank 0 beside it.",
        EasgdAsync = "easgd-async": "Elastic averaging, first come, first served: its master exchanges with \
            one worker at a time (`serve`).",
        MeasgdAsync = "measgd-async": "Elastic averaging, first come, first served, with momentum on the \
            workers: at 0.9 it moves ten times as far, so that the rate has to be smaller.",
        EasgdHogwild = "easgd-hogwild": "Elastic averaging without locks: all workers exchange with the \
            centre at once, element by element.",
        EasgdSync = "easgd-sync": "Elastic averaging of all workers at once, in three variants that give \
            the same weights.",
        Eamsgd = "eamsgd": "`measgd-async` with gradients taken ahead of the weights (`look-ahead`), a \
            moving rate of 0.9 / workers unless another is given, and servers that serve all workers at \
            once.",
        DPsgd = "d-psgd": "Gossip: each worker averages with its neighbours in every step. Like all gossip \
            it is judged by the mean of all workers' models, with rank 0 beside it.",
        AdPsgd = "ad-psgd": "Gossip without waiting: workers of even number ask, those of odd number \
            answer, and the two average.",
        Sgp = "sgp": "Gossip over a directed graph: stochastic gradient push.",
        LocalSgd = "local-sgd": "Local steps, and an average of all models now and then. It is judged by \
            rank 0, and the models are compared.",
        Slowmo = "slowmo": "`local-sgd` whose averages are steps of an outer optimizer with a momentum of its \
            own. With a slow momentum b and a slow rate a, the weights move in the end a / (1 - b) times as \
            far as with `local-sgd`: with the defaults, half its `lr` is where to begin.",
        Gmp = "gmp": "Hybrid data and model parallelism: groups of `mp` workers split the linear layers among \
            them, and exchange activations; what a worker holds is averaged with those that hold the same. With \
            `mp = 1` it is `d-sync`.",
        Custom = "custom": "A strategy of your own, in a `bakeoff-worker` that you build with it: `custom` is its name \
            there, `settings` are its numbers. Workers step together and there are no servers.",
    }
    settings {
        "wfbp": "Wait-free backpropagation: each layer travels as soon as its gradient is there."
            => "`kind = \"d-sync\"` with `communication.schedule = \"per-layer\"`",
        "mg-wfbp": "Merged-gradient wait-free backpropagation."
            => "`kind = \"d-sync\"` with `communication.schedule = \"merged\"`",
        "allreduce-sgd": "SGD with an all-reduce."
            => "`kind = \"d-sync\"`",
        "sync-sgd": "Synchronous SGD."
            => "`kind = \"d-sync\"`, or `kind = \"ps-sync\"` with a server",
        "sync-easgd1": "Synchronous elastic averaging, first variant."
            => "`kind = \"easgd-sync\"` with `variant = 1`",
        "sync-easgd2": "Synchronous elastic averaging, second variant."
            => "`kind = \"easgd-sync\"` with `variant = 2`",
        "sync-easgd3": "Synchronous elastic averaging, third variant."
            => "`kind = \"easgd-sync\"` with `variant = 3`",
    }
}

/// The properties of a strategy that other parts need, the same for all of its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Whether a worker's step needs those of other workers.
    pub pace: StepPace,
    /// Which models the workers hold.
    pub models: Replicas,
    /// Through what the workers exchange.
    pub exchange: ExchangeThrough,
    /// Vectors that travel while training.
    pub sends: Sends,
    /// How much of the model a worker computes.
    pub share: ModelShare,
    /// Local steps from one exchange to the next where the recipe gives no `period`.
    pub period: u64,
    /// How many workers a server serves at a time where the recipe does not say.
    pub serve: Serve,
}

/// Whether a worker's step needs those of other workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepPace {
    /// A step of one worker needs that of every other, at once or through its neighbours.
    Common,
    /// Each worker steps by itself.
    Own,
}

/// Which models the workers hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replicas {
    /// The same one after each step.
    Equal,
    /// Their own until an average at the end, whose bits all share.
    Averaged,
    /// The last one that each received from its server.
    Received,
    /// Each its own, which differ.
    Own,
}

/// How much of the model a worker computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelShare {
    /// All of its layers.
    Whole,
    /// Parts that others do not compute, where the recipe asks for groups.
    Part,
}

/// Through what the workers of a strategy exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeThrough {
    /// An all-reduce among the workers.
    AllReduce,
    /// A parameter server that adds all gradients of a step in rank order.
    SyncServer,
    /// A parameter server that applies gradients as they arrive.
    AsyncServer,
    /// A centre of elastic averaging.
    Centre,
    /// Averages with the neighbours of a graph.
    Neighbours,
}

/// Vectors that travel while training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sends {
    /// Gradients, and no weights.
    Gradients,
    /// Weights, and no gradients.
    Weights,
    /// Gradients to a server, weights back.
    Both,
}

impl Profile {
    const fn new(pace: StepPace, models: Replicas, exchange: ExchangeThrough, sends: Sends) -> Self {
        Self { pace, models, exchange, sends, share: ModelShare::Whole, period: 1, serve: Serve::One }
    }

    /// Whether two workers at a time average their models, each pair by itself.
    pub const fn averages_in_pairs(self) -> bool {
        match (self.exchange, self.pace) {
            (ExchangeThrough::Neighbours, StepPace::Own) => true,
            (ExchangeThrough::Neighbours, StepPace::Common)
            | (
                ExchangeThrough::AllReduce
                | ExchangeThrough::SyncServer
                | ExchangeThrough::AsyncServer
                | ExchangeThrough::Centre,
                StepPace::Common | StepPace::Own,
            ) => false,
        }
    }
}

impl StrategyKind {
    /// Why a run cannot be continued from a checkpoint with the same bits; `None` if it can.
    pub const fn not_continued(self) -> Option<&'static str> {
        match self {
            Self::PsSync
            | Self::DSync
            | Self::PipeSgd
            | Self::LocalSgd
            | Self::Slowmo
            | Self::DPsgd
            | Self::Sgp
            | Self::Gmp
            | Self::EasgdSync => None,
            Self::EasgdOriginal
            | Self::AsyncSgd
            | Self::AsyncMsgd
            | Self::HogwildSgd
            | Self::EasgdAsync
            | Self::MeasgdAsync
            | Self::EasgdHogwild
            | Self::Eamsgd
            | Self::AdPsgd => {
                Some("its workers step by themselves: there is no moment between two steps of all")
            }
            Self::Custom => Some("only the strategy itself knows what its next step depends on"),
        }
    }

    /// Why no optimizer but plain SGD acts in it: it has a rule of its own; `None` if each acts.
    pub const fn own_rule(self) -> Option<&'static str> {
        match self {
            // One model has one optimizer, on every worker or on the server. Of workers with models of their own each has
            // one, which is never averaged.
            Self::PsSync
            | Self::DSync
            | Self::PipeSgd
            | Self::Gmp
            | Self::LocalSgd
            | Self::Slowmo
            | Self::DPsgd
            | Self::AdPsgd
            | Self::Sgp
            | Self::AsyncSgd
            // Its code decides.
            | Self::Custom => None,
            Self::AsyncMsgd => Some("its server has a velocity that holds the rate"),
            Self::HogwildSgd => Some("its server adds gradients element by element, and keeps nothing but the weights"),
            Self::EasgdOriginal | Self::EasgdAsync | Self::EasgdHogwild | Self::EasgdSync => {
                Some("a worker's step and the pull to the centre are one rule")
            }
            Self::MeasgdAsync | Self::Eamsgd => Some("its workers have velocities that hold the rate"),
        }
    }

    /// Whether its gradients, or the weights that it exchanges in each step, can travel layer by layer.
    pub const fn takes_schedule(self) -> bool {
        match self {
            Self::PsSync | Self::DSync | Self::PipeSgd | Self::Gmp | Self::EasgdSync => true,
            Self::AsyncSgd
            | Self::AsyncMsgd
            | Self::HogwildSgd
            | Self::EasgdOriginal
            | Self::EasgdAsync
            | Self::MeasgdAsync
            | Self::EasgdHogwild
            | Self::Eamsgd
            | Self::DPsgd
            | Self::AdPsgd
            | Self::Sgp
            | Self::LocalSgd
            | Self::Slowmo
            | Self::Custom => false,
        }
    }

    /// Properties of the strategy that other parts need, the same for all of its settings.
    pub const fn profile(self) -> Profile {
        match self {
            Self::PsSync => {
                Profile::new(StepPace::Common, Replicas::Equal, ExchangeThrough::SyncServer, Sends::Both)
            }
            Self::DSync | Self::PipeSgd => {
                Profile::new(StepPace::Common, Replicas::Equal, ExchangeThrough::AllReduce, Sends::Gradients)
            }
            Self::Gmp => Profile { share: ModelShare::Part, ..Self::DSync.profile() },
            Self::LocalSgd | Self::Slowmo => Profile {
                period: 8,
                ..Profile::new(
                    StepPace::Common,
                    Replicas::Averaged,
                    ExchangeThrough::AllReduce,
                    Sends::Weights,
                )
            },
            Self::AsyncSgd | Self::AsyncMsgd | Self::HogwildSgd => {
                Profile::new(StepPace::Own, Replicas::Received, ExchangeThrough::AsyncServer, Sends::Both)
            }
            // Its workers may differ: only the strategy knows.
            Self::Custom => {
                Profile::new(StepPace::Common, Replicas::Own, ExchangeThrough::AllReduce, Sends::Gradients)
            }
            Self::DPsgd | Self::Sgp => {
                Profile::new(StepPace::Common, Replicas::Own, ExchangeThrough::Neighbours, Sends::Weights)
            }
            Self::AdPsgd => {
                Profile::new(StepPace::Own, Replicas::Own, ExchangeThrough::Neighbours, Sends::Weights)
            }
            Self::EasgdSync => {
                Profile::new(StepPace::Common, Replicas::Own, ExchangeThrough::Centre, Sends::Weights)
            }
            // Their sources serve one worker at a time: You, Buluc and Demmel, SC17, introduction.
            Self::EasgdOriginal | Self::EasgdAsync | Self::MeasgdAsync | Self::EasgdHogwild => {
                Profile::new(StepPace::Own, Replicas::Own, ExchangeThrough::Centre, Sends::Weights)
            }
            // Its servers are sharded in the comparison of Lian et al., ICML 2018, section 5.
            Self::Eamsgd => Profile {
                serve: Serve::All,
                ..Profile::new(StepPace::Own, Replicas::Own, ExchangeThrough::Centre, Sends::Weights)
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_and_weights_both_travel_where_a_server_holds_the_model_and_only_there() {
        for kind in StrategyKind::ALL {
            let Profile { models, exchange, sends, .. } = kind.profile();
            let server = matches!(exchange, ExchangeThrough::SyncServer | ExchangeThrough::AsyncServer);
            assert_eq!(sends == Sends::Both, server, "{kind}");
            assert!(
                models != Replicas::Equal || sends != Sends::Weights,
                "{kind} exchanges weights that are equal"
            );
        }
    }
}
