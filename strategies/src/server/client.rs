//! The server's end of the push-pull protocol, for one worker.

use crate::Progress;
use crate::message::{Fields, Message, Signal};
use crate::server::applied::Applied;
use crate::server::state::{Centre, ServerState};
use crate::server::worker_clocks::WorkerClocks;
use crate::service_context::ServiceContext;
use crate::strategy::ServiceStep;
use crate::vector::Vector;
use crate::{GroupRank, Kind, Packet, StepError, Tag};
use recipe::Serve;

/// The parts of an exchange. Upwards: request, vector, receipt. Downwards: permission, note, vector.
pub(super) mod part {
    pub(in crate::server) const VECTOR: usize = 1;
    pub(in crate::server) const TURN: usize = 2;
}

/// One worker of a server.
#[derive(Debug)]
pub struct Client {
    worker: usize,
    serve: Serve,
    /// Silences after which a worker that has asked for nothing counts as lost.
    silences: u64,
    /// Position of the server's part in the whole vector.
    pub(super) at: usize,
    /// The current step of the worker, from 1.
    pub(super) step: u64,
    /// The last step whose gradient arrived.
    pub(super) came: u64,
}

/// Content of a worker's push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// An encoded gradient of the server's part.
    Gradient,
    /// Nothing more: the worker takes no further step.
    Left,
}

/// Sent by a server before the weights, and by an elastic worker before its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Note {
    /// Samples consumed by all workers together.
    pub(super) samples: u64,
    /// Whether weights follow the note.
    pub(super) weights: bool,
}

impl Message for Note {
    const NAME: &'static str = "a note about consumed samples";

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.samples.to_le_bytes());
        out.push(u8::from(self.weights));
    }

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self { samples: fields.u64()?, weights: fields.flag()? })
    }
}

impl Client {
    /// A worker of a server that holds the weights from position `at` on, and serves all workers at once.
    pub fn new(worker: usize, at: usize) -> Self {
        Self { worker, serve: Serve::All, silences: 1, at, step: 0, came: 0 }
    }

    /// The same with another way to serve. A worker counts as lost after `silences` silences.
    #[must_use]
    pub fn served(self, serve: Serve, silences: u64) -> Self {
        Self { serve, silences, ..self }
    }

    /// Number of the worker, from 0.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// Receives the worker's next gradient, in its turn where it must ask for one. The worker leaves instead if it has no
    /// further step.
    pub fn receive<C: Centre>(
        &mut self,
        ctx: &mut ServiceContext,
        state: &ServerState<C>,
        gradient: &mut Vector,
    ) -> Result<Push, StepError> {
        self.step += 1;
        let from = GroupRank(self.worker);
        let push = Tag::new(Kind::Push, self.step);
        let mut packet = ctx.recv_patiently(self.silences, |ctx| ctx.wire().recv_packet(from, push))?;
        if packet == Signal::Goodbye.packet() {
            return Ok(Push::Left);
        }
        if self.serve == Serve::One {
            self.admit(ctx, state, self.pull())?;
            packet = ctx.wire().recv_packet(from, push.part(part::VECTOR))?;
        }
        ctx.wire().decode(&packet, gradient)?;
        self.came = self.step;
        Ok(Push::Gradient)
    }

    /// Waits for the worker's turn and lets it begin.
    pub(super) fn admit<C: Centre>(
        &self,
        ctx: &mut ServiceContext,
        state: &ServerState<C>,
        pull: Tag,
    ) -> Result<(), StepError> {
        state.begin_turn(&mut ctx.lane, self.worker)?;
        ctx.wire().exact().send_packet(GroupRank(self.worker), pull.part(part::TURN), Signal::Grant.packet())
    }

    /// Waits until the worker has the answer, and ends its turn.
    pub(super) fn dismiss<C: Centre>(
        &self,
        ctx: &mut ServiceContext,
        state: &ServerState<C>,
        push: Tag,
    ) -> Result<(), StepError> {
        if self.serve == Serve::One {
            ctx.wire().recv_packet(GroupRank(self.worker), push.part(part::TURN))?;
            state.end_turn(self.worker);
        }
        Ok(())
    }

    /// Whether the worker must ask for a turn.
    pub(super) fn asks(&self) -> bool {
        self.serve == Serve::One
    }

    /// Silences after which the worker counts as lost while it has asked for nothing.
    pub(super) fn silences(&self) -> u64 {
        self.silences
    }

    /// Waits until the staleness bound lets the worker continue. Others have their turns meanwhile.
    pub fn wait_to_go<C: Centre>(
        &self,
        ctx: &mut ServiceContext,
        state: &ServerState<C>,
    ) -> Result<(), StepError> {
        if self.serve == Serve::One {
            state.end_turn(self.worker);
        }
        state.wait(&mut ctx.lane, |clocks| clocks.may_go(self.worker).then_some(()))?;
        if self.serve == Serve::One {
            state.begin_turn(&mut ctx.lane, self.worker)?;
        }
        Ok(())
    }

    /// Records the update that applied the worker's gradient.
    pub fn record(&self, ctx: &ServiceContext, applied: Applied) {
        applied.record(ctx, GroupRank(self.worker), self.step);
    }

    /// Encodes the weights of an answer, unless training is over.
    pub fn encode(&self, ctx: &mut ServiceContext, progress: Progress, weights: &[f32]) -> Option<Packet> {
        let pull = self.pull().part(part::VECTOR);
        (!progress.over).then(|| {
            let mut wire = ctx.wire().weights();
            wire.encode(wire.slot(GroupRank(self.worker), pull, self.at), weights)
        })
    }

    /// Sends the progress of the run and the weights for the next step. Where the worker's turn lasts until it has them,
    /// waits for its receipt.
    pub fn answer<C: Centre>(
        &self,
        ctx: &mut ServiceContext,
        state: &ServerState<C>,
        progress: Progress,
        weights: Option<Packet>,
    ) -> Result<(), StepError> {
        let to = GroupRank(self.worker);
        ctx.send_message(to, self.pull(), &Note { samples: progress.samples, weights: weights.is_some() })?;
        if let Some(weights) = weights {
            ctx.wire().weights().send_packet(to, self.pull().part(part::VECTOR), weights)?;
        }
        self.dismiss(ctx, state, Tag::new(Kind::Push, self.step))
    }

    /// The end of a step of this lane. If the worker is lost, the loss is recorded and the others continue; the run fails
    /// only when all workers are lost.
    pub fn settle<C: Centre>(
        &self,
        step: Result<ServiceStep, StepError>,
        ctx: &ServiceContext,
        state: &ServerState<C>,
    ) -> Result<ServiceStep, StepError> {
        let error = match step {
            Ok(ServiceStep::Served(samples)) => return Ok(ServiceStep::Served(samples)),
            Ok(ServiceStep::Finished) => {
                state.write(|clocks| clocks.leave(self.worker));
                return Ok(ServiceStep::Finished);
            }
            Err(error) => error,
        };
        // Or the others would wait for the end of its turn.
        state.end_turn(self.worker);
        let worker = ctx.info.everyone.rank(GroupRank(self.worker));
        ctx.lose_one_of(worker, self.came + 1, error, || {
            state.write(|clocks| clocks.lose(self.worker));
            !state.read(WorkerClocks::is_abandoned)
        })?;
        Ok(ServiceStep::Finished)
    }

    fn pull(&self) -> Tag {
        Tag::new(Kind::Pull, self.step)
    }
}
