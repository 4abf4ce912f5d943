//! Order for one attempt, and the rules that follow from it before anything starts.

use crate::checkpoints::Continuation;
use crate::supervise::Rules;
use crate::{End, ForkServers, LaunchError, Outcome};
use mesh::Deadlines;
use recipe::{Cluster, Placement, PlannedFault, RunSpec, Silence};
use record::Nanos;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Order to train one run, with its limits.
#[derive(Clone, Debug)]
pub struct Attempt<'a> {
    /// Specification of the run, which has no seed of its own.
    pub spec: &'a RunSpec,
    /// Seed of everything random in it.
    pub seed: u64,
    /// The attempt's own directory, made if it does not exist. Logs and snapshots are written to it. Of the
    /// snapshots that were evaluated only the initial and the last one are kept.
    pub directory: PathBuf,
    /// Path of the worker program.
    pub worker: PathBuf,
    /// Servers that fork its processes, for a binary that can be one ([`crate::WorkerBinary::forks`]); without them each
    /// process is executed.
    pub forks: Option<ForkServers>,
    /// Time limits of waits, before slowness and pauses that the recipe asks for are added.
    pub deadlines: Deadlines,
    /// Limit of the wall time of the run, with what it trained before this attempt.
    pub timeout: Option<Duration>,
    /// Where the run continues, if it does not begin.
    pub resume: Option<Continuation>,
}

/// How the user ends an attempt early. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct StopSignal {
    /// Stop at the next step.
    pub at_next_step: CancellationToken,
    /// Kill all processes of the attempt at once.
    pub now: CancellationToken,
}

/// Deadlines that allow for emulated slowness and for pauses, in which a rank is silent for longer.
pub(crate) fn patient(spec: &RunSpec, deadlines: Deadlines) -> Deadlines {
    let bytes = 4 * spec.model.parameter_count() as u64;
    let ranks = spec.cluster.ranks();
    let steps = spec.strategy.period();
    let more = spec.emulation.longest_silence(Silence { ranks, steps, bytes }, deadlines.peer);
    Deadlines { peer: deadlines.peer + more + spec.paused(), ..deadlines }
}

/// The outcome of an attempt that the user stopped while its hosts were opened and its processes started.
pub(crate) fn stopped_before_it_ran(begun: Instant) -> Outcome {
    Outcome {
        end: End::Interrupted { step: 0 },
        wall: since(begun),
        culprit: None,
        detail: "stopped by the user before it ran".into(),
        lost_ranks: Vec::new(),
        as_ordered: false,
        last_lines: Vec::new(),
    }
}

/// The attempt with an absolute path of its directory, which exists.
pub(crate) fn prepared(attempt: Attempt<'_>) -> Result<Attempt<'_>, LaunchError> {
    let fault = |path: PathBuf, what| move |source| LaunchError::File { path, what, source };
    let directory =
        std::path::absolute(&attempt.directory).map_err(fault(attempt.directory.clone(), "found"))?;
    let snapshots = directory.join("snapshots");
    fs::create_dir_all(&snapshots).map_err(fault(snapshots, "made"))?;
    if let Some(resume) = &attempt.resume {
        resume.bring_models(&directory);
    }
    Ok(Attempt { directory, ..attempt })
}

pub(crate) fn rules(attempt: &Attempt<'_>) -> Rules {
    Rules {
        roles: attempt.spec.cluster.placements.iter().map(|placement| placement.role).collect(),
        hosts: hosts(&attempt.spec.cluster),
        strategy: attempt.spec.strategy.clone(),
        deadlines: attempt.deadlines,
        // The time that the run trained in earlier attempts counts.
        timeout: attempt.timeout.map(|limit| limit.saturating_sub(before(attempt))),
        target: attempt.spec.train.target,
        evaluate_at_once: attempt.spec.threads.evaluate_at_once,
        faults: to_come(attempt),
        continues: attempt.spec.train.checkpoint.is_some(),
    }
}

/// The host of each rank by name; none where all run on one machine, which needs no name.
fn hosts(cluster: &Cluster) -> Vec<String> {
    if cluster.machines() < 2 {
        return Vec::new();
    }
    let name =
        |placement: &Placement| cluster.nodes.get(placement.node as usize).map(|node| node.name.clone());
    cluster.placements.iter().filter_map(name).collect()
}

/// Planned faults of the recipe, without those that struck before this attempt.
fn to_come(attempt: &Attempt<'_>) -> Vec<PlannedFault> {
    let before = attempt.resume.as_ref().map_or(0, |resume| resume.checkpoint.step());
    attempt.spec.faults.iter().filter(|fault| fault.step > before).copied().collect()
}

/// How long the run had trained before this attempt.
pub(crate) fn before(attempt: &Attempt<'_>) -> Duration {
    attempt.resume.as_ref().map_or(Duration::ZERO, |resume| Duration::from_nanos(resume.checkpoint.at.0))
}

pub(crate) fn since(begun: Instant) -> Nanos {
    Nanos(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX))
}
