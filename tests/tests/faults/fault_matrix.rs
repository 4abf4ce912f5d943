//! Every fault at every moment of both strategies, in real processes: no run hangs, no process is left, the database
//! is intact and tells what happened. `cargo xtask faults` plays more of them, at random moments.

use e2e::fault::{Case, Moment, ProcessFault, STRATEGIES, can_mount};

fn everywhere(fault: ProcessFault) {
    let moments = Moment::ALL.into_iter();
    let cases = moments.flat_map(|moment| STRATEGIES.map(|strategy| Case::new(fault, moment, strategy, 1)));
    let mut offences = Vec::new();
    for case in cases {
        match case.play() {
            Ok(aftermath) => offences.extend(aftermath.offences.iter().map(|what| format!("{case}: {what}"))),
            Err(error) => offences.push(format!("{case}: {error:#}")),
        }
    }
    assert!(offences.is_empty(), "\n{}\n", offences.join("\n"));
}

#[test]
fn a_rank_is_killed() {
    everywhere(ProcessFault::Kill);
}

#[test]
fn a_rank_is_stopped() {
    everywhere(ProcessFault::Stop);
}

#[test]
fn the_driver_is_killed() {
    everywhere(ProcessFault::DriverKill);
}

#[test]
fn the_disk_is_full() {
    if can_mount() {
        return everywhere(ProcessFault::FullDisk);
    }
    // Only root may mount a disk of its own, which can be filled without harm to others.
    let required = std::env::var_os("BAKEOFF_REQUIRE_ALL").is_some();
    assert!(!required, "full disks cannot be tried by this user");
    eprintln!("NOT RUN: full disks, because this user may not mount a disk of its own");
}

#[test]
fn a_hundred_cases_are_every_fault_at_every_moment_of_every_strategy() {
    let mut kinds: Vec<(String, String, &str)> = (0..100)
        .map(|number| Case::random(7, number))
        .map(|case| (case.fault.to_string(), case.moment.to_string(), case.strategy))
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), 100);
    assert_eq!(Case::random(7, 11), Case::random(7, 11));
    let ranks = (0..400).map(|number| Case::random(7, number)).filter(|case| case.strategy == "ps-sync");
    let mut ranks: Vec<u32> = ranks.map(|case| case.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    assert_eq!(ranks, [0, 1, 2]);
}
