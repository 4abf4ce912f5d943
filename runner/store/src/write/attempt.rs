//! An attempt at a run: its machines and ranks, its history, its end.

use crate::journal::entries::{AttemptEnd, Entry};
use crate::read::earlier::{ORDERED, SURROUNDINGS};
use crate::read::steps::Totals;
use crate::rows::{LostRow, NodeRow};
use crate::sql::document::to_json;
use crate::sql::insert::{Target, insert};
use crate::sql::value::{int, uint};
use crate::write::place_of_attempt::{Try, try_of};
use crate::write::roll_up::Ending;
use crate::write::totals::insert_totals;
use crate::{AttemptId, EventLog, NodeId, RunId, Store, StoreError};
use recipe::{Cluster, Provenance, hex};
use sha2::{Digest, Sha256};
use sqlx::sqlite::SqliteConnection;

/// An attempt that begins.
#[derive(Clone, Debug)]
pub struct NewAttempt<'a> {
    /// Seconds since 1970.
    pub started: i64,
    /// The ranks and their machines.
    pub cluster: &'a Cluster,
    /// The machines' rows, in the order of [`Cluster::nodes`].
    pub nodes: &'a [NodeId],
}

/// An event of an attempt's history.
#[derive(Clone, Copy)]
pub(crate) struct NewNote<'a> {
    /// Seconds since 1970.
    pub(crate) time: i64,
    pub(crate) state: &'a str,
    pub(crate) text: &'a str,
}

impl Store {
    /// Records a machine. All its facts together identify it, so that a known machine keeps its id.
    pub async fn record_node(&self, node: &NodeRow) -> Result<NodeId, StoreError> {
        let mut connection = self.writer.acquire().await?;
        insert_node(&mut connection, node).await
    }

    /// Records that an attempt begins, with the next free number, and its ranks.
    pub async fn record_attempt(&self, run: &RunId, new: &NewAttempt<'_>) -> Result<AttemptId, StoreError> {
        let mut transaction = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        let number: i64 = sqlx::query_scalar(
            "SELECT 1 + coalesce(max(number), 0) FROM attempt JOIN run ON run.id = attempt.run WHERE run.ulid = ?",
        )
        .bind(run.as_str())
        .fetch_one(&mut *transaction)
        .await?;
        let number = number as u32;
        let attempt = insert_attempt(&mut transaction, &Try { run: run.clone(), number }, new).await?;
        let nodes = nodes_of(&mut transaction, new.nodes).await?;
        let entry = Entry::Attempt { run: run.to_string(), number, started: new.started, nodes };
        self.append_for_run(&mut transaction, run, &entry).await?;
        transaction.commit().await?;
        Ok(attempt)
    }

    /// The number of an attempt among those of its run, from 1.
    pub async fn attempt_number(&self, attempt: AttemptId) -> Result<u32, StoreError> {
        Ok(sqlx::query_scalar("SELECT number FROM attempt WHERE id = ?")
            .bind(attempt.0)
            .fetch_one(&self.reader)
            .await?)
    }

    /// Records that the attempt was alive at `time`, in seconds since 1970.
    pub async fn record_heartbeat(&self, attempt: AttemptId, time: i64) -> Result<(), StoreError> {
        sqlx::query("UPDATE attempt SET heartbeat_unix = ? WHERE id = ?")
            .bind(time)
            .bind(attempt.0)
            .execute(&self.writer)
            .await?;
        Ok(())
    }

    /// Appends to the attempt's history, at `time` in seconds since 1970.
    pub async fn record_note(
        &self,
        attempt: AttemptId,
        time: i64,
        state: &str,
        text: &str,
    ) -> Result<(), StoreError> {
        let mut transaction = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        insert_note(&mut transaction, attempt, NewNote { time, state, text }).await?;
        let Try { run, number } = try_of(&mut transaction, attempt).await?;
        let entry = Entry::Note {
            run: run.to_string(),
            number,
            time,
            state: state.to_owned(),
            text: text.to_owned(),
        };
        self.append_for_run(&mut transaction, &run, &entry).await?;
        Ok(transaction.commit().await?)
    }

    /// Records what decides an attempt's numbers beside its configuration, at `time` in seconds since 1970.
    pub async fn record_surroundings(
        &self,
        attempt: AttemptId,
        time: i64,
        surroundings: &Provenance,
    ) -> Result<(), StoreError> {
        self.record_note(attempt, time, SURROUNDINGS, &to_json(SURROUNDINGS, surroundings)?).await
    }

    /// Records that an attempt lost ranks, or failed, because its recipe asked for it, at `time` in seconds since 1970. It comes before the
    /// attempt's end, which it makes a result.
    pub async fn record_ordered(&self, attempt: AttemptId, time: i64, text: &str) -> Result<(), StoreError> {
        self.record_note(attempt, time, ORDERED, text).await
    }

    /// Records the end of an attempt: derives its totals from its steps, and sets the run's state. Then only every n-th of
    /// its steps and the slowest are kept, unless the recipe wants all.
    pub async fn record_attempt_end(&self, attempt: AttemptId, end: &AttemptEnd) -> Result<(), StoreError> {
        let ending = self.ending(attempt, end.state).await?;
        let mut transaction = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        self.record_attempt_end_in(&mut transaction, &ending, end).await?;
        transaction.commit().await?;
        self.roll_up(ending).await;
        Ok(())
    }

    pub(crate) async fn record_attempt_end_in(
        &self,
        connection: &mut SqliteConnection,
        ending: &Ending,
        end: &AttemptEnd,
    ) -> Result<(), StoreError> {
        let Ending { attempt, place: Try { run, number }, totals, packed } = ending;
        insert_attempt_end(connection, *attempt, totals, end).await?;
        let log = packed.as_ref().map(|packed| packed.length);
        let log = log.unwrap_or_else(|| EventLog::length(&self.attempt_directory(run, *number)));
        let entry = Entry::AttemptEnd {
            run: run.to_string(),
            number: *number,
            end: end.clone(),
            log,
            totals: totals.rolled_up().map(Box::new),
        };
        self.append_for_run(connection, run, &entry).await
    }
}

/// Inserts a machine unless it is known; returns its id.
pub(crate) async fn insert_node(
    connection: &mut SqliteConnection,
    node: &NodeRow,
) -> Result<NodeId, StoreError> {
    let fingerprint = hex(&Sha256::digest(to_json("machine", node)?));
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

/// Inserts an attempt and its ranks.
pub(crate) async fn insert_attempt(
    connection: &mut SqliteConnection,
    place: &Try,
    new: &NewAttempt<'_>,
) -> Result<AttemptId, StoreError> {
    let changed = sqlx::query("UPDATE run SET state = 'running', reused_from = NULL WHERE ulid = ?")
        .bind(place.run.as_str())
        .execute(&mut *connection)
        .await?;
    if changed.rows_affected() == 0 {
        return Err(StoreError::Unknown { what: "run", id: place.run.to_string() });
    }
    let inserted = sqlx::query(
        "INSERT INTO attempt (run, number, started_unix, heartbeat_unix) \
         SELECT id, ?1, ?2, ?2 FROM run WHERE ulid = ?3",
    )
    .bind(place.number)
    .bind(new.started)
    .bind(place.run.as_str())
    .execute(&mut *connection)
    .await?;
    let attempt = AttemptId(inserted.last_insert_rowid());
    insert_ranks(connection, attempt, new).await?;
    insert_note(connection, attempt, NewNote { time: new.started, state: "running", text: "" }).await?;
    Ok(attempt)
}

/// Inserts the end of an attempt and its totals, and sets the run's state.
pub(crate) async fn insert_attempt_end(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    totals: &Totals,
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
    .bind(to_json("log lines", &end.last_lines)?)
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
    insert_note(connection, attempt, NewNote { time: end.ended, state, text: &end.detail }).await?;
    insert_lost(connection, attempt, &end.lost).await?;
    insert_totals(connection, attempt, totals).await
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

pub(crate) async fn insert_note(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    note: NewNote<'_>,
) -> Result<(), StoreError> {
    sqlx::query("INSERT INTO event (attempt, time_unix, state, text) VALUES (?, ?, ?, ?)")
        .bind(attempt.0)
        .bind(note.time)
        .bind(note.state)
        .bind(note.text)
        .execute(connection)
        .await?;
    Ok(())
}

async fn insert_ranks(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    new: &NewAttempt<'_>,
) -> Result<(), StoreError> {
    let placements: Vec<_> = (0_u32..).zip(&new.cluster.placements).collect();
    let target = Target { head: "INSERT INTO rank (attempt, rank, role, node)", tail: "" };
    insert(connection, target, &placements, |(rank, placement), values| {
        let node = new.nodes.get(placement.node as usize).map(|node| node.0);
        values.add(attempt.0).add(*rank).add(placement.role.name()).add(node);
    })
    .await
}
