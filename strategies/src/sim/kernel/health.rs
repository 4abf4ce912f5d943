//! The condition of the ranks of a world in which something goes wrong.
//!
//! The rules are those of real runs: a lane that waits for a killed rank learns it at once, after all messages that
//! the rank had sent; a lane that waits for a stopped rank waits until its deadline; a rank with a failed lane
//! ends its other lanes and leaves. There is no driver here that would stop the other ranks: each finds
//! out by itself. Over a link that dropped nothing arrives, and no rank learns it.

use super::{Actor, Event, Kernel, Source, State, Wait};
use crate::sim::fault::{Fault, Faults};
use crate::{StepError, Wanted};
use recipe::FaultAction;
use record::{Nanos, Rank};
use std::collections::BTreeSet;

/// How a rank is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::sim) enum Condition {
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
pub(in crate::sim) struct Health {
    /// The deadline of every wait; `None` in a world without faults, where a deadlock is reported.
    patience: Option<Nanos>,
    faults: Vec<Fault>,
    full: bool,
    ranks: Vec<Condition>,
    /// Links that dropped: the rank that it happened to, and its peer.
    dropped: BTreeSet<(Rank, Rank)>,
}

impl Health {
    pub(in crate::sim) fn of(ranks: usize) -> Self {
        Self { ranks: vec![Condition::Well; ranks], ..Self::default() }
    }

    pub(in crate::sim) fn runs(&self, rank: Rank) -> bool {
        !matches!(self.ranks[rank.index()], Condition::Killed | Condition::Hangs | Condition::Paused)
    }

    /// Why the rank's lanes are to end, if they are.
    pub(in crate::sim) fn ending(&self, rank: Rank) -> Option<&StepError> {
        match &self.ranks[rank.index()] {
            Condition::Ending(reason) => Some(reason),
            _ => None,
        }
    }

    pub(in crate::sim) fn gone(&self, rank: Rank) -> bool {
        matches!(self.ranks[rank.index()], Condition::Killed | Condition::Left)
    }

    /// Whether nothing has happened to it.
    pub(in crate::sim) fn is_well(&self, rank: Rank) -> bool {
        self.ranks[rank.index()] == Condition::Well
    }

    /// Whether a message vanishes when it is sent: it leaves a rank that has lost the link.
    pub(in crate::sim) fn swallows(&self, from: Rank, to: Rank) -> bool {
        self.dropped.contains(&(from, to))
    }

    /// Whether what arrives vanishes: it comes to a rank that has lost the link.
    pub(in crate::sim) fn turns_away(&self, from: Rank, to: Rank) -> bool {
        self.dropped.contains(&(to, from))
    }

    pub(in crate::sim) fn lost(&self, rank: Rank) -> bool {
        self.ranks[rank.index()] == Condition::Killed
    }
}

impl Kernel {
    /// Schedules the faults at their moments, and sets the deadline of all waits.
    pub(in crate::sim) fn expect(&self, faults: &Faults) {
        let mut state = self.lock();
        state.health.patience = Some(faults.patience);
        for (number, (at, fault)) in faults.faults.iter().enumerate() {
            state.health.faults.push(*fault);
            state.push_first(*at, Event::Fault(number));
        }
    }

    /// Lets happen to the rank of the running lane what its recipe says; returns when the lane runs again.
    pub(in crate::sim) fn strike(&self, rank: Rank, action: FaultAction) -> Result<(), StepError> {
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
    pub(in crate::sim) fn writes(&self, rank: Rank, what: &str) {
        let mut state = self.lock();
        if state.health.full && state.health.ranks[rank.index()] == Condition::Well {
            let reason = StepError::Environment(format!("{what} cannot be written: no space left"));
            state.end_lanes(rank, reason);
        }
    }
}

impl State {
    pub(in crate::sim) fn go_wrong(&mut self, number: usize) {
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
    pub(in crate::sim) fn go_on(&mut self, rank: Rank) {
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
    pub(in crate::sim) fn depart(&mut self, rank: Rank, how: Condition) {
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

    pub(in crate::sim) fn end_lanes(&mut self, rank: Rank, reason: StepError) {
        self.health.ranks[rank.index()] = Condition::Ending(reason);
        for actor in 0..self.actors.len() {
            let waits = !matches!(self.actors[actor].wait, Wait::Running | Wait::Time | Wait::Done);
            if waits && self.actors[actor].rank == rank {
                self.wake(actor);
            }
        }
    }

    pub(in crate::sim) fn wake(&mut self, actor: Actor) {
        self.actors[actor].wait = Wait::Time;
        let now = self.now;
        self.push(now, Event::Wake(actor));
    }

    /// Looks again who waits for a rank of which a message arrived after its end.
    pub(in crate::sim) fn wake_mourners(&mut self, of: Rank) {
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
    pub(in crate::sim) fn begin_wait(&mut self) {
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
    pub(in crate::sim) fn deadline(&mut self, actor: Actor, number: u64) -> Option<Actor> {
        let late = &mut self.actors[actor];
        let same = late.waits == number;
        // A lane that was woken at this very moment, to look again who is left, has not ended its wait.
        late.timed_out |= same;
        let waits = matches!(late.wait, Wait::Message { .. } | Wait::Credit { .. } | Wait::Start);
        (same && waits).then_some(actor)
    }

    /// The error of a wait that is in vain: the deadline has come, or no awaited rank is left.
    pub(in crate::sim) fn in_vain(
        &self,
        rank: Rank,
        source: Source<'_>,
        wanted: Wanted,
    ) -> Option<StepError> {
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
