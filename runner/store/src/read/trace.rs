//! All steps and spans of one run, page by page, for programs that draw them.

use crate::read::timeline::shown_attempt;
use crate::sql::value::{decode_phases, float_of, lane_of, phase_of, uint};
use crate::{RunId, Store, StoreError};
use record::{LaneId, Nanos, Rank, SpanRecord, StepRecord};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

/// Rows of a page.
const PAGE: i64 = 4096;

/// The steps and spans of the attempt that a run shows, read page by page.
#[derive(Debug)]
pub struct LaneTrace {
    store: Store,
    attempt: i64,
    /// The last step read.
    step: StepKey,
    /// The last span read.
    span: SpanKey,
}

/// The columns by which steps are ordered.
#[derive(Clone, Copy, Debug)]
struct StepKey {
    lane: i64,
    step: i64,
    rank: i64,
}

/// The columns by which spans are ordered.
#[derive(Clone, Copy, Debug)]
struct SpanKey {
    of: StepKey,
    begin: i64,
    phase: i64,
}

/// Before all others.
const FIRST: StepKey = StepKey { lane: -1, step: -1, rank: -1 };

impl Store {
    /// Reads the steps and spans of a run; `None` if it never began.
    pub async fn trace(&self, run: &RunId) -> Result<Option<LaneTrace>, StoreError> {
        let attempt = shown_attempt(&mut *self.reader.acquire().await?, run).await?;
        let span = SpanKey { of: FIRST, begin: -1, phase: -1 };
        Ok(attempt.map(|attempt| LaneTrace { store: self.clone(), attempt, step: FIRST, span }))
    }
}

impl LaneTrace {
    /// The lanes that recorded a step, by rank and lane.
    pub async fn lanes(&self) -> Result<Vec<(Rank, LaneId)>, StoreError> {
        let rows: Vec<(u32, i64)> =
            sqlx::query_as("SELECT DISTINCT rank, lane FROM step WHERE attempt = ? ORDER BY rank, lane")
                .bind(self.attempt)
                .fetch_all(&self.store.reader)
                .await?;
        rows.into_iter().map(|(rank, lane)| Ok((Rank(rank), lane_of(lane)?))).collect()
    }

    /// The next steps, by lane, step and rank; empty at the end.
    pub async fn next_steps(&mut self) -> Result<Vec<StepRecord>, StoreError> {
        let StepKey { lane, step, rank } = self.step;
        let rows = sqlx::query(
            "SELECT lane, step, rank, begin, length, samples, own_samples, bytes_out, bytes_in, loss, is_finite, \
             rate, drain, phases, hidden FROM step WHERE attempt = ?1 AND (lane, step, rank) > (?2, ?3, ?4) \
             ORDER BY lane, step, rank LIMIT ?5",
        )
        .bind(self.attempt)
        .bind(lane)
        .bind(step)
        .bind(rank)
        .bind(PAGE)
        .fetch_all(&self.store.reader)
        .await?;
        if let Some(last) = rows.last() {
            self.step = step_key(last)?;
        }
        rows.iter().map(step_record).collect()
    }

    /// The next of the spans that were kept, by lane, step, rank and time; empty at the end.
    pub async fn next_spans(&mut self) -> Result<Vec<SpanRecord>, StoreError> {
        let SpanKey { of: StepKey { lane, step, rank }, begin, phase } = self.span;
        let rows = sqlx::query(
            "SELECT lane, step, rank, begin, phase, length, peer, bytes FROM span WHERE attempt = ?1 \
             AND (lane, step, rank, begin, phase) > (?2, ?3, ?4, ?5, ?6) \
             ORDER BY lane, step, rank, begin, phase LIMIT ?7",
        )
        .bind(self.attempt)
        .bind(lane)
        .bind(step)
        .bind(rank)
        .bind(begin)
        .bind(phase)
        .bind(PAGE)
        .fetch_all(&self.store.reader)
        .await?;
        if let Some(last) = rows.last() {
            self.span = SpanKey { of: step_key(last)?, begin: last.try_get(3)?, phase: last.try_get(4)? };
        }
        rows.iter().map(span_record).collect()
    }
}

/// The key of a row that begins with lane, step and rank.
fn step_key(row: &SqliteRow) -> Result<StepKey, StoreError> {
    Ok(StepKey { lane: row.try_get(0)?, step: row.try_get(1)?, rank: row.try_get(2)? })
}

fn step_record(row: &SqliteRow) -> Result<StepRecord, StoreError> {
    let number = |column: usize| row.try_get::<i64, _>(column).map(uint);
    let loss: Option<f64> = row.try_get(9)?;
    // A loss that is no number is stored as none with a mark.
    let told = loss.is_some() || !row.try_get::<bool, _>(10)?;
    Ok(StepRecord {
        lane: lane_of(row.try_get(0)?)?,
        step: number(1)?,
        rank: Rank(row.try_get(2)?),
        begin: Nanos(number(3)?),
        length: Nanos(number(4)?),
        samples: number(5)?,
        own_samples: row.try_get(6)?,
        bytes_out: number(7)?,
        bytes_in: number(8)?,
        loss: told.then(|| float_of(loss) as f32),
        rate: row.try_get::<Option<f64>, _>(11)?.map(|rate| rate as f32),
        drain: row.try_get(12)?,
        phases: decode_phases(row.try_get(13)?)?,
        hidden: Nanos(number(14)?),
    })
}

fn span_record(row: &SqliteRow) -> Result<SpanRecord, StoreError> {
    let number = |column: usize| row.try_get::<i64, _>(column).map(uint);
    Ok(SpanRecord {
        lane: lane_of(row.try_get(0)?)?,
        step: number(1)?,
        rank: Rank(row.try_get(2)?),
        begin: Nanos(number(3)?),
        phase: phase_of(row.try_get(4)?)?,
        length: Nanos(number(5)?),
        peer: row.try_get::<Option<u32>, _>(6)?.map(Rank),
        bytes: number(7)?,
    })
}
