//! Traffic between ranks: bytes, compression, bandwidth, exposed and hidden communication.

use super::condition_title;
use super::described;
use super::folding;
use super::rank_matrix::{self, Matrix, Passed, Words};
use crate::chart::{Figure, Key, Table};
use crate::findings::Findings;
use crate::number_format;
use crate::phase_shares::{self, StepShares};
use comparison::study::{ArmCell, EqualWeights, PlacedCell};
use recipe::Role;
use record::Phase;
use serde::Serialize;
use store::{AttemptRow, LinkRow};

/// Matrices on one page.
const MOST_MATRICES: usize = 6;

#[derive(Debug, Serialize)]
pub(crate) struct Communication {
    pub(crate) table: Vec<TrafficRow>,
    pub(crate) has_conditions: bool,
    pub(crate) matrices: Vec<Matrix>,
    /// Rows and matrices that are not shown; empty where all are.
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
    /// Norm of the error relative to the norm of the encoded vectors.
    pub(crate) error: String,
    pub(crate) total: String,
    pub(crate) messages: String,
    pub(crate) bandwidth: String,
    /// Communication per step while the compute lane did not compute.
    pub(crate) exposed: String,
    /// Communication per step while it did.
    pub(crate) hidden: String,
    /// Share of all communication that is hidden.
    pub(crate) hidden_share: String,
    pub(crate) weights: String,
}

impl Communication {
    pub(crate) fn of(findings: &Findings) -> Option<Self> {
        let study = &findings.study;
        let cells: Vec<PlacedCell> = study
            .arm_cells()
            .filter(|placed| placed.cell.runs.iter().any(|judged| !judged.attempt.ranks.is_empty()))
            .collect();
        if cells.is_empty() {
            return None;
        }
        let listed = cells.iter().filter(|placed| placed.number < folding::listed(findings));
        let row = |placed: &PlacedCell| traffic(findings, &condition_title(placed.condition), placed.cell);
        let (matrices, left_out) = matrices(findings, &cells);
        let notes = [folding::listed_note(findings, "rows in the table of traffic"), left_out];
        Some(Self {
            table: listed.map(row).collect(),
            has_conditions: findings.has_conditions(),
            matrices,
            note: notes.into_iter().flatten().collect::<Vec<_>>().join(" "),
        })
    }
}

/// The first matrices, and a note on those that are not shown.
fn matrices(findings: &Findings, cells: &[PlacedCell]) -> (Vec<Matrix>, Option<String>) {
    let sending = |placed: &&PlacedCell| {
        let run = placed.cell.median_run(placed.condition.measure());
        run.is_some_and(|judged| judged.attempt.links.iter().any(|link| link.bytes > 0))
    };
    let all = cells.iter().filter(sending).count();
    let drawn = |PlacedCell { number, condition, cell }: &PlacedCell| {
        let attempt = cell.median_run(condition.measure())?.attempt;
        let id = format!("matrix-{number}-{}", cell.arm);
        matrix(&id, findings.study.arm_name(cell.arm), &condition_title(condition), attempt)
    };
    let note = (all > MOST_MATRICES)
        .then(|| format!("The first {MOST_MATRICES} of {all} matrices are shown; the CSV files hold all."));
    (cells.iter().filter_map(drawn).take(MOST_MATRICES).collect(), note)
}

fn traffic(findings: &Findings, condition: &str, cell: &ArmCell) -> TrafficRow {
    let dash = || "–".to_owned();
    let sum = |value: fn(&store::LinkRow) -> u64| {
        cell.mean_of(move |attempt| {
            (!attempt.links.is_empty()).then(|| attempt.links.iter().map(|link| value(link) as f64).sum())
        })
    };
    let wire = sum(|link| link.bytes);
    // Vectors without a codec travel unencoded.
    let raw_ratio = cell.mean_of(coded_ratio).or(wire.filter(|wire| *wire > 0.0).map(|_| 1.0));
    let sent = cell.mean_of(|attempt| cell.worker_bytes_per_step(attempt));
    let steps = phase_shares::mean(cell, phase_shares::workers);
    let exposed = steps.as_ref().and_then(|steps| steps.exposed);
    let hidden = steps.as_ref().and_then(|steps| steps.hidden);
    TrafficRow {
        key: Key::of_arm(cell.arm, findings.study.arm_name(cell.arm)),
        condition: condition.to_owned(),
        sent: sent.map_or_else(dash, number_format::bytes),
        raw: sent.zip(raw_ratio).map_or_else(dash, |(sent, ratio)| number_format::bytes(sent * ratio)),
        ratio: raw_ratio.map_or_else(dash, number_format::times),
        error: cell.mean_of(coding_error).map_or_else(dash, number_format::percent),
        total: wire.map_or_else(dash, number_format::bytes),
        messages: sum(|link| link.messages)
            .map_or_else(dash, |count| number_format::count(count.round() as u64)),
        bandwidth: cell
            .mean_of(bandwidth)
            .map_or_else(dash, |rate| format!("{}/s", number_format::bytes(rate))),
        exposed: exposed.map_or_else(dash, number_format::seconds),
        hidden: hidden.map_or_else(dash, number_format::seconds),
        hidden_share: steps
            .as_ref()
            .and_then(StepShares::hidden_share)
            .map_or_else(dash, number_format::percent),
        weights: weights(cell),
    }
}

/// Bytes as 32-bit floats divided by bytes on the wire, of everything that workers sent through a codec.
fn coded_ratio(attempt: &AttemptRow) -> Option<f64> {
    let works = |rank: record::Rank| {
        attempt.ranks.get(rank.index()).is_some_and(|row| row.rank == rank && row.role == Role::Worker)
    };
    let sum = |of: fn(&record::CodingRecord) -> u64| {
        attempt.coding.iter().filter(|coding| works(coding.rank)).map(of).sum::<u64>() as f64
    };
    let bytes = sum(|coding| coding.bytes);
    (bytes > 0.0).then(|| sum(|coding| coding.raw_bytes) / bytes)
}

/// Norm of the coding error divided by the norm of the coded vectors, over all ranks and lanes.
fn coding_error(attempt: &AttemptRow) -> Option<f64> {
    let sum = |of: fn(&record::CodingRecord) -> f64| attempt.coding.iter().map(of).sum::<f64>();
    let squared = sum(|coding| coding.squared);
    (squared > 0.0).then(|| (sum(|coding| coding.squared_error) / squared).sqrt())
}

/// Bytes that arrived at the workers in steady steps, divided by the time in which bytes were moving.
fn bandwidth(attempt: &AttemptRow) -> Option<f64> {
    let workers = || attempt.ranks.iter().filter(|rank| rank.role == Role::Worker);
    let moving: f64 = workers()
        .flat_map(|rank| &rank.phases)
        .filter(|row| row.phase == Phase::Transfer)
        .map(|row| row.total.seconds())
        .sum();
    // By time, because workers that step independently have no common number of steps.
    let training = attempt.training?.seconds();
    let steady = |rank: &store::RankRow| rank.steady.time.seconds() / training;
    let arrived: f64 = workers().map(|rank| rank.bytes_in as f64 * steady(rank).min(1.0)).sum();
    (training > 0.0 && moving > 0.0 && arrived > 0.0).then(|| arrived / moving)
}

fn weights(cell: &ArmCell) -> String {
    let whom = match cell.equal {
        EqualWeights::All => "on all ranks",
        EqualWeights::Holders => "on holders of the same part",
        EqualWeights::OwnSets => "on the ranks that the strategy names",
        EqualWeights::OneHolder => return "one holder of each part".to_owned(),
        EqualWeights::Own => return "not applicable".to_owned(),
    };
    let known: Vec<bool> =
        cell.runs.iter().filter_map(|judged| judged.attempt.weights.as_ref()).map(Result::is_ok).collect();
    match (known.len(), known.iter().filter(|agree| **agree).count()) {
        (0, _) => "–".to_owned(),
        (all, agree) if all == agree => format!("equal {whom}"),
        (all, agree) => format!("equal in {agree} of {all} runs"),
    }
}

fn matrix(id: &str, arm: &str, condition: &str, attempt: &AttemptRow) -> Option<Matrix> {
    let passed: Vec<Passed> = attempt.links.iter().map(passed).collect();
    let ranks =
        passed.iter().flat_map(|cell| cell.ranks).map(|rank| rank + 1).max()?.max(attempt.ranks.len());
    let most = passed.iter().max_by(|left, right| left.amount.total_cmp(&right.amount));
    let most = most.map(|most| most.title.clone()).unwrap_or_default();
    let figure = Figure {
        id: id.to_owned(),
        title: format!("Bytes between ranks: {arm}, {condition}"),
        description: described::passed(&most, passed.len(), ranks),
        reading: String::new(),
        table: link_table(attempt),
    };
    rank_matrix::matrix(
        Words { figure, arm, condition, labels: ["from rank", "to rank"], written: number_format::bytes },
        &passed,
        ranks,
    )
}

fn passed(link: &LinkRow) -> Passed {
    let amount = number_format::bytes(link.bytes as f64);
    Passed {
        ranks: [link.from.index(), link.to.index()],
        amount: link.bytes as f64,
        title: format!(
            "rank {} to rank {}: {amount} in {} messages",
            link.from,
            link.to,
            number_format::count(link.messages)
        ),
        label: amount,
    }
}

fn link_table(attempt: &AttemptRow) -> Table {
    let mut table = Table::new(["from", "to", "bytes", "messages"]);
    for link in &attempt.links {
        table.rows.push(vec![
            link.from.to_string(),
            link.to.to_string(),
            number_format::bytes(link.bytes as f64),
            number_format::count(link.messages),
        ]);
    }
    table.cut(64);
    table
}
