//! Where the time goes, over real sockets: what one rank sleeps, the others wait, and nothing is lost.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::{RankLog, train_on_threads};
use recipe::{Codec, Collective, Compression, Extent, ReduceOrder, RunSpec, Schedule, Strategy};
use record::{Event, Nanos, Phase, Rank, StepRecord};
use std::collections::BTreeSet;
use std::time::Duration;
use strategies::sim::{World, sample_spec_of};
use strategies::toy::Perceptron;
use strategies::{
    Batch, Block, Blueprint, Layout, Learner, Loss, SamplePartition, StepError, TrainingPlan, Vector,
};

/// Long beside what the machine may take from a thread in between.
const SLEEP: Duration = Duration::from_millis(400);
const SLEEPY_STEP: u64 = 4;

/// A learner that dozes off in the data phase of one step.
struct Sleepy {
    inner: Perceptron,
    loads: u64,
    sleeps: bool,
}

impl Learner for Sleepy {
    fn layout(&self) -> &Layout {
        self.inner.layout()
    }
    fn initial(&self) -> Vector {
        self.inner.initial()
    }
    fn load(&mut self, batch: &Batch) -> Result<(), StepError> {
        self.loads += 1;
        if self.sleeps && self.loads == SLEEPY_STEP {
            std::thread::sleep(SLEEP);
        }
        self.inner.load(batch)
    }
    fn forward(&mut self, weights: &Vector, layer: usize) -> Result<(), StepError> {
        self.inner.forward(weights, layer)
    }
    fn loss(&mut self, batch: &Batch) -> Result<Loss, StepError> {
        self.inner.loss(batch)
    }
    fn backward(&mut self, weights: &Vector, layer: usize, gradient: &mut [f32]) -> Result<(), StepError> {
        self.inner.backward(weights, layer, gradient)
    }
    fn take_activations(&mut self) -> Result<Block, StepError> {
        self.inner.take_activations()
    }
    fn put_activations(&mut self, activations: Block) -> Result<(), StepError> {
        self.inner.put_activations(activations)
    }
    fn set_examples(&mut self, batch: &Batch) -> Result<(), StepError> {
        self.inner.set_examples(batch)
    }

    fn shard_layer(&mut self, layer: usize, part: usize, of: usize) -> Result<(), StepError> {
        self.inner.shard_layer(layer, part, of)
    }
}

const WIDTHS: [usize; 3] = [64, 128, 32];

fn spec(strategy: Strategy) -> RunSpec {
    let mut spec = sample_spec_of(strategy, 3);
    spec.train.global_batch = 60;
    spec.train.length = Extent::Steps(20);
    spec.train.optimizer.lr = 1.0 / 1024.0;
    spec.communication.reduce_order = ReduceOrder::Rank;
    spec
}

fn run(strategy: Strategy, sleeper: Option<Rank>) -> Vec<RankLog> {
    let mut spec = spec(strategy);
    spec.measure.hash_every_step = false;
    let learner = |rank| {
        Box::new(Sleepy { inner: Perceptron::new(&WIDTHS), loads: 0, sleeps: sleeper == Some(rank) })
            as Box<dyn Learner>
    };
    train_on_threads(&spec, 1000, learner).unwrap()
}

fn steps(log: &RankLog) -> Vec<&StepRecord> {
    let steps = log.events.iter().filter_map(|event| match event {
        Event::Step(step) => Some(step),
        _ => None,
    });
    steps.collect()
}

#[test]
fn what_one_rank_sleeps_the_others_wait() {
    for strategy in [Strategy::DSync, Strategy::PsSync] {
        let logs = run(strategy.clone(), Some(Rank(1)));
        let of_sleep = |nanos: Nanos| nanos.0 as f64 / SLEEP.as_nanos() as f64;
        for (rank, log) in logs.iter().enumerate() {
            let step = steps(log)[SLEEPY_STEP as usize - 1];
            let [data, waits, transfer] =
                [Phase::Data, Phase::WaitPeer, Phase::Transfer].map(|phase| of_sleep(step.phases[phase]));
            if rank == 1 {
                assert!(data >= 1.0, "{strategy:?}: the sleeper shows {data} of its sleep");
                continue;
            }
            assert!(data < 0.5, "{strategy:?}: rank {rank} has data for {data} of the sleep");
            // A little of the sleep passes while this rank computes; nothing else may hide it.
            assert!(waits > 0.8, "{strategy:?}: rank {rank} waited for {waits} of the sleep");
            assert!(transfer < 0.5, "{strategy:?}: rank {rank} shows {transfer} of the sleep as transfer");
        }
    }
}

/// The share of an independent clock that each rank's named phases cover.
fn named(strategy: &Strategy) -> Vec<f64> {
    let share = |log: &RankLog| {
        let named = steps(log).into_iter().map(|step| (step.phases.total() - step.phases[Phase::Other]).0);
        named.sum::<u64>() as f64 / log.wall.as_nanos() as f64
    };
    run(strategy.clone(), None).iter().map(share).collect()
}

/// How often the machine may take a thread away between two phases before that is the program's fault.
const RUNS: usize = 20;

#[test]
fn named_phases_cover_an_independent_clock() {
    for strategy in [Strategy::DSync, Strategy::PsSync] {
        // Other work of the machine only takes from a share; time that the program leaves out is missing in each run.
        let mut best = vec![0.0_f64; 4];
        for _ in 0..RUNS {
            for (best, share) in best.iter_mut().zip(named(&strategy)) {
                assert!(share <= 1.0, "{strategy:?}: phases cover {share} of the time");
                *best = best.max(share);
            }
        }
        let ranks = spec(strategy.clone()).cluster.ranks() as usize;
        assert!(
            best[..ranks].iter().all(|&share| share >= 0.98),
            "{strategy:?}: named phases cover {best:?}"
        );
    }
}

/// Every strategy whose bits do not depend on who is first, with several all-reduces and codecs.
fn without_chance() -> Vec<RunSpec> {
    let coded = |codec| Compression::Coded { codec, parameters: false, error_feedback: true };
    let quantized = coded(Codec::Quantize8);
    let mut specs = vec![];
    let mut add = |strategy: &Strategy, workers, collective, compression| {
        let mut spec = sample_spec_of(strategy.clone(), workers);
        spec.train.global_batch = 16;
        spec.train.length = Extent::Steps(6);
        spec.train.optimizer.lr = 1.0 / 1024.0;
        (spec.communication.collective, spec.compression) = (collective, compression);
        specs.push(spec);
    };
    for collective in [
        Collective::Ring,
        Collective::PipelinedRing { segments: 3 },
        Collective::Tree,
        Collective::RecursiveDoubling,
        Collective::HalvingDoubling,
        Collective::Star,
        Collective::Hierarchical { group_size: Some(2) },
    ] {
        for compression in [Compression::None, quantized] {
            add(&Strategy::DSync, 3, collective, compression);
        }
    }
    add(&Strategy::DSync, 4, Collective::AllGather, coded(Codec::TopK { ratio: 0.1 }));
    add(&Strategy::DSync, 4, Collective::Ring, coded(Codec::RandomK { ratio: 0.2 }));
    for compression in [Compression::None, quantized, coded(Codec::Sign)] {
        add(&Strategy::PsSync, 3, Collective::Ring, compression);
    }
    for (depth, segments) in [(2, 1), (3, 2)] {
        let pipe = Strategy::PipeSgd { depth, warmup: Extent::Steps(2), segments };
        add(&pipe, 3, Collective::Ring, Compression::None);
        add(&pipe, 3, Collective::PipelinedRing { segments: 2 }, quantized);
    }
    for strategy in Strategy::samples() {
        if !strategy.kind().depends_on_arrival() {
            add(&strategy, 4, Collective::Ring, Compression::None);
        } else if strategy.servers() > 0 {
            // No other worker can be first. Without a server, pairs need another.
            add(&strategy, 1, Collective::Ring, Compression::None);
        }
    }
    specs.extend([Strategy::DSync, Strategy::PsSync].map(spec));
    let pipe = Strategy::PipeSgd { depth: 2, warmup: Extent::Steps(2), segments: 1 };
    for strategy in [Strategy::DSync, Strategy::PsSync, pipe] {
        // The last two plan from times that are not the simulator's: in rank order no plan changes a bit.
        for schedule in
            [Schedule::PerLayer, Schedule::Fixed { bytes: 20_000 }, Schedule::Merged, Schedule::MergedExact]
        {
            let mut spec = spec(strategy.clone());
            spec.communication.schedule = schedule;
            specs.push(spec);
        }
    }
    specs
}

#[test]
fn real_sockets_and_the_simulator_give_the_same_bits() {
    for spec in without_chance() {
        let what = format!("{:?}, {:?}, {:?}", spec.strategy, spec.communication, spec.compression);
        let hashes = |events: &[Event]| -> Vec<(u64, String)> {
            let hashes = events.iter().filter_map(|event| match event {
                Event::WeightHash(hash) => Some((hash.step, hash.sha256.clone())),
                _ => None,
            });
            hashes.collect()
        };
        let real = train_on_threads(&spec, 1000, |_| Box::new(Perceptron::new(&WIDTHS))).unwrap();
        let course = TrainingPlan::new(&spec, SamplePartition::shared_by(5, (0..1000).collect()));
        let size = Perceptron::new(&WIDTHS).layout().size();
        let blueprint = Blueprint::new(&spec, course.into(), size);
        let simulated = World::new(1).run(&blueprint, |_| Box::new(Perceptron::new(&WIDTHS))).unwrap();
        let mut different = BTreeSet::new();
        for (rank, simulated) in simulated.ranks.iter().enumerate() {
            let expected = hashes(&simulated.events);
            assert_eq!(hashes(&real[rank].events), expected, "{what}, rank {rank}");
            different.extend(expected);
        }
        assert!(different.len() >= 5, "{what}: {} models in all", different.len());
    }
}
