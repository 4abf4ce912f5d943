//! A small run to change for a test.

use crate::{
    Cluster, Collective, Communication, Compression, Dataset, Emulation, Extent, Init, KeptModels, KeptSteps,
    LayeredModel, LrScale, LrSchedule, LrShape, Measure, Model, ModelKind, Node, OptimizerSettings,
    Partition, PayloadPath, Placement, ReduceOrder, Role, RunSpec, Sampling, Schedule, Shape, Source,
    Strategy, Threads, Training,
};

impl RunSpec {
    /// Five steps of `d-sync` on `workers` workers and built-in data. The model has no layers: a test that trains brings one.
    #[doc(hidden)]
    pub fn sample(workers: u32) -> Self {
        Self {
            model: Model::Layers(LayeredModel {
                kind: ModelKind::Sequential,
                input: Shape::Flat(1),
                classes: 1,
                layers: vec![],
                init: Init::Pytorch,
            }),
            dataset: Dataset {
                source: Source::Synthetic { train: 1000, test: 100, seed: 1 },
                partition: Partition::Shared,
                validation: 0.0,
                sampling: Sampling::Permutation,
                augment: crate::Augmentation::NONE,
            },
            train: Training {
                global_batch: 8,
                length: Extent::Steps(5),
                accumulate: 1,
                optimizer: OptimizerSettings::sgd(0.125),
                schedule: LrSchedule {
                    shape: LrShape::Constant,
                    warmup: Extent::Steps(0),
                    scale: LrScale::None,
                },
                evaluate: Extent::Steps(1_000_000),
                checkpoint: None,
                target: None,
            },
            cluster: Cluster {
                nodes: vec![Node::local(workers)],
                tunnel: crate::Tunnel::None,
                placements: vec![Placement { role: Role::Worker, node: 0 }; workers as usize],
            },
            strategy: Strategy::DSync,
            communication: Communication {
                collective: Collective::Ring,
                schedule: Schedule::Single,
                reduce_order: ReduceOrder::Ring,
                transport: PayloadPath::Zeromq,
            },
            compression: Compression::None,
            custom_codec: None,
            measure: Measure {
                trace_first_steps: 0,
                trace_every: 0,
                hash_every_step: false,
                samples: false,
                models: KeptModels::Judged,
                steps: KeptSteps::Sampled,
            },
            emulation: Emulation::default(),
            faults: Vec::new(),
            threads: Threads::default(),
        }
    }

    /// The same run by another strategy, with the servers that it needs.
    #[doc(hidden)]
    pub fn sample_of(strategy: Strategy, workers: u32) -> Self {
        let mut spec = Self::sample(workers);
        let servers = (0..strategy.servers()).map(|_| Placement { role: Role::Server, node: 0 });
        spec.cluster.placements.extend(servers);
        spec.strategy = strategy;
        spec
    }
}
