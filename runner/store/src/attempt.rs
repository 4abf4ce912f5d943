//! An attempt at a run: its machines and ranks, its history, its end.

use crate::insert::{Target, insert};
use crate::journal::Entry;
use crate::rows::{LostRow, NodeRow};
use crate::summary::{self, Summary};
use crate::sweep::{SweepEnd, json};
use crate::value::{int, uint};
use crate::{AttemptId, Driver, EventLog, NodeId, RunId, RunState, Store, StoreError, SweepId};
use recipe::{Cluster, hex};
use record::{Nanos, Rank};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use sqlx::sqlite::SqliteConnection;

/// What a driver knows when it tries a run.
#[derive(Clone, Debug)]
pub struct NewAttempt<'a> {
    /// When, as seconds since 1970.
    pub started: i64,
    /// The ranks and their machines.
    pub cluster: &'a Cluster,
    /// The machines' rows, in the order of [`Cluster::nodes`].
    pub nodes: &'a [NodeId],
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptEnd {
    /// How the run stands now.
    pub state: RunState,
    /// Why, or why it is degraded, in a sentence; empty for a run that is done.
    pub detail: String,
    /// The rank to blame, where there is one.
    pub culprit: Option<Rank>,
    /// Last lines of that rank's log.
    pub last_lines: Vec<String>,
    /// The wall time from spawn to the end of everything, evaluation included.
    pub wall: Option<Nanos>,
    /// When, as seconds since 1970.
    pub ended: i64,
    /// The ranks without which it went on.
    #[serde(default)]
    pub lost: Vec<LostRow>,
}

impl Store {
    /// Enters a machine, or finds it again: all that is known of it makes it the same.
    pub async fn upsert_node(&self, node: &NodeRow) -> Result<NodeId, StoreError> {
        let mut connection = self.writer.acquire().await?;
        enter_node(&mut connection, node).await
    }

    /// Begins an attempt, with the next free number, and its ranks.
    pub async fn begin_attempt(&self, run: &RunId, new: &NewAttempt<'_>) -> Result<AttemptId, StoreError> {
        let mut transaction = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        let number: i64 = sqlx::query_scalar(
            "SELECT 1 + coalesce(max(number), 0) FROM attempt JOIN run ON run.id = attempt.run WHERE run.ulid = ?",
        )
        .bind(run.as_str())
        .fetch_one(&mut *transaction)
        .await?;
        let number = number as u32;
        let attempt = enter(&mut transaction, (run, number), new).await?;
        let nodes = nodes_of(&mut transaction, new.nodes).await?;
        let entry = Entry::Attempt { run: run.to_string(), number, started: new.started, nodes };
        self.write_down(&mut transaction, run, &entry).await?;
        transaction.commit().await?;
        Ok(attempt)
    }

    /// Which try an attempt is, from 1.
    pub async fn attempt_number(&self, attempt: AttemptId) -> Result<u32, StoreError> {
        Ok(sqlx::query_scalar("SELECT number FROM attempt WHERE id = ?")
            .bind(attempt.0)
            .fetch_one(&self.reader)
            .await?)
    }

    /// Says that the attempt still lives, at `time` in seconds since 1970.
    pub async fn heartbeat(&self, attempt: AttemptId, time: i64) -> Result<(), StoreError> {
        sqlx::query("UPDATE attempt SET heartbeat_unix = ? WHERE id = ?")
            .bind(time)
            .bind(attempt.0)
            .execute(&self.writer)
            .await?;
        Ok(())
    }

    /// Appends to the attempt's history.
    pub async fn note(
        &self,
        attempt: AttemptId,
        time: i64,
        state: &str,
        text: &str,
    ) -> Result<(), StoreError> {
        let mut transaction = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        insert_event(&mut transaction, attempt, (time, state, text)).await?;
        let (run, number) = place_of(&mut transaction, attempt).await?;
        let (state, text) = (state.to_owned(), text.to_owned());
        let entry = Entry::Note { run: run.to_string(), number, time, state, text };
        self.write_down(&mut transaction, &run, &entry).await?;
        Ok(transaction.commit().await?)
    }

    /// Ends an attempt: derives its totals from its steps, and sets the run's state.
    pub async fn end_attempt(&self, attempt: AttemptId, end: &AttemptEnd) -> Result<(), StoreError> {
        // Of a long run, summing up takes longer than another driver would wait for its turn to write.
        let mut reader = self.reader.acquire().await?;
        place_of(&mut reader, attempt).await?;
        let summary = summary::of(&mut reader, attempt).await?;
        drop(reader);
        let mut transaction = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        self.end_attempt_in(&mut transaction, (attempt, &summary), end).await?;
        Ok(transaction.commit().await?)
    }

    async fn end_attempt_in(
        &self,
        connection: &mut SqliteConnection,
        (attempt, summary): (AttemptId, &Summary),
        end: &AttemptEnd,
    ) -> Result<(), StoreError> {
        close(connection, (attempt, summary), end).await?;
        let (run, number) = place_of(connection, attempt).await?;
        let log = EventLog::length(&self.attempt_directory(&run, number));
        let entry = Entry::AttemptEnd { run: run.to_string(), number, end: end.clone(), log };
        self.write_down(connection, &run, &entry).await
    }

    /// Ends, as interrupted, what drivers left that no longer live.
    pub(crate) async fn close_books_of_the_dead(&self) -> Result<(), StoreError> {
        let gone = self.sweeps_of_the_dead().await?;
        for sweep in gone {
            let mut transaction = self.writer.begin_with("BEGIN IMMEDIATE").await?;
            let attempts: Vec<(i64, i64)> = sqlx::query_as(
                "SELECT attempt.id, attempt.heartbeat_unix FROM attempt JOIN run ON run.id = attempt.run \
                 WHERE run.sweep = ? AND attempt.state = 'running'",
            )
            .bind(sweep)
            .fetch_all(&mut *transaction)
            .await?;
            for (attempt, heartbeat) in attempts {
                let attempt = AttemptId(attempt);
                let summary = summary::of(&mut transaction, attempt).await?;
                self.end_attempt_in(&mut transaction, (attempt, &summary), &killed(heartbeat)).await?;
            }
            let id: String = sqlx::query_scalar("SELECT ulid FROM sweep WHERE id = ?")
                .bind(sweep)
                .fetch_one(&mut *transaction)
                .await?;
            self.end_sweep_in(&mut transaction, &SweepId(id), (SweepEnd::Interrupted, None)).await?;
            transaction.commit().await?;
        }
        Ok(())
    }

    /// The rows of sweeps that are under way by the book, but whose driver is gone.
    pub(crate) async fn sweeps_of_the_dead(&self) -> Result<Vec<i64>, StoreError> {
        let open: Vec<(i64, u32, String)> =
            sqlx::query_as("SELECT id, driver_pid, driver_born FROM sweep WHERE state = 'running'")
                .fetch_all(&self.reader)
                .await?;
        Ok(open
            .into_iter()
            .filter(|(_, pid, born)| !Driver { pid: *pid, born: born.clone() }.lives())
            .map(|(id, ..)| id)
            .collect())
    }
}

/// A sweep that is under way by the book, but whose driver is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOver {
    /// The sweep's id.
    pub sweep: String,
    /// Name of its recipe.
    pub recipe: String,
    /// The process that drove it.
    pub driver: u32,
    /// When it began, as seconds since 1970.
    pub started: i64,
    /// Its runs that have not ended.
    pub unfinished: u32,
}

impl Store {
    /// What killed drivers left, oldest first.
    pub async fn left_over(&self) -> Result<Vec<LeftOver>, StoreError> {
        let dead = json("list of sweeps", &self.sweeps_of_the_dead().await?)?;
        let rows: Vec<(String, String, u32, i64, u32)> = sqlx::query_as(
            "SELECT sweep.ulid, sweep.name, driver_pid, started_unix, \
             (SELECT count(*) FROM run WHERE run.sweep = sweep.id AND run.state IN ('pending', 'running')) \
             FROM sweep WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id",
        )
        .bind(dead)
        .fetch_all(&self.reader)
        .await?;
        Ok(rows
            .into_iter()
            .map(|(sweep, recipe, driver, started, unfinished)| LeftOver {
                sweep,
                recipe,
                driver,
                started,
                unfinished,
            })
            .collect())
    }
}

/// What is written of an attempt whose driver was killed.
pub(crate) const KILLED: &str = "the driver was killed";

fn killed(heartbeat: i64) -> AttemptEnd {
    AttemptEnd {
        state: RunState::Interrupted,
        detail: KILLED.to_owned(),
        culprit: None,
        last_lines: Vec::new(),
        wall: None,
        ended: heartbeat,
        lost: Vec::new(),
    }
}

/// Enters a machine, or finds it again.
pub(crate) async fn enter_node(
    connection: &mut SqliteConnection,
    node: &NodeRow,
) -> Result<NodeId, StoreError> {
    let fingerprint = hex(&Sha256::digest(json("machine", node)?));
    sqlx::query(
        "INSERT INTO node (fingerprint, name, host, system, processor, cores, memory) \
         VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (fingerprint) DO NOTHING",
    )
    .bind(&fingerprint)
    .bind(&node.name)
    .bind(&node.host)
    .bind(&node.system)
    .bind(&node.processor)
    .bind(node.cores)
    .bind(int(node.memory))
    .execute(&mut *connection)
    .await?;
    let id = sqlx::query_scalar("SELECT id FROM node WHERE fingerprint = ?").bind(&fingerprint);
    Ok(NodeId(id.fetch_one(connection).await?))
}

/// The machines of these rows, in their order.
async fn nodes_of(connection: &mut SqliteConnection, nodes: &[NodeId]) -> Result<Vec<NodeRow>, StoreError> {
    let mut rows = Vec::new();
    for node in nodes {
        let (name, host, system, processor, cores, memory): (String, String, String, String, u32, i64) =
            sqlx::query_as("SELECT name, host, system, processor, cores, memory FROM node WHERE id = ?")
                .bind(node.0)
                .fetch_one(&mut *connection)
                .await?;
        rows.push(NodeRow { name, host, system, processor, cores, memory: uint(memory) });
    }
    Ok(rows)
}

/// Enters an attempt and its ranks.
pub(crate) async fn enter(
    connection: &mut SqliteConnection,
    (run, number): (&RunId, u32),
    new: &NewAttempt<'_>,
) -> Result<AttemptId, StoreError> {
    let changed = sqlx::query("UPDATE run SET state = 'running', reused_from = NULL WHERE ulid = ?")
        .bind(run.as_str())
        .execute(&mut *connection)
        .await?;
    if changed.rows_affected() == 0 {
        return Err(StoreError::Unknown { what: "run", id: run.to_string() });
    }
    let inserted = sqlx::query(
        "INSERT INTO attempt (run, number, started_unix, heartbeat_unix) \
         SELECT id, ?1, ?2, ?2 FROM run WHERE ulid = ?3",
    )
    .bind(number)
    .bind(new.started)
    .bind(run.as_str())
    .execute(&mut *connection)
    .await?;
    let attempt = AttemptId(inserted.last_insert_rowid());
    insert_ranks(connection, attempt, new).await?;
    insert_event(connection, attempt, (new.started, "running", "")).await?;
    Ok(attempt)
}

/// The run that an attempt tries, and its number.
async fn place_of(connection: &mut SqliteConnection, attempt: AttemptId) -> Result<(RunId, u32), StoreError> {
    let place: Option<(String, u32)> = sqlx::query_as(
        "SELECT run.ulid, number FROM attempt JOIN run ON run.id = attempt.run WHERE attempt.id = ?",
    )
    .bind(attempt.0)
    .fetch_optional(connection)
    .await?;
    let (run, number) =
        place.ok_or_else(|| StoreError::Unknown { what: "attempt", id: attempt.0.to_string() })?;
    Ok((RunId(run), number))
}

/// Ends an attempt whose steps come to this: keeps its totals, and sets the run's state.
pub(crate) async fn close(
    connection: &mut SqliteConnection,
    (attempt, summary): (AttemptId, &Summary),
    end: &AttemptEnd,
) -> Result<(), StoreError> {
    let state = end.state.name();
    let changed = sqlx::query(
        "UPDATE attempt SET state = ?, detail = ?, culprit = ?, last_lines = ?, wall = ?, heartbeat_unix = ? \
         WHERE id = ?",
    )
    .bind(state)
    .bind(&end.detail)
    .bind(end.culprit.map(|rank| rank.0))
    .bind(json("log lines", &end.last_lines)?)
    .bind(end.wall.map(|wall| int(wall.0)))
    .bind(end.ended)
    .bind(attempt.0)
    .execute(&mut *connection)
    .await?;
    if changed.rows_affected() == 0 {
        return Err(StoreError::Unknown { what: "attempt", id: attempt.0.to_string() });
    }
    sqlx::query("UPDATE run SET state = ? WHERE id = (SELECT run FROM attempt WHERE id = ?)")
        .bind(state)
        .bind(attempt.0)
        .execute(&mut *connection)
        .await?;
    insert_event(connection, attempt, (end.ended, state, &end.detail)).await?;
    insert_lost(connection, attempt, &end.lost).await?;
    summary::store(connection, attempt, summary).await
}

async fn insert_lost(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    lost: &[LostRow],
) -> Result<(), StoreError> {
    let target = Target { head: "INSERT INTO loss (attempt, rank, step, at, reason)", tail: "" };
    insert(connection, target, lost, |row, values| {
        values.add(attempt.0).add(row.rank.0).add(int(row.step)).add(int(row.at.0)).add(&row.reason);
    })
    .await
}

pub(crate) async fn insert_event(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    (time, state, text): (i64, &str, &str),
) -> Result<(), StoreError> {
    sqlx::query("INSERT INTO event (attempt, time_unix, state, text) VALUES (?, ?, ?, ?)")
        .bind(attempt.0)
        .bind(time)
        .bind(state)
        .bind(text)
        .execute(connection)
        .await?;
    Ok(())
}

async fn insert_ranks(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    new: &NewAttempt<'_>,
) -> Result<(), StoreError> {
    let seats: Vec<_> = (0_u32..).zip(&new.cluster.seats).collect();
    let target = Target { head: "INSERT INTO rank (attempt, rank, role, node)", tail: "" };
    insert(connection, target, &seats, |(rank, seat), values| {
        let node = new.nodes.get(seat.node as usize).map(|node| node.0);
        values.add(attempt.0).add(*rank).add(seat.role.name()).add(node);
    })
    .await
}
