//! Async SGD: asynchronous SGD with a parameter server, first come, first served.
//!
//! Source: You, Buluc and Demmel, "Scaling Deep Learning on GPU and Knights Landing Clusters", SC 2017, section 3.1,
//! after Dean et al., NIPS 2012; the bound on staleness is that of Ho et al., NIPS 2013 (SSP).
//!
//! | paper | here |
//! |---|---|
//! | W on the master | `Locked::weights` |
//! | W on the i-th worker | `node.params()` |
//! | dW_i | `delta` |
//! | eta | `course.rate`, after the samples of all gradients applied before |
//!
//! Sent per step: one gradient up and one model down per worker, and a note of how far the run is; with `serve = "one"`
//! three words more: the worker asks, the master says that its turn has come, and the worker that it has the model.
//!
//! With `serve = "one"`, the default, the master serves one worker at a time, from its request to the end of the answer, as
//! in the source: "the master only communicates with one worker at a time" (introduction), in the order of requests. With
//! "all" gradients and models of several workers travel at once, and only the update has a lock. The updates are the same.
//!
//! Each of p workers' gradients is an update at the full rate: at one rate the weights move p times as far per sample as
//! those of synchronous SGD, whose update is the mean of all p.
//!
//! Departures: each worker draws from samples of its own pace. The weights may be divided among several masters,
//! each with its own order of gradients. A worker that is more steps ahead of the slowest than the bound allows
//! gets its answer when the slowest has caught up, with the weights of that moment; meanwhile its turn is over. With
//! several masters a worker has its turn at one after the other, so that none is kept waiting for another, and the first
//! enforces the bound on staleness.

use crate::desk::Desk;
use crate::node::Node;
use crate::optimizer::Optimizer;
use crate::server::{Centre, Client, Floor, Shards};
use crate::strategy::{Progress, Service, Strategy, Turn};
use crate::vector::Vector;
use crate::{Loss, StepError};
use recipe::Serve;
use record::{LaneId, Phase, Work};

/// Every worker.
#[derive(Debug)]
pub struct Worker {
    servers: Shards,
    serve: Serve,
    progress: Progress,
}

impl Worker {
    /// A worker of these servers, which serve one worker at a time or all.
    pub fn new(servers: Shards, serve: Serve) -> Self {
        Self { servers, serve, progress: Progress { samples: 0, over: false } }
    }
}

impl Strategy for Worker {
    fn step(&mut self, node: &mut Node) -> Result<Loss, StepError> {
        let (loss, delta) = node.gradient()?;
        let delta = node.clipped(delta);
        self.progress = match self.serve {
            Serve::One => self.servers.exchange_in_turn(node, &delta)?,
            Serve::All => {
                self.servers.push(node, &delta)?;
                self.servers.pull_with_notes(node)?
            }
        };
        node.recycle(delta);
        Ok(loss)
    }

    fn progress(&self, _: &Node) -> Progress {
        self.progress
    }

    fn finish(&mut self, node: &mut Node) -> Result<(), StepError> {
        self.servers.say_goodbye(node)
    }
}

/// What a gradient does to the weights of a master.
pub trait Rule: Send + 'static {
    /// Changes the weights. The gradient's memory is left with no meaning.
    fn update(&mut self, weights: &mut Vector, delta: &mut Vector, rate: f32);
}

/// W <- W - eta dW_i.
impl Rule for Optimizer {
    fn update(&mut self, weights: &mut Vector, delta: &mut Vector, rate: f32) {
        self.descend(weights, delta, rate);
    }
}

/// Weights that one lane at a time may change.
pub struct Locked<R> {
    weights: Vector,
    rule: R,
}

impl<R: Rule> Locked<R> {
    /// So many weights.
    pub fn new(parameters: usize, rule: R) -> Self {
        Self { weights: Vector::zeros(parameters), rule }
    }
}

impl<R: Rule> Centre for Locked<R> {
    fn load(&mut self, weights: &[f32]) {
        self.weights.copy_from_slice(weights);
    }

    fn copy(&self, into: &mut [f32]) {
        into.copy_from_slice(&self.weights);
    }
}

/// The master's lane for one worker.
pub struct Master<R> {
    floor: Floor<Locked<R>>,
    client: Client,
    delta: Vector,
}

impl<R: Rule> Master<R> {
    /// The lane for `client` of a master with so many weights.
    pub fn new(floor: Floor<Locked<R>>, client: Client, parameters: usize) -> Self {
        Self { floor, client, delta: Vector::zeros(parameters) }
    }

    fn serve(&mut self, desk: &mut Desk) -> Result<Turn, StepError> {
        let Self { floor, client, delta } = self;
        if client.receive(desk, floor, delta)?.is_none() {
            return Ok(Turn::Finished);
        }
        let i = client.worker();
        let mut master = floor.take(desk, i)?;
        let applied = floor.write(|ledger| ledger.apply(i));
        let rate = desk.seat.course.rate(applied.consumed);
        desk.lane.clock.timed(Phase::Update, Work::Update(delta.len()), || {
            master.rule.update(&mut master.weights, delta, rate);
        });
        client.record(desk, applied);
        if !floor.read(|ledger| ledger.may_go(i)) {
            floor.put_back(master);
            client.wait_to_go(desk, floor)?;
            master = floor.take(desk, i)?;
        }
        let progress = floor.write(|ledger| ledger.release(i));
        let weights = client.encode(desk, progress, &master.weights);
        floor.put_back(master);
        client.answer(desk, floor, progress, weights)?;
        Ok(Turn::Served(applied.samples))
    }
}

impl<R: Rule> Service for Master<R> {
    fn lane(&self) -> LaneId {
        LaneId::Client(self.client.worker() as u16)
    }

    fn turn(&mut self, desk: &mut Desk) -> Result<Turn, StepError> {
        let turn = self.serve(desk);
        self.client.settle(turn, desk, &self.floor)
    }
}
