//! The chart of a forest: its columns, and a row for each ratio with its interval.

use super::Found;
use crate::chart::{Figure, Key, Path, Place, Scale, Sheet, Table, Tick, arm_style, coordinate, marker};
use crate::findings::Findings;
use crate::number_format;
use crate::verdict::sure_words;
use crate::view::scoreboard::{Band, round_label};
use crate::view::winner_map::clipped;
use comparison::Grade;
use serde::Serialize;

/// A chart with one interval in each row.
#[derive(Debug, Serialize)]
pub(crate) struct ForestChart {
    pub(crate) figure: Figure,
    pub(crate) width: String,
    pub(crate) height: String,
    pub(crate) top: String,
    pub(crate) bottom: String,
    pub(crate) band: Band,
    pub(crate) band_height: String,
    pub(crate) ticks: Vec<Tick>,
    pub(crate) tick_y: String,
    pub(crate) axis: Tick,
    pub(crate) axis_y: String,
    pub(crate) heads: Vec<Head>,
    pub(crate) rows: Vec<ForestRow>,
}

/// The name of an arm above its rows.
#[derive(Debug, Serialize)]
pub(crate) struct Head {
    pub(crate) key: Key,
    pub(crate) mark: String,
    pub(crate) y: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct ForestRow {
    pub(crate) style: String,
    pub(crate) label: String,
    pub(crate) label_x: String,
    pub(crate) y: String,
    /// Empty if there is no interval.
    pub(crate) interval: String,
    pub(crate) mark: String,
    /// CSS class of the mark: what the grade says.
    pub(crate) kind: &'static str,
    pub(crate) words: String,
    pub(crate) words_x: String,
    pub(crate) title: String,
}

const ROW: f64 = 18.0;
const HEAD: f64 = 26.0;
const TOP: f64 = 26.0;

/// Where a forest's columns are: labels, intervals, words.
#[derive(Clone, Copy)]
struct Columns {
    width: f64,
    /// Letters of a label.
    letters: usize,
    left: f64,
    right: f64,
    /// Whether the words of a row have room for the interval.
    with_interval: bool,
}

impl Columns {
    fn of(findings: &Findings, found: &[Found]) -> Self {
        let sheet = findings.sheet;
        let longest = found.iter().map(|row| row_name(findings, row).chars().count()).max().unwrap_or(0);
        let width = sheet.width();
        match sheet {
            Sheet::Page => Self {
                width,
                letters: LABEL,
                left: (LETTER * longest.min(LABEL) as f64 + 14.0).max(90.0),
                right: width - WORDS,
                with_interval: true,
            },
            Sheet::Figure { width } => Self::of_figure(width, longest.min(LABEL)),
        }
    }
}

/// Room for the words of a row: on the page, in a figure, and in one that has room for ratios only.
const WORDS: f64 = 150.0;
const FIGURE_WORDS: f64 = 132.0;
const RATIOS: f64 = 52.0;

/// Room for the intervals of a figure, at least.
const INTERVALS: f64 = 96.0;

/// Width of a letter of a label, and that of a figure's, where room is scarce.
const LETTER: f64 = 7.4;
const FIGURE_LETTER: f64 = 6.3;

impl ForestChart {
    pub(super) fn of(findings: &Findings, found: &[Found], words: [&str; 2], finding: String) -> Self {
        let columns = Columns::of(findings, found);
        let sides = [columns.left, columns.right];
        let scale = scale(found, findings.thresholds.min_effect, sides);
        let mut heads = Vec::new();
        let mut rows = Vec::new();
        let mut y = TOP;
        for row in found {
            let is_first = heads.is_empty() || rows.last().is_some_and(|(arm, _)| *arm != row.arm);
            // With one condition the row itself is named after the arm.
            if is_first && findings.has_conditions() {
                y += HEAD;
                heads.push(Head {
                    key: Key::of_arm(row.arm, findings.study.arm_name(row.arm)),
                    mark: marker(row.arm, 7.0, y - 10.0, 4.5),
                    y: coordinate(y - 6.0),
                });
            }
            rows.push((row.arm, drawn(findings, row, &scale, Line { columns, y: y + ROW / 2.0 })));
            y += ROW;
        }
        let bottom = y + 4.0;
        let edge = (1.0 + findings.thresholds.min_effect).ln();
        let [id, title] = words;
        Self {
            figure: Figure {
                id: id.to_owned(),
                title: title.to_owned(),
                description: finding,
                reading: String::new(),
                table: table(findings, found),
            },
            width: coordinate(columns.width),
            height: coordinate(bottom + 40.0),
            top: coordinate(TOP),
            bottom: coordinate(bottom),
            band: Band {
                from: coordinate(scale.at(-edge)),
                width: coordinate(scale.at(edge) - scale.at(-edge)),
                one: coordinate(scale.at(0.0)),
            },
            band_height: coordinate(bottom - TOP),
            ticks: ticks(&scale, sides),
            tick_y: coordinate(bottom + 18.0),
            axis: Tick {
                at: coordinate(columns.right),
                label: format!("speed-up over {}", findings.study.arm_name(findings.study.baseline)),
            },
            axis_y: coordinate(bottom + 34.0),
            heads,
            rows: rows.into_iter().map(|(_, row)| row).collect(),
        }
    }
}

impl Columns {
    /// Labels are never cut short for want of room: rows would no longer differ.
    fn of_figure(width: f64, letters: usize) -> Self {
        let left = FIGURE_LETTER * letters as f64 + 20.0;
        let (words, with_interval) =
            if left + INTERVALS + FIGURE_WORDS <= width { (FIGURE_WORDS, true) } else { (RATIOS, false) };
        let width = width.max(left + INTERVALS + words);
        Self { width, letters, left, right: width - words, with_interval }
    }
}

/// Letters of a label.
const LABEL: usize = 46;

/// Logarithms of ratios. Intervals that reach far beyond all ratios are cut off at the edge.
fn scale(found: &[Found], min_effect: f64, places: [f64; 2]) -> Scale {
    const BEYOND: f64 = 0.7;
    let least = (1.0 + min_effect.max(0.01)).ln() * 2.0;
    let sizes = || found.iter().filter_map(Found::size);
    let low = sizes().fold(-least, f64::min);
    let high = sizes().fold(least, f64::max);
    let ends = || found.iter().filter_map(Found::interval).flatten();
    let low = ends().fold(low, |reach, end| reach.min(end.max(low - BEYOND)));
    let high = ends().fold(high, |reach, end| reach.max(end.min(high + BEYOND)));
    let margin = (high - low) * 0.02;
    Scale::new(low - margin..=high + margin, places[0]..=places[1], 1.0)
}

/// Round ratios, the roundest first, as far as there is room.
fn ticks(scale: &Scale, places: [f64; 2]) -> Vec<Tick> {
    const ROUND: [f64; 9] = [2.0, 10.0, 5.0, 1.5, 3.0, 1.2, 100.0, 1.1, 30.0];
    const APART: f64 = 46.0;
    let mut kept: Vec<(f64, f64)> = vec![(1.0, scale.at(0.0))];
    for ratio in ROUND.into_iter().flat_map(|ratio| [ratio, 1.0 / ratio]) {
        let at = scale.at(ratio.ln());
        let inside = (places[0]..=places[1]).contains(&at);
        if inside && kept.iter().all(|(_, other)| (at - other).abs() >= APART) {
            kept.push((ratio, at));
        }
    }
    kept.into_iter().map(|(ratio, at)| Tick { at: coordinate(at), label: round_label(ratio) }).collect()
}

/// Name of a row: its condition, or its arm where there is one condition.
fn row_name<'a>(findings: &'a Findings, row: &'a Found) -> &'a str {
    if findings.has_conditions() { row.condition } else { findings.study.arm_name(row.arm) }
}

/// Where a row is drawn.
struct Line {
    columns: Columns,
    /// Its middle.
    y: f64,
}

fn drawn(findings: &Findings, row: &Found, scale: &Scale, line: Line) -> ForestRow {
    let Line { columns, y } = line;
    let speed = row.comparison.speed();
    let place = |size: f64| scale.at(size.clamp(scale.low(), scale.high()));
    let mut interval = Path::default();
    if let Some([low, high]) = row.interval().filter(|_| row.comparison.grade.compares()) {
        interval.stroke(Place { x: place(low), y }, Place { x: place(high), y });
        // An interval that reaches beyond the chart ends in the head of an arrow.
        for (beyond, at, back) in
            [(low < scale.low(), place(low), 4.0), (high > scale.high(), place(high), -4.0)]
        {
            if beyond {
                let head = Place { x: at, y };
                interval.stroke(head, Place { x: at + back, y: y - 3.5 });
                interval.stroke(head, Place { x: at + back, y: y + 3.5 });
            }
        }
    } else if let (None, Some(size)) = (speed.ratio, row.size()) {
        // Only a lower bound is known.
        let least = Place { x: place(size), y };
        interval.stroke(least, Place { x: place(f64::INFINITY), y });
        interval.stroke(Place { y: y - 4.0, ..least }, Place { y: y + 4.0, ..least });
    }
    let (kind, size) = match row.comparison.grade {
        Grade::Faster | Grade::Slower => ("dot", 4.5),
        Grade::FasterOpen | Grade::SlowerOpen | Grade::Open => ("hollow", 4.0),
        Grade::FasterSmall | Grade::SlowerSmall | Grade::NoDifference => ("dot", 2.6),
        Grade::DidNotReach | Grade::Diverged => ("dot", 0.0),
    };
    let estimate = row.size().filter(|_| speed.ratio.is_some());
    let words = words(row);
    ForestRow {
        style: arm_style(row.arm),
        label: clipped(row_name(findings, row), columns.letters),
        label_x: coordinate(columns.left - 10.0),
        y: coordinate(y + 4.0),
        interval: interval.finish(),
        mark: estimate.map_or(String::new(), |ratio| marker(row.arm, place(ratio), y, size)),
        kind,
        words_x: coordinate(columns.right + 12.0),
        title: format!(
            "{}, {}: {words}, {}",
            findings.study.arm_name(row.arm),
            row.condition,
            row.comparison.grade.name()
        ),
        words: if columns.with_interval { words } else { shorter(words) },
    }
}

/// Words without their interval.
fn shorter(words: String) -> String {
    words.split_once(" (").map_or(words.clone(), |(ratio, _)| ratio.to_owned())
}

/// `1.50× (1.31×–1.72×)`; the grade where there is no ratio.
fn words(row: &Found) -> String {
    let speed = row.comparison.speed();
    let grade = row.comparison.grade;
    match (speed.ratio.filter(|_| grade.compares()), row.size()) {
        (Some(ratio), _) => {
            let most = if ratio.value >= 0.1 { 2 } else { 4 };
            let decimals = number_format::decimals_of(ratio.value).min(most);
            let end = |value: f64| number_format::bound(value, decimals);
            let ends = ratio.interval.map(|(low, high)| format!(" ({}–{})", end(low), end(high)));
            let interval = ends.unwrap_or_default();
            format!("{}{interval}", number_format::times(ratio.value))
        }
        (None, Some(size)) => format!("> {}", number_format::times(size.exp())),
        (None, None) => grade.name().to_owned(),
    }
}

fn table(findings: &Findings, found: &[Found]) -> Table {
    let mut table = Table::new(["arm", "condition", "speed-up", "sure", "grade"]);
    for row in found {
        let sure = row.comparison.speed().sure.filter(|_| row.comparison.grade.compares());
        table.rows.push(vec![
            findings.study.arm_name(row.arm).to_owned(),
            row.condition.to_owned(),
            words(row),
            sure.map_or_else(|| "–".to_owned(), sure_words),
            row.comparison.grade.name().to_owned(),
        ]);
    }
    findings.sheet.cut(&mut table, 200);
    table
}
