//! Collects the records of a rank and ships them to the driver. No lane waits for this, unless snapshots are taken faster
//! than they can be hashed.

use crate::checkpoint;
use crate::clock::LaneClock;
use crate::snapshot;
use crate::stop::{Stop, lock};
use crate::strikes::Strikes;
use mesh::{ControlClient, Heartbeat, ToDriver};
use record::{CheckpointRecord, Event, LaneId, Nanos, Phase, SnapshotRecord, StruckRecord, WeightHash};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use strategies::{Checkpoint, Observer, StepError, Vector};

/// The longest time until events are shipped.
const SHIP_EVERY: Duration = Duration::from_millis(100);
/// The most events in one message.
const BATCH: usize = 512;
/// Snapshots that may wait to be hashed and written; beyond them the lane waits.
const SNAPSHOTS: usize = 2;
/// The interval at which a waiting lane tries again.
const RETRY: Duration = Duration::from_millis(1);

/// Collects the records of a rank.
pub(crate) struct Recorder {
    events: Mutex<Vec<Event>>,
    latest: Mutex<Latest>,
    snapshots: Mutex<Option<SyncSender<ToDisk>>>,
    /// The lanes whose states make a checkpoint of the rank, and those that have come.
    checkpoints: Mutex<Checkpoints>,
    /// The longest wait of a snapshot; a slower disk has failed.
    limit: Duration,
    stop: Arc<Stop>,
    /// The faults that the recipe plans for this rank; set once.
    strikes: OnceLock<Strikes>,
    errands: Sender<Errand>,
    /// Processor time of the thread that ships, in nanoseconds.
    shipping: AtomicU64,
}

/// A request to the thread that ships.
enum Errand {
    /// To ship at once what was recorded, and to say when that is done.
    Ship(Sender<()>),
    /// To ship the rest and to end.
    Close,
}

/// Work for the thread that writes.
enum ToDisk {
    Snapshot(SnapshotRecord, Vector),
    Checkpoint(Vec<Checkpoint>),
}

/// The checkpoints of a rank that wait for some of its lanes.
#[derive(Default)]
struct Checkpoints {
    lanes: usize,
    begun: BTreeMap<u64, Vec<Checkpoint>>,
}

/// The last step of the lane that stands for the rank.
#[derive(Clone, Copy, Debug, Default)]
struct Latest {
    end: Nanos,
    samples: u64,
    loss: Option<f32>,
}

impl Recorder {
    /// A recorder, and the threads that empty it: they send a heartbeat every `heartbeat`, and have `limit` to write a
    /// snapshot.
    pub(crate) fn start(
        stop: Arc<Stop>,
        client: ControlClient,
        directory: PathBuf,
        heartbeat: Duration,
        limit: Duration,
    ) -> std::io::Result<(Arc<Self>, Shipping)> {
        let (snapshots, waiting) = sync_channel(SNAPSHOTS);
        let (errands, asked) = channel();
        let recorder = Arc::new(Self {
            events: Mutex::default(),
            latest: Mutex::default(),
            snapshots: Mutex::new(Some(snapshots)),
            checkpoints: Mutex::default(),
            limit,
            stop,
            strikes: OnceLock::new(),
            errands: errands.clone(),
            shipping: AtomicU64::new(0),
        });
        let writer = recorder.clone();
        let (settle, settled) = channel();
        let keep = move || {
            writer.write(&waiting, &directory);
            // Where this took too long, no thread listens any more.
            let _ = settle.send(());
        };
        std::thread::Builder::new().name("snapshots".into()).spawn(keep)?;
        let shipper = recorder.clone();
        let watched = Arc::new(Mutex::new(None));
        let lane = watched.clone();
        let ship = move || shipper.ship(&client, &asked, &lane, heartbeat);
        let shipper = std::thread::Builder::new().name("events".into()).spawn(ship)?;
        Ok((recorder, Shipping { settled, shipper, errands, watched }))
    }

    /// The stop of the rank.
    pub(crate) fn stop(&self) -> &Arc<Stop> {
        &self.stop
    }

    /// Processor time of the thread that ships, so far.
    pub(crate) fn shipping_time(&self) -> Nanos {
        Nanos(self.shipping.load(Ordering::Relaxed))
    }

    /// Sets the number of lanes whose states make a checkpoint of the rank.
    pub(crate) fn expect_lanes(&self, lanes: usize) {
        lock(&self.checkpoints).lanes = lanes;
    }

    /// Sets the faults that the recipe plans for this rank.
    pub(crate) fn expect_strikes(&self, strikes: Strikes) {
        // A rank has one recipe.
        let _ = self.strikes.set(strikes);
    }

    /// Hands everything that was recorded to the control plane.
    fn ship_now(&self) {
        let (shipped, done) = channel();
        if self.errands.send(Errand::Ship(shipped)).is_ok() {
            // It is done at once, unless that thread has panicked.
            let _ = done.recv_timeout(self.limit);
        }
    }

    /// Writes snapshots and checkpoints until there are no more.
    fn write(&self, waiting: &Receiver<ToDisk>, directory: &Path) {
        while let Ok(next) = waiting.recv() {
            let (mut record, weights) = match next {
                ToDisk::Snapshot(record, weights) => (record, weights),
                ToDisk::Checkpoint(lanes) => {
                    self.write_checkpoint(&lanes, directory);
                    continue;
                }
            };
            record.sha256 = weights.sha256();
            if record.digested {
                let hash = WeightHash { rank: record.rank, step: record.step, sha256: record.sha256.clone() };
                lock(&self.events).push(Event::WeightHash(hash));
            }
            if record.model.is_empty() {
                continue;
            }
            let own = if record.digested { "" } else { "-own" };
            record.file = format!("snapshots/rank-{}-step-{}{own}.f32", record.rank, record.step);
            match snapshot::write(&directory.join(&record.file), &weights) {
                Ok(()) => lock(&self.events).push(Event::Snapshot(record)),
                // The run is judged by this model: to continue without it would waste time.
                Err(error) => {
                    tracing::error!(%error, "snapshot lost");
                    self.stop.fail(error.to_string());
                }
            }
        }
    }

    /// Writes the states of all lanes after a step. A run without one of its checkpoints is still right.
    fn write_checkpoint(&self, lanes: &[Checkpoint], directory: &Path) {
        let Some(Checkpoint { rank, number, .. }) = lanes.first() else { return };
        let file = directory.join(format!("checkpoints/{number}/rank-{rank}.state"));
        self.record_checkpoint(lanes, checkpoint::write(&file, lanes).map_err(|error| error.to_string()));
    }

    /// Behind the models taken before, in the one queue of events, so that the log has them when it has the checkpoint.
    fn record_checkpoint(&self, lanes: &[Checkpoint], file: Result<String, String>) {
        let Some(Checkpoint { rank, number, samples, .. }) = lanes.first() else { return };
        let record = CheckpointRecord {
            rank: *rank,
            number: *number,
            samples: *samples,
            at: lanes.iter().map(|lane| lane.at).max().unwrap_or_default(),
            file,
            lanes: lanes.iter().map(|lane| (lane.lane, lane.state.steps().unwrap_or(0))).collect(),
        };
        lock(&self.events).push(Event::Checkpoint(record));
    }

    /// Hands a checkpoint to the thread that writes; one that finds no room is left out, and no lane waits.
    fn hand_over_checkpoint(&self, lanes: Vec<Checkpoint>) {
        let Some(sender) = lock(&self.snapshots).clone() else { return };
        if let Err(TrySendError::Full(ToDisk::Checkpoint(lanes))) = sender.try_send(ToDisk::Checkpoint(lanes))
        {
            self.record_checkpoint(&lanes, Err("the disk is slower than they are taken".into()));
        }
    }

    /// Hands something to the thread that writes; waits while the disk is slower than the lanes.
    fn hand_over(&self, mut next: ToDisk, step: u64) {
        let Some(sender) = lock(&self.snapshots).clone() else { return };
        let began = Instant::now();
        loop {
            next = match sender.try_send(next) {
                Ok(()) => return,
                Err(TrySendError::Disconnected(_)) => {
                    return self.stop.fail("the thread that writes snapshots is gone".into());
                }
                Err(TrySendError::Full(_)) if began.elapsed() >= self.limit => {
                    return self.stop.fail(format!("{}, before that of step {step}", too_slow(self.limit)));
                }
                Err(TrySendError::Full(next)) => next,
            };
            std::thread::sleep(RETRY);
        }
    }

    /// Ships events and heartbeats until told to close.
    fn ship(
        &self,
        client: &ControlClient,
        asked: &Receiver<Errand>,
        lane: &Mutex<Option<WatchedLane>>,
        heartbeat: Duration,
    ) {
        // The first heartbeat is sent at once: from then on silence is noticed.
        let mut beaten = Instant::now();
        self.beat(client, lock(lane).as_ref());
        loop {
            let (over, shipped) = match asked.recv_timeout(SHIP_EVERY) {
                Ok(Errand::Ship(shipped)) => (false, Some(shipped)),
                Err(RecvTimeoutError::Timeout) => (false, None),
                Ok(Errand::Close) | Err(RecvTimeoutError::Disconnected) => (true, None),
            };
            let mut events = std::mem::take(&mut *lock(&self.events));
            while !events.is_empty() {
                let rest = events.split_off(events.len().min(BATCH));
                client.send(ToDriver::Events(events));
                events = rest;
            }
            self.shipping.store(thread_time().0, Ordering::Relaxed);
            if let Some(shipped) = shipped {
                // The lane that asked may have given up.
                let _ = shipped.send(());
            }
            if over {
                return;
            }
            if beaten.elapsed() >= heartbeat {
                beaten = Instant::now();
                self.beat(client, lock(lane).as_ref());
            }
        }
    }

    fn beat(&self, client: &ControlClient, watched: Option<&WatchedLane>) {
        let Latest { end, samples, loss } = *lock(&self.latest);
        let lane = watched.map_or(LaneId::Compute, |(lane, _)| *lane);
        let (step, phase) = watched.map_or((0, Phase::Data), |(_, clock)| clock.whereabouts());
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
        let step = record.step;
        self.hand_over(ToDisk::Snapshot(record, weights.clone()), step);
    }

    fn checkpoint(&self, checkpoint: Checkpoint) {
        let number = checkpoint.number;
        let whole = {
            let mut checkpoints = lock(&self.checkpoints);
            let lanes = checkpoints.lanes;
            let begun = checkpoints.begun.entry(number).or_default();
            begun.push(checkpoint);
            if begun.len() < lanes {
                return;
            }
            checkpoints.begun.remove(&number).unwrap_or_default()
        };
        self.hand_over_checkpoint(whole);
    }

    fn stopping(&self) -> bool {
        self.stop.asked()
    }

    fn step_begins(&self, step: u64, at: Nanos) -> Result<(), StepError> {
        let Some(strikes) = self.strikes.get() else { return Ok(()) };
        for fault in strikes.due(step) {
            tracing::warn!("{}", fault.struck());
            self.event(Event::Struck(StruckRecord { fault, at }));
            self.ship_now();
            strikes.carry_out(fault.action)?;
        }
        Ok(())
    }
}

/// The threads that empty a recorder.
pub(crate) struct Shipping {
    settled: Receiver<()>,
    shipper: JoinHandle<()>,
    errands: Sender<Errand>,
    watched: Arc<Mutex<Option<WatchedLane>>>,
}

/// The lane that represents the rank in its heartbeats.
pub(crate) type WatchedLane = (LaneId, Arc<LaneClock>);

impl Shipping {
    /// Sets the lane that the heartbeats describe.
    pub(crate) fn watch(&self, lane: WatchedLane) {
        *lock(&self.watched) = Some(lane);
    }

    /// Lane, step and phase of the watched lane.
    pub(crate) fn whereabouts(&self) -> (LaneId, u64, Phase) {
        let watched = lock(&self.watched);
        watched.as_ref().map_or((LaneId::Compute, 0, Phase::Other), |(lane, clock)| {
            let (step, phase) = clock.whereabouts();
            (*lane, step, phase)
        })
    }

    /// Waits until every snapshot is written.
    pub(crate) fn settle_snapshots(&self, recorder: &Recorder) {
        lock(&recorder.snapshots).take();
        match self.settled.recv_timeout(recorder.limit) {
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => recorder.stop.fail(too_slow(recorder.limit)),
            Err(RecvTimeoutError::Disconnected) => {
                recorder.stop.fail("the thread that writes snapshots panicked".into());
            }
        }
    }

    /// Ships the remaining events.
    pub(crate) fn close(self) {
        // It has ended already if it panicked.
        let _ = self.errands.send(Errand::Close);
        // A panic there was logged by the hook, and the driver misses the rank's last messages.
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
