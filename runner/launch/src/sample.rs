//! A small run for tests.

use recipe::{
    Cluster, Collective, Communication, Compression, Dataset, Extent, Layer, LrScale, LrSchedule, LrShape,
    Measure, Model, Node, Parameter, Partition, PlacedLayer, ReduceOrder, Role, RunSpec, Schedule, Seat, Sgd,
    Shape, Source, Strategy, Training,
};

/// A linear model on drawn glyphs, trained by this many workers.
pub(crate) fn spec(workers: u32) -> RunSpec {
    let layer = PlacedLayer {
        name: "linear1".into(),
        layer: Layer::Linear { outputs: 10 },
        input: Shape::Flat(784),
        output: Shape::Flat(10),
        parameters: vec![
            Parameter { name: "linear1.weight".into(), shape: vec![10, 784] },
            Parameter { name: "linear1.bias".into(), shape: vec![10] },
        ],
        flops: 2 * 7_840,
    };
    RunSpec {
        model: Model {
            kind: "softmax".into(),
            input: Shape::Image(1, 28, 28),
            classes: 10,
            layers: vec![layer],
            init: recipe::Init::Pytorch,
        },
        dataset: Dataset {
            source: Source::Synthetic { train: 1_000, test: 200, seed: 1 },
            partition: Partition::Shared,
            validation: 0.0,
            sampling: recipe::Sampling::Permutation,
        },
        train: Training {
            global_batch: 64,
            length: Extent::Steps(6),
            accumulate: 1,
            optimizer: Sgd { lr: 0.1, momentum: 0.0, weight_decay: 0.0, clip: None },
            schedule: LrSchedule { shape: LrShape::Constant, warmup: Extent::Steps(0), scale: LrScale::None },
            evaluate: Extent::Steps(3),
            target: None,
        },
        cluster: Cluster {
            nodes: vec![Node { name: "local".into(), slots: workers }],
            seats: vec![Seat { role: Role::Worker, node: 0 }; workers as usize],
        },
        strategy: Strategy::DSync,
        communication: Communication {
            collective: Collective::Ring,
            schedule: Schedule::Single,
            reduce_order: ReduceOrder::Ring,
        },
        compression: Compression::None,
        measure: Measure {
            trace_first_steps: 0,
            trace_every: 0,
            hash_every_step: false,
            samples: false,
            models: recipe::KeptModels::Judged,
        },
        emulation: recipe::Emulation::default(),
        threads: recipe::Threads::default(),
    }
}
