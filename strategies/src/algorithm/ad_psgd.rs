//! AD-PSGD: asynchronous decentralized parallel SGD, in which pairs of workers average whenever they are ready.
//!
//! Source: Lian et al., "Asynchronous Decentralized Parallel Stochastic Gradient Descent", ICML 2018, Algorithm 1, with
//! the two threads of its appendix A.
//!
//! | paper | here |
//! |---|---|
//! | x^i | the model in `local` |
//! | x^i with a hat, read from it | `node.params()` |
//! | g, the buffer of appendix A | the buffer in `local`, which holds steps with their rates |
//! | gamma | `node.rate()`, inside `node.direction` |
//! | k, the virtual counter | `count` |
//! | active and passive set | even and odd ranks |
//! | neighbours | `edges` |
//!
//! Sent per step: with `each-step`, one model to a neighbour and one back, for each step of an active worker; with
//! `continuous`, as many as fit. Before each model, and to the other neighbours once per step, a few bytes with the samples
//! that each rank has consumed. To and from the sample count, 2 and 9 bytes per step and 16 per evaluation mark.
//!
//! Departures: appendix A averages continuously, on processors that do not compute gradients. Here both share the
//! processor, so that by default an active worker averages once per gradient of its own, and bytes do not depend on the
//! speed of the network: half as many averagings as Algorithm 1 has, which has one per gradient of any worker. Gradients
//! are means over samples, the paper's are sums. The paper's counter k is virtual; here rank 0 counts samples for the
//! measurement, so that the run consumes less than one step more than its budget and all models are evaluated as they are
//! when a mark is reached (`gossip/count.rs`). Without it, after rank 0 is lost, a worker counts by what its neighbours
//! tell, and a run consumes a few steps more. The rate follows the count that the worker knew when its last step ended,
//! and is logged with it. Momentum and weight decay act on the compute lane at the model that was read, and are never
//! averaged. A passive worker applies its buffer just before it averages, and at the end. The exponential graph joins hops of
//! 1 and 2^i + 1 for i > 0: the paper's for i = 0, which is 2, would join two active workers. A worker that has lost all
//! neighbours trains on alone; the step that a lost worker had claimed is nobody's if all others had ended.
//! Where weights are coded, each end averages its own model with a coded one, so that the mean moves by what is lost.

use crate::desk::Desk;
use crate::gossip::{CountClient, Edge, Finished, Local, Note, Then, neighbour};
use crate::node::Node;
use crate::strategy::{Progress, Service, Strategy, Turn};
use crate::vector::Vector;
use crate::{Kind, Loss, Place, StepError};
use recipe::Averaging;
use record::{AveragedRecord, Event, LaneId};
use std::borrow::Cow;

/// The compute lane of every worker.
pub struct Worker {
    local: Local,
    /// Without one, the worker counts by what its neighbours tell.
    count: Option<CountClient>,
    progress: Progress,
}

impl Worker {
    /// The compute lane beside those that average.
    pub fn new(local: Local) -> Self {
        Self { local, count: None, progress: Progress { samples: 0, over: false } }
    }

    /// The same where rank 0 counts the samples of all workers.
    #[must_use]
    pub fn counted(self) -> Self {
        Self { count: Some(CountClient::new()), ..self }
    }

    /// Begins with the node's weights.
    pub fn begin(&self, node: &Node) {
        self.local.load(node.params());
    }
}

impl Strategy for Worker {
    fn start(&mut self, node: &mut Node) -> Result<(), StepError> {
        node.broadcast_params_from(Place(0))?;
        self.begin(node);
        Ok(())
    }

    fn step(&mut self, node: &mut Node) -> Result<Loss, StepError> {
        let (step, consumed) = (node.t(), node.consumed());
        let (desk, x) = node.parts();
        self.local.read(desk, step, x);
        let (loss, g) = node.gradient()?;
        let direction = node.direction(g);
        let finished = Finished { step, consumed, own: node.batch().examples.len() as u64 };
        let (desk, _) = node.parts();
        if let Some(count) = &mut self.count {
            count.claim(desk, &self.local)?;
        }
        let known = self.local.add(desk, &direction, finished);
        self.progress = match &mut self.count {
            Some(count) => count.finished(desk, &self.local, known)?,
            None => Progress { samples: known, over: known >= desk.seat.course.budget() },
        };
        node.recycle(direction);
        Ok(loss)
    }

    fn progress(&self, _: &Node) -> Progress {
        self.progress
    }

    fn snapshots_at_marks(&self) -> bool {
        self.count.as_ref().is_none_or(CountClient::is_lost)
    }

    fn finish(&mut self, node: &mut Node) -> Result<(), StepError> {
        let (desk, _) = node.parts();
        if let Some(count) = &mut self.count {
            self.progress = count.leave(desk, &self.local, self.progress.samples)?;
        }
        self.local.close(desk)
    }

    fn model<'a>(&'a self, _: &'a Node) -> Cow<'a, Vector> {
        Cow::Owned(self.local.model())
    }
}

/// The communication lane of an active worker: it asks.
pub struct Active {
    local: Local,
    averaging: Averaging,
    edges: Vec<Edge>,
    number: u64,
    x: Vector,
    other: Vector,
}

impl Active {
    /// The lane of a worker with these neighbours and so many weights.
    pub fn new(local: Local, averaging: Averaging, neighbours: Vec<Place>, parameters: usize) -> Self {
        let edges = neighbours.into_iter().map(Edge::to).collect();
        let [x, other] = [0, 1].map(|_| Vector::zeros(parameters));
        Self { local, averaging, edges, number: 0, x, other }
    }

    fn note(&self, then: Then) -> Note {
        Note { then, number: self.number, samples: self.local.samples() }
    }

    /// Averages with one neighbour.
    fn average(&mut self, desk: &mut Desk, chosen: usize) -> Result<(), StepError> {
        let note = self.note(Then::Model);
        let edge = &mut self.edges[chosen];
        edge.ask(desk, &note, Some(&self.x))?;
        let answer = edge.answered(desk, &mut self.other)?;
        let (rank, peer, number) = (desk.seat.rank, edge.rank(desk), self.number);
        self.local.learn(&answer.samples);
        self.local.average(desk, &self.other, peer, number);
        let at = desk.lane.clock.now();
        desk.record(Event::Averaged(AveragedRecord { rank, peer, number, at }));
        Ok(())
    }

    /// Tells all neighbours but one how far everybody is.
    fn tell(&mut self, desk: &mut Desk, then: Then, but: Option<usize>) -> Result<(), StepError> {
        let note = self.note(then);
        let mut told = Vec::with_capacity(self.edges.len());
        for (index, mut edge) in std::mem::take(&mut self.edges).into_iter().enumerate() {
            let sent = if Some(index) == but { Ok(()) } else { edge.ask(desk, &note, None) };
            match sent {
                Ok(()) => told.push(edge),
                Err(error) => edge.without(desk, error)?,
            }
        }
        self.edges = told;
        Ok(())
    }
}

impl Service for Active {
    fn lane(&self) -> LaneId {
        LaneId::Communication
    }

    fn turn(&mut self, desk: &mut Desk) -> Result<Turn, StepError> {
        if self.edges.is_empty() {
            self.local.leave();
            return Ok(Turn::Finished);
        }
        let at_once = self.averaging == Averaging::Continuous;
        if !self.local.wait(desk, at_once)? {
            self.tell(desk, Then::Goodbye, None)?;
            self.local.leave();
            return Ok(Turn::Finished);
        }
        self.number += 1;
        let fresh = self.local.flush(desk, &mut self.x);
        let seed = desk.seat.course.seed();
        let chosen = neighbour(seed, desk.seat.rank, self.number, self.edges.len());
        if let Err(error) = self.average(desk, chosen) {
            self.edges[chosen].without(desk, error)?;
            self.edges.remove(chosen);
        } else if fresh {
            self.tell(desk, Then::Later, Some(chosen))?;
        }
        Ok(Turn::Served(self.local.known()))
    }
}

/// The lane of a passive worker for one active neighbour: it answers.
pub struct Passive {
    local: Local,
    edge: Edge,
    number: u64,
    other: Vector,
}

impl Passive {
    /// The lane for this neighbour of a worker with so many weights.
    pub fn new(local: Local, neighbour: Place, parameters: usize) -> Self {
        Self { local, edge: Edge::to(neighbour), number: 0, other: Vector::zeros(parameters) }
    }

    fn serve(&mut self, desk: &mut Desk) -> Result<Turn, StepError> {
        let Self { local, edge, number, other } = self;
        let note = edge.asked(desk)?;
        *number = note.number;
        local.learn(&note.samples);
        match note.then {
            Then::Goodbye => {
                local.leave();
                return Ok(Turn::Finished);
            }
            Then::Later => {}
            Then::Model => {
                edge.model(desk, Kind::Ask, other)?;
                local.answer(desk, other, edge.rank(desk), *number);
                let answer = Note { samples: local.samples(), ..note };
                edge.answer(desk, &answer, other)?;
            }
        }
        Ok(Turn::Served(local.known()))
    }
}

impl Service for Passive {
    fn lane(&self) -> LaneId {
        LaneId::Client(self.edge.place().0 as u16)
    }

    fn turn(&mut self, desk: &mut Desk) -> Result<Turn, StepError> {
        self.serve(desk).or_else(|error| {
            self.edge.without(desk, error)?;
            self.local.leave();
            Ok(Turn::Finished)
        })
    }
}
