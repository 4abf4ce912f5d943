//! The rows of other tables that belong to attempts: ranks, totals, evaluations, links, weights, one query per table.

use crate::derive::summary::RankSummary;
use crate::read::losses::losses_of;
use crate::read::tables::{
    AveragingColumns, BlockColumns, CodingColumns, Columns, EmulationColumns, HashColumns, HostColumns,
    LinkColumns, LostColumns, MetricColumns, PhaseColumns, ResultColumns, Rows, ScheduleColumns,
    StalenessColumns, rows,
};
use crate::read::transfers::TransferColumns;
use crate::sql::document::to_json;
use crate::sql::from_row::from_row;
use crate::sql::value::{lane_of_server, role_named, uint};
use crate::{
    AveragingRow, BlockRow, LinkRow, LossRow, LostRow, MetricRow, NodeRow, PaceRow, PhaseRow, RankRow,
    StalenessRow, Steady, StoreError, TransferRow, UsageRow,
};
use recipe::Role;
use record::{CodingRecord, EmulationRecord, HostRecord, Nanos, Rank, ScheduleRecord};
use sqlx::sqlite::SqliteConnection;
use std::collections::BTreeMap;

/// Rows that belong to attempts, by the row of the attempt.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) nodes: Vec<NodeRow>,
    /// Place in `nodes` of a node's row.
    places: BTreeMap<i64, u32>,
    ranks: Rows<RankColumns>,
    phases: BTreeMap<(i64, u32), Vec<PhaseRow>>,
    pub(crate) metrics: Rows<MetricRow>,
    pub(crate) beside: Rows<MetricRow>,
    pub(crate) links: Rows<LinkRow>,
    pub(crate) hashes: Rows<(u32, String)>,
    /// Digests of the models that the run is judged by at its end.
    pub(crate) results: Rows<String>,
    pub(crate) emulation: Rows<EmulationRecord>,
    pub(crate) coding: Rows<CodingRecord>,
    pub(crate) schedules: Rows<ScheduleRecord>,
    pub(crate) lost: Rows<LostRow>,
    pub(crate) staleness: Rows<StalenessRow>,
    pub(crate) averagings: Rows<AveragingRow>,
    pub(crate) transfers: Rows<TransferRow>,
    pub(crate) losses: Rows<LossRow>,
    pub(crate) hosts: Rows<HostRecord>,
    pub(crate) blocks: Rows<BlockRow>,
}

from_row! {
    struct RankColumns {
        attempt: i64,
        rank: u32,
        role: String,
        node: i64,
        threads: Option<u32>,
        end_text: Option<String>,
        resident_bytes: Option<i64>,
        recording: Option<i64>,
        wall: Option<i64>,
        exposed: Option<i64>,
        hidden: Option<i64>,
        steady: Option<i64>,
        steady_steps: Option<i64>,
        bytes_out: Option<i64>,
        bytes_in: Option<i64>,
        own: Option<i64>,
        last: Option<i64>,
        imposed: Option<i64>,
        held_weights: Option<i64>,
        held_gradients: Option<i64>,
        held_optimizer: Option<i64>,
        held_activations: Option<i64>,
        resident_at_end: Option<i64>,
        exchanging: Option<i64>,
        exchanging_steps: Option<i64>,
        replica_group: Option<u32>,
    }
}

/// `None` of servers, and in runs recorded before it was kept.
fn usage_of(row: &RankColumns) -> Option<UsageRow> {
    Some(UsageRow {
        weights: uint(row.held_weights?),
        gradients: uint(row.held_gradients?),
        optimizer: uint(row.held_optimizer?),
        activations: uint(row.held_activations?),
        resident: row.resident_at_end.map(uint),
        exchanging: Nanos(uint(row.exchanging?)),
        steps: uint(row.exchanging_steps?),
    })
}

impl Columns for RankColumns {
    type Key = i64;
    type Row = Self;
    const QUERY: &'static str = "SELECT attempt, rank, role, node, threads, end_text, resident_bytes, recording, wall, exposed, \
         hidden, steady, steady_steps, bytes_out, bytes_in, own, last, imposed, held_weights, held_gradients, \
         held_optimizer, held_activations, resident_at_end, exchanging, exchanging_steps, replica_group FROM rank \
         WHERE attempt IN (SELECT value FROM json_each(?)) ORDER BY attempt, rank";

    fn row(self) -> Result<(i64, Self), StoreError> {
        Ok((self.attempt, self))
    }
}

impl Parts {
    pub(crate) async fn load(
        connection: &mut SqliteConnection,
        attempts: &[i64],
    ) -> Result<Self, StoreError> {
        let wanted = to_json("list of attempts", &attempts)?;
        let mut parts = Self {
            links: rows::<LinkColumns>(connection, &wanted).await?,
            hashes: rows::<HashColumns>(connection, &wanted).await?,
            results: rows::<ResultColumns>(connection, &wanted).await?,
            emulation: rows::<EmulationColumns>(connection, &wanted).await?,
            coding: rows::<CodingColumns>(connection, &wanted).await?,
            schedules: rows::<ScheduleColumns>(connection, &wanted).await?,
            lost: rows::<LostColumns>(connection, &wanted).await?,
            staleness: rows::<StalenessColumns>(connection, &wanted).await?,
            averagings: rows::<AveragingColumns>(connection, &wanted).await?,
            transfers: rows::<TransferColumns>(connection, &wanted).await?,
            ranks: rows::<RankColumns>(connection, &wanted).await?,
            phases: rows::<PhaseColumns>(connection, &wanted).await?,
            losses: losses_of(connection, &wanted).await?,
            hosts: rows::<HostColumns>(connection, &wanted).await?,
            blocks: rows::<BlockColumns>(connection, &wanted).await?,
            ..Self::default()
        };
        for ((attempt, judged), evaluations) in rows::<MetricColumns>(connection, &wanted).await? {
            let of_attempt = if judged { &mut parts.metrics } else { &mut parts.beside };
            of_attempt.insert(attempt, evaluations);
        }
        parts.load_nodes(connection, &wanted).await?;
        Ok(parts)
    }

    async fn load_nodes(
        &mut self,
        connection: &mut SqliteConnection,
        wanted: &str,
    ) -> Result<(), StoreError> {
        let nodes: Vec<(i64, String, String, String, String, u32, i64)> = sqlx::query_as(
            "SELECT id, name, host, system, processor, cores, memory FROM node WHERE id IN \
             (SELECT node FROM rank WHERE attempt IN (SELECT value FROM json_each(?))) ORDER BY id",
        )
        .bind(wanted)
        .fetch_all(connection)
        .await?;
        for (place, (id, name, host, system, processor, cores, memory)) in (0_u32..).zip(nodes) {
            self.places.insert(id, place);
            self.nodes.push(NodeRow { name, host, system, processor, cores, memory: uint(memory) });
        }
        Ok(())
    }

    pub(crate) fn ranks_of(
        &self,
        attempt: i64,
        fresh: Option<&BTreeMap<Rank, RankSummary>>,
    ) -> Result<Vec<RankRow>, StoreError> {
        let rows = || self.ranks.get(&attempt).into_iter().flatten();
        let workers = rows().filter(|row| row.role == "worker").count();
        rows()
            .map(|row| {
                let summary = match fresh {
                    Some(ranks) => ranks.get(&Rank(row.rank)).cloned().unwrap_or_default(),
                    None => self.kept_summary(row),
                };
                let mut row = self.rank_row(row, summary)?;
                if row.role == Role::Server {
                    for phase in &mut row.phases {
                        phase.lane = lane_of_server(phase.lane, workers);
                    }
                }
                Ok(row)
            })
            .collect()
    }

    fn kept_summary(&self, row: &RankColumns) -> RankSummary {
        let number = |value: Option<i64>| value.map_or(0, uint);
        RankSummary {
            exposed: Nanos(number(row.exposed)),
            hidden: Nanos(number(row.hidden)),
            steady: Steady { time: Nanos(number(row.steady)), steps: number(row.steady_steps) },
            bytes_out: number(row.bytes_out),
            bytes_in: number(row.bytes_in),
            pace: row.own.map(|own| PaceRow {
                own: Nanos(uint(own)),
                last: number(row.last),
                imposed: Nanos(number(row.imposed)),
            }),
            phases: self.phases.get(&(row.attempt, row.rank)).cloned().unwrap_or_default(),
        }
    }

    fn rank_row(&self, row: &RankColumns, summary: RankSummary) -> Result<RankRow, StoreError> {
        let share = |recording: i64, wall: i64| (wall > 0).then(|| recording as f64 / wall as f64);
        let lost = self.lost.get(&row.attempt).into_iter().flatten().find(|lost| lost.rank.0 == row.rank);
        let silent = || match lost.map(|lost| lost.step) {
            None => "did not say".to_owned(),
            Some(0) => "lost".to_owned(),
            Some(step) => format!("lost in step {step}"),
        };
        Ok(RankRow {
            rank: Rank(row.rank),
            role: role_named(&row.role)?,
            node: self.places.get(&row.node).copied().unwrap_or(0),
            threads: row.threads.unwrap_or(0),
            end: row.end_text.clone().unwrap_or_else(silent),
            resident_bytes: row.resident_bytes.map_or(0, uint),
            replica_group: row.replica_group,
            usage: usage_of(row),
            recording_share: row.recording.zip(row.wall).and_then(|(recording, wall)| share(recording, wall)),
            phases: summary.phases,
            exposed: summary.exposed,
            hidden: summary.hidden,
            steady: summary.steady,
            pace: summary.pace,
            bytes_out: summary.bytes_out,
            bytes_in: summary.bytes_in,
        })
    }
}
