//! A run of two workers under way: what tests interrupt, kill and ask about.

use crate::{Desk, DriverProcess, Ended, WorkerProcess, gone, wait_until};
use anyhow::Result;
use record::{Event, Nanos};
use std::process::Command;
use std::time::Duration;

/// No process of a run is left so long after its driver ended, however that was.
pub const CLEAN: Duration = Duration::from_secs(5);
/// Starting up takes seconds where cores are few.
const START_UP: Duration = Duration::from_mins(1);

/// A run under way.
#[derive(Debug)]
pub struct UnderWay {
    /// The folder that it runs in.
    pub desk: Desk,
    /// Killed when this is dropped.
    pub driver: DriverProcess,
    /// The worker processes, in the order of their ranks.
    pub workers: Vec<WorkerProcess>,
}

impl UnderWay {
    /// Starts `recipe.toml` with this command, and waits until all of its ranks have trained for a time.
    pub fn started(
        recipe: &str,
        ranks: u32,
        trained: Nanos,
        command: impl Fn(&Desk) -> Result<Command>,
    ) -> Result<Self> {
        let desk = Desk::new()?;
        desk.write("recipe.toml", recipe)?;
        let mut driver = DriverProcess::start(command(&desk)?)?;
        let workers = (0..ranks).map(|rank| driver.worker(rank)).collect::<Result<Vec<_>>>()?;
        let trains = |event: &Event| matches!(event, Event::Step(step) if step.begin > trained);
        wait_until(START_UP, || Ok(desk.events().iter().any(trains)))?;
        Ok(Self { desk, driver, workers })
    }

    /// Waits for the driver's end and for that of all its workers and fork servers.
    pub fn ended(self, code: i32, within: Duration) -> Result<(Desk, Ended)> {
        let mut workers = self.driver.workers()?;
        workers.extend(self.driver.fork_servers()?);
        workers.extend(self.workers);
        let ended = self.driver.end(within)?.with_code(code)?;
        gone(&workers, CLEAN)?;
        Ok((self.desk, ended))
    }
}
