//! A small sweep whose driver is killed at drawn moments and started again until the sweep is done.

use crate::driver::{Desk, DriverProcess, Ended, gone};
use crate::under_way::CLEAN;
use crate::{is_whole, numbers};
use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use store::EventLog;
use strategies::rng::mix;

/// The first drivers live at most this part of the undisturbed sweep's time, and later ones longer: `PATIENT` kills add as much again, so
/// that the sweep ends however busy the machine has become.
const LONGEST_LIFE: f64 = 1.0 / 6.0;
const PATIENT: f64 = 6.0;
/// For a driver that is left alone.
const PATIENCE: Duration = Duration::from_mins(4);
/// Kills after which a sweep is left alone.
const MOST_KILLS: u32 = 200;

/// Two arms whose state is more than weights, models at several points, and a checkpoint every quarter of a second or so.
const SWEEP: &str = r#"schema = 1
name = "killed"
[model]
kind = "mnist-mlp"
[dataset]
kind = "synthetic"
train = 500
test = 100
[train]
global-batch = 50
steps = 200
optimizer = { kind = "sgd", lr = 0.01, momentum = 0.9 }
evaluate = "45 steps"
checkpoint = "20 steps"
[measure]
steps = "all"
[nodes]
use = ["local*2"]
[[strategy]]
kind = "d-sync"
compression = { kind = "quantize8", error-feedback = true }
[[strategy]]
kind = "pipe-sgd"
[repeats]
count = 2
"#;

/// A run of the sweep: arm and repeat.
type Place = (String, u64);

/// The numbers of every run of the sweep.
pub type SweepNumbers = BTreeMap<Place, Vec<String>>;

/// A sweep that was killed again and again.
#[derive(Debug)]
pub struct KilledSweep {
    /// How often its driver was killed.
    pub kills: u32,
    /// How often a driver continued a run from a checkpoint.
    pub continued: u32,
    /// The numbers of its runs when it was done.
    pub numbers: SweepNumbers,
}

/// The sweep without interruption.
#[derive(Debug)]
pub struct Undisturbed {
    /// The numbers of its runs, which killed sweeps must end with as well.
    pub numbers: SweepNumbers,
    took: Duration,
}

/// Runs the sweep without interruption.
pub fn undisturbed() -> Result<Undisturbed> {
    let desk = desk()?;
    let begun = Instant::now();
    desk.run(["run", "recipe.toml"])?.with_code(0)?;
    Ok(Undisturbed { took: begun.elapsed(), numbers: numbers_of(&desk)? })
}

/// The sweep with a driver that is killed at moments drawn from `seed`. After each kill no process is left, and the database is
/// intact; in the end every run is there once.
///
/// # Errors
/// One of these does not hold.
pub fn killed_again_and_again(seed: u64, undisturbed: &Undisturbed) -> Result<KilledSweep> {
    let desk = desk()?;
    let mut kills = 0;
    let mut continued = 0;
    loop {
        let driver = desk.start(["run", "recipe.toml"])?;
        let longest = undisturbed.took.mul_f64(LONGEST_LIFE * (1.0 + f64::from(kills) / PATIENT));
        let life = longest.mul_f64(part(mix(seed, u64::from(kills))));
        let ended = lives(driver, if kills < MOST_KILLS { life } else { PATIENCE })?;
        continued += ended.stderr.matches("it continues from checkpoint ").count() as u32;
        // The first driver may not live long enough to make a store.
        if desk.at(".bakeoff/bakeoff.db").exists() {
            let check = desk.run(["db", "check"])?;
            let said = format!("{}{}", check.stdout, check.stderr);
            ensure!(check.code == Some(0), "after kill {kills}, seed {seed}: {said}");
        }
        match ended.code {
            Some(0) => return Ok(KilledSweep { kills, continued, numbers: numbers_of(&desk)? }),
            Some(code) => bail!("after kill {kills}, seed {seed}: exit code {code}\n{}", ended.stderr),
            None => kills += 1,
        }
    }
}

/// A random number as one from 0 to 1.
fn part(drawn: u64) -> f64 {
    drawn as f64 / u64::MAX as f64
}

/// Kills a driver after `life`, unless it has ended by then.
fn lives(driver: DriverProcess, life: Duration) -> Result<Ended> {
    let mut workers = Vec::new();
    let begun = Instant::now();
    let mut killed = false;
    let ended = driver.end_watched(life + PATIENCE, |driver| {
        if let Ok(children) = driver.workers() {
            workers.extend(children.into_iter().filter(|child| !workers.contains(child)).collect::<Vec<_>>());
        }
        if !killed && begun.elapsed() >= life {
            // It may end by itself at this moment.
            killed = driver.signal(Signal::KILL).is_ok();
        }
    })?;
    gone(&workers, CLEAN)?;
    Ok(ended)
}

fn desk() -> Result<Desk> {
    let desk = Desk::new()?;
    desk.write("recipe.toml", SWEEP)?;
    Ok(desk)
}

/// The numbers of all runs that are done; each was trained to its end once.
fn numbers_of(desk: &Desk) -> Result<SweepNumbers> {
    let runs = desk.json(["list", "--format", "json"])?;
    let mut found = SweepNumbers::new();
    for run in runs.as_array().context("no list")?.iter().filter(|run| run["state"] == "done") {
        let id = run["id"].as_str().context("no id")?;
        let attempt = desk.at(".bakeoff/runs").join(id).join("1");
        // A reused run has no attempt.
        let Ok(events) = EventLog::read(&attempt) else { continue };
        ensure!(is_whole(&events), "run {id} is done, and not all ranks ended");
        ensure!(!attempt.join("checkpoints").exists(), "run {id} is done and has checkpoints");
        let place = (text(&run["arm"]), run["repeat"].as_u64().context("no repeat")?);
        ensure!(found.insert(place, numbers(&events)).is_none(), "run {id} was done before");
    }
    ensure!(found.len() == 4, "{} of 4 runs are done", found.len());
    Ok(found)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
