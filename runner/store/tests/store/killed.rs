//! A driver that is killed while it writes leaves a database that can be read, with all it had committed.

use crate::world::{attempt, begin, events, fresh, metric, plan, step};
use record::Event;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use store::{Driver, RunState, Selection, Store};

const FOLDER: &str = "STORE_TEST_FOLDER";

/// In the test's own process nothing; in a child, writes until it is killed, and says what it has committed.
#[tokio::test]
async fn child_that_writes() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let store = fresh(folder.as_ref()).await;
    let plan = plan();
    let (_, runs) = begin(&store, &plan, Driver::this()).await;
    let id = attempt(&store, &plan, &runs, 1).await;
    for number in 1.. {
        let batch = [0, 1].map(|rank| Event::Step(step(rank, number, 1)));
        store.record_events(id, &batch).await.unwrap();
        store.record_events(id, &[Event::Metric(metric(number, 0.5))]).await.unwrap();
        let mut out = std::io::stderr().lock();
        if writeln!(out, "committed {number}").is_err() {
            return;
        }
    }
}

/// Kills a child once it has committed `steps`; returns the last one that it is known to have committed.
fn kill_after(folder: &std::path::Path, steps: u64) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::child_that_writes", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let told = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let mut last = 0;
    // Ends with the child, which cannot outlive its own kill.
    for number in told.filter_map(|line| line.strip_prefix("committed ")?.parse::<u64>().ok()) {
        last = number;
        if number == steps {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    last
}

#[tokio::test]
async fn what_a_killed_driver_had_committed_is_there_and_its_run_reads_as_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let committed = kill_after(folder.path(), 50);
    assert!(committed >= 50);
    let path = folder.path().join(".bakeoff");

    let looking = Store::open_existing(&path).await.unwrap();
    assert_eq!(looking.db_check().await.unwrap(), []);
    let seen = looking.sweep_rows(&Selection::last()).await.unwrap();
    assert_eq!(seen.runs[1].state, RunState::Interrupted);
    let attempt = seen.runs[1].attempt.as_ref().unwrap();
    assert_eq!(attempt.detail, "the driver was killed");
    // The batch after the last word may or may not have been committed.
    assert!((committed..=committed + 1).contains(&attempt.steps), "{} of {committed}", attempt.steps);
    assert_eq!(looking.list(&Selection::parse("state=interrupted").unwrap()).await.unwrap().len(), 1);
    assert_eq!(looking.list(&Selection::parse("state=running").unwrap()).await.unwrap().len(), 0);
    looking.close().await;

    let driving = Store::open(&path).await.unwrap();
    let closed = driving.sweep_rows(&Selection::last()).await.unwrap();
    assert_eq!(closed.runs[1].state, RunState::Interrupted);
    let again = closed.runs[1].attempt.as_ref().unwrap();
    assert_eq!((again.steps, again.step_time), (attempt.steps, attempt.step_time));
    assert_eq!(again.ranks[0].phases, attempt.ranks[0].phases);
    assert!(!again.ranks[0].phases.is_empty());
    assert_eq!(driving.db_check().await.unwrap(), []);
}

#[tokio::test]
async fn drivers_that_are_killed_one_after_the_other_leave_one_sound_database() {
    let folder = tempfile::tempdir().unwrap();
    let committed: Vec<u64> = [1, 7, 30].map(|steps| kill_after(folder.path(), steps)).to_vec();
    let store = fresh(folder.path()).await;
    assert_eq!(store.db_check().await.unwrap(), []);
    let lines = store.list(&Selection::parse("state=interrupted").unwrap()).await.unwrap();
    assert_eq!(lines.len(), 3);
    for (line, committed) in lines.iter().zip(committed) {
        let detail = store.show(&line.id).await.unwrap();
        let steps = detail.run.attempt.unwrap().steps;
        assert!((committed..=committed + 1).contains(&steps), "{steps} of {committed}");
        assert_eq!(detail.events.last().unwrap().text, "the driver was killed");
    }
}

#[tokio::test]
async fn the_books_of_a_driver_that_lives_stay_open() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let plan = plan();
    let (_, runs) = begin(&store, &plan, Driver::this()).await;
    let id = attempt(&store, &plan, &runs, 1).await;
    let other = fresh(folder.path()).await;
    assert_eq!(other.sweep_rows(&Selection::last()).await.unwrap().runs[1].state, RunState::Running);
    store.record_events(id, &events(3)).await.unwrap();
}
