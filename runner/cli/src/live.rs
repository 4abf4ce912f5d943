//! Files of the store about running sweeps, by which other commands see them and ask them to stop.
//!
//! Each driver keeps `live/<process>.json` up to date and looks for `live/<process>.stop`. A process is meant
//! only where its number *and* the moment at which it began fit: numbers are given out again. A driver in another
//! container or on another machine is taken at its word while its file is young.

use crate::exit::{Exit, Failure};
use crate::live_curve::LiveCurve;
use crate::output::human;
use recipe::hex;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use store::Driver;

/// Between two updates, unless something changed that people wait for.
const PACE: Duration = Duration::from_millis(500);

/// A driver and its current activity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Live {
    /// The process that runs the sweep.
    pub(crate) driver: Driver,
    pub(crate) sweep: String,
    /// Name of the recipe.
    pub(crate) recipe: String,
    /// The driver's command line, its program first.
    pub(crate) argv: Vec<String>,
    /// When it began, as seconds since 1970.
    pub(crate) since: i64,
    /// When this was written, as seconds since 1970.
    pub(crate) written: i64,
    /// Runs of the sweep.
    pub(crate) runs: usize,
    /// Those that have ended, or were reused.
    pub(crate) ended: usize,
    /// How long the rest of the rung, or up to the next look, takes, as far as that is known.
    pub(crate) seconds_left: Option<u64>,
    /// How that is known: `by earlier runs`.
    #[serde(default)]
    pub(crate) left_by: String,
    /// The run under way; of several the one that began first.
    pub(crate) run: Option<LiveRun>,
    /// The others that are under way at the same time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) beside: Vec<LiveRun>,
    /// The arms, in the order of the plan.
    #[serde(default)]
    pub(crate) arms: Vec<LiveArm>,
}

/// An arm of a running sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct LiveArm {
    pub(crate) name: String,
    /// Its runs that have ended, or were reused.
    pub(crate) ended: usize,
    /// Those of them that did not end as planned.
    pub(crate) troubled: usize,
    /// All its runs by the plan: at most that many where the sweep decides as it goes.
    pub(crate) planned: usize,
    /// The evaluations of its newest run.
    pub(crate) curve: LiveCurve,
    /// The last of them, in words.
    pub(crate) metric: Option<String>,
}

/// A run under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct LiveRun {
    /// Its cell and repeat, in words.
    pub(crate) title: String,
    /// `starting`, `running`, `stopping`, `evaluating`.
    pub(crate) stage: String,
    /// For how long the attempt has been under way, in seconds.
    pub(crate) seconds: u64,
    /// Steps of all workers together.
    pub(crate) step: u64,
    /// The last of them.
    pub(crate) steps: Option<u64>,
    /// Steps in a second, since training began.
    pub(crate) steps_per_second: Option<f64>,
    /// How long the training still takes.
    pub(crate) seconds_left: Option<u64>,
    /// The last evaluation, in words.
    pub(crate) metric: Option<String>,
    /// Index of its arm among those of the sweep.
    #[serde(default)]
    pub(crate) arm: usize,
    /// The lost ranks of its run, in words.
    #[serde(default)]
    pub(crate) degraded: Option<String>,
    /// Faults of its recipe that struck it so far, one sentence each.
    #[serde(default)]
    pub(crate) struck: Vec<String>,
    /// Processes of the run: its ranks and the evaluator.
    pub(crate) members: Vec<LiveMember>,
}

/// A process of a run under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct LiveMember {
    /// Name of the process in words: `rank 2`, `evaluator`.
    pub(crate) name: String,
    pub(crate) process: Driver,
    /// The step it is in.
    pub(crate) step: Option<u64>,
    /// The phase it is in.
    pub(crate) phase: Option<String>,
    /// How long ago it was last heard of, in seconds.
    pub(crate) heard: Option<f64>,
}

/// How soon a driver is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Level {
    /// At the next step.
    Softly,
    /// Without waiting for a step.
    Now,
    /// Without waiting for anything.
    Kill,
}

/// A request to a driver.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    driver: Driver,
    level: Level,
}

/// The folder of the drivers' files.
fn folder(store: &Path) -> PathBuf {
    store.join("live")
}

/// The files of all drivers of the store, killed ones included.
pub(crate) fn all(store: &Path) -> Vec<Live> {
    let entries = fs::read_dir(folder(store)).into_iter().flatten().flatten();
    let files =
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|kind| kind == "json"));
    let mut drivers: Vec<Live> =
        files.filter_map(|path| serde_json::from_slice(&fs::read(path).ok()?).ok()).collect();
    drivers.sort_by_key(|live| (live.since, live.driver.pid));
    drivers
}

impl Live {
    /// Whether its driver waits for jobs of a queue.
    pub(crate) fn waits_for_jobs(&self) -> bool {
        self.argv.iter().any(|word| word == "--submit" || word.starts_with("--submit="))
    }

    /// The runs under way.
    pub(crate) fn under_way(&self) -> impl Iterator<Item = &LiveRun> {
        self.run.iter().chain(&self.beside)
    }

    /// Whether its driver runs.
    pub(crate) fn is_alive(&self) -> bool {
        self.driver.is_alive(self.written, human::now())
    }

    /// Whether its driver has ended since this was read. One that runs elsewhere removes its file, or no longer keeps it
    /// up to date.
    pub(crate) fn has_ended(&self, store: &Path) -> bool {
        if self.driver.is_here() {
            return !self.driver.lives();
        }
        let now = fs::read(file(store, &self.driver, "json")).ok();
        let now: Option<Self> = now.and_then(|text| serde_json::from_slice(&text).ok());
        !now.is_some_and(|now| now.is_alive())
    }
}

/// Removes the files of a driver that is gone.
pub(crate) fn forget(store: &Path, driver: &Driver) {
    for kind in ["json", "stop", "json.new", "stop.new"] {
        // A missing file need not be removed.
        let _ = fs::remove_file(file(store, driver, kind));
    }
}

fn file(store: &Path, driver: &Driver, kind: &str) -> PathBuf {
    // The same number may be in use in another container, and is again after a boot.
    let digest = hex(&Sha256::digest(format!("{} {}", driver.born, driver.space)));
    folder(store).join(format!("{}-{}.{kind}", driver.pid, &digest[..8]))
}

/// Asks a driver to stop.
pub(crate) fn ask(store: &Path, driver: &Driver, level: Level) -> Result<(), Failure> {
    let path = file(store, driver, "stop");
    let request = Request { driver: driver.clone(), level };
    write(&path, &request).map_err(|error| {
        Failure::new(Exit::Store, format!("{} cannot be written: {error}", path.display()))
            .cure(format!("`kill -TERM {}` on {} asks the same", driver.pid, driver.host))
    })
}

/// The level at which this driver is asked to stop; `None` without a request to this very process.
pub(crate) fn asked(store: &Path, driver: &Driver) -> Option<Level> {
    let text = fs::read(file(store, driver, "stop")).ok()?;
    let request: Request = serde_json::from_slice(&text).ok()?;
    (request.driver == *driver).then_some(request.level)
}

/// In one step, so that no reader sees half of it.
fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    // Each of a driver's files has its own: they are written by different processes.
    let new = PathBuf::from(format!("{}.new", path.display()));
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(&new, serde_json::to_vec_pretty(value)?)?;
    fs::rename(&new, path)
}

/// Kills a process if its id is still its own; returns whether it was.
pub(crate) fn kill(process: &Driver) -> bool {
    let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else { return false };
    // The descriptor stays bound to the process that has the id now, so the check afterwards is about the same process.
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    process.lives() && pidfd_send_signal(&handle, Signal::KILL).is_ok()
}

/// This driver's file, removed when this is dropped.
pub(crate) struct Board {
    store: PathBuf,
    driver: Driver,
    written: Option<Instant>,
}

impl Board {
    /// Nothing is said yet, and nothing asked for.
    pub(crate) fn new(store: &Path) -> Self {
        Self { store: store.to_owned(), driver: Driver::this(), written: None }
    }

    /// Whether the file is due for an update.
    pub(crate) fn is_due(&self) -> bool {
        self.written.is_none_or(|written| written.elapsed() >= PACE)
    }

    /// Replaces the driver's file; the next update is due after `PACE`.
    pub(crate) fn show(&mut self, live: &Live) {
        self.written = Some(Instant::now());
        // Only `bakeoff status` misses it; the run continues.
        let _ = write(&file(&self.store, &self.driver, "json"), live);
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        forget(&self.store, &self.driver);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_for_one_process_only() {
        let store = tempfile::tempdir().unwrap();
        let board = Board::new(store.path());
        let this = board.driver.clone();
        assert_eq!(asked(store.path(), &this), None);
        ask(store.path(), &this, Level::Now).unwrap();
        assert_eq!(asked(store.path(), &this), Some(Level::Now));
        let earlier = Driver { born: "another boot:1".to_owned(), ..this.clone() };
        assert_eq!(asked(store.path(), &earlier), None);
        drop(board);
        assert_eq!(asked(store.path(), &this), None);
    }

    fn nothing_to_tell(driver: &Driver) -> Live {
        Live {
            driver: driver.clone(),
            sweep: String::new(),
            recipe: "quickstart".to_owned(),
            argv: Vec::new(),
            since: 0,
            written: 0,
            runs: 1,
            ended: 0,
            seconds_left: None,
            left_by: String::new(),
            run: None,
            beside: Vec::new(),
            arms: Vec::new(),
        }
    }

    #[test]
    fn what_a_driver_says_and_what_it_is_asked_do_not_overwrite_each_other() {
        let store = tempfile::tempdir().unwrap();
        let mut board = Board::new(store.path());
        let this = board.driver.clone();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..300).for_each(|_| board.show(&nothing_to_tell(&this))));
            for level in [Level::Softly, Level::Now, Level::Kill].into_iter().cycle().take(300) {
                ask(store.path(), &this, level).unwrap();
                assert_eq!(asked(store.path(), &this), Some(level));
            }
        });
        assert_eq!(all(store.path()), [nothing_to_tell(&this)]);
        fs::write(file(store.path(), &this, "stop.new"), "half").unwrap();
        drop(board);
        assert_eq!(fs::read_dir(folder(store.path())).unwrap().count(), 0, "nothing is left behind");
    }

    #[test]
    fn a_driver_of_another_container_counts_as_long_as_its_file_is_young() {
        let store = tempfile::tempdir().unwrap();
        let elsewhere = Driver { space: "pid:[1]".to_owned(), ..Driver::this() };
        let file = file(store.path(), &elsewhere, "json");
        let live = |written| Live { written, ..nothing_to_tell(&elsewhere) };
        write(&file, &live(human::now())).unwrap();
        // Its number is that of this process, which has a file of its own.
        let board = Board::new(store.path());
        let found = all(store.path()).remove(0);
        assert!(found.is_alive() && !found.has_ended(store.path()) && !kill(&elsewhere));
        write(&file, &live(human::now() - 61)).unwrap();
        assert!(found.has_ended(store.path()) && !all(store.path())[0].is_alive());
        forget(store.path(), &elsewhere);
        assert!(found.has_ended(store.path()));
        drop(board);
    }

    #[test]
    fn only_the_very_process_is_killed() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = Driver::of(child.id()).unwrap();
        let other = Driver { born: format!("{}0", process.born), ..process.clone() };
        assert!(!kill(&other) && process.lives());
        assert!(kill(&process));
        child.wait().unwrap();
        assert!(!kill(&process));
    }
}
