//! The transfers of an attempt: as they were kept, or from its spans.

use crate::derive::transfers::{LaneSpan, LaneStep, Transfers};
use crate::read::tables::Columns;
use crate::sql::from_row::from_row;
use crate::sql::value::uint;
use crate::{AttemptId, StoreError, TransferRow};
use record::{Nanos, Rank};
use sqlx::sqlite::SqliteConnection;

/// Spans fetched at once: a run may have millions.
const PAGE: i64 = 4096;

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

from_row! {
    struct SpanColumns {
        lane: i64,
        step: i64,
        rank: u32,
        begin: i64,
        phase: i64,
        peer: Option<u32>,
        bytes: i64,
        length: i64,
    }
}

impl SpanColumns {
    fn row(&self) -> LaneSpan {
        LaneSpan {
            of: LaneStep { lane: self.lane, step: self.step, rank: self.rank },
            phase: self.phase,
            peer: self.peer,
            bytes: uint(self.bytes),
            length: Nanos(uint(self.length)),
        }
    }
}

/// Derives the transfers of an attempt from its spans.
pub(crate) async fn transfers_of(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
) -> Result<Vec<TransferRow>, StoreError> {
    let ranks: u32 = sqlx::query_scalar("SELECT count(*) FROM rank WHERE attempt = ?")
        .bind(attempt.0)
        .fetch_one(&mut *connection)
        .await?;
    let mut transfers = Transfers::default();
    let mut after = [-1; 5];
    loop {
        // In the order of the key.
        let rows: Vec<SpanColumns> = sqlx::query_as(
            "SELECT lane, step, rank, begin, phase, peer, bytes, length FROM span WHERE attempt = ?1 \
             AND (lane, step, rank, begin, phase) > (?2, ?3, ?4, ?5, ?6) ORDER BY lane, step, rank, begin, phase LIMIT ?7",
        )
        .bind(attempt.0)
        .bind(after[0])
        .bind(after[1])
        .bind(after[2])
        .bind(after[3])
        .bind(after[4])
        .bind(PAGE)
        .fetch_all(&mut *connection)
        .await?;
        let Some(last) = rows.last() else { return Ok(transfers.rows(ranks)) };
        after = [last.lane, last.step, i64::from(last.rank), last.begin, last.phase];
        for row in &rows {
            transfers.add(row.row());
        }
    }
}
