//! The scoreboard with interval bars.

use super::condition_title;
use crate::chart::{Key, Scale, Table, Tick, coordinate};
use crate::findings::Findings;
use crate::number_format;
use crate::scoreboard;
use crate::verdict;
use comparison::statistics;
use comparison::study::{Condition, SpeedMeasure};
use comparison::{Comparison, Contrast, exact_p};
use serde::Serialize;

/// The scoreboard of one condition.
#[derive(Debug, Serialize)]
pub(crate) struct Board {
    pub(crate) condition: String,
    pub(crate) columns: Vec<Heading>,
    pub(crate) rows: Vec<BoardRow>,
    /// Ticks of the interval bars; empty if nothing was compared.
    pub(crate) axis: Vec<Tick>,
    /// The band of effects too small to matter, in the bars' units.
    pub(crate) band: Band,
    /// The statistics behind the grades.
    pub(crate) tests: Table,
}

#[derive(Debug, Serialize)]
pub(crate) struct Heading {
    pub(crate) name: String,
    pub(crate) meaning: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct BoardRow {
    pub(crate) key: Key,
    pub(crate) baseline: bool,
    pub(crate) cells: Vec<BoardCell>,
    pub(crate) bar: Option<IntervalBar>,
    pub(crate) grade: String,
    pub(crate) style: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct BoardCell {
    pub(crate) text: String,
    pub(crate) sort: String,
}

/// An interval of a ratio with its estimate, in the bars' units.
#[derive(Debug, Serialize)]
pub(crate) struct IntervalBar {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) at: String,
    pub(crate) title: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct Band {
    pub(crate) from: String,
    pub(crate) width: String,
    pub(crate) one: String,
}

const BAR_WIDTH: f64 = 160.0;

pub(crate) fn boards(findings: &Findings) -> Vec<Board> {
    findings.conditions().map(|(condition, comparisons)| board(findings, condition, comparisons)).collect()
}

/// The scoreboard of one condition.
pub(crate) fn board(findings: &Findings, condition: &Condition, comparisons: &[Comparison]) -> Board {
    let columns = scoreboard::columns(findings, condition, comparisons);
    let scale = bar_scale(comparisons, findings.thresholds.min_effect);
    let most = (1.0 + findings.thresholds.min_effect).ln();
    let rows = condition.cells.iter().enumerate().map(|(place, cell)| {
        let comparison = comparisons.iter().find(|comparison| comparison.arm == cell.arm);
        BoardRow {
            key: Key::of_arm(cell.arm, findings.study.arm_name(cell.arm)),
            baseline: cell.arm == findings.study.baseline,
            cells: columns
                .iter()
                .map(|column| &column.cells[place])
                .map(|cell| BoardCell { text: cell.text.clone(), sort: sort_key(cell.sort) })
                .collect(),
            bar: comparison.and_then(|comparison| bar(comparison, &scale)),
            grade: scoreboard::grade_label(findings, cell, comparisons),
            style: style(comparison).to_owned(),
        }
    });
    let compared = comparisons.iter().any(|comparison| comparison.speed().ratio.is_some());
    Board {
        condition: condition_title(condition),
        rows: rows.collect(),
        axis: if compared { ratio_ticks(&scale) } else { Vec::new() },
        band: Band {
            from: coordinate(scale.at(-most)),
            width: coordinate(scale.at(most) - scale.at(-most)),
            one: coordinate(scale.at(0.0)),
        },
        tests: tests(findings, condition, comparisons),
        columns: columns
            .into_iter()
            .map(|column| Heading { name: column.name.to_owned(), meaning: column.meaning })
            .collect(),
    }
}

fn style(comparison: Option<&Comparison>) -> &'static str {
    let quality = |found: &Comparison| found.quality.as_ref().map(|gap| gap.grade);
    comparison.map_or("baseline", |found| found.grade.class(quality(found)))
}

fn sort_key(value: f64) -> String {
    if value.is_finite() { format!("{value}") } else { "1e308".to_owned() }
}

/// Logarithms of ratios; one and the smallest effect that matters always lie inside.
fn bar_scale(comparisons: &[Comparison], min_effect: f64) -> Scale {
    let shown = comparisons.iter().filter(|comparison| comparison.grade.compares());
    let ends = shown.filter_map(|comparison| comparison.speed().ratio).flat_map(|ratio| {
        let (low, high) = ratio.interval.unwrap_or((ratio.value, ratio.value));
        [low, high]
    });
    let least = (1.0 + min_effect.max(0.01)).ln() * 2.0;
    let (low, high) = ends
        .filter(|ratio| *ratio > 0.0 && ratio.is_finite())
        .map(|ratio| ratio.ln().clamp(-4.0, 4.0))
        .fold((-least, least), |(low, high), log| (log.min(low), log.max(high)));
    let margin = (high - low) * 0.06;
    Scale::new(low - margin..=high + margin, 0.0..=BAR_WIDTH, 1.0)
}

/// One, and on each side the roundest ratio whose label fits.
fn ratio_ticks(scale: &Scale) -> Vec<Tick> {
    const ROUND: [f64; 7] = [2.0, 1.5, 5.0, 1.2, 10.0, 1.1, 20.0];
    let one = scale.at(0.0);
    let readable = |ratio: &f64| {
        let at = scale.at(ratio.ln());
        (14.0..=BAR_WIDTH - 14.0).contains(&at) && (at - one).abs() >= 30.0
    };
    let slower = ROUND.iter().map(|ratio| 1.0 / ratio).find(readable);
    let faster = ROUND.into_iter().find(readable);
    let mut ratios = vec![1.0];
    ratios.extend(slower);
    ratios.extend(faster);
    let tick = |ratio: f64| Tick { at: coordinate(scale.at(ratio.ln())), label: round_label(ratio) };
    ratios.into_iter().map(tick).collect()
}

/// Label of a tick at a round ratio: `2×`, `1.5×`, `0.67×`.
pub(super) fn round_label(ratio: f64) -> String {
    let decimals = match ratio {
        ratio if ratio < 1.0 => 2,
        ratio if ratio.fract() > 0.0 => 1,
        _ => 0,
    };
    format!("{}×", number_format::fixed(ratio, decimals))
}

fn bar(comparison: &Comparison, scale: &Scale) -> Option<IntervalBar> {
    let ratio = comparison.speed().ratio.filter(|_| comparison.grade.compares())?;
    let (low, high) = ratio.interval.unwrap_or((ratio.value, ratio.value));
    let place = |ratio: f64| coordinate(scale.at(ratio.max(1e-9).ln()).clamp(0.0, BAR_WIDTH));
    let title = match ratio.interval {
        Some(_) => {
            format!(
                "{} ({} to {})",
                number_format::times(ratio.value),
                number_format::times(low),
                number_format::times(high)
            )
        }
        None => number_format::times(ratio.value),
    };
    Some(IntervalBar { from: place(low), to: place(high), at: place(ratio.value), title })
}

fn tests(findings: &Findings, condition: &Condition, comparisons: &[Comparison]) -> Table {
    let mut table = Table::new([
        "arm",
        "measure",
        "runs",
        "pairs",
        "missed by one side",
        "ratio",
        "interval",
        "spread",
        "freedom",
        "p",
        "Holm p",
        "sure",
        "exact p",
        "sign-flip p",
        "grade",
    ]);
    for comparison in comparisons {
        let runs = |arm| condition.cell(arm).map_or(0, |cell| cell.runs.len());
        let sides = format!("{} v {}", runs(comparison.arm), runs(findings.study.baseline));
        for contrast in comparison.contrasts() {
            let arm = findings.study.arm_name(comparison.arm).to_owned();
            let cells = condition.cell(comparison.arm).zip(condition.cell(findings.study.baseline));
            let p_exact = cells.and_then(|(cell, base)| exact_p(cell, base, contrast.measure));
            let p_paired = statistics::sign_flip(&contrast.pairs.exact());
            let head = vec![arm, measure_words(contrast.measure), sides.clone()];
            table.rows.push([head, numbers(contrast, [p_exact, p_paired])].concat());
        }
    }
    table
}

fn measure_words(measure: SpeedMeasure) -> String {
    match measure {
        SpeedMeasure::TimeToTarget => "time to target",
        SpeedMeasure::StepsToTarget => "steps to target",
        SpeedMeasure::StepTime => "step time",
    }
    .to_owned()
}

/// `beside` are the p values of the tests that are no part of the grade.
fn numbers(contrast: &Contrast, beside: [Option<f64>; 2]) -> Vec<String> {
    let dash = || "–".to_owned();
    let ratio = |value: f64| number_format::fixed(value, 3);
    let p = |p: Option<f64>| p.map_or_else(dash, number_format::p_value);
    let missed = contrast.pairs.baseline_missed() + contrast.pairs.arm_missed();
    let interval = contrast.ratio.and_then(|estimate| estimate.interval);
    vec![
        contrast.pairs.exact().len().to_string(),
        missed.to_string(),
        contrast.ratio.map_or_else(dash, |estimate| ratio(estimate.value)),
        interval.map_or_else(dash, |(low, high)| format!("{}–{}", ratio(low), ratio(high))),
        contrast.mean.map_or_else(dash, |mean| number_format::percent(mean.variance.sqrt())),
        contrast.mean.map_or_else(dash, |mean| number_format::fixed(mean.freedom.min(9999.0), 1)),
        p(contrast.p_beyond),
        p(contrast.p_holm),
        contrast.sure.map_or_else(dash, verdict::sure_words),
        p(beside[0]),
        p(beside[1]),
        contrast.grade.name().to_owned(),
    ]
}
