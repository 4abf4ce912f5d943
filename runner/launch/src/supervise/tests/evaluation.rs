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
    assert_eq!((play.said().as_str(), play.verdict().as_str()), ("finish", "-"));
    assert_eq!(play.supervisor.judgement().end, End::Done);
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
    assert_eq!((quiet.stage(), quiet.verdict().as_str()), ("evaluating", "failed"));
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
    assert_eq!((play.said().as_str(), play.stage(), play.verdict().as_str()), ("note finish", "over", "-"));
}

#[test]
fn what_was_set_aside_before_the_target_is_still_evaluated() {
    let aimed = "snapshot 0 3, snapshot 0 6, metric 95, evaluated";
    let play = Play::new(rules()).play(BEGIN).play(aimed).play(LEAVE);
    assert_eq!(play.stage(), "evaluating");
    let mut play = play.play("evaluated");
    assert!(play.said().ends_with("=evaluating discard-6 leave-E"));
}
