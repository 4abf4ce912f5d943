//! Samples, rates and ends by hand.

use super::{SamplePartition, TrainingPlan};
use crate::sim::sample_spec;
use recipe::{Extent, LrScale, LrSchedule, LrShape, RunSpec};
use std::collections::BTreeSet;

fn plan(workers: u32, batch: u32, samples: u32, change: impl FnOnce(&mut RunSpec)) -> TrainingPlan {
    let mut spec = sample_spec(workers);
    spec.train.global_batch = batch;
    change(&mut spec);
    TrainingPlan::new(&spec, SamplePartition::shared_by(5, (0..samples).collect()))
}

#[test]
fn an_epoch_uses_every_sample_once_and_epochs_differ() {
    for (workers, batch, samples) in [(1, 10, 40), (3, 10, 47), (4, 7, 50), (8, 64, 65)] {
        let plan = plan(workers, batch, samples, |_| ());
        let steps = u64::from(samples.div_ceil(batch));
        let epoch = |from: u64| -> Vec<u32> {
            (from + 1..=from + steps)
                .flat_map(|t| (0..workers as usize).flat_map(move |k| [(t, k)]))
                .flat_map(|(t, k)| plan.sampler.batch(t, k).examples)
                .collect()
        };
        let first = epoch(0);
        let second = epoch(steps);
        assert_eq!(first.len(), samples as usize);
        assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), samples as usize);
        assert_eq!(second.iter().collect::<BTreeSet<_>>().len(), samples as usize);
        assert_ne!(first, second);
        assert_eq!(plan.budget.samples_after(steps), u64::from(samples));
        assert_eq!(plan.budget.samples_after(2 * steps), 2 * u64::from(samples));
    }
}

#[test]
fn the_batch_of_all_workers_does_not_depend_on_their_number() {
    let alone = plan(1, 100, 1000, |_| ());
    for workers in 2..=8 {
        let together = plan(workers, 100, 1000, |_| ());
        for t in 1..=25 {
            let all: Vec<u32> =
                (0..workers as usize).flat_map(|k| together.sampler.batch(t, k).examples).collect();
            assert_eq!(all, alone.sampler.batch(t, 0).examples);
        }
    }
}

#[test]
fn weights_count_samples_and_average_to_one() {
    let plan = plan(3, 10, 22, |_| ());
    assert_eq!((0..3).map(|k| plan.sampler.own_samples(1, k)).collect::<Vec<_>>(), [4, 3, 3]);
    assert_eq!((0..3).map(|k| plan.sampler.own_samples(3, k)).collect::<Vec<_>>(), [1, 1, 0]);
    assert_eq!(plan.sampler.weight(1, 0).to_bits(), 1.2_f32.to_bits());
    assert_eq!(plan.sampler.weight(3, 2).to_bits(), 0.0_f32.to_bits());
    let equal = self::plan(4, 100, 1000, |_| ());
    assert!((0..4).all(|k| equal.sampler.weight(1, k).to_bits() == 1.0_f32.to_bits()));
}

#[test]
fn training_ends_with_the_step_that_reaches_the_budget() {
    let by = |length| plan(2, 10, 45, |spec| spec.train.length = length).budget.steps();
    assert_eq!(by(Extent::Epochs(1.0)), 5);
    assert_eq!(by(Extent::Epochs(2.0)), 10);
    assert_eq!(by(Extent::Epochs(1.5)), 8);
    assert_eq!(by(Extent::Steps(4)), 4);
    assert_eq!(by(Extent::Steps(0)), 1);
}

#[test]
fn the_rate_warms_up_then_falls_by_steps() {
    let plan = plan(1, 10, 100, |spec| {
        spec.train.optimizer.lr = 0.5;
        spec.train.schedule = LrSchedule {
            shape: LrShape::Step { every: Extent::Epochs(2.0), factor: 0.5 },
            warmup: Extent::Steps(4),
            scale: LrScale::None,
        };
    });
    let rates: Vec<f32> = [0, 10, 20, 30, 190, 200, 399, 400].map(|s| plan.learning_rate.at(s)).into();
    assert_eq!(rates, [0.125, 0.25, 0.375, 0.5, 0.5, 0.25, 0.25, 0.125]);
}

fn rates(plan: &TrainingPlan, samples: &[u64]) -> Vec<f32> {
    samples.iter().map(|samples| plan.learning_rate.at(*samples)).collect()
}

#[test]
fn the_rate_changes_at_each_milestone() {
    let plan = plan(1, 10, 100, |spec| {
        spec.train.optimizer.lr = 0.5;
        let at = vec![Extent::Epochs(2.0), Extent::Steps(5)];
        spec.train.schedule.shape = LrShape::Milestones { at, factor: 0.5 };
    });
    assert_eq!(rates(&plan, &[0, 49, 50, 199, 200, 9999]), [0.5, 0.5, 0.25, 0.25, 0.125, 0.125]);
}

#[test]
fn a_cosine_ends_at_its_floor() {
    let plan = plan(1, 10, 100, |spec| {
        spec.train.length = Extent::Epochs(2.0);
        spec.train.optimizer.lr = 0.5;
        spec.train.schedule.shape = LrShape::Cosine { floor: 0.5 };
    });
    // (1 + cos 0) / 2 = 1, (1 + cos pi/2) / 2 = 1/2, (1 + cos pi) / 2 = 0
    assert_eq!(rates(&plan, &[0, 100, 200, 300]), [0.5, 0.375, 0.25, 0.25]);
    let third = plan.learning_rate.at(67);
    assert!(third < 0.5 && third > 0.375);
}

#[test]
fn a_scaled_rate_warms_up_from_that_of_the_reference_batch() {
    let plan = plan(4, 10, 100, |spec| {
        spec.train.optimizer.lr = 0.5;
        spec.train.schedule = scaled(Extent::Steps(4), 2);
    });
    // A batch of 10 is five times one of 2: from 0.5 to 2.5.
    assert_eq!(rates(&plan, &[0, 10, 20, 30, 90]), [1.0, 1.5, 2.0, 2.5, 2.5]);
}

fn scaled(warmup: Extent, reference_batch: u32) -> LrSchedule {
    LrSchedule { shape: LrShape::Constant, warmup, scale: LrScale::Linear { reference_batch } }
}

#[test]
fn evaluations_are_due_when_a_mark_is_passed() {
    let plan = plan(1, 10, 100, |spec| spec.train.evaluate = Extent::Steps(3));
    let due: Vec<u64> = (1..=10)
        .filter(|t| plan.evaluations.due(plan.budget.samples_after(t - 1), plan.budget.samples_after(*t)))
        .collect();
    assert_eq!(due, [3, 6, 9]);
}

#[test]
fn workers_at_their_own_pace_pass_through_all_samples_in_orders_of_their_own() {
    let alone = plan(2, 6, 10, |spec| {
        spec.strategy = recipe::Strategy::AsyncSgd { serve: recipe::Serve::One, staleness_bound: None }
    });
    let own = |worker, steps: std::ops::RangeInclusive<u64>| -> Vec<u32> {
        steps.flat_map(|t| alone.sampler.batch(t, worker).examples).collect()
    };
    for worker in 0..2 {
        // Ten steps of three samples: three passes over the ten.
        for pass in own(worker, 1..=10).chunks(10) {
            let mut seen = pass.to_vec();
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(0..10), "{seen:?}");
        }
        let epochs: Vec<u64> = (1..=10).map(|t| alone.sampler.batch(t, worker).epoch).collect();
        assert_eq!(epochs, [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]);
    }
    assert_ne!(own(0, 1..=3), own(1, 1..=3));
    assert_ne!(own(0, 1..=3), own(0, 4..=6));
}

#[test]
fn fixed_parts_are_passed_through_in_turn() {
    let mut spec = sample_spec(2);
    spec.train.global_batch = 5;
    let parts = vec![(0..6).collect(), (6..10).collect()];
    let plan = TrainingPlan::new(&spec, SamplePartition::parted_by(3, parts));
    let own = |worker, steps: std::ops::RangeInclusive<u64>| -> Vec<u32> {
        steps.flat_map(|t| plan.sampler.batch(t, worker).examples).collect()
    };
    // Worker 0 takes 3 of 5 samples: two steps are one pass over its part of 6.
    for pass in 0..3 {
        let mut seen = own(0, 2 * pass + 1..=2 * pass + 2);
        seen.sort_unstable();
        assert!(seen.iter().copied().eq(0..6));
    }
    let mut seen = own(1, 1..=2);
    seen.sort_unstable();
    assert!(seen.iter().copied().eq(6..10));
}
