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
//! whoever is first. The weights may be divided among several servers, each of which does the same to its part.

use crate::desk::Desk;
use crate::node::Node;
use crate::optimizer::Optimizer;
use crate::server::Shards;
use crate::strategy::{Service, Strategy, Turn};
use crate::vector::Vector;
use crate::{Kind, Loss, Place, StepError, Tag};
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
}

impl Server {
    /// Server number `server` of these.
    pub fn new(servers: Shards, server: usize, optimizer: Optimizer) -> Self {
        let span = servers.span(server);
        let (weights, sum) = (Vector::zeros(span.len()), Vector::zeros(span.len()));
        Self { servers, span, weights, optimizer, sum, t: 0 }
    }
}

impl Service for Server {
    fn start(&mut self, desk: &mut Desk) -> Result<Option<Vector>, StepError> {
        let mut initial = Vector::zeros(self.servers.parameters());
        desk.recv_broadcast(Place(0), &mut initial)?;
        self.weights.copy_from_slice(&initial[self.span.clone()]);
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
        Ok(Turn::Served(desk.seat.course.samples_after(self.t)))
    }

    /// A part is no model; then rank 0, which has the same bits, holds the whole.
    fn model(&self) -> Option<Cow<'_, Vector>> {
        (self.servers.servers() == 1).then_some(Cow::Borrowed(&self.weights))
    }
}
