//! Time and quality of every arm: which of them no other beats in both.

use super::arm_lines::common_measure;
use super::condition_title;
use super::folding;
use crate::axes::spans_a_decade;
use crate::chart::{
    Area, Figure, Frame, Key, Mark, Path, Place, Scale, Stretch, Table, arm_style, marker, uncrowded_remark,
};
use crate::findings::Findings;
use crate::headline::listed;
use crate::number_format::{self, Unit};
use crate::verdict;
use comparison::study::{Condition, SpeedMeasure};
use recipe::Metric;
use serde::Serialize;
use std::collections::BTreeSet;

/// Up to this number of conditions each has a chart of its own.
pub(super) const MOST_APART: usize = 4;

#[derive(Debug, Serialize)]
pub(crate) struct Fronts {
    pub(crate) reading: String,
    pub(crate) legend: Vec<Key>,
    pub(crate) charts: Vec<FrontChart>,
}

#[derive(Debug, Serialize)]
pub(crate) struct FrontChart {
    pub(crate) figure: Figure,
    /// Empty for a chart of all conditions.
    pub(crate) name: String,
    pub(crate) frame: Frame,
    /// The edge of the region that the arms reach.
    pub(crate) stairs: String,
    pub(crate) points: Vec<FrontPoint>,
    /// Says how many outcomes have no mark; empty where all have one.
    #[serde(skip)]
    remark: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct FrontPoint {
    pub(crate) style: String,
    pub(crate) shape: String,
    /// Whether another point is better in one and not worse in the other.
    pub(crate) dominated: bool,
    pub(crate) title: String,
}

/// Measures of time and quality that outcomes are compared by.
#[derive(Clone, Copy)]
struct Compared {
    measure: SpeedMeasure,
    metric: Metric,
}

/// An arm under a condition.
struct Outcome<'s> {
    arm: usize,
    condition: &'s str,
    seconds: f64,
    quality: f64,
    /// Of one worker per step.
    bytes: Option<f64>,
}

/// For each outcome whether another is better in one and not worse in the other.
fn beaten(found: &[Outcome], metric: Metric) -> Vec<bool> {
    let good = |place: &usize| {
        let quality = found[*place].quality;
        if metric.higher_is_better() { quality } else { -quality }
    };
    let by_time = |left: &usize, right: &usize| found[*left].seconds.total_cmp(&found[*right].seconds);
    let mut order: Vec<usize> = (0..found.len()).collect();
    order.sort_by(by_time);
    let mut beaten = vec![false; found.len()];
    // The best of those that are faster.
    let mut sooner = f64::NEG_INFINITY;
    for equally_fast in order.chunk_by(|left, right| by_time(left, right).is_eq()) {
        let best = equally_fast.iter().map(good).fold(f64::NEG_INFINITY, f64::max);
        for place in equally_fast {
            beaten[*place] = good(place) < best || good(place) <= sooner;
        }
        sooner = sooner.max(best);
    }
    beaten
}

impl Fronts {
    /// `None` if there is one condition, or where runs have no quality beside their time.
    pub(crate) fn of(findings: &Findings) -> Option<Self> {
        if !findings.has_conditions() {
            return None;
        }
        let conditions = &findings.study.conditions;
        let metric = conditions.iter().find_map(|condition| condition.metric)?;
        let compared = Compared { measure: common_measure(findings), metric };
        let each = |condition: &'_ Condition| conditions.len() <= MOST_APART && !condition.name.is_empty();
        let mut charts = Vec::new();
        if conditions.iter().all(each) {
            for condition in conditions {
                let found = outcomes(findings, [condition].into_iter(), compared);
                let name = condition_title(condition);
                charts.extend(chart(findings, charts.len(), name, &found, compared));
            }
        } else {
            let found = outcomes(findings, conditions.iter(), compared);
            charts.extend(chart(findings, 0, String::new(), &found, compared));
        }
        if charts.is_empty() {
            return None;
        }
        let side = if metric.higher_is_better() { "above" } else { "below" };
        let arms: BTreeSet<usize> = findings.study.arm_cells().map(|placed| placed.cell.arm).collect();
        Some(Self {
            reading: format!(
                "Each mark is an arm under a condition: further left is faster, and {side} is better in {}. By \
                 their means no other arm beats the marks on the stairs in both; grey ones are beaten.{}",
                verdict::metric_words(metric),
                charts.iter().map(|chart| chart.remark.as_str()).collect::<String>()
            ),
            legend: arms.into_iter().map(|arm| Key::of_arm(arm, findings.study.arm_name(arm))).collect(),
            charts,
        })
    }
}

/// The arms with a time and a quality; runs that stop at their target all end with the same.
fn outcomes<'s>(
    findings: &Findings,
    conditions: impl Iterator<Item = &'s Condition<'s>>,
    compared: Compared,
) -> Vec<Outcome<'s>> {
    let Compared { measure, metric } = compared;
    let confidence = findings.thresholds.confidence;
    let mut found = Vec::new();
    let stops = |condition: &Condition| condition.target.is_some_and(|target| target.stop);
    for condition in conditions.filter(|condition| condition.metric == Some(metric) && !stops(condition)) {
        for cell in condition.cells.iter().filter(|cell| condition.lost(cell).is_none()) {
            let time = condition.time(cell, measure, confidence).map(|time| time.value);
            let quality = condition.final_metric(cell, metric, confidence).map(|quality| quality.value);
            let (Some(seconds), Some(quality)) = (time, quality) else { continue };
            if seconds > 0.0 && seconds.is_finite() && quality.is_finite() {
                let bytes = cell.mean_of(|attempt| cell.worker_bytes_per_step(attempt));
                found.push(Outcome { arm: cell.arm, condition: condition.name, seconds, quality, bytes });
            }
        }
    }
    found
}

/// The chart of one of several conditions on the page.
const SMALL: Area = Area { width: 500.0, height: 320.0, left: 58.0, right: 488.0, top: 28.0, bottom: 276.0 };

/// `None` for fewer than two outcomes.
fn chart(
    findings: &Findings,
    number: usize,
    name: String,
    found: &[Outcome],
    compared: Compared,
) -> Option<FrontChart> {
    let Compared { measure, metric } = compared;
    if found.len() < 2 {
        return None;
    }
    let beaten = beaten(found, metric);
    let area = if name.is_empty() { findings.sheet.wide(380.0) } else { findings.sheet.small(SMALL) };
    let seconds: Vec<f64> = found.iter().map(|outcome| outcome.seconds).collect();
    let (least, most) = ends(&seconds);
    let unit = Unit::of_seconds(least);
    let inside = area.left + 14.0..=area.right - 14.0;
    let x = if spans_a_decade(&seconds) {
        Scale::new(least..=most, inside, unit.factor).stretched(Stretch::Logarithm)
    } else {
        let margin = ((most - least) * 0.08).max(least * 0.02);
        Scale::new(least - margin..=most + margin, inside, unit.factor)
    };
    let (low, high) = ends(&found.iter().map(|outcome| outcome.quality).collect::<Vec<_>>());
    let y_unit = Unit::of_metric(metric);
    let margin = ((high - low) * 0.12).max(high.abs() * 1e-3);
    let y = Scale::new(low - margin..=high + margin, area.bottom..=area.top, y_unit.factor);
    let time = match measure {
        SpeedMeasure::StepTime => "time per step",
        SpeedMeasure::TimeToTarget | SpeedMeasure::StepsToTarget => "time to target",
    };
    let y_name = format!("final {}", verdict::metric_words(metric));
    let y_words = if y_unit.name.is_empty() { y_name } else { format!("{y_name} ({})", y_unit.name) };
    let frame = area.frame(&x, &y, [format!("{time} ({})", unit.name), y_words]);
    let mut front: Vec<&Outcome> =
        found.iter().zip(&beaten).filter(|(_, beaten)| !**beaten).map(|(outcome, _)| outcome).collect();
    front.sort_by(|left, right| left.seconds.total_cmp(&right.seconds));
    let mark = |place: usize| Mark {
        arm: found[place].arm,
        differs: beaten[place],
        place: Place { x: x.at(found[place].seconds), y: y.at(found[place].quality) },
    };
    let marks: Vec<Mark> = (0..found.len()).map(mark).collect();
    let drawn = folding::drawn(findings, &marks);
    let point = |outcome: &Outcome, mark: &Mark| FrontPoint {
        style: arm_style(outcome.arm),
        shape: marker(outcome.arm, mark.place.x, mark.place.y, 5.0),
        dominated: mark.differs,
        title: format!(
            "{}: {} {time}, {}",
            label(findings, outcome),
            unit.short(outcome.seconds),
            y_unit.short(outcome.quality)
        ),
    };
    let aside = if name.is_empty() { ", all conditions".to_owned() } else { format!(", {name}") };
    Some(FrontChart {
        figure: Figure {
            id: format!("front-{number}"),
            title: format!("Time and quality{aside}"),
            description: finding(findings, &front),
            reading: String::new(),
            table: table(findings, found, &beaten, y_unit),
        },
        name,
        frame,
        stairs: stairs(&front, &x, &y),
        points: (0..found.len())
            .filter(|place| drawn[*place])
            .map(|place| point(&found[place], &marks[place]))
            .collect(),
        remark: uncrowded_remark(&drawn, "`bakeoff figure front -o front.svg` draws all").unwrap_or_default(),
    })
}

/// Path along the outcomes that are not beaten, level and upright in turn.
fn stairs(front: &[&Outcome], x: &Scale, y: &Scale) -> String {
    let mut stairs = Vec::new();
    for outcome in front {
        let at = (x.at(outcome.seconds), y.at(outcome.quality));
        if let Some((_, before)) = stairs.last() {
            stairs.push((at.0, *before));
        }
        stairs.push(at);
    }
    Path::through(stairs).finish()
}

fn ends(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    (low, values.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}

fn label(findings: &Findings, outcome: &Outcome) -> String {
    let arm = findings.study.arm_name(outcome.arm);
    if outcome.condition.is_empty() { arm.to_owned() } else { format!("{arm}, {}", outcome.condition) }
}

/// `Not beaten in both: d-sync, workers=4; ps-sync, workers=4.`
fn finding(findings: &Findings, front: &[&Outcome]) -> String {
    const NAMED: usize = 6;
    let mut names: Vec<String> =
        front.iter().take(NAMED).map(|outcome| format!("({})", label(findings, outcome))).collect();
    if front.len() > NAMED {
        names.push(number_format::plural(front.len() - NAMED, "other"));
    }
    format!("Not beaten in both: {}, the fastest first.", listed(&names))
}

fn table(findings: &Findings, found: &[Outcome], beaten: &[bool], unit: Unit) -> Table {
    let mut table = Table::new(["arm", "condition", "time", "final metric", "sent/step", "beaten in both"]);
    for (outcome, beaten) in found.iter().zip(beaten) {
        table.rows.push(vec![
            findings.study.arm_name(outcome.arm).to_owned(),
            outcome.condition.to_owned(),
            number_format::seconds(outcome.seconds),
            unit.short(outcome.quality),
            outcome.bytes.map_or_else(|| "–".to_owned(), number_format::bytes),
            if *beaten { "yes" } else { "no" }.to_owned(),
        ]);
    }
    findings.sheet.cut(&mut table, 200);
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::sample::Sample;

    #[test]
    fn what_another_beats_in_both_is_no_part_of_the_front() {
        let outcome =
            |seconds: f64, quality: f64| Outcome { arm: 0, condition: "", seconds, quality, bytes: None };
        let fast = outcome(1.0, 0.90);
        let good = outcome(2.0, 0.95);
        let poor = outcome(2.0, 0.85);
        let accuracy = |found: &[Outcome]| beaten(found, Metric::TestAccuracy);
        assert_eq!(accuracy(&[poor, fast, good]), [true, false, false]);
        // Neither of two that are equal in both is beaten, but one that is equally good and later is.
        assert_eq!(accuracy(&[outcome(2.0, 0.95), outcome(2.0, 0.95)]), [false, false]);
        assert_eq!(accuracy(&[outcome(3.0, 0.95), outcome(2.0, 0.95)]), [true, false]);
        // A lower loss is better.
        assert_eq!(beaten(&[outcome(2.0, 0.95), outcome(2.0, 0.85)], Metric::TestLoss), [true, false]);
    }

    #[test]
    fn each_of_few_conditions_has_a_front_and_one_condition_none() {
        let front = |sample: Sample| {
            let rows = sample.rows();
            Fronts::of(&Findings::of(&rows, &Options::default()).unwrap())
        };
        let mut sample = Sample { workers: vec![2, 4], repeats: 3, ..Sample::duel() };
        let like = sample.arms[1].clone();
        // Slower than both and worse than both.
        sample.arms.push(crate::sample::SampleArm {
            name: "poor".to_owned(),
            communicate: 12.0,
            ceiling: 0.975,
            ..like
        });
        let found = front(sample).unwrap();
        assert_eq!(found.charts.len(), 2);
        for chart in &found.charts {
            let poor: Vec<_> = chart.points.iter().filter(|point| point.style == "arm-2").collect();
            assert!(poor.len() == 1 && poor[0].dominated, "{:?}", chart.points);
            assert!(chart.points.iter().any(|point| !point.dominated));
            assert!(!chart.figure.description.contains("poor"), "{}", chart.figure.description);
        }
        assert!(front(Sample::duel()).is_none());
    }
}
