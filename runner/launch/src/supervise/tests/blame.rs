//! Who is to blame, and since when.

use super::*;
use crate::{End, FaultOrigin, Whereabouts};

#[test]
fn silence_is_counted_from_the_last_sign_of_life() {
    let play = Play::new(later()).play(BEGIN).play("wait 9, beat 0, beat 1, wait 9, beat 1");
    assert_eq!(play.stage(), "running");
    let play = play.play("wait 2");
    assert_eq!(play.conclusion(), "failed 0");
    assert_eq!(
        play.detail(),
        "rank 0 hangs: it gave no sign of life for 1.0 s; it was last seen in step 7, phase backward, lane compute"
    );
}

#[test]
fn the_host_of_a_rank_is_named_where_there_are_several() {
    let apart = || Rules { hosts: vec!["lab1".into(), "lab2".into()], ..later() };
    // events after the begin -> what the sentence begins with
    let table = [
        (
            "wait 9, beat 0, wait 2",
            "rank 1 on lab2 hangs: it gave no sign of life for 1.0 s; it was last seen in step 7",
        ),
        ("accuses 1 0, signal 0, wait 3", "rank 0 on lab1 was ended by signal 9"),
        ("failed 1, run 11", "rank 1 on lab2 failed in step 8"),
        ("accuses 1 0, run 11", "rank 0 on lab1 let rank 1 wait in vain"),
    ];
    for (events, begin) in table {
        let detail = Play::new(apart()).play(BEGIN).play(events).detail();
        assert!(detail.starts_with(begin), "{events}: {detail}");
    }
}

#[test]
fn a_driver_that_was_suspended_blames_no_rank() {
    let mut play = Play::new(later()).play(BEGIN);
    play.tell(Input::Tick, 30_000);
    assert_eq!(play.stage(), "running");
    assert_eq!(play.play("wait 11").conclusion(), "failed 0");
}

#[test]
fn before_the_start_too_a_rank_that_has_spoken_must_keep_speaking() {
    let silent = Play::new(later()).play("prepared 0, wait 11");
    assert_eq!(silent.stage(), "stopping");
    let told = "rank 0 hangs: it gave no sign of life for 1.1 s; it was last seen while starting up";
    assert_eq!(silent.detail(), told);
    // Who has not spoken yet may still be loading.
    let play = Play::new(later()).play("wait 90");
    assert_eq!(play.stage(), "starting");
    assert_eq!(play.play("wait 10").detail(), "ranks 0 and 1 were not ready after 10.0 s");
    let gone = Play::new(later()).play("wait 50, exit 1 3, wait 11");
    assert_eq!(gone.detail(), "rank 1 exited with code 3 (while starting up)");
    let late = Play::new(later()).play(&format!("prepared 0, {}", "wait 9, beat 0, ".repeat(12)));
    let told = "rank 1 was not ready after 10.0 s: rank 1 gave no sign of life while starting up";
    assert_eq!(late.detail(), told);
    // The others may be waiting for the one that never spoke.
    let waiting = Play::new(later()).play(&"wait 9, beat 0, ".repeat(12));
    let told = "ranks 0 and 1 were not ready after 10.0 s: rank 1 gave no sign of life while starting up";
    assert_eq!((waiting.detail().as_str(), waiting.conclusion().as_str()), (told, "failed 1"));
    assert_eq!(late.supervisor.report().suspects, [Member::Rank(Rank(1))]);
}

#[test]
fn ranks_that_prepared_differently_do_not_start() {
    let mut play = Play::new(later()).play("prepared 0, differs 1");
    assert_eq!(play.said(), "=starting events events =stopping stop-0 stop-1");
    assert_eq!(
        play.detail(),
        "the ranks do not start alike: the initial weights of rank 0: aaaa, of rank 1: ffff"
    );
}

#[test]
fn blame_falls_on_the_cause_and_not_on_the_complaint() {
    // events after the begin -> conclusion, and what the sentence holds
    let table = [
        ("accuses 1 0, signal 0, wait 3", "failed 0", "rank 0 was ended by signal 9"),
        ("accuses 1 0, exit 0 1, run 11", "failed 0", "rank 0 exited with code 1"),
        (
            "accuses 1 0, failed 0",
            "failed 0",
            "rank 0 failed in step 8, phase wait-peer, lane communication: because",
        ),
        ("accuses 1 0, diverged 0", "diverged 0", "rank 0 diverged in step 7: its loss is inf"),
        ("wait 9, beat 1, accuses 1 0, wait 9", "failed 0", "rank 0 hangs: it gave no sign of life for"),
        (
            "accuses 1 0, run 11",
            "failed 0",
            "rank 0 let rank 1 wait in vain: because (in step 7, phase backward",
        ),
        ("accuses 1 0, accuses 0 1, run 11", "failed 0", "rank 0 let rank 1 wait in vain"),
        ("exit 1 1, accuses 1 0, signal 0, run 11", "failed 0", "rank 0 was ended by signal 9"),
        ("exit 1 1, failed 1, run 11", "failed 1", "rank 1 failed in step 8"),
        ("exit 1 0, run 11", "failed 1", "rank 1 exited with code 0 (in step 7"),
        (
            "accuses 1 9, run 11",
            "failed 1",
            "rank 1 failed in step 8, phase wait-peer, lane communication: because",
        ),
        ("signal 1, signal 0, wait 3", "failed 1", "rank 1 was ended by signal 9"),
    ];
    for (events, conclusion, words) in table {
        let play = Play::new(later()).play(BEGIN).play(events);
        assert_eq!(play.conclusion(), conclusion, "{events}");
        assert!(play.detail().starts_with(words), "{events}: {}", play.detail());
    }
}

#[test]
fn a_fault_has_the_place_where_it_happened() {
    let play = Play::new(later()).play(BEGIN).play("signal 1, wait 3, beat 0");
    let End::Failed { place, cause, origin } = play.supervisor.report().end else { panic!("no fault") };
    assert_eq!(place, Some(Whereabouts { lane: LaneId::Compute, step: 7, phase: Phase::Backward }));
    assert!(cause.starts_with("was ended by signal 9"), "{cause}");
    assert_eq!(origin, FaultOrigin::Infrastructure);
}
