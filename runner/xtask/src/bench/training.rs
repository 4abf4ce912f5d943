//! Steps of synchronous SGD between workers on this machine, beside PyTorch's DistributedDataParallel.

use std::path::Path;

use anyhow::{Context, Result};

use super::line::{Line, lines};
use super::peers::Peers;
use super::runs::{Job, Run, Schedule, Setup, bound, own_in_turn};
use super::table::{Table, beside, times};
use super::turns::Turns;
use super::{TURNS, median, memory};
use crate::child::Child;
use crate::workspace::Workspace;

const MODELS: [Job; 2] = [
    Job { model: "mnist-mlp", name: "mnist-mlp", workers: 2, batch: 50, steps: 280 },
    Job { model: "vgg-like", name: "VGG-like", workers: 2, batch: 32, steps: 6 },
];

/// Numbers of workers that each model is trained by.
const WORKERS: [u32; 2] = [2, 4];

/// Transport and schedule of our own runs, in the order of their columns.
const WAYS: [(&str, Schedule); 4] = [
    ("zeromq", Schedule::Single),
    ("zeromq", Schedule::MergedExact),
    ("shared-memory", Schedule::Single),
    ("shared-memory", Schedule::MergedExact),
];

/// The model of this name, if it is one that is measured.
pub(super) fn model(name: &str) -> Option<&'static str> {
    MODELS.into_iter().map(|job| job.model).find(|model| *model == name)
}

/// Gives each its turns and lays the results side by side; all models, or one.
pub(super) fn measure(
    workspace: &Workspace,
    peers: &Peers,
    turns: &mut Turns,
    only: Option<&str>,
) -> Result<Table> {
    random_images(&peers.folder().join("cifar-10"))?;
    let title = "A step of synchronous SGD by workers on this machine, over ZeroMQ and over shared memory (how many times as fast the \
                 best of the four is); memory of the largest process at most, in MiB, with what libraries take";
    let heads = [
        "model",
        "zeromq",
        "merged-exact",
        "shared memory",
        "merged-exact",
        "PyTorch DDP",
        "MiB zeromq",
        "shared",
        "DDP",
        "bound by",
    ];
    let mut table = Table::new(title, &heads);
    for model in MODELS.into_iter().filter(|job| only.is_none_or(|name| name == job.model)) {
        for workers in WORKERS {
            table.push(row(workspace, peers, turns, Job { workers, ..model })?);
        }
    }
    Ok(table)
}

fn row(workspace: &Workspace, peers: &Peers, turns: &mut Turns, job: Job) -> Result<Vec<String>> {
    let Job { name, workers, batch, .. } = job;
    let mut ours = WAYS.map(|_| Vec::new());
    let mut theirs = Vec::new();
    for turn in 1..=TURNS {
        eprintln!("training: turn {turn} of {TURNS}, {name}, {workers} workers");
        for ((transport, schedule), runs) in WAYS.into_iter().zip(&mut ours) {
            let settings = vec![
                format!("nodes.use=[\"local*{workers}\"]"),
                format!("communication.transport={transport}"),
            ];
            let setup = Setup { job, schedule, settings, variables: Vec::new() };
            runs.push(own_in_turn(workspace, peers.folder(), &setup, turns, turn)?);
        }
        if let Some(python) = peers.python() {
            theirs.extend(turns.turn(turn, || peer(workspace, python, job))?);
        }
    }
    let of = |runs: &[Run], value: fn(&Run) -> f64| runs.iter().map(value).collect::<Vec<f64>>();
    let of_peer = |value: &str| theirs.iter().filter_map(|line| line.value(value)).collect::<Vec<f64>>();
    let us = ours.each_ref().map(|runs| of(runs, |run| run.us));
    let middle = |us: &Vec<f64>| median(us).unwrap_or(f64::INFINITY);
    let best = (0..WAYS.len()).min_by(|a, b| middle(&us[*a]).total_cmp(&middle(&us[*b]))).unwrap_or(0);
    let name = format!("{name}, batch {workers} x {batch}");
    let compared = beside(&of_peer("us"), &us[best]);
    let mebibytes = |values: &[f64]| median(values).map_or_else(String::new, |value| format!("{value:.0}"));
    let memory = [0, 2].map(|way| mebibytes(&of(&ours[way], |run| run.mebibytes)));
    let [zeromq, zeromq_merged, shared, shared_merged] = us.each_ref().map(|us| times(us));
    let [of_zeromq, of_shared] = memory;
    let phases = middle_phases(&mut ours[best]);
    Ok(vec![
        name,
        zeromq,
        zeromq_merged,
        shared,
        shared_merged,
        compared,
        of_zeromq,
        of_shared,
        mebibytes(&of_peer("mib")),
        phases,
    ])
}

/// The phases that bound the run with the median time.
pub(super) fn middle_phases(runs: &mut [Run]) -> String {
    runs.sort_by(|a, b| a.us.total_cmp(&b.us));
    runs.get(runs.len() / 2).map_or_else(String::new, |run| bound(&run.phases))
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

fn peer(workspace: &Workspace, python: &Path, job: Job) -> Result<Vec<Line>> {
    let program = workspace.root().join("tests/peers/training.py");
    let arguments = [job.model, &job.workers.to_string(), &job.steps.to_string()];
    let program = Child::new(&python.to_string_lossy()).argument(program).arguments(&arguments);
    let (output, mebibytes) = memory::watched(|| program.read())?;
    let mut said = lines(&output, "training");
    for line in &mut said {
        line.values.insert("mib".to_owned(), mebibytes);
    }
    Ok(said)
}
