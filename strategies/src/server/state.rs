//! The state that the lanes of a server share: the clocks of the workers, the weights, which one lane at a time holds,
//! and the queue of workers where the server serves one at a time.

use crate::runtime::{Bell, Shared};
use crate::server::worker_clocks::WorkerClocks;
use crate::service_context::ServiceContext;
use crate::{Lane, StepError};
use std::collections::VecDeque;
use std::sync::Arc;

/// The weights of a server, with the state that its method keeps beside them.
pub trait Centre: Send + 'static {
    /// Sets the initial weights.
    fn load(&mut self, weights: &[f32]);
    /// Copies the current weights.
    fn copy(&self, into: &mut [f32]);
}

/// The state that the lanes of a server share.
pub struct ServerState<C> {
    inner: Shared<Inner<C>>,
}

struct Inner<C> {
    clocks: WorkerClocks,
    /// `None` while a lane holds it: a lock that can be held while time passes.
    centre: Option<C>,
    /// Lanes that wait for the weights, in the order of their requests.
    line: VecDeque<usize>,
    /// Workers that asked for a turn; it is the turn of the first.
    asked: VecDeque<usize>,
}

impl<C> Clone for ServerState<C> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<C: Centre> ServerState<C> {
    /// The state before the run.
    pub fn new(clocks: WorkerClocks, centre: C, bell: Arc<dyn Bell>) -> Self {
        let inner = Inner { clocks, centre: Some(centre), line: VecDeque::new(), asked: VecDeque::new() };
        Self { inner: Shared::new(inner, bell) }
    }

    /// Takes the weights, first come, first served.
    pub fn take(&self, ctx: &mut ServiceContext, lane: usize) -> Result<C, StepError> {
        self.inner.change(|inner| inner.line.push_back(lane));
        self.inner.wait(&mut ctx.lane, |inner| {
            let centre = inner.centre.take_if(|_| inner.line.front() == Some(&lane))?;
            inner.line.pop_front();
            Some(centre)
        })
    }

    /// Returns the weights to the next lane in line.
    pub fn put_back(&self, centre: C) {
        self.inner.change(|inner| inner.centre = Some(centre));
    }

    /// Waits for the turn of a worker that has asked, first come, first served.
    pub fn begin_turn(&self, lane: &mut Lane, worker: usize) -> Result<(), StepError> {
        self.inner.change(|inner| inner.asked.push_back(worker));
        self.inner.wait(lane, |inner| (inner.asked.front() == Some(&worker)).then_some(()))
    }

    /// Ends the turn of a worker, or withdraws its request.
    pub fn end_turn(&self, worker: usize) {
        self.inner.change(|inner| inner.asked.retain(|other| *other != worker));
    }

    /// Runs `f` under the lock of the state.
    pub fn read<R>(&self, f: impl FnOnce(&WorkerClocks) -> R) -> R {
        self.inner.read(|inner| f(&inner.clocks))
    }

    /// Changes the clocks, which wakes the lanes that wait for them.
    pub fn write<R>(&self, f: impl FnOnce(&mut WorkerClocks) -> R) -> R {
        self.inner.change(|inner| f(&mut inner.clocks))
    }

    /// Waits until `f` returns a value.
    pub fn wait<R>(
        &self,
        lane: &mut Lane,
        mut f: impl FnMut(&WorkerClocks) -> Option<R>,
    ) -> Result<R, StepError> {
        self.inner.wait(lane, |inner| f(&inner.clocks))
    }
}
