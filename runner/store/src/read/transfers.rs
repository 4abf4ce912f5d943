//! Throughput between any two ranks, from the steps whose spans are kept.
//!
//! A receiver sees a whole transfer only if it was already waiting when the message began to arrive: then the span before
//! the transfer's is a wait for the same peer. Otherwise it sees the rest of the transfer, or almost nothing of a message
//! that had already arrived; such transfers are counted separately, because their time is only a lower bound. Messages
//! below 1 KiB do not count: their time is not that of their bytes.

use crate::read::tables::Columns;
use crate::sql::from_row::from_row;
use crate::sql::value::uint;
use crate::{AttemptId, StoreError, TransferRow};
use record::{Nanos, Phase, Rank};
use sqlx::sqlite::SqliteConnection;

/// Smaller messages do not count.
const FEWEST_BYTES: i64 = 1024;

from_row! {
    pub(crate) struct TransferColumns {
        attempt: i64,
        src: u32,
        dst: u32,
        bytes: i64,
        time: i64,
        cut_bytes: i64,
        cut_time: i64,
    }
}

impl Columns for TransferColumns {
    type Key = i64;
    type Row = TransferRow;
    const QUERY: &'static str = "SELECT attempt, src, dst, bytes, time, cut_bytes, cut_time FROM transfer \
         WHERE attempt IN (SELECT value FROM json_each(?)) ORDER BY attempt, src, dst";

    fn row(self) -> Result<(i64, TransferRow), StoreError> {
        let row = TransferRow {
            from: Rank(self.src),
            to: Rank(self.dst),
            bytes: uint(self.bytes),
            time: Nanos(uint(self.time)),
            cut_bytes: uint(self.cut_bytes),
            cut_time: Nanos(uint(self.cut_time)),
        };
        Ok((self.attempt, row))
    }
}

/// Derives the transfers of an attempt from its spans.
pub(crate) async fn transfers_of(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
) -> Result<Vec<TransferRow>, StoreError> {
    // The spans of a step lie one after the other along the key.
    let rows: Vec<TransferColumns> = sqlx::query_as(
        "SELECT ?1 AS attempt, peer AS src, rank AS dst, sum(iif(whole, bytes, 0)) AS bytes, \
         sum(iif(whole, length, 0)) AS time, sum(iif(whole, 0, bytes)) AS cut_bytes, \
         sum(iif(whole, 0, length)) AS cut_time FROM \
         (SELECT phase, peer, rank, bytes, length, \
          coalesce(lag(phase) OVER lane_of_step = ?2 AND lag(peer) OVER lane_of_step = peer, 0) AS whole \
          FROM span WHERE attempt = ?1 WINDOW lane_of_step AS (PARTITION BY lane, step, rank ORDER BY begin, phase)) \
         WHERE phase = ?3 AND bytes >= ?4 AND peer IN (SELECT rank FROM rank WHERE attempt = ?1) \
         GROUP BY peer, rank ORDER BY peer, rank",
    )
    .bind(attempt.0)
    .bind(Phase::WaitPeer as i64)
    .bind(Phase::Transfer as i64)
    .bind(FEWEST_BYTES)
    .fetch_all(connection)
    .await?;
    rows.into_iter().map(|columns| Ok(columns.row()?.1)).collect()
}
