//! The tables whose rows belong to attempts: for each its query, its columns, and the row that they become.

use crate::sql::document::from_json;
use crate::sql::from_row::from_row;
use crate::sql::value::{float_of, lane_of, metric_named, phase_of, uint};
use crate::{AveragingRow, BlockRow, LinkRow, LostRow, MetricRow, PhaseRow, StalenessRow, StoreError};
use record::{CodingRecord, Emulated, EmulationRecord, HostRecord, Nanos, Rank, ScheduleRecord};
use sqlx::FromRow;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use std::collections::BTreeMap;

/// Rows of a table by the row of the attempt, in the order of the query.
pub(crate) type Rows<R> = BTreeMap<i64, Vec<R>>;

/// The columns of a table whose rows belong to attempts.
pub(crate) trait Columns: for<'r> FromRow<'r, SqliteRow> + Send + Unpin {
    /// An attempt, or a part of one.
    type Key: Ord;
    type Row;
    /// Selects the rows of the attempts in a JSON list, in order.
    const QUERY: &'static str;

    fn row(self) -> Result<(Self::Key, Self::Row), StoreError>;
}

/// The rows of the attempts in a JSON list.
pub(crate) async fn rows<C: Columns>(
    connection: &mut SqliteConnection,
    wanted: &str,
) -> Result<BTreeMap<C::Key, Vec<C::Row>>, StoreError> {
    let read: Vec<C> = sqlx::query_as(C::QUERY).bind(wanted).fetch_all(connection).await?;
    let mut groups: BTreeMap<C::Key, Vec<C::Row>> = BTreeMap::new();
    for columns in read {
        let (key, row) = columns.row()?;
        groups.entry(key).or_default().push(row);
    }
    Ok(groups)
}

from_row! {
    pub(crate) struct PhaseColumns {
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
}

impl Columns for PhaseColumns {
    type Key = (i64, u32);
    type Row = PhaseRow;
    const QUERY: &'static str = "SELECT attempt, rank, lane, phase, count, total, p50, p95, max FROM phase_total \
         WHERE attempt IN (SELECT value FROM json_each(?)) ORDER BY attempt, rank, lane, phase";

    fn row(self) -> Result<(Self::Key, Self::Row), StoreError> {
        let row = PhaseRow {
            lane: lane_of(self.lane)?,
            phase: phase_of(self.phase)?,
            count: uint(self.count),
            total: Nanos(uint(self.total)),
            p50: Nanos(uint(self.p50)),
            p95: Nanos(uint(self.p95)),
            max: Nanos(uint(self.max)),
        };
        Ok(((self.attempt, self.rank), row))
    }
}

from_row! {
    pub(crate) struct MetricColumns {
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
}

impl Columns for MetricColumns {
    type Key = (i64, bool);
    type Row = MetricRow;
    const QUERY: &'static str = "SELECT attempt, name, model, step, samples, epoch, at, value, judged FROM metric \
         WHERE attempt IN (SELECT value FROM json_each(?)) ORDER BY attempt, at, step, name, model";

    fn row(self) -> Result<(Self::Key, Self::Row), StoreError> {
        let row = MetricRow {
            metric: metric_named(&self.name)?,
            model: self.model,
            step: uint(self.step),
            samples: uint(self.samples),
            epoch: self.epoch,
            at: Nanos(uint(self.at)),
            value: float_of(self.value),
        };
        Ok(((self.attempt, self.judged), row))
    }
}

from_row! {
    pub(crate) struct LinkColumns {
        attempt: i64,
        src: u32,
        dst: u32,
        bytes: i64,
        messages: i64,
    }
}

impl Columns for LinkColumns {
    type Key = i64;
    type Row = LinkRow;
    const QUERY: &'static str = "SELECT attempt, src, dst, bytes, messages FROM link \
         WHERE attempt IN (SELECT value FROM json_each(?)) ORDER BY attempt, src, dst";

    fn row(self) -> Result<(Self::Key, Self::Row), StoreError> {
        let row = LinkRow {
            from: Rank(self.src),
            to: Rank(self.dst),
            bytes: uint(self.bytes),
            messages: uint(self.messages),
        };
        Ok((self.attempt, row))
    }
}

from_row! {
    /// The last digest of each rank: beside `max()`, SQLite takes the other columns from the row that has it.
    pub(crate) struct HashColumns {
        attempt: i64,
        rank: u32,
        sha256: String,
    }
}

impl Columns for HashColumns {
    type Key = i64;
    type Row = (u32, String);
    const QUERY: &'static str = "SELECT attempt, rank, sha256, max(step) FROM weight_hash \
         WHERE attempt IN (SELECT value FROM json_each(?)) GROUP BY attempt, rank ORDER BY attempt, rank";

    fn row(self) -> Result<(Self::Key, Self::Row), StoreError> {
        Ok((self.attempt, (self.rank, self.sha256)))
    }
}

from_row! {
    /// The digests of models that runs end with, where they were computed.
    pub(crate) struct ResultColumns {
        attempt: i64,
        sha256: String,
    }
}

impl Columns for ResultColumns {
    type Key = i64;
    type Row = String;
    const QUERY: &'static str = "SELECT attempt, sha256 FROM artifact WHERE last = 1 AND sha256 IS NOT NULL AND attempt IN \
         (SELECT value FROM json_each(?)) ORDER BY attempt, step";

    fn row(self) -> Result<(Self::Key, Self::Row), StoreError> {
        Ok((self.attempt, self.sha256))
    }
}

from_row! {
    pub(crate) struct EmulationColumns {
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
}

impl Columns for EmulationColumns {
    type Key = i64;
    type Row = EmulationRecord;
    const QUERY: &'static str = "SELECT attempt, rank, what, count, p50, p95, max, steps, overruns, longest FROM emulation \
         WHERE attempt IN (SELECT value FROM json_each(?)) ORDER BY attempt, rank, what";

    fn row(self) -> Result<(Self::Key, Self::Row), StoreError> {
        let kinds = [Emulated::Network, Emulated::Compute];
        let what = kinds.into_iter().find(|what| what.name() == self.what);
        let record = EmulationRecord {
            rank: Rank(self.rank),
            what: what.ok_or(StoreError::Value { what: "emulation", value: self.what })?,
            count: uint(self.count),
            p50: Nanos(uint(self.p50)),
            p95: Nanos(uint(self.p95)),
            max: Nanos(uint(self.max)),
            steps: uint(self.steps),
            overruns: uint(self.overruns),
            longest: Nanos(uint(self.longest)),
        };
        Ok((self.attempt, record))
    }
}

from_row! {
    pub(crate) struct CodingColumns {
        attempt: i64,
        rank: u32,
        lane: i64,
        bytes: i64,
        raw_bytes: i64,
        squared: f64,
        squared_error: f64,
    }
}

impl Columns for CodingColumns {
    type Key = i64;
    type Row = CodingRecord;
    const QUERY: &'static str = "SELECT attempt, rank, lane, bytes, raw_bytes, squared, squared_error FROM coding \
         WHERE attempt IN (SELECT value FROM json_each(?)) ORDER BY attempt, rank, lane";

    fn row(self) -> Result<(Self::Key, Self::Row), StoreError> {
        let record = CodingRecord {
            rank: Rank(self.rank),
            lane: lane_of(self.lane)?,
            bytes: uint(self.bytes),
            raw_bytes: uint(self.raw_bytes),
            squared: self.squared,
            squared_error: self.squared_error,
        };
        Ok((self.attempt, record))
    }
}

from_row! {
    pub(crate) struct ScheduleColumns {
        attempt: i64,
        record: String,
    }
}

impl Columns for ScheduleColumns {
    type Key = i64;
    type Row = ScheduleRecord;
    const QUERY: &'static str = "SELECT attempt, record FROM schedule WHERE attempt IN (SELECT value FROM json_each(?)) ORDER BY attempt";

    fn row(self) -> Result<(Self::Key, Self::Row), StoreError> {
        Ok((self.attempt, from_json("schedule", &self.record)?))
    }
}

from_row! {
    pub(crate) struct LostColumns {
        attempt: i64,
        rank: u32,
        step: i64,
        at: i64,
        reason: String,
    }
}

impl Columns for LostColumns {
    type Key = i64;
    type Row = LostRow;
    const QUERY: &'static str = "SELECT attempt, rank, step, at, reason FROM loss \
         WHERE attempt IN (SELECT value FROM json_each(?)) ORDER BY attempt, at, rank";

    fn row(self) -> Result<(Self::Key, Self::Row), StoreError> {
        let row = LostRow {
            rank: Rank(self.rank),
            step: uint(self.step),
            at: Nanos(uint(self.at)),
            reason: self.reason,
        };
        Ok((self.attempt, row))
    }
}

from_row! {
    pub(crate) struct StalenessColumns {
        attempt: i64,
        server: u32,
        worker: u32,
        staleness: i64,
        count: i64,
    }
}

impl Columns for StalenessColumns {
    type Key = i64;
    type Row = StalenessRow;
    const QUERY: &'static str = "SELECT attempt, server, worker, staleness, count FROM staleness \
         WHERE attempt IN (SELECT value FROM json_each(?)) ORDER BY attempt, server, worker, staleness";

    fn row(self) -> Result<(Self::Key, Self::Row), StoreError> {
        let row = StalenessRow {
            server: Rank(self.server),
            worker: Rank(self.worker),
            staleness: uint(self.staleness),
            count: uint(self.count),
        };
        Ok((self.attempt, row))
    }
}

from_row! {
    pub(crate) struct AveragingColumns {
        attempt: i64,
        rank: u32,
        peer: u32,
        count: i64,
    }
}

impl Columns for AveragingColumns {
    type Key = i64;
    type Row = AveragingRow;
    const QUERY: &'static str = "SELECT attempt, rank, peer, count FROM averaging \
         WHERE attempt IN (SELECT value FROM json_each(?)) ORDER BY attempt, rank, peer";

    fn row(self) -> Result<(Self::Key, Self::Row), StoreError> {
        let row = AveragingRow { rank: Rank(self.rank), peer: Rank(self.peer), count: uint(self.count) };
        Ok((self.attempt, row))
    }
}

from_row! {
    pub(crate) struct HostColumns {
        attempt: i64,
        node: u32,
        at: i64,
        cores: u32,
        busy: i64,
        steal: i64,
        own: i64,
        cpu_pressure: Option<i64>,
        memory_pressure: Option<i64>,
        load: Option<f64>,
        frequency: Option<u32>,
        governor: Option<String>,
        memory_available: Option<i64>,
        clock_error: Option<i64>,
    }
}

impl Columns for HostColumns {
    type Key = i64;
    type Row = HostRecord;
    const QUERY: &'static str = "SELECT attempt, node, at, cores, busy, steal, own, cpu_pressure, memory_pressure, load, \
         frequency, governor, memory_available, clock_error FROM host \
         WHERE attempt IN (SELECT value FROM json_each(?)) ORDER BY attempt, node, at";

    fn row(self) -> Result<(Self::Key, Self::Row), StoreError> {
        let time = |value: i64| Nanos(uint(value));
        let record = HostRecord {
            node: self.node,
            at: time(self.at),
            cores: self.cores,
            busy: time(self.busy),
            steal: time(self.steal),
            own: time(self.own),
            cpu_pressure: self.cpu_pressure.map(time),
            memory_pressure: self.memory_pressure.map(time),
            load: self.load,
            frequency: self.frequency,
            governor: self.governor,
            memory_available: self.memory_available.map(uint),
            clock_error: self.clock_error.map(time),
        };
        Ok((self.attempt, record))
    }
}

from_row! {
    pub(crate) struct BlockColumns {
        attempt: i64,
        steps: i64,
        length: i64,
    }
}

impl Columns for BlockColumns {
    type Key = i64;
    type Row = BlockRow;
    const QUERY: &'static str = "SELECT attempt, steps, length FROM block \
         WHERE attempt IN (SELECT value FROM json_each(?)) ORDER BY attempt, number";

    fn row(self) -> Result<(Self::Key, Self::Row), StoreError> {
        let row = BlockRow { steps: uint(self.steps), length: Nanos(uint(self.length)) };
        Ok((self.attempt, row))
    }
}
