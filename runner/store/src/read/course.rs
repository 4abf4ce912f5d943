//! The course of a run: how long the workers' steps were, in equal stretches of its time. The extremes of a stretch are kept, and its
//! size does not depend on the number of steps.

use crate::read::timeline::shown_attempt;
use crate::sql::from_row::from_row;
use crate::sql::value::{decode_phases, int, uint};
use crate::{RunId, Store, StoreError};
use record::{Category, Nanos, Rank};
use sqlx::sqlite::SqliteConnection;
use std::collections::BTreeMap;

/// Steps fetched at once.
const PAGE: i64 = 4096;

/// The steps of a run's workers over its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Course {
    /// The begin of the first step, on the clock of the run.
    pub from: Nanos,
    /// The end of the last one.
    pub to: Nanos,
    /// By the number of the rank.
    pub workers: Vec<WorkerCourse>,
}

/// The steps of one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerCourse {
    /// Rank of the worker.
    pub rank: Rank,
    /// Number of its steps that were kept.
    pub steps: u64,
    /// Of these the one with the longest time that was not waiting.
    pub longest: CourseStep,
    /// In each stretch the longest time that a kept step in it did not wait; `None` where none was kept.
    pub stretches: Vec<Option<Nanos>>,
}

/// A step of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CourseStep {
    /// Number of the step, from 1.
    pub step: u64,
    /// Its begin, on the clock of the run.
    pub begin: Nanos,
    /// Part of its length in which the worker did not wait.
    pub own: Nanos,
}

impl Store {
    /// The course of the run's last attempt in this number of stretches; `None` if no step of a worker was kept.
    pub async fn course(&self, run: &RunId, stretches: usize) -> Result<Option<Course>, StoreError> {
        let mut transaction = self.reader.begin().await?;
        let Some(attempt) = shown_attempt(&mut transaction, run).await? else { return Ok(None) };
        let bounds: (Option<i64>, Option<i64>) = sqlx::query_as(
            "SELECT min(begin), max(begin + length) FROM step WHERE attempt = ?1 AND lane = 0 AND step >= 1 AND drain = 0 \
             AND rank IN (SELECT rank FROM rank WHERE attempt = ?1 AND role = 'worker')",
        )
        .bind(attempt)
        .fetch_one(&mut *transaction)
        .await?;
        let (Some(from), Some(to)) = bounds else { return Ok(None) };
        let mut drawing = Drawing { from: uint(from), to: uint(to), stretches, workers: BTreeMap::new() };
        each_step(&mut transaction, attempt, |step| drawing.add(step)).await?;
        Ok(Some(Course {
            from: Nanos(drawing.from),
            to: Nanos(drawing.to),
            workers: drawing.workers.into_values().collect(),
        }))
    }
}

/// A course under construction.
struct Drawing {
    from: u64,
    to: u64,
    stretches: usize,
    workers: BTreeMap<u32, WorkerCourse>,
}

impl Drawing {
    fn add(&mut self, step: &StepColumns) -> Result<(), StoreError> {
        let waiting = decode_phases(&step.phases)?
            .iter()
            .filter(|(phase, _)| phase.category() == Category::Waiting)
            .fold(0_u64, |sum, (_, time)| sum.saturating_add(time.0));
        let begin = uint(step.begin);
        let length = uint(step.length);
        let own = Nanos(length.saturating_sub(waiting));
        let found = CourseStep { step: uint(step.step), begin: Nanos(begin), own };
        let range = self.range(begin, begin.saturating_add(length));
        let worker = self.workers.entry(step.rank).or_insert_with(|| WorkerCourse {
            rank: Rank(step.rank),
            steps: 0,
            longest: found,
            stretches: vec![None; self.stretches],
        });
        worker.steps += 1;
        if own > worker.longest.own {
            worker.longest = found;
        }
        for stretch in worker.stretches.iter_mut().take(range.1 + 1).skip(range.0) {
            *stretch = (*stretch).max(Some(own));
        }
        Ok(())
    }

    /// The first and the last stretch that a step lies in.
    fn range(&self, begin: u64, end: u64) -> (usize, usize) {
        let width = (self.to - self.from).max(1) as f64 / self.stretches.max(1) as f64;
        let last = self.stretches.saturating_sub(1);
        let place = |at: u64| (at.saturating_sub(self.from) as f64 / width) as usize;
        let first = place(begin).min(last);
        // An end that is a border belongs to the stretch before it.
        (first, place(end.saturating_sub(1)).clamp(first, last))
    }
}

from_row! {
    struct StepColumns {
        step: i64,
        rank: u32,
        begin: i64,
        length: i64,
        phases: Vec<u8>,
    }
}

/// Reads the steps of the workers' compute lanes page by page.
async fn each_step(
    connection: &mut SqliteConnection,
    attempt: i64,
    mut take: impl FnMut(&StepColumns) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut step = 0;
    let mut rank = int(u64::from(u32::MAX));
    loop {
        let rows: Vec<StepColumns> = sqlx::query_as(
            "SELECT step, rank, begin, length, phases FROM step \
             WHERE attempt = ?1 AND lane = 0 AND (step, rank) > (?2, ?3) AND drain = 0 \
             AND rank IN (SELECT rank FROM rank WHERE attempt = ?1 AND role = 'worker') ORDER BY step, rank LIMIT ?4",
        )
        .bind(attempt)
        .bind(step)
        .bind(rank)
        .bind(PAGE)
        .fetch_all(&mut *connection)
        .await?;
        let Some(last) = rows.last() else { return Ok(()) };
        (step, rank) = (last.step, i64::from(last.rank));
        for row in &rows {
            take(row)?;
        }
    }
}
