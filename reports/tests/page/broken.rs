//! Sweeps without results, with few, and with runs that failed, diverged or went on without a rank.

use crate::checks::{changed, checked};
use record::Rank;
use reports::sample::Sample;
use reports::{Options, Timelines, page, verdicts};
use store::{RunState, SweepRows};

fn without_runs(rows: &mut SweepRows) {
    rows.runs.clear();
    rows.plan.runs.clear();
}

#[test]
fn sweeps_without_results() {
    let page = changed(without_runs);
    assert!(page.contains("No run has finished yet"));
    changed(|rows| {
        without_runs(rows);
        rows.plan.cells.clear();
        rows.plan.arms.clear();
        rows.nodes.clear();
    });
    let page = changed(|rows| {
        for (place, run) in rows.runs.iter_mut().enumerate() {
            run.state = if place == 0 { RunState::Running } else { RunState::Pending };
            run.attempt = None;
        }
    });
    assert!(page.contains("9 runs are not begun yet, 1 marked as under way."));
    assert!(page.contains("10 runs not finished"));
}

#[test]
fn small_sweeps() {
    let one =
        Sample { arms: Sample::duel().arms[..1].to_vec(), repeats: 1, workers: vec![1], ..Sample::duel() };
    let page = checked(&one.rows());
    assert!(page.contains("no arm is compared with another"));
    let arm = Sample { arms: Sample::duel().arms[1..].to_vec(), ..Sample::duel() };
    checked(&arm.rows());
    let pair = Sample { repeats: 1, ..Sample::duel() };
    assert!(
        !verdicts(&pair.rows(), &Options::default())
            .unwrap()
            .iter()
            .any(|v| v.grade.is_some_and(|grade| grade != reports::Grade::Open))
    );
    checked(&pair.rows());
}

#[test]
fn diverged_and_nan() {
    let page = changed(|rows| {
        for run in &mut rows.runs {
            run.state = RunState::Diverged;
            let attempt = run.attempt.as_mut().unwrap();
            attempt.detail = "loss became NaN in step 17".to_owned();
            attempt.metrics.iter_mut().for_each(|row| row.value = f64::NAN);
            attempt.losses.iter_mut().for_each(|row| row.loss = f64::INFINITY);
        }
    });
    assert!(page.contains("10 diverged") && page.contains("loss became NaN in step 17"));
    changed(|rows| rows.runs[3].attempt.as_mut().unwrap().metrics[4].value = f64::NAN);
    changed(|rows| rows.runs.iter_mut().for_each(|run| run.attempt.as_mut().unwrap().losses.clear()));
    changed(|rows| rows.runs.iter_mut().for_each(|run| run.attempt.as_mut().unwrap().metrics.clear()));
}

#[test]
fn attempts_that_recorded_little() {
    changed(|rows| {
        for run in &mut rows.runs {
            let attempt = run.attempt.as_mut().unwrap();
            (attempt.training, attempt.step_time, attempt.wall, attempt.weights) = (None, None, None, None);
            (attempt.steps, attempt.samples) = (0, 0);
            attempt.ranks.clear();
            attempt.links.clear();
        }
    });
    let rows = Sample::duel().rows();
    let page = page(&rows, &Timelines::new(), &Options::default()).unwrap().html;
    assert!(page.contains("2 runs kept no spans"));
}

#[test]
fn failures_are_listed_with_rank_and_log() {
    let page = changed(|rows| {
        let run = &mut rows.runs[1];
        run.state = RunState::Failed;
        let attempt = run.attempt.as_mut().unwrap();
        attempt.detail = "rank 2 ended without a word in step 31".to_owned();
        attempt.culprit = Some(Rank(2));
        attempt.last_lines = vec!["step 30".to_owned(), "killed by signal 9".to_owned()];
        rows.plan.cells[0].excluded = Some("too slow to wait for".to_owned());
    });
    for words in [
        "rank 2 ended without a word",
        "killed by signal 9",
        "left out of all statistics",
        "too slow to wait for",
    ] {
        assert!(page.contains(words), "the page does not say: {words}");
    }
}

#[test]
fn what_the_recipe_lets_go_wrong_is_said_and_blamed_on_no_machine() {
    let mut rows = Sample::duel().rows();
    let fault = recipe::PlannedFault { rank: 1, step: 31, action: recipe::FaultAction::Kill };
    rows.plan.cells.iter_mut().for_each(|cell| cell.spec.faults = vec![fault]);
    for (run, state) in [(0, RunState::Failed), (1, RunState::Degraded)] {
        rows.runs[run].state = state;
        let attempt = rows.runs[run].attempt.as_mut().unwrap();
        (attempt.as_ordered, attempt.detail) = (true, fault.struck());
        attempt.culprit = Some(record::Rank(1));
    }
    let page = checked(&rows);
    for words in [
        "<b>faults</b> by the recipe: rank 1 is killed at the beginning of its step 31, which ends runs of",
        "<b>runs</b> none failed; 1 failed as the recipe lets them",
        "<span class=\"grade failed\">failed as ordered</span>",
        "<span class=\"grade degraded\">degraded as ordered</span>",
        "rank 1 was killed at the beginning of step 31, as the recipe says",
        "it counts as a run that missed its target",
        "counts: the recipe lets the rank fail in every arm",
    ] {
        assert!(page.contains(words), "the page does not say: {words}");
    }
    assert!(!page.contains("<b>degraded</b>"));
}

#[test]
fn a_degraded_run_is_marked_listed_and_left_out() {
    let whole = Sample::duel().rows();
    let mut rows = whole.clone();
    let run = &mut rows.runs[1];
    run.state = RunState::Degraded;
    let attempt = run.attempt.as_mut().unwrap();
    attempt.detail = "rank 2 was ended by signal 9; the run went on without it".to_owned();
    attempt.culprit = Some(record::Rank(2));
    attempt.last_lines = vec!["step 30".to_owned()];
    let reason = "rank 2 was ended by signal 9".to_owned();
    attempt.lost = vec![store::LostRow { rank: record::Rank(2), step: 31, at: record::Nanos(1), reason }];
    let page = checked(&rows);
    for words in [
        "<b>degraded</b> 1 run continued after losing a rank, left out of the statistics",
        "<span class=\"grade degraded\">degraded</span>",
        "rank 2 was ended by signal 9; the run went on without it",
        "<dt>rank</dt><dd>2</dd>",
        "<pre>step 30</pre>",
        "left out of all statistics: without rank 2 it was a run of fewer workers",
        "A degraded run, which lost a worker and continued, is excluded",
    ] {
        assert!(page.contains(words), "the page does not say: {words}");
    }
    assert!(!checked(&whole).contains("<b>degraded</b>"));
    // Its numbers, however wild, move nothing.
    let judged = |rows: &SweepRows| verdicts(rows, &Options::default()).unwrap();
    let before = judged(&rows);
    rows.runs[1].attempt.as_mut().unwrap().metrics.iter_mut().for_each(|row| row.at = record::Nanos(1));
    assert_eq!(judged(&rows), before);
    assert_ne!(judged(&rows), judged(&whole));
}

/// The page's part from the head of a section to its end.
fn section<'a>(page: &'a str, name: &str) -> &'a str {
    page.split(&format!("<section id=\"{name}\">")).nth(1).unwrap().split("</section>").next().unwrap()
}

#[test]
fn a_diverged_run_speaks_of_no_rank_and_no_phase() {
    let rows = Sample { target: None, ..Sample::held_up() }.rows();
    let mut changed = rows.clone();
    // A rank of a diverged run that is slow, and slower than all.
    let run = &mut changed.runs[0];
    assert_eq!(rows.plan.cells[run.cell].arm, 0);
    run.state = RunState::Diverged;
    let attempt = run.attempt.as_mut().unwrap();
    attempt.steps = 17;
    for rank in &mut attempt.ranks {
        rank.phases.iter_mut().for_each(|row| row.total = record::Nanos(row.total.0 * 1_000));
        rank.steady.time = record::Nanos(rank.steady.time.0 * 1_000);
    }
    let page = checked(&changed);
    assert!(section(&page, "scoreboard").contains("1 of 5 after 17 steps"));
    assert!(section(&page, "heterogeneity").contains("The same in 4 of 4 runs"));
    let mut without = changed.clone();
    without.runs.remove(0);
    let phases = |rows: &SweepRows| section(&checked(rows), "phases").to_owned();
    assert_eq!(phases(&changed), phases(&without));
    let marks = |page: &str| section(page, "drift").matches("<path class=\"dot\"").count();
    assert_eq!(marks(&page), marks(&checked(&rows)) - 1);
}

#[test]
fn an_arm_that_exploded_leaves_the_chart_and_the_page_says_where() {
    let explode = |rows: &mut SweepRows| {
        for run in rows.runs.iter_mut().filter(|run| run.cell == 1) {
            let attempt = run.attempt.as_mut().unwrap();
            attempt.losses.iter_mut().skip(3).for_each(|row| row.loss = 1e30);
            let losses = attempt.metrics.iter_mut().filter(|row| row.metric == recipe::Metric::TestLoss);
            losses.skip(3).for_each(|row| row.value = 1e30);
        }
        for cell in &mut rows.plan.cells {
            cell.spec.train.target = Some(recipe::Target {
                metric: recipe::Metric::TestLoss,
                threshold: 0.2,
                after: None,
                stop: false,
            });
        }
    };
    let page = changed(explode);
    let accuracy = section(&page, "accuracy");
    for unit in ["test loss", "training loss"] {
        let chart = accuracy.split(&format!("<text class=\"label\" x=\"0\" y=\"12\">{unit}")).nth(1).unwrap();
        let note = chart.split("<p class=\"note\">").nth(1).unwrap().split("</p>").next().unwrap();
        assert!(
            note.starts_with("d-sync leaves the chart at ")
                && note.ends_with(" and reaches 1.0e30\u{a0}nats."),
            "{unit}: {note}"
        );
    }
    // The axis is that of the other arm.
    let curves = accuracy.split("<h4>Share of runs").next().unwrap();
    let labels = curves.split("<text class=\"y\"").skip(1);
    let largest = labels.filter_map(|label| label.split('>').nth(1)?.split('<').next()?.parse::<f64>().ok());
    assert!(largest.fold(0.0, f64::max) <= 4.0);
    assert!(!page.contains("000\u{202f}000\u{202f}000\u{202f}000"));
}

#[test]
fn a_condition_under_which_every_run_failed_is_not_one_without_a_difference() {
    let mut rows = Sample { workers: vec![2, 4], target: None, ..Sample::duel() }.rows();
    let cells = rows.plan.cells.clone();
    let lost = cells.iter().position(|cell| cell.arm == 1).unwrap();
    for run in rows.runs.iter_mut().filter(|run| run.cell == lost) {
        run.state = RunState::Failed;
        run.attempt.as_mut().unwrap().as_ordered = true;
    }
    let page = checked(&rows);
    assert!(page.contains("in 1 of 2 conditions, not compared in 1, for want of a finished run"));
    assert!(page.contains("d-sync ends in 1 of 2 conditions, as the recipe orders."));
    assert!(
        page.contains(": 5 failed as the recipe lets them."),
        "{}",
        page.split("no finished run").nth(1).unwrap_or_default()
    );
    assert!(!page.contains("is not shown to differ"));
}
