//! Async EASGD: elastic averaging, first come, first served.
//!
//! Source: You, Buluc and Demmel, "Scaling Deep Learning on GPU and Knights Landing Clusters", SC 2017, section 5.1,
//! "Async EASGD", Equations 1 and 2, after Zhang, Choromanska and `LeCun`, NIPS 2015.
//!
//! | paper | here |
//! |---|---|
//! | W^i | `node.params()` |
//! | the center weight on the master | `Locked::centre`; `Worker::centre` as it was sent |
//! | dW^i | `g` |
//! | eta | `node.rate()`, after the samples that the centre knows of |
//! | eta rho | `Elastic::at`: the moving rate a |
//!
//! Sent per step: every `period` steps, the weights up and the centre down, before and while the worker computes, with
//! notes of how far each is; with `serve = "one"` three words more: the worker asks, the master says that its turn has come,
//! and the worker that it has the centre.
//!
//! With `serve = "one"`, the default, the master serves one worker at a time, from its request to the end of the answer, as
//! in the source: "in both Original-EASGD and Async-EASGD, the master only communicates with one worker at a time"
//! (introduction), first come, first served. A lane of its own waits for the worker's turn and exchanges, while the worker
//! computes (step 2). With "all" weights of several workers travel at once, and only the update has a lock.
//!
//! Departures: each worker draws from samples of its own pace. An exchange takes place before every `period`-th local
//! step of the worker, with the gradient at the weights before the pull. The centre may be divided among several
//! masters, each with its own order of workers; of those that serve one at a time a worker goes to one after the other. Samples count when the worker comes again, or leaves; what it learned
//! after its last exchange is not in the centre. Staleness counts the exchanges of others since the worker's last. Where
//! weights are coded, each end moves towards the decoded other, and their sum by what is lost.

use crate::desk::Desk;
use crate::host::Shared;
use crate::node::Node;
use crate::server::{Centre, Elastic, Floor, Grant, Post, Shards, Visit, Visitor, drawn, pulled};
use crate::strategy::{Progress, Service, Strategy, Turn};
use crate::vector::Vector;
use crate::{Loss, StepError};
use record::{LaneId, Phase, Work};
use std::ops::Range;

/// How a worker moves by itself.
pub trait Motion: Send {
    /// The gradient that it follows.
    fn gradient(&mut self, node: &mut Node) -> Result<(Loss, Vector), StepError> {
        node.gradient()
    }

    /// What is added to the weights for a gradient.
    fn direction(&mut self, node: &mut Node, g: Vector) -> Vector;
}

/// - eta dW^i.
#[derive(Clone, Copy, Debug)]
pub struct Descent;

impl Motion for Descent {
    fn direction(&mut self, node: &mut Node, g: Vector) -> Vector {
        node.direction(g)
    }
}

/// Every worker.
pub struct Worker<M> {
    servers: Shards,
    elastic: Elastic,
    motion: M,
    /// Where the servers serve one worker at a time: the way to the lane that waits for its turn.
    post: Option<Shared<Post>>,
    centre: Vector,
    visit: u64,
    /// Samples that the centre knew of at the last exchange.
    told: u64,
    /// Local steps since then.
    done: u64,
    /// Steps of the present block and of the next.
    blocks: (u64, u64),
}

impl<M> Worker<M> {
    /// A worker of these servers.
    pub fn new(servers: Shards, elastic: Elastic, motion: M) -> Self {
        let centre = Vector::zeros(servers.parameters());
        Self { servers, elastic, motion, post: None, centre, visit: 0, told: 0, done: 0, blocks: (0, 0) }
    }

    /// The same with a lane beside it that exchanges.
    #[must_use]
    pub fn with_courier(self, post: Shared<Post>) -> Self {
        Self { post: Some(post), ..self }
    }
}

impl<M: Motion> Strategy for Worker<M> {
    fn step(&mut self, node: &mut Node) -> Result<Loss, StepError> {
        let loss = if self.done == self.blocks.0 { self.exchange(node)? } else { self.local_step(node)? };
        self.done += 1;
        Ok(loss)
    }

    fn progress(&self, node: &Node) -> Progress {
        let samples = self.told.saturating_add(self.own(node));
        Progress { samples, over: self.done == self.blocks.0 && self.blocks.1 == 0 }
    }

    fn finish(&mut self, node: &mut Node) -> Result<(), StepError> {
        if let Some(post) = &self.post {
            Post::close(post);
        }
        self.servers.leave(node, self.visit + 1, self.done)
    }
}

impl<M: Motion> Worker<M> {
    /// A step with an exchange: steps (1) to (3).
    fn exchange(&mut self, node: &mut Node) -> Result<Loss, StepError> {
        if self.visit == 0 {
            self.blocks.1 = self.elastic.first_block(&node.seat().course);
        }
        self.visit += 1;
        self.send(node)?;
        (self.blocks.0, self.done) = (self.blocks.1, 0);
        let (loss, g) = self.motion.gradient(node)?;
        let grants = self.receive(node)?;
        if let Some((first, _)) = grants.first() {
            (self.told, self.blocks.1) = (first.samples, first.steps);
            node.is_told(first.samples);
        }
        let d = self.motion.direction(node, g);
        for (grant, span) in grants {
            let a = self.elastic.at(&node.seat().course, grant.samples);
            let (d, c) = (&d[span.clone()], &self.centre[span.clone()]);
            node.update(span, |x| pulled(x, d, c, a)); // Equation 1
        }
        node.recycle(d);
        Ok(loss)
    }

    /// Step (1), the worker's half.
    fn send(&self, node: &mut Node) -> Result<(), StepError> {
        match &self.post {
            Some(post) => {
                Post::send(post, self.servers, node, self.visit, self.done);
                Ok(())
            }
            None => self.servers.visit(node, self.visit, self.done),
        }
    }

    /// The centre, part by part.
    fn receive(&mut self, node: &mut Node) -> Result<Vec<(Grant, Range<usize>)>, StepError> {
        let Self { servers, post, centre, visit, .. } = self;
        let Some(post) = post else {
            return (0..servers.servers())
                .map(|server| servers.receive_centre(node, server, *visit, centre))
                .collect();
        };
        let answers = Post::receive(post, node)?.into_iter().enumerate();
        answers
            .map(|(server, (grant, packet))| {
                let span = servers.span(server);
                node.wire().weights().decode(&packet, &mut centre[span.clone()])?;
                Ok((grant, span))
            })
            .collect()
    }

    /// A step without.
    fn local_step(&mut self, node: &mut Node) -> Result<Loss, StepError> {
        node.is_told(self.told.saturating_add(self.own(node)));
        let (loss, g) = self.motion.gradient(node)?;
        let d = self.motion.direction(node, g);
        node.update(0..d.len(), |x| crate::vector::add(x, &d));
        node.recycle(d);
        Ok(loss)
    }

    /// My samples since the last exchange.
    fn own(&self, node: &Node) -> u64 {
        self.done.saturating_mul(node.batch().examples.len() as u64)
    }
}

/// A centre that one lane at a time may change.
pub struct Locked {
    centre: Vector,
}

impl Locked {
    /// So many weights.
    pub fn new(parameters: usize) -> Self {
        Self { centre: Vector::zeros(parameters) }
    }
}

impl Centre for Locked {
    fn load(&mut self, weights: &[f32]) {
        self.centre.copy_from_slice(weights);
    }

    fn copy(&self, into: &mut [f32]) {
        into.copy_from_slice(&self.centre);
    }
}

/// The master's lane for one worker.
pub struct Master {
    floor: Floor<Locked>,
    visitor: Visitor,
    elastic: Elastic,
    x: Vector,
}

impl Master {
    /// The lane for `visitor` of a master with so many weights.
    pub fn new(floor: Floor<Locked>, visitor: Visitor, elastic: Elastic, parameters: usize) -> Self {
        Self { floor, visitor, elastic, x: Vector::zeros(parameters) }
    }

    fn serve(&mut self, desk: &mut Desk) -> Result<Turn, StepError> {
        let Self { floor, visitor, elastic, x } = self;
        let i = visitor.worker();
        let done = match visitor.receive(desk, floor, x)? {
            Visit::Weights { done } => done,
            Visit::Farewell { done } => {
                floor.write(|ledger| ledger.count(i, done));
                return Ok(Turn::Finished);
            }
        };
        let mut master = floor.take(desk, i)?;
        let (applied, steps) =
            floor.write(|ledger| (ledger.apply_block(i, done), ledger.grant(i, elastic.period)));
        visitor.record(desk, applied);
        let sent = visitor.encode(desk, &master.centre);
        let a = elastic.at(&desk.seat.course, applied.samples);
        desk.lane.clock.timed(Phase::Update, Work::Update(x.len()), || {
            for (c, x) in master.centre.iter_mut().zip(x.iter()) {
                *c = drawn(*c, *x, a); // Equation 2, of one worker
            }
        });
        floor.put_back(master);
        visitor.answer(desk, floor, Grant { samples: applied.samples, steps }, sent)?;
        Ok(Turn::Served(applied.samples))
    }
}

impl Service for Master {
    fn lane(&self) -> LaneId {
        LaneId::Client(self.visitor.worker() as u16)
    }

    fn turn(&mut self, desk: &mut Desk) -> Result<Turn, StepError> {
        let turn = self.serve(desk);
        self.visitor.settle(turn, desk, &self.floor)
    }
}
