//! A worker as the server's lane for it sees it.

use crate::desk::Desk;
use crate::server::floor::{Centre, Floor};
use crate::server::ledger::{Applied, Ledger};
use crate::strategy::{Progress, Turn};
use crate::vector::Vector;
use crate::{Kind, Packet, Place, StepError, Tag};
use bytes::Bytes;
use record::{Event, LostRecord, Rank, UpdateRecord};

/// What a worker sends in place of a gradient when none follows: one byte, which no vector is encoded as.
pub(super) const GOODBYE: Packet = Packet(Bytes::from_static(&[0]));

/// One worker of a server.
#[derive(Debug)]
pub struct Client {
    worker: usize,
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
    /// The lane's worker; the server holds the weights from position `at` on.
    pub fn new(worker: usize, at: usize) -> Self {
        Self { worker, at, step: 0, came: 0 }
    }

    /// Its place among the workers.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// Its next gradient; none if it says good-bye instead.
    pub fn receive(&mut self, desk: &mut Desk, gradient: &mut Vector) -> Result<Option<()>, StepError> {
        self.step += 1;
        let packet = desk.wire().recv_packet(Place(self.worker), Tag::new(Kind::Push, self.step))?;
        if packet == GOODBYE {
            return Ok(None);
        }
        desk.wire().decode(&packet, gradient)?;
        self.came = self.step;
        Ok(Some(()))
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
        let pull = self.pull().part(1);
        (!progress.over).then(|| {
            let mut wire = desk.wire().weights();
            wire.encode(wire.slot(Place(self.worker), pull, self.at), weights)
        })
    }

    /// Answers: how far the run is, and the weights for the next step.
    pub fn answer(
        &self,
        desk: &mut Desk,
        progress: Progress,
        weights: Option<Packet>,
    ) -> Result<(), StepError> {
        let note = Note { samples: progress.samples, weights: weights.is_some() };
        desk.wire().exact().send_packet(Place(self.worker), self.pull(), note.encode())?;
        match weights {
            Some(weights) => {
                desk.wire().weights().send_packet(Place(self.worker), self.pull().part(1), weights)
            }
            None => Ok(()),
        }
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
