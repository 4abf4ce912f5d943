//! A process that a server has forked: how it is started, awaited and reaped.

use super::server::{Begun, Event, ForkHandle, Server, StartError, is_readable, readable_until};
use crate::ProcessExit;
use mesh::{ForkExit, ForkRequest};
use rustix::process::Signal;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// For a report of how a process has exited; the supervisor waits longer for one that it killed.
const REPORTING: Duration = Duration::from_secs(2);
/// For a process to be reaped, while the attempt's other processes cannot be killed. It is reaped later otherwise.
const REAPING: Duration = Duration::from_millis(500);

/// A process that a server has forked, not reaped yet. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Fork {
    handle: ForkHandle,
    events: Receiver<Event>,
    server: Arc<Server>,
    reaped: bool,
}

impl Fork {
    /// Has a server fork the process that is requested.
    pub(super) fn start(server: &Arc<Server>, request: ForkRequest) -> Result<Self, StartError> {
        let Begun { handle, events } = server.start(request)?;
        Ok(Self { handle, events, server: server.clone(), reaped: false })
    }

    pub(crate) fn handle(&self) -> ForkHandle {
        self.handle.clone()
    }

    /// Waits until it has exited, at most until `deadline`.
    ///
    /// # Errors
    /// It has not exited by then, or cannot be waited for.
    pub(super) fn exit_until(&self, deadline: Instant) -> io::Result<ProcessExit> {
        readable_until(self.handle.descriptor(), deadline)?;
        Ok(self.exit())
    }

    /// Waits until it has exited.
    pub(crate) fn exit(&self) -> ProcessExit {
        // Fails only where the kernel has no memory for it.
        while is_readable(self.handle.descriptor(), None).is_err() {
            thread::sleep(REAPING);
        }
        match self.events.recv_timeout(REPORTING) {
            Ok(Event::Exited(ForkExit::Code(code))) => ProcessExit::Code(code),
            Ok(Event::Exited(ForkExit::Signal(signal))) => ProcessExit::Signal(signal),
            Err(RecvTimeoutError::Timeout) => {
                self.server.end("it does not report exits");
                ProcessExit::Signal(Signal::KILL.as_raw())
            }
            // The server has ended, and the kernel has killed its forks.
            Ok(Event::Reaped) | Err(RecvTimeoutError::Disconnected) => {
                ProcessExit::Signal(Signal::KILL.as_raw())
            }
        }
    }

    /// Lets its server reap it, and waits for that a little.
    pub(crate) fn reap(mut self) {
        self.reaped = true;
        let request = ForkRequest::Reap { pid: self.id() };
        if request.send(self.server.socket()).is_err() {
            return;
        }
        // A server that takes longer does it all the same; one that is stuck is found with the next start or exit.
        let deadline = Instant::now() + REAPING;
        while let Ok(Event::Exited(_)) =
            self.events.recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {}
    }

    fn id(&self) -> u32 {
        self.handle.pid().as_raw_nonzero().get().unsigned_abs()
    }
}

impl Drop for Fork {
    fn drop(&mut self) {
        if !self.reaped {
            self.handle.kill();
            // Fails if the server has ended: then the kernel reaps it.
            let _ = (ForkRequest::Reap { pid: self.id() }).send(self.server.socket());
        }
    }
}
