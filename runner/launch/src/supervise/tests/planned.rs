//! Planned faults of the recipe: no rank and no machine is blamed for them, and other faults are still accidents.

use super::*;
use crate::{End, FaultOrigin};

/// Two ranks that need each other, which train.
fn together() -> Play {
    Play::new(Rules { target: None, ..rules() }).play(BEGIN)
}

/// Three workers that do not need each other, and their server.
fn alone() -> Play {
    let rules = Rules { evaluate_at_once: false, target: None, ..sparing(3) };
    Play::new(rules).play("prepared 0, prepared 1, prepared 2, prepared 3, beat 0, beat 1, beat 2, beat 3")
}

const KILLED: &str = "rank 1 was killed at the beginning of step 7, as the recipe says";
const HANGS: &str = "rank 1 was paused for good at the beginning of step 7, as the recipe says";

/// Origin of the attempt's failure, whether the recipe ordered it, and the reported detail.
fn failure(play: &Play) -> (FaultOrigin, bool, String) {
    let report = play.supervisor.report();
    let End::Failed { origin, .. } = report.end else { panic!("{:?}", report.end) };
    assert_eq!(report.suspects, [Member::Rank(Rank(1))]);
    (origin, report.as_ordered, report.detail)
}

#[test]
fn a_run_that_needs_the_rank_fails_as_ordered_in_any_order_of_the_news() {
    for events in [
        "struck 1, signal 1, wait 3",
        "struck 1, accuses 0 1, signal 1, wait 3",
        "struck 1, accuses 0 1, wait 11",
        "struck 1, signal 1, accuses 0 1, wait 11",
    ] {
        let play = together().play(events);
        assert_eq!(failure(&play), (FaultOrigin::Recipe, true, KILLED.to_owned()), "{events}");
    }
    let play = together().play("paused 1, beat 0, wait 5, beat 0, wait 6");
    assert_eq!(failure(&play), (FaultOrigin::Recipe, true, HANGS.to_owned()));
}

#[test]
fn a_run_that_can_spare_the_rank_is_degraded_as_ordered() {
    let leave =
        "finished 0, goodbye 0, exit 0 0, finished 2, goodbye 2, exit 2 0, finished 3, goodbye 3, exit 3 0";
    for (events, told) in [
        ("struck 1, signal 1, wait 3", KILLED),
        ("struck 1, misses 3 1, signal 1, wait 3", KILLED),
        ("paused 1, misses 3 1, wait 5, beat 0, beat 2, beat 3, wait 6", HANGS),
    ] {
        let report = alone().play(events).play(leave).supervisor.report();
        assert_eq!((report.end, report.as_ordered), (End::Done, true), "{events}");
        assert_eq!(report.detail, format!("{told}; the run went on without it"), "{events}");
    }
    // Another rank is lost by accident.
    let report = alone().play("struck 1, signal 1, wait 3, signal 2, wait 3").supervisor.report();
    assert_eq!((report.lost_ranks.len(), report.as_ordered), (2, false));
}

#[test]
fn a_paused_rank_may_be_silent_for_as_long_and_no_longer() {
    let mut play = together().play("paused 1 30, beat 0");
    for _ in 0..7 {
        play = play.play("wait 5, beat 0");
    }
    assert_eq!((play.stage(), play.conclusion().as_str()), ("running", "-"));
    let play = play.play("wait 5, beat 0, wait 5");
    let (origin, as_ordered, detail) = failure(&play);
    assert_eq!((origin, as_ordered), (FaultOrigin::Infrastructure, false), "it did not come back");
    assert!(detail.contains("gave no sign of life"), "{detail}");
}

#[test]
fn what_happens_to_another_rank_or_by_itself_is_an_accident() {
    for events in ["signal 1, wait 3", "struck 0, signal 1, wait 3", "slowed 1, signal 1, wait 3"] {
        let (origin, as_ordered, detail) = failure(&together().play(events));
        assert_eq!((origin, as_ordered), (FaultOrigin::Infrastructure, false), "{events}");
        assert!(detail.contains("SIGKILL"), "{events}: {detail}");
    }
}

const UNLINKED: &str = "rank 1 lost its link with rank 0 at the beginning of step 7, as the recipe says";

#[test]
fn a_run_that_needs_a_link_fails_as_ordered_whichever_rank_complains_first() {
    let place = "(in step 8, phase wait-peer, lane communication)";
    for events in [
        "unlinked 1 0, accuses 1 0, run 11",
        "unlinked 1 0, accuses 0 1, run 11",
        "unlinked 1 0, accuses 0 1, accuses 1 0, run 11",
        "unlinked 0 1, accuses 0 1, accuses 1 0, run 11",
    ] {
        let report = together().play(events).supervisor.report();
        let End::Failed { origin, .. } = report.end else { panic!("{:?}", report.end) };
        let struck = if events.contains("unlinked 0") {
            UNLINKED.replace("rank 1", "rank x").replace("rank 0", "rank 1").replace("rank x", "rank 0")
        } else {
            UNLINKED.to_owned()
        };
        assert_eq!((origin, report.as_ordered), (FaultOrigin::Recipe, true), "{events}");
        assert_eq!(report.detail, format!("because {place}: {struck}"), "{events}");
    }
    // A rank that dies, hangs, or fails by itself is an accident, whatever its links.
    for (events, words) in [
        ("unlinked 1 0, signal 1, wait 3", "SIGKILL"),
        ("unlinked 1 0, accuses 0 1, signal 1, wait 3", "SIGKILL"),
        ("unlinked 1 0, failed 1, wait 3", "because"),
        ("unlinked 1 0, beat 0, wait 5, beat 0, wait 6", "gave no sign of life"),
    ] {
        let report = together().play(events).supervisor.report();
        assert!(!report.as_ordered && report.detail.contains(words), "{events}: {report:?}");
    }
}

#[test]
fn a_link_is_not_what_ranks_wait_for_once_both_of_its_ends_have_trained_on() {
    let beats = |word: &str| {
        let all = [0, 1, 2].map(|rank| format!("{word} {rank}")).join(", ");
        format!("{all}, wait 4, {all}, wait 4, {all}, wait 4")
    };
    for (word, origin, as_ordered) in
        [("beat", FaultOrigin::Recipe, true), ("later-beat", FaultOrigin::Infrastructure, false)]
    {
        let rules = Rules { roles: vec![Role::Worker; 3], target: None, ..rules() };
        let begun = Play::new(rules).play("prepared 0, prepared 1, prepared 2, beat 0, beat 1, beat 2");
        let events = format!("unlinked 1 0, {word} 0, {word} 1, accuses 2 1, {}", beats(word));
        let report = begun.play(&events).supervisor.report();
        let End::Failed { origin: found, .. } = report.end else { panic!("{word}: {:?}", report.end) };
        assert_eq!((found, report.as_ordered), (origin, as_ordered), "{word}: {}", report.detail);
    }
}

#[test]
fn a_worker_without_a_link_to_its_server_is_lost_as_ordered() {
    let leave =
        "finished 0, goodbye 0, exit 0 0, finished 2, goodbye 2, exit 2 0, finished 3, goodbye 3, exit 3 0";
    let told = "rank 1 lost its link with rank 3 at the beginning of step 7, as the recipe says";
    for (events, place) in [
        ("unlinked 1 3, accuses 1 3, exit 1 1, run 11", "because (in step 8, phase wait-peer"),
        ("unlinked 1 3, accuses 1 3, misses 3 1, run 11", "because (in step 8, phase wait-peer"),
        ("unlinked 1 3, misses 3 1, run 11", "it is gone (in step 7, phase backward"),
    ] {
        let play = alone().play(events);
        assert_eq!(play.stage(), "running", "{events}");
        let report = play.play(leave).supervisor.report();
        assert_eq!((report.end, report.as_ordered), (End::Done, true), "{events}");
        let [lost] = &report.lost_ranks[..] else { panic!("{events}: {:?}", report.lost_ranks) };
        assert_eq!(lost.rank, Rank(1), "{events}");
        assert!(lost.reason.starts_with(place) && lost.reason.ends_with(told), "{events}: {}", lost.reason);
    }
    // The server itself, or another worker, is another matter.
    let report = alone().play("unlinked 1 3, signal 2, wait 3").supervisor.report();
    assert!(!report.as_ordered, "{report:?}");
}

/// Three workers that average in pairs.
fn pairs() -> Play {
    let roles = vec![recipe::Role::Worker; 3];
    let topology = recipe::Topology::Ring;
    let strategy = Strategy::AdPsgd { topology, averaging: recipe::Averaging::EachStep };
    let rules = Rules { evaluate_at_once: false, target: None, roles, strategy, ..rules() };
    Play::new(rules).play("prepared 0, prepared 1, prepared 2, beat 0, beat 1, beat 2")
}

#[test]
fn workers_that_can_go_on_without_each_other_are_not_lost() {
    let leave =
        "finished 0, goodbye 0, exit 0 0, finished 1, goodbye 1, exit 1 0, finished 2, goodbye 2, exit 2 0";
    for (missed, told) in [
        ("misses 0 1, misses 1 0", "both went on, each without the other"),
        ("misses 0 1", "both went on, each without the other"),
        ("beat 0", "no rank missed a message"),
    ] {
        let play = pairs().play(&format!("unlinked 1 0, {missed}, wait 5, beat 0, beat 1, beat 2, wait 5"));
        assert_eq!((play.stage(), play.conclusion().as_str()), ("running", "-"), "{missed}");
        let report = play.play(leave).supervisor.report();
        assert_eq!((report.end, report.as_ordered), (End::Done, false), "{missed}");
        assert_eq!(report.lost_ranks, [], "{missed}");
        assert_eq!(report.detail, format!("{UNLINKED}; {told}"), "{missed}");
    }
    // A third rank that is missed is lost.
    let play = pairs().play("unlinked 1 0, misses 1 2, run 11");
    assert!(play.play(leave).supervisor.report().lost_ranks.iter().any(|lost| lost.rank == Rank(2)));
}

#[test]
fn each_is_noted_when_it_strikes() {
    for event in ["struck 1", "paused 1", "paused 1 5", "slowed 1", "unlinked 1 0"] {
        let mut play = together();
        play.said();
        assert_eq!(play.play(event).said(), "events note");
    }
}

#[test]
fn a_fault_that_never_comes_is_told() {
    let fault =
        |step| PlannedFault { rank: 1, step, action: FaultAction::Slow { compute: 2.0, until: None } };
    let rules = Rules { target: None, faults: vec![fault(7), fault(900)], ..rules() };
    let play = Play::new(rules).play(BEGIN).play("slowed 1").play(LEAVE).play("E-goodbye, E-exit 0");
    let report = play.supervisor.report();
    assert_eq!((play.stage(), report.end, report.as_ordered), ("over", End::Done, false));
    assert_eq!(report.detail, "rank 1 ended before step 900, at which the recipe has a fault");
}
