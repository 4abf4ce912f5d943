//! Workers that are served one after the other: whose turn it is, who is gone, and what is said about it.

use crate::desk::Desk;
use crate::node::Node;
use crate::server::client::Note;
use crate::server::ledger::Applied;
use crate::server::shards::Shards;
use crate::strategy::Progress;
use crate::{Kind, Packet, Place, StepError, Tag};
use bytes::Bytes;
use record::{Event, LostRecord, Phase, UpdateRecord};

/// What a worker sends when its turn ends.
const DONE: Packet = Packet(Bytes::from_static(&[1]));

/// The books of a round robin.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    workers: Vec<Member>,
    /// Whose turn it was.
    last: Option<usize>,
    version: u64,
    samples: u64,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    /// Its turns, with the present one.
    turns: u64,
    /// The version that its last turn left.
    read: u64,
    here: bool,
}

impl Turns {
    /// The books of so many workers, of whom the first begins.
    pub fn of(workers: usize) -> Self {
        let member = Member { turns: 0, read: 0, here: true };
        Self { workers: vec![member; workers], ..Self::default() }
    }

    /// Samples of all turns.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Passes the turn on: whose it is now.
    pub fn pass_on(&mut self) -> usize {
        let p = self.workers.len();
        let from = self.last.map_or(0, |last| last + 1);
        let next = (from..from + p).map(|j| j % p).find(|j| self.workers[*j].here).unwrap_or(0);
        self.last = Some(next);
        next
    }

    /// Whether a worker that is not gone has had no turn yet.
    pub fn somebody_had_none(&self) -> bool {
        self.workers.iter().any(|worker| worker.here && worker.turns == 0)
    }

    /// The workers that are not gone.
    pub fn here(&self) -> Vec<usize> {
        (0..self.workers.len()).filter(|j| self.workers[*j].here).collect()
    }

    /// A worker's next turn begins: its number.
    pub fn begin(&mut self, j: usize) -> u64 {
        self.workers[j].turns += 1;
        self.workers[j].turns
    }

    /// Tells a worker that its turn begins.
    pub fn call(&self, desk: &mut Desk, j: usize) -> Result<(), StepError> {
        self.tell(desk, j, true)
    }

    /// Tells a worker that no turn comes any more.
    pub fn send_home(&self, desk: &mut Desk, j: usize) -> Result<(), StepError> {
        self.tell(desk, j, false)
    }

    fn tell(&self, desk: &mut Desk, j: usize, weights_follow: bool) -> Result<(), StepError> {
        let note = Note { samples: self.samples, weights: weights_follow };
        let tag = Tag::new(Kind::Pull, self.workers[j].turns);
        desk.wire().exact().send_packet(Place(j), tag, note.encode())
    }

    /// A worker's turn of so many samples has ended.
    pub fn end(&mut self, j: usize, samples: u64) -> Applied {
        let (consumed, staleness) = (self.samples, self.version - self.workers[j].read);
        self.version += 1;
        self.samples += samples;
        self.workers[j].read = self.version;
        Applied { version: self.version, staleness, consumed, samples: self.samples }
    }

    /// Writes a turn down.
    pub fn record(&self, desk: &Desk, j: usize, applied: Applied) {
        let Applied { version, staleness, samples, .. } = applied;
        desk.record(Event::Update(UpdateRecord {
            rank: desk.seat.rank,
            worker: desk.seat.everyone.rank(Place(j)),
            step: self.workers[j].turns,
            version,
            staleness,
            samples,
            at: desk.lane.clock.now(),
        }));
    }

    /// A worker's turn came to nothing. Where it is gone, this is written down, and the others go on; only when all
    /// are gone is the run.
    pub fn lose(&mut self, desk: &mut Desk, j: usize, error: StepError) -> Result<(), StepError> {
        let peer = desk.seat.everyone.rank(Place(j));
        if !error.is_absence_of(peer) || desk.observer.stopping() {
            return Err(error);
        }
        self.workers[j].here = false;
        if self.here().is_empty() {
            return Err(error);
        }
        desk.record(Event::Lost(LostRecord {
            rank: desk.seat.rank,
            peer,
            step: self.workers[j].turns,
            at: desk.lane.clock.now(),
            reason: error.to_string(),
        }));
        desk.go_on(Phase::Other);
        Ok(())
    }
}

impl Shards {
    /// Waits for the turn of that number, or to hear that none comes any more: longer than for others, because workers
    /// that hang are given up one after the other.
    pub fn wait_for_turn(&self, node: &mut Node, turn: u64) -> Result<Progress, StepError> {
        let tag = Tag::new(Kind::Pull, turn);
        // The master may wait for every other worker before it gives one up.
        let (silences, master) = (self.workers() as u64, self.place(0));
        let packet = node.parts().0.recv_patiently(silences, |desk| desk.wire().recv_packet(master, tag))?;
        let note = Note::decode(&packet, node.rank())?;
        Ok(Progress { samples: note.samples, over: !note.weights })
    }

    /// Says that the turn is over.
    pub fn end_turn(&self, node: &mut Node, turn: u64) -> Result<(), StepError> {
        node.wire().exact().send_packet(self.place(0), Tag::new(Kind::Push, turn).part(1), DONE)
    }
}
