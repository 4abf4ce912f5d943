//! Work that one lane of a rank hands to another, and the results that come back.

use crate::runtime::{Bell, Shared};
use crate::{Lane, StepError};
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;

/// A queue of work between two lanes of a rank. The lane that serves it takes the work in the order in which it was
/// sent; a result is fetched by its [`Pending`].
pub struct Handoff<Out, Back> {
    state: Shared<State<Out, Back>>,
}

struct State<Out, Back> {
    waiting: VecDeque<Request<Out>>,
    done: BTreeMap<u64, Back>,
    sent: u64,
    closed: bool,
}

/// Work that was sent and whose result is not fetched yet.
#[derive(Debug)]
#[must_use = "a result that is never received is lost"]
pub struct Pending {
    number: u64,
}

/// Work that the serving lane took.
#[derive(Debug)]
pub struct Request<Out> {
    /// Names the request in the reply.
    pub ticket: Ticket,
    /// Work that the other lane handed over.
    pub work: Out,
}

/// Names a request in its reply.
#[derive(Debug)]
pub struct Ticket(u64);

impl<Out, Back> Clone for Handoff<Out, Back> {
    fn clone(&self) -> Self {
        Self { state: self.state.clone() }
    }
}

impl<Out, Back> Handoff<Out, Back> {
    /// An empty, open queue; `bell` wakes the lanes that wait at either end.
    pub fn new(bell: Arc<dyn Bell>) -> Self {
        let state = State { waiting: VecDeque::new(), done: BTreeMap::new(), sent: 0, closed: false };
        Self { state: Shared::new(state, bell) }
    }

    /// Sends work to the other lane.
    pub fn send(&self, work: Out) -> Pending {
        self.state.change(|state| {
            state.sent += 1;
            state.waiting.push_back(Request { ticket: Ticket(state.sent), work });
            Pending { number: state.sent }
        })
    }

    /// Waits for a result.
    pub fn receive(&self, pending: Pending, lane: &mut Lane) -> Result<Back, StepError> {
        self.state.wait(lane, |state| state.done.remove(&pending.number))
    }

    /// Tells the serving lane that no more work follows.
    pub fn close(&self) {
        self.state.change(|state| state.closed = true);
    }

    /// For the serving lane: waits for work; `None` if the queue is empty and closed.
    pub fn next(&self, lane: &mut Lane) -> Result<Option<Request<Out>>, StepError> {
        self.state.wait(lane, |state| match state.waiting.pop_front() {
            Some(request) => Some(Some(request)),
            None => state.closed.then_some(None),
        })
    }

    /// For the serving lane: the result of a request.
    pub fn reply(&self, Ticket(number): Ticket, result: Back) {
        self.state.change(|state| state.done.insert(number, result));
    }
}

impl<Out> Handoff<Out, Infallible> {
    /// Sends work of which no result comes back.
    pub fn hand_on(&self, work: Out) {
        let _never_fetched = self.send(work);
    }
}
