//! The lane of an elastic worker whose servers serve one worker at a time: it waits for the worker's turn and exchanges
//! weights for the centre while the worker computes. Without it a server would wait for the worker's gradient.

use crate::handoff::{Handoff, Pending, Request};
use crate::message::Signal;
use crate::server::client::{Note, part};
use crate::server::elastic_client::{Grant, Visit};
use crate::server::shards::Shards;
use crate::service_context::ServiceContext;
use crate::strategy::{Service, ServiceStep};
use crate::worker_context::WorkerContext;
use crate::{Kind, Packet, StepError, Tag};
use record::LaneId;

/// Exchanges between the compute lane of a worker and its [`ExchangeLane`].
pub type Exchanges = Handoff<Exchange, Vec<CentrePart>>;

/// Weights to be exchanged for the centre.
pub struct Exchange {
    visit: Visit,
    /// A packet for each server.
    parts: Vec<Packet>,
}

/// The answer of one server: the part of the centre that it holds.
pub struct CentrePart {
    /// The note before it.
    pub grant: Grant,
    /// Those of the server's part, encoded.
    pub weights: Packet,
}

impl Shards {
    /// Sends the worker's weights to the exchange lane.
    pub fn start_exchange(&self, ctx: &mut WorkerContext, exchanges: &Exchanges, visit: Visit) -> Pending {
        let tag = Tag::new(Kind::Push, visit.number).part(part::VECTOR);
        let parts = (0..self.servers()).map(|server| {
            let span = self.span(server);
            let (service, weights) = ctx.split();
            let mut wire = service.wire().weights();
            let slot = wire.slot(self.place(server), tag, span.start);
            wire.encode(slot, &weights[span])
        });
        exchanges.send(Exchange { visit, parts: parts.collect() })
    }
}

/// The lane that exchanges.
pub struct ExchangeLane {
    exchanges: Exchanges,
    shards: Shards,
}

impl ExchangeLane {
    /// The lane that serves `exchanges`.
    pub fn new(exchanges: Exchanges, shards: Shards) -> Self {
        Self { exchanges, shards }
    }

    /// The exchange with one server. A worker has one turn at a time, so that no server waits for another.
    fn exchange(
        &self,
        ctx: &mut ServiceContext,
        server: usize,
        visit: Visit,
        weights: Packet,
    ) -> Result<CentrePart, StepError> {
        let place = self.shards.place(server);
        let push = Tag::new(Kind::Push, visit.number);
        let pull = Tag::new(Kind::Pull, visit.number);
        ctx.send_message(place, push, &Note { samples: visit.done, weights: true })?;
        let turn = pull.part(part::TURN);
        ctx.recv_patiently(self.shards.silences(), |ctx| ctx.wire().recv_packet(place, turn))?;
        ctx.wire().weights().send_packet(place, push.part(part::VECTOR), weights)?;
        let grant = ctx.recv_message(place, pull)?;
        let weights = ctx.wire().recv_packet(place, pull.part(part::VECTOR))?;
        ctx.wire().exact().send_packet(place, push.part(part::TURN), Signal::Received.packet())?;
        Ok(CentrePart { grant, weights })
    }
}

impl Service for ExchangeLane {
    fn lane(&self) -> LaneId {
        LaneId::Communication
    }

    fn step(&mut self, ctx: &mut ServiceContext) -> Result<ServiceStep, StepError> {
        let Some(Request { ticket, work }) = self.exchanges.next(&mut ctx.lane)? else {
            return Ok(ServiceStep::Finished);
        };
        let mut replies = Vec::with_capacity(work.parts.len());
        for (server, weights) in work.parts.into_iter().enumerate() {
            replies.push(self.exchange(ctx, server, work.visit, weights)?);
        }
        let samples = replies.first().map_or(0, |first| first.grant.samples);
        self.exchanges.reply(ticket, replies);
        Ok(ServiceStep::Served(samples))
    }
}
