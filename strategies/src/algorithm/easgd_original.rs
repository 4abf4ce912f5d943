//! Original EASGD: elastic averaging, round robin.
//!
//! Source: You, Buluc and Demmel, "Scaling Deep Learning on GPU and Knights Landing Clusters", SC 2017, Algorithm 1,
//! after Zhang, Choromanska and `LeCun`, NIPS 2015.
//!
//! | paper | here |
//! |---|---|
//! | W^j | `node.params()` |
//! | the center weight on the CPU | `Master::centre`; `Worker::centre` as it was sent |
//! | j = t mod G | `Turns::pass_on`, from worker 0 on |
//! | dW^j | `g` |
//! | eta | `node.rate()`, after the samples of all turns before |
//! | eta rho | `moving_rate`: a |
//!
//! Sent per step: the weights up and the centre down, and two notes: that the turn begins, and that it ends.
//!
//! Departures: a turn is a step of one worker with its share of the batch. With `overlap`, lines 10 and 12 (both send
//! weights of before the step) run beside line 11, as the paper's Original EASGD does; without, one after the other: its
//! EASGD*. The weights are the same. Where they are coded, each end moves towards the decoded other. A worker that is
//! gone is left out of the round, and its unfinished turn counts for nothing.

use crate::desk::Desk;
use crate::node::Node;
use crate::server::{Shards, Turns, drawn, pulled};
use crate::strategy::{Progress, Service, Strategy, Turn};
use crate::vector::Vector;
use crate::{Kind, Loss, Place, StepError, Tag};
use recipe::MovingRate;
use record::{LaneId, Phase, Work};
use std::borrow::Cow;

/// Every worker.
pub struct Worker {
    servers: Shards,
    moving_rate: MovingRate,
    overlap: bool,
    centre: Vector,
    progress: Progress,
}

impl Worker {
    /// A worker of one master.
    pub fn new(servers: Shards, moving_rate: MovingRate, overlap: bool) -> Self {
        let centre = Vector::zeros(servers.parameters());
        Self { servers, moving_rate, overlap, centre, progress: Progress { samples: 0, over: false } }
    }

    /// Waits for turn number `turn` of this worker.
    fn wait_for(&mut self, node: &mut Node, turn: u64) -> Result<(), StepError> {
        self.progress = self.servers.wait_for_turn(node, turn)?;
        Ok(())
    }

    fn send(&self, node: &mut Node, tag: Tag) -> Result<(), StepError> {
        node.send_params_of(self.servers.place(0), tag, self.servers.span(0))
    }

    fn receive(&mut self, node: &mut Node, tag: Tag) -> Result<(), StepError> {
        node.wire().weights().recv_into(self.servers.place(0), tag, &mut self.centre)
    }
}

impl Strategy for Worker {
    fn step(&mut self, node: &mut Node) -> Result<Loss, StepError> {
        let t = node.t();
        let (up, down) = (Tag::new(Kind::Push, t), Tag::new(Kind::Pull, t).part(1));
        if t == 1 {
            self.wait_for(node, t)?;
        }
        node.is_told(self.progress.samples);
        let (loss, g) = if self.overlap {
            self.send(node, up)?;
            let computed = node.gradient()?;
            self.receive(node, down)?;
            computed
        } else {
            self.receive(node, down)?; // line 10
            let computed = node.gradient()?; // line 11
            self.send(node, up)?; // line 12
            computed
        };
        let d = node.direction(g);
        let a = self.moving_rate.at(node.rate(), node.trainers().size());
        node.update(0..d.len(), |x| pulled(x, &d, &self.centre, a)); // line 13
        node.recycle(d);
        self.servers.end_turn(node, t)?;
        // Whether another turn comes is known when it comes.
        self.wait_for(node, t + 1)?;
        Ok(loss)
    }

    fn progress(&self, _: &Node) -> Progress {
        self.progress
    }
}

/// The master.
pub struct Master {
    shards: Shards,
    moving_rate: MovingRate,
    centre: Vector,
    x: Vector,
    turns: Turns,
    finished: bool,
}

impl Master {
    /// The master of these workers.
    pub fn new(shards: Shards, moving_rate: MovingRate) -> Self {
        let (centre, x) = (Vector::zeros(shards.parameters()), Vector::zeros(shards.parameters()));
        Self { shards, moving_rate, centre, x, turns: Turns::default(), finished: false }
    }

    /// One turn of worker `j`: answers the samples after it.
    fn serve(&mut self, desk: &mut Desk, j: usize) -> Result<u64, StepError> {
        let (place, consumed, t) = (Place(j), self.turns.samples(), self.turns.begin(j));
        let (up, down) = (Tag::new(Kind::Push, t), Tag::new(Kind::Pull, t));
        self.turns.call(desk, j)?;
        let mut wire = desk.wire().weights();
        wire.send(place, down.part(1), 0, &self.centre)?;
        wire.recv_into(place, up, &mut self.x)?;
        desk.wire().recv_packet(place, up.part(1))?;
        let a = self.moving_rate.at(desk.seat.course.rate(consumed), self.shards.workers());
        desk.lane.clock.timed(Phase::Update, Work::Update(self.x.len()), || {
            for (c, x) in self.centre.iter_mut().zip(self.x.iter()) {
                *c = drawn(*c, *x, a); // line 14
            }
        });
        let applied = self.turns.end(j, desk.seat.course.own_samples(t, j) as u64);
        self.turns.record(desk, j, applied);
        Ok(applied.samples)
    }

    fn over(&mut self, desk: &mut Desk) -> Result<Turn, StepError> {
        for j in self.turns.here() {
            self.turns.begin(j);
            if let Err(error) = self.turns.send_home(desk, j) {
                self.turns.lose(desk, j, error)?;
            }
        }
        self.finished = true;
        Ok(Turn::Finished)
    }
}

impl Service for Master {
    fn lane(&self) -> LaneId {
        LaneId::Clients
    }

    fn start(&mut self, desk: &mut Desk) -> Result<Option<Vector>, StepError> {
        desk.recv_broadcast(Place(0), &mut self.centre)?;
        self.turns = Turns::of(desk.seat.course.workers());
        Ok(Some(self.centre.clone()))
    }

    fn turn(&mut self, desk: &mut Desk) -> Result<Turn, StepError> {
        if self.finished {
            return Ok(Turn::Finished);
        }
        // Each worker has one turn, however short the training: it comes with its weights to be called at all.
        while self.turns.samples() < desk.seat.course.budget() || self.turns.somebody_had_none() {
            let j = self.turns.pass_on();
            match self.serve(desk, j) {
                Ok(samples) => return Ok(Turn::Served(samples)),
                Err(error) => self.turns.lose(desk, j, error)?,
            }
        }
        self.over(desk)
    }

    fn model(&self) -> Option<Cow<'_, Vector>> {
        Some(Cow::Borrowed(&self.centre))
    }
}
