//! Where the lines of parallel coordinates lie.

use super::ways::{Compared, Way};
use super::{AxisLine, Chart, Group, Line, MOST_AXES, measure_words};
use crate::axes::{Axes, AxisPoint, spans_a_decade};
use crate::chart::{Figure, Grain, Path, Place, Scale, Sheet, Stretch, Table, Tick, arm_style, coordinate};
use crate::findings::Findings;
use crate::number_format::Unit;
use crate::verdict::metric_words;
use comparison::study::Lost;
use recipe::Metric;
use std::collections::BTreeSet;

/// Rows of the table; the CSV files hold all.
const MOST_ROWS: usize = 200;

/// More lines are drawn thinner.
const MOST_THICK: usize = 120;

const TOP: f64 = 52.0;
const BOTTOM: f64 = 372.0;
/// Distance between the scale of times and the places of lines without one, and between these.
const APART: f64 = 26.0;
/// The part of a value's room that its lines take.
const FILLED: f64 = 0.66;
/// Width of a letter on average.
const LETTER: f64 = 6.8;

/// Distance between the last axis and the edge.
const RIGHT: f64 = 76.0;
/// Least distance between two axes, for the words above them.
const LEAST_APART: f64 = 110.0;

/// The places of all axes.
pub(super) struct Canvas<'a> {
    axes: &'a Axes,
    sheet: Sheet,
    width: f64,
    pub(super) compared: Compared,
    pub(super) unit: Unit,
    time: Scale,
    quality: Option<(Metric, Scale)>,
    /// Why lines end without a time, in the order of their places.
    pub(super) ends: Vec<Lost>,
    /// Of each axis, then of the time and the metric.
    across: Vec<f64>,
}

impl<'a> Canvas<'a> {
    pub(super) fn of(axes: &'a Axes, all: &[Way], compared: Compared, sheet: Sheet) -> Option<Self> {
        let seconds: Vec<f64> = all.iter().filter_map(|way| way.seconds).collect();
        let (least, most) = ends_of(&seconds)?;
        let unit = Unit::of_seconds(least);
        let time = if spans_a_decade(&seconds) {
            Scale::new(least / 1.05..=most * 1.05, TOP..=BOTTOM, unit.factor).stretched(Stretch::Logarithm)
        } else {
            let margin = ((most - least) * 0.04).max(least * 0.01);
            Scale::new(least - margin..=most + margin, TOP..=BOTTOM, unit.factor)
        };
        let qualities: Vec<f64> = all.iter().filter_map(|way| way.quality).collect();
        let quality = compared.metric.zip(ends_of(&qualities)).map(|(metric, (low, high))| {
            let margin = ((high - low) * 0.04).max(high.abs() * 1e-3);
            let places = if metric.higher_is_better() { BOTTOM..=TOP } else { TOP..=BOTTOM };
            (metric, Scale::new(low - margin..=high + margin, places, Unit::of_metric(metric).factor))
        });
        let lost = |kind: &Lost| all.iter().any(|way| way.lost == Some(*kind));
        let first =
            axes.ordered.first()?.values.iter().map(|value| value.text.chars().count()).max().unwrap_or(0);
        let left = (22.0 + LETTER * first as f64).clamp(60.0, 140.0);
        let number = axes.ordered.len().min(MOST_AXES) + 1 + usize::from(quality.is_some());
        let gaps = (number - 1) as f64;
        // A figure that has no room for its heads is drawn wider, and shrunk.
        let width = match sheet {
            Sheet::Page => sheet.width(),
            Sheet::Figure { width } => width.max(left + RIGHT + LEAST_APART * gaps),
        };
        let apart = (width - RIGHT - left) / gaps;
        Some(Self {
            axes,
            sheet,
            width,
            compared,
            unit,
            time,
            quality,
            ends: [Lost::Missed, Lost::Diverged].into_iter().filter(lost).collect(),
            across: (0..number).map(|place| left + apart * place as f64).collect(),
        })
    }

    fn drawn_axes(&self) -> usize {
        self.axes.ordered.len().min(MOST_AXES)
    }

    pub(super) fn chart(
        &self,
        findings: &Findings,
        all: &[Way],
        drawn: &[usize],
        description: String,
    ) -> Chart {
        let heights = self.heights(all, drawn);
        let end = |lost: &Lost| Tick {
            at: coordinate(self.end(*lost) + 4.0),
            label: match lost {
                Lost::Missed => "target missed",
                Lost::Diverged => "diverged",
            }
            .to_owned(),
        };
        let time_x = self.across[self.drawn_axes()];
        Chart {
            figure: Figure {
                id: "parallel".to_owned(),
                title: format!("{} over all axes", measure_words(self.compared.measure)),
                description,
                reading: String::new(),
                table: self.table(findings, all),
            },
            width: coordinate(self.width),
            height: coordinate(BOTTOM + APART * self.ends.len() as f64 + 14.0),
            dense: drawn.len() > MOST_THICK,
            head_y: [14.0, 30.0].map(coordinate),
            axes: self.axis_lines(),
            ends: self.ends.iter().map(end).collect(),
            end_x: coordinate(time_x + 12.0),
            groups: self.groups(findings, all, drawn, &heights),
        }
    }

    /// Where a line without a time ends.
    fn end(&self, lost: Lost) -> f64 {
        let place = self.ends.iter().position(|end| *end == lost).unwrap_or(0);
        BOTTOM + APART * (place + 1) as f64 - 4.0
    }

    /// The middle and the height of a value's stretch.
    fn stretch(&self, axis: usize, value: usize) -> [f64; 2] {
        let room = (BOTTOM - TOP) / self.axes.ordered[axis].values.len() as f64;
        [BOTTOM - room * (value as f64 + 0.5), room * FILLED]
    }

    /// For each of the lines its height on each axis: within the stretch of a value from the slowest to the fastest, so that no two cross there.
    fn heights(&self, all: &[Way], drawn: &[usize]) -> Vec<Vec<f64>> {
        let seconds = |line: usize| all[drawn[line]].seconds.unwrap_or(f64::INFINITY);
        let mut order: Vec<usize> = (0..drawn.len()).collect();
        order.sort_by(|one, other| seconds(*other).total_cmp(&seconds(*one)).then(other.cmp(one)));
        let mut heights = vec![Vec::new(); drawn.len()];
        for (axis, named) in self.axes.ordered.iter().take(MOST_AXES).enumerate() {
            let mut of_values: Vec<Vec<usize>> = vec![Vec::new(); named.values.len()];
            for line in &order {
                of_values[all[drawn[*line]].places[axis]].push(*line);
            }
            for (value, here) in of_values.iter().enumerate() {
                let [middle, height] = self.stretch(axis, value);
                for (place, line) in here.iter().enumerate() {
                    let part = (place as f64 + 0.5) / here.len() as f64 - 0.5;
                    heights[*line].push(middle - part * height);
                }
            }
        }
        heights
    }

    fn groups(&self, findings: &Findings, all: &[Way], drawn: &[usize], heights: &[Vec<f64>]) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        let arms: BTreeSet<usize> = drawn.iter().map(|place| all[*place].arm).collect();
        for beaten in [true, false] {
            for arm in &arms {
                let own = drawn.iter().zip(heights).map(|(place, heights)| (&all[*place], heights));
                let own = own.filter(|(way, _)| way.arm == *arm && way.beaten == beaten);
                let lines: Vec<Line> = own.map(|(way, heights)| self.line(findings, way, heights)).collect();
                if !lines.is_empty() {
                    groups.push(Group { style: arm_style(*arm), beaten, lines });
                }
            }
        }
        groups
    }

    fn line(&self, findings: &Findings, way: &Way, heights: &[f64]) -> Line {
        let mut ends: Vec<f64> = heights.to_vec();
        let mut cross = Path::default();
        let time_x = self.across[self.drawn_axes()];
        match (way.seconds, way.lost) {
            (Some(seconds), _) => {
                ends.push(self.time.at(seconds));
                let quality = self.quality.as_ref().zip(way.quality);
                ends.extend(quality.map(|((_, scale), quality)| scale.at(quality)));
            }
            (None, Some(lost)) => {
                let y = self.end(lost);
                ends.push(y);
                let left = time_x - 4.0;
                let right = time_x + 4.0;
                cross.stroke(Place { x: left, y: y - 4.0 }, Place { x: right, y: y + 4.0 });
                cross.stroke(Place { x: left, y: y + 4.0 }, Place { x: right, y: y - 4.0 });
            }
            (None, None) => {}
        }
        let condition = findings.study.conditions[way.condition].name;
        let [time, quality] = self.words(way);
        let quality = if quality == "–" { String::new() } else { format!(", {quality}") };
        Line {
            path: Path::tracing_by(Grain::Tenth, self.across.iter().copied().zip(ends)).finish(),
            cross: cross.finish(),
            title: format!("{}, {condition}: {time}{quality}", findings.study.arm_name(way.arm)),
        }
    }

    fn words(&self, way: &Way) -> [String; 2] {
        let time = match (way.seconds, way.lost) {
            (Some(seconds), _) => self.unit.short(seconds),
            (None, Some(Lost::Diverged)) => "diverged".to_owned(),
            (None, _) => "target missed".to_owned(),
        };
        let written = |(metric, value): (Metric, f64)| Unit::of_metric(metric).short(value);
        let quality = self.compared.metric.zip(way.quality).map(written);
        [time, quality.unwrap_or_else(|| "–".to_owned())]
    }

    fn axis_lines(&self) -> Vec<AxisLine> {
        let apart = self.across[1] - self.across[0];
        let letters = ((apart - 14.0) / LETTER).max(5.0) as usize;
        let fitting = |text: &str| shortened(text, letters);
        let axis = |number: usize| {
            let axis = &self.axes.ordered[number];
            let stride = (axis.values.len() as f64 * 14.0 / (BOTTOM - TOP)).ceil().max(1.0) as usize;
            let x = self.across[number];
            let mut stretches = Path::default();
            for value in 0..axis.values.len() {
                let [middle, height] = self.stretch(number, value);
                let top = Place { x, y: middle - height / 2.0 };
                stretches.stroke(top, Place { y: middle + height / 2.0, ..top });
            }
            let tick = |(value, point): (usize, &AxisPoint)| Tick {
                at: coordinate(self.stretch(number, value)[0] + 4.0),
                label: fitting(&point.text),
            };
            AxisLine {
                stretches: stretches.finish(),
                ticks: axis.values.iter().enumerate().step_by(stride).map(tick).collect(),
                ..self.axis_line(number, &axis.name, fitting(&axis.name), String::new())
            }
        };
        let mut lines: Vec<AxisLine> = (0..self.drawn_axes()).map(axis).collect();
        let ticks = |scale: &Scale| {
            let below =
                |tick: Tick| Tick { at: coordinate(tick.at.parse::<f64>().unwrap_or(0.0) + 4.0), ..tick };
            scale.ticks(6).into_iter().map(below).collect::<Vec<_>>()
        };
        let time = measure_words(self.compared.measure);
        let number = lines.len();
        let unit = format!("{}, fast above", self.unit.name);
        lines
            .push(AxisLine { ticks: ticks(&self.time), ..self.axis_line(number, time, fitting(time), unit) });
        if let Some((metric, scale)) = &self.quality {
            let name = metric_words(*metric);
            let unit = match Unit::of_metric(*metric).name {
                "" => "good above".to_owned(),
                unit => format!("{unit}, good above"),
            };
            let line = self.axis_line(number + 1, &name, fitting(&name), unit);
            let label_x = coordinate(self.across[number + 1] + 9.0);
            lines.push(AxisLine { ticks: ticks(scale), label_x, anchor: "start", ..line });
        }
        lines
    }

    fn axis_line(&self, number: usize, title: &str, name: String, unit: String) -> AxisLine {
        let x = self.across[number];
        let mut line = Path::default();
        line.stroke(Place { x, y: TOP }, Place { x, y: BOTTOM });
        AxisLine {
            name,
            title: title.to_owned(),
            unit,
            x: coordinate(x),
            label_x: coordinate(x - 9.0),
            anchor: "end",
            line: line.finish(),
            stretches: String::new(),
            ticks: Vec::new(),
        }
    }

    fn table(&self, findings: &Findings, all: &[Way]) -> Table {
        let mut table = Table::new(["arm"]);
        table.columns.extend(self.axes.ordered.iter().map(|axis| axis.name.clone()));
        table.columns.push(measure_words(self.compared.measure).to_owned());
        table.columns.extend(self.compared.metric.map(|metric| format!("final {}", metric_words(metric))));
        table.columns.push("beaten".to_owned());
        for way in all {
            let [time, quality] = self.words(way);
            let mut row = vec![findings.study.arm_name(way.arm).to_owned()];
            let values = self.axes.ordered.iter().zip(&way.places);
            row.extend(values.map(|(axis, place)| axis.values[*place].text.clone()));
            row.push(time);
            row.extend(self.compared.metric.map(|_| quality));
            row.push(if way.beaten { "yes" } else { "no" }.to_owned());
            table.rows.push(row);
        }
        self.sheet.cut(&mut table, MOST_ROWS);
        table
    }
}

fn ends_of(values: &[f64]) -> Option<(f64, f64)> {
    Some((values.iter().copied().reduce(f64::min)?, values.iter().copied().reduce(f64::max)?))
}

/// The first letters of a text that is too long.
fn shortened(text: &str, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    text.chars().take(letters.saturating_sub(1)).chain(['…']).collect()
}
