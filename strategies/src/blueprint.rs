//! From a description to live lanes: the same for the simulator and the worker.

mod elastic;
mod gossip;
mod lanes;
pub(crate) mod registry;
mod roles;

pub use lanes::{Body, LaneBody, RankSetup, panic_text};

use crate::all_reduce::{AllReduce, CommQueue};
use crate::collective::{self, CollectiveAlgorithm, ThroughServers};
use crate::compress::Compressor;
use crate::matrices::{self, Matrix};
use crate::optimizer::Optimizer;
use crate::plan::TrainingPlan;
use crate::projection;
use crate::runtime::{Checkpoint, Runtime};
use crate::schedule::{Division, GradientLane, MessageOrder, Sections, StepBound};
use crate::strategy::{Evaluated, Roles};
use crate::worker_context::GradientRoute;
use crate::{State, StepError};
use recipe::{
    Compression, CustomCodec, ExchangeThrough, Graph, Measure, ModelPartition, Role, RunSpec, Schedule,
    Sends, Strategy as Kind,
};
use record::{LaneId, Rank};
use registry::{CustomRank, Registry};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// The description that every rank of a run is built from.
#[derive(Clone)]
pub struct Blueprint {
    strategy: Kind,
    compression: Compression,
    custom_codec: Option<CustomCodec>,
    codec: Option<fn() -> Box<dyn Compressor>>,
    collective: Arc<dyn CollectiveAlgorithm>,
    schedule: Schedule,
    measure: Measure,
    everyone: Arc<[Rank]>,
    trainers: Arc<[Rank]>,
    parameter_count: usize,
    matrices: Arc<[Matrix]>,
    partition: Arc<ModelPartition>,
    plan: Arc<TrainingPlan>,
    registry: Registry,
    /// Where each lane continues; empty for a run that begins.
    resumed: Arc<BTreeMap<(Rank, LaneId), State>>,
    /// Built for the first rank that needs it, once for all ranks of a simulated run.
    graph: Arc<OnceLock<Graph>>,
}

impl Blueprint {
    /// The blueprint of a run. `parameter_count` is the size of the whole model.
    pub fn new(spec: &RunSpec, plan: Arc<TrainingPlan>, parameter_count: usize) -> Self {
        let ranks = |wanted: Option<Role>| -> Arc<[Rank]> {
            let placements = spec.cluster.placements.iter().enumerate();
            let chosen = placements.filter(|(_, placement)| wanted.is_none_or(|role| placement.role == role));
            chosen.map(|(rank, _)| Rank(rank as u32)).collect()
        };
        let trainers = ranks(Some(Role::Worker));
        Self {
            strategy: spec.strategy.clone(),
            // One worker trains as if nothing travelled, with any strategy.
            compression: if trainers.len() == 1 { Compression::None } else { spec.compression },
            custom_codec: spec.custom_codec.clone(),
            codec: None,
            collective: collective::build(&spec.communication, &spec.cluster),
            schedule: spec.communication.schedule,
            measure: spec.measure,
            everyone: ranks(None),
            trainers,
            parameter_count,
            matrices: matrices::matrices(&spec.model),
            partition: Arc::new(spec.model_partition()),
            plan,
            registry: Registry::default(),
            resumed: Arc::default(),
            graph: Arc::default(),
        }
    }

    /// The same with another codec for gradients: for codecs under development and tests.
    #[must_use]
    pub fn with_codec(self, codec: fn() -> Box<dyn Compressor>) -> Self {
        Self { codec: Some(codec), ..self }
    }

    /// The same for a model with these matrices of weights: for learners that the recipe does not know.
    #[must_use]
    pub fn with_matrices(self, matrices: impl Into<Arc<[Matrix]>>) -> Self {
        Self { matrices: matrices.into(), ..self }
    }

    /// The same with a model that groups of ranks split like this: for learners that the recipe does not know.
    #[must_use]
    pub fn with_partition(self, partition: ModelPartition) -> Self {
        Self { partition: Arc::new(partition), ..self }
    }

    /// The same with another all-reduce: for collectives under development and tests.
    #[must_use]
    pub fn with_collective(self, collective: Arc<dyn CollectiveAlgorithm>) -> Self {
        Self { collective, ..self }
    }

    /// The same with strategies and codecs of other crates.
    #[must_use]
    pub fn with_registry(self, registry: Registry) -> Self {
        Self { registry, ..self }
    }

    /// The same run, continued from the states of its lanes after one step: those of one checkpoint.
    #[must_use]
    pub fn resuming(self, checkpoints: impl IntoIterator<Item = Checkpoint>) -> Self {
        let state = |checkpoint: Checkpoint| ((checkpoint.rank, checkpoint.lane), checkpoint.state);
        Self { resumed: Arc::new(checkpoints.into_iter().map(state).collect()), ..self }
    }

    /// Workers and servers, in order.
    pub fn ranks(&self) -> &[Rank] {
        &self.everyone
    }

    /// The ranks that train.
    pub fn trainers(&self) -> &[Rank] {
        &self.trainers
    }

    /// Samples, steps, rates and evaluation points.
    pub fn plan(&self) -> &Arc<TrainingPlan> {
        &self.plan
    }

    /// Number of weights of the whole model.
    pub fn parameter_count(&self) -> usize {
        self.parameter_count
    }

    /// The collective of the run.
    pub fn collective(&self) -> &Arc<dyn CollectiveAlgorithm> {
        &self.collective
    }

    /// The all-reduce of one lane, behind the projection that the recipe asks for.
    pub fn all_reduce(&self) -> AllReduce {
        let projector = projection::build(self.compression, self.plan.seed(), &self.matrices);
        let collective: Arc<dyn CollectiveAlgorithm> = if self.strategy.averages_through_servers() {
            let everyone = self.everyone.clone();
            let workers = self.trainers.len();
            Arc::new(ThroughServers::new(everyone, workers, self.partition.parts()))
        } else {
            self.collective.clone()
        };
        AllReduce::new(collective, projector)
    }

    /// The optimizer of the recipe, at rest.
    pub fn optimizer(&self) -> Optimizer {
        Optimizer::new(self.plan.optimizer(), self.matrices.clone())
    }

    /// How a worker's gradients are divided. One worker sends nothing; with more servers than weights, some would wait for a
    /// bucket of their own in vain.
    pub(crate) fn division(&self) -> Division {
        let servers = self.everyone.len() - self.trainers.len();
        let whole = self.trainers.len() == 1 || self.parameter_count < servers.max(1);
        if whole {
            return Division::Layers(Schedule::Single);
        }
        match (self.strategy.segments(), self.strategy.kind().profile().sends) {
            (pieces @ 2.., _) => Division::Pieces(pieces as usize),
            (0 | 1, Sends::Weights) => Division::Layers(Schedule::Single),
            (0 | 1, Sends::Gradients | Sends::Both) => Division::Layers(self.schedule),
        }
    }

    /// How the weights are divided that the workers of a synchronous elastic method exchange.
    pub(crate) fn division_of_weights(&self) -> Division {
        Division::Layers(if self.trainers.len() == 1 { Schedule::Single } else { self.schedule })
    }

    /// How a worker's gradients travel.
    pub(crate) fn route(&self) -> GradientRoute {
        let partition = &self.partition;
        let parted = partition.parts() > 1;
        let begins = [partition.below().end, partition.whole_above().start];
        let first = || (0..partition.above().end).map(|layer| 4 * partition.held(layer, 0) as u64).collect();
        GradientRoute {
            division: self.division(),
            sections: if parted { Sections::beginning_at(begins) } else { Sections::default() },
            bytes: parted.then(first),
            lane: self.gradient_lane(),
            bound: self.bound(),
            order: self.message_order(),
        }
    }

    /// Messages that a worker's step waits for.
    pub(crate) fn bound(&self) -> StepBound {
        match self.strategy.depth() {
            0 | 1 => StepBound::OwnMessages,
            2.. => StepBound::AllMessages,
        }
    }

    /// Whether a worker's messages are on their way at once.
    fn message_order(&self) -> MessageOrder {
        match self.strategy.kind().profile().exchange {
            ExchangeThrough::SyncServer => MessageOrder::AtOnce,
            ExchangeThrough::AllReduce
            | ExchangeThrough::AsyncServer
            | ExchangeThrough::Centre
            | ExchangeThrough::Neighbours => MessageOrder::OneByOne,
        }
    }

    /// The lane that a worker's gradients travel on.
    pub(crate) fn gradient_lane(&self) -> GradientLane {
        let is_pipelined = self.strategy.depth() > 0;
        if is_pipelined || self.division().divides() {
            GradientLane::Communication
        } else {
            GradientLane::Compute
        }
    }

    /// Number of the set of ranks that must end with the same weights as this one; `None` where its model is its own.
    ///
    /// # Errors
    /// The worker knows no custom strategy of the recipe's name.
    pub fn replica_group(&self, rank: Rank) -> Result<Option<u32>, StepError> {
        if let Kind::Custom { name, .. } = &self.strategy {
            return Ok(self.registry.get(name)?.replica_group(rank, self.trainers.len()));
        }
        if !self.strategy.ranks_agree() {
            return Ok(None);
        }
        let [ranks, workers] = [self.everyone.len(), self.trainers.len()].map(|count| count as u32);
        let sets = self.strategy.replica_groups(ranks, workers);
        Ok((0..).zip(sets).find(|(_, set)| set.contains(&rank.0)).map(|(number, _)| number))
    }

    /// The roles of a rank.
    pub fn roles(&self, rank: Rank, runtime: &dyn Runtime, comm: &CommQueue) -> Result<Roles, StepError> {
        if let Kind::Custom { name, settings } = &self.strategy {
            let rank = CustomRank { rank, blueprint: self, settings, runtime, comm };
            let roles = self.registry.get(name)?.roles(&rank)?;
            return check_custom(name, rank.rank, roles);
        }
        match rank.index().checked_sub(self.trainers.len()) {
            None => Ok(self.roles_of_worker(rank, runtime, comm)),
            Some(server) => Ok(self.roles_of_server(server, runtime)),
        }
    }
}

/// A custom strategy has no servers: each rank trains, and rank 0 says which model the run is judged by.
fn check_custom(name: &str, rank: Rank, roles: Roles) -> Result<Roles, StepError> {
    if roles.trainer.is_none() {
        return Err(StepError::Environment(format!(
            "the strategy `{name}` gives rank {rank} nothing to train; give each rank a trainer"
        )));
    }
    let judges = roles.evaluated.as_ref().is_some_and(Evaluated::decides);
    if rank == Rank(0) && !judges {
        return Err(StepError::Environment(format!(
            "the strategy `{name}` names no model that the run is judged by; give the roles of rank 0 \
             `Evaluated::judged`, `Evaluated::compared` or `Evaluated::averaged`"
        )));
    }
    Ok(roles)
}
