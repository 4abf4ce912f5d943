//! A run that is continued from a checkpoint is the run that was not interrupted, bit for bit.

use crate::optimizers;
use crate::scene::Scene;
use recipe::{Codec, Compression, ExchangeThrough, Extent, Schedule, Sends, Strategy, StrategyKind};
use record::{Event, Rank};
use std::collections::BTreeMap;
use strategies::sim::WorldOutcome;
use strategies::{Checkpoint, StepError};

const STEPS: u64 = 7;

/// Settings of every strategy whose runs can be continued.
fn strategies() -> impl Iterator<Item = Strategy> {
    StrategyKind::ALL.iter().filter(|kind| kind.not_continued().is_none()).flat_map(|kind| kind.samples())
}

/// Momentum, decay, a rate that changes, an epoch that ends within the run, and a checkpoint after every step.
fn scene(strategy: Strategy) -> Scene {
    let mut scene = Scene::new(strategy, 4).change(|spec| {
        spec.train.length = Extent::Steps(STEPS);
        spec.train.checkpoint = Some(Extent::Steps(1));
        spec.train.optimizer.momentum = 0.5;
        spec.train.optimizer.weight_decay = 0.01;
        spec.train.evaluate = Extent::Steps(2);
    });
    scene.samples = 4 * scene.spec.train.global_batch + 3;
    scene
}

/// The checkpoints of a run by their number.
fn checkpoints(outcome: &WorldOutcome) -> BTreeMap<u64, BTreeMap<(Rank, record::LaneId), Checkpoint>> {
    let mut all: BTreeMap<u64, BTreeMap<_, Checkpoint>> = BTreeMap::new();
    for checkpoint in outcome.ranks.iter().flat_map(|rank| &rank.checkpoints) {
        let lane = (checkpoint.rank, checkpoint.lane);
        let twice = all.entry(checkpoint.number).or_default().insert(lane, checkpoint.clone());
        assert!(twice.is_none(), "checkpoint {} of {lane:?} comes twice", checkpoint.number);
    }
    all
}

/// Losses, rates, samples and traffic of each step, and digests of weights, from a step on. Numbers of steps are those of lanes.
fn facts(outcome: &WorldOutcome, after: &BTreeMap<(Rank, record::LaneId), u64>) -> Vec<String> {
    let mut facts: Vec<String> = Vec::new();
    for event in outcome.ranks.iter().flat_map(|rank| &rank.events) {
        match event {
            Event::Step(step) if step.step > after.get(&(step.rank, step.lane)).copied().unwrap_or(0) => {
                let loss = step.loss.map(f32::to_bits);
                let rate = step.rate.map(f32::to_bits);
                let record::StepRecord {
                    rank, lane, step: number, samples, bytes_out, bytes_in, drain, ..
                } = step;
                facts.push(format!(
                    "{rank} {lane} {number}: {samples} {loss:?} {rate:?} {bytes_out} {bytes_in} {drain}"
                ));
            }
            Event::Coding(coding) => facts.push(format!("{coding:?}")),
            // The plan, its inputs and its predictions only: later measurements differ.
            Event::Schedule(record) => {
                let planned = record.buckets.iter().map(|bucket| (&bucket.layers, bucket.predicted));
                facts.push(format!(
                    "{} {:?} {:?} {:?}",
                    record.from_step,
                    record.cost,
                    record.layers,
                    planned.collect::<Vec<_>>()
                ));
            }
            _ => {}
        }
    }
    facts.sort();
    facts.dedup();
    facts
}

fn check(scene: &Scene, name: &str) {
    let Extent::Steps(steps) = scene.spec.train.length else { panic!("{name}: a length in steps") };
    check_from(scene, name, &[1, 3, steps - 1]);
}

/// Continued from the checkpoints of these numbers.
pub(crate) fn check_from(scene: &Scene, name: &str, numbers: &[u64]) {
    let whole = scene.run();
    let all = checkpoints(&whole);
    let Extent::Steps(steps) = scene.spec.train.length else { panic!("{name}: a length in steps") };
    assert_eq!(all.keys().copied().collect::<Vec<_>>(), (1..steps).collect::<Vec<_>>(), "{name}");
    for number in numbers.iter().copied() {
        let from = &all[&number];
        let lanes: BTreeMap<_, u64> =
            from.iter().map(|(lane, checkpoint)| (*lane, checkpoint.state.steps().unwrap_or(0))).collect();
        let blueprint = scene.blueprint().resuming(from.values().cloned());
        let resumed = scene.world.run(&blueprint, |_| Box::new(scene.learner())).unwrap();
        let at = format!("{name}, continued from checkpoint {number}");
        for (one, other) in whole.ranks.iter().zip(&resumed.ranks) {
            for (step, weights) in &other.weights {
                assert_eq!(weights.sha256(), one.weights[step].sha256(), "{at}: weights of step {step}");
            }
            assert_eq!(one.model().sha256(), other.model().sha256(), "{at}: the final weights");
            assert_eq!(one.beside.last_key_value(), other.beside.last_key_value(), "{at}: models beside");
        }
        assert_eq!(facts(&whole, &lanes), facts(&resumed, &lanes), "{at}");
        for (later, states) in checkpoints(&resumed) {
            assert!(later > number, "{at}");
            for (lane, checkpoint) in states {
                assert!(checkpoint.state == all[&later][&lane].state, "{at}: checkpoint {later} of {lane:?}");
            }
        }
    }
}

#[test]
fn every_synchronous_strategy() {
    for strategy in strategies() {
        check(&scene(strategy.clone()), &format!("{strategy:?}"));
    }
}

/// Weights are coded by nearly exact codecs; one range for a whole gradient needs an all-reduce of the whole.
fn suits(strategy: &Strategy, codec: Codec) -> bool {
    let profile = strategy.kind().profile();
    let whole = !matches!(strategy, Strategy::PipeSgd { segments: 2.., .. });
    match codec {
        Codec::Truncate16 | Codec::Fp16 | Codec::Bf16 => true,
        Codec::Quantize8Gradient => {
            whole && profile.exchange == ExchangeThrough::AllReduce && profile.sends == Sends::Gradients
        }
        _ => profile.sends != Sends::Weights,
    }
}

#[test]
fn every_schedule() {
    for strategy in strategies().filter(|strategy| strategy.kind().takes_schedule()) {
        // Strategies that divide gradients already or send none have no schedule.
        if matches!(
            strategy,
            Strategy::PipeSgd { segments: 2.., .. } | Strategy::Gmp { average_every: Some(_), .. }
        ) {
            continue;
        }
        for schedule in
            [Schedule::PerLayer, Schedule::Fixed { bytes: 200 }, Schedule::Merged, Schedule::MergedExact]
        {
            if matches!(strategy, Strategy::EasgdSync { .. }) && schedule.measured_steps() > 0 {
                continue;
            }
            let scene = scene(strategy.clone()).change(|spec| {
                spec.train.length = Extent::Steps(12);
                spec.communication.schedule = schedule;
            });
            let name = format!("{strategy:?} {schedule:?}");
            match schedule.measured_steps() {
                0 => check(&scene, &name),
                // A run that is continued measures other times; its plan is part of the state.
                planned => check_from(&scene, &name, &[planned, 11]),
            }
        }
    }
}

/// Moments and counts are of buckets on a server, of rounds in groups, and of each worker in gossip.
#[test]
fn every_optimizer() {
    for settings in optimizers::all() {
        for strategy in strategies().filter(|strategy| optimizers::acts(strategy, &settings)) {
            let scene = scene(strategy.clone()).change(|spec| spec.train.optimizer = settings);
            check(&scene, &format!("{strategy:?} {settings:?}"));
        }
        for strategy in [Strategy::DSync, Strategy::PsSync] {
            let scene = scene(strategy.clone()).change(|spec| {
                spec.train.optimizer = settings;
                spec.communication.schedule = Schedule::PerLayer;
            });
            check(&scene, &format!("{strategy:?} layer by layer, {settings:?}"));
        }
    }
}

/// Number of steps that a plan is to be made from so far.
fn measured(checkpoint: &Checkpoint) -> usize {
    let forward = checkpoint.state.values().find(|(name, _)| *name == "exchange/forward");
    match forward {
        Some((_, strategies::state::Stored::Floats(times))) => times.len(),
        _ => 0,
    }
}

/// The plan may be another one, and the weights are the same in rank order.
#[test]
fn a_run_that_has_no_plan_yet() {
    for strategy in [Strategy::DSync, Strategy::PsSync] {
        let scene = scene(strategy.clone()).rank_order().change(|spec| {
            spec.train.length = Extent::Steps(12);
            spec.communication.schedule = Schedule::Merged;
        });
        let whole = scene.run();
        for (number, from) in checkpoints(&whole) {
            let blueprint = scene.blueprint().resuming(from.into_values());
            let resumed = scene.world.run(&blueprint, |_| Box::new(scene.learner())).unwrap();
            if let Some(later) = checkpoints(&resumed).get(&7) {
                // Steps 3 to 7 are measured, before the checkpoint or after it.
                assert_eq!(measured(&later[&(Rank(0), record::LaneId::Compute)]), 5, "checkpoint {number}");
            }
            for (one, other) in whole.ranks.iter().zip(&resumed.ranks) {
                assert_eq!(one.model().sha256(), other.model().sha256(), "{strategy:?}, checkpoint {number}");
            }
        }
    }
}

#[test]
fn every_codec_with_and_without_its_memory() {
    let codecs = [
        Codec::Truncate16,
        Codec::Quantize8,
        Codec::Fp16,
        Codec::Bf16,
        Codec::TopK { ratio: 0.2 },
        Codec::Quantize8Gradient,
        Codec::Sign,
        Codec::Terngrad { bucket: 16 },
        Codec::Qsgd { levels: 4, bucket: 16 },
    ];
    for strategy in strategies() {
        let weights = strategy.kind().profile().sends == Sends::Weights;
        for codec in codecs.into_iter().filter(|codec| suits(&strategy, *codec)) {
            for error_feedback in [false, true] {
                let coded = scene(strategy.clone()).change(|spec| {
                    spec.compression = Compression::Coded { codec, parameters: weights, error_feedback };
                });
                check(&coded, &format!("{strategy:?} with {codec:?}, error feedback {error_feedback}"));
            }
        }
    }
}

#[test]
fn every_projection_with_and_without_its_memory() {
    let all_reduces = strategies()
        .filter(|strategy| matches!(strategy, Strategy::DSync | Strategy::PipeSgd { segments: 1, .. }));
    for strategy in all_reduces {
        for codec in [Codec::RandomK { ratio: 0.3 }, Codec::Powersgd { rank: 1 }] {
            for error_feedback in [false, true] {
                check(
                    &scene(strategy.clone()).coded(codec, error_feedback),
                    &format!("{strategy:?} with {codec:?}"),
                );
            }
        }
    }
}

#[test]
fn several_servers_and_micro_batches() {
    let servers = scene(Strategy::PsSync).change(|spec| {
        spec.cluster = recipe::RunSpec::sample_of(Strategy::PsSync, 4).cluster;
        spec.train.accumulate = 2;
    });
    check(&servers, "ps-sync in micro-batches");
    for order in 1..20 {
        check(
            &scene(Strategy::PipeSgd { depth: 3, warmup: Extent::Steps(1), segments: 3 }).seed(order),
            "any order",
        );
    }
}

#[test]
fn a_checkpoint_of_another_run_is_refused() {
    let small = scene(Strategy::DSync);
    let first = checkpoints(&small.run()).remove(&1).unwrap();
    let larger = scene(Strategy::DSync).widths(&[6, 9, 4]);
    let blueprint = larger.blueprint().resuming(first.into_values());
    let failed = larger.world.run(&blueprint, |_| Box::new(larger.learner())).unwrap_err();
    let strategies::sim::WorldError::Failed { source: StepError::State(error), .. } = failed else {
        panic!("{failed}")
    };
    assert!(error.to_string().starts_with("`weights` of the state has "), "{error}");
}
