//! An attempt at a run: its machines and ranks, its history, its end.

use crate::insert::{Target, insert};
use crate::rows::NodeRow;
use crate::sweep::json;
use crate::value::int;
use crate::{AttemptId, Driver, NodeId, RunId, RunState, Store, StoreError, summary};
use recipe::{Cluster, hex};
use record::{Nanos, Rank};
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
#[derive(Clone, Debug)]
pub struct AttemptEnd {
    /// How the run stands now.
    pub state: RunState,
    /// Why, in a sentence; empty for a run that is done.
    pub detail: String,
    /// The rank to blame, where there is one.
    pub culprit: Option<Rank>,
    /// Last lines of that rank's log.
    pub last_lines: Vec<String>,
    /// The wall time from spawn to the end of everything, evaluation included.
    pub wall: Option<Nanos>,
    /// When, as seconds since 1970.
    pub ended: i64,
}

impl Store {
    /// Enters a machine, or finds it again: all that is known of it makes it the same.
    pub async fn upsert_node(&self, node: &NodeRow) -> Result<NodeId, StoreError> {
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
        .execute(&self.writer)
        .await?;
        let id = sqlx::query_scalar("SELECT id FROM node WHERE fingerprint = ?").bind(&fingerprint);
        Ok(NodeId(id.fetch_one(&self.writer).await?))
    }

    /// Begins an attempt, with the next free number, and its ranks.
    pub async fn begin_attempt(&self, run: &RunId, new: &NewAttempt<'_>) -> Result<AttemptId, StoreError> {
        let mut transaction = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        let changed = sqlx::query("UPDATE run SET state = 'running', reused_from = NULL WHERE ulid = ?")
            .bind(run.as_str())
            .execute(&mut *transaction)
            .await?;
        if changed.rows_affected() == 0 {
            return Err(StoreError::Unknown { what: "run", id: run.to_string() });
        }
        let inserted = sqlx::query(
            "INSERT INTO attempt (run, number, started_unix, heartbeat_unix) \
             SELECT id, 1 + (SELECT count(*) FROM attempt WHERE run = run.id), ?1, ?1 FROM run WHERE ulid = ?2",
        )
        .bind(new.started)
        .bind(run.as_str())
        .execute(&mut *transaction)
        .await?;
        let attempt = AttemptId(inserted.last_insert_rowid());
        insert_ranks(&mut transaction, attempt, new).await?;
        insert_event(&mut transaction, attempt, (new.started, "running", "")).await?;
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
        let mut connection = self.writer.acquire().await?;
        insert_event(&mut connection, attempt, (time, state, text)).await
    }

    /// Ends an attempt: derives its totals from its steps, and sets the run's state.
    pub async fn end_attempt(&self, attempt: AttemptId, end: &AttemptEnd) -> Result<(), StoreError> {
        let mut transaction = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        close(&mut transaction, attempt, end).await?;
        transaction.commit().await?;
        Ok(())
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
                close(&mut transaction, AttemptId(attempt), &killed(heartbeat)).await?;
            }
            sqlx::query("UPDATE sweep SET state = 'interrupted' WHERE id = ?")
                .bind(sweep)
                .execute(&mut *transaction)
                .await?;
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
    }
}

async fn close(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
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
    summary::store(connection, attempt).await
}

async fn insert_event(
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
    let target = Target { head: "INSERT INTO rank (attempt, rank, role, node)", width: 4, tail: "" };
    insert(connection, target, &seats, |(rank, seat), values| {
        let node = new.nodes.get(seat.node as usize).map(|node| node.0);
        values.add(attempt.0).add(*rank).add(seat.role.name()).add(node);
    })
    .await
}
