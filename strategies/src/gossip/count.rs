//! The count of consumed samples: the virtual counter k of AD-PSGD, which no worker has in the paper.
//!
//! It belongs to the measurement and not to the method. It decides when the budget is handed out, so that a run consumes
//! less than one step more than its budget, and it tells all workers at once that an evaluation mark is reached, so that
//! the models that are evaluated are those that all workers hold at that moment, however long their steps are.
//!
//! Rank 0 holds it, on lanes of their own: one for each worker, and one that announces marks. A worker claims its next step
//! when it has a gradient, so that the reply comes while the gradient is applied. The messages are a few bytes long and
//! pass no emulated card. A worker that loses rank 0 counts by what its neighbours tell.

use crate::course::Course;
use crate::desk::Desk;
use crate::gossip::Local;
use crate::host::{Bell, Shared};
use crate::server::Ledger;
use crate::strategy::{Progress, Service, Turn};
use crate::vector::Vector;
use crate::{Kind, Packet, Place, StepError, Tag};
use record::{Event, LaneId, LostRecord, Nanos, Phase, Rank};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

/// The rank that holds the count.
const HOLDER: Place = Place(0);

/// Deadlines that the count lets pass in a row before a worker counts as lost: its steps may be long.
const PATIENCE: u64 = 3;

/// What a worker tells the count: one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    /// It asks for a further step.
    Claim,
    /// It has finished a step.
    Finished,
    /// It takes no further step.
    Leave,
}

impl Word {
    const ALL: [Self; 3] = [Self::Claim, Self::Finished, Self::Leave];

    fn encode(self) -> Packet {
        Packet(vec![self as u8].into())
    }

    fn decode(packet: &Packet, rank: Rank) -> Result<Self, StepError> {
        let word = |number: u8| Self::ALL.into_iter().find(|word| *word as u8 == number);
        match packet.0.as_ref() {
            [number] => word(*number),
            _ => None,
        }
        .ok_or_else(|| malformed(rank, packet.0.len(), "word of a worker"))
    }
}

/// What the count replies to a claim: 9 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reply {
    samples: u64,
    granted: bool,
}

impl Reply {
    fn encode(self) -> Packet {
        let mut bytes = self.samples.to_le_bytes().to_vec();
        bytes.push(u8::from(self.granted));
        Packet(bytes.into())
    }

    fn decode(packet: &Packet, rank: Rank) -> Result<Self, StepError> {
        match packet.0.split_first_chunk::<8>() {
            Some((samples, [granted @ 0..2])) => {
                Ok(Self { samples: u64::from_le_bytes(*samples), granted: *granted == 1 })
            }
            _ => Err(malformed(rank, packet.0.len(), "reply of the sample count")),
        }
    }
}

/// An evaluation mark that the run has reached: 16 bytes; none when no further one follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    /// Samples consumed by all ranks together.
    samples: u64,
    /// When the last of them was counted, on the clock of the run.
    at: Nanos,
}

impl Mark {
    fn encode(mark: Option<Self>) -> Packet {
        let Some(Self { samples, at }) = mark else { return Packet::default() };
        Packet([samples.to_le_bytes(), at.0.to_le_bytes()].concat().into())
    }

    fn decode(packet: &Packet, rank: Rank) -> Result<Option<Self>, StepError> {
        match packet.0.as_chunks::<8>() {
            ([], []) => Ok(None),
            ([samples, at], []) => {
                Ok(Some(Self { samples: u64::from_le_bytes(*samples), at: Nanos(u64::from_le_bytes(*at)) }))
            }
            _ => Err(malformed(rank, packet.0.len(), "evaluation mark")),
        }
    }
}

fn malformed(rank: Rank, bytes: usize, what: &str) -> StepError {
    StepError::Transport { rank, reason: format!("a message of {bytes} bytes is not a {what}") }
}

/// The count as a worker's compute lane sees it.
#[derive(Default)]
pub struct CountClient {
    /// Words that it was told.
    told: u64,
    lost: bool,
}

impl CountClient {
    /// The client of a worker that has not begun its first step, which it need not claim.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the rank that holds the count is lost.
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// The worker has a gradient, and claims the step after it.
    pub fn claim(&mut self, desk: &mut Desk, local: &Local) -> Result<(), StepError> {
        self.tell(desk, local, Word::Claim)
    }

    /// The gradient is applied: whether the claimed step is granted. `known` samples are consumed as far as the worker's
    /// neighbours told it.
    pub fn finished(&mut self, desk: &mut Desk, local: &Local, known: u64) -> Result<Progress, StepError> {
        let progress = self.reply(desk, local, known)?;
        self.tell(desk, local, Word::Finished)?;
        Ok(progress)
    }

    /// The worker takes no further step. Returns how far the run is.
    pub fn leave(&mut self, desk: &mut Desk, local: &Local, known: u64) -> Result<Progress, StepError> {
        self.tell(desk, local, Word::Leave)?;
        self.reply(desk, local, known)
    }

    fn tell(&mut self, desk: &mut Desk, local: &Local, word: Word) -> Result<(), StepError> {
        if self.lost {
            return Ok(());
        }
        self.told += 1;
        let tag = Tag::new(Kind::Count, self.told);
        let sent = desk.wire().exact().send_packet(HOLDER, tag, word.encode());
        sent.or_else(|error| self.without(desk, local, error))
    }

    /// The reply to the last word.
    fn reply(&mut self, desk: &mut Desk, local: &Local, known: u64) -> Result<Progress, StepError> {
        if !self.lost {
            let tag = Tag::new(Kind::Counted, self.told);
            let rank = desk.seat.rank;
            let packet = desk.wire().exact().recv_packet(HOLDER, tag);
            match packet.and_then(|packet| Reply::decode(&packet, rank)) {
                Ok(Reply { samples, granted }) => {
                    return Ok(Progress { samples: samples.max(known), over: !granted });
                }
                Err(error) => self.without(desk, local, error)?,
            }
        }
        Ok(Progress { samples: known, over: known >= desk.seat.course.budget() })
    }

    /// The holder of the count failed: the worker continues without it. A run that is being stopped loses its ranks one
    /// by one, which is no failure.
    fn without(&mut self, desk: &mut Desk, local: &Local, error: StepError) -> Result<(), StepError> {
        let peer = desk.seat.everyone.rank(HOLDER);
        if !error.is_absence_of(peer) || desk.observer.stopping() {
            return Err(error);
        }
        self.lost = true;
        local.lose_count();
        let (rank, at) = (desk.seat.rank, desk.lane.clock.now());
        // Words are counted here, not the holder's steps.
        desk.record(Event::Lost(LostRecord { rank, peer, step: 0, at, reason: error.to_string() }));
        desk.go_on(Phase::Other);
        Ok(())
    }
}

/// The count, shared by the lanes of the rank that holds it.
#[derive(Clone)]
pub struct SampleCount {
    state: Shared<State>,
}

struct State {
    ledger: Ledger,
    /// The last mark that was reached.
    mark: u64,
    /// Marks that are not announced yet.
    reached: VecDeque<Mark>,
}

impl SampleCount {
    /// The count of a run that has not begun; every worker is granted its first step.
    pub fn new(course: &Course, bell: Arc<dyn Bell>) -> Self {
        let ledger = Ledger::new(course, None, true);
        Self { state: Shared::new(State { ledger, mark: 0, reached: VecDeque::new() }, bell) }
    }

    /// The lanes that hold it.
    pub fn lanes(&self, workers: usize) -> Vec<Box<dyn Service>> {
        let server =
            |worker| Box::new(CountServer { count: self.clone(), worker, heard: 0 }) as Box<dyn Service>;
        let mut lanes: Vec<_> = (0..workers).map(server).collect();
        lanes.push(Box::new(MarkAnnouncer { count: self.clone(), announced: 0, closed: false }));
        lanes
    }

    /// A worker has finished a step.
    fn finished(&self, desk: &Desk, worker: usize) {
        let at = desk.lane.clock.now();
        self.state.change(|state| {
            state.ledger.count(worker, 1);
            let samples = state.ledger.samples();
            let mark = desk.seat.course.mark(samples);
            if mark > state.mark {
                state.mark = mark;
                state.reached.push_back(Mark { samples, at });
            }
        });
    }

    fn grant(&self, worker: usize) -> Reply {
        let Progress { samples, over } = self.state.change(|state| state.ledger.release(worker));
        Reply { samples, granted: !over }
    }

    fn leave(&self, worker: usize) -> Reply {
        let samples = self.state.change(|state| {
            state.ledger.leave(worker);
            state.ledger.samples()
        });
        Reply { samples, granted: false }
    }
}

/// The lane of the count for one worker.
struct CountServer {
    count: SampleCount,
    worker: usize,
    heard: u64,
}

impl CountServer {
    fn serve(&mut self, desk: &mut Desk) -> Result<Turn, StepError> {
        self.heard += 1;
        let (place, tag) = (Place(self.worker), Tag::new(Kind::Count, self.heard));
        let packet = desk.recv_patiently(PATIENCE, |desk| desk.wire().exact().recv_unasked(place, tag))?;
        let word = Word::decode(&packet, desk.seat.rank)?;
        let reply = match word {
            Word::Finished => {
                self.count.finished(desk, self.worker);
                return Ok(Turn::Served(0));
            }
            Word::Claim => self.count.grant(self.worker),
            Word::Leave => self.count.leave(self.worker),
        };
        desk.wire().exact().send_packet(place, Tag::new(Kind::Counted, self.heard), reply.encode())?;
        Ok(if word == Word::Leave { Turn::Finished } else { Turn::Served(reply.samples) })
    }
}

impl Service for CountServer {
    fn lane(&self) -> LaneId {
        LaneId::Count(self.worker as u16)
    }

    /// What a lost worker had claimed is granted to another.
    fn turn(&mut self, desk: &mut Desk) -> Result<Turn, StepError> {
        let (rank, peer) = (desk.seat.rank, desk.seat.everyone.rank(Place(self.worker)));
        self.serve(desk).or_else(|error| {
            if !error.is_absence_of(peer) || desk.observer.stopping() {
                return Err(error);
            }
            self.count.state.change(|state| state.ledger.lose(self.worker));
            let at = desk.lane.clock.now();
            desk.record(Event::Lost(LostRecord { rank, peer, step: 0, at, reason: error.to_string() }));
            Ok(Turn::Finished)
        })
    }
}

/// The lane of the count that tells all workers which marks are reached.
struct MarkAnnouncer {
    count: SampleCount,
    announced: u64,
    closed: bool,
}

impl Service for MarkAnnouncer {
    fn lane(&self) -> LaneId {
        LaneId::Announcer
    }

    fn turn(&mut self, desk: &mut Desk) -> Result<Turn, StepError> {
        if self.closed {
            return Ok(Turn::Finished);
        }
        let mark = self.count.state.wait(&mut desk.lane, |state| match state.reached.pop_front() {
            Some(mark) => Some(Some(mark)),
            None => state.ledger.is_closed().then_some(None),
        })?;
        self.announced += 1;
        let tag = Tag::new(Kind::Mark, self.announced);
        for worker in (0..desk.seat.course.workers()).map(Place) {
            let sent = desk.wire().exact().send_packet(worker, tag, Mark::encode(mark));
            let rank = desk.seat.everyone.rank(worker);
            // Another lane records that this worker is lost.
            if let Err(error) = sent
                && (!error.is_absence_of(rank) || desk.observer.stopping())
            {
                return Err(error);
            }
        }
        self.closed = mark.is_none();
        Ok(Turn::Served(mark.map_or(0, |mark| mark.samples)))
    }
}

/// The lane of a worker that snapshots its model when a mark is reached, while the compute lane computes.
pub struct MarkSnapshots {
    local: Local,
    heard: u64,
    snapshot: Option<(Vector, Nanos)>,
}

impl MarkSnapshots {
    /// The lane of the worker that has this model.
    pub fn new(local: Local) -> Self {
        Self { local, heard: 0, snapshot: None }
    }

    /// The next mark; none after the last, and where the count is lost.
    fn next(&mut self, desk: &mut Desk) -> Result<Option<Mark>, StepError> {
        self.heard += 1;
        let tag = Tag::new(Kind::Mark, self.heard);
        let holder = desk.seat.everyone.rank(HOLDER);
        loop {
            let received = desk.wire().exact().recv_unasked(HOLDER, tag);
            match received {
                Ok(packet) => return Mark::decode(&packet, desk.seat.rank),
                // Marks may be far apart; the compute lane finds out whether the count is lost.
                Err(StepError::Silent { .. }) if self.local.is_counted() => desk.go_on(Phase::Other),
                Err(error) if error.is_absence_of(holder) && !desk.observer.stopping() => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}

impl Service for MarkSnapshots {
    fn lane(&self) -> LaneId {
        LaneId::Snapshot
    }

    fn turn(&mut self, desk: &mut Desk) -> Result<Turn, StepError> {
        self.snapshot = None;
        let Some(Mark { samples, at }) = self.next(desk)? else { return Ok(Turn::Finished) };
        let model = self.local.snapshot(desk, samples);
        self.snapshot = Some((model, at));
        Ok(Turn::Served(samples))
    }

    fn model(&self) -> Option<Cow<'_, Vector>> {
        self.snapshot.as_ref().map(|(model, _)| Cow::Borrowed(model))
    }

    fn moment(&self) -> Option<Nanos> {
        self.snapshot.as_ref().map(|(_, at)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_and_other_bytes_do_not() {
        for word in Word::ALL {
            assert_eq!(Word::decode(&word.encode(), Rank(0)), Ok(word));
        }
        for granted in [false, true] {
            let reply = Reply { samples: u64::MAX - 1, granted };
            assert_eq!(Reply::decode(&reply.encode(), Rank(0)), Ok(reply));
        }
        for mark in [None, Some(Mark { samples: 7, at: Nanos(u64::MAX) })] {
            assert_eq!(Mark::decode(&Mark::encode(mark), Rank(0)), Ok(mark));
        }
        for length in 0..40 {
            let packet = Packet(vec![4; length].into());
            assert!(Word::decode(&packet, Rank(0)).is_err());
            assert!(Reply::decode(&packet, Rank(0)).is_err());
            assert_eq!(Mark::decode(&packet, Rank(0)).is_ok(), length == 0 || length == 16);
        }
    }
}
