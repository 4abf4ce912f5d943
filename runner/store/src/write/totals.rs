//! The totals of an attempt that has ended, kept beside its steps so that a report need not read them all.

use crate::derive::summary::{RankSummary, Summary};
use crate::read::steps::spec_of;
use crate::sql::insert::{Target, insert};
use crate::sql::value::{int, lane_code};
use crate::{AttemptId, BlockRow, StoreError, TransferRow};
use recipe::Metric;
use record::Rank;
use sqlx::sqlite::SqliteConnection;

/// Inserts the totals of an attempt, its ranks, its links and its target.
pub(crate) async fn insert_totals(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    summary: &Summary,
) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE attempt SET training = ?, step_time = ?, mean_step_time = ?, steps = ?, samples = ?, rounds = ? \
         WHERE id = ?",
    )
    .bind(summary.training.map(|time| int(time.0)))
    .bind(summary.step_time.map(|time| int(time.0)))
    .bind(summary.mean_step_time.map(|time| int(time.0)))
    .bind(int(summary.steps))
    .bind(int(summary.samples))
    .bind(int(summary.rounds))
    .bind(attempt.0)
    .execute(&mut *connection)
    .await?;
    insert_transfers(connection, attempt, &summary.transfers).await?;
    insert_blocks(connection, attempt, &summary.blocks).await?;
    for (rank, of_rank) in &summary.ranks {
        insert_rank_totals(connection, attempt, *rank, of_rank).await?;
    }
    insert_target(connection, attempt).await
}

async fn insert_rank_totals(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    rank: Rank,
    summary: &RankSummary,
) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE rank SET exposed = ?, hidden = ?, steady = ?, steady_steps = ?, bytes_out = ?, bytes_in = ?, own = ?, \
         last = ?, imposed = ? WHERE attempt = ? AND rank = ?",
    )
    .bind(int(summary.exposed.0))
    .bind(int(summary.hidden.0))
    .bind(int(summary.steady.time.0))
    .bind(int(summary.steady.steps))
    .bind(int(summary.bytes_out))
    .bind(int(summary.bytes_in))
    .bind(summary.pace.map(|pace| int(pace.own.0)))
    .bind(summary.pace.map(|pace| int(pace.last)))
    .bind(summary.pace.map(|pace| int(pace.imposed.0)))
    .bind(attempt.0)
    .bind(rank.0)
    .execute(&mut *connection)
    .await?;
    let target = Target {
        head: "INSERT OR REPLACE INTO phase_total (attempt, rank, lane, phase, count, total, p50, p95, max)",
        tail: "",
    };
    insert(connection, target, &summary.phases, |row, values| {
        values.add(attempt.0).add(rank.0).add(lane_code(row.lane)).add(row.phase as i64).add(int(row.count));
        values.add(int(row.total.0)).add(int(row.p50.0)).add(int(row.p95.0)).add(int(row.max.0));
    })
    .await
}

async fn insert_transfers(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    rows: &[TransferRow],
) -> Result<(), StoreError> {
    let target = Target {
        head: "INSERT OR REPLACE INTO transfer (attempt, src, dst, bytes, time, cut_bytes, cut_time)",
        tail: "",
    };
    insert(connection, target, rows, |row, values| {
        values.add(attempt.0).add(row.from.0).add(row.to.0).add(int(row.bytes)).add(int(row.time.0));
        values.add(int(row.cut_bytes)).add(int(row.cut_time.0));
    })
    .await
}

async fn insert_blocks(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    blocks: &[BlockRow],
) -> Result<(), StoreError> {
    let target = Target { head: "INSERT OR REPLACE INTO block (attempt, number, steps, length)", tail: "" };
    let numbered: Vec<_> = (0_u32..).zip(blocks).collect();
    insert(connection, target, &numbered, |(number, block), values| {
        values.add(attempt.0).add(*number).add(int(block.steps)).add(int(block.length.0));
    })
    .await
}

/// Inserts when the target was reached first, if the run has one.
async fn insert_target(connection: &mut SqliteConnection, attempt: AttemptId) -> Result<(), StoreError> {
    let spec = spec_of(&mut *connection, attempt).await?;
    let Some(target) = spec.train.target else { return Ok(()) };
    // A server's step is one update, a worker's one gradient: only samples compare.
    let batch = i64::from(spec.train.global_batch.max(1));
    let hit = first_hit(connection, attempt, target.metric, &target).await?;
    sqlx::query(
        "INSERT OR REPLACE INTO target_hit (attempt, metric, threshold, reached, at, step, samples, bytes) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, CASE WHEN ?4 THEN \
         (SELECT coalesce(sum(bytes_out), 0) FROM step WHERE attempt = ?1 AND drain = 0 AND samples <= ?7) END)",
    )
    .bind(attempt.0)
    .bind(target.metric.name())
    .bind(target.threshold)
    .bind(hit.is_some())
    .bind(hit.map(|(at, ..)| at))
    .bind(hit.map(|(_, samples)| samples.saturating_add(batch / 2).div_euclid(batch)))
    .bind(hit.map(|(_, samples)| samples))
    .execute(connection)
    .await?;
    Ok(())
}

/// Time and samples of the first evaluation that reaches the target in time.
async fn first_hit(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    metric: Metric,
    target: &recipe::Target,
) -> Result<Option<(i64, i64)>, StoreError> {
    let values: Vec<(i64, i64, f64)> = sqlx::query_as(
        "SELECT at, samples, value FROM metric WHERE attempt = ? AND name = ? AND judged AND value IS NOT NULL \
         ORDER BY at, step",
    )
    .bind(attempt.0)
    .bind(metric.name())
    .fetch_all(connection)
    .await?;
    let latest =
        target.after.map_or(i64::MAX, |after| int(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX)));
    Ok(values
        .into_iter()
        .find(|(at, .., value)| *at <= latest && target.reached(*value))
        .map(|(at, samples, _)| (at, samples)))
}
