//! The lane of an elastic worker whose servers serve one worker at a time: it asks, waits for the worker's turn, carries
//! the weights up and the centre down, and says when it has them, while the worker computes. Without it the server would
//! be kept from the other workers until the gradient is there.

use crate::desk::Desk;
use crate::host::Shared;
use crate::node::Node;
use crate::server::client::{Note, RECEIVED, part};
use crate::server::shards::Shards;
use crate::server::visitor::Grant;
use crate::strategy::{Service, Turn};
use crate::{Kind, Packet, StepError, Tag};
use record::LaneId;

/// Between the lane that computes and the one that carries.
#[derive(Default)]
pub struct Post {
    out: Option<Errand>,
    back: Option<Vec<(Grant, Packet)>>,
    closed: bool,
}

/// Weights to be exchanged for the centre: a part for each server.
struct Errand {
    visit: u64,
    done: u64,
    parts: Vec<Packet>,
}

impl Post {
    /// Hands the worker's weights over, after `done` steps without an exchange.
    pub fn send(post: &Shared<Self>, shards: Shards, node: &mut Node, visit: u64, done: u64) {
        let tag = Tag::new(Kind::Push, visit).part(part::VECTOR);
        let parts = (0..shards.servers()).map(|server| {
            let (desk, params) = node.parts();
            let (mut wire, span) = (desk.wire().weights(), shards.span(server));
            let slot = wire.slot(shards.place(server), tag, span.start);
            wire.encode(slot, &params[span])
        });
        let errand = Errand { visit, done, parts: parts.collect() };
        post.change(|post| post.out = Some(errand));
    }

    /// Waits for what the servers answered, in their order.
    pub fn receive(post: &Shared<Self>, node: &mut Node) -> Result<Vec<(Grant, Packet)>, StepError> {
        post.wait(node.lane(), |post| post.back.take())
    }

    /// Says that nothing more will be sent.
    pub fn close(post: &Shared<Self>) {
        post.change(|post| post.closed = true);
    }
}

/// The lane that carries.
pub struct Courier {
    post: Shared<Post>,
    shards: Shards,
}

impl Courier {
    /// The lane that serves `post`.
    pub fn new(post: Shared<Post>, shards: Shards) -> Self {
        Self { post, shards }
    }

    /// One server's turn. A worker holds one turn at a time, so that no server is kept waiting for another.
    fn exchange(
        &self,
        desk: &mut Desk,
        server: usize,
        (visit, done): (u64, u64),
        weights: Packet,
    ) -> Result<(Grant, Packet), StepError> {
        let (place, silences) = (self.shards.place(server), self.shards.silences());
        let (push, pull) = (Tag::new(Kind::Push, visit), Tag::new(Kind::Pull, visit));
        let ask = Note { samples: done, weights: true };
        desk.wire().exact().send_packet(place, push, ask.encode())?;
        desk.recv_patiently(silences, |desk| desk.wire().recv_packet(place, pull.part(part::TURN)))?;
        desk.wire().weights().send_packet(place, push.part(part::VECTOR), weights)?;
        let grant = Grant::decode(&desk.wire().recv_packet(place, pull)?, desk.seat.rank)?;
        let centre = desk.wire().recv_packet(place, pull.part(part::VECTOR))?;
        desk.wire().exact().send_packet(place, push.part(part::TURN), RECEIVED)?;
        Ok((grant, centre))
    }
}

impl Service for Courier {
    fn lane(&self) -> LaneId {
        LaneId::Communication
    }

    fn turn(&mut self, desk: &mut Desk) -> Result<Turn, StepError> {
        let errand = self.post.wait(&mut desk.lane, |post| match post.out.take() {
            Some(errand) => Some(Some(errand)),
            None => post.closed.then_some(None),
        })?;
        let Some(Errand { visit, done, parts }) = errand else { return Ok(Turn::Finished) };
        let answers = parts.into_iter().enumerate();
        let answers = answers
            .map(|(server, weights)| self.exchange(desk, server, (visit, done), weights))
            .collect::<Result<Vec<_>, _>>()?;
        let samples = answers.first().map_or(0, |(grant, _)| grant.samples);
        self.post.change(|post| post.back = Some(answers));
        Ok(Turn::Served(samples))
    }
}
