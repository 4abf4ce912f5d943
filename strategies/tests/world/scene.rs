//! Runs of a strategy in a simulated world, each in one line: shared by the tests of this crate.

use recipe::{Codec, Compression, Extent, ReduceOrder, RunSpec, Strategy};
use record::{Event, LaneId, Nanos, Rank};
use std::sync::Arc;
use strategies::matrices::Matrix;
use strategies::sim::{Aftermath, Costs, Fault, Faults, Link, World, WorldOutcome, sample_spec_of};
use strategies::toy::Perceptron;
use strategies::{Blueprint, Learner, SamplePartition, TrainingPlan};

/// A run to be.
pub(crate) struct Scene {
    pub(crate) spec: RunSpec,
    pub(crate) world: World,
    pub(crate) widths: Vec<usize>,
    pub(crate) samples: u32,
}

impl Scene {
    pub(crate) fn new(strategy: Strategy, workers: u32) -> Self {
        let spec = sample_spec_of(strategy, workers);
        Self { spec, world: World::new(1), widths: vec![6, 8, 4], samples: 1000 }
    }

    /// Everything takes time, and a snapshot is taken after every fourth of `steps` steps.
    pub(crate) fn timed(strategy: Strategy, workers: u32, steps: u64) -> Self {
        let mut scene = Self::new(strategy, workers).change(|spec| {
            spec.train.length = Extent::Steps(steps);
            spec.train.evaluate = Extent::Steps(4);
        });
        let layer = vec![Nanos(40_000); 2];
        scene.world.costs = Costs {
            data: Nanos(20_000),
            forward: layer.clone(),
            backward: layer,
            loss: Nanos(5_000),
            update: 100.0,
            reduce: 50.0,
            code: 20.0,
            decode: 0.0,
            snapshot: 200.0,
        };
        scene.world.link = Link { latency: Nanos(10_000), nanos_per_byte: 20.0 };
        scene.world.jitter = 0.2;
        scene
    }

    /// Runs it with these faults, each at its moment; `patience` is the deadline of every wait.
    pub(crate) fn with_faults(&self, patience: Nanos, faults: Vec<(Nanos, Fault)>) -> Aftermath {
        let faults = Faults { patience, faults };
        self.world.run_into(&faults, &self.blueprint(), |_| Box::new(self.learner())).unwrap()
    }

    pub(crate) fn change(mut self, change: impl FnOnce(&mut RunSpec)) -> Self {
        change(&mut self.spec);
        self
    }

    pub(crate) fn rank_order(self) -> Self {
        self.change(|spec| spec.communication.reduce_order = ReduceOrder::Rank)
    }

    pub(crate) fn coded(self, codec: Codec, error_feedback: bool) -> Self {
        self.change(|spec| {
            spec.compression = Compression::Coded { codec, parameters: false, error_feedback };
        })
    }

    pub(crate) fn seed(mut self, seed: u64) -> Self {
        self.world.seed = seed;
        self
    }

    pub(crate) fn widths(mut self, widths: &[usize]) -> Self {
        self.widths = widths.to_vec();
        self
    }

    pub(crate) fn plan(&self) -> Arc<TrainingPlan> {
        Arc::new(TrainingPlan::new(&self.spec, SamplePartition::shared_by(5, (0..self.samples).collect())))
    }

    pub(crate) fn learner(&self) -> Perceptron {
        Perceptron::new(&self.widths)
    }

    /// Each layer as one matrix, its biases a column.
    fn matrices(&self) -> Vec<Matrix> {
        let layout = self.learner();
        let layers = layout.layout().layers().iter().zip(self.widths.windows(2));
        layers
            .map(|(layer, widths)| Matrix { at: layer.span.start, rows: widths[1], columns: widths[0] + 1 })
            .collect()
    }

    pub(crate) fn blueprint(&self) -> Blueprint {
        Blueprint::new(&self.spec, self.plan(), self.learner().layout().size()).with_matrices(self.matrices())
    }

    pub(crate) fn run(&self) -> WorldOutcome {
        self.world.run(&self.blueprint(), |_| Box::new(self.learner())).unwrap()
    }
}

/// The digest of every rank's model after every step, step by step.
pub(crate) fn digests(outcome: &WorldOutcome) -> Vec<Vec<(u64, String)>> {
    let of_rank = |events: &Vec<Event>| {
        let hashes = events.iter().filter_map(|event| match event {
            Event::WeightHash(hash) => Some((hash.step, hash.sha256.clone())),
            _ => None,
        });
        let mut hashes: Vec<_> = hashes.collect();
        hashes.dedup();
        hashes
    };
    outcome.ranks.iter().map(|rank| of_rank(&rank.events)).collect()
}

/// The digests of the model after every step, which must be the same on all ranks.
pub(crate) fn common_digests(outcome: &WorldOutcome) -> Vec<(u64, String)> {
    let all = digests(outcome);
    for (rank, digests) in all.iter().enumerate() {
        assert_eq!(digests, &all[0], "rank {rank} ends with other weights than rank 0");
    }
    all[0].clone()
}

/// Every lane that recorded steps.
pub(crate) fn lanes(outcome: &WorldOutcome) -> Vec<(Rank, LaneId)> {
    let mut lanes: Vec<(Rank, LaneId)> = outcome
        .ranks
        .iter()
        .flat_map(|rank| &rank.events)
        .filter_map(|event| match event {
            Event::Step(step) => Some((step.rank, step.lane)),
            _ => None,
        })
        .collect();
    lanes.sort_unstable();
    lanes.dedup();
    lanes
}
