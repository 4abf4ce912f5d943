//! The sentences of made-up sweeps.

use super::words::*;
use super::*;
use crate::Options;
use crate::headline::headline;
use crate::sample::{GridAxis, Sample, SampleArm, on_grid};
use comparison::QualityGap;
use comparison::statistics::Estimate;
use recipe::Metric;
use store::{RunState, SweepRows};

fn said(rows: &SweepRows) -> (String, Vec<String>) {
    let findings = Findings::of(rows, &Options::default()).unwrap();
    let verdicts = all(&findings);
    let sentences = verdicts.iter().map(|verdict| verdict.sentence.replace(['\u{a0}', '\u{202f}'], " "));
    (headline(&findings, &verdicts).replace(['\u{a0}', '\u{202f}'], " "), sentences.collect())
}

#[test]
fn a_duel() {
    let (paragraph, sentences) = said(&Sample::duel().rows());
    insta::assert_snapshot!(format!("{paragraph}\n\n{}", sentences.join("\n")));
}

#[test]
fn several_conditions_are_counted() {
    let sample = Sample { workers: vec![2, 4, 8], repeats: 9, ..Sample::duel() };
    assert_eq!(
        said(&sample.rows()).0,
        "d-sync is faster than ps-sync by more than 5 % in 3 of 3 conditions."
    );
}

#[test]
fn arms_of_which_the_same_is_said_share_a_sentence() {
    let mut sample = Sample { workers: vec![2, 4], repeats: 8, ..Sample::duel() };
    for (name, communicate) in [("again", 2.5), ("late", 40.0)] {
        let other = sample.arms[1].clone();
        sample.arms.push(SampleArm { name: name.to_owned(), communicate, ..other });
    }
    assert_eq!(
        said(&sample.rows()).0,
        "d-sync and again are faster than ps-sync by more than 5 % in 2 of 2 conditions. late is slower than ps-sync by more \
         than 5 % in 2 of 2 conditions."
    );
}

#[test]
fn without_a_target_steps_are_compared() {
    let sample = Sample { target: None, ..Sample::duel() };
    let (_, sentences) = said(&sample.rows());
    insta::assert_snapshot!(sentences.join("\n"));
}

/// Gives the runs of each arm these times to the target, seen at once, and steps in proportion.
fn with_times(sample: &Sample, times: &[&[f64]]) -> SweepRows {
    let mut rows = sample.rows();
    let nanos = |seconds: f64| record::Nanos((seconds * 1e9) as u64);
    for run in &mut rows.runs {
        let time = times[rows.plan.cells[run.cell].arm][run.repeat as usize];
        let attempt = run.attempt.as_mut().unwrap();
        let watched = if time.is_finite() { time } else { 60.0 };
        attempt.training = Some(nanos(watched));
        attempt.mean_step_time = Some(nanos(watched / 480.0));
        attempt.step_time = attempt.mean_step_time;
        attempt.weights = Some(Ok(run.id.clone()));
        attempt.metrics.retain(|row| row.metric == Metric::TestAccuracy);
        for (place, row) in attempt.metrics.iter_mut().enumerate() {
            row.samples = place as u64 * 2_400;
            row.at = nanos(watched * place as f64 / 20.0);
            row.value = if place == 20 && time.is_finite() { 0.975 } else { 0.5 };
        }
    }
    rows
}

/// The pages that a review of the former rule found wrong or mute, in one sentence each.
#[test]
fn what_used_to_be_wrong_or_mute() {
    let duel = |repeats: u32, times: &[&[f64]]| with_times(&Sample { repeats, ..Sample::duel() }, times);
    let mut told = String::new();
    let mut tell = |title: &str, rows: &SweepRows| {
        let (paragraph, sentences) = said(rows);
        let last = sentences.last().unwrap();
        told += [title, "\n  ", &paragraph, "\n  ", last, "\n"].concat().as_str();
    };
    tell("three times, three runs", &duel(3, &[&[30.0, 30.4, 29.7], &[10.0, 10.1, 9.9]]));
    tell("a certain 4 %", &duel(5, &[&[20.0, 20.3, 19.8, 20.1, 20.2], &[19.25, 19.5, 19.05, 19.35, 19.4]]));
    let base = [30.0, 30.9, 29.4, 30.3, 29.7, 30.6, 29.1, 30.0, 30.5, 29.5];
    let mut arm = base.map(|time| time / 3.0 * if time > 30.0 { 1.01 } else { 0.99 });
    arm[3] = f64::INFINITY;
    tell("a miss in ten", &duel(10, &[&base, &arm]));
    let mut diverged = Sample { target: None, ..Sample::duel() }.rows();
    for run in diverged.runs.iter_mut().filter(|run| run.cell == 1) {
        run.state = RunState::Diverged;
    }
    tell("a diverged arm", &diverged);
    let mut eight = Sample { repeats: 5, ..Sample::duel() };
    for number in 2..8 {
        let arm = SampleArm { name: format!("arm-{number}"), ..eight.arms[1].clone() };
        eight.arms.push(arm);
    }
    let fast = [10.0, 10.2, 9.9, 10.1, 9.8];
    let slow = fast.map(|time| 2.0 * time);
    let mut times: Vec<&[f64]> = vec![&slow];
    times.extend([fast.as_slice(); 7]);
    tell("eight arms", &with_times(&eight, &times));
    let base = [20.0, 20.3, 19.8, 20.1, 20.2];
    let larger = |factor: f64| {
        let mut wobble = [1.004, 0.996, 1.002, 0.998, 1.003].into_iter();
        base.map(|time| time * factor * wobble.next().unwrap())
    };
    let steps = |times: &[f64]| with_times(&Sample { target: None, ..Sample::duel() }, &[&base, times]);
    tell("steps of a certain 4 %", &steps(&larger(1.0 / 1.04)));
    tell("steps of about 5 %", &steps(&larger(1.0 / 1.052)));
    tell("steps slower, by about 5 %", &steps(&larger(1.05)));
    tell("steps slower, by a certain 4 %", &steps(&larger(1.04)));
    let mut open = larger(1.0 / 1.057);
    open[2] = f64::INFINITY;
    tell("open between evaluations, with a miss", &duel(5, &[&base, &open]));
    let wide = [[20.0, 28.0, 15.0, 24.0, 18.0], [19.0, 17.0, f64::INFINITY, 23.0, 11.0]];
    tell("open, with a miss", &duel(5, &[&wide[0], &wide[1]]));
    insta::assert_snapshot!(told);
}

#[test]
fn nothing_finished() {
    let mut rows = Sample::duel().rows();
    for run in &mut rows.runs {
        (run.state, run.attempt) = (RunState::Pending, None);
    }
    let (paragraph, sentences) = said(&rows);
    assert_eq!(paragraph, "No run has finished yet, so there is nothing to compare.");
    assert_eq!(sentences[1], "d-sync: no finished run on 4 workers.");
}

#[test]
fn all_diverged() {
    let mut rows = Sample::duel().rows();
    for run in rows.runs.iter_mut().filter(|run| run.cell == 1) {
        run.state = RunState::Diverged;
        if let Some(attempt) = &mut run.attempt {
            attempt.metrics.iter_mut().for_each(|row| row.value = f64::NAN);
        }
    }
    let (paragraph, sentences) = said(&rows);
    assert_eq!(sentences[1], "d-sync diverged in 5 of 5 runs on 4 workers: its speed says nothing.");
    assert_eq!(paragraph, sentences[1]);
}

#[test]
fn a_winner_that_lost_quality_is_named_with_it() {
    let mut sample = Sample { target: None, ..Sample::duel() };
    let other = SampleArm { name: "third".to_owned(), ceiling: 0.9, ..sample.arms[1].clone() };
    sample.arms.push(other);
    let mut rows = sample.rows();
    for run in rows.runs.iter_mut().filter(|run| run.cell == 2) {
        run.attempt.as_mut().unwrap().weights = Some(Ok(run.id.clone()));
    }
    assert_eq!(
        said(&rows).0,
        "d-sync had the shortest steps, 8.78 ms. Faster than ps-sync by more than 5 %: d-sync and third (worse in quality)."
    );
    // The recipe says which difference matters.
    let mut lenient = rows.clone();
    lenient.plan.report.min_quality = 0.5;
    assert!(
        said(&lenient).0.ends_with("d-sync and third (a little worse in quality)."),
        "{}",
        said(&lenient).0
    );
    // An arm that lost quality does not lead, however fast it is.
    for run in rows.runs.iter_mut().filter(|run| run.cell == 2) {
        let attempt = run.attempt.as_mut().unwrap();
        attempt.mean_step_time = attempt.mean_step_time.map(|time| record::Nanos(time.0 / 2));
    }
    let (paragraph, _) = said(&rows);
    assert!(
        paragraph.starts_with(
            "third is faster, but worse in quality. Of the arms that are not known to be worse in quality, d-sync had the shortest steps, 8.78 ms. "
        ),
        "{paragraph}"
    );
    let findings = Findings::of(&rows, &Options::default()).unwrap();
    let verdicts = all(&findings);
    assert_eq!(verdicts[2].label(), "faster, worse quality");
    assert_eq!(verdicts[2].class(), "faster-worse");
    assert!(verdicts[2].sentence.contains("But its final test accuracy is"), "{}", verdicts[2].sentence);
}

fn three(repeats: u32) -> Sample {
    let mut sample = Sample { repeats, ..Sample::duel() };
    sample.arms.push(SampleArm { name: "third".to_owned(), ..sample.arms[1].clone() });
    sample
}

#[test]
fn an_arm_of_which_half_missed_is_short_of_the_target_everywhere() {
    let never = f64::INFINITY;
    let base = [10.0, 10.1, 9.9, 10.2, 10.0, 9.8];
    let rows =
        with_times(&three(6), &[&base, &[5.0, 5.1, 4.9, never, never, never], &base.map(|time| 2.0 * time)]);
    let (paragraph, sentences) = said(&rows);
    assert!(paragraph.starts_with("ps-sync was first at the target, after 10.00 s. "), "{paragraph}");
    assert!(paragraph.contains("Short of the target: d-sync."), "{paragraph}");
    assert!(
        sentences[1].starts_with("d-sync reached 97.0 % test accuracy in 3 of 6 runs"),
        "{}",
        sentences[1]
    );
}

#[test]
fn a_few_misses_more_than_the_baseline_may_be_chance() {
    let never = f64::INFINITY;
    let few = [10.0, 10.1, never, never, never];
    let five = Sample { repeats: 5, ..Sample::duel() };
    let beside = |base: &[f64]| said(&with_times(&five, &[base, &few])).1.remove(1);
    let all = beside(&[9.0, 9.1, 9.2, 9.3, 9.4]);
    // Fisher's exact test: 21 of 252 ways.
    let words = "ps-sync reached it in 5 of 5 runs: by chance alone an arm that reaches it as often is as far behind with 8.33 %.";
    assert!(all.contains(words), "{all}");
    let ten = Sample { repeats: 10, ..Sample::duel() };
    let base = [9.0; 10];
    let rare = [never, never, never, never, never, never, never, 9.0, 9.0, 9.0];
    let sure = said(&with_times(&ten, &[&base, &rare])).1.remove(1);
    assert!(!sure.contains("by chance alone"), "{sure}");
    let worse = beside(&[9.0, never, never, never, never]);
    assert!(!worse.contains("by chance alone"), "{worse}");
}

#[test]
fn seeds_with_which_no_side_reached_are_named() {
    let never = f64::INFINITY;
    let rows = with_times(
        &Sample { repeats: 6, ..Sample::duel() },
        &[&[9.0, 9.1, never, 9.2, 9.3, 9.4], &[4.0, 4.1, never, 4.2, 4.3, 4.4]],
    );
    let sentence = said(&rows).1.remove(1);
    assert!(sentence.contains("neither did with 1 seed"), "{sentence}");
}

/// The first sweep of many users: three arms under three bandwidths for two numbers of workers, three repeats each, of which two train
/// the same weights.
#[test]
fn the_first_sweep_of_a_user_settles_what_it_can() {
    let mut sample = Sample { workers: vec![2, 4], repeats: 3, ..Sample::duel() };
    sample.arms.swap(0, 1);
    let pipe = SampleArm { name: "pipe-sgd".to_owned(), ..sample.arms[1].clone() };
    sample.arms.push(pipe);
    let axes =
        [GridAxis::new("network.bandwidth", &[1e8, 1e9, 1e10]), GridAxis::new("nodes.workers", &[2.0, 4.0])];
    let one = Sample { workers: vec![4], ..sample };
    let mut rows = on_grid(&one.rows(), &axes, |arm, _| [0.010, 0.0186, 0.008][arm]);
    // The weights of d-sync after each step are those of ps-sync, and so is what an evaluation finds.
    let of = |rows: &SweepRows, arm: usize, run: &store::RunRow| {
        let cell = &rows.plan.cells[run.cell];
        let same = |other: &&store::RunRow| {
            let place = &rows.plan.cells[other.cell];
            place.arm == arm && place.condition == cell.condition && other.repeat == run.repeat
        };
        rows.runs.iter().find(same).unwrap().attempt.clone().unwrap()
    };
    for place in 0..rows.runs.len() {
        let arm = rows.plan.cells[rows.runs[place].cell].arm;
        let first = of(&rows, 0, &rows.runs[place]);
        let attempt = rows.runs[place].attempt.as_mut().unwrap();
        attempt.weights = Some(Ok(format!("{} {place}", arm.max(1))));
        if arm == 1 {
            let slower = attempt.mean_step_time.unwrap().seconds() / first.mean_step_time.unwrap().seconds();
            attempt.metrics = first.metrics;
            attempt
                .metrics
                .iter_mut()
                .for_each(|row| row.at = record::Nanos((row.at.0 as f64 * slower) as u64));
        }
    }
    for place in 0..rows.runs.len() {
        if rows.plan.cells[rows.runs[place].cell].arm == 1 {
            let first = of(&rows, 0, &rows.runs[place]).weights;
            rows.runs[place].attempt.as_mut().unwrap().weights = first;
        }
    }
    let (paragraph, sentences) = said(&rows);
    insta::assert_snapshot!(format!("{paragraph}\n\n{}", sentences[..3].join("\n")));
}

#[test]
fn an_arm_with_a_miss_does_not_lead_by_its_median_and_a_baseline_with_misses_says_so() {
    let never = f64::INFINITY;
    let base = [8.0, 9.0, 10.0, 14.0, 15.0];
    let late = [8.62, 9.75, 10.8, 15.1, never];
    let slow = base.map(|time| 4.0 * time);
    let (paragraph, _) = said(&with_times(&three(5), &[&base, &late, &slow]));
    assert!(paragraph.starts_with("ps-sync was first at the target"), "{paragraph}");
    let (paragraph, _) = said(&with_times(&three(5), &[&[5.0, 5.0, 5.1, never, never], &slow, &slow]));
    assert!(paragraph.ends_with("Baseline: ps-sync (reached the target in 3 of 5)."), "{paragraph}");
}

#[test]
fn a_target_that_no_run_reached_is_said_with_the_best_and_the_steps_are_compared() {
    let sample = Sample { workers: vec![2, 4], target: Some(0.999), ..Sample::duel() };
    let rows = sample.rows();
    let (paragraph, sentences) = said(&rows);
    assert!(paragraph.starts_with("No run reached 99.9 % test accuracy; the best was 98."), "{paragraph}");
    assert!(
        sentences[1].contains("its best was 98.") && sentences[1].contains("Its steps were 1."),
        "{}",
        sentences[1]
    );
    let (paragraph, _) = said(&Sample { target: Some(0.97), ..sample }.rows());
    assert!(!paragraph.contains("No run"), "{paragraph}");
}

#[test]
fn what_speaks_against_an_arm_is_counted_over_conditions() {
    let mut rows = Sample { workers: vec![2, 4, 8], ..Sample::duel() }.rows();
    // One run of d-sync diverges under the first condition, one misses under the second.
    let places: Vec<usize> = [1, 3]
        .map(|cell| rows.runs.iter().position(|run| run.cell == cell && run.repeat == 2).unwrap())
        .to_vec();
    rows.runs[places[0]].state = RunState::Diverged;
    rows.runs[places[0]].attempt.as_mut().unwrap().metrics.truncate(1);
    rows.runs[places[1]].attempt.as_mut().unwrap().metrics.truncate(2);
    let (paragraph, _) = said(&rows);
    assert!(
        paragraph.contains("short of the target in some runs in 2, diverged in some runs in 1"),
        "{paragraph}"
    );
}

#[test]
fn factors_that_do_not_make_up_the_ratio_say_so() {
    let mut rows =
        with_times(&Sample { repeats: 3, ..Sample::duel() }, &[&[30.0, 30.4, 29.7], &[10.0, 10.1, 9.9]]);
    let (_, sentences) = said(&rows);
    assert!(!sentences[1].contains("steps outside"), "{}", sentences[1]);
    // Half of the time of the baseline is spent before its steps are steady.
    for run in rows.runs.iter_mut().filter(|run| run.cell == 0) {
        let attempt = run.attempt.as_mut().unwrap();
        attempt.mean_step_time = attempt.mean_step_time.map(|time| record::Nanos(time.0 / 2));
    }
    let (_, sentences) = said(&rows);
    assert!(sentences[1].contains("its steps are 1.50"), "{}", sentences[1]);
    assert!(
        sentences[1].contains("steps outside the steady ones change the ratio by 2.00×"),
        "{}",
        sentences[1]
    );
}

#[test]
fn quality_is_said_to_be_that_of_the_runs_that_ended() {
    let mut rows = Sample { target: None, ..Sample::duel() }.rows();
    for run in rows.runs.iter_mut().filter(|run| run.cell == 1) {
        run.attempt.as_mut().unwrap().weights = None;
    }
    let lost = rows.runs.iter().position(|run| run.cell == 1 && run.repeat == 0).unwrap();
    rows.runs[lost].state = RunState::Diverged;
    let (_, sentences) = said(&rows);
    assert!(
        sentences[1].contains("in the 4 of 5 runs that ended as planned on both sides"),
        "{}",
        sentences[1]
    );
}

#[test]
fn a_distance_has_no_unit() {
    let gap = Estimate { value: 0.5, interval: None };
    let found = QualityGap::sample(Metric::ConsensusDistance, gap, 0.1, Quality::Open);
    let words = quality_words(&found, "ps-sync").unwrap().replace(['\u{a0}', '\u{202f}'], " ");
    assert_eq!(
        words,
        "final consensus distance is 0.50 higher than that of ps-sync: open whether it is worse by 0.1."
    );
}

#[test]
fn a_difference_of_quality_is_named_with_what_it_means() {
    let said = |metric, grade, value, interval, margin| {
        let gap = Estimate { value, interval: Some(interval) };
        let found = QualityGap::sample(metric, gap, margin, grade);
        quality_words(&found, "ps-sync").unwrap().replace(['\u{a0}', '\u{202f}'], " ")
    };
    let accuracy = |grade, value, interval| said(Metric::TestAccuracy, grade, value, interval, 0.01);
    for (grade, value, interval, words) in [
        (
            Quality::NotWorse,
            -0.001,
            (-0.003, 0.001),
            "final test accuracy is 0.10 pp lower than that of ps-sync (−0.30 … +0.10): not worse by 1 pp.",
        ),
        (
            Quality::Open,
            -0.061,
            (-0.131, 0.009),
            "final test accuracy is 6.1 pp lower than that of ps-sync (−13.1 … +0.9): open whether it is worse by 1 pp.",
        ),
        (
            Quality::Better,
            0.03,
            (0.011, 0.05),
            "final test accuracy is 3.0 pp higher than that of ps-sync (+1.1 … +5.0): better by more than 1 pp.",
        ),
        (
            Quality::Worse,
            -0.03,
            (-0.05, -0.011),
            "final test accuracy is 3.0 pp lower than that of ps-sync (−5.0 … −1.1): worse by more than 1 pp.",
        ),
    ] {
        assert_eq!(accuracy(grade, value, interval), words);
    }
    let loss = said(Metric::TestLoss, Quality::NotWorse, 0.0, (-0.02, 0.019), 0.05 * 0.4);
    assert!(loss.ends_with(": not worse by 0.02 nats."), "{loss}");
}

#[test]
fn a_loss_is_named_with_its_unit() {
    let target = Target { metric: Metric::TestLoss, threshold: 0.25, after: None, stop: false };
    assert_eq!(target_words(target), "0.25\u{a0}nats test loss");
    let target = Target { metric: Metric::TestAccuracy, threshold: 0.9725, after: None, stop: false };
    assert_eq!(target_words(target), "97.25\u{a0}% test accuracy");
}
