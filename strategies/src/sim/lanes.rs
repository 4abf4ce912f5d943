//! The lanes of a simulated world as coroutines.

use super::kernel::Kernel;
use super::outcome::WorldError;
use crate::{LaneBody, StepError};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};
use std::sync::Arc;

/// Pages are touched lazily, so a stack costs what it uses; 16 KiB are too few in an unoptimised build.
const STACK: usize = 256 << 10;

/// A lane that can be left and entered again.
pub(super) type Lane = Coroutine<(), (), Result<(), StepError>>;

/// The lanes, each on a stack of its own.
pub(super) fn coroutines(kernel: &Arc<Kernel>, bodies: Vec<LaneBody>) -> Result<Vec<Lane>, WorldError> {
    let mut lanes = Vec::with_capacity(bodies.len());
    for (actor, body) in bodies.into_iter().enumerate() {
        let stack = DefaultStack::new(STACK).map_err(WorldError::Stack)?;
        let kernel = kernel.clone();
        let lane: Lane = Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            kernel.register(actor, yielder);
            (body.run)()
        });
        lanes.push(lane);
    }
    Ok(lanes)
}

/// Lets every lane that still waits leave through its own errors, so that destructors run.
pub(super) fn unwind(kernel: &Kernel, lanes: &mut [Lane]) {
    kernel.lock().stopping = true;
    for (actor, lane) in lanes.iter_mut().enumerate() {
        while lane.started() && !lane.done() {
            kernel.lock().current = actor;
            lane.resume(());
        }
    }
}
