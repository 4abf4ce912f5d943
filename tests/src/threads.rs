//! Ranks as threads of one process over the real data plane: for tests that put something between a strategy
//! and its learner, which real worker processes would not let in.

use anyhow::{Context, Result, bail};
use mesh::{Briefing, DataPlane, Deadlines, Member, PROTOCOL, Secret};
use recipe::RunSpec;
use record::{Clock, Event, Nanos, Rank, SnapshotRecord, WeightHash, Work};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use strategies::{
    Bell, Blueprint, Course, Deal, Gate, Host, Learner, Observer, StepError, Transport, Vector,
};

/// What a rank left.
#[derive(Debug, Default)]
pub struct RankLog {
    /// What it recorded, in order.
    pub events: Vec<Event>,
    /// From the start of the run to the end of its lane, by a clock that no phase was measured with.
    pub wall: Duration,
}

/// Trains on threads over real sockets, one lane per rank; `learner` makes the model of each worker.
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
        let (attempt, learner) = (&attempt, &learner);
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
        let course = Course::new(self.spec, Deal::shared_by(5, (0..self.samples).collect()));
        let blueprint = Blueprint::new(self.spec, Arc::new(course), model.layout().size());
        let trains = rank.index() < blueprint.trainers().len();
        let log = Arc::new(Log::default());
        let host = ThreadHost { clock, plane: &plane, log: log.clone(), start: self.start.clone() };
        let lanes = blueprint.lanes(rank, trains.then_some(model), &host)?;
        let lane = lanes.into_iter().next().context("a rank has a lane")?;
        (lane.run)()?;
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
        let hash = WeightHash { rank: record.rank, step: record.step, sha256: weights.sha256() };
        self.event(Event::WeightHash(hash));
    }
    fn stopping(&self) -> bool {
        false
    }
}

struct ThreadGate {
    log: Arc<Log>,
    start: Arc<Barrier>,
}

impl Gate for ThreadGate {
    fn pass(&self, _: Option<&Vector>) -> Result<(), StepError> {
        self.start.wait();
        *lock(&self.log.started) = Some(Instant::now());
        Ok(())
    }
}

/// Lanes of one rank never wait for each other here, because there is only one.
struct SilentBell;

impl Bell for SilentBell {
    fn count(&self) -> u64 {
        0
    }
    fn ring(&self) {}
    fn wait(&self, _: u64) -> Result<(), StepError> {
        Err(StepError::Stopped)
    }
}

struct ThreadHost<'a> {
    clock: Arc<ThreadClock>,
    plane: &'a DataPlane,
    log: Arc<Log>,
    start: Arc<Barrier>,
}

impl Host for ThreadHost<'_> {
    fn clock(&self, _: Rank) -> Arc<dyn Clock> {
        self.clock.clone()
    }
    fn transport(&self, _: Rank) -> Box<dyn Transport> {
        self.plane.transport()
    }
    fn bell(&self, _: String) -> Arc<dyn Bell> {
        Arc::new(SilentBell)
    }
    fn gate(&self, _: Rank, _: usize) -> Arc<dyn Gate> {
        Arc::new(ThreadGate { log: self.log.clone(), start: self.start.clone() })
    }
    fn observer(&self, _: Rank) -> Arc<dyn Observer> {
        self.log.clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
