//! Who sent how much to whom, and how fast it arrived.

use super::condition_title;
use crate::chart::{Figure, Key, Table, Tick, coordinate};
use crate::digits;
use crate::findings::Findings;
use crate::study::{self, Condition, Entry};
use recipe::Role;
use record::{LaneId, Phase};
use serde::Serialize;
use store::AttemptRow;

/// Matrices on one page.
const MOST_MATRICES: usize = 6;

/// Ranks up to which a matrix prints its numbers.
const NUMBERED_RANKS: usize = 10;

/// The section.
#[derive(Debug, Serialize)]
pub(crate) struct Communication {
    pub(crate) table: Vec<TrafficRow>,
    pub(crate) has_conditions: bool,
    pub(crate) matrices: Vec<Matrix>,
    pub(crate) note: String,
}

/// One arm under one condition.
#[derive(Debug, Serialize)]
pub(crate) struct TrafficRow {
    pub(crate) key: Key,
    pub(crate) condition: String,
    /// Per worker and step, encoded.
    pub(crate) sent: String,
    pub(crate) raw: String,
    pub(crate) ratio: String,
    /// What decoding does not give back, relative to what was encoded.
    pub(crate) error: String,
    pub(crate) total: String,
    pub(crate) messages: String,
    pub(crate) bandwidth: String,
    pub(crate) weights: String,
}

/// A rank x rank heat map.
#[derive(Debug, Serialize)]
pub(crate) struct Matrix {
    pub(crate) figure: Figure,
    pub(crate) arm: String,
    pub(crate) condition: String,
    pub(crate) size: String,
    pub(crate) cell: String,
    pub(crate) cells: Vec<MatrixCell>,
    pub(crate) columns: Vec<Tick>,
    pub(crate) rows: Vec<Tick>,
    pub(crate) grid: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct MatrixCell {
    pub(crate) x: String,
    pub(crate) y: String,
    /// How dark, from 0 to 1.
    pub(crate) weight: String,
    pub(crate) dark: bool,
    pub(crate) label: String,
    pub(crate) label_x: String,
    pub(crate) label_y: String,
    pub(crate) title: String,
}

impl Communication {
    pub(crate) fn of(findings: &Findings) -> Option<Self> {
        let study = &findings.study;
        let entries: Vec<(usize, &Condition, &Entry)> = study
            .conditions
            .iter()
            .enumerate()
            .flat_map(|(number, condition)| {
                condition.entries.iter().map(move |entry| (number, condition, entry))
            })
            .filter(|(_, _, entry)| entry.trials.iter().any(|trial| !trial.attempt.ranks.is_empty()))
            .collect();
        if entries.is_empty() {
            return None;
        }
        let row = |(_, condition, entry): &(usize, &Condition, &Entry)| {
            traffic(findings, &condition_title(condition), entry)
        };
        let table = entries.iter().map(row).collect();
        let mut matrices: Vec<Matrix> = entries
            .iter()
            .filter_map(|(number, condition, entry)| {
                let attempt = entry.median_trial(condition.measure())?.attempt;
                let id = format!("matrix-{number}-{}", entry.arm);
                matrix(&id, study.arm_name(entry.arm), &condition_title(condition), attempt)
            })
            .collect();
        let note = if matrices.len() > MOST_MATRICES {
            format!(
                "The first {MOST_MATRICES} of {} matrices are shown; the embedded data holds all.",
                matrices.len()
            )
        } else {
            String::new()
        };
        matrices.truncate(MOST_MATRICES);
        Some(Self { table, has_conditions: findings.has_conditions(), matrices, note })
    }
}

fn traffic(findings: &Findings, condition: &str, entry: &Entry) -> TrafficRow {
    let dash = || "–".to_owned();
    let sum = |value: fn(&store::LinkRow) -> u64| {
        entry.mean_of(move |attempt| {
            (!attempt.links.is_empty()).then(|| attempt.links.iter().map(|link| value(link) as f64).sum())
        })
    };
    let (wire, raw) = (sum(|link| link.bytes), sum(|link| link.raw_bytes));
    let linked = wire.zip(raw).filter(|(wire, _)| *wire > 0.0).map(|(wire, raw)| raw / wire);
    let raw_ratio = entry.mean_of(coded_ratio).or(linked);
    let sent = entry.mean_of(study::worker_bytes_per_step);
    TrafficRow {
        key: Key::of_arm(entry.arm, findings.study.arm_name(entry.arm)),
        condition: condition.to_owned(),
        sent: sent.map_or_else(dash, digits::bytes),
        raw: sent.zip(raw_ratio).map_or_else(dash, |(sent, ratio)| digits::bytes(sent * ratio)),
        ratio: raw_ratio.map_or_else(dash, digits::times),
        error: entry.mean_of(coding_error).map_or_else(dash, digits::percent),
        total: wire.map_or_else(dash, digits::bytes),
        messages: sum(|link| link.messages).map_or_else(dash, |count| digits::count(count.round() as u64)),
        bandwidth: entry.mean_of(bandwidth).map_or_else(dash, |rate| format!("{}/s", digits::bytes(rate))),
        weights: weights(entry),
    }
}

/// Bytes as 32-bit floats by bytes as they travelled, of everything that a codec had to do with.
fn coded_ratio(attempt: &AttemptRow) -> Option<f64> {
    let sum = |of: fn(&record::CodingRecord) -> u64| attempt.coding.iter().map(of).sum::<u64>() as f64;
    let bytes = sum(|coding| coding.bytes);
    (bytes > 0.0).then(|| sum(|coding| coding.raw_bytes) / bytes)
}

/// The length of what coding lost by the length of what was coded, over all ranks and lanes.
fn coding_error(attempt: &AttemptRow) -> Option<f64> {
    let sum = |of: fn(&record::CodingRecord) -> f64| attempt.coding.iter().map(of).sum::<f64>();
    let squared = sum(|coding| coding.squared);
    (squared > 0.0).then(|| (sum(|coding| coding.squared_error) / squared).sqrt())
}

/// Bytes that arrived at the workers during their steady steps, by the time in which bytes were moving.
fn bandwidth(attempt: &AttemptRow) -> Option<f64> {
    let workers = || attempt.ranks.iter().filter(|rank| rank.role == Role::Worker);
    let moving: f64 = workers()
        .flat_map(|rank| &rank.phases)
        .filter(|row| row.phase == Phase::Transfer && row.lane == LaneId::Compute)
        .map(|row| row.total.seconds())
        .sum();
    let steady = |rank: &store::RankRow| rank.steady.1 as f64 / attempt.steps.max(1) as f64;
    let arrived: f64 = workers().map(|rank| rank.bytes_in as f64 * steady(rank).min(1.0)).sum();
    (moving > 0.0 && arrived > 0.0).then(|| arrived / moving)
}

fn weights(entry: &Entry) -> String {
    let known: Vec<bool> =
        entry.trials.iter().filter_map(|trial| trial.attempt.weights.as_ref()).map(Result::is_ok).collect();
    match (known.len(), known.iter().filter(|agree| **agree).count()) {
        (0, _) => "–".to_owned(),
        (all, agree) if all == agree => "equal on all ranks".to_owned(),
        (all, agree) => format!("equal in {agree} of {all} runs"),
    }
}

fn matrix(id: &str, arm: &str, condition: &str, attempt: &AttemptRow) -> Option<Matrix> {
    let largest = attempt.links.iter().map(|link| link.bytes).max().filter(|bytes| *bytes > 0)? as f64;
    let ranks = attempt.links.iter().map(|link| link.from.index().max(link.to.index()) + 1).max()?;
    let ranks = ranks.max(attempt.ranks.len());
    let numbered = ranks <= NUMBERED_RANKS;
    let margin = 44.0;
    let cell =
        if numbered { (300.0 / ranks as f64).clamp(44.0, 64.0) } else { (360.0 / ranks as f64).max(4.0) };
    let at = |rank: usize| margin + cell * rank as f64;
    let stride = ranks.div_ceil(16).max(1);
    let place = |rank: usize| Tick { at: coordinate(at(rank) + cell / 2.0), label: rank.to_string() };
    let labels: Vec<Tick> = (0..ranks).step_by(stride).map(place).collect();
    let cells = attempt.links.iter().filter(|link| link.bytes > 0).map(|link| {
        let weight = link.bytes as f64 / largest;
        let (x, y) = (at(link.to.index()), at(link.from.index()));
        let amount = digits::bytes(link.bytes as f64);
        MatrixCell {
            x: coordinate(x),
            y: coordinate(y),
            weight: format!("{:.2}", 0.12 + 0.88 * weight),
            dark: weight > 0.5,
            label: if numbered { amount.clone() } else { String::new() },
            label_x: coordinate(x + cell / 2.0),
            label_y: coordinate(y + cell / 2.0 + 3.0),
            title: format!(
                "rank {} to rank {}: {amount} in {} messages",
                link.from,
                link.to,
                digits::count(link.messages)
            ),
        }
    });
    Some(Matrix {
        cells: cells.collect(),
        figure: Figure {
            id: id.to_owned(),
            title: format!("Bytes between ranks: {arm}, {condition}"),
            description: format!(
                "Heat map of the bytes sent between {ranks} ranks in the median run of {arm}."
            ),
            reading: String::new(),
            table: link_table(attempt),
        },
        arm: arm.to_owned(),
        condition: condition.to_owned(),
        size: coordinate(at(ranks) + 8.0),
        cell: coordinate(cell - 1.0),
        grid: coordinate(cell * ranks as f64),
        columns: labels.clone(),
        rows: labels,
    })
}

fn link_table(attempt: &AttemptRow) -> Table {
    let mut table = Table::new(["from", "to", "bytes", "before encoding", "messages"]);
    for link in &attempt.links {
        table.rows.push(vec![
            link.from.to_string(),
            link.to.to_string(),
            digits::bytes(link.bytes as f64),
            digits::bytes(link.raw_bytes as f64),
            digits::count(link.messages),
        ]);
    }
    table.cut(64);
    table
}
