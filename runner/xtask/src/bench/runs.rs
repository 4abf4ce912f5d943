//! One run of `bakeoff` that a benchmark makes, and what its steps took.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

use super::line::Line;
use super::turns::Turns;
use super::{median, memory};
use crate::child::Child;
use crate::workspace::Workspace;

/// The model, workers and batch that a row is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    /// The recipe, and PyTorch's model.
    pub(super) model: &'static str,
    /// Name of the model in the table.
    pub(super) name: &'static str,
    pub(super) workers: u32,
    /// Samples of each worker in a step.
    pub(super) batch: u32,
    /// Timed steps of a stretch.
    pub(super) steps: usize,
}

/// Stretches of a run that count; the steps before them warm up.
const STRETCHES: usize = 3;

/// When layers travel: after the backward pass, or as planned from the first steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Schedule {
    Single,
    MergedExact,
}

impl Schedule {
    pub(super) const ALL: [Self; 2] = [Self::Single, Self::MergedExact];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::MergedExact => "merged-exact",
        }
    }

    /// Steps before those that count: some warm up, and a plan takes eight that are measured.
    fn opening_steps(self) -> usize {
        match self {
            Self::Single => 6,
            Self::MergedExact => 16,
        }
    }
}

/// A run to be made.
pub(super) struct Setup<'a> {
    pub(super) job: Job,
    pub(super) schedule: Schedule,
    /// Further settings of the recipe, as `key=value`.
    pub(super) settings: Vec<String>,
    /// Environment variables of the run, by name.
    pub(super) variables: Vec<(&'static str, &'a Path)>,
}

/// The step time of one of our runs, in all and by phase.
pub(super) struct Run {
    pub(super) us: f64,
    /// Of the largest process, at most.
    pub(super) mebibytes: f64,
    pub(super) phases: BTreeMap<String, f64>,
}

impl Run {
    /// As it is stored.
    pub(super) fn line(&self, setup: &Setup<'_>) -> Line {
        let Setup { job, schedule, settings, .. } = setup;
        let model = format!("model={}", job.model);
        let schedule = format!("schedule={}", schedule.name());
        let mut words = ["training", "bakeoff", &model, &schedule].map(str::to_owned).to_vec();
        words.extend(settings.iter().cloned());
        let mut values = BTreeMap::from([
            ("ranks".to_owned(), f64::from(job.workers)),
            ("us".to_owned(), self.us),
            ("mib".to_owned(), self.mebibytes),
        ]);
        values.extend(self.phases.iter().map(|(phase, us)| (phase.clone(), *us)));
        Line { words, values }
    }
}

/// Makes a run in its turn, whose line is kept.
pub(super) fn own_in_turn(
    workspace: &Workspace,
    folder: &Path,
    setup: &Setup<'_>,
    turns: &mut Turns,
    number: usize,
) -> Result<Run> {
    let mut run = None;
    turns.turn(number, || {
        let made = own(workspace, folder, setup)?;
        let line = made.line(setup);
        run = Some(made);
        Ok(vec![line])
    })?;
    run.context("the turn made no run")
}

/// Makes a run; `folder` holds the store and the images.
fn own(workspace: &Workspace, folder: &Path, setup: &Setup<'_>) -> Result<Run> {
    let Setup { job, schedule, settings, variables } = setup;
    let Job { model, workers, batch, steps, .. } = *job;
    let program = workspace.target_folder()?.join("release/bakeoff").to_string_lossy().into_owned();
    let recipe = workspace.root().join(format!("tests/peers/{model}.toml"));
    let store = folder.join("store");
    let images = folder.join("cifar-10");
    let mut run = Child::new(&program).argument("run").argument(recipe).arguments(&["--yes", "--fresh"]);
    run = run.argument("--store").argument(&store);
    let all_steps = schedule.opening_steps() + STRETCHES * steps;
    let mut set = vec![
        format!("train.global-batch={}", workers * batch),
        format!("train.steps={all_steps}"),
        format!("communication.schedule={}", schedule.name()),
    ];
    if model == "vgg-like" {
        set.push(format!("dataset.path={}", images.display()));
    }
    for setting in set.iter().chain(settings) {
        run = run.argument("--set").argument(setting);
    }
    for (name, value) in variables {
        run = run.variable(name, value);
    }
    let (_, mebibytes) = memory::watched(|| run.read())?;
    let export = ["export", "last", "--format", "csv", "--what", "steps"];
    let steps_of_run = Child::new(&program).arguments(&export).argument("--store").argument(&store).read()?;
    let (us, phases) =
        summary(&steps_of_run, steps).with_context(|| format!("the run of {model} has too few steps"))?;
    Ok(Run { us, mebibytes, phases })
}

/// The median over the last stretches of the mean step of the first worker in microseconds, and of each phase the mean.
fn summary(csv: &str, steps: usize) -> Option<(f64, BTreeMap<String, f64>)> {
    let mut lines = csv.lines();
    let head: Vec<&str> = lines.next()?.split(',').collect();
    let column = |name: &str| head.iter().position(|own| *own == name);
    let rank = column("rank")?;
    let lane = column("lane")?;
    let drain = column("drain")?;
    let length = column("length_ns")?;
    let rows: Vec<Vec<&str>> = lines
        .map(|line| line.split(',').collect::<Vec<_>>())
        .filter(|row| {
            row.len() == head.len() && row[rank] == "0" && row[lane] == "compute" && row[drain] == "0"
        })
        .collect();
    let counted = &rows[rows.len().checked_sub(STRETCHES * steps)?..];
    let mean = |rows: &[Vec<&str>], column: usize| {
        rows.iter().filter_map(|row| row[column].parse::<f64>().ok()).sum::<f64>() / rows.len() as f64 / 1e3
    };
    let stretches: Vec<f64> = counted.chunks(steps).map(|stretch| mean(stretch, length)).collect();
    let skip = ["begin_ns", "length_ns", "hidden_ns"];
    let names = head.iter().enumerate().filter(|(_, name)| name.ends_with("_ns") && !skip.contains(name));
    let phases =
        names.map(|(at, name)| (name.trim_end_matches("_ns").to_owned(), mean(counted, at))).collect();
    Some((median(&stretches)?, phases))
}

/// The kind of work that most of the step goes to, and its share.
pub(super) fn bound(phases: &BTreeMap<String, f64>) -> String {
    let kinds: [(&str, &[&str]); 3] = [
        ("arithmetic", &["data", "forward", "backward", "update", "reduce"]),
        ("copying", &["copy", "encode", "send", "transfer", "decode", "snapshot"]),
        ("latency", &["wait_peer", "wait_lane", "other"]),
    ];
    let total: f64 = phases.values().sum();
    let share = |names: &[&str]| {
        names.iter().filter_map(|name| phases.get(*name)).fold(0.0, |sum, time| sum + time) / total
    };
    let mut shares = kinds.map(|(word, names)| (share(names), word));
    shares.sort_by(|a, b| b.0.total_cmp(&a.0));
    let words = shares.map(|(share, word)| format!("{word} {:.0} %", 100.0 * share));
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CSV: &str = "run,rank,lane,step,begin_ns,length_ns,drain,forward_ns,wait_peer_ns\n\
                       a,0,compute,1,0,90000,0,80000,10000\n\
                       a,1,compute,1,0,70000,0,70000,0\n\
                       a,0,compute,2,0,10000,0,8000,2000\n\
                       a,0,compute,3,0,12000,0,8000,4000\n\
                       a,0,compute,4,0,14000,0,8000,6000\n\
                       a,0,compute,5,0,99000,1,0,99000\n";

    #[test]
    fn the_last_stretches_of_the_first_worker_count() {
        let (us, phases) = summary(CSV, 1).expect("four steps");
        assert!((us - 12.0).abs() < 1e-9);
        assert_eq!(bound(&phases), "arithmetic 67 %, latency 33 %, copying 0 %");
        assert!(summary(CSV, 2).is_none());
    }
}
