//! Events that occur once per gradient are counted before they are inserted: a batch adds to the counts of earlier
//! batches, in the same transaction as its other events.

use crate::StoreError;
use crate::sql::insert::{Target, insert};
use crate::sql::value::int;
use record::{AveragedRecord, UpdateRecord};
use sqlx::sqlite::SqliteConnection;
use std::collections::BTreeMap;

/// The counts of a batch.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Number of gradients by server, worker and staleness.
    staleness: BTreeMap<(u32, u32, u64), u64>,
    /// Number of averagings by active rank and peer.
    averagings: BTreeMap<(u32, u32), u64>,
}

impl Tally {
    pub(crate) fn update(&mut self, event: &UpdateRecord) {
        *self.staleness.entry((event.rank.0, event.worker.0, event.staleness)).or_default() += 1;
    }

    pub(crate) fn averaged(&mut self, event: &AveragedRecord) {
        *self.averagings.entry((event.rank.0, event.peer.0)).or_default() += 1;
    }

    pub(crate) async fn write(
        &self,
        connection: &mut SqliteConnection,
        attempt: i64,
    ) -> Result<(), StoreError> {
        let staleness: Vec<_> = self.staleness.iter().collect();
        insert(connection, STALENESS, &staleness, |((server, worker, staleness), count), values| {
            values.add(attempt).add(*server).add(*worker).add(int(*staleness)).add(int(**count));
        })
        .await?;
        let averagings: Vec<_> = self.averagings.iter().collect();
        insert(connection, AVERAGING, &averagings, |((rank, peer), count), values| {
            values.add(attempt).add(*rank).add(*peer).add(int(**count));
        })
        .await
    }
}

const STALENESS: Target = Target {
    head: "INSERT INTO staleness (attempt, server, worker, staleness, count)",
    tail: "ON CONFLICT (attempt, server, worker, staleness) DO UPDATE SET count = count + excluded.count",
};

const AVERAGING: Target = Target {
    head: "INSERT INTO averaging (attempt, rank, peer, count)",
    tail: "ON CONFLICT (attempt, rank, peer) DO UPDATE SET count = count + excluded.count",
};
