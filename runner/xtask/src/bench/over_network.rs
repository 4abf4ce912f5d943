//! `cargo xtask bench training network`: steps of D-Sync between network namespaces at 1 Gbit/s, beside PyTorch's
//! DistributedDataParallel in the same ones; in 32 bits, and with gradients of 16 bits.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, Result, bail};

use super::TURNS;
use super::line::{Line, lines};
use super::median;
use super::namespaces::{BANDWIDTH, BURST, CARD, Namespaces, OUTSIDE, address, frame_rate, inside, name};
use super::peers::Peers;
use super::runs::{Job, Schedule, Setup, own_in_turn};
use super::table::{Table, beside, times};
use super::training::{middle_phases, random_images};
use super::turns::Turns;
use crate::workspace::Workspace;

/// Each worker is in a namespace of its own.
const JOBS: [Job; 2] = [
    Job { model: "mnist-mlp", name: "mnist-mlp", workers: 2, batch: 50, steps: 80 },
    Job { model: "vgg-like", name: "VGG-like", workers: 2, batch: 32, steps: 6 },
];
/// Where PyTorch's ranks meet.
const PORT: &str = "7701";

/// How gradients travel: the recipe's compression, and PyTorch's hook for communication.
const CODINGS: [(&str, &str); 2] = [("none", "none"), ("truncate16", "fp16")];

/// Gives each its turns and lays the results side by side.
pub(super) fn measure(workspace: &Workspace, peers: &Peers, turns: &mut Turns) -> Result<Table> {
    random_images(&peers.folder().join("cifar-10"))?;
    let place = NamespaceLab::make(peers)?;
    println!(
        "1 Gbit/s of payload ({BANDWIDTH} bytes/s) per worker and direction: tbf at {} bit/s of frames, burst {BURST}\n",
        frame_rate()
    );
    let title = "A step of D-Sync between network namespaces (how many times as fast the better schedule is)";
    let heads = ["model", "coding, DDP's hook", "d-sync", "merged-exact", "PyTorch DDP", "bound by"];
    let mut table = Table::new(title, &heads);
    for job in JOBS {
        for row in place.rows(workspace, peers, turns, job)? {
            table.push(row);
        }
    }
    Ok(table)
}

/// The namespaces, and the way into them.
struct NamespaceLab {
    _spaces: Namespaces,
    /// A program in the place of `ssh`, which enters a namespace.
    enter: PathBuf,
    /// Of the hosts' agents.
    cache: PathBuf,
}

impl NamespaceLab {
    fn make(peers: &Peers) -> Result<Self> {
        let enter = peers.folder().join("enter");
        // The host's name is that of its namespace and ends with its rank.
        let script = format!(
            "#!/bin/sh\n\
             while [ \"$1\" != -- ]; do shift; done\n\
             host=$2; shift 2; rank=${{host#{}}}\n\
             exec ip netns exec \"$host\" env SSH_CONNECTION=\"{OUTSIDE} 1 10.78.0.$((rank + 1)) 22\" sh -c \"$*\"\n",
            name(0).trim_end_matches('0'),
        );
        fs::write(&enter, script).with_context(|| format!("cannot write {}", enter.display()))?;
        fs::set_permissions(&enter, Permissions::from_mode(0o755))?;
        Ok(Self { _spaces: Namespaces::make()?, enter, cache: peers.folder().join("cache") })
    }

    /// A row for each coding; all of them take turns with each other.
    fn rows(
        &self,
        workspace: &Workspace,
        peers: &Peers,
        turns: &mut Turns,
        job: Job,
    ) -> Result<Vec<Vec<String>>> {
        let mut found = CODINGS.map(|_| (Schedule::ALL.map(|_| Vec::new()), Vec::new()));
        for turn in 1..=TURNS {
            eprintln!("training network: turn {turn} of {TURNS}, {}", job.name);
            for ((compression, hook), (ours, theirs)) in CODINGS.into_iter().zip(&mut found) {
                for (schedule, runs) in Schedule::ALL.into_iter().zip(ours) {
                    let setup = self.setup(job, schedule, compression);
                    runs.push(own_in_turn(workspace, peers.folder(), &setup, turns, turn)?);
                }
                if let Some(python) = peers.python() {
                    theirs.extend(turns.turn(turn, || Self::peer(workspace, python, job, hook))?);
                }
            }
        }
        let rows = CODINGS.into_iter().zip(found).map(|((compression, hook), (ours, theirs))| {
            let us = ours.each_ref().map(|runs| runs.iter().map(|run| run.us).collect::<Vec<f64>>());
            let [single, merged] = &us;
            let merged_is_better = median(merged) < median(single);
            let [mut of_single, mut of_merged] = ours;
            let better = if merged_is_better { &mut of_merged } else { &mut of_single };
            let theirs: Vec<f64> = theirs.iter().filter_map(|line: &Line| line.value("us")).collect();
            vec![
                format!("{}, batch {} x {}", job.name, job.workers, job.batch),
                format!("{compression}, {hook}"),
                times(single),
                times(merged),
                beside(&theirs, if merged_is_better { merged } else { single }),
                middle_phases(better),
            ]
        });
        Ok(rows.collect())
    }

    fn setup(&self, job: Job, schedule: Schedule, compression: &str) -> Setup<'_> {
        let hosts: Vec<String> = (0..job.workers).map(|rank| format!("\"{}\"", name(rank))).collect();
        let settings = vec![
            format!("nodes.use=[{}]", hosts.join(", ")),
            "nodes.threads=1".to_owned(),
            format!("compression={compression}"),
        ];
        let variables = vec![("BAKEOFF_SSH", self.enter.as_path()), ("BAKEOFF_CACHE", self.cache.as_path())];
        Setup { job, schedule, settings, variables }
    }

    /// The lines of PyTorch's ranks, of which the first prints.
    fn peer(workspace: &Workspace, python: &Path, job: Job, hook: &str) -> Result<Vec<Line>> {
        let program = workspace.root().join("tests/peers/training.py");
        let arguments = [job.model, &job.workers.to_string(), &job.steps.to_string(), hook];
        let run = |rank: u32| {
            let python = inside(rank, &python.to_string_lossy());
            let python = python.argument(&program).arguments(&arguments);
            let python = python.variable("PEER_RANK", rank.to_string()).variable("OMP_NUM_THREADS", "1");
            let python = python.variable("MASTER_ADDR", address(0).to_string()).variable("MASTER_PORT", PORT);
            python.variable("GLOO_SOCKET_IFNAME", CARD).read()
        };
        let said: Vec<Result<String>> = thread::scope(|scope| {
            let run = &run;
            let ranks: Vec<_> = (0..job.workers).map(|rank| scope.spawn(move || run(rank))).collect();
            let join = |rank: thread::ScopedJoinHandle<'_, Result<String>>| {
                rank.join().unwrap_or_else(|_| bail!("a rank's thread panicked"))
            };
            ranks.into_iter().map(join).collect()
        });
        Ok(lines(&said.into_iter().collect::<Result<String>>()?, "training"))
    }
}
