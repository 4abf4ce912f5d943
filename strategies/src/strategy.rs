//! The traits of a strategy: one for the lane that trains, one for the lanes beside it.

use crate::plan::Progress;
use crate::service_context::ServiceContext;
use crate::vector::Vector;
use crate::worker_context::WorkerContext;
use crate::{GroupRank, Loss, StateVisitor, StepError};
use record::{LaneId, Nanos, Rank, SnapshotGroup, Standing};

/// The work of the compute lane of a rank: straight-line code against a [`WorkerContext`]. It names no socket and no thread, and
/// a phase only for arithmetic of its own.
pub trait Trainer: Send {
    /// Before the run's clock starts: all ranks receive rank 0's initial weights. A strategy with a state of its own
    /// overrides it, begins with the same broadcast, and reads the weights after it.
    fn start(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        ctx.broadcast_weights_from(GroupRank(0))
    }

    /// One step: one gradient and its use. Returns the mean loss of the samples.
    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError>;

    /// The progress of the run after the last step. Where all workers step together it follows from the number of the
    /// step; a worker at its own pace learns it from another rank.
    fn progress(&self, ctx: &WorkerContext) -> Progress {
        ctx.info().plan.budget.progress(ctx.t())
    }

    /// Whether the compute lane snapshots the model at the evaluation points. Another lane does if the compute lane may be
    /// busy for long when one is reached.
    fn snapshots_at_evaluations(&self) -> bool {
        true
    }

    /// After the last step: drains pipelines, tells peers that no step follows. `ctx.t()` is still the last step, while
    /// `ctx.consumed()` and `ctx.rate()` are already those of a step that does not follow.
    fn finish(&mut self, _ctx: &mut WorkerContext) -> Result<(), StepError> {
        Ok(())
    }

    /// The worker's own model, for evaluation and digests.
    fn model<'a>(&'a self, ctx: &'a WorkerContext) -> std::borrow::Cow<'a, Vector> {
        std::borrow::Cow::Borrowed(ctx.weights())
    }

    /// Saves or loads the state that the next step depends on beside the context: momentum of its own, a centre,
    /// gradients under way. Called between two steps; a strategy whose profile says that its runs can be continued
    /// visits all of it.
    ///
    /// # Errors
    /// The loaded state does not fit; a message under way does not arrive.
    fn state(&mut self, _ctx: &mut WorkerContext, _state: &mut StateVisitor<'_>) -> Result<(), StepError> {
        Ok(())
    }

    /// The centre that the run is judged by, if this worker holds it beside its own model. The digest of the rank is then
    /// the digest of the centre.
    fn centre(&self) -> Option<&Vector> {
        None
    }
}

/// The result of a step of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceStep {
    /// One round or request was served. The number is the samples consumed by all ranks together, as far as this service
    /// knows.
    Served(u64),
    /// The service has ended: no request follows.
    Finished,
}

/// The work of a lane beside the compute lane: the second thread of a two-thread method, or a server.
pub trait Service: Send {
    /// The lane's purpose, unique on its rank: it identifies the lane in every record.
    fn lane(&self) -> LaneId;

    /// Before the run's clock starts. Returns the initial weights if the service received them: all ranks must hold the
    /// same.
    fn start(&mut self, _context: &mut ServiceContext) -> Result<Option<Vector>, StepError> {
        Ok(None)
    }

    /// Blocks until one request is served, which is recorded as a step of this lane.
    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError>;

    /// Saves or loads the state that the next step depends on beside the lane, as [`Trainer::state`] does.
    ///
    /// # Errors
    /// The loaded state does not fit.
    fn state(&mut self, _state: &mut StateVisitor<'_>) -> Result<(), StepError> {
        Ok(())
    }

    /// The model that this service holds, such as a server's.
    fn model(&self) -> Option<std::borrow::Cow<'_, Vector>> {
        None
    }

    /// When the run had consumed the samples of the last step, if that was before the step ended.
    fn moment(&self) -> Option<Nanos> {
        None
    }
}

/// The name of the model that elastic methods are judged by.
pub(crate) const CENTRE: &str = "centre";

/// The roles of a rank: at most one lane that trains, any number of lanes beside it.
#[derive(Default)]
pub struct Roles {
    /// Strategy on the compute lane; `None` on a rank that does not train.
    pub trainer: Option<Box<dyn Trainer>>,
    /// Services of the method, each on a lane of its own.
    pub services: Vec<Box<dyn Service>>,
    /// Lanes of the measurement, which count samples and snapshot models. They are no part of the method, so that their
    /// time is in no phase.
    pub attendants: Vec<Box<dyn Service>>,
    /// How the rank's model is evaluated; `None` if only its digest is recorded.
    pub evaluated: Option<Evaluated>,
}

/// How a rank's model is evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluated {
    /// The name of the model in the metrics.
    pub name: String,
    /// Whether the run is judged by it.
    pub standing: Standing,
    /// The models that are evaluated together with it.
    pub group: Option<SnapshotGroup>,
}

impl Roles {
    /// A rank that trains; `evaluated` says how its model is evaluated, if not only its digest is recorded.
    pub fn trainer(strategy: impl Trainer + 'static, evaluated: Option<Evaluated>) -> Self {
        Self { trainer: Some(Box::new(strategy)), evaluated, ..Self::default() }
    }
}

impl Evaluated {
    /// The run is judged by this model alone.
    pub fn judged(name: &str) -> Self {
        Self { name: name.to_owned(), standing: Standing::Judged, group: None }
    }

    /// The run is judged by rank 0's model, and those of all `workers` are compared with it, where they differ.
    pub fn compared(rank: Rank, workers: usize) -> Self {
        Self::one_of(rank, Standing::Judged, SnapshotGroup { size: workers as u32, judged: false })
    }

    /// The run is judged by the uniform mean of the models of all `workers`; rank 0's is evaluated beside it. Of one
    /// worker, that mean is its model.
    pub fn averaged(rank: Rank, workers: usize) -> Self {
        let first = if workers > 1 { Standing::Beside } else { Standing::Judged };
        Self::one_of(rank, first, SnapshotGroup { size: workers as u32, judged: true })
    }

    /// The run is judged by a model that no worker holds, such as a centre's; rank 0's is evaluated beside it, and
    /// those of all `workers` are compared.
    pub fn beside(rank: Rank, workers: usize) -> Self {
        Self::one_of(rank, Standing::Beside, SnapshotGroup { size: workers as u32, judged: false })
    }

    /// The run is judged by the model that the first `parts` ranks hold together, each a part of it; `None` for the others.
    pub fn part(rank: Rank, parts: usize) -> Option<Self> {
        let group = SnapshotGroup { size: parts as u32, judged: true };
        let name = format!("part {rank}");
        (rank.index() < parts).then_some(Self { name, standing: Standing::Member, group: Some(group) })
    }

    /// Whether the run is judged by this model, or by a mean that it is part of.
    pub(crate) fn decides(&self) -> bool {
        self.standing == Standing::Judged || self.group.is_some_and(|group| group.judged)
    }

    fn one_of(rank: Rank, first: Standing, group: SnapshotGroup) -> Self {
        let standing = if rank == Rank(0) { first } else { Standing::Member };
        let group = (group.size > 1).then_some(group);
        Self { name: format!("rank {rank}"), standing, group }
    }
}
