//! Steps of synchronous SGD between two workers, beside PyTorch's DistributedDataParallel.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

use super::line::Line;
use super::line::lines;
use super::peers::Peers;
use super::table::{Table, beside, times};
use super::turns::Turns;
use super::{TURNS, median};
use crate::child::Child;
use crate::workspace::Workspace;

/// What a row is about.
#[derive(Clone, Copy, Debug)]
struct Job {
    /// The recipe, and PyTorch's model.
    model: &'static str,
    /// In the table.
    name: &'static str,
    workers: u32,
    /// Samples of each worker in a step.
    batch: u32,
    /// Timed steps of a stretch.
    steps: usize,
}

const MODELS: [Job; 2] = [
    Job { model: "mnist-mlp", name: "mnist-mlp", workers: 2, batch: 50, steps: 280 },
    Job { model: "vgg-like", name: "VGG-like", workers: 2, batch: 32, steps: 6 },
];

/// Numbers of workers.
const WORKERS: [u32; 2] = [2, 4];

/// Stretches of a run that count; the steps before them warm up.
const STRETCHES: usize = 3;

/// When layers travel: after the backward pass, or as planned from the first steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Schedule {
    Single,
    MergedExact,
}

impl Schedule {
    const ALL: [Self; 2] = [Self::Single, Self::MergedExact];

    fn name(self) -> &'static str {
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

/// Gives each its turns and lays the results side by side.
pub(super) fn measure(workspace: &Workspace, peers: &Peers, turns: &mut Turns) -> Result<Table> {
    random_images(&peers.folder().join("cifar-10"))?;
    let title = "A step of synchronous SGD by workers on this machine (how many times as fast the better schedule is)";
    let mut table = Table::new(title, &["model", "d-sync", "merged-exact", "PyTorch DDP", "bound by"]);
    for model in MODELS {
        for workers in WORKERS {
            table.push(row(workspace, peers, turns, Job { workers, ..model })?);
        }
    }
    Ok(table)
}

fn row(workspace: &Workspace, peers: &Peers, turns: &mut Turns, job: Job) -> Result<Vec<String>> {
    let Job { name, workers, batch, .. } = job;
    let mut ours = Schedule::ALL.map(|_| Vec::new());
    let mut theirs = Vec::new();
    for turn in 1..=TURNS {
        eprintln!("training: turn {turn} of {TURNS}, {name}, {workers} workers");
        for (schedule, runs) in Schedule::ALL.into_iter().zip(&mut ours) {
            let mut run = None;
            turns.turn(turn, || {
                let made = own(workspace, peers.folder(), job, schedule)?;
                let line = made.line(job, schedule);
                run = Some(made);
                Ok(vec![line])
            })?;
            runs.extend(run);
        }
        if let Some(python) = peers.python() {
            let said = turns.turn(turn, || peer(workspace, python, job))?;
            theirs.extend(said.first().and_then(|line| line.value("us")));
        }
    }
    let [single, merged] = ours.each_ref().map(|runs| runs.iter().map(|run| run.us).collect::<Vec<_>>());
    let merged_is_better = median(&merged) < median(&single);
    let better = if merged_is_better { &merged } else { &single };
    let name = format!("{name}, batch {workers} x {batch}");
    let [mut of_single, of_merged] = ours;
    let mut of_better = if merged_is_better { of_merged } else { std::mem::take(&mut of_single) };
    of_better.sort_by(|a, b| a.us.total_cmp(&b.us));
    let middle = &of_better[of_better.len() / 2];
    Ok(vec![name, times(&single), times(&merged), beside(&theirs, better), bound(&middle.phases)])
}

/// Images in the format of CIFAR-10 with meaningless pixels.
pub(super) fn random_images(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (name, images) in [("data_batch_1.bin", 2000_u32), ("test_batch.bin", 100)] {
        let mut state = u64::from(images);
        let mut bytes = Vec::new();
        for image in 0..images {
            bytes.push((image % 10) as u8);
            bytes.extend((0..3 * 32 * 32).map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 56) as u8
            }));
        }
        let path = folder.join(name);
        std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// The step time of one of our runs, in all and by phase.
struct Run {
    us: f64,
    phases: BTreeMap<String, f64>,
}

impl Run {
    fn line(&self, job: Job, schedule: Schedule) -> Line {
        let (model, schedule) = (format!("model={}", job.model), format!("schedule={}", schedule.name()));
        let words = ["training", "bakeoff", &model, &schedule].map(str::to_owned).to_vec();
        let values = [("ranks".to_owned(), f64::from(job.workers)), ("us".to_owned(), self.us)];
        Line { words, values: values.into() }
    }
}

fn own(workspace: &Workspace, folder: &Path, job: Job, schedule: Schedule) -> Result<Run> {
    let Job { model, workers, batch, steps, .. } = job;
    let program = workspace.target_folder()?.join("release/bakeoff").to_string_lossy().into_owned();
    let recipe = workspace.root().join(format!("tests/peers/{model}.toml"));
    let store = folder.join("store");
    let images = folder.join("cifar-10");
    let mut run = Child::new(&program).argument("run").argument(recipe).arguments(&["--yes", "--fresh"]);
    run = run.argument("--store").argument(&store);
    run = run.argument("--set").argument(format!("nodes.use=[\"local*{workers}\"]"));
    run = run.argument("--set").argument(format!("train.global-batch={}", workers * batch));
    let all_steps = schedule.opening_steps() + STRETCHES * steps;
    run = run.argument("--set").argument(format!("train.steps={all_steps}"));
    run = run.argument("--set").argument(format!("communication.schedule={}", schedule.name()));
    if model == "vgg-like" {
        run = run.argument("--set").argument(format!("dataset.path={}", images.display()));
    }
    run.read()?;
    let export = ["export", "last", "--format", "csv", "--what", "steps"];
    let steps_of_run = Child::new(&program).arguments(&export).argument("--store").argument(&store).read()?;
    summary(&steps_of_run, steps).with_context(|| format!("the run of {model} has too few steps"))
}

/// The median over the last stretches of the mean step of the first worker.
fn summary(csv: &str, steps: usize) -> Option<Run> {
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
    Some(Run { us: median(&stretches)?, phases })
}

fn peer(workspace: &Workspace, python: &Path, job: Job) -> Result<Vec<Line>> {
    let program = workspace.root().join("tests/peers/training.py");
    let arguments = [job.model, &job.workers.to_string(), &job.steps.to_string()];
    let output = Child::new(&python.to_string_lossy()).argument(program).arguments(&arguments).read()?;
    Ok(lines(&output, "training"))
}

/// The kind of work that most of the step goes to, and its share.
fn bound(phases: &BTreeMap<String, f64>) -> String {
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
        let run = summary(CSV, 1).expect("four steps");
        assert!((run.us - 12.0).abs() < 1e-9);
        assert_eq!(bound(&run.phases), "arithmetic 67 %, latency 33 %, copying 0 %");
        assert!(summary(CSV, 2).is_none());
    }
}
