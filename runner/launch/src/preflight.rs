//! Whether a machine can do what a plan asks, before anything is started. Pure, and careful: it refuses only
//! what cannot work.

use recipe::{Extent, Model, Role, RunSpec, Source};

/// A worker process before it has a model or data: program, libraries and their first allocations.
const PROCESS: u64 = 150 << 20;
/// A vector as long as the weights: the weights, their gradient, the velocity, what is being sent, what is
/// being received, and the copy for the evaluator.
const VECTORS: u64 = 6;
/// Bytes of a weight or an activation.
const FLOAT: u64 = 4;

/// What a machine has to offer at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Cores that this process may use.
    pub cores: u32,
    /// Memory that is free or can be freed, in bytes.
    pub memory: u64,
    /// Space on the disk of the store, in bytes.
    pub disk: u64,
}

/// Something to say before a sweep begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concern {
    /// Whether the sweep can begin nevertheless.
    pub severity: Severity,
    /// What is the matter.
    pub what: String,
    /// What to do about it.
    pub cure: String,
}

/// How bad a concern is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The numbers may mean less than they seem to.
    Warning,
    /// The sweep cannot work.
    Refusal,
}

/// What is to be said about running these on this machine, `jobs` at a time; of each kind the worst case.
pub fn preflight(specs: &[&RunSpec], machine: Machine, jobs: u32) -> Vec<Concern> {
    let jobs = jobs.max(1);
    let checks = [memory(specs, machine, jobs), cores(specs, machine, jobs), disk(specs, machine)];
    checks.into_iter().flatten().collect()
}

fn memory(specs: &[&RunSpec], machine: Machine, jobs: u32) -> Option<Concern> {
    let (need, spec) = specs.iter().map(|spec| (memory_of(spec), spec)).max_by_key(|(need, _)| *need)?;
    let all = need.saturating_mul(u64::from(jobs));
    let severity = match machine.memory {
        free if all > free => Severity::Refusal,
        free if all > free / 5 * 4 => Severity::Warning,
        _ => return None,
    };
    let what = format!(
        "{} at a time, the largest with {} processes, need about {}; {} of memory are available",
        runs(jobs),
        spec.cluster.ranks() + 1,
        mebibytes(all),
        mebibytes(machine.memory)
    );
    let cure = "use fewer workers, a smaller model or batch, or fewer `--jobs`; or free some memory";
    Some(Concern { severity, what, cure: cure.into() })
}

fn cores(specs: &[&RunSpec], machine: Machine, jobs: u32) -> Option<Concern> {
    // A synchronous server works while its workers wait, so only workers compete for cores.
    let workers = specs.iter().map(|spec| spec.cluster.workers()).max()?;
    let busy = workers.saturating_mul(jobs);
    (busy > machine.cores).then(|| Concern {
        severity: Severity::Warning,
        what: format!(
            "up to {busy} workers share {} cores: they take turns, and times say little about a cluster",
            machine.cores
        ),
        cure: "use at most as many workers as there are cores; accuracy is not affected".into(),
    })
}

fn disk(specs: &[&RunSpec], machine: Machine) -> Option<Concern> {
    let need = specs.iter().map(|spec| snapshots_of(spec)).max()?;
    (need > machine.disk).then(|| Concern {
        severity: Severity::Refusal,
        what: format!(
            "the snapshots of one run need about {}; the store's disk has {} left",
            mebibytes(need),
            mebibytes(machine.disk)
        ),
        cure: "evaluate less often, or choose a store on another disk with `--store`".into(),
    })
}

/// The memory of all processes of a run, in bytes.
fn memory_of(spec: &RunSpec) -> u64 {
    let weights = FLOAT * spec.model.parameters() as u64;
    let data = data_of(&spec.dataset.source);
    let workers = u64::from(spec.cluster.workers().max(1));
    let batch = u64::from(spec.train.global_batch).div_ceil(workers);
    let rank = |role| match role {
        Role::Worker => PROCESS + VECTORS * weights + data + batch * activations(&spec.model),
        // One buffer per worker in place of the activations.
        Role::Server => PROCESS + (VECTORS + workers) * weights,
    };
    let ranks: u64 = spec.cluster.seats.iter().map(|seat| rank(seat.role)).sum();
    ranks + PROCESS + 2 * weights + data
}

/// What one example leaves behind between forward and backward pass: each layer's output and its gradient.
fn activations(model: &Model) -> u64 {
    let values: u64 = model.layers.iter().map(|layer| layer.output.size() as u64).sum();
    2 * FLOAT * values
}

/// The data as a process holds it: a byte per pixel.
fn data_of(source: &Source) -> u64 {
    match source {
        Source::Synthetic { train, test, .. } => (u64::from(*train) + u64::from(*test)) * 28 * 28,
        Source::Mnist { .. } => 70_000 * 28 * 28,
        Source::Cifar10 { .. } | Source::Cifar100 { .. } => 60_000 * 3 * 32 * 32,
    }
}

/// The snapshots of a run, in bytes.
fn snapshots_of(spec: &RunSpec) -> u64 {
    let training = match &spec.dataset.source {
        Source::Synthetic { train, .. } => u64::from(*train),
        Source::Mnist { .. } => 60_000,
        Source::Cifar10 { .. } | Source::Cifar100 { .. } => 50_000,
    };
    let samples = |extent: Extent| extent.samples(training, spec.train.global_batch);
    // The initial and the final model come on top of those in between.
    let count = samples(spec.train.length) / samples(spec.train.evaluate).max(1) + 2;
    count.saturating_mul(FLOAT * spec.model.parameters() as u64)
}

fn runs(jobs: u32) -> String {
    if jobs == 1 { "1 run".into() } else { format!("{jobs} runs") }
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::spec;

    const LARGE: Machine = Machine { cores: 64, memory: 1 << 40, disk: 1 << 40 };

    #[test]
    fn a_machine_with_room_raises_no_concern() {
        assert_eq!(preflight(&[&spec(4)], LARGE, 2), []);
        assert_eq!(preflight(&[], Machine { cores: 1, memory: 0, disk: 0 }, 1), []);
    }

    #[test]
    fn the_memory_of_all_processes_of_all_jobs_counts() {
        // Four workers and the evaluator; the sample's model and data are small beside the processes.
        let need = memory_of(&spec(4));
        assert!((5 * PROCESS..6 * PROCESS).contains(&need), "{need}");
        let with = |memory, jobs| preflight(&[&spec(1), &spec(4)], Machine { memory, ..LARGE }, jobs);
        assert_eq!(with(2 * need, 1), []);
        assert_eq!(with(need + 1, 1)[0].severity, Severity::Warning);
        assert_eq!(with(need - 1, 1)[0].severity, Severity::Refusal);
        let refused = with(2 * need - 1, 2);
        assert!(refused[0].what.starts_with("2 runs at a time, the largest with 5 processes"), "{refused:?}");
    }

    #[test]
    fn more_ranks_than_cores_are_worth_a_word() {
        let with = |cores, jobs| preflight(&[&spec(4)], Machine { cores, ..LARGE }, jobs);
        assert_eq!(with(4, 1), []);
        assert_eq!(with(3, 1)[0].severity, Severity::Warning);
        assert_eq!(with(7, 2)[0].severity, Severity::Warning);
    }

    #[test]
    fn snapshots_must_fit_the_disk() {
        let mut spec = spec(2);
        spec.train.length = Extent::Steps(100);
        spec.train.evaluate = Extent::Steps(10);
        let need = 12 * FLOAT * spec.model.parameters() as u64;
        let with = |disk| preflight(&[&spec], Machine { disk, ..LARGE }, 1);
        assert_eq!(with(need), []);
        assert_eq!(with(need - 1)[0].severity, Severity::Refusal);
    }
}
