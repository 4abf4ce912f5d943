//! The evaluator beside the ranks and after them.

use super::*;
use crate::End;

#[test]
fn an_evaluator_without_a_core_of_its_own_waits_for_the_ranks() {
    let mut play = Play::new(later()).play(BEGIN).play("snapshot 0 3, snapshot 0 6");
    assert_eq!(play.said(), "=starting events events start =running beat beat events events");
    let mut play = play.play(LEAVE);
    assert_eq!(play.said(), "events leave-0 events leave-1 =evaluating spawn-E evaluate-3");
    let mut play = play.play("metric 50, evaluated");
    assert_eq!(play.said(), "events discard-3 evaluate-6");
    let mut play = play.play("evaluated");
    assert_eq!(play.said(), "discard-6 leave-E");
    let mut play = play.play("E-goodbye, E-exit 0");
    assert_eq!((play.said().as_str(), play.conclusion().as_str()), ("finish", "-"));
    assert_eq!(play.supervisor.report().end, End::Done);
}

#[test]
fn the_models_that_a_run_begins_and_ends_with_are_kept() {
    let last = SnapshotRecord { last: true, ..snapshot(Rank(0), 6) };
    let mut play = Play::new(later()).play(BEGIN).play("snapshot 0 0, snapshot 0 3");
    play.tell(Input::Message(Member::Rank(Rank(0)), ToDriver::Events(vec![Event::Snapshot(last)])), 10);
    let mut play = play.play(LEAVE).play("evaluated, evaluated, evaluated");
    assert!(play.said().ends_with("evaluate-0 evaluate-3 discard-3 evaluate-6 leave-E"));
}

#[test]
fn a_run_without_snapshots_needs_no_evaluator() {
    let mut play = Play::new(later()).play(BEGIN).play(LEAVE);
    assert!(play.said().ends_with("leave-1 finish"), "{}", play.said());
}

#[test]
fn an_evaluator_that_takes_too_long_for_a_snapshot_is_given_up() {
    // The limit holds for each snapshot anew, and whatever else the evaluator says.
    let quiet = Play::new(later()).play("prepared 0, prepared 1, snapshot 0 3, snapshot 0 6").play(LEAVE);
    let quiet = quiet.play("wait 90, evaluated, wait 90, metric 50");
    assert_eq!(quiet.stage(), "evaluating");
    let mut quiet = quiet.play("wait 15");
    assert_eq!((quiet.stage(), quiet.conclusion().as_str()), ("evaluating", "failed"));
    assert!(quiet.said().ends_with("kill-E"));
    let quiet = quiet.play("E-exit 1");
    assert_eq!(quiet.stage(), "over");
    assert_eq!(quiet.detail(), "the evaluator did not evaluate 6.bin within 10.0 s");
}

#[test]
fn an_evaluator_that_does_not_leave_is_killed_and_spoils_nothing() {
    let mut play = Play::new(rules()).play(BEGIN).play(LEAVE).play("wait 61");
    assert!(play.said().ends_with("leave-E note kill-E"));
    let mut play = play.play("wait 62");
    assert_eq!(
        (play.said().as_str(), play.stage(), play.conclusion().as_str()),
        ("note finish", "over", "-")
    );
}

#[test]
fn what_was_set_aside_before_the_target_is_still_evaluated() {
    let aimed = "snapshot 0 3, snapshot 0 6, metric 95, evaluated";
    let play = Play::new(rules()).play(BEGIN).play(aimed).play(LEAVE);
    assert_eq!(play.stage(), "evaluating");
    let mut play = play.play("evaluated");
    assert!(play.said().ends_with("=evaluating discard-6 leave-E"));
}

/// The lines from the end of the ranks on, when every snapshot is evaluated in turn.
fn evaluated_after(events: &str) -> String {
    let mut play = Play::new(later()).play(BEGIN).play(events).play(LEAVE);
    for _ in 0..8 {
        play = play.play("evaluated");
    }
    play.said().split_once("spawn-E ").unwrap().1.to_owned()
}

#[test]
fn models_of_one_mark_are_taken_together() {
    let said = evaluated_after("copy 0 0, copy 1 0, copy 1 1, copy 0 1");
    let begin = "evaluate-0 average-r0m0+r1m0 discard-0";
    assert_eq!(said, format!("{begin} evaluate-1 average-r0m1+r1m1 discard-1 discard-1 leave-E"));
}

#[test]
fn a_copy_stands_for_the_marks_that_its_rank_passed_on_the_way() {
    let said = evaluated_after("copy 0 1, copy 0 2, copy 1 2");
    let first = "evaluate-1 evaluate-2 average-r0m1+r1m2 discard-1";
    assert_eq!(said, format!("{first} average-r0m2+r1m2 discard-2 discard-2 leave-E"));
}

#[test]
fn a_rank_that_ended_before_a_mark_stands_with_its_final_model() {
    let said = evaluated_after("final 1 3, copy 0 1, final 0 3");
    let first = "evaluate-1 average-r0m1+r1m3 discard-1";
    assert_eq!(said, format!("{first} evaluate-3 average-r0m3+r1m3 discard-3 discard-3 leave-E"));
}

#[test]
fn the_copy_of_a_lost_rank_is_not_waited_for() {
    let said = evaluated_after("copy 0 1, copy 1 1, copy 0 2, misses 0 1, copy 0 3");
    let first = "evaluate-1 average-r0m1+r1m1 discard-1 discard-1 evaluate-2 average-r0m2 discard-2";
    assert_eq!(said, format!("{first} evaluate-3 average-r0m3 discard-3 leave-E"));
    // Copies that it sends after all come too late for the marks that are over.
    let said = evaluated_after("copy 0 1, misses 0 1, copy 1 1, copy 1 2, copy 0 2");
    let first = "evaluate-1 average-r0m1 discard-1";
    assert_eq!(said, format!("{first} evaluate-2 average-r0m2+r1m2 discard-2 discard-2 leave-E"));
}

#[test]
fn a_mark_that_some_did_not_reach_before_the_stop_is_given_up() {
    let leave = "stopped 0 1, goodbye 0, exit 0 0, stopped 1 0, goodbye 1, exit 1 0";
    let mut play = Play::new(rules()).play(BEGIN).play("copy 0 1, metric 95").play(leave).play("evaluated");
    let said = play.said();
    assert!(said.ends_with("=evaluating discard-1 leave-E"), "{said}");
    assert!(!said.contains("average"), "{said}");
}

#[test]
fn what_a_stopped_run_set_aside_goes_with_it() {
    let leave = "stopped 0 9, goodbye 0, exit 0 0, stopped 1 9, goodbye 1, exit 1 0";
    let begun = Play::new(later()).play(BEGIN).play("copy 0 0, snapshot 0 3, copy 0 6, copy 1 8, stop");
    let said = begun.play(leave).said();
    for (discarded, times) in [("discard-0", 0), ("discard-3", 1), ("discard-6", 1), ("discard-8", 1)] {
        assert_eq!(said.matches(discarded).count(), times, "{discarded}: {said}");
    }
}

#[test]
fn what_an_attempt_that_may_be_continued_set_aside_stays() {
    let rules = || Rules { continues: true, ..later() };
    let leave = "stopped 0 9, goodbye 0, exit 0 0, stopped 1 9, goodbye 1, exit 1 0";
    let ends = [
        format!("stop, {leave}"),
        "signal 1, wait 101".to_owned(),
        "stop-now, exit 0 0, exit 1 0".to_owned(),
    ];
    for end in ends {
        let said = Play::new(rules())
            .play(BEGIN)
            .play("copy 0 0, snapshot 0 3, copy 0 6, copy 1 6")
            .play(&end)
            .said();
        assert!(!said.contains("discard"), "{end}: {said}");
    }
    let said = Play::new(rules()).play(BEGIN).play("snapshot 0 3").play(LEAVE).play("evaluated").said();
    assert!(said.contains("discard-3"), "{said}");
}

#[test]
fn what_is_not_evaluated_any_more_goes() {
    for end in ["stop, E-exit 1", "E-exit 1", "stop-now, E-exit 1", "wait 101, E-exit 1"] {
        let begun = Play::new(later()).play(BEGIN).play("snapshot 0 3, snapshot 0 6").play(LEAVE);
        let said = begun.play(end).said();
        assert!(said.ends_with("discard-3 discard-6 finish"), "{end}: {said}");
    }
}

#[test]
fn only_the_model_that_is_judged_reaches_a_target() {
    let Input::Message(member, ToDriver::Events(mut events)) = metric(0.95, 5) else { panic!("no metric") };
    let Event::Metric(record) = &mut events[0] else { panic!("no metric") };
    record.judged = false;
    let mut play = Play::new(rules()).play(BEGIN);
    play.tell(Input::Message(member, ToDriver::Events(events)), 10);
    assert_eq!((play.stage(), play.conclusion().as_str()), ("running", "-"));
}
