//! Checks before the start whether a machine can run a plan. Pure; refuses only plans that cannot work.

mod files;
mod memory;

use crate::Inventory;
use crate::node_facts::VISIBLE_GPUS;
use files::{checkpoints_of, kept_of, passing_snapshots_of};
use memory::Needs;
use recipe::{Access, Node, Placement, Role, RunSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes of a weight or an activation.
const FLOAT: u64 = 4;
/// A machine's free resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreeResources {
    /// Cores that this process may use.
    pub cores: u32,
    /// Memory that is free or can be freed, in bytes.
    pub memory: u64,
    /// Space on the disk of the store, in bytes.
    pub disk: u64,
    /// GPUs; `None` where they are not listed.
    pub gpus: Option<u32>,
}

/// A problem found before a sweep begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concern {
    /// Whether the sweep can begin nevertheless.
    pub severity: ConcernLevel,
    /// Problem as a clause, without a full stop.
    pub what: String,
    /// Advice in the imperative, without a full stop.
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
    let local: Vec<&Node> = machines.values().copied().filter(|node| node.access == Access::Local).collect();
    concerns.extend(local.into_iter().filter_map(|node| gpus(specs, node, free.here)));
    for node in machines.into_values() {
        let Some(free) = (free.of)(node) else { continue };
        let parts: Vec<Part<'_>> = specs.iter().filter_map(|spec| Part::on(spec, node)).collect();
        let found = memory(&parts, free, inventory).into_iter().chain(cores(&parts, free));
        let found = found.chain(gpus(specs, node, free));
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
        let local = |placement: &&Placement| {
            spec.cluster.nodes.get(placement.node as usize).is_none_or(|node| node.access == Access::Local)
        };
        Self { evaluator: true, ..Self::of(spec, local) }
    }

    /// On another; `None` if the run has none there.
    fn on(spec: &'a RunSpec, node: &Node) -> Option<Self> {
        let index = spec.cluster.nodes.iter().position(|other| other.name == node.name)?;
        let part = Self::of(spec, |placement| placement.node as usize == index);
        (part.workers + part.servers > 0).then_some(part)
    }

    fn of(spec: &'a RunSpec, there: impl Fn(&&Placement) -> bool) -> Self {
        let count = |role| {
            spec.cluster.placements.iter().filter(&there).filter(|placement| placement.role == role).count()
                as u32
        };
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

/// Workers that are to compute on GPUs that the machine does not have.
fn gpus(specs: &[&RunSpec], node: &Node, free: FreeResources) -> Option<Concern> {
    // The inventory may leave the node's workers other GPUs than a login sees.
    let there = free.gpus.filter(|_| !node.environment.contains_key(VISIBLE_GPUS))?;
    let missing =
        specs.iter().flat_map(|spec| gpus_of(spec, &node.name)).filter(|gpu| *gpu >= there).min()?;
    let have = match there {
        0 => "NVIDIA's driver lists no GPU there".to_owned(),
        1 => "there is one GPU, `cuda:0`".to_owned(),
        more => format!("there are {more} GPUs, `cuda:0` to `cuda:{}`", more - 1),
    };
    let cure = if there == 0 {
        "train on processors: `nodes.device = \"cpu\"`"
    } else {
        "take fewer workers, or let them share one: `nodes.device = \"cuda:0\"`"
    };
    let what = format!("a worker is to compute on `cuda:{missing}`, and {have}");
    Some(Concern { severity: ConcernLevel::Refusal, what, cure: cure.into() })
}

/// The GPUs that workers of a run compute on, on the node of this name.
fn gpus_of(spec: &RunSpec, name: &str) -> Vec<u32> {
    let cluster = &spec.cluster;
    let on = |rank: &usize| {
        cluster.nodes.get(cluster.placements[*rank].node as usize).is_some_and(|node| node.name == name)
    };
    (0..cluster.placements.len()).filter(on).filter_map(|rank| cluster.gpu(rank)).collect()
}

/// The bytes of the files that are kept of runs: the models that each begins and ends with, and its sample ids, as far as their recipe
/// asks for them.
pub fn kept_files<'a>(specs: impl Iterator<Item = &'a RunSpec>) -> u64 {
    specs.map(kept_of).fold(0, u64::saturating_add)
}

fn disk(specs: &[&RunSpec], free: FreeResources) -> Option<Concern> {
    // Passing snapshots and checkpoints are deleted before the next run begins: only the largest need counts.
    let kept = kept_files(specs.iter().copied());
    let passing =
        specs.iter().map(|spec| passing_snapshots_of(spec).saturating_add(checkpoints_of(spec))).max()?;
    let need = kept.saturating_add(passing);
    (need > free.disk).then(|| Concern {
        severity: ConcernLevel::Refusal,
        what: format!(
            "the files that are kept of {} and the snapshots {}of one run need about {}; the store's disk has {} left",
            runs(specs.len()),
            if specs.iter().any(|spec| spec.train.checkpoint.is_some()) { "and checkpoints " } else { "" },
            mebibytes(need),
            mebibytes(free.disk)
        ),
        cure: "evaluate less often, train fewer runs or a smaller model, keep no models (`measure.models = \"none\"`), or choose \
               a store on another disk with `--store`"
            .into(),
    })
}

fn runs(count: usize) -> String {
    if count == 1 { "1 run".into() } else { format!("{count} runs") }
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::files::SAMPLE_ID;
    use super::memory::{PROCESS, SHARED_MARKS, SHARED_STEP};
    use super::*;
    use crate::sample::spec;
    use recipe::{Extent, KeptModels, Strategy};

    const LARGE: FreeResources = FreeResources { cores: 64, memory: 1 << 40, disk: 1 << 40, gpus: None };

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
        assert_eq!(with(5) - with(0), 3 * 5 * FLOAT * spec.model.parameter_count() as u64);
        assert_eq!(with(0), memory_of(&spec));
    }

    #[test]
    fn workers_need_the_gpus_that_they_compute_on() {
        let mut spec = spec(3);
        let with = |spec: &RunSpec, gpus| preflight(&[spec], FreeResources { gpus, ..LARGE });
        assert_eq!(with(&spec, Some(0)), []);
        spec.cluster.nodes[0].device = recipe::Device::GpuEach;
        assert_eq!((with(&spec, None), with(&spec, Some(3))), (vec![], vec![]));
        let found = with(&spec, Some(2));
        assert_eq!(found[0].severity, ConcernLevel::Refusal);
        assert!(found[0].what.contains("`cuda:2`") && found[0].what.contains("2 GPUs"), "{found:?}");
        spec.cluster.nodes[0].device = recipe::Device::Gpu(1);
        assert_eq!(with(&spec, Some(2)), []);
        assert!(with(&spec, Some(1))[0].cure.contains("share one"));
        assert!(with(&spec, Some(0))[0].cure.contains("cpu"));
        let variable = |name: &str| [(name.to_owned(), "2".to_owned())].into();
        spec.cluster.nodes[0].environment = variable("MALLOC_ARENA_MAX");
        assert_eq!(with(&spec, Some(0)).len(), 1);
        spec.cluster.nodes[0].environment = variable("CUDA_VISIBLE_DEVICES");
        assert_eq!(with(&spec, Some(0)), []);
    }

    #[test]
    fn a_machine_with_room_raises_no_concern() {
        assert_eq!(preflight(&[&spec(4)], LARGE), []);
        assert_eq!(preflight(&[], FreeResources { cores: 1, memory: 0, disk: 0, gpus: Some(0) }), []);
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
        let sum = "the largest run, with 5 processes, needs about 768 MiB (4 x 152 MiB for a worker: 150 MiB to run, \
                   6 x 1 MiB of weights, 1 MiB of data, 1 MiB of activations; 163 MiB for the evaluator); 768 MiB of \
                   memory are available";
        assert_eq!(refused[0].what, sum);
    }

    #[test]
    fn the_vectors_of_the_strategy_and_of_the_codec_count() {
        let plain = spec(2);
        let need = |strategy, compression| {
            let spec = RunSpec { strategy, compression, ..plain.clone() };
            (memory_of(&spec) - memory_of(&plain)) / (FLOAT * spec.model.parameter_count() as u64)
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
        let each = SHARED_STEP + 4 * SHARED_MARKS + FLOAT * plain.model.parameter_count() as u64;
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
        let need = (3 * 12 + 1) * FLOAT * spec.model.parameter_count() as u64;
        let with = |disk| preflight(&[&spec], FreeResources { disk, ..LARGE }).len();
        assert_eq!((with(need), with(need - 1)), (0, 1));
    }

    #[test]
    fn four_checkpoints_must_fit_the_disk_and_one_state_the_memory() {
        let plain = spec(3);
        let mut saved = plain.clone();
        saved.train.checkpoint = Some(Extent::Steps(10));
        saved.strategy = Strategy::PipeSgd { depth: 3, warmup: Extent::Steps(0), segments: 1 };
        let weights = FLOAT * plain.model.parameter_count() as u64;
        // Weights, velocity, and the three gradients in the pipeline.
        assert_eq!(checkpoints_of(&saved), 4 * 3 * 5 * weights);
        assert_eq!(checkpoints_of(&plain), 0);
        let without = RunSpec { train: plain.train.clone(), ..saved.clone() };
        assert_eq!(memory_of(&saved) - memory_of(&without), 3 * 5 * weights);
        // The first and the last model, and those of two evaluations.
        let need = 4 * 3 * 5 * weights + 4 * weights;
        let with = |disk| preflight(&[&saved], FreeResources { disk, ..LARGE });
        assert_eq!(with(need), []);
        assert!(with(need - 1)[0].what.contains("the snapshots and checkpoints of one run"));
    }

    #[test]
    fn an_optimizer_with_two_moments_takes_a_vector_more_of_each_rank() {
        let mut spec = spec(3);
        spec.train.checkpoint = Some(Extent::Steps(10));
        let mut adamw = spec.clone();
        adamw.train.optimizer.rule = recipe::UpdateRule::Adamw { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 };
        let weights = FLOAT * spec.model.parameter_count() as u64;
        // In use, and in the state that is saved.
        assert_eq!(memory_of(&adamw) - memory_of(&spec), 3 * 2 * weights);
        assert_eq!(checkpoints_of(&adamw) - checkpoints_of(&spec), 4 * 3 * weights);
        // A velocity is counted whether there is one or not.
        adamw.train.optimizer =
            recipe::OptimizerSettings { momentum: 0.9, ..recipe::OptimizerSettings::sgd(0.1) };
        assert_eq!(memory_of(&adamw), memory_of(&spec));
    }

    #[test]
    fn snapshots_must_fit_the_disk() {
        let mut spec = spec(2);
        spec.train.length = Extent::Steps(100);
        spec.train.evaluate = Extent::Steps(10);
        let mut rare = spec.clone();
        rare.train.evaluate = Extent::Steps(100);
        // The first and the last model of each, and the 10 others of the run that is evaluated most often.
        let need = (3 * 2 + 10) * FLOAT * spec.model.parameter_count() as u64;
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
        // Where none is kept, the two that a run has at its end take their room once.
        let mut none = spec.clone();
        none.measure = recipe::Measure { models: KeptModels::None, samples: false, ..none.measure };
        let with = |disk| preflight(&[&none, &none], FreeResources { disk, ..LARGE });
        let room = 12 * FLOAT * spec.model.parameter_count() as u64;
        assert_eq!((with(room), with(room - 1).len()), (vec![], 1));
        // So does the model of each rank that puts one aside.
        spec.measure.models = KeptModels::All;
        let need = need + FLOAT * spec.model.parameter_count() as u64;
        let with = |disk| preflight(&[&rare, &spec, &rare], FreeResources { disk, ..LARGE });
        assert_eq!((with(need), with(need - 1).len()), (vec![], 1));
    }
}
