//! The elastic exchange, both ends: weights up, the centre down, and the number of steps that follow.
//!
//! A worker visits the centre when a block of local steps begins, tells how many steps it took since the last visit, and
//! computes while the centre travels. The answer tells the length of its *next* block, so that a worker knows at the end
//! of a block whether another follows, and never waits for that alone.

use crate::message::{Fields, Message};
use crate::plan::TrainingPlan;
use crate::server::applied::Applied;
use crate::server::client::{Client, Note, part};
use crate::server::shards::Shards;
use crate::server::state::{Centre, ServerState};
use crate::service_context::ServiceContext;
use crate::vector::Vector;
use crate::worker_context::WorkerContext;
use crate::{GroupRank, Kind, Packet, StepError, Tag};
use recipe::MovingRate;
use std::ops::Range;

/// How far and how often workers and centre move towards each other.
#[derive(Clone, Copy, Debug)]
pub struct Elastic {
    /// The part of the distance that each moves.
    pub moving_rate: MovingRate,
    /// Local steps from one exchange to the next.
    pub period: u64,
}

impl Elastic {
    /// Steps of each worker's first block: at most the steps of the training if all workers are equally fast.
    pub fn first_block(self, plan: &TrainingPlan) -> u64 {
        self.period.min(plan.budget.whole_batches())
    }

    /// The moving rate a, after `consumed` samples.
    pub fn at(self, plan: &TrainingPlan, consumed: u64) -> f32 {
        self.moving_rate.at(plan.learning_rate.at(consumed), plan.workers())
    }
}

/// The new centre c + a (x - c), moved towards a worker.
pub fn pulled_centre(c: f32, x: f32, a: f32) -> f32 {
    c + a * (x - c)
}

/// The new weights x + d - a (x - c), moved by the worker's update d and towards the centre, both from the old weights.
pub fn pulled(x: &mut [f32], d: &[f32], c: &[f32], a: f32) {
    for ((x, d), c) in x.iter_mut().zip(d).zip(c) {
        *x = (*x + d) - a * (*x - c);
    }
}

/// The arrival of a worker at a centre.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The worker sends its weights along.
    Weights {
        /// Local steps since the last visit.
        done: u64,
    },
    /// Without weights: the worker takes no further step.
    Left {
        /// Local steps since the last visit.
        done: u64,
    },
}

/// A visit to the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Number of the visit, from 1.
    pub number: u64,
    /// Steps that the worker took since the last one.
    pub done: u64,
}

/// Sent with the centre.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Samples consumed by all workers together, as the centre knows them.
    pub samples: u64,
    /// Steps of the worker's next block; if there are none, the current block is its last.
    pub steps: u64,
}

impl Message for Grant {
    const NAME: &'static str = "a grant of steps";

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.samples.to_le_bytes());
        out.extend(self.steps.to_le_bytes());
    }

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self { samples: fields.u64()?, steps: fields.u64()? })
    }
}

/// The centre's end of the exchange, for one worker.
#[derive(Debug)]
pub struct ElasticClient {
    client: Client,
    /// Steps between two visits.
    period: u64,
    visit: u64,
}

impl ElasticClient {
    /// A worker that visits every `period` steps.
    pub fn new(client: Client, period: u64) -> Self {
        Self { client, period, visit: 0 }
    }

    /// The worker as one of the server's.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Number of the worker, from 0.
    pub fn worker(&self) -> usize {
        self.client.worker()
    }

    /// Waits for the worker's visit, and for its turn where it must ask for one; its weights are received into `x`.
    pub fn receive<C: Centre>(
        &mut self,
        ctx: &mut ServiceContext,
        state: &ServerState<C>,
        x: &mut Vector,
    ) -> Result<Arrival, StepError> {
        self.visit += 1;
        let from = GroupRank(self.worker());
        let tag = Tag::new(Kind::Push, self.visit);
        let Note { samples: done, weights } = self.await_visit(ctx, from, tag)?;
        if !weights {
            self.client.came = self.client.came.saturating_add(done);
            return Ok(Arrival::Left { done });
        }
        if self.client.asks() {
            self.client.admit(ctx, state, self.pull())?;
        }
        ctx.wire().weights().recv_into(from, tag.part(part::VECTOR), x)?;
        self.client.came = self.client.came.saturating_add(done);
        self.client.step = self.client.came.saturating_add(1);
        Ok(Arrival::Weights { done })
    }

    /// The note that announces the visit. Between two visits the worker takes steps without sending: each may take as long as
    /// a peer may be silent.
    fn await_visit(&self, ctx: &mut ServiceContext, from: GroupRank, tag: Tag) -> Result<Note, StepError> {
        let silences = self.period + self.client.silences() - 1;
        let packet = ctx.recv_patiently(silences, |ctx| ctx.wire().recv_packet(from, tag))?;
        Note::decode(&packet, ctx.info.rank)
    }

    /// Records the update that applied the worker's weights.
    pub fn record(&self, ctx: &ServiceContext, applied: Applied) {
        self.client.record(ctx, applied);
    }

    /// The centre as a packet for the worker.
    pub fn encode(&self, ctx: &mut ServiceContext, centre: &[f32]) -> Packet {
        let mut wire = ctx.wire().weights();
        wire.encode(wire.slot(GroupRank(self.worker()), self.pull(), self.client.at), centre)
    }

    /// Sends the grant and the centre. Where the worker's turn lasts until it has them, waits for its receipt.
    pub fn answer<C: Centre>(
        &self,
        ctx: &mut ServiceContext,
        state: &ServerState<C>,
        grant: Grant,
        centre: Packet,
    ) -> Result<(), StepError> {
        let to = GroupRank(self.worker());
        ctx.send_message(to, self.pull(), &grant)?;
        ctx.wire().weights().send_packet(to, self.pull().part(part::VECTOR), centre)?;
        self.client.dismiss(ctx, state, Tag::new(Kind::Push, self.visit))
    }

    fn pull(&self) -> Tag {
        Tag::new(Kind::Pull, self.visit)
    }
}

impl Shards {
    /// Sends the worker's weights to all servers.
    pub fn visit(&self, ctx: &mut WorkerContext, visit: Visit) -> Result<(), StepError> {
        let tag = Tag::new(Kind::Push, visit.number);
        for server in 0..self.servers() {
            let place = self.place(server);
            ctx.service().send_message(place, tag, &Note { samples: visit.done, weights: true })?;
            ctx.send_weights_of(place, tag.part(part::VECTOR), self.span(server))?;
        }
        Ok(())
    }

    /// Receives a server's part of the centre into its span of `c`.
    pub fn receive_centre(
        &self,
        ctx: &mut WorkerContext,
        server: usize,
        visit: u64,
        c: &mut [f32],
    ) -> Result<(Grant, Range<usize>), StepError> {
        let place = self.place(server);
        let tag = Tag::new(Kind::Pull, visit);
        let span = self.span(server);
        let grant = ctx.service().recv_message(place, tag)?;
        ctx.wire().weights().recv_into(place, tag.part(part::VECTOR), &mut c[span.clone()])?;
        Ok((grant, span))
    }

    /// Tells all servers that no weights follow.
    pub fn leave(&self, ctx: &mut WorkerContext, visit: Visit) -> Result<(), StepError> {
        let tag = Tag::new(Kind::Push, visit.number);
        let note = Note { samples: visit.done, weights: false };
        (0..self.servers()).try_for_each(|server| ctx.service().send_message(self.place(server), tag, &note))
    }
}
