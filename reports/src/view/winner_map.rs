//! Which arm won under each pair of values of two axes, with the line on which two arms are equally fast.

use crate::axes::{Axes, Axis, AxisPoint};
use crate::chart::{self, Figure, Path, Place, Sheet, Table, Tick, coordinate, marker};
use crate::crossing::{GridPlace, RatioGrid};
use crate::findings::Findings;
use crate::number_format;
use crate::verdict::sure_words;
use crate::winner::{Lead, Winner};
use serde::Serialize;

/// A map of two axes; a third one has a value for each map.
#[derive(Debug, Serialize)]
pub(crate) struct WinnerMap {
    pub(crate) figure: Figure,
    /// The values of the other axes; empty if there are none.
    pub(crate) name: String,
    pub(crate) width: String,
    pub(crate) height: String,
    pub(crate) left: String,
    pub(crate) x_label: String,
    pub(crate) x_label_y: String,
    pub(crate) y_label: String,
    pub(crate) columns: Vec<Tick>,
    pub(crate) column_y: String,
    pub(crate) rows: Vec<Tick>,
    pub(crate) cells: Vec<MapCell>,
    /// Empty where two arms do not share the map, or an axis has no numbers.
    pub(crate) crossing: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct MapCell {
    pub(crate) style: String,
    pub(crate) hatch: String,
    pub(crate) x: String,
    pub(crate) y: String,
    pub(crate) width: String,
    pub(crate) height: String,
    /// Opacity of the colour.
    pub(crate) weight: String,
    /// Whether the arm is known to be ahead.
    pub(crate) decided: bool,
    pub(crate) mark: String,
    pub(crate) name: String,
    pub(crate) name_x: String,
    pub(crate) name_y: String,
    pub(crate) sure: String,
    pub(crate) sure_x: String,
    pub(crate) sure_y: String,
    pub(crate) title: String,
}

/// Data that a map is drawn from.
#[derive(Clone, Copy)]
pub(crate) struct Source<'s, 'a> {
    pub(crate) findings: &'s Findings<'a>,
    pub(crate) axes: &'s Axes,
    pub(crate) winners: &'s [Option<Winner>],
}

/// One map: a value for each axis beyond the first two.
pub(crate) struct Slice {
    /// The number of the map on the page.
    pub(crate) number: usize,
    pub(crate) others: Vec<usize>,
}

/// Where two arms are equally fast in one row of a map.
pub(crate) struct RowCrossing {
    pub(crate) row: usize,
    /// Values on the first axis.
    pub(crate) numbers: Vec<f64>,
}

/// Two arms that share a map, and the logarithms of their ratio: above zero the first is faster.
pub(crate) struct Shared {
    pub(crate) arms: [usize; 2],
    pub(crate) grid: RatioGrid,
}

/// Room for the names of columns below a map, and above it for the name of the second axis.
const BELOW: f64 = 46.0;
const ABOVE: f64 = 26.0;
/// Of one letter of a cell's text, about.
const LETTER: f64 = 6.6;

impl<'s> Source<'s, '_> {
    fn x(&self) -> &'s Axis {
        &self.axes.ordered[0]
    }

    fn y(&self) -> &'s Axis {
        &self.axes.ordered[1]
    }

    /// The condition in a column and row; `None` if the plan leaves it out.
    fn condition(&self, slice: &Slice, column: usize, row: usize) -> Option<usize> {
        let places: Vec<usize> = [column, row].into_iter().chain(slice.others.iter().copied()).collect();
        self.axes.condition_at(&places)
    }

    fn winner(&self, condition: usize) -> Option<&'s Winner> {
        self.winners.get(condition)?.as_ref()
    }

    /// The arms that are first somewhere on the map, if there are two, with the ratio of their times.
    pub(crate) fn shared(&self, slice: &Slice) -> Option<Shared> {
        self.x().numbers()?;
        self.y().numbers()?;
        let columns = self.x().values.len();
        let rows = self.y().values.len();
        let all: Vec<Option<usize>> = (0..rows)
            .flat_map(|row| (0..columns).map(move |column| (column, row)))
            .map(|(column, row)| self.condition(slice, column, row))
            .collect();
        let first: std::collections::BTreeSet<usize> =
            all.iter().flatten().filter_map(|condition| Some(self.winner(*condition)?.arm)).collect();
        let arms: [usize; 2] = first.into_iter().collect::<Vec<_>>().try_into().ok()?;
        let ratio = |condition: &Option<usize>| {
            let [first, second] = arms.map(|arm| log_ratio(self.findings, (*condition)?, arm));
            Some(first? - second?)
        };
        Some(Shared { arms, grid: RatioGrid { columns, values: all.iter().map(ratio).collect() } })
    }

    /// The arms that are ahead somewhere on the map, with the number of their cells; the one with most is first.
    pub(crate) fn won_on(&self, slice: &Slice) -> Vec<(usize, usize)> {
        let mut won: std::collections::BTreeMap<usize, usize> = std::collections::BTreeMap::new();
        for row in 0..self.y().values.len() {
            for column in 0..self.x().values.len() {
                let winner = self.condition(slice, column, row).and_then(|place| self.winner(place));
                if let Some(winner) = winner.filter(|winner| winner.standing.is_ahead()) {
                    *won.entry(winner.arm).or_default() += 1;
                }
            }
        }
        let mut found: Vec<(usize, usize)> = won.into_iter().collect();
        found.sort_by_key(|(arm, won)| (std::cmp::Reverse(*won), *arm));
        found
    }

    /// Where the arms of a map are equally fast, row by row.
    pub(crate) fn crossings(&self, shared: &Shared) -> Vec<RowCrossing> {
        let in_row = |row: usize| RowCrossing {
            row,
            numbers: shared.grid.in_row(row).into_iter().filter_map(|at| self.x().number_at(at)).collect(),
        };
        (0..self.y().values.len()).map(in_row).collect()
    }
}

/// The logarithm of an arm's speed relative to the baseline's under a condition, as the verdicts have it.
pub(crate) fn log_ratio(findings: &Findings, condition: usize, arm: usize) -> Option<f64> {
    if arm == findings.study.baseline {
        return Some(0.0);
    }
    let found = findings.comparisons.get(condition)?.iter().find(|found| found.arm == arm)?;
    found.speed().ratio.filter(|_| found.grade.compares()).map(|ratio| ratio.value.ln())
}

/// Widths of one map, of a few maps and of many.
const WIDTHS: [f64; 3] = [960.0, 490.0, 325.0];

/// Right of a map.
const MARGIN: f64 = 8.0;

/// Up to this number of maps two stand side by side, beyond it three.
const FEW_MAPS: usize = 4;

/// One of `all` maps; `None` if nothing on it was run.
pub(crate) fn map(source: Source, slice: &Slice, all: usize, description: String) -> Option<WinnerMap> {
    let columns = source.x().values.len();
    let rows = source.y().values.len();
    let widest = |axis: &Axis| axis.values.iter().map(|value| value.text.chars().count()).max().unwrap_or(0);
    let left = (7.0 * widest(source.y()) as f64 + 16.0).clamp(40.0, 170.0);
    let most = match source.findings.sheet {
        Sheet::Page => WIDTHS[usize::from(all > 1) + usize::from(all > FEW_MAPS)],
        Sheet::Figure { width } => width - MARGIN,
    };
    let least = if all > FEW_MAPS { 46.0 } else { 60.0 };
    let cell = Size { width: ((most - left) / columns as f64).clamp(least, 190.0), height: 46.0 };
    let layout = Layout { left, cell, rows };
    let mut cells = Vec::new();
    for row in 0..rows {
        for column in 0..columns {
            if let Some(condition) = source.condition(slice, column, row) {
                cells.push(layout.cell(
                    source,
                    condition,
                    GridPlace { column: column as f64, row: row as f64 },
                ));
            }
        }
    }
    if cells.is_empty() {
        return None;
    }
    let bottom = ABOVE + cell.height * rows as f64;
    let crossing = source.shared(slice).map(|shared| layout.line(&shared.grid)).unwrap_or_default();
    let name = other_words(source.axes, slice);
    let aside = if name.is_empty() { String::new() } else { format!(", {name}") };
    let stride = ((7.0 * widest(source.x()) as f64 + 8.0) / cell.width).ceil().max(1.0) as usize;
    Some(WinnerMap {
        figure: Figure {
            id: format!("winner-map-{}", slice.number),
            title: format!("Which arm wins by {} and {}{aside}", source.x().name, source.y().name),
            description,
            reading: String::new(),
            table: table(source, slice),
        },
        name,
        width: coordinate(left + cell.width * columns as f64 + MARGIN),
        height: coordinate(bottom + BELOW),
        left: coordinate(left),
        x_label: source.x().name.clone(),
        x_label_y: coordinate(bottom + 38.0),
        y_label: source.y().name.clone(),
        columns: (0..columns)
            .step_by(stride)
            .map(|column| Tick {
                at: coordinate(layout.x(column as f64)),
                label: source.x().values[column].text.clone(),
            })
            .collect(),
        column_y: coordinate(bottom + 19.0),
        rows: (0..rows)
            .map(|row| Tick {
                at: coordinate(layout.y(row as f64) + 4.0),
                label: clipped(&source.y().values[row].text, 20),
            })
            .collect(),
        cells,
        crossing,
    })
}

/// `latency=0.001`; empty for a map of all axes.
fn other_words(axes: &Axes, slice: &Slice) -> String {
    let others = axes.ordered.iter().skip(2).zip(&slice.others);
    let words = others.map(|(axis, place)| format!("{}={}", axis.name, axis.values[*place].text));
    words.collect::<Vec<_>>().join(" ")
}

#[derive(Clone, Copy)]
struct Size {
    width: f64,
    height: f64,
}

#[derive(Clone, Copy)]
struct Layout {
    left: f64,
    cell: Size,
    rows: usize,
}

impl Layout {
    /// The middle of a column.
    fn x(&self, column: f64) -> f64 {
        self.left + (column + 0.5) * self.cell.width
    }

    /// The middle of a row; rows rise with their values.
    fn y(&self, row: f64) -> f64 {
        ABOVE + (self.rows as f64 - row - 0.5) * self.cell.height
    }

    fn line(&self, grid: &RatioGrid) -> String {
        let mut path = Path::default();
        let place = |at: GridPlace| Place { x: self.x(at.column), y: self.y(at.row) };
        for [from, to] in grid.strokes() {
            path.stroke(place(from), place(to));
        }
        path.finish()
    }

    fn cell(&self, source: Source, condition: usize, at: GridPlace) -> MapCell {
        let Size { width, height } = self.cell;
        let x = self.x(at.column);
        let y = self.y(at.row);
        let winner = source.winner(condition);
        let arm = winner.map(|winner| winner.arm);
        let name = arm.map_or("none", |arm| source.findings.study.arm_name(arm));
        let room = ((width - 30.0) / LETTER).max(2.0) as usize;
        let shown = clipped(name, room);
        // The mark and the name together stand in the middle.
        let wide = LETTER * shown.chars().count() as f64 + 15.0;
        let decided = winner.is_some_and(|winner| winner.standing.is_ahead());
        let title = winner.map_or("no arm has a time".to_owned(), |winner| {
            format!("{name}, {}: {}", winner.words, long_words(winner))
        });
        MapCell {
            style: arm.map_or("nothing".to_owned(), chart::arm_style),
            hatch: arm.filter(|_| decided).map(hatch).unwrap_or_default(),
            x: coordinate(x - width / 2.0 + 1.0),
            y: coordinate(y - height / 2.0 + 1.0),
            width: coordinate(width - 2.0),
            height: coordinate(height - 2.0),
            weight: weight(winner),
            decided,
            mark: arm.map_or(String::new(), |arm| marker(arm, x - wide / 2.0 + 5.0, y - 8.0, 4.5)),
            name: shown,
            name_x: coordinate(x - wide / 2.0 + 15.0),
            name_y: coordinate(y - 4.0),
            sure: winner.map(short_words).unwrap_or_default(),
            sure_x: coordinate(x),
            sure_y: coordinate(y + 13.0),
            title: format!("{}: {title}", source.findings.study.conditions[condition].name),
        }
    }
}

/// The pattern of an arm's area; the first of each round of colours has none.
pub(crate) fn hatch(arm: usize) -> String {
    const PATTERNS: usize = 8;
    if arm.is_multiple_of(PATTERNS) { String::new() } else { format!("hatch-arm-{}", arm % PATTERNS) }
}

/// How sure the winner is, as opacity.
fn weight(winner: Option<&Winner>) -> String {
    let weight = match winner.map(|winner| (winner.standing, winner.sure)) {
        Some((Lead::Ahead, sure)) => {
            let above = (sure.unwrap_or(0.9) - 0.9) / 0.1;
            0.24 + 0.22 * above.clamp(0.0, 1.0)
        }
        Some((Lead::AheadOpen | Lead::AheadLittle | Lead::Alone, _)) => 0.16,
        Some((Lead::Even | Lead::Open, _)) | None => 0.0,
    };
    format!("{weight:.2}")
}

fn short_words(winner: &Winner) -> String {
    match winner.standing {
        Lead::Ahead => winner.sure.map_or("ahead".to_owned(), sure_words),
        Lead::AheadOpen => "size open".to_owned(),
        Lead::AheadLittle => "by little".to_owned(),
        Lead::Even => "even".to_owned(),
        Lead::Open => "open".to_owned(),
        Lead::Alone => "alone".to_owned(),
    }
}

fn long_words(winner: &Winner) -> String {
    let sure = winner.sure.filter(|_| winner.standing == Lead::Ahead);
    let sure = sure.map_or(String::new(), |sure| format!(", {} sure", sure_words(sure)));
    format!("{}{sure}", winner.standing.name())
}

/// The first letters, with a sign that some are missing.
pub(crate) fn clipped(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{kept}…")
}

fn table(source: Source, slice: &Slice) -> Table {
    let x = source.x();
    let y = source.y();
    let mut table =
        Table::new([y.name.as_str(), x.name.as_str(), "least time", "of", "standing", "sure", "next"]);
    for row in 0..y.values.len() {
        for column in 0..x.values.len() {
            let Some(condition) = source.condition(slice, column, row) else { continue };
            let winner = source.winner(condition);
            let dash = || "–".to_owned();
            let name = |arm: usize| source.findings.study.arm_name(arm).to_owned();
            table.rows.push(vec![
                y.values[row].text.clone(),
                x.values[column].text.clone(),
                winner.map_or_else(dash, |winner| winner.words.clone()),
                winner.map_or_else(dash, |winner| name(winner.arm)),
                winner.map_or_else(dash, |winner| winner.standing.name().to_owned()),
                winner.and_then(|winner| winner.sure).map_or_else(dash, sure_words),
                winner.and_then(|winner| winner.second).map_or_else(dash, name),
            ]);
        }
    }
    source.findings.sheet.cut(&mut table, 200);
    table
}

/// A number between the values of an axis, in the unit of the nearest of them: `1.6Gbit/s`.
pub(crate) fn about(axis: &Axis, number: f64) -> String {
    let apart = |value: &&AxisPoint| value.number.map_or(f64::INFINITY, |own| (own / number).ln().abs());
    let nearest = axis.values.iter().min_by(|one, other| apart(one).total_cmp(&apart(other)));
    let unit = nearest.and_then(|value| {
        let digits = value.text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        let written: f64 = digits.parse().ok().filter(|written| *written != 0.0)?;
        Some((value.number? / written, &value.text[digits.len()..]))
    });
    let (factor, name) = unit.filter(|(factor, _)| *factor > 0.0).unwrap_or((1.0, ""));
    format!("{}{name}", two_digits(number / factor))
}

/// Two significant digits: what an interpolation is worth.
fn two_digits(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return number_format::short(number);
    }
    let power = 10_f64.powf(number.abs().log10().floor() - 1.0);
    let rounded = (number / power).round() * power;
    let decimals = (-(power.log10() + 1e-9).floor()).clamp(0.0, 9.0) as usize;
    number_format::fixed(rounded, decimals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_between_two_values_has_the_unit_of_the_nearer_one() {
        let axis = |values: &[(&str, f64)]| {
            let point =
                |(text, number): &(&str, f64)| AxisPoint { text: (*text).to_owned(), number: Some(*number) };
            Axis { name: String::new(), values: values.iter().map(point).collect() }
        };
        let bandwidth = axis(&[("500Mbit/s", 62.5e6), ("2Gbit/s", 2.5e8)]);
        assert_eq!(["1.6Gbit/s", "630Mbit/s"], [2e8, 7.9e7].map(|number| about(&bandwidth, number)));
        assert_eq!(about(&axis(&[("100us", 1e-4), ("2ms", 2e-3)]), 1.57e-3), "1.6ms");
        assert_eq!(about(&axis(&[("2", 2.0), ("16", 16.0)]), 5.23), "5.2");
        assert_eq!(about(&axis(&[("10%", 0.1), ("0", 0.0)]), 0.052), "5.2%");
    }
}
