//! The thread that listens to the driver: starts and stops the run.

use crate::clock::RunClock;
use crate::start_barrier::StartBarrier;
use crate::stop::Stop;
use mesh::{ControlInbox, ToMember};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The thread looks this often whether the rank has ended.
const LISTEN: Duration = Duration::from_millis(100);

/// The thread that listens to the driver.
pub(crate) struct ControlListener {
    thread: JoinHandle<()>,
    over: Arc<AtomicBool>,
}

impl ControlListener {
    /// Starts to listen; fails if the system refuses a thread.
    pub(crate) fn open(
        inbox: ControlInbox,
        clock: Arc<RunClock>,
        barrier: Arc<StartBarrier>,
        stop: Arc<Stop>,
    ) -> std::io::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let ended = over.clone();
        let listen = move || {
            while !ended.load(Ordering::Acquire) {
                match inbox.recv_timeout(LISTEN) {
                    Some(ToMember::Start { origin }) => {
                        clock.start(origin);
                        barrier.open();
                    }
                    Some(ToMember::Stop) => stop.ask(),
                    None if inbox.lost() && !ended.load(Ordering::Acquire) => {
                        stop.fail("the connection to the driver is lost".into());
                        return;
                    }
                    Some(ToMember::Evaluate(_) | ToMember::Average(_) | ToMember::Leave) | None => {}
                }
            }
        };
        Ok(Self { thread: std::thread::Builder::new().name("listener".into()).spawn(listen)?, over })
    }

    /// Stops listening; returns when the thread has ended.
    pub(crate) fn close(self) {
        self.over.store(true, Ordering::Release);
        // The thread holds nothing that could be lost.
        let _ = self.thread.join();
    }
}
