//! The totals of an attempt that has ended, kept beside its steps so that a report need not read them all.

use crate::derive::roll_up::{Choice, Histogram};
use crate::derive::summary::RankSummary;
use crate::read::steps::Totals;
use crate::read::target::TargetTotals;
use crate::sql::insert::{Target, insert};
use crate::sql::value::{encode_counts, int, lane_code};
use crate::{AttemptId, BlockRow, StoreError, TransferRow};
use record::Rank;
use sqlx::sqlite::SqliteConnection;
use std::collections::BTreeSet;

/// Inserts the totals of an attempt, its ranks, its links and its target.
pub(crate) async fn insert_totals(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    totals: &Totals,
) -> Result<(), StoreError> {
    let summary = &totals.summary;
    sqlx::query(
        "UPDATE attempt SET training = ?, step_time = ?, mean_step_time = ?, steps = ?, samples = ?, rounds = ?, \
         step_stride = ?, traced_steps = ? WHERE id = ?",
    )
    .bind(summary.training.map(|time| int(time.0)))
    .bind(summary.step_time.map(|time| int(time.0)))
    .bind(summary.mean_step_time.map(|time| int(time.0)))
    .bind(int(summary.steps))
    .bind(int(summary.samples))
    .bind(int(summary.rounds))
    .bind(totals.choice.as_ref().map(Choice::stride).filter(|stride| *stride > 1).map(int))
    .bind(totals.recorded_spans.map(int))
    .bind(attempt.0)
    .execute(&mut *connection)
    .await?;
    insert_transfers(connection, attempt, &summary.transfers).await?;
    insert_blocks(connection, attempt, &summary.blocks).await?;
    insert_histograms(connection, attempt, &totals.histograms).await?;
    insert_loss_extremes(connection, attempt, &totals.loss_extremes).await?;
    for (rank, of_rank) in &summary.ranks {
        insert_rank_totals(connection, attempt, *rank, of_rank).await?;
    }
    match &totals.target {
        Some(target) => insert_target(connection, attempt, target).await,
        None => Ok(()),
    }
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

/// The phase of a histogram of whole steps.
pub(crate) const WHOLE_STEP: i64 = -1;

async fn insert_histograms(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    rows: &[Histogram],
) -> Result<(), StoreError> {
    let target = Target {
        head: "INSERT OR REPLACE INTO step_histogram (attempt, rank, lane, phase, counts)",
        tail: "",
    };
    insert(connection, target, rows, |row, values| {
        values.add(attempt.0).add(row.rank.0).add(lane_code(row.lane));
        values.add(row.phase.map_or(WHOLE_STEP, |phase| phase as i64)).add(encode_counts(&row.counts));
    })
    .await
}

async fn insert_loss_extremes(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    steps: &BTreeSet<u64>,
) -> Result<(), StoreError> {
    let target = Target { head: "INSERT OR REPLACE INTO loss_extreme (attempt, step)", tail: "" };
    let steps: Vec<u64> = steps.iter().copied().collect();
    insert(connection, target, &steps, |step, values| {
        values.add(attempt.0).add(int(*step));
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

async fn insert_target(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    target: &TargetTotals,
) -> Result<(), StoreError> {
    let hit = target.hit;
    sqlx::query(
        "INSERT OR REPLACE INTO target_hit (attempt, metric, threshold, reached, at, step, samples, bytes) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(attempt.0)
    .bind(target.metric.name())
    .bind(target.threshold)
    .bind(hit.is_some())
    .bind(hit.map(|hit| hit.at))
    .bind(hit.map(|hit| hit.step))
    .bind(hit.map(|hit| hit.samples))
    .bind(hit.map(|hit| hit.bytes))
    .execute(connection)
    .await?;
    Ok(())
}
