//! Checks before the start whether a machine can run a plan. Pure; refuses only plans that cannot work.

use crate::Inventory;
use recipe::{
    Access, Epoch, Extent, KeptModels, Model, Node, PayloadPath, Placement, Role, RunSpec, Source, Strategy,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A worker process before it has a model or data: program, libraries and their first allocations.
const PROCESS: u64 = 150 << 20;
/// Vectors as long as the weights that every rank has: the weights, their gradient, the velocity, one that is sent, one that is
/// received, and the copy for the evaluator.
const VECTORS: u64 = 6;
/// Bytes of a weight or an activation.
const FLOAT: u64 = 4;
/// Bytes of a sample's id in the log of events: MessagePack's longest form of 32 bits.
const SAMPLE_ID: u64 = 5;

/// What a rank takes of the memory that ranks share beside packets: a step of its growth, and for each other rank a page of
/// marks and a line of 64 KiB.
const SHARED_STEP: u64 = 4 << 20;
const SHARED_MARKS: u64 = 4096 + (64 << 10);

/// A machine's free resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreeResources {
    /// Cores that this process may use.
    pub cores: u32,
    /// Memory that is free or can be freed, in bytes.
    pub memory: u64,
    /// Space on the disk of the store, in bytes.
    pub disk: u64,
}

/// A problem found before a sweep begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concern {
    /// Whether the sweep can begin nevertheless.
    pub severity: ConcernLevel,
    /// The problem.
    pub what: String,
    /// What to do, in the imperative.
    pub cure: String,
}

/// How bad a concern is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConcernLevel {
    /// The measurements may be less meaningful.
    Warning,
    /// The sweep cannot work.
    Refusal,
}

/// The free resources of a plan's machines.
#[derive(Clone, Copy)]
pub struct Free<'a> {
    /// Of this machine, on which evaluators run and results are kept.
    pub here: FreeResources,
    /// Of another; `None` where they are not known, and for this one.
    pub of: &'a dyn Fn(&Node) -> Option<FreeResources>,
}

/// Checks the training of these runs, one after the other; `specs` has one entry per run. Returns at most
/// one concern of each kind and machine, about the worst case. The `inventory` is that of the worker binary.
pub fn preflight(specs: &[&RunSpec], free: Free<'_>, inventory: &Inventory) -> Vec<Concern> {
    let mut machines: BTreeMap<&str, &Node> = BTreeMap::new();
    for node in specs.iter().flat_map(|spec| &spec.cluster.nodes) {
        machines.entry(&node.name).or_insert(node);
    }
    let mut concerns = Vec::new();
    let parts: Vec<Part<'_>> = specs.iter().map(|spec| Part::here(spec)).collect();
    concerns.extend(memory(&parts, free.here, inventory));
    concerns.extend(cores(&parts, free.here));
    concerns.extend(disk(specs, free.here));
    for node in machines.into_values() {
        let Some(free) = (free.of)(node) else { continue };
        let parts: Vec<Part<'_>> = specs.iter().filter_map(|spec| Part::on(spec, node)).collect();
        let found = memory(&parts, free, inventory).into_iter().chain(cores(&parts, free));
        concerns.extend(
            found.map(|concern| Concern { what: format!("{}: {}", node.name, concern.what), ..concern }),
        );
    }
    concerns
}

/// The processes of a run on one machine.
struct Part<'a> {
    spec: &'a RunSpec,
    workers: u32,
    servers: u32,
    evaluator: bool,
}

impl<'a> Part<'a> {
    /// On the driver's machine.
    fn here(spec: &'a RunSpec) -> Self {
        let local = |seat: &&Placement| {
            spec.cluster.nodes.get(seat.node as usize).is_none_or(|node| node.access == Access::Local)
        };
        Self { evaluator: true, ..Self::of(spec, local) }
    }

    /// On another; `None` if the run has none there.
    fn on(spec: &'a RunSpec, node: &Node) -> Option<Self> {
        let index = spec.cluster.nodes.iter().position(|other| other.name == node.name)?;
        let part = Self::of(spec, |seat| seat.node as usize == index);
        (part.workers + part.servers > 0).then_some(part)
    }

    fn of(spec: &'a RunSpec, there: impl Fn(&&Placement) -> bool) -> Self {
        let count =
            |role| spec.cluster.seats.iter().filter(&there).filter(|seat| seat.role == role).count() as u32;
        Self { spec, workers: count(Role::Worker), servers: count(Role::Server), evaluator: false }
    }

    fn processes(&self) -> u32 {
        self.workers + self.servers + u32::from(self.evaluator)
    }
}

fn memory(parts: &[Part<'_>], free: FreeResources, inventory: &Inventory) -> Option<Concern> {
    let needs = parts.iter().map(|part| (Needs::of(part, inventory), part));
    let (needs, part) = needs.max_by_key(|(needs, _)| needs.all())?;
    let need = needs.all();
    let severity = if need > free.memory {
        ConcernLevel::Refusal
    } else if need > free.memory / 5 * 4 {
        ConcernLevel::Warning
    } else {
        return None;
    };
    let what = format!(
        "the largest run, with {} processes, needs about {} ({}); {} of memory are available",
        part.processes(),
        mebibytes(need),
        needs.words(),
        mebibytes(free.memory)
    );
    let cure = "use fewer workers, or a smaller model or batch; or free some memory";
    Some(Concern { severity, what, cure: cure.into() })
}

fn cores(parts: &[Part<'_>], free: FreeResources) -> Option<Concern> {
    // A synchronous server works while its workers wait, so only workers compete for cores; not where a step takes as
    // long as the recipe says.
    let real = parts.iter().filter(|part| part.spec.emulation.compute.is_none());
    let workers = real.map(|part| part.workers).max()?;
    (workers > free.cores).then(|| Concern {
        severity: ConcernLevel::Warning,
        what: format!(
            "up to {workers} workers share {} cores: they take turns, and times say little about a cluster",
            free.cores
        ),
        cure: "use at most as many workers as there are cores; accuracy is not affected".into(),
    })
}

fn disk(specs: &[&RunSpec], free: FreeResources) -> Option<Concern> {
    // The models that a run begins and ends with are kept, and its sample ids where they are asked for; what it is
    // evaluated with on the way goes before the next begins.
    let kept = specs.iter().map(|spec| kept_of(spec)).fold(0, u64::saturating_add);
    let passing = specs.iter().map(|spec| passing_snapshots_of(spec)).max()?;
    let need = kept.saturating_add(passing);
    (need > free.disk).then(|| Concern {
        severity: ConcernLevel::Refusal,
        what: format!(
            "the files that are kept of {} and the snapshots of one run need about {}; the store's disk has {} left",
            runs(specs.len()),
            mebibytes(need),
            mebibytes(free.disk)
        ),
        cure: "evaluate less often, train fewer runs or a smaller model, or choose a store on another disk with `--store`"
            .into(),
    })
}

/// Memory that the processes of a run need, in bytes.
struct Needs {
    weights: u64,
    /// Vectors as long as the weights, of a worker and of a server.
    vectors_of_worker: u64,
    vectors_of_server: u64,
    data: u64,
    /// Of a worker's share of the batch.
    activations: u64,
    /// Of each rank, in memory that ranks share.
    shared: u64,
    workers: u64,
    servers: u64,
    copies: u64,
    evaluator: bool,
}

impl Needs {
    fn of(part: &Part<'_>, inventory: &Inventory) -> Self {
        let spec = part.spec;
        let workers = u64::from(part.workers);
        let servers = u64::from(part.servers);
        let custom = match &spec.strategy {
            // It has no servers.
            Strategy::Custom { name, .. } => inventory.strategies.get(name).copied().unwrap_or(0),
            _ => 0,
        };
        let own = |role| spec.strategy.own_vectors(role, spec.cluster.workers());
        let all = u64::from(spec.cluster.workers());
        let batch = u64::from(spec.train.global_batch).div_ceil(all.max(1));
        Self {
            weights: FLOAT * spec.model.parameters() as u64,
            vectors_of_worker: VECTORS + custom + own(Role::Worker) + spec.compression.own_vectors(),
            vectors_of_server: VECTORS + own(Role::Server),
            data: data_of(&spec.dataset.source),
            activations: batch * activations(&spec.model),
            shared: shared_of(spec),
            workers,
            servers,
            copies: copies_of(spec),
            evaluator: part.evaluator,
        }
    }

    fn worker(&self) -> u64 {
        PROCESS + self.vectors_of_worker * self.weights + self.data + self.activations + self.shared
    }

    fn server(&self) -> u64 {
        PROCESS + self.vectors_of_server * self.weights + self.shared
    }

    /// The model and a buffer; where models are averaged, their sums of 64 bits as well.
    fn evaluator(&self) -> u64 {
        PROCESS + if self.copies > 1 { 4 } else { 2 } * self.weights + self.data
    }

    /// The memory of all processes of the run, in bytes.
    fn all(&self) -> u64 {
        let evaluator = if self.evaluator { self.evaluator() } else { 0 };
        self.workers * self.worker() + self.servers * self.server() + evaluator
    }

    /// The sum in words.
    fn words(&self) -> String {
        let mut parts = Vec::new();
        if self.workers > 0 {
            parts.push(format!(
                "{} x {} for a worker: {} to run, {} x {} of weights, {} of data, {} of activations",
                self.workers,
                mebibytes(self.worker()),
                mebibytes(PROCESS),
                self.vectors_of_worker,
                mebibytes(self.weights),
                mebibytes(self.data),
                mebibytes(self.activations)
            ));
        }
        if self.servers > 0 {
            parts.push(format!("{} x {} for a server", self.servers, mebibytes(self.server())));
        }
        if self.shared > 0 {
            parts.push(format!("{} of each rank is memory that ranks share", mebibytes(self.shared)));
        }
        if self.evaluator {
            parts.push(format!("{} for the evaluator", mebibytes(self.evaluator())));
        }
        parts.join("; ")
    }
}

/// What each rank takes of shared memory beyond the vectors on their way: a packet that is still read while the next is written.
fn shared_of(spec: &RunSpec) -> u64 {
    match spec.communication.transport {
        PayloadPath::Zeromq => 0,
        PayloadPath::SharedMemory => {
            SHARED_STEP
                + SHARED_MARKS * u64::from(spec.cluster.ranks())
                + FLOAT * spec.model.parameters() as u64
        }
    }
}

/// Memory of one example between forward and backward pass, in bytes: the activations and their gradients.
fn activations(model: &Model) -> u64 {
    2 * FLOAT * model.activations() as u64
}

/// The data as a process holds it: a byte per pixel.
fn data_of(source: &Source) -> u64 {
    match source {
        Source::Synthetic { train, test, .. } => (u64::from(*train) + u64::from(*test)) * 28 * 28,
        Source::Mnist { .. } | Source::FashionMnist { .. } => 70_000 * 28 * 28,
        Source::Cifar10 { .. } | Source::Cifar100 { .. } => 60_000 * 3 * 32 * 32,
    }
}

/// One snapshot of a run, in bytes.
fn snapshot_of(spec: &RunSpec) -> u64 {
    FLOAT * spec.model.parameters() as u64
}

/// Snapshots at each evaluation point: one per worker if the models differ.
fn copies_of(spec: &RunSpec) -> u64 {
    if spec.strategy.models_differ() { u64::from(spec.cluster.workers()).max(1) } else { 1 }
}

/// Bytes of a run that are kept: its first and its last model, and if asked for the models of all ranks and the ids of its
/// samples.
fn kept_of(spec: &RunSpec) -> u64 {
    let ids = if spec.measure.samples { samples_of(spec, spec.train.length) } else { 0 };
    let models = match spec.measure.models {
        KeptModels::Judged => 2,
        KeptModels::All => 2 + copies_of(spec),
    };
    ids.saturating_mul(SAMPLE_ID).saturating_add(snapshot_of(spec).saturating_mul(models))
}

/// The snapshots of a run that are deleted after their evaluation, in bytes: at worst all of them wait for the end of the
/// ranks. If several ranks take snapshots, the first and the last of all but one are deleted too, and there may be a mean
/// of the last.
fn passing_snapshots_of(spec: &RunSpec) -> u64 {
    let epoch = Epoch { training_samples: training_samples(spec), global_batch: spec.train.global_batch };
    let count = spec.train.evaluate.times(samples_of(spec, spec.train.length), epoch);
    let copies = copies_of(spec);
    let ends = if copies > 1 { 2 * copies - 1 } else { 0 };
    count.saturating_mul(copies).saturating_add(ends).saturating_mul(snapshot_of(spec))
}

/// The samples in an extent of the training.
fn samples_of(spec: &RunSpec, extent: Extent) -> u64 {
    extent.samples(training_samples(spec), spec.train.global_batch)
}

/// Samples of the training file.
fn training_samples(spec: &RunSpec) -> u64 {
    match &spec.dataset.source {
        Source::Synthetic { train, .. } => u64::from(*train),
        Source::Mnist { .. } | Source::FashionMnist { .. } => 60_000,
        Source::Cifar10 { .. } | Source::Cifar100 { .. } => 50_000,
    }
}

fn runs(count: usize) -> String {
    if count == 1 { "1 run".into() } else { format!("{count} runs") }
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::spec;

    const LARGE: FreeResources = FreeResources { cores: 64, memory: 1 << 40, disk: 1 << 40 };

    fn preflight(specs: &[&RunSpec], free: FreeResources) -> Vec<Concern> {
        super::preflight(specs, Free { here: free, of: &|_| None }, &Inventory::default())
    }

    fn memory_of(spec: &RunSpec) -> u64 {
        Needs::of(&Part::here(spec), &Inventory::default()).all()
    }

    #[test]
    fn the_vectors_that_a_strategy_of_another_crate_holds_count() {
        let mut spec = spec(3);
        spec.strategy = Strategy::Custom { name: "lazy".into(), settings: [].into() };
        let with = |own| {
            Needs::of(
                &Part::here(&spec),
                &Inventory { strategies: [("lazy".into(), own)].into(), codecs: [].into() },
            )
            .all()
        };
        assert_eq!(with(5) - with(0), 3 * 5 * FLOAT * spec.model.parameters() as u64);
        assert_eq!(with(0), memory_of(&spec));
    }

    #[test]
    fn a_machine_with_room_raises_no_concern() {
        assert_eq!(preflight(&[&spec(4)], LARGE), []);
        assert_eq!(preflight(&[], FreeResources { cores: 1, memory: 0, disk: 0 }), []);
    }

    #[test]
    fn the_memory_of_all_processes_of_the_largest_run_counts() {
        // Four workers and the evaluator; the sample's model and data are small beside the processes.
        let need = memory_of(&spec(4));
        assert!((5 * PROCESS..6 * PROCESS).contains(&need), "{need}");
        let with = |memory| preflight(&[&spec(1), &spec(4)], FreeResources { memory, ..LARGE });
        assert_eq!(with(2 * need), []);
        assert_eq!(with(need + 1)[0].severity, ConcernLevel::Warning);
        let refused = with(need - 1);
        assert_eq!(refused[0].severity, ConcernLevel::Refusal);
        let sum = "the largest run, with 5 processes, needs about 756 MiB (4 x 152 MiB for a worker: 150 MiB to run, \
                   6 x 1 MiB of weights, 1 MiB of data, 1 MiB of activations; 151 MiB for the evaluator); 756 MiB of \
                   memory are available";
        assert_eq!(refused[0].what, sum);
    }

    #[test]
    fn the_vectors_of_the_strategy_and_of_the_codec_count() {
        let plain = spec(2);
        let need = |strategy, compression| {
            let spec = RunSpec { strategy, compression, ..plain.clone() };
            (memory_of(&spec) - memory_of(&plain)) / (FLOAT * spec.model.parameters() as u64)
        };
        let slow = recipe::Strategy::Slowmo { period: 2, slow_momentum: 0.5, slow_lr: 1.0 };
        let coded = recipe::Compression::Coded {
            codec: recipe::Codec::Sign,
            parameters: false,
            error_feedback: true,
        };
        // The evaluator averages models that differ, which takes two vectors more.
        assert_eq!(need(slow, recipe::Compression::None), 2 * 2 + 2);
        assert_eq!(need(recipe::Strategy::DSync, coded), 2);
    }

    #[test]
    fn more_ranks_than_cores_are_worth_a_word() {
        let with = |cores| preflight(&[&spec(4)], FreeResources { cores, ..LARGE });
        assert_eq!(with(4), []);
        assert_eq!(with(3)[0].severity, ConcernLevel::Warning);
        // Where a step takes as long as the recipe says, they do not need a core each.
        let mut told = spec(4);
        let step_time = std::time::Duration::from_millis(10);
        told.emulation.compute = Some(recipe::Compute { step_time, split: recipe::ComputeSplit::Measured });
        assert_eq!(preflight(&[&told], FreeResources { cores: 1, ..LARGE }), []);
    }

    #[test]
    fn shared_memory_counts_for_every_rank() {
        let plain = spec(4);
        let mut shared = plain.clone();
        shared.communication.transport = recipe::PayloadPath::SharedMemory;
        let each = SHARED_STEP + 4 * SHARED_MARKS + FLOAT * plain.model.parameters() as u64;
        assert_eq!(memory_of(&shared) - memory_of(&plain), 4 * each);
        let words = Needs::of(&Part::here(&shared), &Inventory::default()).words();
        assert!(words.contains("memory that ranks share"), "{words}");
    }

    #[test]
    fn where_models_differ_those_of_all_ranks_must_fit_the_disk() {
        let mut spec = spec(3);
        spec.train.length = Extent::Steps(100);
        spec.train.evaluate = Extent::Steps(10);
        spec.strategy = recipe::Strategy::LocalSgd { period: 5 };
        // Of rank 0 the first, the last and 10 others; of each other rank as many; and a mean.
        let need = (3 * 12 + 1) * FLOAT * spec.model.parameters() as u64;
        let with = |disk| preflight(&[&spec], FreeResources { disk, ..LARGE }).len();
        assert_eq!((with(need), with(need - 1)), (0, 1));
    }

    #[test]
    fn snapshots_must_fit_the_disk() {
        let mut spec = spec(2);
        spec.train.length = Extent::Steps(100);
        spec.train.evaluate = Extent::Steps(10);
        let mut rare = spec.clone();
        rare.train.evaluate = Extent::Steps(100);
        // The first and the last model of each, and the 10 others of the run that is evaluated most often.
        let need = (3 * 2 + 10) * FLOAT * spec.model.parameters() as u64;
        let with = |disk| preflight(&[&rare, &spec, &spec], FreeResources { disk, ..LARGE });
        assert_eq!(with(need), []);
        let refused = with(need - 1);
        assert_eq!(refused[0].severity, ConcernLevel::Refusal);
        assert!(refused[0].what.starts_with("the files that are kept of 3 runs"), "{refused:?}");
        // The ids of what a hundred steps use come on top, for the one run that asks for them: sixteen steps of 64 are an
        // epoch of 1000 samples.
        spec.measure.samples = true;
        let need = need + (6 * 1000 + 4 * 64) * SAMPLE_ID;
        let with = |disk| preflight(&[&rare, &spec, &rare], FreeResources { disk, ..LARGE });
        assert_eq!((with(need), with(need - 1).len()), (vec![], 1));
        // So does the model of each rank that puts one aside.
        spec.measure.models = KeptModels::All;
        let need = need + FLOAT * spec.model.parameters() as u64;
        let with = |disk| preflight(&[&rare, &spec, &rare], FreeResources { disk, ..LARGE });
        assert_eq!((with(need), with(need - 1).len()), (vec![], 1));
    }
}
