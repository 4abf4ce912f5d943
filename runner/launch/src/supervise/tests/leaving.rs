//! How ranks end and exit: last messages, goodbyes, targets, time limits and interrupts.

use super::*;
use crate::End;

#[test]
fn last_words_that_come_after_the_end_of_a_process_count() {
    let play = Play::new(later()).play(BEGIN).play("exit 0 0, finished 0");
    assert_eq!(play.stage(), "doubting");
    let play = play.play("goodbye 0");
    assert_eq!(play.stage(), "running");
    let play = play.play("finished 1, goodbye 1, exit 1 0");
    assert_eq!((play.stage(), play.conclusion().as_str()), ("over", "-"));
}

#[test]
fn a_rank_must_say_good_bye_and_then_go() {
    let play = Play::new(later()).play(BEGIN).play("finished 0, run 61");
    assert_eq!(
        play.detail(),
        "rank 0 ended, but did not say that all its records were sent (in step 7, phase backward, lane compute)"
    );
    let mut play = Play::new(later()).play(BEGIN).play("finished 0, goodbye 0, run 61");
    assert!(play.said().contains("note kill-0"));
    // The run continues, and its end is no fault.
    let mut play = play.play("signal 0, finished 1, goodbye 1, exit 1 0");
    assert_eq!((play.said().as_str(), play.conclusion().as_str()), ("events leave-1 finish", "-"));
}

#[test]
fn a_rank_that_stops_unbidden_is_a_fault() {
    let play = Play::new(later()).play(BEGIN).play("stopped 0 4, goodbye 0, exit 0 0");
    let play = play.play("finished 1, goodbye 1, exit 1 0");
    assert_eq!((play.stage(), play.conclusion().as_str()), ("over", "failed 0"));
}

#[test]
fn a_target_counts_only_in_time() {
    let play = Play::new(rules()).play(BEGIN).play("late-metric, metric 89");
    assert_eq!(play.stage(), "running");
    let play = play.play("metric 90, stopped 0 9, goodbye 0, exit 0 0, stopped 1 9, goodbye 1, exit 1 0");
    assert_eq!(play.stage(), "evaluating");
    let play = play.play("E-goodbye, E-exit 0");
    let end = play.supervisor.report().end;
    assert_eq!(end, End::TargetReached { at: Nanos(5_000_000_000), value: 0.9 });
}

#[test]
fn time_is_up_at_any_moment() {
    let table = [
        (BEGIN, "run 600", "stopping", "timeout"),
        ("prepared 0, prepared 1, snapshot 0 3, finished 0, goodbye 0, exit 0 0", "wait 1", "running", "-"),
    ];
    for (way, events, stage, conclusion) in table {
        let play = Play::new(later()).play(way).play(events);
        assert_eq!((play.stage(), play.conclusion().as_str()), (stage, conclusion), "{way}, {events}");
    }
    let begun = Play::new(rules()).play("prepared 0, prepared 1");
    let evaluating = (1..=7).fold(begun, |play, step| play.play(&format!("snapshot 0 {step}"))).play(LEAVE);
    let late = (1..=7).fold(evaluating, |play, _| play.play("wait 90, evaluated"));
    assert_eq!(late.conclusion(), "timeout");
    assert!(Play::new(later()).play(BEGIN).play("run 600").detail().starts_with(
        "the run took longer than its time limit of 60.0 s; rank 0 was furthest behind, in step 7"
    ));
}

#[test]
fn an_interrupted_run_knows_the_last_step_that_all_ranks_finished() {
    let play = Play::new(later()).play(BEGIN).play("stop, stopped 0 9, wait 31");
    assert_eq!(play.supervisor.report().end, End::Interrupted { step: 6 });
    assert_eq!(play.detail(), "stopped by the user after step 6");
}

#[test]
fn a_rank_that_is_asked_to_stop_may_take_a_long_step_to_its_end() {
    let asked = ["stop", "snapshot 0 3, metric 95"];
    for ask in asked {
        let play = Play::new(rules()).play(BEGIN).play(ask).play("run 40");
        assert_eq!(play.stage(), "stopping", "{ask}: a step may take longer than a goodbye");
        assert_eq!(
            play.play("run 15").stage(),
            "killing",
            "{ask}: but not longer than others would wait for it"
        );
        let hangs = Play::new(rules()).play(BEGIN).play(ask).play("wait 12");
        assert_eq!(hangs.stage(), "killing", "{ask}: no rank without a sign of life is waited for");
    }
    let wrong = Play::new(rules()).play(BEGIN).play("diverged 1 4").play("run 35");
    assert_ne!(wrong.stage(), "stopping");
}

#[test]
fn a_driver_that_was_suspended_hears_last_words_before_it_judges() {
    let mut play = Play::new(rules()).play(BEGIN).play("exit 0 0");
    assert_eq!(play.stage(), "doubting");
    play.tell(input("beat 1"), 10_000);
    let play = play.play("finished 0, goodbye 0");
    assert_eq!((play.stage(), play.conclusion().as_str()), ("running", "-"));
    let mut starting = Play::new(rules()).play("prepared 0");
    starting.tell(input("prepared 1"), 60_000);
    assert_eq!(starting.stage(), "running");
}
