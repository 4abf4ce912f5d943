//! Ranks that a run can spare: which, when, and the report of their loss.

use super::*;
use crate::{End, LostRank};

/// Three workers and a server, without a target; the evaluator works after them.
fn scene() -> Play {
    let rules = Rules { evaluate_at_once: false, target: None, ..sparing(3) };
    Play::new(rules).play("prepared 0, prepared 1, prepared 2, prepared 3, beat 0, beat 1, beat 2, beat 3")
}

/// The end of these ranks as it should be.
fn leave(ranks: &[u32]) -> String {
    let each = |rank: &u32| format!("finished {rank}, goodbye {rank}, exit {rank} 0");
    ranks.iter().map(each).collect::<Vec<_>>().join(", ")
}

fn lost(play: &Play) -> Vec<u32> {
    play.supervisor.report().lost_ranks.iter().map(|loss| loss.rank.0).collect()
}

const DIED: &str = "rank 1 was ended by signal 9 (SIGKILL: by a user or by the out-of-memory killer) \
                    (in step 7, phase backward, lane compute)";

#[test]
fn a_run_that_can_spare_a_worker_goes_on_to_its_end_and_says_so() {
    let mut play = scene();
    play.said();
    let mut play = play.play("signal 1, wait 3");
    assert_eq!((play.said().as_str(), play.stage(), play.conclusion().as_str()), ("lost-1", "running", "-"));
    let mut play = play.play("snapshot 3 6").play(&leave(&[0, 2, 3]));
    assert!(play.said().ends_with("=evaluating spawn-E evaluate-6"));
    let play = play.play("metric 50, evaluated, E-goodbye, E-exit 0");
    assert_eq!((play.stage(), play.conclusion().as_str()), ("over", "-"));
    let report = play.supervisor.report();
    assert_eq!(report.end, End::Done);
    assert_eq!(report.detail, format!("{DIED}; the run went on without it"));
    assert_eq!(report.suspects, [Member::Rank(Rank(1))]);
    // All were prepared after 40 ms; the process went at 90 ms, and its last words were waited for until 290.
    let at = Nanos(250_000_000);
    let [loss] = &report.lost_ranks[..] else { panic!("{:?}", report.lost_ranks) };
    assert_eq!(*loss, LostRank { rank: Rank(1), step: 7, at, reason: DIED.into() });
}

#[test]
fn a_rank_that_misses_another_knows_the_step_and_the_moment() {
    // Before or after the end of the process is known.
    for events in ["misses 3 1, signal 1, wait 3", "signal 1, wait 3, misses 3 1"] {
        let report = scene().play(events).supervisor.report();
        let [loss] = &report.lost_ranks[..] else { panic!("{events}: {:?}", report.lost_ranks) };
        assert_eq!((loss.step, loss.at, loss.reason.as_str()), (9, Nanos(2_000_000_000), DIED), "{events}");
    }
}

#[test]
fn why_a_rank_is_lost_is_told() {
    // events after the begin -> what the sentence begins with
    let table = [
        ("exit 1 3, run 11", "rank 1 exited with code 3 (in step 7"),
        ("failed 1", "rank 1 failed in step 8, phase wait-peer, lane communication: because"),
        ("wait 9, beat 0, beat 2, beat 3, wait 2", "rank 1 hangs: it gave no sign of life for 1."),
        ("accuses 1 3, run 11", "rank 1 failed in step 8, phase wait-peer, lane communication: because"),
        ("misses 3 1, run 11", "rank 1 did not answer rank 3: it is gone (in step 7"),
        ("finished 1, run 61", "rank 1 ended, but did not say that all its records were sent (in step 7"),
    ];
    for (events, words) in table {
        let play = scene().play(events);
        assert_eq!(
            (play.stage(), play.conclusion().as_str(), lost(&play)),
            ("running", "-", vec![1]),
            "{events}"
        );
        assert!(play.detail().starts_with(words), "{events}: {}", play.detail());
    }
}

#[test]
fn what_is_left_of_a_lost_rank_is_killed_and_changes_nothing_more() {
    let mut play = scene();
    play.said();
    let mut play = play.play("wait 9, beat 0, beat 2, beat 3, wait 2");
    assert_eq!(play.said(), "beat beat beat lost-1 kill-1");
    for late in
        ["failed 1", "accuses 1 3", "diverged 1", "stopped 1 9", "misses 3 1", "signal 1", "beat 1, run 11"]
    {
        let play = scene().play("wait 9, beat 0, beat 2, beat 3, wait 2").play(late);
        assert_eq!((play.stage(), lost(&play)), ("running", vec![1]), "{late}");
    }
    let play = play.play("signal 1").play(&leave(&[0, 2, 3]));
    assert_eq!((play.stage(), play.conclusion().as_str()), ("over", "-"));
}

#[test]
fn a_lost_rank_that_cannot_be_killed_does_not_keep_the_others() {
    let play = scene().play("wait 9, beat 0, beat 2, beat 3, wait 2").play(&leave(&[0, 2, 3]));
    assert_eq!(play.stage(), "running");
    let mut play = play.play("wait 31");
    assert_eq!(play.stage(), "over");
    assert!(play.said().ends_with("note finish"));
}

#[test]
fn several_may_be_lost_but_not_the_last() {
    let play = scene().play("signal 1, signal 0, run 15");
    assert_eq!((play.stage(), lost(&play)), ("running", vec![1, 0]));
    assert!(play.detail().ends_with("; the run went on without them"), "{}", play.detail());
    let play = play.play("signal 2, accuses 3 2, run 11");
    assert_eq!((play.conclusion().as_str(), lost(&play)), ("failed 2", vec![1, 0]));
    let words = "rank 2 was ended by signal 9 (SIGKILL: by a user or by the out-of-memory killer) (in step 7";
    assert!(play.detail().starts_with(words), "{}", play.detail());
    assert!(play.detail().contains("(before: rank "), "{}", play.detail());
}

#[test]
fn all_at_once_is_no_degraded_run() {
    let play = scene().play("signal 0, signal 1, signal 2, accuses 3 0, run 40");
    assert!(play.conclusion().starts_with("failed "), "{}", play.conclusion());
}

#[test]
fn a_server_is_not_spared() {
    for (events, words) in [
        ("signal 3, wait 3", "rank 3 was ended by signal 9"),
        ("accuses 0 3, accuses 1 3, signal 3, wait 3", "rank 3 was ended by signal 9"),
        ("failed 3", "rank 3 failed in step 8"),
        ("wait 9, beat 0, beat 1, beat 2, wait 2", "rank 3 hangs: it gave no sign of life"),
        ("accuses 0 3, accuses 1 3, accuses 2 3, run 40", "rank 3 let rank "),
        // It has left, whomever it complains about.
        ("accuses 3 1, run 11", "rank 1 let rank 3 wait in vain"),
        ("accuses 3 1, signal 1, run 20", "rank 1 let rank 3 wait in vain"),
    ] {
        let play = scene().play(events);
        assert!(play.conclusion().starts_with("failed "), "{events}: {}", play.conclusion());
        assert!(play.detail().starts_with(words), "{events}: {}", play.detail());
    }
}

#[test]
fn no_rank_is_spared_before_the_start() {
    for events in ["signal 1, wait 3", "failed 1", "exit 1 0, run 11", "wait 11"] {
        let play = Play::new(Rules { target: None, ..sparing(3) });
        let play = play.play("prepared 0, prepared 1, prepared 2").play(events);
        assert!(play.conclusion().starts_with("failed "), "{events}: {}", play.conclusion());
        assert_eq!(lost(&play), [0; 0], "{events}");
    }
}

#[test]
fn ranks_that_train_together_spare_none() {
    let synchronous = [Strategy::PsSync, Strategy::DSync, Strategy::LocalSgd { period: 2 }]
        .map(|strategy| Rules { strategy, evaluate_at_once: false, ..sparing(2) });
    for rules in synchronous {
        let play = Play::new(rules).play("prepared 0, prepared 1, prepared 2, beat 1, signal 1, wait 3");
        assert_eq!((play.conclusion().as_str(), lost(&play)), ("failed 1", vec![]));
    }
}

#[test]
fn ranks_that_leave_a_run_that_is_over_are_not_lost() {
    // The server may be told to stop a little later than the workers that leave it.
    for end in ["stop", "run 600", "diverged 0"] {
        let play = scene().play(end).play("stopped 1 8, misses 3 1, goodbye 1, exit 1 0, wait 1");
        assert_eq!(lost(&play), [0; 0], "{end}");
    }
    let play = scene().play("finished 1, goodbye 1, exit 1 0, misses 3 1, run 20");
    assert_eq!((play.stage(), lost(&play)), ("running", vec![]));
}

#[test]
fn a_degraded_run_may_still_end_early() {
    let degraded = |end: &str| scene().play("signal 1, wait 3").play(end);
    let stopped = degraded("stop, stopped 0 9, wait 31");
    assert_eq!(stopped.supervisor.report().end, End::Interrupted { step: 6 });
    let told = format!("stopped by the user after step 6 (before: {DIED}; the run went on without it)");
    assert_eq!((stopped.detail(), lost(&stopped)), (told, vec![1]));
    assert_eq!(degraded("diverged 0").conclusion(), "diverged 0");
    assert_eq!(degraded("run 600").conclusion(), "timeout");
    let aimed =
        Play::new(sparing(2)).play("prepared 0, prepared 1, prepared 2, beat 1, signal 1, wait 3, metric 95");
    let report = aimed.supervisor.report();
    assert!(matches!(report.end, End::TargetReached { .. }) && report.lost_ranks.len() == 1);
}
