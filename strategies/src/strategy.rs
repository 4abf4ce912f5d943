//! What a strategy is: one trait for the lane that trains, one for the lanes beside it.

use crate::desk::Desk;
use crate::node::Node;
use crate::vector::Vector;
use crate::{Loss, Place, StepError};
use record::{Company, LaneId, Nanos, Rank, Standing};

/// How far the run is, as far as a rank knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Samples consumed by all ranks together.
    pub samples: u64,
    /// Whether this rank has no further step to take.
    pub over: bool,
}

/// What the compute lane of a rank does. Straight-line code against a [`Node`]; it names no byte, no socket and no thread, and
/// a phase only for arithmetic of its own.
pub trait Strategy: Send {
    /// Before the run's clock starts: all ranks get rank 0's initial weights.
    fn start(&mut self, node: &mut Node) -> Result<(), StepError> {
        node.broadcast_params_from(Place(0))
    }

    /// One step: one gradient, and whatever the method does with it.
    fn step(&mut self, node: &mut Node) -> Result<Loss, StepError>;

    /// How far the run is after the step that was just taken. Where all workers step together, the step says
    /// it; a worker that goes at its own pace has to be told.
    fn progress(&self, node: &Node) -> Progress {
        node.seat().course.progress(node.t())
    }

    /// Whether the compute lane snapshots the model at the marks; another lane does it where that one may be busy for
    /// long when a mark is reached.
    fn snapshots_at_marks(&self) -> bool {
        true
    }

    /// After the last step: empty pipelines, say good-bye.
    fn finish(&mut self, _node: &mut Node) -> Result<(), StepError> {
        Ok(())
    }

    /// The worker's own model, if it is to be evaluated or hashed.
    fn model<'a>(&'a self, node: &'a Node) -> std::borrow::Cow<'a, Vector> {
        std::borrow::Cow::Borrowed(node.params())
    }

    /// The centre that the run is judged by, where this worker holds it beside its own model. It then answers for the
    /// rank: the rank's digest is that of the centre.
    fn centre(&self) -> Option<&Vector> {
        None
    }
}

/// What became of a service's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// One round or request was served; with the samples consumed by all ranks together since the start, as
    /// far as this service knows.
    Served(u64),
    /// There is nothing left to do.
    Finished,
}

/// What a lane beside the compute lane does: the second thread of a two-thread method, or a server.
pub trait Service: Send {
    /// The lane's name and purpose, unique on its rank: it stands in every record of the lane.
    fn lane(&self) -> LaneId;

    /// Before the run's clock starts; answers the initial weights, if it was sent them: all ranks must hold
    /// the same.
    fn start(&mut self, _desk: &mut Desk) -> Result<Option<Vector>, StepError> {
        Ok(None)
    }

    /// Blocks until one request is served; a turn is this lane's step in the books.
    fn turn(&mut self, desk: &mut Desk) -> Result<Turn, StepError>;

    /// The model that this service holds, such as a server's, if it holds one.
    fn model(&self) -> Option<std::borrow::Cow<'_, Vector>> {
        None
    }

    /// When the run had consumed the samples of the last turn, where that was before the turn ended.
    fn moment(&self) -> Option<Nanos> {
        None
    }
}

/// How the model is called that elastic methods are judged by.
pub(crate) const CENTRE: &str = "centre";

/// What a rank does: at most one lane that trains, any number beside it.
#[derive(Default)]
pub struct Roles {
    /// The compute lane.
    pub trainer: Option<Box<dyn Strategy>>,
    /// The other lanes.
    pub services: Vec<Box<dyn Service>>,
    /// Lanes of the measurement: they count, and snapshot models. They take no part in the method, so that their time is
    /// in no phase.
    pub attendants: Vec<Box<dyn Service>>,
    /// What the rank's model is put aside for, if for anything but its digest.
    pub evaluated: Option<Evaluated>,
}

/// What a rank's model is put aside for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluated {
    /// How the model is called in the metrics.
    pub name: String,
    /// What it is to the run.
    pub standing: Standing,
    /// The models that are taken together with it.
    pub company: Option<Company>,
}

impl Evaluated {
    /// The run is judged by this model alone.
    pub fn judged(name: &str) -> Self {
        Self { name: name.to_owned(), standing: Standing::Judged, company: None }
    }

    /// The run is judged by rank 0's model, and those of all `workers` are compared with it, where they differ.
    pub fn compared(rank: Rank, workers: usize) -> Self {
        Self::one_of(rank, Standing::Judged, Company { size: workers as u32, judged: false })
    }

    /// The run is judged by the uniform mean of the models of all `workers`; rank 0's is evaluated beside it. Of one
    /// worker, that mean is its model.
    pub fn averaged(rank: Rank, workers: usize) -> Self {
        let first = if workers > 1 { Standing::Beside } else { Standing::Judged };
        Self::one_of(rank, first, Company { size: workers as u32, judged: true })
    }

    /// The run is judged by a model that no worker holds, such as a centre's; rank 0's is evaluated beside it, and
    /// those of all `workers` are compared.
    pub fn beside(rank: Rank, workers: usize) -> Self {
        Self::one_of(rank, Standing::Beside, Company { size: workers as u32, judged: false })
    }

    fn one_of(rank: Rank, first: Standing, company: Company) -> Self {
        let standing = if rank == Rank(0) { first } else { Standing::Member };
        let company = (company.size > 1).then_some(company);
        Self { name: format!("rank {rank}"), standing, company }
    }
}
