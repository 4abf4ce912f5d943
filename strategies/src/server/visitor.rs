//! What an elastic worker and its centre say to each other: weights up, the centre down, and how many steps follow.
//!
//! A worker comes when a block of local steps begins, says how many it has done since it came last, and computes on
//! while the centre is under way. The answer says how long its *next* block is: a worker knows at the end of a block
//! whether another follows, and never waits for that alone.

use crate::course::Course;
use crate::desk::Desk;
use crate::node::Node;
use crate::server::client::{Client, Note, part};
use crate::server::floor::{Centre, Floor};
use crate::server::ledger::Applied;
use crate::server::shards::Shards;
use crate::strategy::Turn;
use crate::vector::Vector;
use crate::{Kind, Packet, Place, StepError, Tag};
use recipe::MovingRate;
use record::Rank;
use std::ops::Range;

/// How workers and centre of a run are drawn to each other, and how often.
#[derive(Clone, Copy, Debug)]
pub struct Elastic {
    /// Part of the way that each goes.
    pub moving_rate: MovingRate,
    /// Local steps from one exchange to the next.
    pub period: u64,
}

impl Elastic {
    /// Steps of every worker's first block: no more than the training takes if all are equally fast.
    pub fn first_block(self, course: &Course) -> u64 {
        self.period.min(course.whole_batches())
    }

    /// a, after so many samples.
    pub fn at(self, course: &Course, consumed: u64) -> f32 {
        self.moving_rate.at(course.rate(consumed), course.workers())
    }
}

/// c + a (x - c): where a centre goes that a worker draws to itself.
pub fn drawn(c: f32, x: f32, a: f32) -> f32 {
    c + a * (x - c)
}

/// x + d - a (x - c): where a worker goes by its own motion d and the pull of a centre, both from its old weights.
pub fn pulled(x: &mut [f32], d: &[f32], c: &[f32], a: f32) {
    for ((x, d), c) in x.iter_mut().zip(d).zip(c) {
        *x = (*x + d) - a * (*x - c);
    }
}

/// How a worker comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// With its weights.
    Weights {
        /// Local steps since it came last.
        done: u64,
    },
    /// To say good-bye.
    Farewell {
        /// Local steps since it came last.
        done: u64,
    },
}

/// What comes with the centre.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Samples consumed by all workers together, as the centre knows them.
    pub samples: u64,
    /// Steps of the worker's next block; with none, the present one is its last.
    pub steps: u64,
}

impl Grant {
    fn encode(self) -> Packet {
        Packet([self.samples.to_le_bytes(), self.steps.to_le_bytes()].concat().into())
    }

    pub(super) fn decode(packet: &Packet, rank: Rank) -> Result<Self, StepError> {
        let number = |bytes: Option<&[u8; 8]>| bytes.map(|bytes| u64::from_le_bytes(*bytes));
        let (samples, steps) = (number(packet.0.first_chunk()), number(packet.0.last_chunk()));
        match (samples, steps) {
            (Some(samples), Some(steps)) if packet.0.len() == 16 => Ok(Self { samples, steps }),
            _ => Err(StepError::Transport {
                rank,
                reason: format!("{} bytes are no grant of a centre", packet.0.len()),
            }),
        }
    }
}

/// One elastic worker, as the centre's lane for it sees it.
#[derive(Debug)]
pub struct Visitor {
    client: Client,
    /// Steps between two visits.
    period: u64,
    visit: u64,
}

impl Visitor {
    /// The lane's worker.
    pub fn new(client: Client, period: u64) -> Self {
        Self { client, period, visit: 0 }
    }

    /// Its place among the workers.
    pub fn worker(&self) -> usize {
        self.client.worker()
    }

    /// Waits until it comes, and for its turn, where it must ask; its weights are put into `x`.
    pub fn receive<C: Centre>(
        &mut self,
        desk: &mut Desk,
        floor: &Floor<C>,
        x: &mut Vector,
    ) -> Result<Visit, StepError> {
        self.visit += 1;
        let (from, rank) = (Place(self.worker()), desk.seat.rank);
        let tag = Tag::new(Kind::Push, self.visit);
        let Note { samples: done, weights } = Note::decode(&self.await_visit(desk, from, tag)?, rank)?;
        if !weights {
            self.client.came = self.client.came.saturating_add(done);
            return Ok(Visit::Farewell { done });
        }
        if self.client.asks() {
            self.client.admit(desk, floor, self.pull())?;
        }
        desk.wire().weights().recv_into(from, tag.part(part::VECTOR), x)?;
        self.client.came = self.client.came.saturating_add(done);
        self.client.step = self.client.came.saturating_add(1);
        Ok(Visit::Weights { done })
    }

    /// What it says first. Between two visits it takes steps without a word: each may take as long as a peer may be silent.
    fn await_visit(&self, desk: &mut Desk, from: Place, tag: Tag) -> Result<Packet, StepError> {
        let silences = self.period + self.client.silences() - 1;
        desk.recv_patiently(silences, |desk| desk.wire().recv_packet(from, tag))
    }

    /// Writes down what became of its weights.
    pub fn record(&self, desk: &Desk, applied: Applied) {
        self.client.record(desk, applied);
    }

    /// Encodes the centre.
    pub fn encode(&self, desk: &mut Desk, centre: &[f32]) -> Packet {
        let mut wire = desk.wire().weights();
        wire.encode(wire.slot(Place(self.worker()), self.pull(), self.client.at), centre)
    }

    /// Sends the grant and the centre. Where the worker's turn lasts until it has them, waits for its receipt.
    pub fn answer<C: Centre>(
        &self,
        desk: &mut Desk,
        floor: &Floor<C>,
        grant: Grant,
        centre: Packet,
    ) -> Result<(), StepError> {
        let to = Place(self.worker());
        desk.wire().exact().send_packet(to, self.pull(), grant.encode())?;
        desk.wire().weights().send_packet(to, self.pull().part(part::VECTOR), centre)?;
        self.client.dismiss(desk, floor, Tag::new(Kind::Push, self.visit))
    }

    /// What a turn comes to: as for [`Client::settle`].
    pub fn settle<C: Centre>(
        &self,
        turn: Result<Turn, StepError>,
        desk: &Desk,
        floor: &Floor<C>,
    ) -> Result<Turn, StepError> {
        self.client.settle(turn, desk, floor)
    }

    fn pull(&self) -> Tag {
        Tag::new(Kind::Pull, self.visit)
    }
}

impl Shards {
    /// Comes to all servers with my weights, after so many steps without them.
    pub fn visit(&self, node: &mut Node, visit: u64, done: u64) -> Result<(), StepError> {
        let tag = Tag::new(Kind::Push, visit);
        for server in 0..self.servers() {
            let (place, span) = (self.place(server), self.span(server));
            let note = Note { samples: done, weights: true };
            node.wire().exact().send_packet(place, tag, note.encode())?;
            node.send_params_of(place, tag.part(part::VECTOR), span)?;
        }
        Ok(())
    }

    /// Receives a server's part of the centre into its place in `c`.
    pub fn receive_centre(
        &self,
        node: &mut Node,
        server: usize,
        visit: u64,
        c: &mut [f32],
    ) -> Result<(Grant, Range<usize>), StepError> {
        let (place, tag, span) = (self.place(server), Tag::new(Kind::Pull, visit), self.span(server));
        let grant = Grant::decode(&node.wire().recv_packet(place, tag)?, node.rank())?;
        node.wire().weights().recv_into(place, tag.part(part::VECTOR), &mut c[span.clone()])?;
        Ok((grant, span))
    }

    /// Tells all servers that no weights follow after so many steps.
    pub fn leave(&self, node: &mut Node, visit: u64, done: u64) -> Result<(), StepError> {
        let note = Note { samples: done, weights: false };
        (0..self.servers()).try_for_each(|server| {
            node.wire().exact().send_packet(self.place(server), Tag::new(Kind::Push, visit), note.encode())
        })
    }
}
