//! Keeps what a rank records, and ships it: nothing here makes a lane wait, but for snapshots that come faster
//! than they can be hashed.

use crate::runtime::{LaneClock, Stop};
use crate::snapshot;
use mesh::{ControlClient, Heartbeat, ToDriver};
use record::{Event, LaneId, Nanos, Phase, SnapshotRecord, WeightHash};
use rustix::time::{ClockId, clock_gettime};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use strategies::{Observer, Vector};

/// Events are shipped at least so often.
const SHIP_EVERY: Duration = Duration::from_millis(100);
/// And at most so many together.
const BATCH: usize = 512;
/// Snapshots that wait to be hashed and written; the next one makes the lane wait.
const SNAPSHOTS: usize = 2;
/// Between two looks whether there is room for one more.
const LOOK: Duration = Duration::from_millis(1);

/// Keeps what a rank records.
pub(crate) struct Recorder {
    events: Mutex<Vec<Event>>,
    latest: Mutex<Latest>,
    snapshots: Mutex<Option<SyncSender<(SnapshotRecord, Vector)>>>,
    /// A disk on which a snapshot waits for longer has failed.
    limit: Duration,
    stop: Arc<Stop>,
    /// Processor time of the thread that ships, in nanoseconds.
    shipping: AtomicU64,
}

/// The last step of the lane that stands for the rank.
#[derive(Clone, Copy, Debug, Default)]
struct Latest {
    end: Nanos,
    samples: u64,
    loss: Option<f32>,
}

impl Recorder {
    /// A recorder, and the threads that empty it: they ship `every` so often, and have `limit` to write a snapshot.
    pub(crate) fn start(
        stop: Arc<Stop>,
        client: ControlClient,
        directory: PathBuf,
        (every, limit): (Duration, Duration),
    ) -> std::io::Result<(Arc<Self>, Shipping)> {
        let (snapshots, waiting) = sync_channel(SNAPSHOTS);
        let recorder = Arc::new(Self {
            events: Mutex::default(),
            latest: Mutex::default(),
            snapshots: Mutex::new(Some(snapshots)),
            limit,
            stop,
            shipping: AtomicU64::new(0),
        });
        let keeper = recorder.clone();
        let (settle, settled) = channel();
        let keep = move || {
            keeper.keep_snapshots(&waiting, &directory);
            // Nobody listens any more where that took too long.
            let _ = settle.send(());
        };
        std::thread::Builder::new().name("snapshots".into()).spawn(keep)?;
        let (close, closed) = channel();
        let (shipper, pace) = (recorder.clone(), every);
        let watched = Arc::new(Mutex::new(None));
        let lane = watched.clone();
        let ship = move || shipper.ship(&client, &closed, &lane, pace);
        let shipper = std::thread::Builder::new().name("events".into()).spawn(ship)?;
        Ok((recorder, Shipping { settled, shipper, close, watched }))
    }

    /// Whether the rank is to stop.
    pub(crate) fn stop(&self) -> &Arc<Stop> {
        &self.stop
    }

    /// Processor time of the thread that ships, so far.
    pub(crate) fn shipping_time(&self) -> Nanos {
        Nanos(self.shipping.load(Ordering::Relaxed))
    }

    /// Hashes and writes snapshots until there are no more.
    fn keep_snapshots(&self, waiting: &Receiver<(SnapshotRecord, Vector)>, directory: &std::path::Path) {
        while let Ok((mut record, weights)) = waiting.recv() {
            record.sha256 = weights.sha256();
            if record.answers {
                let hash = WeightHash { rank: record.rank, step: record.step, sha256: record.sha256.clone() };
                lock(&self.events).push(Event::WeightHash(hash));
            }
            if record.model.is_empty() {
                continue;
            }
            let own = if record.answers { "" } else { "-own" };
            record.file = format!("snapshots/rank-{}-step-{}{own}.f32", record.rank, record.step);
            match snapshot::write(&directory.join(&record.file), &weights) {
                Ok(()) => lock(&self.events).push(Event::Snapshot(record)),
                // The run is judged by this model: going on without it would only waste time.
                Err(error) => {
                    tracing::error!(%error, "snapshot lost");
                    self.stop.fail(error.to_string());
                }
            }
        }
    }

    /// Ships events and heartbeats until told to close.
    fn ship(
        &self,
        client: &ControlClient,
        closed: &Receiver<()>,
        lane: &Mutex<Option<WatchedLane>>,
        pace: Duration,
    ) {
        // The first sign of life at once: from then on silence is noticed.
        let mut beaten = Instant::now();
        self.beat(client, lock(lane).as_ref());
        loop {
            let over = !matches!(closed.recv_timeout(SHIP_EVERY), Err(RecvTimeoutError::Timeout));
            let mut events = std::mem::take(&mut *lock(&self.events));
            while !events.is_empty() {
                let rest = events.split_off(events.len().min(BATCH));
                client.send(ToDriver::Events(events));
                events = rest;
            }
            self.shipping.store(thread_time().0, Ordering::Relaxed);
            if over {
                return;
            }
            if beaten.elapsed() >= pace {
                beaten = Instant::now();
                self.beat(client, lock(lane).as_ref());
            }
        }
    }

    fn beat(&self, client: &ControlClient, watched: Option<&WatchedLane>) {
        let Latest { end, samples, loss } = *lock(&self.latest);
        let lane = watched.map_or(LaneId::Compute, |(lane, _)| *lane);
        let (step, phase) = watched.map_or((0, Phase::Data), |(_, clock)| clock.place());
        let heartbeat = Heartbeat { lane, step, phase, since: end, samples, loss };
        client.send(ToDriver::Heartbeat(heartbeat));
    }
}

impl Observer for Recorder {
    fn event(&self, event: Event) {
        if let Event::Step(step) = &event {
            let mut latest = lock(&self.latest);
            if step.lane == LaneId::Compute || latest.loss.is_none() {
                *latest = Latest {
                    end: step.begin + step.length,
                    samples: step.samples,
                    loss: step.loss.or(latest.loss),
                };
            }
        }
        lock(&self.events).push(event);
    }

    fn snapshot(&self, record: SnapshotRecord, weights: &Vector) {
        let Some(sender) = lock(&self.snapshots).clone() else { return };
        let (began, step) = (Instant::now(), record.step);
        let mut next = (record, weights.clone());
        loop {
            next = match sender.try_send(next) {
                Ok(()) => return,
                Err(TrySendError::Disconnected(_)) => {
                    return self.stop.fail("the thread that keeps snapshots is gone".into());
                }
                Err(TrySendError::Full(_)) if began.elapsed() >= self.limit => {
                    return self.stop.fail(format!("{}, before that of step {step}", too_slow(self.limit)));
                }
                Err(TrySendError::Full(next)) => next,
            };
            std::thread::sleep(LOOK);
        }
    }

    fn stopping(&self) -> bool {
        self.stop.asked()
    }
}

/// The threads that empty a recorder.
pub(crate) struct Shipping {
    settled: Receiver<()>,
    shipper: JoinHandle<()>,
    close: Sender<()>,
    watched: Arc<Mutex<Option<WatchedLane>>>,
}

/// The lane that stands for the rank in its heartbeats.
pub(crate) type WatchedLane = (LaneId, Arc<LaneClock>);

impl Shipping {
    /// Says which lane the heartbeats speak of.
    pub(crate) fn watch(&self, lane: WatchedLane) {
        *lock(&self.watched) = Some(lane);
    }

    /// What the watched lane is doing: lane, step, phase.
    pub(crate) fn place(&self) -> (LaneId, u64, Phase) {
        let watched = lock(&self.watched);
        watched.as_ref().map_or((LaneId::Compute, 0, Phase::Other), |(lane, clock)| {
            let (step, phase) = clock.place();
            (*lane, step, phase)
        })
    }

    /// Waits until every snapshot is kept.
    pub(crate) fn settle_snapshots(&self, recorder: &Recorder) {
        lock(&recorder.snapshots).take();
        match self.settled.recv_timeout(recorder.limit) {
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => recorder.stop.fail(too_slow(recorder.limit)),
            Err(RecvTimeoutError::Disconnected) => {
                recorder.stop.fail("the thread that keeps snapshots panicked".into());
            }
        }
    }

    /// Ships what is left.
    pub(crate) fn close(self) {
        drop(self.close);
        // A panic there was logged by the hook, and the driver misses the rank's last words.
        let _ = self.shipper.join();
    }
}

fn too_slow(limit: Duration) -> String {
    format!("the disk did not take a model within {:.0} s", limit.as_secs_f64())
}

fn thread_time() -> Nanos {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
