//! The spans of a run that a timeline shows: its first steps, a typical one, its longest step.

use crate::derive::kept_spans::{FEW, KeptSpans, Window, shown};
use crate::sql::from_row::from_row;
use crate::sql::value::{int, lane_of, phase_of, uint};
use crate::{AttemptId, RunId, SpanRow, Store, StoreError};
use recipe::{KeptSteps, Measure};
use record::{LaneId, Nanos, Rank};
use sqlx::sqlite::SqliteConnection;
use std::collections::BTreeSet;

impl Store {
    /// The spans of the run's last attempt in its first three traced steps, in the one of median length among the later ones, and
    /// in the longest, those of other lanes in the same time included; by rank, lane and time. Empty if no spans were kept.
    pub async fn timeline(&self, run: &RunId) -> Result<Vec<SpanRow>, StoreError> {
        let mut transaction = self.reader.begin().await?;
        let Some(attempt) = shown_attempt(&mut transaction, run).await? else { return Ok(Vec::new()) };
        let recorded = recorded_steps(&mut transaction, attempt).await?;
        let mut spans = BTreeSet::new();
        for step in shown(&recorded) {
            add_spans(&mut transaction, attempt, step, &mut spans).await?;
        }
        spans.into_iter().map(Columns::row).collect()
    }
}

/// The spans that stay once an attempt has ended: all of few, or where the recipe asks for more than usual.
pub(crate) async fn kept_spans(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    measure: &Measure,
) -> Result<KeptSpans, StoreError> {
    let recorded = recorded_steps(connection, attempt.0).await?;
    let many: bool = sqlx::query_scalar("SELECT count(*) > ?2 FROM span WHERE attempt = ?1")
        .bind(attempt.0)
        .bind(int(FEW))
        .fetch_one(&mut *connection)
        .await?;
    if !many || recorded.is_empty() || measure.steps == KeptSteps::All || measure.traces_more_than_usual() {
        return Ok(KeptSpans::All(recorded.into_iter().map(|window| window.step).collect()));
    }
    let mut steps = BTreeSet::new();
    for window in shown(&recorded) {
        steps.insert((LaneId::Compute, window.step));
        let beside: Vec<(i64, i64)> = sqlx::query_as(
            "SELECT DISTINCT lane, step FROM span WHERE attempt = ? AND lane > 0 AND begin < ? AND begin + length > ?",
        )
        .bind(attempt.0)
        .bind(int(window.end.0))
        .bind(int(window.begin.0))
        .fetch_all(&mut *connection)
        .await?;
        for (lane, step) in beside {
            steps.insert((lane_of(lane)?, uint(step)));
        }
    }
    Ok(KeptSpans::Timeline { steps, recorded: recorded.len() as u64 })
}

/// The steps of the compute lanes that have spans.
async fn recorded_steps(connection: &mut SqliteConnection, attempt: i64) -> Result<Vec<Window>, StoreError> {
    let rows: Vec<(i64, i64, i64)> = sqlx::query_as(
        "SELECT step.step, min(begin), max(begin + length) FROM step \
         WHERE attempt = ?1 AND lane = 0 AND step >= 1 AND step.step IN \
         (SELECT DISTINCT step FROM span WHERE attempt = ?1 AND lane = 0) GROUP BY step.step ORDER BY step.step",
    )
    .bind(attempt)
    .fetch_all(connection)
    .await?;
    let window =
        |(step, begin, end)| Window { step: uint(step), begin: Nanos(uint(begin)), end: Nanos(uint(end)) };
    Ok(rows.into_iter().map(window).collect())
}

from_row! {
    /// In the order of a timeline.
    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    .bind(int(window.step))
    .bind(int(window.begin.0))
    .bind(int(window.end.0))
    .fetch_all(connection)
    .await?;
    spans.extend(rows);
    Ok(())
}

/// The attempt of a run that is shown; `None` for a run that never began, or is not known.
pub(crate) async fn shown_attempt(
    connection: &mut SqliteConnection,
    run: &RunId,
) -> Result<Option<i64>, StoreError> {
    let attempt = sqlx::query_scalar(
        "SELECT shown.attempt FROM run JOIN shown ON shown.run = run.id WHERE run.ulid = ? AND shown.attempt IS NOT NULL",
    );
    Ok(attempt.bind(run.as_str()).fetch_optional(connection).await?)
}
