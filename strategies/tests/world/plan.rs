//! Numbers of steps, learning rates and samples that follow from a recipe.

use recipe::{Extent, LrScale, LrSchedule, LrShape, RunSpec};
use std::collections::BTreeSet;
use strategies::sim::sample_spec;
use strategies::{SamplePartition, TrainingPlan};

fn plan(workers: u32, batch: u32, samples: u32, change: impl FnOnce(&mut RunSpec)) -> TrainingPlan {
    let mut spec = sample_spec(workers);
    spec.train.global_batch = batch;
    change(&mut spec);
    TrainingPlan::new(&spec, SamplePartition::shared_by(5, (0..samples).collect()))
}

fn scaled(warmup: Extent, reference_batch: u32) -> LrSchedule {
    LrSchedule { shape: LrShape::Constant, warmup, scale: LrScale::Linear { reference_batch } }
}

#[test]
fn a_scaled_rate_follows_the_batch_and_not_the_workers() {
    let rate = |workers, batch| {
        plan(workers, batch, 100, |spec| {
            spec.train.optimizer.lr = 0.5;
            spec.train.schedule = scaled(Extent::Steps(0), 8);
        })
        .learning_rate
        .at(0)
    };
    let bits = |rates: &[f32]| rates.iter().map(|rate| rate.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&[1, 2, 4].map(|workers| rate(workers, 8))), bits(&[0.5; 3]));
    assert_eq!(bits(&[8, 16, 32, 4].map(|batch| rate(2, batch))), bits(&[0.5, 1.0, 2.0, 0.25]));
}

#[test]
fn steps_are_steps_where_the_batch_does_not_divide_the_epoch() {
    for (batch, samples) in [(96, 2000), (64, 60_000), (10, 45), (7, 7), (5, 100)] {
        for steps in [1, 2, 20, 21, 100, 1000] {
            let of = |kind: recipe::Strategy| {
                plan(1, batch, samples, |spec| {
                    (spec.strategy, spec.train.length) = (kind, Extent::Steps(steps));
                })
            };
            let together = of(recipe::Strategy::DSync);
            assert_eq!(together.budget.steps(), steps, "batches of {batch} of {samples}");
            assert_eq!(together.budget.samples(), together.budget.samples_after(steps));
            let alone = of(recipe::Strategy::AsyncSgd { staleness_bound: None, serve: recipe::Serve::One });
            assert_eq!(alone.budget.samples(), together.budget.samples(), "all arms use the same samples");
        }
    }
}

/// Seven steps of 10 of 65 samples are an epoch: its last one has 5.
#[test]
fn whatever_is_counted_in_steps_is_counted_alike() {
    let plan = plan(1, 10, 65, |spec| {
        spec.train.optimizer.lr = 0.5;
        (spec.train.length, spec.train.evaluate) = (Extent::Steps(20), Extent::Steps(5));
        spec.train.schedule.shape = LrShape::Step { every: Extent::Steps(5), factor: 0.5 };
    });
    let marks: Vec<u64> = (1..=3).map(|number| plan.evaluations.at(number)).collect();
    assert_eq!((plan.evaluations.count(), marks), (3, vec![50, 95, 140]));
    let due = |t: &u64| plan.evaluations.due(plan.budget.samples_after(t - 1), plan.budget.samples_after(*t));
    assert_eq!((1..=20).filter(due).collect::<Vec<u64>>(), [5, 10, 15, 20]);
    let rates: Vec<f32> = (1..=16).map(|t| plan.learning_rate.at(plan.budget.samples_after(t - 1))).collect();
    let fallen: Vec<u64> = (2..=16).filter(|t| rates[t - 1] < rates[t - 2]).map(|t| t as u64).collect();
    assert_eq!(fallen, [6, 11, 16], "the rate of a step is that before it");
    for (samples, mark) in [(0, 0), (49, 0), (50, 1), (94, 1), (95, 2), (140, 3), (9999, 3)] {
        assert_eq!(plan.evaluations.last(samples), mark, "after {samples} samples");
    }
}

#[test]
fn draws_with_replacement_do_not_depend_on_the_number_of_workers() {
    let plan = |workers| {
        let mut spec = sample_spec(workers);
        spec.train.global_batch = 100;
        let partition = SamplePartition::shared_by(5, (0..1000).collect());
        TrainingPlan::new(&spec, partition.sampled(recipe::Sampling::WithReplacement))
    };
    let alone = plan(1);
    for workers in 2..=8 {
        let together = plan(workers);
        for t in 1..=25 {
            let all: Vec<u32> =
                (0..workers as usize).flat_map(|k| together.sampler.batch(t, k).examples).collect();
            assert_eq!(all, alone.sampler.batch(t, 0).examples);
        }
    }
    let epoch: BTreeSet<u32> = (1..=10).flat_map(|t| alone.sampler.batch(t, 0).examples).collect();
    assert!((550..720).contains(&epoch.len()), "632 of 1000 are expected: {}", epoch.len());
    assert_eq!(alone.budget.samples_after(10), 1000, "an epoch is as many samples as ever");
}
