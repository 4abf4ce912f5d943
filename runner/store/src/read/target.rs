//! When a run reached its target, from its evaluations.

use crate::journal::entries::TargetHit;
use crate::read::attempt_spec::spec_of;
use crate::sql::value::int;
use crate::{AttemptId, StoreError};
use recipe::{Metric, RunSpec};
use sqlx::sqlite::SqliteConnection;

/// The target of a run, and whether it was reached.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TargetTotals {
    pub(crate) metric: Metric,
    pub(crate) threshold: f64,
    pub(crate) hit: Option<TargetHit>,
}

/// The target of the attempt's run; `None` if it has none.
pub(crate) async fn target_of(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
) -> Result<Option<TargetTotals>, StoreError> {
    let spec = spec_of(&mut *connection, attempt).await?;
    let Some(target) = &spec.train.target else { return Ok(None) };
    let batch = i64::from(spec.train.global_batch.max(1));
    let hit = match first_hit(connection, attempt, target).await? {
        None => None,
        Some((at, samples)) => Some(TargetHit {
            at,
            step: samples.saturating_add(batch / 2).div_euclid(batch),
            samples,
            bytes: sqlx::query_scalar(
                "SELECT coalesce(sum(bytes_out), 0) FROM step WHERE attempt = ? AND drain = 0 AND samples <= ?",
            )
            .bind(attempt.0)
            .bind(samples)
            .fetch_one(connection)
            .await?,
        }),
    };
    Ok(target_with(&spec, hit))
}

/// The target of a run that reached it so.
pub(crate) fn target_with(spec: &RunSpec, hit: Option<TargetHit>) -> Option<TargetTotals> {
    let target = spec.train.target.as_ref()?;
    Some(TargetTotals { metric: target.metric, threshold: target.threshold, hit })
}

/// Time and samples of the first evaluation that reaches the target in time.
async fn first_hit(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    target: &recipe::Target,
) -> Result<Option<(i64, i64)>, StoreError> {
    let values: Vec<(i64, i64, f64)> = sqlx::query_as(
        "SELECT at, samples, value FROM metric WHERE attempt = ? AND name = ? AND judged AND value IS NOT NULL \
         ORDER BY at, step",
    )
    .bind(attempt.0)
    .bind(target.metric.name())
    .fetch_all(connection)
    .await?;
    let latest =
        target.after.map_or(i64::MAX, |after| int(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX)));
    Ok(values
        .into_iter()
        .find(|(at, .., value)| *at <= latest && target.reached(*value))
        .map(|(at, samples, _)| (at, samples)))
}
