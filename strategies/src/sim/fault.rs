//! Faults of a simulated world, and the end of its lanes.
//!
//! The rules are those of real runs: a lane that waits for a killed rank learns it at once, after all messages that
//! the rank had sent; a lane that waits for a stopped rank waits until its deadline; a rank with a failed lane
//! ends its other lanes and leaves. There is no driver here that would stop the other ranks: each finds
//! out by itself. Over a link that dropped nothing arrives, and no rank learns it.

use super::kernel::{Actor, Event, Kernel, Next, Source, State, Wait};
use super::world::{Lane, WorldError, WorldOutcome, blocked, unwind};
use crate::{StepError, Wanted};
use corosensei::CoroutineResult;
use recipe::FaultAction;
use record::{LaneId, Nanos, Phase, Rank};
use std::collections::BTreeSet;

/// A fault at a moment of a simulated run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A rank's process is killed.
    Kill(Rank),
    /// A rank's process is stopped, and stays so.
    Stop(Rank),
    /// The driver is killed, and all ranks with it.
    KillAll,
    /// No snapshot can be written any more.
    FullDisk,
    /// The link of the first rank with the second drops.
    DropLink(Rank, Rank),
}

/// The faults of a world, and the deadline of its ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    /// The deadline of every wait.
    pub patience: Nanos,
    /// Each with its moment, counted from the beginning of the world.
    pub faults: Vec<(Nanos, Fault)>,
}

/// The outcome of a world with faults.
#[derive(Debug)]
pub struct Aftermath {
    /// The records of its ranks.
    pub outcome: WorldOutcome,
    /// When the run's clock started, counted from the beginning of the world; zero if it never did.
    pub origin: Nanos,
    /// How each lane ended.
    pub endings: Vec<Ending>,
}

/// How a lane ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// The rank of the lane.
    pub rank: Rank,
    /// Its purpose on its rank.
    pub lane: LaneId,
    /// When, counted from the beginning of the world; of a lane that hangs: since when.
    pub at: Nanos,
    /// In which step it was.
    pub step: u64,
    /// In which phase it was.
    pub phase: Phase,
    /// The way in which it ended.
    pub end: LaneEnd,
}

/// The ways in which a lane ends.
#[derive(Clone, Debug, PartialEq)]
pub enum LaneEnd {
    /// It came to the end of its work.
    Finished,
    /// It was killed with its process.
    Killed,
    /// Not at all: its process is stopped.
    Hangs,
    /// It failed with this error.
    Failed(StepError),
}

/// How a rank is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Condition {
    #[default]
    Well,
    /// Something beside its lanes, or one of them, failed: the others end.
    Ending(StepError),
    /// It left in order.
    Left,
    Killed,
    Hangs,
    /// It hangs for a while.
    Paused,
}

/// The condition of all ranks.
#[derive(Default)]
pub(super) struct Health {
    /// The deadline of every wait; `None` in a world without faults, where a deadlock is reported.
    patience: Option<Nanos>,
    faults: Vec<Fault>,
    full: bool,
    ranks: Vec<Condition>,
    /// Links that dropped: the rank that it happened to, and its peer.
    dropped: BTreeSet<(Rank, Rank)>,
}

impl Health {
    pub(super) fn of(ranks: usize) -> Self {
        Self { ranks: vec![Condition::Well; ranks], ..Self::default() }
    }

    pub(super) fn runs(&self, rank: Rank) -> bool {
        !matches!(self.ranks[rank.index()], Condition::Killed | Condition::Hangs | Condition::Paused)
    }

    /// Why the rank's lanes are to end, if they are.
    pub(super) fn ending(&self, rank: Rank) -> Option<&StepError> {
        match &self.ranks[rank.index()] {
            Condition::Ending(reason) => Some(reason),
            _ => None,
        }
    }

    pub(super) fn gone(&self, rank: Rank) -> bool {
        matches!(self.ranks[rank.index()], Condition::Killed | Condition::Left)
    }

    /// Whether a message vanishes when it is sent: it leaves a rank that has lost the link.
    pub(super) fn swallows(&self, from: Rank, to: Rank) -> bool {
        self.dropped.contains(&(from, to))
    }

    /// Whether what arrives vanishes: it comes to a rank that has lost the link.
    pub(super) fn turns_away(&self, from: Rank, to: Rank) -> bool {
        self.dropped.contains(&(to, from))
    }

    fn lost(&self, rank: Rank) -> bool {
        self.ranks[rank.index()] == Condition::Killed
    }
}

impl Kernel {
    /// Schedules the faults at their moments, and sets the deadline of all waits.
    pub(super) fn expect(&self, faults: &Faults) {
        let mut state = self.lock();
        state.health.patience = Some(faults.patience);
        for (number, (at, fault)) in faults.faults.iter().enumerate() {
            state.health.faults.push(*fault);
            state.push_first(*at, Event::Fault(number));
        }
    }

    /// Lets happen to the rank of the running lane what its recipe says; returns when the lane runs again.
    pub(super) fn strike(&self, rank: Rank, action: FaultAction) -> Result<(), StepError> {
        let mut state = self.lock();
        match action {
            FaultAction::Slow { .. } => return Ok(()),
            FaultAction::DropLink { peer } => {
                state.drop_link(rank, Rank(peer));
                return Ok(());
            }
            FaultAction::Kill => state.depart(rank, Condition::Killed),
            FaultAction::Pause { length: None } => state.health.ranks[rank.index()] = Condition::Hangs,
            FaultAction::Pause { length: Some(length) } => {
                state.health.ranks[rank.index()] = Condition::Paused;
                let me = state.current;
                state.actors[me].missed = true;
                let length = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX / 2);
                let end = state.now + Nanos(length);
                state.push(end, Event::Continue(rank));
            }
        }
        self.suspend(state, Wait::Time)
    }

    /// Fails the rank if it cannot write a snapshot.
    pub(super) fn writes(&self, rank: Rank, what: &str) {
        let mut state = self.lock();
        if state.health.full && state.health.ranks[rank.index()] == Condition::Well {
            let reason = StepError::Environment(format!("{what} cannot be written: no space left"));
            state.end_lanes(rank, reason);
        }
    }
}

impl State {
    pub(super) fn go_wrong(&mut self, number: usize) {
        match self.health.faults[number] {
            Fault::Kill(rank) => self.depart(rank, Condition::Killed),
            Fault::Stop(rank) if self.health.runs(rank) => {
                self.health.ranks[rank.index()] = Condition::Hangs;
            }
            Fault::Stop(_) => {}
            Fault::KillAll => {
                for rank in 0..self.health.ranks.len() as u32 {
                    self.depart(Rank(rank), Condition::Killed);
                }
            }
            Fault::FullDisk => self.health.full = true,
            Fault::DropLink(rank, peer) => self.drop_link(rank, peer),
        }
    }

    /// A rank loses a link; what it wants to send there needs no room any more.
    fn drop_link(&mut self, rank: Rank, peer: Rank) {
        if rank == peer {
            return;
        }
        self.health.dropped.insert((rank, peer));
        let waits =
            |wait: &Wait| matches!(wait, Wait::Credit { from, to, .. } if (*from, *to) == (rank, peer));
        let waiting: Vec<Actor> =
            (0..self.actors.len()).filter(|actor| waits(&self.actors[*actor].wait)).collect();
        for actor in waiting {
            self.wake(actor);
        }
    }

    /// A paused rank continues: lanes whose turn it was meanwhile have it now.
    pub(super) fn go_on(&mut self, rank: Rank) {
        if self.health.ranks[rank.index()] != Condition::Paused {
            return;
        }
        self.health.ranks[rank.index()] = Condition::Well;
        for actor in 0..self.actors.len() {
            if self.actors[actor].rank == rank && std::mem::take(&mut self.actors[actor].missed) {
                let now = self.now;
                self.push(now, Event::Wake(actor));
            }
        }
    }

    /// A rank leaves or is killed; the waiting lanes look again.
    fn depart(&mut self, rank: Rank, how: Condition) {
        if self.health.gone(rank) {
            return;
        }
        self.health.ranks[rank.index()] = how;
        for actor in 0..self.actors.len() {
            if matches!(self.actors[actor].wait, Wait::Message { .. } | Wait::Credit { .. }) {
                self.wake(actor);
            }
        }
    }

    fn end_lanes(&mut self, rank: Rank, reason: StepError) {
        self.health.ranks[rank.index()] = Condition::Ending(reason);
        for actor in 0..self.actors.len() {
            let waits = !matches!(self.actors[actor].wait, Wait::Running | Wait::Time | Wait::Done);
            if waits && self.actors[actor].rank == rank {
                self.wake(actor);
            }
        }
    }

    pub(super) fn wake(&mut self, actor: Actor) {
        self.actors[actor].wait = Wait::Time;
        let now = self.now;
        self.push(now, Event::Wake(actor));
    }

    /// Looks again who waits for a rank of which a message arrived after its end.
    pub(super) fn wake_mourners(&mut self, of: Rank) {
        if self.health.gone(of) {
            let waits = |wait: &Wait| matches!(wait, Wait::Message { from, .. } if from.is_none_or(|from| from == of));
            let mourners: Vec<Actor> =
                (0..self.actors.len()).filter(|actor| waits(&self.actors[*actor].wait)).collect();
            for actor in mourners {
                self.wake(actor);
            }
        }
    }

    /// Begins a wait with a deadline.
    pub(super) fn begin_wait(&mut self) {
        let me = self.current;
        let now = self.now;
        self.actors[me].waits += 1;
        self.actors[me].timed_out = false;
        if let Some(patience) = self.health.patience {
            let number = self.actors[me].waits;
            self.push(now + patience, Event::Deadline(me, number));
        }
    }

    /// A deadline has come; the lane is ready if it still waits.
    pub(super) fn deadline(&mut self, actor: Actor, number: u64) -> Option<Actor> {
        let late = &mut self.actors[actor];
        let same = late.waits == number;
        // A lane that was woken at this very moment, to look again who is left, has not ended its wait.
        late.timed_out |= same;
        let waits = matches!(late.wait, Wait::Message { .. } | Wait::Credit { .. } | Wait::Start);
        (same && waits).then_some(actor)
    }

    /// The error of a wait that is in vain: the deadline has come, or no awaited rank is left.
    pub(super) fn in_vain(&self, rank: Rank, source: Source<'_>, wanted: Wanted) -> Option<StepError> {
        let gone = |peer| StepError::Gone { rank, peer, wanted };
        let patience = self.health.patience?;
        if self.actors[self.current].timed_out {
            return Some(StepError::Silent { rank, peer: source.rank(), wanted, waited: patience });
        }
        // Messages that a rank sent before its end still arrive.
        let over = |peer: Rank| self.health.gone(peer) && !self.under_way(peer, rank);
        let senders = match source {
            Source::One(from) => return over(from).then(|| gone(from)),
            Source::Any(senders) => senders,
        };
        let sends = |other: &Rank| *other != rank && senders.contains(*other);
        let others = || (0..self.health.ranks.len() as u32).map(Rank).filter(sends);
        let lost = others().find(|other| self.health.lost(*other) && over(*other));
        lost.or_else(|| if others().all(over) { others().next_back() } else { None }).map(gone)
    }
}

/// Runs the lanes of a world with faults to their end.
pub(super) fn schedule(kernel: &Kernel, lanes: &mut [Lane]) -> Result<Vec<Ending>, WorldError> {
    let mut endings = Vec::new();
    loop {
        let actor = match kernel.advance() {
            Next::Ready(actor) => actor,
            Next::Later => continue,
            Next::Quiet => break,
        };
        if let CoroutineResult::Return(result) = lanes[actor].resume(()) {
            let mut state = kernel.lock();
            state.actors[actor].wait = Wait::Done;
            endings.push(state.ended(actor, result));
        }
    }
    let state = kernel.lock();
    let left = (0..lanes.len()).filter(|actor| !matches!(state.actors[*actor].wait, Wait::Done));
    let left: Vec<Ending> = left.map(|actor| state.left_behind(actor)).collect();
    let stuck = left.iter().any(|ending| state.health.runs(ending.rank));
    let waiting = blocked(&state);
    drop(state);
    unwind(kernel, lanes);
    if stuck {
        return Err(WorldError::Deadlock(waiting));
    }
    endings.extend(left);
    endings.sort_by_key(|ending| (ending.rank, ending.lane));
    Ok(endings)
}

impl State {
    /// A lane returned: what becomes of its rank.
    fn ended(&mut self, actor: Actor, result: Result<(), StepError>) -> Ending {
        let rank = self.actors[actor].rank;
        let result = match (result, self.health.ending(rank)) {
            (Ok(()) | Err(StepError::Stopped), Some(reason)) => Err(reason.clone()),
            (result, _) => result,
        };
        if let Err(error) = &result
            && self.health.ranks[rank.index()] == Condition::Well
        {
            // The others have nothing to say of their own.
            let reason = if *error == StepError::Stopped { error.clone() } else { StepError::Stopped };
            self.end_lanes(rank, reason);
        }
        let over = |actor: &super::kernel::ActorState| actor.rank != rank || matches!(actor.wait, Wait::Done);
        if self.actors.iter().all(over) {
            self.depart(rank, Condition::Left);
        }
        let end = result.map_or_else(LaneEnd::Failed, |()| LaneEnd::Finished);
        Ending { at: self.now, end, ..self.left_behind(actor) }
    }

    fn left_behind(&self, actor: Actor) -> Ending {
        let lane = &self.actors[actor];
        let killed = self.health.lost(lane.rank);
        Ending {
            rank: lane.rank,
            lane: lane.lane,
            at: lane.since,
            step: lane.place.0,
            phase: lane.place.1,
            end: if killed { LaneEnd::Killed } else { LaneEnd::Hangs },
        }
    }
}
