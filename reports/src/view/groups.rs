//! Groups of workers that hold one model together: memory against throughput, and what travels within groups and between them.

use super::condition_title;
use super::folding;
use crate::chart::{Area, Figure, Frame, Key, Mark, Place, Scale, Table, arm_style, coordinate, marker};
use crate::findings::Findings;
use crate::number_format::{self, Unit};
use comparison::study::{PlacedCell, SpeedMeasure};
use recipe::Role;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use store::{AttemptRow, RankRow, UsageRow};

/// Bytes of a weight.
const FLOAT: f64 = 4.0;

#[derive(Debug, Serialize)]
pub(crate) struct Section {
    pub(crate) figure: Figure,
    pub(crate) frame: Frame,
    /// For each condition, a line through its arms.
    pub(crate) lines: Vec<String>,
    pub(crate) points: Vec<Point>,
    pub(crate) rows: Vec<Row>,
    pub(crate) has_conditions: bool,
}

#[derive(Debug, Serialize)]
pub(crate) struct Point {
    pub(crate) style: String,
    pub(crate) mark: String,
    pub(crate) title: String,
}

/// One arm under one condition.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) key: Key,
    pub(crate) condition: String,
    pub(crate) parts: String,
    pub(crate) weights: String,
    pub(crate) saved: String,
    pub(crate) held: Uses,
    pub(crate) throughput: String,
    pub(crate) within: Travel,
    pub(crate) between: Travel,
}

/// Measured memory of a worker, by use.
#[derive(Debug, Serialize)]
pub(crate) struct Uses {
    pub(crate) weights: String,
    pub(crate) gradients: String,
    pub(crate) optimizer: String,
    pub(crate) activations: String,
    pub(crate) resident: String,
}

/// Bytes that a worker sends in a step, and the time for which it communicates or waits.
#[derive(Debug, Serialize)]
pub(crate) struct Travel {
    pub(crate) bytes: String,
    pub(crate) time: String,
}

/// Needs and throughput of an arm under a condition.
struct Held<'a> {
    arm: usize,
    name: &'a str,
    number: usize,
    condition: String,
    parts: u32,
    /// Bytes of the weights that a worker holds, and of the whole model's.
    weights: f64,
    whole: f64,
    /// Bytes that forward passes keep for a worker's samples, by the same count.
    activations: f64,
    /// Measured use of a worker's memory, and of its time; `None` in runs recorded before that was kept.
    usage: Option<MeanUsage>,
    /// Samples per second of all workers together.
    throughput: f64,
    /// Bytes that a worker sends per step to its group for the split layers, and all others.
    within: f64,
    between: Option<f64>,
    /// Seconds of a step in which a worker's compute lane communicates or waits.
    exposed: Option<f64>,
}

/// Means over the workers of an attempt, in bytes and seconds.
#[derive(Clone, Copy)]
struct MeanUsage {
    weights: f64,
    gradients: f64,
    optimizer: f64,
    activations: f64,
    resident: Option<f64>,
    /// Seconds of a step for exchanges of activations and their gradients.
    exchanging: f64,
}

impl Section {
    /// `None` where each worker holds the whole model, in all arms.
    pub(crate) fn of(findings: &Findings) -> Option<Self> {
        let all: Vec<Held> = findings.study.arm_cells().filter_map(|placed| held(findings, placed)).collect();
        let split: BTreeSet<usize> =
            all.iter().filter(|held| held.parts > 1).map(|held| held.number).collect();
        let all: Vec<Held> = all.into_iter().filter(|held| split.contains(&held.number)).collect();
        let most = all.iter().map(|held| held.weights).reduce(f64::max)?;
        let fastest = all.iter().map(|held| held.throughput).reduce(f64::max)?;
        let unit = Unit::of_bytes(most);
        let area = Area { width: 520.0, height: 400.0, left: 64.0, right: 508.0, top: 26.0, bottom: 352.0 };
        let x = Scale::new(0.0..=most * 1.05, area.left..=area.right, unit.factor);
        let y = Scale::new(0.0..=fastest * 1.05, area.bottom..=area.top, 1.0);
        let labels = [format!("weights of a worker ({})", unit.name), "samples per second".to_owned()];
        let listed: Vec<&Held> = all.iter().filter(|held| held.number < folding::listed(findings)).collect();
        let mark = |held: &Held| Mark {
            arm: held.arm,
            differs: false,
            place: Place { x: x.at(held.weights), y: y.at(held.throughput) },
        };
        let marks: Vec<Mark> = all.iter().map(mark).collect();
        let drawn = folding::drawn(findings, &marks);
        let mut said = description(&all);
        if let Some(note) = folding::note(&findings.study) {
            let _ = write!(said, " {note} Of marks of all that lie close together one is drawn.");
        }
        Some(Self {
            figure: Figure {
                id: "groups".to_owned(),
                title: "Memory and throughput".to_owned(),
                description: said,
                reading: String::new(),
                table: Table::default(),
            },
            frame: area.frame(&x, &y, labels),
            lines: lines(&listed, &x, &y),
            points: (0..all.len())
                .filter(|at| drawn[*at])
                .map(|at| point(&all[at], marks[at].place))
                .collect(),
            rows: listed.iter().map(|held| row(held)).collect(),
            has_conditions: findings.has_conditions(),
        })
    }
}

fn held<'a>(
    findings: &'a Findings<'a>,
    PlacedCell { number, condition, cell }: PlacedCell<'_, 'a>,
) -> Option<Held<'a>> {
    let spec = &findings.rows().plan.cells.get(cell.index)?.spec;
    let steps = cell.values(SpeedMeasure::StepTime);
    let step = (!steps.is_empty()).then(|| steps.iter().sum::<f64>() / steps.len() as f64)?;
    let parts = spec.strategy.parts();
    let batch = f64::from(spec.train.global_batch);
    // The last batch of an epoch may be short.
    let mean =
        cell.mean_of(|attempt| (attempt.steps > 0).then(|| attempt.samples as f64 / attempt.steps as f64));
    let own = mean.unwrap_or(batch) / f64::from(spec.cluster.workers().max(1));
    let within = if parts > 1 { FLOAT * own * spec.model_partition().values_sent() as f64 } else { 0.0 };
    let sent = cell.mean_of(|attempt| cell.worker_bytes_per_step(attempt));
    let mean = |of: fn(&UsageRow) -> Option<f64>| cell.mean_of(|attempt| mean_usage(attempt, of));
    let usage = || {
        Some(MeanUsage {
            weights: mean(|usage| Some(usage.weights as f64))?,
            gradients: mean(|usage| Some(usage.gradients as f64))?,
            optimizer: mean(|usage| Some(usage.optimizer as f64))?,
            activations: mean(|usage| Some(usage.activations as f64))?,
            resident: mean(|usage| usage.resident.map(|bytes| bytes as f64)),
            exchanging: mean(|usage| Some(usage.exchanging.seconds() / usage.steps.max(1) as f64))?,
        })
    };
    Some(Held {
        arm: cell.arm,
        name: findings.study.arm_name(cell.arm),
        number,
        condition: if findings.has_conditions() { condition_title(condition) } else { String::new() },
        parts,
        weights: FLOAT * spec.parameters_per_worker() as f64,
        whole: FLOAT * spec.model.parameter_count() as f64,
        activations: FLOAT * own * spec.activations_per_sample() as f64,
        usage: usage(),
        throughput: batch / step,
        within,
        // Signals of a byte are no part of a vector.
        between: sent.map(|sent| sent - within).map(|sent| if sent < 1.0 { 0.0 } else { sent }),
        exposed: cell.mean_of(exposed),
    })
}

/// The mean over the workers of an attempt.
fn mean_usage(attempt: &AttemptRow, of: fn(&UsageRow) -> Option<f64>) -> Option<f64> {
    mean(workers(attempt).filter_map(|rank| of(rank.usage.as_ref()?)))
}

/// Seconds of communication and waiting in a steady step of a worker's compute lane.
fn exposed(attempt: &AttemptRow) -> Option<f64> {
    let steady = workers(attempt).filter(|rank| rank.steady.steps > 0);
    mean(steady.map(|rank| rank.exposed.seconds() / rank.steady.steps as f64))
}

fn workers(attempt: &AttemptRow) -> impl Iterator<Item = &RankRow> {
    attempt.ranks.iter().filter(|rank| rank.role == Role::Worker)
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// A line through the arms of each condition, in the order of what they hold.
fn lines(all: &[&Held<'_>], x: &Scale, y: &Scale) -> Vec<String> {
    let mut by_condition: BTreeMap<usize, Vec<&Held<'_>>> = BTreeMap::new();
    for held in all {
        by_condition.entry(held.number).or_default().push(held);
    }
    let line = |mut held: Vec<&Held<'_>>| {
        held.sort_by(|one, other| one.weights.total_cmp(&other.weights));
        let place = |held: &&Held<'_>| {
            format!("{} {}", coordinate(x.at(held.weights)), coordinate(y.at(held.throughput)))
        };
        format!("M{}", held.iter().map(place).collect::<Vec<_>>().join("L"))
    };
    // Between arms that hold equally much there is no trade-off.
    let differs =
        |held: &Vec<&Held<'_>>| held.iter().any(|one| one.weights.total_cmp(&held[0].weights).is_ne());
    by_condition.into_values().filter(differs).map(line).collect()
}

fn point(held: &Held<'_>, at: Place) -> Point {
    let condition = if held.condition.is_empty() { String::new() } else { format!(", {}", held.condition) };
    Point {
        style: arm_style(held.arm),
        mark: marker(held.arm, at.x, at.y, 4.5),
        title: format!(
            "{}{condition}: {} of weights, {} samples per second",
            held.name,
            number_format::bytes(held.weights),
            number_format::short(held.throughput)
        ),
    }
}

fn row(held: &Held<'_>) -> Row {
    let dash = || "–".to_owned();
    let size = |of: fn(&MeanUsage) -> Option<f64>| {
        held.usage.as_ref().and_then(of).map_or_else(dash, number_format::bytes)
    };
    let time = |seconds: Option<f64>| seconds.map_or_else(dash, number_format::seconds);
    let exchanging = held.usage.map(|usage| usage.exchanging);
    let others = held.exposed.zip(exchanging).map(|(all, own)| (all - own).max(0.0));
    Row {
        key: Key::of_arm(held.arm, held.name),
        condition: held.condition.clone(),
        parts: held.parts.to_string(),
        weights: number_format::bytes(held.weights),
        saved: number_format::percent(1.0 - held.weights / held.whole.max(1.0)),
        held: Uses {
            weights: size(|usage| Some(usage.weights)),
            gradients: size(|usage| Some(usage.gradients)),
            optimizer: size(|usage| Some(usage.optimizer)),
            activations: format!(
                "{} ({})",
                size(|usage| Some(usage.activations)),
                number_format::bytes(held.activations)
            ),
            resident: size(|usage| usage.resident),
        },
        throughput: number_format::short(held.throughput),
        within: Travel { bytes: number_format::bytes(held.within), time: time(exchanging) },
        between: Travel { bytes: held.between.map_or_else(dash, number_format::bytes), time: time(others) },
    }
}

/// The least memory, and what it costs.
fn description(all: &[Held<'_>]) -> String {
    let Some(least) = all.iter().min_by(|one, other| one.weights.total_cmp(&other.weights)) else {
        return String::new();
    };
    let beside = all.iter().filter(|held| held.number == least.number && held.parts == 1);
    let compared = beside.max_by(|one, other| one.throughput.total_cmp(&other.throughput)).map(|whole| {
        format!(
            ", at {} times the throughput of {}, whose workers hold all of it",
            number_format::short(least.throughput / whole.throughput),
            whole.name
        )
    });
    let place = if least.condition.is_empty() { String::new() } else { format!(" ({})", least.condition) };
    format!(
        "The workers of {}{place} hold {} less of the model{}.",
        least.name,
        number_format::percent(1.0 - least.weights / least.whole.max(1.0)),
        compared.unwrap_or_default()
    )
}
