//! Grades of made-up sweeps.

use super::*;
use crate::sample::Sample;
use record::Nanos;
use store::{AttemptRow, RunState, SweepRows};

const NEVER: f64 = f64::INFINITY;

/// How long runs that never reach the target are watched, in seconds.
const WATCHED: f64 = 100.0;

const THRESHOLDS: Thresholds = Thresholds { min_effect: 0.05, min_quality: 0.01, confidence: 0.95, looks: 1 };

/// A comparison, whatever it says.
pub(super) fn any_comparison() -> Comparison {
    compared(&[1.0, 1.1], &[1.0, 1.2])
}

/// A sweep whose runs reach the target after these seconds, seen at once.
fn sweep(base: &[f64], arm: &[f64]) -> SweepRows {
    let sample = Sample { repeats: base.len().max(arm.len()) as u32, ..Sample::duel() };
    let mut rows = sample.rows();
    for run in &mut rows.runs {
        let times = if run.cell == 0 { base } else { arm };
        let Some(time) = times.get(run.repeat as usize) else {
            (run.state, run.attempt) = (RunState::Failed, None);
            continue;
        };
        if let Some(attempt) = &mut run.attempt {
            reach(attempt, *time);
            attempt.weights = Some(Ok(run.id.clone()));
        }
    }
    rows
}

/// Lets the attempt reach the target after this time, just after an evaluation that did not show it.
fn reach(attempt: &mut AttemptRow, time: f64) {
    let at = |seconds: f64| Nanos((seconds * 1e9) as u64);
    let watched = time.min(WATCHED);
    attempt.training = Some(at(watched));
    attempt.metrics.truncate(2);
    attempt.metrics.retain(|row| row.metric == recipe::Metric::TestAccuracy);
    let mut last = attempt.metrics[0].clone();
    attempt.metrics[0].value = 0.5;
    (attempt.metrics[0].samples, attempt.metrics[0].at) =
        ((watched * 1e4) as u64, at(watched * (1.0 - 1e-6)));
    (last.value, last.at) = (if time.is_finite() { 0.98 } else { 0.5 }, at(watched));
    last.samples = (watched * 1e4) as u64 + 1;
    attempt.metrics.push(last);
}

fn compare_rows(rows: &SweepRows) -> Vec<Vec<Comparison>> {
    compare(&Study::new(rows, None).unwrap(), THRESHOLDS)
}

fn compared(base: &[f64], arm: &[f64]) -> Comparison {
    compare_rows(&sweep(base, arm)).remove(0).remove(0)
}

#[test]
fn grades_say_whether_there_is_a_difference_and_whether_it_matters() {
    let slow = [20.0, 20.3, 19.8, 20.1, 20.2];
    for (base, arm, wanted) in [
        (&slow[..], &[10.0, 10.2, 9.9, 10.1, 9.8][..], Grade::Faster),
        (&[10.0, 10.2, 9.9, 10.1, 9.8], &slow, Grade::Slower),
        (&slow, &[20.1, 20.2, 19.9, 20.0, 20.3], Grade::NoDifference),
        (&slow, &[18.0, 22.0, 16.0, 19.0, 23.0], Grade::Open),
        // Certain, and small: 1.03 times with a spread of 0.3 %.
        (&slow, &[19.4, 19.75, 19.2, 19.5, 19.65], Grade::FasterSmall),
        (&[19.4, 19.75, 19.2, 19.5, 19.65], &slow, Grade::SlowerSmall),
        // Certain, but 1.05 times lies in the interval.
        (&slow, &[18.8, 19.3, 19.0, 18.9, 19.2], Grade::FasterOpen),
        // Three repeats settle a large difference, two do not.
        (&slow[..3], &[6.0, 6.1, 5.9], Grade::Faster),
        (&slow[..2], &[1.0, 1.01], Grade::Open),
        (&slow[..1], &[1.0], Grade::Open),
        (&slow, &[], Grade::Open),
        (&[], &slow, Grade::Open),
        (&slow, &[NEVER; 5], Grade::DidNotReach),
        (&slow, &[1.0, 1.0, NEVER, NEVER, NEVER], Grade::DidNotReach),
        // The baseline never reached it in 100 s.
        (&[NEVER; 5], &[10.0, 10.2, 9.9, 10.1, 9.8], Grade::Faster),
        (&[NEVER; 5], &[98.0, 99.0, 99.5, 98.0, 99.0], Grade::FasterOpen),
        (&[NEVER; 3], &[1.0, 1.1, 1.0], Grade::Faster),
        (&[NEVER; 2], &[1.0, 1.1], Grade::Open),
    ] {
        assert_eq!(compared(base, arm).grade, wanted, "{base:?} {arm:?}");
    }
}

#[test]
fn a_miss_costs_precision_and_not_the_verdict() {
    let base = [30.0, 30.9, 29.4, 30.3, 29.7, 30.6, 29.1, 30.0, 30.5, 29.5];
    let mut arm = base.map(|time| time / 3.0 * if time > 30.0 { 1.01 } else { 0.99 });
    let whole = compared(&base, &arm);
    arm[3] = NEVER;
    let missed = compared(&base, &arm);
    assert_eq!((whole.grade, missed.grade), (Grade::Faster, Grade::Faster));
    let width = |found: &Comparison| {
        let (low, high) = found.speed().ratio.unwrap().interval.unwrap();
        high - low
    };
    assert!(width(&missed) > width(&whole) && width(&missed) < 1.3 * width(&whole));
    assert_eq!(missed.speed().pairs.arm_missed(), 1);
    // With five runs of which one misses, and with a diverged one instead.
    assert_eq!(compared(&base[..5], &arm[..5]).grade, Grade::Faster);
    let mut rows = sweep(&base[..5], &arm[..5]);
    rows.runs[7].state = RunState::Diverged;
    assert_eq!(compare_rows(&rows)[0][0].grade, Grade::Faster);
}

/// Two pairs have one degree of freedom, and with a bound that is tested beside them their p counts twice.
#[test]
fn two_pairs_beside_a_miss_are_tested_as_two() {
    let found = compared(&[10.0, 10.2, 9.9], &[3.3, 3.35, NEVER]);
    let speed = found.speed();
    let logs = [10.0_f64 / 3.3, 10.2 / 3.35].map(f64::ln);
    let mean = logs.iter().sum::<f64>() / 2.0;
    let error = (logs[0] - logs[1]).abs() / 2.0;
    // Of one degree of freedom: 12.706 standard errors for 97.5 %, 25.452 for 98.75 %.
    let (low, high) = speed.ratio.unwrap().interval.unwrap();
    let close = |one: f64, other: f64| assert!((one - other).abs() < 1e-3, "{one} {other}");
    close(low.ln(), mean - 25.452 * error);
    close(high.ln(), mean + 25.452 * error);
    // p of a t of one degree of freedom is 1/2 - atan(t) / π.
    let t = (mean - 1.05_f64.ln()) / error;
    close(speed.sure.unwrap(), 1.0 - 2.0 * (0.5 - t.atan() / std::f64::consts::PI));
    assert_eq!(found.grade, Grade::Faster);
}

#[test]
fn equal_arms_of_which_one_missed_once_have_no_bound_for_a_ratio() {
    let found = compared(&[10.0, NEVER, 9.9], &[10.01, 9.8, 9.93]);
    assert_eq!((found.grade, found.speed().at_least), (Grade::NoDifference, None));
    assert!((found.speed().ratio.unwrap().value - 0.998).abs() < 1e-3, "{:?}", found.speed().ratio);
}

#[test]
fn a_seed_more_does_not_lose_the_verdict_of_two_pairs() {
    for (base, arm) in [
        (&[10.0, 10.2, 9.9, NEVER][..], &[3.3, 3.35, NEVER, 3.3][..]),
        (&[10.0, NEVER, 9.9], &[3.3, NEVER, 3.31]),
        (&[10.0, 10.2, 9.9], &[3.3, 3.35, NEVER]),
        (&[10.0, NEVER, 10.1], &[3.3, 3.32, 3.35]),
        (&[10.0, 10.2, NEVER, 9.9, 9.8], &[3.3, 3.35, 3.3, NEVER, NEVER]),
    ] {
        let found = compared(base, arm);
        assert_eq!(found.grade, Grade::Faster, "{base:?} {arm:?}: {:?}", found.speed());
    }
}

#[test]
fn a_baseline_that_never_reaches_is_slower_though_the_arm_missed_once() {
    let found = compared(&[NEVER; 5], &[10.0, 10.1, 9.9, NEVER, 10.2]);
    assert_eq!(found.grade, Grade::Faster, "{:?}", found.speed());
    // Four pairs of 9.8 to 10.1, and one of 1.
    assert!((found.speed().at_least.unwrap() - 6.3).abs() < 0.1, "{:?}", found.speed().at_least);
}

/// Nothing is said of a ratio, and no page may draw one, where the baseline was stopped before the arm had reached the target.
#[test]
fn a_baseline_that_was_not_watched_for_as_long_as_the_arm_took_bounds_nothing() {
    let mut rows = sweep(&[NEVER; 3], &[10.0; 3]);
    for watched in [6.0, 50.0] {
        for run in rows.runs.iter_mut().filter(|run| run.cell == 0) {
            let attempt = run.attempt.as_mut().unwrap();
            let end = attempt.metrics.last_mut().unwrap();
            end.at = Nanos((watched * 1e9) as u64);
            attempt.training = Some(end.at);
        }
        let found = compare_rows(&rows).remove(0).remove(0);
        let least = found.speed().at_least.unwrap();
        assert!((least - watched / 10.0).abs() < 1e-6, "{watched}: {least}");
        assert_eq!(found.speed().bound(), Some(least).filter(|_| watched > 10.0));
        assert_eq!(found.speed().is_faster(), watched > 10.0);
    }
}

/// Pairs with ratios of e^1.08 and e^1.12, and a third run of the baseline that was watched for longer and longer.
#[test]
fn a_baseline_watched_longer_is_never_worse_evidence_of_a_slow_one() {
    let mut before = 0.0;
    for watched in [20.0, 33.0, 40.0, 50.0, 60.0, 74.0, 90.0, 400.0] {
        let arm = [10.0; 3];
        let mut rows = sweep(&[10.0 * 1.08_f64.exp(), 10.0 * 1.12_f64.exp(), NEVER], &arm);
        let attempt = rows.runs.iter_mut().find(|run| run.cell == 0 && run.repeat == 2).unwrap();
        let attempt = attempt.attempt.as_mut().unwrap();
        let end = attempt.metrics.last_mut().unwrap();
        end.at = Nanos((watched * 1e9) as u64);
        attempt.training = Some(end.at);
        let found = compare_rows(&rows).remove(0).remove(0);
        let sure = found.speed().sure.unwrap();
        assert!(sure > 0.975 && sure > before - 0.02, "{watched}: {sure} after {before}");
        before = sure;
    }
}

#[test]
fn a_baseline_that_reaches_more_often_is_never_worse_evidence_of_a_slow_one() {
    let arm = [10.0, 10.1, 9.9, 10.2, 9.8];
    for reached in 0..=5 {
        let mut base = [NEVER; 5];
        for (time, late) in base.iter_mut().zip([96.0, 94.0, 97.0, 95.0, 99.0]).take(reached) {
            *time = late;
        }
        let found = compared(&base, &arm);
        assert_eq!(found.grade, Grade::Faster, "{reached} of 5");
        assert!(found.speed().sure.unwrap() > 0.99);
        for runs in [3, 4] {
            assert_eq!(compared(&base[..runs], &arm[..runs]).grade, Grade::Faster, "{reached} of {runs}");
        }
    }
}

#[test]
fn a_few_lucky_pairs_do_not_contradict_the_many_that_the_baseline_missed() {
    // Once the baseline was quicker, in four runs it never arrived.
    let found = compared(&[9.0, NEVER, NEVER, NEVER, NEVER], &[10.0, 10.1, 9.9, 10.2, 9.8]);
    assert!(
        !matches!(found.grade, Grade::Slower | Grade::SlowerOpen | Grade::SlowerSmall),
        "{:?}",
        found.grade
    );
    assert_eq!(found.speed().ratio, None);
    assert!(found.speed().at_least.unwrap() > 1.0);
}

#[test]
fn a_baseline_that_mostly_diverged_is_nothing_to_be_faster_than() {
    let mut rows = Sample { target: None, ..Sample::duel() }.rows();
    for run in rows.runs.iter_mut().filter(|run| run.cell == 0 && run.repeat < 3) {
        run.state = RunState::Diverged;
    }
    let found = compare_rows(&rows).remove(0).remove(0);
    assert_eq!((found.grade, found.speed().ratio), (Grade::Open, None));
}

#[test]
fn advice_for_arms_without_common_seeds_asks_for_more_runs_than_there_are() {
    let mut rows = sweep(&[20.0, 22.0, 18.5, 21.0], &[18.0, 17.5, 18.5, 17.0]);
    rows.runs.iter_mut().filter(|run| run.cell == 1).for_each(|run| run.seed += 100);
    let found = compare_rows(&rows).remove(0).remove(0);
    let Some(Advice::Repeats { likely, .. }) = found.speed().advice(THRESHOLDS) else {
        panic!("{:?}", found.grade)
    };
    assert!(likely.unwrap() > 4, "{likely:?}");
}

#[test]
fn a_baseline_that_diverged_at_once_is_not_one_that_was_watched_briefly() {
    let mut rows = sweep(&[NEVER; 5], &[10.0, 10.2, 9.9, 10.1, 9.8]);
    rows.runs[0].state = RunState::Diverged;
    let attempt = rows.runs[0].attempt.as_mut().unwrap();
    attempt.training = Some(Nanos(100_000_000));
    attempt.metrics.truncate(1);
    attempt.metrics[0].at = Nanos(0);
    let found = compare_rows(&rows).remove(0).remove(0);
    assert_eq!(found.grade, Grade::Faster);
    assert!(found.speed().at_least.unwrap() > 9.0, "{:?}", found.speed().at_least);
}

#[test]
fn an_arm_that_mostly_diverged_is_not_fast() {
    for target in [None, Some(0.97)] {
        let mut rows = Sample { target, ..Sample::duel() }.rows();
        for run in rows.runs.iter_mut().filter(|run| run.cell == 1 && run.repeat < 3) {
            run.state = RunState::Diverged;
        }
        assert_eq!(compare_rows(&rows)[0][0].grade, Grade::Diverged, "{target:?}");
        // The baseline diverged: nothing to be faster than.
        for run in &mut rows.runs {
            run.state = if run.cell == 0 { RunState::Diverged } else { RunState::Done };
        }
        let found = compare_rows(&rows);
        assert_eq!(found[0][0].grade, Grade::Open, "{target:?}");
        assert!(found[0][0].contrasts().all(|contrast| contrast.at_least.is_none()), "{target:?}");
    }
}

/// Same digests and same evaluations; only the times differ.
fn equal_weights(repeats: u32) -> SweepRows {
    let mut rows = Sample { repeats, ..Sample::duel() }.rows();
    for pair in 0..repeats as usize {
        let base = rows.runs[2 * pair].attempt.clone().unwrap();
        let attempt = rows.runs[2 * pair + 1].attempt.as_mut().unwrap();
        let scale = attempt.step_time.unwrap().0 as f64 / base.step_time.unwrap().0 as f64;
        attempt.metrics = base.metrics;
        for row in &mut attempt.metrics {
            row.at = Nanos((row.at.0 as f64 * scale) as u64);
        }
    }
    rows
}

#[test]
fn arms_with_equal_weights_need_the_same_steps_and_two_repeats() {
    for repeats in [2, 3, 5] {
        let found = compare_rows(&equal_weights(repeats)).remove(0).remove(0);
        assert_eq!(found.same_weights, Some(repeats as usize));
        let steps = found.steps_to_target.as_ref().unwrap();
        assert_eq!(steps.ratio.unwrap().interval, Some((1.0, 1.0)));
        assert_eq!(steps.grade, Grade::NoDifference);
        assert_eq!(found.speed().measure, SpeedMeasure::StepTime);
        assert_eq!(found.quality.unwrap().grade, Quality::SameWeights);
        if repeats > 2 {
            assert_eq!(found.grade, Grade::Faster, "{repeats}");
        }
    }
}

#[test]
fn seeds_that_spread_both_arms_alike_do_not_hide_a_difference() {
    // Seeds differ by up to 40 %, the arms by 15 %, always.
    let base = [20.0, 26.0, 18.0, 23.0, 28.0];
    let arm = [17.4, 22.5, 15.7, 20.0, 24.3];
    let found = compared(&base, &arm);
    assert_eq!(found.grade, Grade::Faster);
    // The exact unpaired test, which cannot see the pairs, stands beside it.
    let rows = sweep(&base, &arm);
    let study = Study::new(&rows, None).unwrap();
    let cells = &study.conditions[0].cells;
    assert!(exact_p(&cells[1], &cells[0], SpeedMeasure::TimeToTarget).unwrap() > 0.2);
    assert!((statistics::sign_flip(&found.speed().pairs.exact()).unwrap() - 0.0625).abs() < 1e-12);
}

#[test]
fn the_ratio_is_of_the_pairs_geometric_means() {
    let found = compared(&[20.0, 40.0, 20.0, 44.0], &[10.0, 20.0, 11.0, 20.0]);
    let logs = [2.0_f64.ln(), 2.0_f64.ln(), (20.0_f64 / 11.0).ln(), 2.2_f64.ln()];
    let mean = logs.iter().sum::<f64>() / 4.0;
    let deviation = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / 3.0).sqrt();
    let ratio = found.speed().ratio.unwrap();
    assert!((ratio.value / mean.exp() - 1.0).abs() < 1e-5);
    // t of three degrees of freedom is 3.1824.
    let low = (mean - 3.182_446 * deviation / 2.0).exp();
    assert!((ratio.interval.unwrap().0 / low - 1.0).abs() < 1e-4);
}

#[test]
fn what_a_coarse_grid_hides_widens_the_interval() {
    // Ten evaluations, all runs of an arm reach the target at the same one: 4 of 10 and 5 of 10.
    let sample = Sample { repeats: 5, epochs: (1, 10), ..Sample::duel() };
    let mut rows = sample.rows();
    for run in &mut rows.runs {
        let hit = if run.cell == 0 { 5 } else { 4 };
        let attempt = run.attempt.as_mut().unwrap();
        attempt.weights = Some(Ok(run.id.clone()));
        attempt.metrics.retain(|row| row.metric == recipe::Metric::TestAccuracy);
        for (place, row) in attempt.metrics.iter_mut().enumerate() {
            row.value = if place >= hit { 0.98 } else { 0.5 };
            row.at = Nanos(place as u64 * 1_000_000_000);
        }
    }
    let found = compare_rows(&rows).remove(0).remove(0);
    let (low, high) = found.speed().ratio.unwrap().interval.unwrap();
    // The baseline reached it after 4 to 5 s, the arm after 3 to 4 s.
    assert!((low - 1.0).abs() < 1e-6 && (high - 5.0 / 3.0).abs() < 1e-6, "{low} {high}");
    assert_eq!(found.grade, Grade::FasterOpen);
}

#[test]
fn conditions_share_what_they_know_of_the_spread() {
    let one = sweep(&[20.0, 20.6, 19.5], &[17.9, 17.4, 17.7]);
    let alone = compare_rows(&one).remove(0).remove(0);
    let mut rows = Sample { workers: vec![2, 4, 8, 16], repeats: 3, ..Sample::duel() }.rows();
    let lean = [0.0, 0.011, -0.007, 0.004];
    for run in &mut rows.runs {
        let condition = run.cell / 2;
        let times = if run.cell % 2 == 0 { [20.0, 20.6, 19.5] } else { [17.9, 17.4, 17.7] };
        let attempt = run.attempt.as_mut().unwrap();
        reach(attempt, times[run.repeat as usize] * (1.0 + lean[condition] * f64::from(run.repeat)));
        attempt.weights = Some(Ok(run.id.clone()));
    }
    let shared = compare_rows(&rows);
    assert_eq!(alone.grade, Grade::FasterOpen);
    assert!(shared.iter().all(|found| found[0].speed().mean.unwrap().freedom > 4.9), "{shared:?}");
    assert_eq!(shared[0][0].grade, Grade::Faster);
}

#[test]
fn advice_is_a_number_that_holds() {
    let found = compared(&[20.0, 22.0, 18.5, 21.0, 19.0], &[18.0, 17.5, 18.5, 17.0, 18.2]);
    assert!(found.grade.is_open());
    let Some(Advice::Repeats { likely, even }) = found.speed().advice(THRESHOLDS) else {
        panic!("no advice")
    };
    assert!(even.unwrap() > 5 && likely.unwrap() > even.unwrap(), "{likely:?} {even:?}");
}
