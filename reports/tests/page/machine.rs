//! Marks of the machine, of the order of the runs and of their number; and the chart of the drift.

use crate::checks::{changed, checked};
use record::Nanos;
use reports::sample::{Sample, SampleArm};
use store::{AttemptRow, RunState, SweepRows};

/// Whether a mark is green, and its text.
fn mark(page: &str, name: &str) -> (bool, String) {
    let (before, rest) =
        page.split_once(&format!("<b>{name}</b> ")).unwrap_or_else(|| panic!("no mark {name}"));
    let text = rest.split("</span>").next().unwrap();
    let class = before.rsplit("<li class=\"").next().unwrap().split('"').next().unwrap();
    (class == "good", text.replace("&#x27;", "'").replace("&quot;", "\"").replace('\u{a0}', " "))
}

fn attempt(rows: &mut SweepRows, run: usize) -> &mut AttemptRow {
    rows.runs[run].attempt.as_mut().unwrap()
}

/// The duel's runs take turns: even ones are of the baseline, `ps-sync`.
const DUEL: usize = 10;
const WEEK: i64 = 7 * 86_400;

#[test]
fn a_quiet_machine_and_arms_in_turn_are_green() {
    let page = checked(&Sample::duel().rows());
    let order = "arms in turn: at most 11.1 % of a steady drift enters a comparison";
    assert_eq!(mark(&page, "order"), (true, order.to_owned()));
    let machine = "quiet: other processes used at most 0.50 % of the cores, the hypervisor 0.0 %";
    assert_eq!(mark(&page, "machine"), (true, machine.to_owned()));
    let repeats = "5 runs judged in each arm; 1 comparison with the baseline";
    assert_eq!(mark(&page, "repeats"), (true, repeats.to_owned()));
    assert!(mark(&page, "runs").0);
}

#[test]
fn a_baseline_of_last_week_is_no_interleaved_order() {
    let page = changed(|rows| {
        for run in (0..DUEL).step_by(2) {
            rows.runs[run].reused = true;
            attempt(rows, run).started -= WEEK;
        }
    });
    let (good, text) = mark(&page, "order");
    let words = "5 of 5 runs of ps-sync were taken from an earlier sweep, none of d-sync: a change of the machine since \
                 then counts as a difference; <code>--fresh</code> trains all again, in turn";
    assert_eq!((good, text.as_str()), (false, words));
    assert!(page.contains("Hollow marks are runs of an earlier sweep.") && page.contains("class=\"hollow\""));
    assert!(page.contains("start after the first run (days)"));
}

#[test]
fn runs_of_both_arms_from_the_same_earlier_sweep_are_in_turn() {
    let page = changed(|rows| {
        for run in 0..6 {
            rows.runs[run].reused = true;
            attempt(rows, run).started -= WEEK;
        }
    });
    assert!(mark(&page, "order").0);
}

#[test]
fn arms_that_a_resumed_sweep_trained_one_after_the_other_are_told_apart() {
    let page = changed(|rows| {
        for run in 0..DUEL {
            rows.runs[run].reused = run < 6;
            attempt(rows, run).started += if run % 2 == 0 { 0 } else { 500 };
        }
    });
    let (good, text) = mark(&page, "order");
    assert!(!good && text.starts_with("d-sync and ps-sync were not trained in turn: "), "{text}");
    assert!(
        text.ends_with("counts as a difference; <code>--fresh</code> trains all runs again, in turn"),
        "{text}"
    );
    // Where the plan has blocks, training again would not help.
    let page = changed(|rows| {
        for run in 0..DUEL {
            rows.plan.runs[run].cell = run / 5;
            rows.plan.runs[run].repeat = run as u32 % 5;
            rows.runs[run].cell = run / 5;
        }
    });
    let (good, text) = mark(&page, "order");
    assert!(
        !good
            && text.ends_with(
                "<code>repeats.order = \"interleave\"</code> and <code>--fresh</code> train them in turn"
            ),
        "{text}"
    );
}

#[test]
fn one_run_of_each_arm_cannot_tell_a_drift_from_a_difference() {
    let page = checked(&Sample { repeats: 1, ..Sample::duel() }.rows());
    let words = "one run of d-sync and of ps-sync: a drift of the machine looks like a difference";
    assert_eq!(mark(&page, "order"), (false, words.to_owned()));
    assert!(!mark(&page, "repeats").0);
}

#[test]
fn other_processes_and_the_hypervisor_are_noticed() {
    let page = changed(|rows| {
        for run in [1, 4, 5, 8] {
            let [first, last] = attempt(rows, run).hosts.as_mut_slice() else { panic!("two readings") };
            let time = last.at.since(first.at).0 * u64::from(last.cores);
            let share = if run == 5 { 31 } else { 7 };
            last.busy = last.own + first.busy.since(first.own) + Nanos(time * share / 100);
            last.steal += Nanos(if run == 4 { time * 3 / 100 } else { 0 });
        }
    });
    let words = "other processes used up to 31.0 % of the cores in 4 of 10 runs; the hypervisor took up to 3.00 % of the \
                 cores in 1 of 10 runs";
    assert_eq!(mark(&page, "machine"), (false, words.to_owned()));
    assert!(page.contains("<td>31.0\u{a0}%</td>"));
}

#[test]
fn tasks_that_wait_for_memory_are_noticed() {
    let page = changed(|rows| {
        let [first, last] = attempt(rows, 3).hosts.as_mut_slice() else { panic!("two readings") };
        let time = last.at.since(first.at).0;
        (first.memory_pressure, last.memory_pressure) = (Some(Nanos(0)), Some(Nanos(time * 4 / 100)));
    });
    let words = "tasks waited for memory up to 4.00 % of the time in 1 of 10 runs";
    assert_eq!(mark(&page, "machine"), (false, words.to_owned()));
}

#[test]
fn a_machine_without_readings_is_not_called_quiet() {
    let page =
        changed(|rows| rows.runs[..4].iter_mut().for_each(|run| run.attempt.as_mut().unwrap().hosts.clear()));
    let words = "what else the machine did is not known of 4 of 10 runs: too short, or not recorded";
    assert_eq!(mark(&page, "machine"), (false, words.to_owned()));
}

#[test]
fn cores_that_run_at_other_speeds_are_noticed() {
    let page = changed(|rows| {
        attempt(rows, 3).hosts.iter_mut().for_each(|reading| reading.frequency = Some(2_000_000));
    });
    assert_eq!(mark(&page, "machine"), (false, "the cores ran at 2.00 to 3.24 GHz".to_owned()));
}

#[test]
fn a_governor_that_was_changed_between_runs_is_noticed() {
    let page = changed(|rows| {
        attempt(rows, 3).hosts.iter_mut().for_each(|reading| reading.governor = Some("powersave".to_owned()));
    });
    let words = "the cores' frequency governor was performance and powersave in turn";
    assert_eq!(mark(&page, "machine"), (false, words.to_owned()));
}

#[test]
fn machines_of_different_kinds_are_noticed() {
    let page = changed(|rows| {
        let other = store::NodeRow { processor: "another processor".to_owned(), ..rows.nodes[0].clone() };
        rows.nodes.push(other);
        let last = rows.nodes.len() as u32 - 1;
        attempt(rows, 3).ranks.iter_mut().for_each(|rank| rank.node = last);
    });
    let (is_well, words) = mark(&page, "machine");
    assert!(
        !is_well && words.contains("machines of different kinds") && words.contains("another processor"),
        "{words}"
    );
}

#[test]
fn arms_of_a_repeat_on_different_machines_are_noticed() {
    let page = changed(|rows| {
        let other = store::NodeRow { host: "another".to_owned(), ..rows.nodes[0].clone() };
        rows.nodes.push(other);
        let last = rows.nodes.len() as u32 - 1;
        // Both arms of the first repeat, and one of the second.
        for run in [0, 1, 3] {
            attempt(rows, run).ranks.iter_mut().for_each(|rank| rank.node = last);
        }
    });
    let (is_well, words) = mark(&page, "machine");
    assert!(
        !is_well && words.starts_with("in 1 of 5 repeats arms were made on different machines"),
        "{words}"
    );
    assert!(words.contains("another"), "{words}");
}

/// Five runs as a busy machine made them: 9.8 to 15.7 ms a step, blocks within each within a few percent.
#[test]
fn runs_that_differ_more_than_their_blocks_are_noticed() {
    let page = changed(|rows| {
        for (run, percent) in [(1, 100), (3, 160), (5, 120), (7, 145), (9, 104)] {
            let attempt = attempt(rows, run);
            attempt.mean_step_time = attempt.step_time.map(|time| Nanos(time.0 * percent / 100));
            attempt.blocks.iter_mut().for_each(|block| block.length = Nanos(block.length.0 * percent / 100));
        }
    });
    let (good, text) = mark(&page, "machine");
    assert!(!good && text.starts_with("runs of d-sync differ by 19.8 %"), "{text}");
    assert!(
        text.contains("(standard deviation), where 0.") && text.ends_with("from what varies within them"),
        "{text}"
    );
}

#[test]
fn repeats_are_counted_where_they_succeeded() {
    let page = changed(|rows| {
        for run in [1, 3, 5] {
            rows.runs[run].state = RunState::Failed;
        }
        // Otherwise two runs with equal weights are enough.
        attempt(rows, 7).weights = Some(Ok("a".repeat(64)));
    });
    let words = "2 of 5 judged of d-sync, up to 5 of others; 1 comparison with the baseline; a comparison needs 3 of each arm";
    assert_eq!(mark(&page, "repeats"), (false, words.to_owned()));
    let page = changed(|rows| rows.runs[1].state = RunState::Failed);
    let words = "4 of 5 judged of d-sync, up to 5 of others; 1 comparison with the baseline, 1 open";
    assert_eq!(mark(&page, "repeats"), (false, words.to_owned()));
}

#[test]
fn two_runs_are_enough_where_weights_are_equal_bit_for_bit() {
    let two = |change: fn(&mut SweepRows)| {
        let mut rows = Sample { repeats: 2, ..Sample::duel() }.rows();
        for run in [0, 2] {
            // Equal weights reach the target at the same evaluation.
            attempt(&mut rows, run + 1).metrics = attempt(&mut rows, run).metrics.clone();
        }
        change(&mut rows);
        mark(&checked(&rows), "repeats").0
    };
    assert!(two(|_| ()));
    assert!(!two(|rows| attempt(rows, 1).weights = Some(Ok("b".repeat(64)))));
}

#[test]
fn eight_arms_have_seven_comparisons_and_no_promise() {
    let mut sample = Sample::duel();
    for copy in 0..6 {
        let arm = sample.arms[1].clone();
        sample.arms.push(SampleArm { name: format!("copy-{copy}"), ..arm });
    }
    let page = checked(&sample.rows());
    let words = "5 runs judged in each arm; 7 comparisons with the baseline, 4 open";
    assert_eq!(mark(&page, "repeats"), (false, words.to_owned()));
    assert!(!page.contains("settles several arms"));
}

/// Three runs of the arm that was decided, and all twelve of the baseline: neither is missing, and they ran in turn.
#[test]
fn repeats_that_were_not_needed_are_no_doubt() {
    let mut rows = Sample { repeats: 12, looks: vec![3, 12], target: None, ..Sample::duel() }.rows();
    for run in rows.runs.iter_mut().filter(|run| run.cell == 1 && run.repeat >= 3) {
        (run.state, run.attempt) = (RunState::NotNeeded, None);
    }
    let page = checked(&rows);
    let words = "3 to 12 runs judged in each arm, until decided or 12; 1 comparison with the baseline";
    assert_eq!(mark(&page, "repeats"), (true, words.to_owned()));
    assert!(!page.contains("<b>missing</b>") && mark(&page, "runs").0);
    let three = checked(&Sample { repeats: 3, target: None, ..Sample::duel() }.rows());
    assert_eq!(mark(&page, "order"), mark(&three, "order"), "of the repeats that both have");
    let plain = page.replace('\u{a0}', " ");
    assert!(plain.contains("2 arms \u{b7} 15 runs"), "runs that were made");
    assert!(plain.contains("looked at after 3 and 12 repeats, if it takes as many"));
    assert!(plain.contains("so that claims hold at 95 % over all looks"));
    assert!(plain.contains("24 runs planned, 9 not needed, 15 recorded"));
}

/// Stopped in its second round: later rounds are not missing, because it is not known whether they are needed.
#[test]
fn repeats_after_the_next_look_are_not_missing() {
    let mut rows = Sample { repeats: 12, looks: vec![3, 6, 12], target: None, ..Sample::duel() }.rows();
    for run in rows.runs.iter_mut().filter(|run| run.repeat > 3 || (run.repeat, run.cell) == (3, 1)) {
        (run.state, run.attempt) = (RunState::Pending, None);
    }
    let page = checked(&rows);
    assert_eq!(mark(&page, "missing"), (false, "5 runs not finished".to_owned()));
    assert!(page.contains("5 runs are not begun yet.") && page.contains("2 arms \u{b7} 12 runs"));
    assert!(
        mark(&page, "repeats").1.starts_with("3 of 6 judged of d-sync, up to 4 of others"),
        "{:?}",
        mark(&page, "repeats")
    );
}

#[test]
fn a_run_that_diverged_is_no_green_mark() {
    let page = changed(|rows| rows.runs[3].state = RunState::Diverged);
    assert_eq!(mark(&page, "runs"), (false, "none failed, 1 diverged".to_owned()));
}

#[test]
fn the_chart_of_the_drift_says_what_it_shows() {
    let page = changed(|rows| {
        for run in 0..DUEL {
            let attempt = attempt(rows, run);
            attempt.mean_step_time =
                attempt.step_time.map(|time| Nanos(time.0 * (100 + 2 * run as u64) / 100));
        }
    });
    let description = page.split("<desc id=\"drift-desc\">").nth(1).unwrap().split("</desc>").next().unwrap();
    assert!(
        description.starts_with("Drift: steps became longer: the slope over 81.0\u{a0}s is +1"),
        "{description}"
    );
    let chart = page.split("<section id=\"drift\">").nth(1).unwrap().split("</section>").next().unwrap();
    assert_eq!(chart.matches("<path class=\"dot\"").count() - 2, DUEL, "marks beside those of the legend");
    assert_eq!(chart.matches("<tr>").count(), 1 + DUEL);
    let quiet = checked(&Sample::duel().rows());
    assert!(quiet.contains("No drift that matters: the slope over 81.0\u{a0}s is "));
    let few = checked(&Sample { repeats: 2, ..Sample::duel() }.rows());
    assert!(few.contains("Too few runs to judge whether the machine drifted."));
    let one = Sample { repeats: 1, ..Sample::duel() };
    let one = Sample { arms: one.arms[..1].to_vec(), ..one };
    assert!(!checked(&one.rows()).contains("id=\"drift\""));
}

#[test]
fn runs_of_an_earlier_sweep_on_one_side_are_no_green_mark() {
    let reused = |places: &[usize]| {
        let places = places.to_vec();
        mark(&changed(move |rows| places.iter().for_each(|place| rows.runs[*place].reused = true)), "reused")
    };
    let both = "2 runs taken from an earlier sweep of equal identity".to_owned();
    assert_eq!(reused(&[0, 1]), (true, both.clone()));
    let aside = "; in 2 pairs with the baseline only one run is, so that a change of the machine since then counts as a \
                 difference";
    assert_eq!(reused(&[0, 2]), (false, format!("{both}{aside}")));
}

#[test]
fn a_slope_of_few_runs_that_spread_without_bounds_is_not_shown() {
    let page = changed(|rows| {
        for run in 0..DUEL {
            let factor = if run % 3 == 0 { 1_000 } else { 1 };
            let attempt = attempt(rows, run);
            attempt.mean_step_time = attempt.step_time.map(|time| Nanos(time.0 * factor));
        }
    });
    let drift = page.split("<section id=\"drift\">").nth(1).unwrap().split("</section>").next().unwrap();
    assert!(drift.contains("Too few runs to judge whether the machine drifted."), "{drift}");
    assert!(!drift.contains("class=\"target\""));
}
