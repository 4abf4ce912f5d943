//! The state after a run that went wrong, and whether it is as it has to be.

use super::injection::{Hit, Scene};
use super::{Case, Moment, ProcessFault};
use crate::driver::{Desk, WorkerProcess, wait_until};
use crate::under_way::CLEAN;
use anyhow::{Context, Result};
use rustix::process::Signal;
use serde_json::Value;
use std::time::{Duration, Instant};

/// No fault keeps a run longer than this: silence is noticed after 5 s, and everything that follows has deadlines of
/// a few seconds. Far more, because a busy machine is slow.
const LIMIT: Duration = Duration::from_mins(1);
/// A rank that is stopped before its first word is waited for until the deadline of the start-up, two minutes.
const LIMIT_OF_START: Duration = Duration::from_secs(150);

/// The state after a run that went wrong.
#[derive(Debug)]
pub struct FaultAftermath {
    /// How it went wrong.
    pub case: Case,
    /// Whether the fault came too late to meet whom it was meant for.
    pub too_late: bool,
    /// The state of the run in the database.
    pub state: String,
    /// The exit code of the driver; none where it was killed.
    pub exit: Option<i32>,
    /// From the fault to the end of the driver.
    pub over: Duration,
    /// From the end of the driver to that of the last process.
    pub clean: Duration,
    /// Whether `PRAGMA integrity_check` and the checks on top of it found nothing.
    pub intact: bool,
    /// Reason of the end in the database, or else the driver's last error.
    pub told: String,
    /// Requirements that are not met.
    pub offences: Vec<String>,
}

pub(super) fn play(case: Case) -> Result<FaultAftermath> {
    let mut scene = Scene::start(case)?;
    let hit = scene.go_wrong()?;
    let begun = Instant::now();
    let Scene { disk, desk, driver, mut workers, .. } = scene;
    let mut offences = Vec::new();
    let watched = driver.pid();
    let mute = (case.fault, case.moment) == (ProcessFault::Stop, Moment::StartUp);
    let end = driver.end_watched(if mute { LIMIT_OF_START } else { LIMIT }, |driver| {
        if let Ok(children) = driver.workers() {
            workers.extend(children.into_iter().filter(|child| !workers.contains(child)).collect::<Vec<_>>());
        }
    });
    let over = begun.elapsed();
    let ended = end.map_err(|error| offences.push(format!("driver {watched}: {error:#}"))).ok();
    let clean = Instant::now();
    if wait_until(CLEAN, || Ok(!workers.iter().any(WorkerProcess::lives))).is_err() {
        let left: Vec<u32> =
            workers.iter().filter(|worker| worker.lives()).map(|worker| worker.pid).collect();
        offences.push(format!("processes {left:?} are left after {CLEAN:?}"));
        left_to_die(&workers);
    }
    let clean = clean.elapsed();
    disk.as_ref().map_or(Ok(()), super::disk::Disk::empty)?;
    let book = Book::open(&desk)?;
    let (exit, said) = ended.map_or((None, String::new()), |ended| (ended.code, ended.stderr));
    let told = if book.detail.is_empty() { last_words(&said) } else { book.detail.clone() };
    let aftermath = FaultAftermath {
        case,
        too_late: hit == Hit::TooLate,
        state: book.state.clone(),
        exit,
        over,
        clean,
        intact: book.intact,
        told,
        offences,
    };
    Ok(aftermath.judged(&book, &said))
}

/// No other process will do it.
fn left_to_die(workers: &[WorkerProcess]) {
    for worker in workers {
        // It may go by itself meanwhile.
        let _ = worker.signal(Signal::KILL);
    }
}

/// The last line with an error that the driver printed; empty if there is none.
fn last_words(said: &str) -> String {
    let mut lines =
        said.lines().map(str::trim).filter(|line| line.starts_with("error") || line.contains("cannot"));
    lines.next_back().unwrap_or_default().to_owned()
}

/// The run as the database has it afterwards.
struct Book {
    intact: bool,
    state: String,
    detail: String,
    culprit: Option<u32>,
    /// The ranks that the run continued without, each with the reason.
    lost: Vec<(u32, String)>,
}

impl Book {
    fn open(desk: &Desk) -> Result<Self> {
        let check = desk.run(["db", "check"])?;
        let intact = check.code == Some(0) && check.stdout.starts_with("ok");
        let lines = desk.run(["list", "--format", "json"])?.with_code(0)?;
        let lines: Vec<Value> = serde_json::from_str(&lines.stdout)?;
        let id = lines.first().and_then(|line| line["id"].as_str()).context("the run is not listed")?;
        let shown = desk.run(["show", id, "--format", "json"])?.with_code(0)?;
        let shown: Value = serde_json::from_str(&shown.stdout)?;
        let attempt = &shown["run"]["attempt"];
        Ok(Self {
            intact,
            state: shown["line"]["state"].as_str().unwrap_or_default().to_owned(),
            detail: attempt["detail"].as_str().unwrap_or_default().to_owned(),
            culprit: attempt["culprit"].as_u64().map(|rank| rank as u32),
            lost: lost(&attempt["lost"]),
        })
    }
}

fn lost(rows: &Value) -> Vec<(u32, String)> {
    let row = |row: &Value| {
        (
            row["rank"].as_u64().unwrap_or(u64::MAX) as u32,
            row["reason"].as_str().unwrap_or_default().to_owned(),
        )
    };
    rows.as_array().into_iter().flatten().map(row).collect()
}

impl FaultAftermath {
    fn judged(mut self, book: &Book, said: &str) -> Self {
        if !self.intact {
            self.offences.push("the database is not intact".into());
        }
        if self.state == "running" || self.state == "pending" {
            self.offences.push(format!("the run is still `{}`", self.state));
        }
        // A run that is over before the fault is not hurt by it.
        let may_be_done = self.too_late || self.case.moment == Moment::ShutDown;
        if self.state == "done" {
            if !may_be_done {
                self.offences.push("the run went on to its end".into());
            }
            return self;
        }
        match self.case.fault {
            ProcessFault::Kill | ProcessFault::Stop if self.case.is_survived() => self.judge_lost(&book.lost),
            ProcessFault::Kill | ProcessFault::Stop => self.judge_rank(book.culprit),
            ProcessFault::DriverKill if self.state != "interrupted" => {
                self.offences.push(format!("`{}`, though only the driver died", self.state));
            }
            ProcessFault::DriverKill => {}
            ProcessFault::FullDisk => self.judge_disk(said),
        }
        self
    }

    /// The run continued to its end, and names the rank that it lost, and where that was.
    fn judge_lost(&mut self, lost: &[(u32, String)]) {
        let Case { rank, .. } = self.case;
        if self.state != "degraded" {
            self.offences.push(format!("`{}`, though the others could continue", self.state));
        }
        match lost {
            [(lost, reason)] if *lost == rank => {
                self.told.clone_from(reason);
                let place = ["in step ", "before its first step"];
                if !place.iter().any(|words| reason.contains(words)) || !reason.contains("phase ") {
                    self.offences.push(format!("`{reason}` does not say where rank {rank} was"));
                }
            }
            _ => self.offences.push(format!("rank {rank} is not what was lost, but {lost:?}")),
        }
    }

    /// The rank is named, and where it was.
    fn judge_rank(&mut self, culprit: Option<u32>) {
        let Case { rank, .. } = self.case;
        if culprit != Some(rank) {
            self.offences.push(format!("rank {rank} is not blamed, but {culprit:?}"));
        }
        let place = ["in step ", "before its first step", "while starting up"];
        if self.state != "failed" || !place.iter().any(|words| self.told.contains(words)) {
            self.offences.push(format!("`{}` does not say where rank {rank} was", self.state));
        }
        if !self.told.contains("phase ") && self.case.moment != Moment::StartUp {
            self.offences.push("no phase is reported".into());
        }
    }

    /// The full disk is reported: by the database if there was space for that, else by the driver.
    fn judge_disk(&mut self, said: &str) {
        let words = ["No space left", "the disk that the store lies on is full"];
        if !words.iter().any(|word| self.told.contains(word) || said.contains(word)) {
            self.offences.push(format!("the full disk is not reported:\n{said}"));
        }
    }
}
