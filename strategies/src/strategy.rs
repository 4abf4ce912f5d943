//! What a strategy is: one trait for the lane that trains, one for the lanes beside it.

use crate::desk::Desk;
use crate::node::Node;
use crate::vector::Vector;
use crate::{Loss, Place, StepError};

/// How far the run is, as far as a rank knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Samples consumed by all ranks together.
    pub samples: u64,
    /// Whether this rank has no further step to take.
    pub over: bool,
}

/// What the compute lane of a rank does. Straight-line code against a [`Node`]; it names no phase, no byte, no
/// socket and no thread.
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

    /// After the last step: empty pipelines, say good-bye.
    fn finish(&mut self, _node: &mut Node) -> Result<(), StepError> {
        Ok(())
    }

    /// The model that this rank holds, if it is to be evaluated or hashed.
    fn model<'a>(&'a self, node: &'a Node) -> std::borrow::Cow<'a, Vector> {
        std::borrow::Cow::Borrowed(node.params())
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
}

/// What a rank does: at most one lane that trains, any number beside it.
#[derive(Default)]
pub struct Roles {
    /// The compute lane.
    pub trainer: Option<Box<dyn Strategy>>,
    /// The other lanes.
    pub services: Vec<Box<dyn Service>>,
    /// How the rank's model is called in the metrics, if it is the model that the run is judged by.
    pub evaluated: Option<String>,
}
