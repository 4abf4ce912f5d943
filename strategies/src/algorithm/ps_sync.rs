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
//! whoever is first.

use crate::node::{Desk, Node};
use crate::optimizer::Optimizer;
use crate::strategy::{Service, Strategy, Turn};
use crate::vector::Vector;
use crate::{Kind, Loss, Place, StepError, Tag};
use std::borrow::Cow;

/// Every worker.
#[derive(Clone, Copy, Debug)]
pub struct Worker {
    /// Where the server sits among all ranks.
    pub server: Place,
}

impl Strategy for Worker {
    fn step(&mut self, node: &mut Node) -> Result<Loss, StepError> {
        let (loss, g) = node.gradient()?;
        let g = node.weighted(g);
        let (push, pull) = (Tag::new(Kind::Push, node.t()), Tag::new(Kind::Pull, node.t()));
        node.wire().send(self.server, push, 0, &g)?;
        node.recv_params(self.server, pull)?;
        node.recycle(g);
        Ok(loss)
    }
}

/// The server, which holds the weights.
pub struct Server {
    weights: Vector,
    optimizer: Optimizer,
    sum: Vector,
    t: u64,
}

impl Server {
    /// A server for `parameters` weights.
    pub fn new(parameters: usize, optimizer: Optimizer) -> Self {
        Self { weights: Vector::zeros(parameters), optimizer, sum: Vector::zeros(parameters), t: 0 }
    }
}

impl Service for Server {
    fn start(&mut self, desk: &mut Desk) -> Result<(), StepError> {
        desk.recv_broadcast(Place(0), &mut self.weights)
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
        desk.descend(&mut self.optimizer, &mut self.weights, &mut self.sum, self.t);
        let mut wire = desk.wire().weights();
        let packet = wire.encode(wire.slot(Place(0), pull, 0), &self.weights);
        for worker in 0..workers {
            wire.send_packet(Place(worker), pull, packet.clone())?;
        }
        Ok(Turn::Served(desk.seat.course.samples_after(self.t)))
    }

    fn model(&self) -> Option<Cow<'_, Vector>> {
        Some(Cow::Borrowed(&self.weights))
    }
}
