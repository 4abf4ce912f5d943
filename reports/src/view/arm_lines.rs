//! The time of each arm over one axis of conditions, with its interval.

use crate::axes::{Axes, Axis, spans_a_decade};
use crate::chart::{
    self, Area, CurvePoint, Figure, Frame, Path, Place, Scale, Stretch, Table, Tick, coordinate, marker,
};
use crate::findings::Findings;
use crate::number_format::Unit;
use comparison::statistics::Estimate;
use comparison::study::{ArmCell, SpeedMeasure};
use serde::Serialize;

/// A chart with a line per arm.
#[derive(Debug, Serialize)]
pub(crate) struct ArmLines {
    pub(crate) figure: Figure,
    pub(crate) frame: Frame,
    pub(crate) lines: Vec<ArmLine>,
}

/// Line of an arm, with the intervals and the marks of its values.
#[derive(Debug, Serialize)]
pub(crate) struct ArmLine {
    pub(crate) style: String,
    /// Outlines of the intervals between neighbouring conditions.
    pub(crate) band: String,
    /// Upright strokes of the intervals.
    pub(crate) intervals: String,
    /// Empty where the values are no numbers.
    pub(crate) line: String,
    pub(crate) marks: Vec<LineMark>,
}

#[derive(Debug, Serialize)]
pub(crate) struct LineMark {
    pub(crate) shape: String,
    pub(crate) title: String,
}

/// The words around the chart.
pub(crate) struct Words {
    pub(crate) description: String,
    pub(crate) reading: String,
    pub(crate) table: Table,
}

/// Most ticks of an axis whose values are its ticks.
const MOST_TICKS: usize = 14;

/// An arm's time at one value of the axis.
struct TimedPlace {
    place: usize,
    time: Estimate,
}

/// `None` if no arm has a time.
pub(crate) fn lines(findings: &Findings, axes: &Axes, words: Words) -> Option<ArmLines> {
    let axis = axes.ordered.first()?;
    let measure = common_measure(findings);
    let arms: Vec<(usize, Vec<TimedPlace>)> = (0..findings.rows().plan.arms.len())
        .map(|arm| (arm, times(findings, axes, arm, measure)))
        .filter(|(_, times)| !times.is_empty())
        .collect();
    let all = || arms.iter().flat_map(|(_, times)| times);
    let values: Vec<f64> = all().map(|found| found.time.value).collect();
    let reach = |found: &TimedPlace| {
        let middle = found.time.value;
        let (low, high) = found.time.interval.unwrap_or((middle, middle));
        // An interval of few runs may reach beyond anything that was seen.
        [low.max(middle / 4.0), high.min(middle * 4.0)]
    };
    let ends: Vec<f64> = all().flat_map(reach).collect();
    let high = ends.iter().copied().reduce(f64::max)?;
    let low = ends.iter().copied().fold(f64::INFINITY, f64::min);
    let area = findings.sheet.wide(380.0);
    let unit = Unit::of_seconds(values.iter().copied().fold(f64::INFINITY, f64::min));
    let y = if spans_a_decade(&values) {
        Scale::new(low / 1.15..=high * 1.15, area.bottom..=area.top, unit.factor)
            .stretched(Stretch::Logarithm)
    } else {
        Scale::new(0.0..=high * 1.06, area.bottom..=area.top, unit.factor)
    };
    let x = AxisScale::of(axis, &area);
    let name = match measure {
        SpeedMeasure::StepTime => "time per step",
        SpeedMeasure::TimeToTarget | SpeedMeasure::StepsToTarget => "time to target",
    };
    let labels = [axis.name.clone(), format!("{name} ({}){}", unit.name, stretch_words(&values))];
    let mut frame = area.frame(&x.scale, &y, labels);
    frame.x_ticks = x.ticks(axis);
    let canvas = Canvas { x: &x, y: &y, axis, unit, continuous: axis.numbers().is_some() };
    let line = |(arm, times): &(usize, Vec<TimedPlace>)| canvas.line(findings, *arm, times);
    Some(ArmLines {
        figure: Figure {
            id: "overview-lines".to_owned(),
            title: format!("{name} of each arm by {}", axis.name),
            description: words.description,
            reading: words.reading,
            table: words.table,
        },
        lines: arms.iter().map(line).collect(),
        frame,
    })
}

fn stretch_words(values: &[f64]) -> &'static str {
    if spans_a_decade(values) { ", logarithmic" } else { "" }
}

/// Measure that the arms of all conditions have: the time to the target only if every condition has one.
pub(crate) fn common_measure(findings: &Findings) -> SpeedMeasure {
    let all = findings.study.conditions.iter().all(|condition| condition.target.is_some());
    if all { SpeedMeasure::TimeToTarget } else { SpeedMeasure::StepTime }
}

/// The arm's time in the order of the axis; none where its runs do not tell.
fn times(findings: &Findings, axes: &Axes, arm: usize, measure: SpeedMeasure) -> Vec<TimedPlace> {
    let confidence = findings.thresholds.confidence;
    let shown = |cell: &&ArmCell| {
        let missed = measure == SpeedMeasure::TimeToTarget && cell.mostly_missed();
        !cell.mostly_diverged() && !missed
    };
    let mut found: Vec<TimedPlace> = findings
        .study
        .conditions
        .iter()
        .zip(&axes.places)
        .filter_map(|(condition, places)| {
            let cell = condition.cell(arm).filter(shown)?;
            let time = condition.time(cell, measure, confidence)?;
            Some(TimedPlace { place: *places.first()?, time })
        })
        .filter(|found| found.time.value.is_finite() && found.time.value > 0.0)
        .collect();
    found.sort_by_key(|found| found.place);
    found
}

/// Half the width of a letter of a label.
const HALF_LETTER: f64 = 3.5;

/// Places of an axis's values: by their numbers, or evenly where they have none.
pub(crate) struct AxisScale {
    pub(crate) scale: Scale,
    numbers: Option<Vec<f64>>,
    /// Width of the chart, which no label crosses.
    width: f64,
}

impl AxisScale {
    pub(crate) fn of(axis: &Axis, area: &Area) -> Self {
        let numbers = axis.numbers();
        let inside = area.left + 24.0..=area.right - 24.0;
        let scale = match &numbers {
            Some(numbers) => {
                let low = numbers[0];
                let high = numbers[numbers.len() - 1];
                let scale = Scale::new(low..=high, inside, 1.0);
                if spans_a_decade(numbers) { scale.stretched(Stretch::Logarithm) } else { scale }
            }
            None => Scale::new(0.0..=(axis.values.len() - 1) as f64, inside, 1.0),
        };
        Self { scale, numbers, width: area.width }
    }

    pub(crate) fn at(&self, place: usize) -> f64 {
        let number = self.numbers.as_ref().and_then(|numbers| numbers.get(place).copied());
        self.scale.at(number.unwrap_or(place as f64))
    }

    /// The values themselves, without those for which there is no room.
    pub(crate) fn ticks(&self, axis: &Axis) -> Vec<Tick> {
        let stride = axis.values.len().div_ceil(MOST_TICKS).max(1);
        let mut ticks: Vec<Tick> = Vec::new();
        let mut last = f64::NEG_INFINITY;
        for (place, value) in axis.values.iter().enumerate().step_by(stride) {
            let at = self.at(place);
            let label = self.shortened(&value.text, at);
            let half = HALF_LETTER * label.chars().count() as f64;
            if at - half > last {
                ticks.push(Tick { at: coordinate(at), label });
                last = at + half + 6.0;
            }
        }
        ticks
    }

    /// A label that is centred at `at`, cut where it would leave the chart.
    fn shortened(&self, text: &str, at: f64) -> String {
        let most = (at.min(self.width - at) / HALF_LETTER) as usize;
        if text.chars().count() <= most {
            return text.to_owned();
        }
        text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
    }
}

struct Canvas<'a> {
    x: &'a AxisScale,
    y: &'a Scale,
    axis: &'a Axis,
    unit: Unit,
    /// Whether something lies between two values.
    continuous: bool,
}

impl Canvas<'_> {
    fn line(&self, findings: &Findings, arm: usize, times: &[TimedPlace]) -> ArmLine {
        let at = |found: &TimedPlace| (self.x.at(found.place), self.y.at(found.time.value));
        let with_interval =
            || times.iter().filter_map(|found| Some((self.x.at(found.place), self.ends(found)?)));
        let mut intervals = Path::default();
        for (x, [low, high]) in with_interval() {
            intervals.stroke(Place { x, y: low }, Place { x, y: high });
        }
        let upper = with_interval().map(|(x, [_, high])| (x, high));
        let lower: Vec<CurvePoint> = with_interval().map(|(x, [low, _])| (x, low)).collect();
        let outline: Vec<CurvePoint> = upper.chain(lower.into_iter().rev()).collect();
        let drawn = self.continuous && times.len() > 1;
        let band = if drawn && outline.len() > 3 { Path::around(outline).finish() } else { String::new() };
        let mark = |found: &TimedPlace| LineMark {
            shape: marker(arm, at(found).0, at(found).1, 4.5),
            title: format!(
                "{}, {}={}: {}",
                findings.study.arm_name(arm),
                self.axis.name,
                self.axis.values[found.place].text,
                self.unit.supported(found.time.value, found.time.uncertainty())
            ),
        };
        ArmLine {
            style: chart::arm_style(arm),
            band,
            intervals: intervals.finish(),
            line: if drawn { Path::tracing(times.iter().map(at)).finish() } else { String::new() },
            marks: times.iter().map(mark).collect(),
        }
    }

    /// Both ends of an interval, inside the chart.
    fn ends(&self, found: &TimedPlace) -> Option<[f64; 2]> {
        let (low, high) = found.time.interval?;
        let inside = |value: f64| self.y.at(value.clamp(self.y.low(), self.y.high()));
        Some([inside(low), inside(high)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axes::AxisPoint;

    #[test]
    fn labels_stay_in_the_chart() {
        let texts = ["constant", "step(every=1 epochs,factor=0.5)"];
        let values = texts.map(|text| AxisPoint { text: text.to_owned(), number: None }).to_vec();
        let axis = Axis { name: "lr-schedule".to_owned(), values };
        let area = Area::wide(300.0);
        let ticks = AxisScale::of(&axis, &area).ticks(&axis);
        assert_eq!(ticks[0].label, "constant");
        // 40 units from the edge: room for eleven letters.
        assert_eq!(ticks[1].label, "step(every…");
    }
}
