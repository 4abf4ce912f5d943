//! What the lanes of a server share: its books, the weights, which one lane at a time takes in hand, and where it serves
//! one worker at a time, whose turn it is.

use crate::desk::Desk;
use crate::host::{Bell, Shared};
use crate::server::ledger::Ledger;
use crate::{Lane, StepError};
use std::collections::VecDeque;
use std::sync::Arc;

/// The weights of a server, with whatever its method keeps beside them.
pub trait Centre: Send + 'static {
    /// Takes over the initial weights.
    fn load(&mut self, weights: &[f32]);
    /// The present weights.
    fn copy(&self, into: &mut [f32]);
}

/// What the lanes of a server share.
pub struct Floor<C> {
    state: Shared<State<C>>,
}

struct State<C> {
    ledger: Ledger,
    /// Not here while a lane works on it: a lock that can be held while time passes.
    centre: Option<C>,
    /// Who waits for it.
    line: VecDeque<usize>,
    /// Workers that asked to be served; the first is being served.
    asked: VecDeque<usize>,
}

impl<C> Clone for Floor<C> {
    fn clone(&self) -> Self {
        Self { state: self.state.clone() }
    }
}

impl<C: Centre> Floor<C> {
    /// A floor that nobody has entered.
    pub fn new(ledger: Ledger, centre: C, bell: Arc<dyn Bell>) -> Self {
        let state = State { ledger, centre: Some(centre), line: VecDeque::new(), asked: VecDeque::new() };
        Self { state: Shared::new(state, bell) }
    }

    /// Takes the weights in hand: first come, first served.
    pub fn take(&self, desk: &mut Desk, who: usize) -> Result<C, StepError> {
        self.state.change(|state| state.line.push_back(who));
        self.state.wait(&mut desk.lane, |state| {
            let centre = state.centre.take_if(|_| state.line.front() == Some(&who))?;
            state.line.pop_front();
            Some(centre)
        })
    }

    /// Puts the weights back for the next in line.
    pub fn put_back(&self, centre: C) {
        self.state.change(|state| state.centre = Some(centre));
    }

    /// Waits until a worker that has asked is the one that is served: first come, first served.
    pub fn begin_turn(&self, lane: &mut Lane, worker: usize) -> Result<(), StepError> {
        self.state.change(|state| state.asked.push_back(worker));
        self.state.wait(lane, |state| (state.asked.front() == Some(&worker)).then_some(()))
    }

    /// A worker is served no longer, or asks no longer: the next one's turn begins.
    pub fn end_turn(&self, worker: usize) {
        self.state.change(|state| state.asked.retain(|other| *other != worker));
    }

    /// Looks at the books.
    pub fn read<R>(&self, f: impl FnOnce(&Ledger) -> R) -> R {
        self.state.read(|state| f(&state.ledger))
    }

    /// Writes into the books.
    pub fn write<R>(&self, f: impl FnOnce(&mut Ledger) -> R) -> R {
        self.state.change(|state| f(&mut state.ledger))
    }

    /// Waits until the books say so.
    pub fn wait<R>(&self, lane: &mut Lane, mut f: impl FnMut(&Ledger) -> Option<R>) -> Result<R, StepError> {
        self.state.wait(lane, |state| f(&state.ledger))
    }
}
