//! PS-Sync: synchronous SGD with a parameter server.
//!
//! Source: Li et al., "Pipe-SGD: A Decentralized Pipelined SGD Framework for Distributed Deep Net Training",
//! NeurIPS 2018, section 2, "Parameter server with synchronous SGD".
//!
//! | paper | here |
//! |---|---|
//! | w on the server | `Server::weights` |
//! | w on a worker | `node.params()` |
//! | gradient of one worker | `g` |
//!
//! Sent per step: one gradient up and one model down per worker. The gradient is coded, the model only with
//! `compression.parameters`; the server keeps its weights as they are.
//!
//! Departures: the paper sums gradients; here they are averaged over samples. The server adds in rank order,
//! whoever is first. The weights may be divided among several servers, each of which does the same to its part. The run is
//! judged by the exact weights: those of the server; of several, where workers get the same bits, those of rank 0, and where
//! the model is coded on its way, the parts of all servers, which the first puts together at each mark.

use crate::desk::Desk;
use crate::node::Node;
use crate::optimizer::Optimizer;
use crate::server::Shards;
use crate::strategy::{Service, Strategy, Turn};
use crate::vector::Vector;
use crate::{Kind, Loss, Place, StepError, Tag};
use record::{LaneId, Phase, Work};
use std::borrow::Cow;
use std::ops::Range;

/// Every worker.
#[derive(Clone, Copy, Debug)]
pub struct Worker {
    /// Who holds the weights.
    pub servers: Shards,
}

impl Strategy for Worker {
    fn step(&mut self, node: &mut Node) -> Result<Loss, StepError> {
        let (loss, g) = node.gradient()?;
        let g = node.weighted(g);
        self.servers.push(node, &g)?;
        self.servers.pull(node)?;
        node.recycle(g);
        Ok(loss)
    }
}

/// A server, which holds the weights or a part of them.
pub struct Server {
    servers: Shards,
    span: Range<usize>,
    weights: Vector,
    optimizer: Optimizer,
    sum: Vector,
    t: u64,
    /// Whether the servers bring their parts together, which the workers have only coded.
    gathers: bool,
    /// On the first of servers that do: the whole model, as it was after the step of the last mark.
    whole: (u64, Vector),
}

impl Server {
    /// Server number `server` of these. `coded` says whether the workers get the model as a code has left it.
    pub fn new(servers: Shards, server: usize, optimizer: Optimizer, coded: bool) -> Self {
        let span = servers.span(server);
        let (weights, sum) = (Vector::zeros(span.len()), Vector::zeros(span.len()));
        let gathers = coded && servers.servers() > 1;
        Self { servers, span, weights, optimizer, sum, t: 0, gathers, whole: (0, Vector::default()) }
    }

    /// Brings the exact parts together on the first server.
    fn gather(&mut self, desk: &mut Desk) -> Result<(), StepError> {
        let (tag, first) = (Tag::new(Kind::Mark, self.t), self.servers.place(0));
        if desk.seat.everyone.place() != first {
            return desk.wire().exact().send(first, tag, self.span.start, &self.weights);
        }
        let (at, whole) = &mut self.whole;
        let (own, weights) = (self.span.clone(), &self.weights);
        let copy = || whole[own].copy_from_slice(weights);
        desk.lane.clock.timed(Phase::Snapshot, Work::Snapshot(self.weights.len()), copy);
        for server in 1..self.servers.servers() {
            let span = self.servers.span(server);
            desk.wire().exact().recv_into(self.servers.place(server), tag, &mut whole[span])?;
        }
        *at = self.t;
        Ok(())
    }
}

impl Service for Server {
    fn lane(&self) -> LaneId {
        LaneId::Clients
    }

    fn start(&mut self, desk: &mut Desk) -> Result<Option<Vector>, StepError> {
        let mut initial = Vector::zeros(self.servers.parameters());
        desk.recv_broadcast(Place(0), &mut initial)?;
        self.weights.copy_from_slice(&initial[self.span.clone()]);
        if self.gathers {
            self.whole = (0, initial.clone());
        }
        Ok(Some(initial))
    }

    fn turn(&mut self, desk: &mut Desk) -> Result<Turn, StepError> {
        if self.t == desk.seat.course.steps() {
            return Ok(Turn::Finished);
        }
        self.t += 1;
        let (push, pull) = (Tag::new(Kind::Push, self.t), Tag::new(Kind::Pull, self.t));
        let workers = desk.seat.course.workers();
        self.sum.fill(0.0);
        for worker in 0..workers {
            desk.wire().recv_add(Place(worker), push, &mut self.sum)?;
        }
        desk.mean(&mut self.sum, workers);
        let consumed = desk.seat.course.samples_after(self.t - 1);
        desk.descend(&mut self.optimizer, &mut self.weights, &mut self.sum, consumed);
        let mut wire = desk.wire().weights();
        let packet = wire.encode(wire.slot(Place(0), pull, self.span.start), &self.weights);
        for worker in 0..workers {
            wire.send_packet(Place(worker), pull, packet.clone())?;
        }
        let (samples, last) = (desk.seat.course.samples_after(self.t), desk.seat.course.steps());
        if self.gathers && (self.t == last || desk.seat.course.evaluation_due(consumed, samples)) {
            self.gather(desk)?;
        }
        Ok(Turn::Served(samples))
    }

    /// A part is no model.
    fn model(&self) -> Option<Cow<'_, Vector>> {
        let (at, whole) = &self.whole;
        if self.servers.servers() == 1 {
            return Some(Cow::Borrowed(&self.weights));
        }
        (*at == self.t && self.servers.span(0) == self.span && !whole.is_empty())
            .then_some(Cow::Borrowed(whole))
    }
}
