//! AD-PSGD: asynchronous decentralized parallel SGD, in which pairs of workers average whenever they are ready.
//!
//! Source: Lian et al., "Asynchronous Decentralized Parallel Stochastic Gradient Descent", ICML 2018, Algorithm 1, with
//! the two threads of its appendix A.
//!
//! | paper | here |
//! |---|---|
//! | x^i | the model in `local` |
//! | x^i with a hat, read from it | `ctx.weights()` |
//! | g, the buffer of appendix A | the buffer in `local`, which holds steps with their rates |
//! | gamma | `ctx.rate()`, inside `ctx.compute_update` |
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
//! when an evaluation point is reached (`gossip/count.rs`). Without it, after rank 0 is lost, a worker counts by the notes of
//! its neighbours, and a run consumes the steps more that they took since they were last heard of. A passive rank lets three
//! deadlines pass before an active one counts as lost. The rate follows the count that the worker knew when its last step ended,
//! and is logged with it. The optimizer, with momentum or moments, acts on the compute lane at the model that was
//! read, and is never averaged. A passive worker applies its buffer just before it averages, and at the end. The exponential graph joins hops of
//! 1 and 2^i + 1 for i > 0: the paper's for i = 0, which is 2, would join two active workers. A worker that has lost all
//! neighbours trains on alone; the step that a lost worker had claimed is not taken if all others had ended.
//! Where weights are coded, each end averages its own model with a coded one, so that the mean moves by the coding error.

use crate::gossip::{CountClient, Edge, Finished, Local, Note, Then, neighbour};
use crate::{
    GroupRank, Kind, Loss, Progress, Service, ServiceContext, ServiceStep, StepError, Trainer, Vector,
    WorkerContext,
};
use recipe::Averaging;
use record::{AveragedRecord, Event, LaneId};
use std::borrow::Cow;

/// The compute lane of every worker.
pub struct Worker {
    local: Local,
    /// Without one, the worker counts by the notes of its neighbours.
    count: Option<CountClient>,
    progress: Progress,
}

impl Worker {
    /// The compute lane beside the lanes that average.
    pub fn new(local: Local) -> Self {
        Self { local, count: None, progress: Progress { samples: 0, over: false } }
    }

    /// The same where rank 0 counts the samples of all workers.
    #[must_use]
    pub fn counted(self) -> Self {
        Self { count: Some(CountClient::new()), ..self }
    }

    /// Begins with the worker's weights.
    pub fn begin(&self, ctx: &WorkerContext) {
        self.local.load(ctx.weights());
    }
}

impl Trainer for Worker {
    fn start(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        ctx.broadcast_weights_from(GroupRank(0))?;
        self.begin(ctx);
        Ok(())
    }

    fn step(&mut self, ctx: &mut WorkerContext) -> Result<Loss, StepError> {
        let step = ctx.t();
        let consumed = ctx.consumed();
        let (service, x) = ctx.split();
        self.local.read(service, step, x);
        let (loss, g) = ctx.gradient()?;
        let update = ctx.compute_update(g);
        let finished = Finished { step, consumed, own: ctx.batch().examples.len() as u64 };
        let service = ctx.service();
        if let Some(count) = &mut self.count {
            count.claim(service, &self.local)?;
        }
        let known = self.local.add(service, &update, finished);
        self.progress = match &mut self.count {
            Some(count) => count.finished(service, &self.local, known)?,
            None => Progress { samples: known, over: known >= service.info.plan.budget.samples() },
        };
        ctx.recycle(update);
        Ok(loss)
    }

    fn progress(&self, _: &WorkerContext) -> Progress {
        self.progress
    }

    fn snapshots_at_evaluations(&self) -> bool {
        self.count.as_ref().is_none_or(CountClient::is_lost)
    }

    fn finish(&mut self, ctx: &mut WorkerContext) -> Result<(), StepError> {
        let service = ctx.service();
        if let Some(count) = &mut self.count {
            self.progress = count.leave(service, &self.local, self.progress.samples)?;
        }
        self.local.close(service)
    }

    fn model<'a>(&'a self, _: &'a WorkerContext) -> Cow<'a, Vector> {
        Cow::Owned(self.local.model())
    }
}

/// The communication lane of an active worker, which asks.
pub struct Active {
    local: Local,
    averaging: Averaging,
    edges: Vec<Edge>,
    number: u64,
    x: Vector,
    other: Vector,
}

impl Active {
    /// The lane of a worker with these neighbours and `parameter_count` weights.
    pub fn new(
        local: Local,
        averaging: Averaging,
        neighbours: Vec<GroupRank>,
        parameter_count: usize,
    ) -> Self {
        let edges = neighbours.into_iter().map(Edge::to).collect();
        Self {
            local,
            averaging,
            edges,
            number: 0,
            x: Vector::zeros(parameter_count),
            other: Vector::zeros(parameter_count),
        }
    }

    fn note(&self, then: Then) -> Note {
        Note { then, number: self.number, samples: self.local.samples() }
    }

    /// Averages with one neighbour.
    fn average(&mut self, ctx: &mut ServiceContext, chosen: usize) -> Result<(), StepError> {
        let note = self.note(Then::Model);
        let edge = &mut self.edges[chosen];
        edge.ask(ctx, &note, Some(&self.x))?;
        let answer = edge.answered(ctx, &mut self.other)?;
        let peer = edge.rank(ctx);
        let number = self.number;
        self.local.learn(&answer.samples);
        self.local.average(ctx, &self.other, peer, number);
        let at = ctx.lane.clock.now();
        ctx.record(Event::Averaged(AveragedRecord { rank: ctx.info.rank, peer, number, at }));
        Ok(())
    }

    /// Sends a note to all neighbours but one.
    fn tell(&mut self, ctx: &mut ServiceContext, then: Then, but: Option<usize>) -> Result<(), StepError> {
        let note = self.note(then);
        let mut told = Vec::with_capacity(self.edges.len());
        for (index, mut edge) in std::mem::take(&mut self.edges).into_iter().enumerate() {
            let sent = if Some(index) == but { Ok(()) } else { edge.ask(ctx, &note, None) };
            match sent {
                Ok(()) => told.push(edge),
                Err(error) => edge.lose(ctx, error)?,
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

    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        if self.edges.is_empty() {
            self.local.leave();
            return Ok(ServiceStep::Finished);
        }
        if !self.local.wait(ctx, self.averaging)? {
            self.tell(ctx, Then::Goodbye, None)?;
            self.local.leave();
            return Ok(ServiceStep::Finished);
        }
        self.number += 1;
        let fresh = self.local.flush(ctx, &mut self.x);
        let seed = ctx.info.plan.seed();
        let chosen = neighbour(seed, ctx.info.rank, self.number, self.edges.len());
        if let Err(error) = self.average(ctx, chosen) {
            self.edges[chosen].lose(ctx, error)?;
            self.edges.remove(chosen);
        } else if fresh {
            self.tell(ctx, Then::Later, Some(chosen))?;
        }
        Ok(ServiceStep::Served(self.local.known()))
    }
}

/// The lane of a passive worker for one active neighbour, to which it replies.
pub struct Passive {
    local: Local,
    edge: Edge,
    number: u64,
    other: Vector,
}

impl Passive {
    /// The lane for this neighbour of a worker with `parameter_count` weights.
    pub fn new(local: Local, neighbour: GroupRank, parameter_count: usize) -> Self {
        Self { local, edge: Edge::to(neighbour), number: 0, other: Vector::zeros(parameter_count) }
    }

    fn serve(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        let Self { local, edge, number, other } = self;
        let note = edge.asked(ctx)?;
        *number = note.number;
        local.learn(&note.samples);
        match note.then {
            Then::Goodbye => {
                local.leave();
                return Ok(ServiceStep::Finished);
            }
            Then::Later => {}
            Then::Model => {
                edge.model(ctx, Kind::Ask, other)?;
                local.answer(ctx, other, edge.rank(ctx), *number);
                let answer = Note { samples: local.samples(), ..note };
                edge.answer(ctx, &answer, other)?;
            }
        }
        Ok(ServiceStep::Served(local.known()))
    }
}

impl Service for Passive {
    fn lane(&self) -> LaneId {
        LaneId::Client(self.edge.neighbour().0 as u16)
    }

    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        self.serve(ctx).or_else(|error| {
            self.edge.lose(ctx, error)?;
            self.local.leave();
            Ok(ServiceStep::Finished)
        })
    }
}
