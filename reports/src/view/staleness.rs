//! How far independent ranks drift apart: staleness of updates, averagings of pairs, distance from the mean model.

use super::accuracy::{self, Chart, MetricChart};
use super::condition_title;
use super::described;
use super::folding;
use super::rank_matrix::{self, Matrix, Passed, Words};
use crate::chart::{Area, Figure, Frame, Key, Scale, Table, Tick, arm_style, coordinate};
use crate::findings::Findings;
use crate::gossip;
use crate::number_format;
use crate::staleness::{self, Bucket, Histogram, Staleness};
use comparison::study::{Condition, PlacedCell};
use recipe::Metric;
use serde::Serialize;
use store::AttemptRow;

/// Histograms, and maps, on one page.
const MOST_FIGURES: usize = 8;

#[derive(Debug, Serialize)]
pub(crate) struct Section {
    pub(crate) histograms: Vec<Drawn>,
    pub(crate) pairs: Vec<Matrix>,
    pub(crate) distances: Vec<Chart>,
    pub(crate) legend: Vec<Key>,
    /// Names the figures that are not shown; empty where all are.
    pub(crate) note: String,
}

/// The histogram of one arm under one condition.
#[derive(Debug, Serialize)]
pub(crate) struct Drawn {
    pub(crate) figure: Figure,
    pub(crate) key: Key,
    pub(crate) condition: String,
    /// Mean, percentiles and largest, in words.
    pub(crate) summary: String,
    pub(crate) frame: Frame,
    pub(crate) bars: Vec<HistogramBar>,
    pub(crate) workers: Table,
}

#[derive(Debug, Serialize)]
pub(crate) struct HistogramBar {
    pub(crate) style: String,
    /// The pattern over the bar of the tail, which has no end.
    pub(crate) hatch: String,
    pub(crate) x: String,
    pub(crate) y: String,
    pub(crate) width: String,
    pub(crate) height: String,
    pub(crate) title: String,
}

impl Section {
    /// `None` if no run has any of it.
    pub(crate) fn of(findings: &Findings) -> Option<Self> {
        let study = &findings.study;
        let mut histograms: Vec<Drawn> =
            study.arm_cells().filter_map(|placed| bars(findings, placed)).collect();
        let mut pairs: Vec<Matrix> = study.arm_cells().filter_map(|placed| pairs(findings, placed)).collect();
        let mut distances: Vec<Chart> = study
            .conditions
            .iter()
            .enumerate()
            .filter_map(|(number, condition)| distance(findings, number, condition))
            .collect();
        if histograms.is_empty() && pairs.is_empty() && distances.is_empty() {
            return None;
        }
        let mut cut = histograms.len().max(pairs.len()) > MOST_FIGURES;
        if folding::are_cut(findings) {
            cut |= distances.len() > MOST_FIGURES;
            distances.truncate(MOST_FIGURES);
        }
        histograms.truncate(MOST_FIGURES);
        pairs.truncate(MOST_FIGURES);
        let arms = 0..if distances.is_empty() { 0 } else { findings.rows().plan.arms.len() };
        Some(Self {
            histograms,
            pairs,
            distances,
            legend: arms.map(|arm| Key::of_arm(arm, study.arm_name(arm))).collect(),
            note: if cut {
                format!("The first {MOST_FIGURES} of each kind are shown; the CSV files hold all.")
            } else {
                String::new()
            },
        })
    }
}

fn bars(findings: &Findings, PlacedCell { number, condition, cell }: PlacedCell) -> Option<Drawn> {
    let found = staleness::of(cell)?;
    let arm = findings.study.arm_name(cell.arm);
    let condition = condition_title(condition);
    let buckets = found.all.buckets();
    let total = found.all.total() as f64;
    let share = |bucket: &Bucket| bucket.count as f64 / total;
    let area = Area { width: 500.0, height: 230.0, left: 48.0, right: 490.0, top: 14.0, bottom: 186.0 };
    let most = buckets.iter().map(share).fold(0.0, f64::max);
    let x = Scale::new(0.0..=buckets.len() as f64, area.left..=area.right, 1.0);
    let y = Scale::new(0.0..=most, area.bottom..=area.top, 100.0).rounded(4);
    let bars = buckets.iter().enumerate().map(|(place, bucket)| HistogramBar {
        style: arm_style(cell.arm),
        hatch: if bucket.to.is_none() { "hatch-communication".to_owned() } else { String::new() },
        x: coordinate(x.at(place as f64) + 1.0),
        y: coordinate(y.at(share(bucket))),
        width: coordinate((x.length(1.0) - 2.0).max(0.5)),
        height: coordinate(area.bottom - y.at(share(bucket))),
        title: format!(
            "{arm}, staleness {}: {} updates, {}",
            range(bucket),
            number_format::count(bucket.count),
            number_format::percent(share(bucket))
        ),
    });
    let labels = ["staleness (updates)".to_owned(), "share of updates (%)".to_owned()];
    let frame =
        Frame { x_ticks: bucket_ticks(&buckets, &x), y_ticks: y.ticks(4), ..area.frame(&x, &y, labels) };
    Some(Drawn {
        summary: summary(&found),
        figure: Figure {
            id: format!("staleness-{number}-{}", cell.arm),
            title: format!("Staleness of updates: {arm}, {condition}"),
            description: summary(&found),
            reading: String::new(),
            table: bucket_table(&found.all, &buckets),
        },
        key: Key::of_arm(cell.arm, arm),
        condition,
        frame,
        bars: bars.collect(),
        workers: worker_table(&found),
    })
}

/// `3`, `10–14`, `25 or more`.
fn range(bucket: &Bucket) -> String {
    match bucket.to {
        Some(to) if to == bucket.from => to.to_string(),
        Some(to) => format!("{}–{to}", bucket.from),
        None => format!("{} or more", bucket.from),
    }
}

/// Labels of bars of width one are at their middle, of others at their edge; about eight labels, always the tail's.
fn bucket_ticks(buckets: &[Bucket], x: &Scale) -> Vec<Tick> {
    let single = buckets.first().is_some_and(|bucket| bucket.to == Some(0));
    let stride = buckets.len().div_ceil(11).max(1);
    let tick = |(place, bucket): (usize, &Bucket)| {
        let middle = single || bucket.to.is_none();
        Tick {
            at: coordinate(x.at(place as f64 + if middle { 0.5 } else { 0.0 })),
            label: if bucket.to.is_none() { format!("≥ {}", bucket.from) } else { bucket.from.to_string() },
        }
    };
    let tail = buckets.iter().position(|bucket| bucket.to.is_none());
    let crowded = |place: usize| tail.is_some_and(|tail| place < tail && tail - place <= stride / 2);
    buckets
        .iter()
        .enumerate()
        .filter(|(place, _)| (place % stride == 0 && !crowded(*place)) || Some(*place) == tail)
        .map(tick)
        .collect()
}

fn summary(found: &Staleness) -> String {
    let number = |value: Option<u64>| value.map_or_else(|| "–".to_owned(), number_format::count);
    format!(
        "{} updates in {}: mean {}, 95 % at most {}, largest {}.",
        number_format::count(found.all.total()),
        number_format::plural(found.runs, "run"),
        found.all.mean().map_or_else(|| "–".to_owned(), |mean| number_format::fixed(mean, 2)),
        number(found.all.quantile(0.95)),
        number(found.all.max()),
    )
}

fn bucket_table(all: &Histogram, buckets: &[Bucket]) -> Table {
    let mut table = Table::new(["staleness", "updates", "share", "so far"]);
    let total = all.total() as f64;
    let mut seen = 0;
    for bucket in buckets {
        seen += bucket.count;
        table.rows.push(vec![
            range(bucket),
            number_format::count(bucket.count),
            number_format::percent(bucket.count as f64 / total),
            number_format::percent(seen as f64 / total),
        ]);
    }
    table
}

fn worker_table(found: &Staleness) -> Table {
    let mut table = Table::new(["worker", "server", "updates", "share", "mean", "median", "95 %", "largest"]);
    let dash = || "–".to_owned();
    for ((worker, server), own) in &found.by_worker {
        let quantile = |share| own.quantile(share).map_or_else(dash, number_format::count);
        table.rows.push(vec![
            format!("rank {worker}"),
            format!("rank {server}"),
            number_format::count(own.total()),
            number_format::percent(own.total() as f64 / found.all.total() as f64),
            own.mean().map_or_else(dash, |mean| number_format::fixed(mean, 2)),
            quantile(0.5),
            quantile(0.95),
            own.max().map_or_else(dash, number_format::count),
        ]);
    }
    table.cut(200);
    table
}

fn pairs(findings: &Findings, PlacedCell { number, condition, cell }: PlacedCell) -> Option<Matrix> {
    let attempt = cell.median_run(condition.measure())?.attempt;
    let workers = condition.workers;
    let arm = findings.study.arm_name(cell.arm);
    let condition = condition_title(condition);
    let passed: Vec<Passed> = attempt
        .averagings
        .iter()
        .map(|row| Passed {
            ranks: [row.rank.index(), row.peer.index()],
            amount: row.count as f64,
            label: number_format::count(row.count),
            title: format!(
                "rank {} asked rank {}: {}",
                row.rank,
                row.peer,
                number_format::plural(row.count as usize, "averaging")
            ),
        })
        .collect();
    let most = passed.iter().max_by(|left, right| left.amount.total_cmp(&right.amount));
    let most = most.map(|most| most.title.clone()).unwrap_or_default();
    let figure = Figure {
        id: format!("pairs-{number}-{}", cell.arm),
        title: format!("Who averaged with whom: {arm}, {condition}"),
        description: described::passed(&most, passed.len(), attempt.ranks.len()),
        reading: gossip::per_gradient(attempt, workers).map_or_else(String::new, |rate| {
            format!("{} averagings per gradient.", number_format::fixed(rate, 2))
        }),
        table: pair_table(attempt),
    };
    let labels = ["active rank", "asked rank"];
    let written = |amount: f64| number_format::count(amount.round() as u64);
    rank_matrix::matrix(
        Words { figure, arm, condition: &condition, labels, written },
        &passed,
        attempt.ranks.len(),
    )
}

fn pair_table(attempt: &AttemptRow) -> Table {
    let mut table = Table::new(["active", "asked", "averagings", "share"]);
    let total: u64 = attempt.averagings.iter().map(|row| row.count).sum();
    for row in &attempt.averagings {
        table.rows.push(vec![
            row.rank.to_string(),
            row.peer.to_string(),
            number_format::count(row.count),
            number_format::percent(row.count as f64 / total.max(1) as f64),
        ]);
    }
    table.cut(64);
    table
}

/// The distance of the models from their mean over training, if it was measured.
fn distance(findings: &Findings, number: usize, condition: &Condition) -> Option<Chart> {
    let metric = Metric::ConsensusDistance;
    let reading = "Distance of the ranks' models from their mean: 0 if all are equal. Each thin line is one run, the thick line the \
                   median, the band their range.";
    let chart = MetricChart { id: format!("consensus-{number}"), reading: reading.to_owned(), metric };
    accuracy::metric_chart(findings, condition, chart)
}
