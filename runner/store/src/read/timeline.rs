//! The spans of a run that a timeline shows: its first steps, some typical ones, its longest step.

use crate::sql::value::{lane_of, phase_of, uint};
use crate::{RunId, SpanRow, Store, StoreError};
use record::{Nanos, Rank};
use sqlx::sqlite::SqliteConnection;
use std::collections::BTreeSet;

/// Steps of each stretch.
const STRETCH: usize = 3;

impl Store {
    /// The spans of the run's last attempt in its first traced steps, around the step of median length, and in the longest
    /// step, those of other lanes in the same time included; by rank, lane and time. Empty if no spans were kept.
    pub async fn timeline(&self, run: &RunId) -> Result<Vec<SpanRow>, StoreError> {
        let mut transaction = self.reader.begin().await?;
        let attempt: Option<i64> = sqlx::query_scalar(
            "SELECT shown.attempt FROM run JOIN shown ON shown.run = run.id WHERE run.ulid = ? AND shown.attempt IS NOT NULL",
        )
        .bind(run.as_str())
        .fetch_optional(&mut *transaction)
        .await?;
        let Some(attempt) = attempt else { return Ok(Vec::new()) };
        let traced = traced_steps(&mut transaction, attempt).await?;
        let mut spans = BTreeSet::new();
        for step in chosen(&traced) {
            add_spans(&mut transaction, attempt, step, &mut spans).await?;
        }
        spans.into_iter().map(Columns::row).collect()
    }
}

/// A step of the compute lanes: from the first rank's begin to the last one's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::FromRow)]
struct Window {
    step: i64,
    begin: i64,
    end: i64,
    /// Of the slowest rank.
    length: i64,
}

async fn traced_steps(connection: &mut SqliteConnection, attempt: i64) -> Result<Vec<Window>, StoreError> {
    Ok(sqlx::query_as(
        "SELECT step.step, min(begin) AS begin, max(begin + length) AS \"end\", max(length) AS length FROM step \
         WHERE attempt = ?1 AND lane = 0 AND step >= 1 AND step.step IN \
         (SELECT DISTINCT step FROM span WHERE attempt = ?1 AND lane = 0) GROUP BY step.step ORDER BY step.step",
    )
    .bind(attempt)
    .fetch_all(connection)
    .await?)
}

fn chosen(traced: &[Window]) -> Vec<Window> {
    let mut by_length: Vec<usize> = (0..traced.len()).collect();
    by_length.sort_by_key(|place| traced[*place].length);
    let mut places: BTreeSet<usize> = (0..traced.len().min(STRETCH)).collect();
    if let Some(median) = by_length.get(by_length.len() / 2) {
        let first = median.saturating_sub(STRETCH / 2);
        places.extend(first..traced.len().min(first + STRETCH));
    }
    places.extend(by_length.last());
    places.into_iter().map(|place| traced[place]).collect()
}

/// In the order of a timeline.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, sqlx::FromRow)]
struct Columns {
    rank: u32,
    lane: i64,
    begin: i64,
    phase: i64,
    step: i64,
    length: i64,
    peer: Option<u32>,
    bytes: i64,
}

impl Columns {
    fn row(self) -> Result<SpanRow, StoreError> {
        Ok(SpanRow {
            rank: Rank(self.rank),
            lane: lane_of(self.lane)?,
            step: uint(self.step),
            phase: phase_of(self.phase)?,
            begin: Nanos(uint(self.begin)),
            length: Nanos(uint(self.length)),
            peer: self.peer.map(Rank),
            bytes: uint(self.bytes),
        })
    }
}

/// Other lanes count steps of their own, so theirs are found by time.
async fn add_spans(
    connection: &mut SqliteConnection,
    attempt: i64,
    window: Window,
    spans: &mut BTreeSet<Columns>,
) -> Result<(), StoreError> {
    let rows: Vec<Columns> = sqlx::query_as(
        "SELECT rank, lane, begin, phase, step, length, peer, bytes FROM span WHERE attempt = ?1 AND \
         (lane = 0 AND step = ?2 OR lane > 0 AND begin < ?4 AND begin + length > ?3)",
    )
    .bind(attempt)
    .bind(window.step)
    .bind(window.begin)
    .bind(window.end)
    .fetch_all(connection)
    .await?;
    spans.extend(rows);
    Ok(())
}
