//! The training losses of attempts, thinned to a curve.

use crate::derive::loss_curve::{WorkerLoss, curve};
use crate::derive::roll_up::CURVE;
use crate::sql::from_row::from_row;
use crate::sql::value::{float_of, int, uint};
use crate::{LossRow, StoreError};
use record::Nanos;
use sqlx::sqlite::SqliteConnection;
use std::collections::BTreeMap;

from_row! {
    struct LossColumns {
        attempt: i64,
        step: i64,
        samples: i64,
        at: i64,
        loss: Option<f64>,
        own_samples: i64,
    }
}

impl LossColumns {
    fn row(&self) -> WorkerLoss {
        WorkerLoss {
            step: uint(self.step),
            samples: uint(self.samples),
            at: Nanos(uint(self.at)),
            loss: float_of(self.loss),
            own_samples: uint(self.own_samples),
        }
    }
}

/// The curves of all attempts in a JSON list, in one query. It jumps from one chosen step to the next along the key
/// instead of reading all of them; the last step is always chosen. Of an attempt that has ended, the extremes between the
/// chosen steps are known, and shown too.
pub(crate) async fn losses_of(
    connection: &mut SqliteConnection,
    wanted: &str,
) -> Result<BTreeMap<i64, Vec<LossRow>>, StoreError> {
    let rows: Vec<LossColumns> = sqlx::query_as(
        "WITH RECURSIVE \
         wanted (attempt) AS (SELECT DISTINCT value FROM json_each(?1)), \
         last (attempt, step) AS (SELECT attempt, (SELECT max(step.step) FROM step \
          WHERE step.attempt = wanted.attempt AND step.lane = 0) FROM wanted), \
         chosen (attempt, step, stride) AS ( \
          SELECT attempt, step, max(1, (step + ?2 - 1) / ?2) FROM last WHERE step IS NOT NULL \
          UNION ALL SELECT attempt, step - stride, stride FROM chosen WHERE step - stride >= 1), \
         placed (attempt, step) AS (SELECT attempt, step FROM chosen UNION \
          SELECT attempt, step FROM wanted JOIN loss_extreme USING (attempt)) \
         SELECT step.attempt AS attempt, step.step AS step, samples, begin + length AS at, loss, own_samples \
         FROM placed CROSS JOIN step ON step.attempt = placed.attempt AND step.lane = 0 AND step.step = placed.step \
         WHERE own_samples > 0 AND (loss IS NOT NULL OR is_finite = 0) ORDER BY step.attempt, step.step, rank",
    )
    .bind(wanted)
    .bind(int(CURVE))
    .fetch_all(connection)
    .await?;
    let of_attempts = rows.chunk_by(|one, other| one.attempt == other.attempt);
    let of_attempt = |rows: &[LossColumns]| {
        let losses: Vec<WorkerLoss> = rows.iter().map(LossColumns::row).collect();
        Some((rows.first()?.attempt, curve(&losses)))
    };
    Ok(of_attempts.filter_map(of_attempt).collect())
}
