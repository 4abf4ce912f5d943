//! The events that workers report, inserted in batches: one transaction each, so that a batch is kept whole or not at all.

use crate::sql::document::to_json;
use crate::sql::insert::{Target, Values, insert};
use crate::sql::value::{encode_phases, float_columns, int, lane_code};
use crate::write::tally::Tally;
use crate::{AttemptId, Store, StoreError};
use record::{
    CodingRecord, EmulationRecord, Event, HostRecord, LinkRecord, MetricRecord, Overhead, Prepared, RankEnd,
    RankEnded, ScheduleRecord, SnapshotRecord, SpanRecord, StepRecord, UsageRecord, WeightHash,
};
use sqlx::sqlite::SqliteConnection;

impl Store {
    /// Records a batch of events, all of them or none. Events that occur once per gradient are stored as counts; the
    /// ids of samples stay in the event log only.
    ///
    /// # Errors
    /// [`StoreError::Database`] for a rank that the attempt does not have, or a step that was recorded before: a run
    /// whose events cannot be stored must fail rather than lose some of them.
    pub async fn record_events(&self, attempt: AttemptId, events: &[Event]) -> Result<(), StoreError> {
        if events.is_empty() {
            return Ok(());
        }
        let mut transaction = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        insert_events(&mut transaction, attempt, events).await?;
        transaction.commit().await?;
        Ok(())
    }
}

pub(crate) async fn insert_events(
    connection: &mut SqliteConnection,
    attempt: AttemptId,
    events: &[Event],
) -> Result<(), StoreError> {
    Batch::sorted(events).write(connection, attempt.0).await
}

/// Events by kind, in their order.
#[derive(Default)]
struct Batch<'a> {
    prepared: Vec<&'a Prepared>,
    steps: Vec<&'a StepRecord>,
    spans: Vec<&'a SpanRecord>,
    metrics: Vec<&'a MetricRecord>,
    hashes: Vec<&'a WeightHash>,
    snapshots: Vec<&'a SnapshotRecord>,
    links: Vec<&'a LinkRecord>,
    overheads: Vec<&'a Overhead>,
    emulations: Vec<&'a EmulationRecord>,
    codings: Vec<&'a CodingRecord>,
    usages: Vec<&'a UsageRecord>,
    schedules: Vec<&'a ScheduleRecord>,
    hosts: Vec<&'a HostRecord>,
    ended: Vec<&'a RankEnded>,
    tally: Tally,
}

impl<'a> Batch<'a> {
    fn sorted(events: &'a [Event]) -> Self {
        let mut batch = Self::default();
        for event in events {
            match event {
                Event::Prepared(event) => batch.prepared.push(event),
                Event::Step(event) => batch.steps.push(event),
                Event::Span(event) => batch.spans.push(event),
                Event::Metric(event) => batch.metrics.push(event),
                Event::WeightHash(event) => batch.hashes.push(event),
                Event::Snapshot(event) => batch.snapshots.push(event),
                Event::Link(event) => batch.links.push(event),
                Event::Overhead(event) => batch.overheads.push(event),
                Event::Emulation(event) => batch.emulations.push(event),
                Event::Coding(event) => batch.codings.push(event),
                Event::Usage(event) => batch.usages.push(event),
                Event::Schedule(event) => batch.schedules.push(event),
                Event::Host(event) => batch.hosts.push(event),
                Event::Ended(event) => batch.ended.push(event),
                Event::Update(event) => batch.tally.update(event),
                Event::Averaged(event) => batch.tally.averaged(event),
                // Samples are as large as the data set itself; they and checkpoints are read from the event log.
                Event::Samples(_)
                | Event::Lost(_)
                | Event::Gossip(_)
                | Event::Checkpoint(_)
                | Event::Struck(_) => {}
            }
        }
        batch
    }

    async fn write(&self, connection: &mut SqliteConnection, attempt: i64) -> Result<(), StoreError> {
        for event in &self.prepared {
            prepared(connection, attempt, event).await?;
        }
        insert(connection, STEP, &self.steps, |event, values| step(attempt, event, values)).await?;
        insert(connection, SPAN, &self.spans, |event, values| span(attempt, event, values)).await?;
        insert(connection, METRIC, &self.metrics, |event, values| metric(attempt, event, values)).await?;
        let judged: Vec<&MetricRecord> =
            self.metrics.iter().copied().filter(|metric| metric.judged).collect();
        insert(connection, LATEST, &judged, |event, values| latest(attempt, event, values)).await?;
        insert(connection, HASH, &self.hashes, |event, values| {
            values.add(attempt).add(event.rank.0).add(int(event.step)).add(&event.sha256);
        })
        .await?;
        insert(connection, SNAPSHOT, &self.snapshots, |event, values| snapshot(attempt, event, values))
            .await?;
        insert(connection, LINK, &self.links, |event, values| link(attempt, event, values)).await?;
        insert(connection, EMULATION, &self.emulations, |event, values| emulation(attempt, event, values))
            .await?;
        insert(connection, CODING, &self.codings, |event, values| coding(attempt, event, values)).await?;
        for event in &self.schedules {
            schedule(connection, attempt, event).await?;
        }
        insert(connection, HOST, &self.hosts, |event, values| host(attempt, event, values)).await?;
        self.tally.write(connection, attempt).await?;
        for event in &self.overheads {
            overhead(connection, attempt, event).await?;
        }
        for event in &self.usages {
            usage(connection, attempt, event).await?;
        }
        for event in &self.ended {
            ended(connection, attempt, event).await?;
        }
        Ok(())
    }
}

const STEP: Target = Target {
    head: "INSERT INTO step (attempt, lane, step, rank, begin, length, samples, own_samples, bytes_out, bytes_in, \
           loss, is_finite, rate, drain, phases, hidden)",
    tail: "",
};

fn step(attempt: i64, event: &StepRecord, values: &mut Values) {
    let loss = event.loss.map(|loss| float_columns(f64::from(loss)));
    values
        .add(attempt)
        .add(lane_code(event.lane))
        .add(int(event.step))
        .add(event.rank.0)
        .add(int(event.begin.0))
        .add(int(event.length.0))
        .add(int(event.samples))
        .add(event.own_samples)
        .add(int(event.bytes_out))
        .add(int(event.bytes_in))
        .add(loss.and_then(|(value, _)| value))
        .add(loss.is_none_or(|(_, finite)| finite))
        .add(event.rate.map(f64::from))
        .add(event.drain)
        .add(encode_phases(&event.phases))
        .add(int(event.hidden.0));
}

const SPAN: Target = Target {
    head: "INSERT INTO span (attempt, lane, step, rank, begin, length, phase, peer, bytes)",
    tail: "",
};

fn span(attempt: i64, event: &SpanRecord, values: &mut Values) {
    values
        .add(attempt)
        .add(lane_code(event.lane))
        .add(int(event.step))
        .add(event.rank.0)
        .add(int(event.begin.0))
        .add(int(event.length.0))
        .add(event.phase as i64)
        .add(event.peer.map(|peer| peer.0))
        .add(int(event.bytes));
}

/// A model may be evaluated twice, at an evaluation point and as the final one; the values are equal.
const METRIC: Target = Target {
    head: "INSERT INTO metric (attempt, name, model, step, samples, epoch, at, value, is_finite, judged)",
    tail: "ON CONFLICT (attempt, name, model, step) DO UPDATE SET samples = excluded.samples, \
           epoch = excluded.epoch, at = excluded.at, value = excluded.value, is_finite = excluded.is_finite, \
           judged = excluded.judged",
};

fn metric(attempt: i64, event: &MetricRecord, values: &mut Values) {
    let (value, finite) = float_columns(event.value);
    values
        .add(attempt)
        .add(event.metric.name())
        .add(&event.model)
        .add(int(event.step))
        .add(int(event.samples))
        .add(event.epoch)
        .add(int(event.at.0))
        .add(value)
        .add(finite)
        .add(event.judged);
}

/// Only of the models that runs are judged by. Evaluations may arrive out of order, because several run at once.
const LATEST: Target = Target {
    head: "INSERT INTO metric_latest (attempt, name, step, value, is_finite)",
    tail: "ON CONFLICT (attempt, name) DO UPDATE SET step = excluded.step, value = excluded.value, \
           is_finite = excluded.is_finite WHERE excluded.step >= metric_latest.step",
};

fn latest(attempt: i64, event: &MetricRecord, values: &mut Values) {
    let (value, finite) = float_columns(event.value);
    values.add(attempt).add(event.metric.name()).add(int(event.step)).add(value).add(finite);
}

/// The last step may be hashed at its evaluation and again at the end.
const HASH: Target = Target {
    head: "INSERT INTO weight_hash (attempt, rank, step, sha256)",
    tail: "ON CONFLICT (attempt, rank, step) DO UPDATE SET sha256 = excluded.sha256",
};

const SNAPSHOT: Target = Target {
    head: "INSERT INTO artifact (attempt, path, rank, model, step, samples, at, last, ended, kind, sha256)",
    tail: "ON CONFLICT (attempt, path) DO UPDATE SET last = max(last, excluded.last), ended = max(ended, excluded.ended)",
};

fn snapshot(attempt: i64, event: &SnapshotRecord, values: &mut Values) {
    values
        .add(attempt)
        .add(&event.file)
        .add(event.rank.0)
        .add(&event.model)
        .add(int(event.step))
        .add(int(event.samples))
        .add(int(event.at.0))
        .add(event.is_result())
        .add(event.last)
        .add("snapshot")
        .add((!event.sha256.is_empty()).then_some(&event.sha256));
}

/// A link's counts cover the whole run, so the last report replaces earlier ones.
const LINK: Target = Target {
    head: "INSERT INTO link (attempt, src, dst, bytes, messages)",
    tail: "ON CONFLICT (attempt, src, dst) DO UPDATE SET bytes = excluded.bytes, messages = excluded.messages",
};

fn link(attempt: i64, event: &LinkRecord, values: &mut Values) {
    values.add(attempt).add(event.from.0).add(event.to.0).add(int(event.bytes)).add(int(event.messages));
}

const EMULATION: Target = Target {
    head: "INSERT INTO emulation (attempt, rank, what, count, p50, p95, max, steps, overruns, longest)",
    tail: "",
};

fn emulation(attempt: i64, event: &EmulationRecord, values: &mut Values) {
    values
        .add(attempt)
        .add(event.rank.0)
        .add(event.what.name())
        .add(int(event.count))
        .add(int(event.p50.0))
        .add(int(event.p95.0))
        .add(int(event.max.0))
        .add(int(event.steps))
        .add(int(event.overruns))
        .add(int(event.longest.0));
}

async fn schedule(
    connection: &mut SqliteConnection,
    attempt: i64,
    event: &ScheduleRecord,
) -> Result<(), StoreError> {
    let statement = "INSERT INTO schedule (attempt, record) VALUES (?, ?) \
                     ON CONFLICT (attempt) DO UPDATE SET record = excluded.record";
    let record = to_json("schedule", event)?;
    sqlx::query(statement).bind(attempt).bind(record).execute(connection).await?;
    Ok(())
}

const CODING: Target = Target {
    head: "INSERT INTO coding (attempt, rank, lane, bytes, raw_bytes, squared, squared_error)",
    tail: "",
};

fn coding(attempt: i64, event: &CodingRecord, values: &mut Values) {
    values
        .add(attempt)
        .add(event.rank.0)
        .add(lane_code(event.lane))
        .add(int(event.bytes))
        .add(int(event.raw_bytes))
        .add(event.squared)
        .add(event.squared_error);
}

/// Two readings at the same moment are one.
const HOST: Target = Target {
    head: "INSERT INTO host (attempt, node, at, cores, busy, steal, own, cpu_pressure, memory_pressure, load, frequency, \
           governor, memory_available, clock_error)",
    tail: "ON CONFLICT (attempt, node, at) DO NOTHING",
};

fn host(attempt: i64, event: &HostRecord, values: &mut Values) {
    values
        .add(attempt)
        .add(event.node)
        .add(int(event.at.0))
        .add(event.cores)
        .add(int(event.busy.0))
        .add(int(event.steal.0))
        .add(int(event.own.0))
        .add(event.cpu_pressure.map(|time| int(time.0)))
        .add(event.memory_pressure.map(|time| int(time.0)))
        .add(event.load.filter(|load| load.is_finite()))
        .add(event.frequency)
        .add(event.governor.as_ref())
        .add(event.memory_available.map(int))
        .add(event.clock_error.map(|error| int(error.0)));
}

async fn prepared(
    connection: &mut SqliteConnection,
    attempt: i64,
    event: &Prepared,
) -> Result<(), StoreError> {
    let changed = sqlx::query(
        "UPDATE rank SET pid = ?, threads = ?, training_samples = ?, parameters = ?, data_digest = ?, \
         initial_weights = ?, resident_bytes = ?, replica_group = ? WHERE attempt = ? AND rank = ?",
    )
    .bind(event.pid)
    .bind(event.threads)
    .bind(int(event.training_samples))
    .bind(int(event.parameters))
    .bind(&event.data_digest)
    .bind(&event.weights)
    .bind(int(event.resident_bytes))
    .bind(event.replica_group)
    .bind(attempt)
    .bind(event.rank.0)
    .execute(connection)
    .await?;
    known_rank(changed.rows_affected(), event.rank)
}

async fn overhead(
    connection: &mut SqliteConnection,
    attempt: i64,
    event: &Overhead,
) -> Result<(), StoreError> {
    let changed = sqlx::query(
        "UPDATE rank SET recording = ?, wall = ?, resident_at_end = ? WHERE attempt = ? AND rank = ?",
    )
    .bind(int(event.recording.0))
    .bind(int(event.wall.0))
    .bind(Some(event.resident_bytes).filter(|bytes| *bytes > 0).map(int))
    .bind(attempt)
    .bind(event.rank.0)
    .execute(connection)
    .await?;
    known_rank(changed.rows_affected(), event.rank)
}

async fn usage(
    connection: &mut SqliteConnection,
    attempt: i64,
    event: &UsageRecord,
) -> Result<(), StoreError> {
    let changed = sqlx::query(
        "UPDATE rank SET held_weights = ?, held_gradients = ?, held_optimizer = ?, held_activations = ?, \
         exchanging = ?, exchanging_steps = ? WHERE attempt = ? AND rank = ?",
    )
    .bind(int(event.weights))
    .bind(int(event.gradients))
    .bind(int(event.optimizer))
    .bind(int(event.activations))
    .bind(int(event.exchanging.0))
    .bind(int(event.steps))
    .bind(attempt)
    .bind(event.rank.0)
    .execute(connection)
    .await?;
    known_rank(changed.rows_affected(), event.rank)
}

async fn ended(connection: &mut SqliteConnection, attempt: i64, event: &RankEnded) -> Result<(), StoreError> {
    let (kind, text) = end_in_words(&event.end);
    let changed = sqlx::query("UPDATE rank SET end_kind = ?, end_text = ? WHERE attempt = ? AND rank = ?")
        .bind(kind)
        .bind(text)
        .bind(attempt)
        .bind(event.rank.0)
        .execute(connection)
        .await?;
    known_rank(changed.rows_affected(), event.rank)
}

fn known_rank(changed: u64, rank: record::Rank) -> Result<(), StoreError> {
    if changed == 0 { Err(StoreError::Unknown { what: "rank", id: rank.to_string() }) } else { Ok(()) }
}

fn end_in_words(end: &RankEnd) -> (&'static str, String) {
    match end {
        RankEnd::Finished => ("finished", "finished".to_owned()),
        RankEnd::Stopped { step } => ("stopped", format!("stopped after step {step}")),
        RankEnd::Diverged { step, loss } => ("diverged", format!("diverged in step {step}: loss {loss}")),
        RankEnd::Failed { lane, step, phase, peer, reason } => {
            let peer = peer.map(|peer| format!(", waiting for rank {peer}")).unwrap_or_default();
            ("failed", format!("failed in step {step} of lane {lane}, phase {phase}{peer}: {reason}"))
        }
    }
}
