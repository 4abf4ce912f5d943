//! A deterministic world for strategies: one lane at a time, virtual time, seeded interleavings.
//!
//! Each lane is a coroutine. The scheduler takes the next event in virtual time; ties are broken by the seed,
//! and a seeded jitter on the cost of work moves what would otherwise always come in the same order: ties
//! alone explore nothing once times differ. A world in which nothing can happen any more, while lanes still
//! wait, is a deadlock, and is reported with what each lane waits for.
//!
//! Nothing in this crate may keep state in a thread-local: all lanes share one thread here.

mod choices;
mod cost;
mod fault;
mod kernel;
mod runtime;
mod world;

pub use crate::emulation::Link;
pub use choices::Choices;
pub use cost::Costs;
pub use fault::{Aftermath, Ending, Fault, Faults, LaneEnd};
pub use world::{Blocked, Outcome, RankOutcome, World, WorldError};

use recipe::{
    Cluster, Collective, Communication, Compression, Dataset, Extent, LrScale, LrSchedule, LrShape, Measure,
    Model, Node, Partition, ReduceOrder, Role, RunSpec, Schedule, Seat, Sgd, Shape, Source, Strategy,
    Training,
};

/// A run of D-Sync on `workers` workers and built-in data, to change for a test: the model is a placeholder,
/// because a simulated world brings learners of its own.
pub fn sample_spec(workers: u32) -> RunSpec {
    let seats = (0..workers).map(|_| Seat { role: Role::Worker, node: 0 }).collect();
    RunSpec {
        model: Model {
            kind: "toy".into(),
            input: Shape::Flat(1),
            classes: 1,
            layers: vec![],
            init: recipe::Init::Pytorch,
        },
        dataset: Dataset {
            source: Source::Synthetic { train: 1000, test: 100, seed: 1 },
            partition: Partition::Shared,
            validation: 0.0,
            sampling: recipe::Sampling::Permutation,
        },
        train: Training {
            global_batch: 8,
            length: Extent::Steps(5),
            accumulate: 1,
            optimizer: Sgd { lr: 0.125, momentum: 0.0, weight_decay: 0.0, clip: None },
            schedule: LrSchedule { shape: LrShape::Constant, warmup: Extent::Steps(0), scale: LrScale::None },
            evaluate: Extent::Steps(1_000_000),
            target: None,
        },
        cluster: Cluster { nodes: vec![Node { name: "local".into(), slots: workers }], seats },
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
            hash_every_step: true,
            samples: false,
            models: recipe::KeptModels::Judged,
        },
        emulation: recipe::Emulation::default(),
        threads: recipe::Threads::default(),
    }
}

/// The same run by another strategy: with the servers it needs.
pub fn sample_spec_of(strategy: Strategy, workers: u32) -> RunSpec {
    let mut spec = sample_spec(workers);
    spec.cluster.seats.extend((0..strategy.servers()).map(|_| Seat { role: Role::Server, node: 0 }));
    spec.strategy = strategy;
    spec
}
