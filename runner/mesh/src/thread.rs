//! The thread of a plane. It has a runtime of its own, so that neither training nor the driver's other work delays it.

use crate::MeshError;
use record::Nanos;
use rustix::thread::Pid;
use rustix::time::{ClockId, clock_gettime};
use std::future::Future;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// A thread that runs one future.
pub(crate) struct PlaneThread {
    handle: Mutex<Option<JoinHandle<()>>>,
    usage: Arc<Usage>,
}

#[derive(Default)]
struct Usage {
    /// The thread's id while it runs, else 0.
    thread: AtomicI32,
    /// Processor time until it ended, in nanoseconds.
    total: AtomicU64,
}

impl PlaneThread {
    /// Starts the thread; the future is made on it.
    pub(crate) fn spawn<F>(
        plane: &'static str,
        make: impl FnOnce() -> F + Send + 'static,
    ) -> Result<Self, MeshError>
    where
        F: Future<Output = ()>,
    {
        let fault = |reason| MeshError::Thread { plane, reason };
        // One thread: a second one makes the socket library slower, not faster.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(fault)?;
        let usage = Arc::new(Usage::default());
        let mine = usage.clone();
        let run = move || {
            mine.thread.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Relaxed);
            runtime.block_on(async { make().await });
            // Closes the remaining sockets.
            drop(runtime);
            let used = clock_gettime(ClockId::ThreadCPUTime);
            mine.total.store(used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64, Ordering::Relaxed);
            mine.thread.store(0, Ordering::Relaxed);
        };
        let builder = std::thread::Builder::new().name(format!("mesh-{plane}"));
        let handle = builder.spawn(run).map_err(fault)?;
        Ok(Self { handle: Mutex::new(Some(handle)), usage })
    }

    /// Processor time that the thread has used so far; zero where the system does not report it.
    pub(crate) fn cpu_time(&self) -> Nanos {
        let thread = Pid::from_raw(self.usage.thread.load(Ordering::Relaxed));
        let running = thread.and_then(|thread| {
            let path = format!("/proc/self/task/{}/schedstat", thread.as_raw_nonzero());
            std::fs::read_to_string(path).ok()?.split_ascii_whitespace().next()?.parse().ok()
        });
        Nanos(running.unwrap_or_else(|| self.usage.total.load(Ordering::Relaxed)))
    }

    /// Waits until the thread has ended.
    pub(crate) fn join(&self) {
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(handle) = handle
            && handle.join().is_err()
        {
            tracing::error!("the thread of a plane panicked");
        }
    }
}
