//! The database rebuilt from journals and event logs equals the old one, whatever happened to that one, and files that
//! cannot be read are reported.

use crate::world::{attempt, begin, end, events, fresh, plan};
use recipe::Provenance;
use sqlx::{AssertSqlSafe, Connection, SqliteConnection};
use std::fs;
use std::path::{Path, PathBuf};
use store::{
    DATABASE, Driver, EventLog, NewReport, Rebuilt, RunId, RunState, Selection, Store, StoreError, SweepEnd,
    rebuild,
};

/// A folder with a store of two sweeps: a run that was done at its second attempt, one that diverged, one that
/// was interrupted; then one that takes its result from the first.
pub(crate) async fn history() -> (tempfile::TempDir, Vec<RunId>) {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let plan = plan();
    let (sweep, runs) = begin(&store, &plan, Driver::this()).await;
    for run in &runs {
        store.record_identity(run, &format!("{:064}", 7)).await.unwrap();
    }
    tried(&store, &runs, 1, 3, RunState::Failed).await;
    tried(&store, &runs, 1, 20, RunState::Done).await;
    tried(&store, &runs, 2, 5, RunState::Diverged).await;
    tried(&store, &runs, 4, 4, RunState::Interrupted).await;
    tried(&store, &runs, 5, 12, RunState::Degraded).await;
    store.record_sweep_end(&sweep, SweepEnd::Interrupted, 2_000).await.unwrap();
    let (second, again) = begin(&store, &plan, Driver::this()).await;
    store.record_reuse(&again[1], &runs[1]).await.unwrap();
    store.record_sweep_end(&second, SweepEnd::Interrupted, 3_000).await.unwrap();
    let page = NewReport { selection: "last", path: "page.html", sha256: &"0".repeat(64), created: 3_001 };
    store.record_report(&page).await.unwrap();
    store.close().await;
    (folder, runs)
}

/// One attempt at a run on two workers, as a driver makes it.
async fn tried(store: &Store, runs: &[RunId], place: usize, steps: u64, state: RunState) {
    let plan = plan();
    let id = attempt(store, &plan, runs, place).await;
    let surroundings = Provenance { data: "d".into(), worker: "w".into(), hardware: "h".into() };
    store.record_surroundings(id, 1_002, &surroundings).await.unwrap();
    store.record_note(id, 1_003, "note", "rank 1 yawned").await.unwrap();
    let directory = store.attempt_directory(&runs[place], store.attempt_number(id).await.unwrap());
    let events = events(steps);
    EventLog::open(&directory).unwrap().append(&events).unwrap();
    store.record_events(id, &events).await.unwrap();
    store.record_attempt_end(id, &end(state)).await.unwrap();
}

fn place(folder: &Path) -> PathBuf {
    folder.join(".bakeoff")
}

fn database(folder: &Path) -> PathBuf {
    place(folder).join(DATABASE)
}

async fn rebuilt(folder: &Path) -> Rebuilt {
    rebuild(&place(folder), false, |_| ()).await.unwrap()
}

/// Every row of every table as text, by table.
pub(crate) async fn dump(file: &Path) -> Vec<String> {
    let mut connection =
        SqliteConnection::connect(&format!("sqlite:{}?mode=rw", file.display())).await.unwrap();
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name NOT LIKE '_sqlx%' \
         ORDER BY name",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    assert!(tables.len() > 15, "{tables:?}");
    let mut rows = Vec::new();
    for table in tables {
        let columns: Vec<String> = sqlx::query_scalar("SELECT name FROM pragma_table_info(?)")
            .bind(&table)
            .fetch_all(&mut connection)
            .await
            .unwrap();
        let quoted: Vec<String> = columns.iter().map(|column| format!("quote(\"{column}\")")).collect();
        let query = format!("SELECT {} AS line FROM \"{table}\" ORDER BY line", quoted.join(" || ' ' || "));
        let lines: Vec<String> =
            sqlx::query_scalar(AssertSqlSafe(query)).fetch_all(&mut connection).await.unwrap();
        rows.extend(lines.into_iter().map(|line| format!("{table}: {line}")));
    }
    connection.close().await.unwrap();
    rows
}

async fn change(folder: &Path, statement: &'static str) {
    let mut connection =
        SqliteConnection::connect(&format!("sqlite:{}", database(folder).display())).await.unwrap();
    sqlx::query(statement).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

#[tokio::test]
async fn the_new_database_equals_the_old_one_row_by_row() {
    let (folder, _) = history().await;
    let before = dump(&database(folder.path())).await;
    for table in [
        "attempt",
        "event",
        "phase_total",
        "span",
        "step",
        "target_hit",
        "weight_hash",
        "report",
        "staleness",
        "averaging",
        "loss",
        "transfer",
    ] {
        assert!(before.iter().any(|row| row.starts_with(&format!("{table}: "))), "{table} is empty");
    }
    let mut steps = Vec::new();
    let rebuilt = rebuild(&place(folder.path()), false, |step| steps.push(step)).await.unwrap();
    assert_eq!((rebuilt.sweeps, rebuilt.attempts, rebuilt.unread.as_slice()), (2, 5, &[][..]));
    assert_eq!(dump(&database(folder.path())).await, before);
    assert_eq!(dump(&rebuilt.backup.unwrap()).await, before);
    let last = steps.last().unwrap();
    assert_eq!((last.sweeps, last.bytes.0), ((2, 2), last.bytes.1));
    assert!(!place(folder.path()).join("rebuild").exists());
    let store = Store::open(&place(folder.path())).await.unwrap();
    assert_eq!(store.db_check().await.unwrap(), []);
}

#[tokio::test]
async fn what_became_of_the_old_one_is_no_matter() {
    let (folder, _) = history().await;
    let path = database(folder.path());
    let before = dump(&path).await;
    let whole = fs::read(&path).unwrap();
    for ruin in ["missing", "empty", "half", "garbage", "newer", "older", "a folder", "a foreign log"] {
        match ruin {
            "missing" => fs::remove_file(&path).unwrap(),
            "empty" => fs::write(&path, []).unwrap(),
            "half" => fs::write(&path, &whole[..whole.len() / 2]).unwrap(),
            "garbage" => fs::write(&path, "dear diary").unwrap(),
            "newer" => change(folder.path(), "PRAGMA user_version = 99").await,
            "older" => {
                change(folder.path(), "PRAGMA user_version = 0").await;
                change(folder.path(), "DROP VIEW runs_flat").await;
            }
            "a folder" => {
                fs::remove_file(&path).unwrap();
                fs::create_dir(&path).unwrap();
            }
            _ => fs::write(place(folder.path()).join(format!("{DATABASE}-wal")), &whole).unwrap(),
        }
        let there = path.exists();
        let rebuilt = rebuilt(folder.path()).await;
        assert_eq!(rebuilt.unread, [], "{ruin}");
        assert_eq!(rebuilt.backup.is_some_and(|backup| backup.exists()), there, "{ruin}");
        assert_eq!(dump(&path).await, before, "{ruin}");
        Store::open(&place(folder.path())).await.unwrap().close().await;
    }
}

#[tokio::test]
async fn a_run_whose_first_attempt_is_lost_can_be_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let (sweep, runs) = begin(&store, &plan(), Driver::this()).await;
    for _ in 0..2 {
        tried(&store, &runs, 1, 9, RunState::Failed).await;
    }
    store.close().await;
    drop(store);
    let path = place(folder.path()).join(format!("runs/sweep-{sweep}.jsonl"));
    let mut lines: Vec<String> = fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
    let first = lines.iter().position(|line| line.contains("\"number\":1,\"started\"")).unwrap();
    lines[first] = "{".to_owned();
    fs::write(&path, lines.join("\n") + "\n").unwrap();
    assert!(!rebuilt(folder.path()).await.unread.is_empty());
    let store = Store::open(&place(folder.path())).await.unwrap();
    let id = attempt(&store, &plan(), &runs, 1).await;
    assert_eq!(store.attempt_number(id).await.unwrap(), 3);
}

/// An end that a full disk kept out of the database is in the journal already, and is written there once more.
#[tokio::test]
async fn an_end_that_was_written_down_twice_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let (sweep, runs) = begin(&store, &plan(), Driver::this()).await;
    tried(&store, &runs, 1, 9, RunState::Done).await;
    store.close().await;
    drop(store);
    let before = dump(&database(folder.path())).await;
    let path = place(folder.path()).join(format!("runs/sweep-{sweep}.jsonl"));
    let text = fs::read_to_string(&path).unwrap();
    let end = text.lines().find(|line| line.contains("\"log\":")).unwrap();
    fs::write(&path, format!("{text}{end}\n")).unwrap();
    assert_eq!(rebuilt(folder.path()).await.unread, []);
    assert_eq!(dump(&database(folder.path())).await, before);
}

/// A sweep that was decided is done without the runs that it did not need, also after it is rebuilt.
#[tokio::test]
async fn what_a_sweep_did_not_need_is_known_from_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let plan = plan();
    let (sweep, runs) = begin(&store, &plan, Driver::this()).await;
    tried(&store, &runs, 1, 5, RunState::Done).await;
    let states = async |store: &Store| -> Vec<RunState> {
        let rows = store.sweep_rows(&Selection::last()).await.unwrap();
        rows.runs.iter().map(|run| run.state).collect()
    };
    let pending = states(&store).await;
    store.record_sweep_end(&sweep, SweepEnd::Interrupted, 1_900).await.unwrap();
    assert_eq!(states(&store).await, pending);
    store.record_sweep_end(&sweep, SweepEnd::Done, 2_000).await.unwrap();
    let ended = states(&store).await;
    for (before, after) in pending.iter().zip(&ended) {
        assert_eq!(*after, if *before == RunState::Pending { RunState::NotNeeded } else { *before });
    }
    assert!(ended.contains(&RunState::NotNeeded) && ended.contains(&RunState::Done), "{ended:?}");
    store.close().await;
    drop(store);
    let before = dump(&database(folder.path())).await;
    assert_eq!(rebuilt(folder.path()).await.unread, []);
    assert_eq!(dump(&database(folder.path())).await, before);
}

#[tokio::test]
async fn the_write_ahead_log_of_the_new_database_does_not_grow_with_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let plan = plan();
    let (sweep, runs) = begin(&store, &plan, Driver::this()).await;
    tried(&store, &runs, 1, 20_000, RunState::Done).await;
    store.record_sweep_end(&sweep, SweepEnd::Done, 2_000).await.unwrap();
    store.close().await;
    drop(store);
    let log = place(folder.path()).join("rebuild").join(format!("{DATABASE}-wal"));
    let mut longest = 0;
    let look = |_| longest = longest.max(fs::metadata(&log).map_or(0, |log| log.len()));
    rebuild(&place(folder.path()), false, look).await.unwrap();
    // SQLite merges its log every 4 MB.
    assert!((1..8 << 20).contains(&longest), "{longest}");
}

#[tokio::test]
async fn a_driver_that_was_killed_leaves_torn_ends_that_are_no_matter() {
    let folder = tempfile::tempdir().unwrap();
    let store = fresh(folder.path()).await;
    let plan = plan();
    // Above any number that the kernel gives out.
    let dead = Driver { pid: u32::MAX >> 1, ..Driver::this() };
    let (sweep, runs) = begin(&store, &plan, dead).await;
    let id = attempt(&store, &plan, &runs, 1).await;
    let directory = store.attempt_directory(&runs[1], 1);
    let events = events(9);
    EventLog::open(&directory).unwrap().append(&events).unwrap();
    store.record_events(id, &events).await.unwrap();
    store.close().await;
    drop(store);
    for path in
        [directory.join(EventLog::NAME), place(folder.path()).join(format!("runs/sweep-{sweep}.jsonl"))]
    {
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend([200, 0, 0, 0, 1, 2, 3]);
        fs::write(&path, bytes).unwrap();
    }
    let rebuilt = rebuilt(folder.path()).await;
    assert_eq!((rebuilt.unread.as_slice(), rebuilt.events), (&[][..], events.len() as u64));
    let store = Store::open(&place(folder.path())).await.unwrap();
    let rows = store.sweep_rows(&Selection::last()).await.unwrap();
    assert_eq!(rows.runs[1].state, RunState::Interrupted);
    let attempt = rows.runs[1].attempt.as_ref().unwrap();
    assert_eq!((attempt.detail.as_str(), attempt.steps), ("the driver was killed", 9));
    // The books were closed by the way, and that was written down too.
    store.close().await;
    drop(store);
    let before = dump(&database(folder.path())).await;
    self::rebuilt(folder.path()).await;
    assert_eq!(dump(&database(folder.path())).await, before);
}

#[tokio::test]
async fn a_result_whose_events_are_gone_is_none_and_the_others_stay() {
    type Spoil = fn(&Path, &[u8]);
    let spoils: [(&str, Spoil); 3] = [
        ("No such file", |path, _| fs::remove_file(path).unwrap()),
        ("bytes of whole events, of ", |path, bytes| fs::write(path, &bytes[..bytes.len() - 1]).unwrap()),
        ("at byte 0: ", |path, bytes| {
            fs::write(path, [&bytes[..4], &[0xc1], &bytes[5..]].concat()).unwrap();
        }),
    ];
    for (words, spoil) in spoils {
        let (folder, runs) = history().await;
        let log = place(folder.path()).join("runs").join(runs[1].as_str()).join("2").join(EventLog::NAME);
        spoil(&log, &fs::read(&log).unwrap());
        let rebuilt = rebuilt(folder.path()).await;
        let [unread] = &rebuilt.unread[..] else { panic!("{words}: {rebuilt:?}") };
        assert!(unread.path == log && unread.reason.contains(words), "{unread:?}");
        let store = Store::open(&place(folder.path())).await.unwrap();
        let detail = store.show(runs[1].as_str()).await.unwrap();
        assert_eq!(detail.line.state, RunState::Failed);
        let told = &detail.run.attempt.unwrap().detail;
        assert!(told.starts_with("it was done, but its events cannot be read any more"), "{told}");
        assert_eq!(store.show(runs[2].as_str()).await.unwrap().line.state, RunState::Diverged);
        assert_eq!(store.db_check().await.unwrap(), []);
    }
}

#[tokio::test]
async fn journals_that_cannot_be_read_are_told_by_path() {
    let (folder, runs) = history().await;
    let runs_folder = place(folder.path()).join("runs");
    let mut journals: Vec<PathBuf> =
        fs::read_dir(&runs_folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    journals.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with("sweep-"));
    journals.sort();
    let text = fs::read_to_string(&journals[0]).unwrap();
    let (_, rest) = text.split_once('\n').unwrap();
    fs::write(&journals[0], rest).unwrap();
    let rebuilt = rebuilt(folder.path()).await;
    assert_eq!((rebuilt.sweeps, rebuilt.attempts), (1, 0));
    let told = |path: &Path| rebuilt.unread.iter().any(|unread| unread.path == path);
    assert!(told(&journals[0]) && told(&journals[1]), "{:?}", rebuilt.unread);
    assert!(told(&runs_folder.join(runs[1].as_str()).join("2")), "{:?}", rebuilt.unread);
}

#[tokio::test]
async fn nothing_is_replaced_while_it_is_in_use_or_would_be_lost() {
    let folder = tempfile::tempdir().unwrap();
    let nothing = rebuild(&place(folder.path()), false, |_| ()).await.unwrap_err();
    assert!(matches!(nothing, StoreError::NothingWritten { .. }), "{nothing}");
    let store = fresh(folder.path()).await;
    begin(&store, &plan(), Driver::this()).await;
    let busy = rebuild(&place(folder.path()), false, |_| ()).await.unwrap_err();
    assert!(matches!(busy, StoreError::Busy { .. }), "{busy}");
    let (sweep, _) = begin(&store, &plan(), Driver::this()).await;
    store.close().await;
    drop(store);
    fs::remove_file(place(folder.path()).join(format!("runs/sweep-{sweep}.jsonl"))).unwrap();
    let before = dump(&database(folder.path())).await;
    let loss = rebuild(&place(folder.path()), false, |_| ()).await.unwrap_err();
    assert!(matches!(&loss, StoreError::Unwritten { sweeps, .. } if sweeps == "1 sweep"), "{loss}");
    assert_eq!(dump(&database(folder.path())).await, before);
    let forced = rebuild(&place(folder.path()), true, |_| ()).await.unwrap();
    assert_eq!(forced.sweeps, 1);
    assert_eq!(dump(&forced.backup.unwrap()).await, before);
}
