//! Why an arm won: the steps that it needs and the time of each, both relative to the baseline.

use super::condition_title;
use super::folding;
use super::front::MOST_APART;
use super::scoreboard::round_label;
use crate::chart::{
    Area, Figure, Frame, Key, Mark, Path, Place, Scale, Stretch, Table, arm_style, coordinate, marker,
    uncrowded_remark,
};
use crate::findings::Findings;
use crate::number_format;
use comparison::Comparison;
use comparison::statistics::Estimate;
use comparison::study::Condition;
use serde::Serialize;
use std::collections::BTreeSet;

#[derive(Debug, Serialize)]
pub(crate) struct Planes {
    pub(crate) reading: String,
    pub(crate) legend: Vec<Key>,
    pub(crate) charts: Vec<Plane>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Plane {
    pub(crate) figure: Figure,
    /// Empty for a chart of all conditions.
    pub(crate) name: String,
    pub(crate) frame: Frame,
    /// Path of the upright and the level line through the baseline.
    pub(crate) one: String,
    pub(crate) lines: Vec<EqualTotal>,
    pub(crate) points: Vec<PlanePoint>,
    /// Says how many outcomes have no mark; empty where all have one.
    #[serde(skip)]
    remark: String,
}

/// A line of equal total time.
#[derive(Debug, Serialize)]
pub(crate) struct EqualTotal {
    pub(crate) path: String,
    pub(crate) label: String,
    pub(crate) label_x: String,
    pub(crate) label_y: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct PlanePoint {
    pub(crate) style: String,
    pub(crate) shape: String,
    /// The intervals of both.
    pub(crate) cross: String,
    pub(crate) title: String,
}

/// An arm under a condition, relative to the baseline.
struct Relative<'s> {
    arm: usize,
    condition: &'s str,
    steps: Estimate,
    /// Time of a step.
    time: Estimate,
    /// Time of all steps to the target.
    total: Option<f64>,
}

impl Planes {
    /// `None` if there is one condition, or no target.
    pub(crate) fn of(findings: &Findings) -> Option<Self> {
        if !findings.has_conditions() {
            return None;
        }
        let apart = findings.study.conditions.len() <= MOST_APART;
        let mut charts = Vec::new();
        let mut all = Vec::new();
        for (condition, comparisons) in findings.conditions() {
            let found = relatives(condition, comparisons);
            if apart {
                charts.extend(plane(findings, charts.len(), condition_title(condition), &found));
            } else {
                all.extend(found);
            }
        }
        charts.extend(plane(findings, charts.len(), String::new(), &all));
        if charts.is_empty() {
            return None;
        }
        let arms: BTreeSet<usize> = findings.study.arm_cells().map(|placed| placed.cell.arm).collect();
        let base = findings.study.arm_name(findings.study.baseline);
        Some(Self {
            reading: format!(
                "Time to the target is steps times the time of a step, both beside {base}, which lies where the lines cross: left needs \
                 fewer steps, lower has shorter ones. On a slanted line the product is the same; crosses are intervals.{}",
                charts.iter().map(|chart| chart.remark.as_str()).collect::<String>()
            ),
            legend: arms
                .into_iter()
                .filter(|arm| *arm != findings.study.baseline)
                .map(|arm| Key::of_arm(arm, findings.study.arm_name(arm)))
                .collect(),
            charts,
        })
    }
}

/// The arms whose steps and times are compared with the baseline's, from the comparisons behind the verdicts.
fn relatives<'s>(condition: &Condition<'s>, comparisons: &[Comparison]) -> Vec<Relative<'s>> {
    let sound = |estimate: &Estimate| estimate.value > 0.0 && estimate.value.is_finite();
    let relative = |found: &Comparison| {
        let steps = found.steps_to_target.as_ref()?.ratio.filter(sound)?;
        let time = found.step_time.ratio.filter(sound)?;
        let total = found.time_to_target.as_ref().and_then(|total| total.ratio);
        found.grade.compares().then(|| Relative {
            arm: found.arm,
            condition: condition.name,
            steps: steps.map(f64::recip),
            time: time.map(f64::recip),
            total: total.map(|total| total.value.recip()),
        })
    };
    comparisons.iter().filter_map(relative).collect()
}

/// Ratios that lines of equal total time are drawn for.
const TOTALS: [f64; 13] =
    [0.1, 0.2, 1.0 / 3.0, 0.5, 2.0 / 3.0, 1.0 / 1.2, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0];

/// The chart of all conditions, and that of one of several, on the page.
const ALL: Area = Area { width: 760.0, height: 480.0, left: 58.0, right: 744.0, top: 28.0, bottom: 436.0 };
const SMALL: Area = Area { width: 500.0, height: 360.0, left: 58.0, right: 488.0, top: 28.0, bottom: 316.0 };

/// `None` if nothing is compared.
fn plane(findings: &Findings, number: usize, name: String, found: &[Relative]) -> Option<Plane> {
    if found.is_empty() {
        return None;
    }
    let area = findings.sheet.square(if name.is_empty() { ALL } else { SMALL });
    let x = scale(found.iter().map(|relative| relative.steps), [area.left, area.right]);
    let y = scale(found.iter().map(|relative| relative.time), [area.bottom, area.top]);
    let base = findings.study.arm_name(findings.study.baseline);
    let labels = [format!("steps to target, {base} = 1"), format!("time per step, {base} = 1")];
    let mut frame = area.frame(&x, &y, labels);
    (frame.x_ticks, frame.y_ticks) = (x.ticks_across(6), y.ticks_up(6));
    let mark = |relative: &Relative| Mark {
        arm: relative.arm,
        differs: false,
        place: Place { x: x.at(relative.steps.value), y: y.at(relative.time.value) },
    };
    let marks: Vec<Mark> = found.iter().map(mark).collect();
    let drawn = folding::drawn(findings, &marks);
    let point = |relative: &Relative, mark: &Mark| PlanePoint {
        style: arm_style(relative.arm),
        shape: marker(relative.arm, mark.place.x, mark.place.y, 5.0),
        cross: cross(relative, mark.place, &x, &y),
        title: sentence(findings, relative),
    };
    let one = |value: f64, scale: &Scale| coordinate(scale.at(value));
    let aside = if name.is_empty() { ", all conditions".to_owned() } else { format!(", {name}") };
    Some(Plane {
        figure: Figure {
            id: format!("plane-{number}"),
            title: format!("Steps and time per step{aside}"),
            description: finding(findings, found),
            reading: String::new(),
            table: table(findings, found),
        },
        name,
        one: format!(
            "M{} {}V{}M{} {}H{}",
            one(1.0, &x),
            coordinate(area.top),
            coordinate(area.bottom),
            coordinate(area.left),
            one(1.0, &y),
            coordinate(area.right)
        ),
        lines: TOTALS.into_iter().filter_map(|total| equal_total(total, &x, &y)).collect(),
        points: (0..found.len())
            .filter(|place| drawn[*place])
            .map(|place| point(&found[place], &marks[place]))
            .collect(),
        frame,
        remark: uncrowded_remark(&drawn, "`bakeoff figure plane -o plane.svg` draws all").unwrap_or_default(),
    })
}

/// Path of the intervals of steps and time through their mark.
fn cross(relative: &Relative, at: Place, x: &Scale, y: &Scale) -> String {
    let mut cross = Path::default();
    if let Some((low, high)) = relative.steps.interval {
        cross.stroke(Place { x: within(x, low), ..at }, Place { x: within(x, high), ..at });
    }
    if let Some((low, high)) = relative.time.interval {
        cross.stroke(Place { y: within(y, low), ..at }, Place { y: within(y, high), ..at });
    }
    cross.finish()
}

fn within(scale: &Scale, value: f64) -> f64 {
    scale.at(value.clamp(scale.low(), scale.high()))
}

/// Holds one and all ratios; intervals up to twice as far.
fn scale(estimates: impl Iterator<Item = Estimate>, places: [f64; 2]) -> Scale {
    let mut low = 0.9_f64;
    let mut high = 1.1_f64;
    for estimate in estimates {
        let (from, to) = estimate.interval.unwrap_or((estimate.value, estimate.value));
        low = low.min(from.max(estimate.value / 2.0));
        high = high.max(to.min(estimate.value * 2.0));
    }
    Scale::new(low / 1.06..=high * 1.06, places[0]..=places[1], 1.0).stretched(Stretch::Logarithm)
}

/// The part inside the chart, labelled at its upper end; `None` outside.
fn equal_total(total: f64, x: &Scale, y: &Scale) -> Option<EqualTotal> {
    // steps x time = total: the line enters where either is as small as the chart shows.
    let from = x.low().max(total / y.high());
    let to = x.high().min(total / y.low());
    if from * 1.02 >= to {
        return None;
    }
    let place = |steps: f64| (x.at(steps), y.at(total / steps));
    let start = place(from);
    let end = place(to);
    Some(EqualTotal {
        path: Path::through([start, end]).finish(),
        label: round_label(total),
        label_x: coordinate(start.0 + 5.0),
        label_y: coordinate(start.1 + 13.0),
    })
}

/// `d-sync, workers=4: 1.02× the steps, each in 0.62× the time`.
fn sentence(findings: &Findings, relative: &Relative) -> String {
    let arm = findings.study.arm_name(relative.arm);
    let [steps, time] = [relative.steps, relative.time].map(|estimate| number_format::times(estimate.value));
    format!("{arm}, {}: {steps} the steps, each in {time} the time", relative.condition)
}

fn finding(findings: &Findings, found: &[Relative]) -> String {
    const NAMED: usize = 6;
    let mut said: Vec<String> =
        found.iter().take(NAMED).map(|relative| sentence(findings, relative)).collect();
    if found.len() > NAMED {
        said.push(format!("{} in the table", number_format::plural(found.len() - NAMED, "more mark")));
    }
    format!("{}.", said.join("; "))
}

fn table(findings: &Findings, found: &[Relative]) -> Table {
    let mut table = Table::new([
        "arm",
        "condition",
        "steps",
        "steps, interval",
        "time per step",
        "time, interval",
        "time to target",
    ]);
    let interval = |estimate: Estimate| {
        let ends = estimate
            .interval
            .map(|(low, high)| format!("{}–{}", number_format::fixed(low, 3), number_format::fixed(high, 3)));
        ends.unwrap_or_else(|| "–".to_owned())
    };
    for relative in found {
        table.rows.push(vec![
            findings.study.arm_name(relative.arm).to_owned(),
            relative.condition.to_owned(),
            number_format::times(relative.steps.value),
            interval(relative.steps),
            number_format::times(relative.time.value),
            interval(relative.time),
            relative.total.map_or_else(|| "–".to_owned(), number_format::times),
        ]);
    }
    findings.sheet.cut(&mut table, 200);
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::sample::{GridAxis, Sample, on_grid};

    #[test]
    fn steps_and_times_are_those_of_the_verdicts() {
        let one = Sample { repeats: 3, ..Sample::duel() }.rows();
        let factors = [0.5, 1.0, 2.0, 3.0, 4.0];
        let rows = on_grid(&one, &[GridAxis::new("train.factor", &factors)], |arm, at| {
            if arm == 0 { 1e-2 } else { 1e-2 * at[0] }
        });
        let planes = Planes::of(&Findings::of(&rows, &Options::default()).unwrap()).unwrap();
        let [plane] = planes.charts.as_slice() else { panic!("{} planes", planes.charts.len()) };
        assert_eq!(plane.points.len(), factors.len());
        let verdicts = crate::verdict_rows(&rows, &Options::default()).unwrap();
        for (row, factor) in plane.figure.table.rows.iter().zip(factors) {
            let of = |measure: &str| {
                let mut rows = verdicts.iter().filter(|verdict| verdict.condition == row[1]);
                rows.find(|verdict| verdict.measure == measure).unwrap().ratio.unwrap().recip()
            };
            assert_eq!(row[2], number_format::times(of("steps-to-target")));
            assert_eq!(row[4], number_format::times(of("step-time")));
            assert!((of("step-time") / factor - 1.0).abs() < 0.02, "{row:?}");
        }
        // Lines of equal total time fall by one decade per decade.
        let x = scale([].into_iter(), [0.0, 100.0]);
        let y = scale([].into_iter(), [100.0, 0.0]);
        let line = equal_total(1.0, &x, &y).unwrap();
        assert_eq!(line.path, "M3.2 0L100 96.8");
        assert!(equal_total(5.0, &x, &y).is_none());
    }

    #[test]
    fn without_a_target_there_are_no_steps_to_it() {
        let rows = Sample { workers: vec![2, 4], target: None, ..Sample::duel() }.rows();
        assert!(Planes::of(&Findings::of(&rows, &Options::default()).unwrap()).is_none());
    }
}
