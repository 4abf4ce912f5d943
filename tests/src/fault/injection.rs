//! Waiting for a moment in the life of a run, and letting it go wrong.

use super::disk::Disk;
use super::{Case, Moment, ProcessFault, ranks};
use crate::driver::{Desk, DriverProcess, WorkerProcess};
use anyhow::{Context, Result, ensure};
use record::Event;
use rustix::process::Signal;
use std::fs;
use std::time::{Duration, Instant};

/// Starting up takes seconds where cores are few.
const START_UP: Duration = Duration::from_mins(2);
/// Between two looks at something that is not reported.
const GLANCE: Duration = Duration::from_millis(1);
/// Snapshots that come before the one that is waited for.
const SNAPSHOTS_BEFORE: u64 = 2;

/// A run under way.
pub(super) struct Scene {
    pub(super) case: Case,
    // Before the folder that it is mounted in.
    pub(super) disk: Option<Disk>,
    pub(super) desk: Desk,
    pub(super) driver: DriverProcess,
    /// Every process that the driver has started so far.
    pub(super) workers: Vec<WorkerProcess>,
}

/// Whether the fault met what it was meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hit {
    /// The fault met its target.
    Met,
    /// Its target had exited already.
    TooLate,
}

impl Scene {
    /// Starts the run of a case, on a small disk of its own if that is to be filled.
    pub(super) fn start(case: Case) -> Result<Self> {
        let desk = Desk::new()?;
        let full = case.fault == ProcessFault::FullDisk;
        let disk = full.then(|| Disk::mount(&desk.at(".bakeoff"))).transpose()?;
        desk.write("recipe.toml", &case.recipe())?;
        let driver = desk.start(["-v", "run", "recipe.toml"])?;
        Ok(Self { case, disk, desk, driver, workers: Vec::new() })
    }

    /// Waits for the moment and lets the run go wrong.
    pub(super) fn go_wrong(&mut self) -> Result<Hit> {
        let ranks: Vec<WorkerProcess> = (0..ranks(self.case.strategy))
            .map(|rank| self.driver.worker(rank))
            .collect::<Result<_>>()
            .context("the ranks were not started")?;
        self.workers.clone_from(&ranks);
        self.wait_for_moment(&ranks).with_context(|| format!("{} was not seen", self.case.moment))?;
        std::thread::sleep(self.case.delay);
        let children = self.driver.workers()?;
        self.workers.extend(children.into_iter().filter(|child| !ranks.contains(child)));
        let victim = &ranks[self.case.rank as usize];
        match self.case.fault {
            ProcessFault::Kill if victim.signal(Signal::KILL).is_err() => return Ok(Hit::TooLate),
            ProcessFault::Stop if victim.signal(Signal::STOP).is_err() => return Ok(Hit::TooLate),
            ProcessFault::DriverKill if self.driver.signal(Signal::KILL).is_err() => return Ok(Hit::TooLate),
            ProcessFault::FullDisk => self.disk.as_ref().context("there is no disk to fill")?.fill()?,
            ProcessFault::Kill | ProcessFault::Stop | ProcessFault::DriverKill => {}
        }
        Ok(Hit::Met)
    }

    fn wait_for_moment(&self, ranks: &[WorkerProcess]) -> Result<()> {
        let deadline = Instant::now() + START_UP;
        while !self.moment_has_come() {
            ensure!(Instant::now() < deadline, "within {START_UP:?}");
            ensure!(ranks.iter().any(WorkerProcess::lives), "before all ranks were gone");
            std::thread::sleep(GLANCE);
        }
        Ok(())
    }

    fn moment_has_come(&self) -> bool {
        match self.case.moment {
            Moment::StartUp => self.log_begins(),
            Moment::FirstStep => {
                let prepared = |event: &&Event| matches!(event, Event::Prepared(_));
                self.desk.events().iter().filter(prepared).count() as u32 == ranks(self.case.strategy)
            }
            Moment::MidRun => {
                self.desk.events().iter().any(|event| matches!(event, Event::Step(step) if step.step > 20))
            }
            Moment::Snapshot => self.snapshot_at().is_some_and(|step| step > SNAPSHOTS_BEFORE),
            Moment::ShutDown => self.snapshot_at().is_some_and(|step| step >= 20),
        }
    }

    /// Whether the victim has begun to speak: it is connected, and has read its data.
    fn log_begins(&self) -> bool {
        let log = format!("rank-{}.log", self.case.rank);
        self.desk.attempts().any(|attempt| fs::metadata(attempt.join(&log)).is_ok_and(|log| log.len() > 0))
    }

    /// The last step of which a model lies aside, or is being written.
    fn snapshot_at(&self) -> Option<u64> {
        let folders = self.desk.attempts().filter_map(|attempt| fs::read_dir(attempt.join("snapshots")).ok());
        let names = folders.flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let steps = names.filter_map(|name| name.split("-step-").nth(1)?.split('.').next()?.parse().ok());
        steps.max()
    }
}
