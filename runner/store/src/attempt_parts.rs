//! What the attempts of a sweep have beside their own row: ranks, totals, evaluations, links, weights.

use crate::summary::RankSummary;
use crate::value::{float_of, lane_of, phase_of, uint};
use crate::{
    AveragingRow, LinkRow, LostRow, MetricRow, NodeRow, PaceRow, PhaseRow, RankRow, StalenessRow, StoreError,
    TransferRow, transfers,
};
use recipe::{Metric, Role};
use record::{CodingRecord, Emulated, EmulationRecord, Nanos, Rank};
use sqlx::sqlite::SqliteConnection;
use std::collections::BTreeMap;

/// What the attempts of a sweep have beside their own row, by attempt.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) nodes: Vec<NodeRow>,
    /// Place in `nodes` of a node's row.
    places: BTreeMap<i64, u32>,
    ranks: BTreeMap<i64, Vec<RankColumns>>,
    phases: BTreeMap<(i64, u32), Vec<PhaseRow>>,
    pub(crate) metrics: BTreeMap<i64, Vec<MetricRow>>,
    pub(crate) beside: BTreeMap<i64, Vec<MetricRow>>,
    pub(crate) links: BTreeMap<i64, Vec<LinkRow>>,
    pub(crate) hashes: BTreeMap<i64, Vec<(u32, String)>>,
    pub(crate) emulation: BTreeMap<i64, Vec<EmulationRecord>>,
    pub(crate) coding: BTreeMap<i64, Vec<CodingRecord>>,
    pub(crate) lost: BTreeMap<i64, Vec<LostRow>>,
    pub(crate) staleness: BTreeMap<i64, Vec<StalenessRow>>,
    pub(crate) averagings: BTreeMap<i64, Vec<AveragingRow>>,
    pub(crate) transfers: BTreeMap<i64, Vec<TransferRow>>,
}

#[derive(sqlx::FromRow)]
struct CodingColumns {
    attempt: i64,
    rank: u32,
    lane: i64,
    bytes: i64,
    raw_bytes: i64,
    squared: f64,
    squared_error: f64,
}

impl CodingColumns {
    fn record(self) -> Result<CodingRecord, StoreError> {
        Ok(CodingRecord {
            rank: Rank(self.rank),
            lane: lane_of(self.lane)?,
            bytes: uint(self.bytes),
            raw_bytes: uint(self.raw_bytes),
            squared: self.squared,
            squared_error: self.squared_error,
        })
    }
}

#[derive(sqlx::FromRow)]
struct EmulationColumns {
    attempt: i64,
    rank: u32,
    what: String,
    count: i64,
    p50: i64,
    p95: i64,
    max: i64,
    steps: i64,
    overruns: i64,
    longest: i64,
}

impl EmulationColumns {
    fn record(self) -> Result<EmulationRecord, StoreError> {
        let kinds = [Emulated::Network, Emulated::Compute];
        let what = kinds.into_iter().find(|what| what.name() == self.what);
        Ok(EmulationRecord {
            rank: Rank(self.rank),
            what: what.ok_or(StoreError::Value { what: "emulation", value: self.what })?,
            count: uint(self.count),
            p50: Nanos(uint(self.p50)),
            p95: Nanos(uint(self.p95)),
            max: Nanos(uint(self.max)),
            steps: uint(self.steps),
            overruns: uint(self.overruns),
            longest: Nanos(uint(self.longest)),
        })
    }
}

#[derive(sqlx::FromRow)]
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
}

#[derive(sqlx::FromRow)]
struct PhaseColumns {
    attempt: i64,
    rank: u32,
    lane: i64,
    phase: i64,
    count: i64,
    total: i64,
    p50: i64,
    p95: i64,
    max: i64,
}

impl PhaseColumns {
    fn phase_row(self) -> Result<PhaseRow, StoreError> {
        Ok(PhaseRow {
            lane: lane_of(self.lane)?,
            phase: phase_of(self.phase)?,
            count: uint(self.count),
            total: Nanos(uint(self.total)),
            p50: Nanos(uint(self.p50)),
            p95: Nanos(uint(self.p95)),
            max: Nanos(uint(self.max)),
        })
    }
}

#[derive(sqlx::FromRow)]
struct MetricColumns {
    attempt: i64,
    name: String,
    model: String,
    step: i64,
    samples: i64,
    epoch: f64,
    at: i64,
    value: Option<f64>,
    judged: bool,
}

impl MetricColumns {
    fn metric_row(self) -> Result<MetricRow, StoreError> {
        Ok(MetricRow {
            metric: metric_named(&self.name)?,
            model: self.model,
            step: uint(self.step),
            samples: uint(self.samples),
            epoch: self.epoch,
            at: Nanos(uint(self.at)),
            value: float_of(self.value),
        })
    }
}

impl Parts {
    pub(crate) async fn load(
        connection: &mut SqliteConnection,
        attempts: &[i64],
    ) -> Result<Self, StoreError> {
        let wanted = crate::sweep::json("list of attempts", &attempts)?;
        let mut parts = Self::default();
        parts.load_ranks(connection, &wanted).await?;
        parts.load_phases(connection, &wanted).await?;
        parts.load_metrics(connection, &wanted).await?;
        parts.load_links(connection, &wanted).await?;
        parts.load_hashes(connection, &wanted).await?;
        parts.load_emulation(connection, &wanted).await?;
        parts.load_coding(connection, &wanted).await?;
        parts.load_lost(connection, &wanted).await?;
        parts.load_staleness(connection, &wanted).await?;
        parts.load_averagings(connection, &wanted).await?;
        for (attempt, row) in transfers::load(connection, &wanted).await? {
            parts.transfers.entry(attempt).or_default().push(row);
        }
        Ok(parts)
    }

    async fn load_ranks(
        &mut self,
        connection: &mut SqliteConnection,
        wanted: &str,
    ) -> Result<(), StoreError> {
        let rows: Vec<RankColumns> = sqlx::query_as(
            "SELECT attempt, rank, role, node, threads, end_text, resident_bytes, recording, wall, exposed, hidden, \
             steady, steady_steps, bytes_out, bytes_in, own, last, imposed FROM rank WHERE attempt IN (SELECT value FROM json_each(?)) \
             ORDER BY attempt, rank",
        )
        .bind(wanted)
        .fetch_all(&mut *connection)
        .await?;
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
        for row in rows {
            self.ranks.entry(row.attempt).or_default().push(row);
        }
        Ok(())
    }

    async fn load_phases(
        &mut self,
        connection: &mut SqliteConnection,
        wanted: &str,
    ) -> Result<(), StoreError> {
        let rows: Vec<PhaseColumns> = sqlx::query_as(
            "SELECT attempt, rank, lane, phase, count, total, p50, p95, max FROM phase_total \
             WHERE attempt IN (SELECT value FROM json_each(?)) ORDER BY attempt, rank, lane, phase",
        )
        .bind(wanted)
        .fetch_all(connection)
        .await?;
        for row in rows {
            self.phases.entry((row.attempt, row.rank)).or_default().push(row.phase_row()?);
        }
        Ok(())
    }

    async fn load_metrics(
        &mut self,
        connection: &mut SqliteConnection,
        wanted: &str,
    ) -> Result<(), StoreError> {
        let rows: Vec<MetricColumns> = sqlx::query_as(
            "SELECT attempt, name, model, step, samples, epoch, at, value, judged FROM metric \
             WHERE attempt IN (SELECT value FROM json_each(?)) ORDER BY attempt, at, step, name, model",
        )
        .bind(wanted)
        .fetch_all(connection)
        .await?;
        for row in rows {
            let rows = if row.judged { &mut self.metrics } else { &mut self.beside };
            rows.entry(row.attempt).or_default().push(row.metric_row()?);
        }
        Ok(())
    }

    async fn load_links(
        &mut self,
        connection: &mut SqliteConnection,
        wanted: &str,
    ) -> Result<(), StoreError> {
        let rows: Vec<(i64, u32, u32, i64, i64, i64)> = sqlx::query_as(
            "SELECT attempt, src, dst, bytes, raw_bytes, messages FROM link \
             WHERE attempt IN (SELECT value FROM json_each(?)) ORDER BY attempt, src, dst",
        )
        .bind(wanted)
        .fetch_all(connection)
        .await?;
        for (attempt, from, to, bytes, raw_bytes, messages) in rows {
            self.links.entry(attempt).or_default().push(LinkRow {
                from: Rank(from),
                to: Rank(to),
                bytes: uint(bytes),
                raw_bytes: uint(raw_bytes),
                messages: uint(messages),
            });
        }
        Ok(())
    }

    async fn load_hashes(
        &mut self,
        connection: &mut SqliteConnection,
        wanted: &str,
    ) -> Result<(), StoreError> {
        let rows: Vec<(i64, u32, String, i64)> = sqlx::query_as(
            "SELECT attempt, rank, sha256, max(step) FROM weight_hash \
             WHERE attempt IN (SELECT value FROM json_each(?)) GROUP BY attempt, rank ORDER BY attempt, rank",
        )
        .bind(wanted)
        .fetch_all(connection)
        .await?;
        for (attempt, rank, sha256, _) in rows {
            self.hashes.entry(attempt).or_default().push((rank, sha256));
        }
        Ok(())
    }

    async fn load_emulation(
        &mut self,
        connection: &mut SqliteConnection,
        wanted: &str,
    ) -> Result<(), StoreError> {
        let rows: Vec<EmulationColumns> = sqlx::query_as(
            "SELECT attempt, rank, what, count, p50, p95, max, steps, overruns, longest FROM emulation \
             WHERE attempt IN (SELECT value FROM json_each(?)) ORDER BY attempt, rank, what",
        )
        .bind(wanted)
        .fetch_all(connection)
        .await?;
        for row in rows {
            self.emulation.entry(row.attempt).or_default().push(row.record()?);
        }
        Ok(())
    }

    async fn load_coding(
        &mut self,
        connection: &mut SqliteConnection,
        wanted: &str,
    ) -> Result<(), StoreError> {
        let rows: Vec<CodingColumns> = sqlx::query_as(
            "SELECT attempt, rank, lane, bytes, raw_bytes, squared, squared_error FROM coding \
             WHERE attempt IN (SELECT value FROM json_each(?)) ORDER BY attempt, rank, lane",
        )
        .bind(wanted)
        .fetch_all(connection)
        .await?;
        for row in rows {
            self.coding.entry(row.attempt).or_default().push(row.record()?);
        }
        Ok(())
    }

    async fn load_lost(&mut self, connection: &mut SqliteConnection, wanted: &str) -> Result<(), StoreError> {
        let rows: Vec<(i64, u32, i64, i64, String)> = sqlx::query_as(
            "SELECT attempt, rank, step, at, reason FROM loss \
             WHERE attempt IN (SELECT value FROM json_each(?)) ORDER BY attempt, at, rank",
        )
        .bind(wanted)
        .fetch_all(connection)
        .await?;
        for (attempt, rank, step, at, reason) in rows {
            let row = LostRow { rank: Rank(rank), step: uint(step), at: Nanos(uint(at)), reason };
            self.lost.entry(attempt).or_default().push(row);
        }
        Ok(())
    }

    async fn load_staleness(
        &mut self,
        connection: &mut SqliteConnection,
        wanted: &str,
    ) -> Result<(), StoreError> {
        let rows: Vec<(i64, u32, u32, i64, i64)> = sqlx::query_as(
            "SELECT attempt, server, worker, staleness, count FROM staleness \
             WHERE attempt IN (SELECT value FROM json_each(?)) ORDER BY attempt, server, worker, staleness",
        )
        .bind(wanted)
        .fetch_all(connection)
        .await?;
        for (attempt, server, worker, staleness, count) in rows {
            let (server, worker) = (Rank(server), Rank(worker));
            let row = StalenessRow { server, worker, staleness: uint(staleness), count: uint(count) };
            self.staleness.entry(attempt).or_default().push(row);
        }
        Ok(())
    }

    async fn load_averagings(
        &mut self,
        connection: &mut SqliteConnection,
        wanted: &str,
    ) -> Result<(), StoreError> {
        let rows: Vec<(i64, u32, u32, i64)> = sqlx::query_as(
            "SELECT attempt, rank, peer, count FROM averaging \
             WHERE attempt IN (SELECT value FROM json_each(?)) ORDER BY attempt, rank, peer",
        )
        .bind(wanted)
        .fetch_all(connection)
        .await?;
        for (attempt, rank, peer, count) in rows {
            let row = AveragingRow { rank: Rank(rank), peer: Rank(peer), count: uint(count) };
            self.averagings.entry(attempt).or_default().push(row);
        }
        Ok(())
    }

    pub(crate) fn ranks_of(
        &self,
        attempt: i64,
        fresh: Option<&BTreeMap<Rank, RankSummary>>,
    ) -> Result<Vec<RankRow>, StoreError> {
        let rows = self.ranks.get(&attempt).into_iter().flatten();
        rows.map(|row| {
            let summary = match fresh {
                Some(ranks) => ranks.get(&Rank(row.rank)).cloned().unwrap_or_default(),
                None => self.kept_summary(row),
            };
            self.rank_row(row, summary)
        })
        .collect()
    }

    fn kept_summary(&self, row: &RankColumns) -> RankSummary {
        let number = |value: Option<i64>| value.map_or(0, uint);
        RankSummary {
            exposed: Nanos(number(row.exposed)),
            hidden: Nanos(number(row.hidden)),
            steady: (Nanos(number(row.steady)), number(row.steady_steps)),
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
        let silent =
            || lost.map_or_else(|| "did not say".to_owned(), |lost| format!("lost in step {}", lost.step));
        Ok(RankRow {
            rank: Rank(row.rank),
            role: role_named(&row.role)?,
            node: self.places.get(&row.node).copied().unwrap_or(0),
            threads: row.threads.unwrap_or(0),
            end: row.end_text.clone().unwrap_or_else(silent),
            resident_bytes: row.resident_bytes.map_or(0, uint),
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

/// The metric of that name.
pub(crate) fn metric_named(name: &str) -> Result<Metric, StoreError> {
    Metric::ALL
        .into_iter()
        .find(|metric| metric.name() == name)
        .ok_or_else(|| StoreError::Value { what: "metric", value: name.to_owned() })
}

fn role_named(name: &str) -> Result<Role, StoreError> {
    [Role::Worker, Role::Server]
        .into_iter()
        .find(|role| role.name() == name)
        .ok_or_else(|| StoreError::Value { what: "role", value: name.to_owned() })
}
