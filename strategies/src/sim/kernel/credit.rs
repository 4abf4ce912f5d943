//! Credits: how much may be on its way between two ranks before the receiver takes it out, as in real transports.
//!
//! They come back the moment a message is taken out; what the real data plane needs for that is no part of a world.

use super::{Kernel, Source, State, Wait};
use crate::{Envelope, StepError, Wanted};
use record::Rank;
use std::collections::BTreeMap;
use std::sync::MutexGuard;

/// Bytes that a message costs beside its own, as in the real transports.
const EXTRA: u64 = 256;

fn cost(bytes: usize) -> u64 {
    bytes as u64 + EXTRA
}

/// From which rank to which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Direction {
    pub(super) from: Rank,
    pub(super) to: Rank,
}

/// How much is on its way, and how much may be.
#[derive(Default)]
pub(super) struct Credits {
    /// Bytes between two ranks; `None` for no bound.
    window: Option<u64>,
    used: BTreeMap<Direction, u64>,
}

impl Credits {
    pub(super) fn of(window: Option<u64>) -> Self {
        Self { window, used: BTreeMap::new() }
    }

    /// Whether a sender may have to wait.
    pub(super) fn bounded(&self) -> bool {
        self.window.is_some()
    }

    /// Alone, any message may travel; what a rank sends to itself always may.
    fn has_room(&self, direction: Direction, bytes: usize) -> bool {
        let used = self.used.get(&direction).copied().unwrap_or(0);
        let fits = |window| used == 0 || used + cost(bytes) <= window;
        direction.from == direction.to || self.window.is_none_or(fits)
    }

    pub(super) fn take(&mut self, direction: Direction, bytes: usize) {
        if self.bounded() {
            *self.used.entry(direction).or_default() += cost(bytes);
        }
    }

    fn give_back(&mut self, direction: Direction, bytes: usize) {
        if let Some(used) = self.used.get_mut(&direction) {
            *used = used.saturating_sub(cost(bytes));
        }
    }
}

impl Kernel {
    /// Whether a message of `bytes` bytes can leave now.
    pub(in crate::sim) fn has_room(&self, from: Rank, to: Rank, bytes: usize) -> bool {
        let state = self.lock();
        let never_waits = state.health.gone(to) || state.health.swallows(from, to);
        never_waits || state.credits.has_room(Direction { from, to }, bytes)
    }

    /// Waits until there is room for a message.
    pub(super) fn room_for(&self, to: Rank, envelope: &Envelope) -> Result<MutexGuard<'_, State>, StepError> {
        let from = envelope.from;
        let tag = envelope.tag;
        let wanted = Wanted::Credit(envelope.tag);
        let mut waited = false;
        loop {
            let mut state = self.lock();
            if state.health.gone(to) {
                return Err(StepError::Gone { rank: from, peer: to, wanted });
            }
            if state.health.swallows(from, to)
                || state.credits.has_room(Direction { from, to }, envelope.packet.0.len())
            {
                return Ok(state);
            }
            if let Some(error) = state.in_vain(from, Source::One(to), wanted).filter(|_| waited) {
                return Err(error);
            }
            waited = true;
            state.begin_wait();
            self.suspend(state, Wait::Credit { from, to, tag })?;
        }
    }
}

impl State {
    /// A message was taken out: its sender may have waited for that.
    pub(super) fn give_back(&mut self, envelope: &Envelope, to: Rank) {
        if !self.credits.bounded() {
            return;
        }
        let direction = Direction { from: envelope.from, to };
        self.credits.give_back(direction, envelope.packet.0.len());
        let waits = |wait: &Wait| matches!(*wait, Wait::Credit { from, to, .. } if direction == Direction { from, to });
        let waiting: Vec<_> =
            (0..self.actors.len()).filter(|actor| waits(&self.actors[*actor].wait)).collect();
        for actor in waiting {
            self.wake(actor);
        }
    }
}
