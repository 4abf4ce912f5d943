//! The tables behind the page, one line per row.

use super::csv::Csv;
use crate::findings::Findings;
use crate::machine::load;
use comparison::study::Usage;
use std::collections::BTreeMap;
use store::{AttemptRow, MetricRow, RunRow, RunState};

const RUN_COLUMNS: [&str; 31] = [
    "run",
    "id",
    "arm",
    "condition",
    "repeat",
    "seed",
    "state",
    "reused",
    "attempt",
    "training_ns",
    "wall_ns",
    "step_time_ns",
    "mean_step_time_ns",
    "steps",
    "samples",
    "bytes_out",
    "target_ns",
    "target_samples",
    "weights_sha256",
    "detail",
    "ranks_lost",
    "started_unix_s",
    "other_processes_share",
    "hypervisor_share",
    "cpu_pressure_share",
    "memory_pressure_share",
    "load",
    "frequency_khz",
    "machines",
    "ranks",
    "machines_price_per_hour",
];

pub(super) fn runs(findings: &Findings) -> String {
    let mut csv = Csv::new(&RUN_COLUMNS);
    let hits = hits(findings);
    for run in &findings.rows().runs {
        let attempt = run.attempt.as_ref();
        let number = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
        let hit = hits.get(&run.index).copied();
        let plan = &findings.rows().plan;
        let usage =
            plan.cells.get(run.cell).map(|cell| Usage::of(&cell.spec, plan.report.prices.of(run.cell)));
        let weights = attempt.and_then(|a| a.weights.as_ref()).and_then(|weights| weights.as_ref().ok());
        csv.line(&[
            &run.index.to_string(),
            &run.id,
            arm(findings, run),
            condition(findings, run),
            &run.repeat.to_string(),
            &run.seed.to_string(),
            RunState::name(run.state),
            &run.reused.to_string(),
            &number(attempt.map(|a| u64::from(a.number))),
            &number(attempt.and_then(|a| a.training).map(|time| time.0)),
            &number(attempt.and_then(|a| a.wall).map(|time| time.0)),
            &number(attempt.and_then(|a| a.step_time).map(|time| time.0)),
            &number(attempt.and_then(|a| a.mean_step_time).map(|time| time.0)),
            &number(attempt.map(|a| a.steps)),
            &number(attempt.map(|a| a.samples)),
            &number(attempt.map(|a| a.ranks.iter().fold(0, |sum, rank| rank.bytes_out.saturating_add(sum)))),
            &number(hit.map(|row| row.at.0)),
            &number(hit.map(|row| row.samples)),
            weights.map_or("", String::as_str),
            attempt.map_or("", |a| &a.detail),
            &number(attempt.map(|a| a.lost.len() as u64)),
            &attempt.map(|a| a.started.to_string()).unwrap_or_default(),
            &most(attempt, |used| Some(used.others)),
            &most(attempt, |used| Some(used.steal)),
            &most(attempt, |used| used.cpu_pressure),
            &most(attempt, |used| used.memory_pressure),
            &most(attempt, |used| used.load),
            &most(attempt, |used| used.frequency),
            &number(usage.map(|usage| usage.machines as u64)),
            &number(usage.map(|usage| u64::from(usage.ranks))),
            &usage.and_then(|usage| usage.hour).map(|hour| hour.to_string()).unwrap_or_default(),
        ]);
    }
    csv.text
}

/// The largest value of the machines while the run's ranks trained; empty where it is not known.
fn most(attempt: Option<&AttemptRow>, of: fn(&record::HostUse) -> Option<f64>) -> String {
    let uses = attempt.map(load::uses).unwrap_or_default();
    uses.iter().filter_map(of).reduce(f64::max).map(|value| value.to_string()).unwrap_or_default()
}

/// The evaluation at which each run that reached its target did so, by index of the run.
fn hits<'f>(findings: &'f Findings) -> BTreeMap<usize, &'f MetricRow> {
    let judged = findings.study.arm_cells().flat_map(|placed| &placed.cell.runs);
    judged.filter_map(|judged| Some((judged.run.index, judged.hit?))).collect()
}

pub(super) fn metrics(findings: &Findings) -> String {
    let mut csv =
        Csv::new(&["run", "metric", "model", "step", "samples", "epoch", "at_ns", "value", "judged"]);
    for run in &findings.rows().runs {
        let number = run.index.to_string();
        let judged = run.attempt.iter().flat_map(|attempt| &attempt.metrics).map(|row| (row, "1"));
        let beside = run.attempt.iter().flat_map(|attempt| &attempt.beside).map(|row| (row, "0"));
        for (row, judged) in judged.chain(beside) {
            csv.line(&[
                &number,
                row.metric.name(),
                &row.model,
                &row.step.to_string(),
                &row.samples.to_string(),
                &row.epoch.to_string(),
                &row.at.0.to_string(),
                &row.value.to_string(),
                judged,
            ]);
        }
    }
    csv.text
}

pub(super) fn phases(findings: &Findings) -> String {
    let mut csv = Csv::new(&[
        "run", "rank", "role", "lane", "phase", "steps", "total_ns", "p50_ns", "p95_ns", "max_ns",
    ]);
    for run in &findings.rows().runs {
        let number = run.index.to_string();
        for rank in run.attempt.iter().flat_map(|attempt| &attempt.ranks) {
            for row in &rank.phases {
                csv.line(&[
                    &number,
                    &rank.rank.to_string(),
                    rank.role.name(),
                    &row.lane.to_string(),
                    row.phase.name(),
                    &row.count.to_string(),
                    &row.total.0.to_string(),
                    &row.p50.0.to_string(),
                    &row.p95.0.to_string(),
                    &row.max.0.to_string(),
                ]);
            }
        }
    }
    csv.text
}

pub(super) fn links(findings: &Findings) -> String {
    let mut csv = Csv::new(&["run", "from", "to", "bytes", "messages"]);
    for run in &findings.rows().runs {
        let number = run.index.to_string();
        for link in run.attempt.iter().flat_map(|attempt| &attempt.links) {
            csv.line(&[
                &number,
                &link.from.to_string(),
                &link.to.to_string(),
                &link.bytes.to_string(),
                &link.messages.to_string(),
            ]);
        }
    }
    csv.text
}

pub(super) fn paces(findings: &Findings) -> String {
    let mut csv = Csv::new(&[
        "run",
        "rank",
        "steady_steps",
        "steady_ns",
        "exposed_ns",
        "own_p50_ns",
        "rounds",
        "last",
        "imposed_ns",
    ]);
    for run in &findings.rows().runs {
        for (attempt, rank) in
            run.attempt.iter().flat_map(|attempt| attempt.ranks.iter().map(move |rank| (attempt, rank)))
        {
            let Some(pace) = rank.pace else { continue };
            csv.line(&[
                &run.index.to_string(),
                &rank.rank.to_string(),
                &rank.steady.steps.to_string(),
                &rank.steady.time.0.to_string(),
                &rank.exposed.0.to_string(),
                &pace.own.0.to_string(),
                &attempt.rounds.to_string(),
                &pace.last.to_string(),
                &pace.imposed.0.to_string(),
            ]);
        }
    }
    csv.text
}

pub(super) fn transfers(findings: &Findings) -> String {
    let mut csv = Csv::new(&["run", "from", "to", "bytes", "time_ns", "cut_bytes", "cut_time_ns"]);
    for run in &findings.rows().runs {
        for row in run.attempt.iter().flat_map(|attempt| &attempt.transfers) {
            csv.line(&[
                &run.index.to_string(),
                &row.from.to_string(),
                &row.to.to_string(),
                &row.bytes.to_string(),
                &row.time.0.to_string(),
                &row.cut_bytes.to_string(),
                &row.cut_time.0.to_string(),
            ]);
        }
    }
    csv.text
}

pub(super) fn staleness(findings: &Findings) -> String {
    let mut csv = Csv::new(&["run", "server", "worker", "staleness", "gradients"]);
    for run in &findings.rows().runs {
        for row in run.attempt.iter().flat_map(|attempt| &attempt.staleness) {
            csv.line(&[
                &run.index.to_string(),
                &row.server.to_string(),
                &row.worker.to_string(),
                &row.staleness.to_string(),
                &row.count.to_string(),
            ]);
        }
    }
    csv.text
}

pub(super) fn averagings(findings: &Findings) -> String {
    let mut csv = Csv::new(&["run", "rank", "peer", "averagings"]);
    for run in &findings.rows().runs {
        for row in run.attempt.iter().flat_map(|attempt| &attempt.averagings) {
            csv.line(&[
                &run.index.to_string(),
                &row.rank.to_string(),
                &row.peer.to_string(),
                &row.count.to_string(),
            ]);
        }
    }
    csv.text
}

fn arm<'a>(findings: &Findings<'a>, run: &RunRow) -> &'a str {
    findings.rows().plan.cells.get(run.cell).map_or("", |cell| findings.study.arm_name(cell.arm))
}

fn condition<'a>(findings: &Findings<'a>, run: &RunRow) -> &'a str {
    findings.rows().plan.cells.get(run.cell).map_or("", |cell| &cell.condition)
}
