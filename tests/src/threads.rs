//! Ranks as threads of one process over the real data plane: for tests that put something between a strategy
//! and its learner, which real worker processes would not let in.

use anyhow::{Context, Result, bail};
use mesh::{Briefing, DataPlane, Deadlines, Member, PROTOCOL, Secret};
use recipe::RunSpec;
use record::{Clock, Event, Nanos, Rank, SnapshotRecord, WeightHash, Work};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Barrier, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use strategies::{
    Bell, Blueprint, Gate, LaneBody, Learner, Observer, Runtime, SamplePartition, StepError, TrainingPlan,
    Transport, Vector,
};

/// The records of one rank.
#[derive(Debug, Default)]
pub struct RankLog {
    /// Its events, in the order in which it recorded them.
    pub events: Vec<Event>,
    /// From the start of the run to the end of its last lane, by a clock that no phase was measured with.
    pub wall: Duration,
}

/// Trains on threads over real sockets, a thread for each lane; `learner` makes the model of each worker.
pub fn train_on_threads(
    spec: &RunSpec,
    samples: u32,
    learner: impl Fn(Rank) -> Box<dyn Learner> + Sync,
) -> Result<Vec<RankLog>> {
    let private = std::fs::Permissions::from_mode(0o700);
    let sockets = tempfile::Builder::new().permissions(private).tempdir()?;
    let attempt = Attempt {
        spec,
        samples,
        sockets: sockets.path(),
        secret: mesh::random_secret(),
        origin: Instant::now(),
        start: Arc::new(Barrier::new(spec.cluster.ranks() as usize)),
    };
    std::thread::scope(|scope| {
        let attempt = &attempt;
        let learner = &learner;
        let ranks =
            (0..spec.cluster.ranks()).map(|rank| scope.spawn(move || attempt.run(Rank(rank), learner)));
        let ranks: Vec<_> = ranks.collect();
        ranks.into_iter().map(|rank| rank.join().unwrap_or_else(|_| bail!("a rank panicked"))).collect()
    })
}

struct Attempt<'a> {
    spec: &'a RunSpec,
    samples: u32,
    sockets: &'a Path,
    secret: Secret,
    origin: Instant,
    start: Arc<Barrier>,
}

impl Attempt<'_> {
    fn run(&self, rank: Rank, learner: &(impl Fn(Rank) -> Box<dyn Learner> + Sync)) -> Result<RankLog> {
        let clock = Arc::new(ThreadClock(self.origin));
        let plane = DataPlane::open(&self.briefing(rank), rank, clock.clone())?;
        let model = learner(rank);
        let course = TrainingPlan::new(self.spec, SamplePartition::shared_by(5, (0..self.samples).collect()));
        let blueprint = Blueprint::new(self.spec, Arc::new(course), model.layout().size());
        let trains = rank.index() < blueprint.trainers().len();
        let log = Arc::new(Log::default());
        let host = ThreadHost { clock, plane: &plane, log: log.clone(), start: self.start.clone() };
        let lanes = blueprint.lanes(rank, trains.then_some(model), &host)?;
        std::thread::scope(|scope| {
            let run = |lane: LaneBody| {
                let plane = &plane;
                scope.spawn(move || (lane.run)().inspect_err(|_| plane.stop()))
            };
            let lanes: Vec<_> = lanes.into_iter().map(run).collect();
            let panicked = |_| Err(StepError::Panicked("for an unknown reason".into()));
            lanes.into_iter().try_for_each(|lane| lane.join().unwrap_or_else(panicked))
        })?;
        let wall = lock(&log.started).context("the lane passed the gate")?.elapsed();
        plane.close(Duration::from_secs(10))?;
        let events = std::mem::take(&mut *lock(&log.events));
        Ok(RankLog { events, wall })
    }

    fn briefing(&self, rank: Rank) -> Briefing {
        Briefing {
            protocol: PROTOCOL,
            member: Member::Rank(rank),
            spec: self.spec.clone(),
            seed: 1,
            secret: self.secret.clone(),
            sockets: self.sockets.to_owned(),
            directory: self.sockets.to_owned(),
            threads: 1,
            deadlines: Deadlines::default(),
            resume: None,
        }
    }
}

struct ThreadClock(Instant);

impl Clock for ThreadClock {
    fn now(&self) -> Nanos {
        Nanos(self.0.elapsed().as_nanos() as u64)
    }
    fn spend(&self, _: Work) {}
}

#[derive(Default)]
struct Log {
    events: Mutex<Vec<Event>>,
    started: Mutex<Option<Instant>>,
}

impl Observer for Log {
    fn event(&self, event: Event) {
        lock(&self.events).push(event);
    }
    fn snapshot(&self, record: SnapshotRecord, weights: &Vector) {
        if record.digested {
            let hash = WeightHash { rank: record.rank, step: record.step, sha256: weights.sha256() };
            self.event(Event::WeightHash(hash));
        }
    }
    fn checkpoint(&self, _: strategies::Checkpoint) {}
    fn stopping(&self) -> bool {
        false
    }
}

struct ThreadGate {
    log: Arc<Log>,
    /// All lanes of the rank.
    lanes: Barrier,
    /// One lane of each rank.
    start: Arc<Barrier>,
}

impl Gate for ThreadGate {
    fn pass(&self, _: Option<&Vector>) -> Result<(), StepError> {
        if self.lanes.wait().is_leader() {
            self.start.wait();
            *lock(&self.log.started) = Some(Instant::now());
        }
        self.lanes.wait();
        Ok(())
    }
}

/// How long a lane waits for another of its rank.
const PATIENCE: Duration = Duration::from_mins(1);

struct ThreadBell {
    name: String,
    count: Mutex<u64>,
    rung: Condvar,
}

impl Bell for ThreadBell {
    fn count(&self) -> u64 {
        *lock(&self.count)
    }
    fn ring(&self) {
        *lock(&self.count) += 1;
        self.rung.notify_all();
    }
    fn wait(&self, seen: u64) -> Result<(), StepError> {
        let waited = self.rung.wait_timeout_while(lock(&self.count), PATIENCE, |count| *count <= seen);
        let waited = waited.unwrap_or_else(PoisonError::into_inner).1;
        if waited.timed_out() {
            return Err(StepError::Environment(format!(
                "the {} did not ring within {PATIENCE:?}",
                self.name
            )));
        }
        Ok(())
    }
}

struct ThreadHost<'a> {
    clock: Arc<ThreadClock>,
    plane: &'a DataPlane,
    log: Arc<Log>,
    start: Arc<Barrier>,
}

impl Runtime for ThreadHost<'_> {
    fn clock(&self, _: Rank) -> Arc<dyn Clock> {
        self.clock.clone()
    }
    fn transport(&self, _: Rank) -> Box<dyn Transport> {
        self.plane.transport()
    }
    fn bell(&self, name: String) -> Arc<dyn Bell> {
        Arc::new(ThreadBell { name, count: Mutex::default(), rung: Condvar::new() })
    }
    fn gate(&self, _: Rank, lanes: usize) -> Arc<dyn Gate> {
        let lanes = Barrier::new(lanes);
        Arc::new(ThreadGate { log: self.log.clone(), lanes, start: self.start.clone() })
    }
    fn observer(&self, _: Rank) -> Arc<dyn Observer> {
        self.log.clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
