//! A worker as the server's lane for it sees it.

use crate::desk::Desk;
use crate::server::floor::{Centre, Floor};
use crate::server::ledger::{Applied, Ledger};
use crate::strategy::{Progress, Turn};
use crate::vector::Vector;
use crate::{Kind, Packet, Place, StepError, Tag};
use bytes::Bytes;
use recipe::Serve;
use record::{Event, LostRecord, Rank, UpdateRecord};

/// What a worker sends in place of a gradient when none follows: one byte, which no vector is encoded as.
pub(super) const GOODBYE: Packet = Packet(Bytes::from_static(&[0]));

/// What a worker sends before a vector where it must ask first.
pub(super) const ASK: Packet = Packet(Bytes::from_static(&[1]));
/// What it is answered when its turn comes.
const GRANT: Packet = Packet(Bytes::from_static(&[1]));
/// What it sends when it has the answer: its turn is over.
pub(super) const RECEIVED: Packet = Packet(Bytes::from_static(&[1]));

/// The number of a message in an exchange. Of those of one kind the order is: the question, the vector, the receipt up,
/// and the permission, the note, the vector down.
pub(super) mod part {
    pub(in crate::server) const VECTOR: usize = 1;
    pub(in crate::server) const TURN: usize = 2;
}

/// One worker of a server.
#[derive(Debug)]
pub struct Client {
    worker: usize,
    serve: Serve,
    /// Silences after which a worker is given up that has asked for nothing.
    silences: u64,
    /// Position of the server's part in the whole vector.
    pub(super) at: usize,
    pub(super) step: u64,
    /// The last step whose gradient came.
    pub(super) came: u64,
}

/// What goes before the weights in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Note {
    /// Samples consumed by all workers together.
    pub(super) samples: u64,
    /// Whether weights follow.
    pub(super) weights: bool,
}

impl Note {
    pub(super) fn encode(self) -> Packet {
        let mut bytes = self.samples.to_le_bytes().to_vec();
        bytes.push(u8::from(self.weights));
        Packet(bytes.into())
    }

    pub(super) fn decode(packet: &Packet, rank: Rank) -> Result<Self, StepError> {
        let fields = packet.0.split_last().zip(packet.0.first_chunk::<8>());
        match fields {
            Some(((weights, rest), samples)) if rest.len() == 8 => {
                Ok(Self { samples: u64::from_le_bytes(*samples), weights: *weights != 0 })
            }
            _ => Err(StepError::Transport {
                rank,
                reason: format!("{} bytes are no note of a server", packet.0.len()),
            }),
        }
    }
}

impl Client {
    /// The lane's worker; the server holds the weights from position `at` on, and serves all workers at once.
    pub fn new(worker: usize, at: usize) -> Self {
        Self { worker, serve: Serve::All, silences: 1, at, step: 0, came: 0 }
    }

    /// The same on a server that serves one worker at a time or all, and gives a worker up after `silences` silences.
    #[must_use]
    pub fn served(self, serve: Serve, silences: u64) -> Self {
        Self { serve, silences, ..self }
    }

    /// Its place among the workers.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// Its next gradient, which comes when it has asked and its turn has come, where it must ask; none if it says good-bye
    /// instead.
    pub fn receive<C: Centre>(
        &mut self,
        desk: &mut Desk,
        floor: &Floor<C>,
        gradient: &mut Vector,
    ) -> Result<Option<()>, StepError> {
        self.step += 1;
        let (from, push) = (Place(self.worker), Tag::new(Kind::Push, self.step));
        let mut packet = desk.recv_patiently(self.silences, |desk| desk.wire().recv_packet(from, push))?;
        if packet == GOODBYE {
            return Ok(None);
        }
        if self.serve == Serve::One {
            self.admit(desk, floor, self.pull())?;
            packet = desk.wire().recv_packet(from, push.part(part::VECTOR))?;
        }
        desk.wire().decode(&packet, gradient)?;
        self.came = self.step;
        Ok(Some(()))
    }

    /// Waits for the worker's turn, and tells it.
    pub(super) fn admit<C: Centre>(
        &self,
        desk: &mut Desk,
        floor: &Floor<C>,
        pull: Tag,
    ) -> Result<(), StepError> {
        floor.begin_turn(&mut desk.lane, self.worker)?;
        desk.wire().exact().send_packet(Place(self.worker), pull.part(part::TURN), GRANT)
    }

    /// Waits until the worker has the answer: then its turn is over.
    pub(super) fn dismiss<C: Centre>(
        &self,
        desk: &mut Desk,
        floor: &Floor<C>,
        push: Tag,
    ) -> Result<(), StepError> {
        if self.serve == Serve::One {
            desk.wire().recv_packet(Place(self.worker), push.part(part::TURN))?;
            floor.end_turn(self.worker);
        }
        Ok(())
    }

    /// Whether the worker must ask.
    pub(super) fn asks(&self) -> bool {
        self.serve == Serve::One
    }

    /// Silences after which it is given up while it asks for nothing.
    pub(super) fn silences(&self) -> u64 {
        self.silences
    }

    /// Waits until the worker may go on: meanwhile its turn is over, and then it comes again.
    pub fn wait_to_go<C: Centre>(&self, desk: &mut Desk, floor: &Floor<C>) -> Result<(), StepError> {
        if self.serve == Serve::One {
            floor.end_turn(self.worker);
        }
        floor.wait(&mut desk.lane, |ledger| ledger.may_go(self.worker).then_some(()))?;
        if self.serve == Serve::One {
            floor.begin_turn(&mut desk.lane, self.worker)?;
        }
        Ok(())
    }

    /// Writes down what became of its gradient.
    pub fn record(&self, desk: &Desk, applied: Applied) {
        let Applied { version, staleness, samples, .. } = applied;
        desk.record(Event::Update(UpdateRecord {
            rank: desk.seat.rank,
            worker: desk.seat.everyone.rank(Place(self.worker)),
            step: self.step,
            version,
            staleness,
            samples,
            at: desk.lane.clock.now(),
        }));
    }

    /// Encodes the weights that go with an answer, where it has any.
    pub fn encode(&self, desk: &mut Desk, progress: Progress, weights: &[f32]) -> Option<Packet> {
        let pull = self.pull().part(part::VECTOR);
        (!progress.over).then(|| {
            let mut wire = desk.wire().weights();
            wire.encode(wire.slot(Place(self.worker), pull, self.at), weights)
        })
    }

    /// Sends how far the run is, and the weights for the next step. Where the worker's turn lasts until it has them, waits for
    /// its receipt.
    pub fn answer<C: Centre>(
        &self,
        desk: &mut Desk,
        floor: &Floor<C>,
        progress: Progress,
        weights: Option<Packet>,
    ) -> Result<(), StepError> {
        let (to, note) = (Place(self.worker), Note { samples: progress.samples, weights: weights.is_some() });
        desk.wire().exact().send_packet(to, self.pull(), note.encode())?;
        if let Some(weights) = weights {
            desk.wire().weights().send_packet(to, self.pull().part(part::VECTOR), weights)?;
        }
        self.dismiss(desk, floor, Tag::new(Kind::Push, self.step))
    }

    /// What a turn comes to. A worker that is gone is written down, and the others go on without it; only when
    /// all are gone is the run.
    pub fn settle<C: Centre>(
        &self,
        turn: Result<Turn, StepError>,
        desk: &Desk,
        floor: &Floor<C>,
    ) -> Result<Turn, StepError> {
        let worker = desk.seat.everyone.rank(Place(self.worker));
        if turn.is_err() {
            // Or the others would wait for the end of its turn.
            floor.end_turn(self.worker);
        }
        let error = match turn {
            Err(error) if error.is_absence_of(worker) => error,
            Ok(Turn::Finished) => {
                floor.write(|ledger| ledger.leave(self.worker));
                return Ok(Turn::Finished);
            }
            other => return other,
        };
        // A run that is told to stop loses its workers one by one, and nothing is wrong with it.
        if desk.observer.stopping() {
            return Err(error);
        }
        floor.write(|ledger| ledger.lose(self.worker));
        if floor.read(Ledger::is_abandoned) {
            return Err(error);
        }
        desk.record(Event::Lost(LostRecord {
            rank: desk.seat.rank,
            peer: worker,
            step: self.came + 1,
            at: desk.lane.clock.now(),
            reason: error.to_string(),
        }));
        Ok(Turn::Finished)
    }

    fn pull(&self) -> Tag {
        Tag::new(Kind::Pull, self.step)
    }
}
