//! The lane of a server that puts the model aside for evaluation, and stays until the last worker has left.

use crate::desk::Desk;
use crate::server::floor::{Centre, Floor};
use crate::server::ledger::Ledger;
use crate::server::shards::Shards;
use crate::strategy::{Service, Turn};
use crate::vector::Vector;
use crate::{Kind, Place, StepError, Tag};
use record::{LaneId, Phase, Work};
use std::borrow::Cow;

/// Puts the model aside. Where several servers share it, the first one has it whole: the others send their parts,
/// each as it is when its own books reach the mark.
pub struct Keeper<C> {
    floor: Floor<C>,
    shards: Shards,
    server: usize,
    /// Silences of another server before it is given up: it may wait for workers that others have lost.
    silences: u64,
    /// The whole model on the first server, the server's part on the others.
    model: Vector,
    mark: u64,
    closed: bool,
}

impl<C: Centre> Keeper<C> {
    /// The keeper of a server; `silences` is how often a server may fall silent before it knows that a worker is gone.
    pub fn new(floor: Floor<C>, shards: Shards, server: usize, silences: u64) -> Self {
        let model = Vector::zeros(shards.parameters());
        Self { floor, shards, server, silences, model, mark: 0, closed: false }
    }

    /// Copies the present weights, and brings the parts of all servers together on the first. Answers the samples
    /// that this server's part has seen.
    fn gather(&mut self, desk: &mut Desk) -> Result<u64, StepError> {
        let workers = desk.seat.course.workers();
        let centre = self.floor.take(desk, workers)?;
        let samples = self.floor.read(Ledger::samples);
        let own = if self.server == 0 { self.shards.span(0) } else { 0..self.model.len() };
        desk.lane.clock.timed(Phase::Snapshot, Work::Snapshot(0), || centre.copy(&mut self.model[own]));
        self.floor.put_back(centre);
        let tag = Tag::new(Kind::Mark, self.mark);
        if self.server > 0 {
            let at = self.shards.span(self.server).start;
            desk.wire().exact().send(self.shards.place(0), tag, at, &self.model)?;
            return Ok(samples);
        }
        for other in 1..self.shards.servers() {
            let span = self.shards.span(other);
            let from = self.shards.place(other);
            let part = desk.recv_patiently(self.silences, |desk| desk.wire().recv_packet(from, tag))?;
            desk.wire().exact().decode(&part, &mut self.model[span])?;
        }
        Ok(samples)
    }
}

impl<C: Centre> Service for Keeper<C> {
    fn lane(&self) -> LaneId {
        LaneId::Snapshot
    }

    fn start(&mut self, desk: &mut Desk) -> Result<Option<Vector>, StepError> {
        desk.recv_broadcast(Place(0), &mut self.model)?;
        let (initial, own) = (self.model.clone(), self.shards.span(self.server));
        let mut centre = self.floor.take(desk, desk.seat.course.workers())?;
        centre.load(&initial[own.clone()]);
        self.floor.put_back(centre);
        if self.server > 0 {
            self.model = initial[own].to_vec().into();
        }
        Ok(Some(initial))
    }

    fn turn(&mut self, desk: &mut Desk) -> Result<Turn, StepError> {
        if self.closed {
            return Ok(Turn::Finished);
        }
        while self.mark < desk.seat.course.evaluations() {
            self.mark += 1;
            let due = desk.seat.course.evaluation_at(self.mark);
            let reached = self.floor.wait(&mut desk.lane, |ledger| {
                if ledger.samples() >= due { Some(true) } else { ledger.is_closed().then_some(false) }
            })?;
            if reached {
                return self.gather(desk).map(Turn::Served);
            }
            // A worker was lost, and a gradient of it may have come to some of the servers only. All have the same
            // marks, so that the parts of one mark never meet those of another.
            if self.shards.servers() > 1 {
                self.gather(desk)?;
            }
        }
        self.mark += 1;
        let abandoned =
            self.floor.wait(&mut desk.lane, |ledger| ledger.is_closed().then(|| ledger.is_abandoned()))?;
        if abandoned {
            return Err(StepError::Stopped);
        }
        self.closed = true;
        self.gather(desk).map(Turn::Served)
    }

    fn model(&self) -> Option<Cow<'_, Vector>> {
        (self.server == 0).then_some(Cow::Borrowed(&self.model))
    }
}
