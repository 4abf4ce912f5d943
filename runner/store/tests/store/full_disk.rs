//! A disk that is full when an attempt has ended: the run counts, what there was stays, and a warning says what to do.

use crate::rebuild::dump;
use crate::rolled_up::{exported, reported, seen};
use crate::world::{end, fresh, long_run, plan};
use record::{Event, Rank, SamplesRecord};
use sqlx::{Connection, SqliteConnection};
use std::fmt::{Debug, Write};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use store::{DATABASE, EventLog, ExportTable, RunState, SweepEnd, rebuild};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Metadata, Subscriber};

const FOLDER: &str = "STORE_TEST_FULL_DISK";
const STEPS: u64 = 1_200;

/// The messages to the user.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<String>>);

impl Heard {
    fn listening() -> (Self, DefaultGuard) {
        let heard = Self::default();
        let guard = tracing::subscriber::set_default(heard.clone());
        (heard, guard)
    }

    fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

impl Subscriber for Heard {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut Words(&mut self.0.lock().unwrap()));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Words<'a>(&'a mut String);

impl Visit for Words<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

/// Besides its steps, sample ids that cannot be packed into the limit below; the database does not hold them.
fn events() -> Vec<Event> {
    let mut events = long_run(2, STEPS);
    for step in 1..=64 {
        let mixed = |id: u32| (u64::from(id + (step << 16)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32;
        let samples = (0..1 << 15).map(mixed).collect();
        events.push(Event::Samples(SamplesRecord { rank: Rank(0), step: u64::from(step), samples }));
    }
    events
}

/// From now on no file of this process may become larger: a write beyond it fails, as one on a full disk.
fn limit_files_to(bytes: u64) {
    let mut command = Command::new("prlimit");
    command.arg(format!("--pid={}", std::process::id())).arg(format!("--fsize={bytes}"));
    assert!(command.status().unwrap().success());
}

/// In the test's own process nothing; in a child, an attempt that ends without room for its packed log.
#[tokio::test]
async fn child_without_room() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let store = fresh(Path::new(&folder)).await;
    let (id, run, sweep) = reported(&store, &plan(), &events()).await;
    let directory = store.attempt_directory(&run, 1);
    limit_files_to(6 << 20);
    let (heard, _guard) = Heard::listening();
    store.record_attempt_end(id, &end(RunState::Done)).await.unwrap();
    assert!(heard.text().contains("events.mpk.gz.new: File too large"), "{}", heard.text());
    assert!(heard.text().contains("the run counts") && heard.text().contains("free some disk space"));
    store.record_sweep_end(&sweep, SweepEnd::Done, 1_011).await.unwrap();
    let files: Vec<_> = fs::read_dir(&directory).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files, [EventLog::NAME], "nothing unfinished stays");
    assert_eq!(EventLog::read(&directory).unwrap(), events());
}

fn place(folder: &Path) -> PathBuf {
    folder.join(".bakeoff")
}

#[tokio::test]
async fn without_room_for_the_packed_log_the_other_stays_and_the_run_counts() {
    let folder = tempfile::tempdir().unwrap();
    // The signal that would kill the process is ignored across `exec`.
    let status = Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" --exact full_disk::child_without_room --nocapture"])
        .arg(std::env::current_exe().unwrap())
        .env(FOLDER, folder.path())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    let before = dump(&place(folder.path()).join(DATABASE)).await;
    let store = fresh(folder.path()).await;
    let attempt = seen(&store).await;
    assert_eq!((attempt.steps, attempt.step_stride), (STEPS, 3));
    let kept = exported(&store, ExportTable::Steps).await.len();
    assert!(kept < 2 * STEPS as usize, "the database has room, and keeps {kept} steps");
    store.close().await;
    drop(store);
    assert_eq!(rebuild(&place(folder.path()), false, |_| ()).await.unwrap().unread, []);
    assert_eq!(dump(&place(folder.path()).join(DATABASE)).await, before);
}

#[tokio::test]
async fn steps_that_cannot_be_removed_stay_until_a_rebuild() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let (id, _, sweep) = reported(&store, &plan(), &long_run(2, STEPS)).await;
    let file = place(folder.path()).join(DATABASE);
    let mut other = SqliteConnection::connect(&format!("sqlite:{}", file.display())).await.unwrap();
    // SQLite's message for a full disk.
    sqlx::query(
        "CREATE TRIGGER full BEFORE DELETE ON step BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END",
    )
    .execute(&mut other)
    .await
    .unwrap();
    other.close().await.unwrap();
    let (heard, guard) = Heard::listening();
    store.record_attempt_end(id, &end(RunState::Done)).await.unwrap();
    drop(guard);
    for words in ["the run counts", "disk is full", "free some disk space", "`bakeoff db rebuild`"] {
        assert!(heard.text().contains(words), "{}", heard.text());
    }
    store.record_sweep_end(&sweep, SweepEnd::Done, 1_011).await.unwrap();
    assert_eq!(exported(&store, ExportTable::Steps).await.len(), 2 * STEPS as usize);
    let before = seen(&store).await;
    assert_eq!(before.steps, STEPS);
    let before = format!("{before:?}");
    store.close().await;
    drop(store);
    assert_eq!(rebuild(&place(folder.path()), false, |_| ()).await.unwrap().unread, []);
    let store = fresh(folder.path()).await;
    assert!(exported(&store, ExportTable::Steps).await.len() < 2 * STEPS as usize);
    assert_eq!(format!("{:?}", seen(&store).await), before);
}
