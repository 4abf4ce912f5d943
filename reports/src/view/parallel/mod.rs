//! Three axes or more at once: parallel coordinates, a line for every arm under every condition.
//!
//! All arms of a condition have the same values, and many conditions share one, so that lines through points would cover each other. Here each
//! value has a stretch of its axis, on which its lines lie side by side, the fastest highest.

mod canvas;
mod ways;

use super::arm_lines::common_measure;
use crate::axes::Axes;
use crate::chart::{Figure, Key, Tick};
use crate::findings::Findings;
use crate::headline::listed;
use crate::number_format;
use crate::verdict::metric_words;
use canvas::Canvas;
use comparison::study::{Lost, SpeedMeasure};
use serde::Serialize;
use std::collections::BTreeSet;
use ways::{Compared, Way, most_lost, stops, strongest, ways};

/// With fewer axes, lines over one or a map of two say the same.
const FEWEST_AXES: usize = 3;

/// More do not fit beside each other; those with the most values are drawn.
const MOST_AXES: usize = 8;

/// More lines are no longer told apart, and make the page large.
const MOST_WAYS: usize = 500;

#[derive(Debug, Serialize)]
pub(crate) struct Section {
    pub(crate) reading: String,
    /// Finding of the chart, in sentences.
    pub(crate) answer: String,
    pub(crate) legend: Vec<Key>,
    pub(crate) chart: Chart,
    /// The omissions; empty where everything is drawn.
    pub(crate) note: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct Chart {
    pub(crate) figure: Figure,
    pub(crate) width: String,
    pub(crate) height: String,
    /// Whether lines are thin, because there are many.
    pub(crate) dense: bool,
    pub(crate) head_y: [String; 2],
    pub(crate) axes: Vec<AxisLine>,
    /// Where lines end that have no time.
    pub(crate) ends: Vec<Tick>,
    pub(crate) end_x: String,
    /// The beaten ones first, so that the others lie on them.
    pub(crate) groups: Vec<Group>,
}

#[derive(Debug, Serialize)]
pub(crate) struct AxisLine {
    /// Short enough for its room.
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) unit: String,
    pub(crate) x: String,
    pub(crate) label_x: String,
    pub(crate) anchor: &'static str,
    pub(crate) line: String,
    /// The stretch of each value; empty where the axis is a scale.
    pub(crate) stretches: String,
    pub(crate) ticks: Vec<Tick>,
}

/// Lines of an arm.
#[derive(Debug, Serialize)]
pub(crate) struct Group {
    pub(crate) style: String,
    pub(crate) beaten: bool,
    pub(crate) lines: Vec<Line>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) path: String,
    /// A cross where it ends without a time; empty otherwise.
    pub(crate) cross: String,
    pub(crate) title: String,
}

impl Section {
    /// `None` with fewer axes, or where no arm has a time.
    pub(crate) fn of(findings: &Findings, axes: &Axes) -> Option<Self> {
        if axes.ordered.len() < FEWEST_AXES {
            return None;
        }
        let conditions = &findings.study.conditions;
        let metric =
            conditions.iter().filter(|condition| !stops(condition)).find_map(|condition| condition.metric);
        let mut compared = Compared { measure: common_measure(findings), metric };
        let all = ways(findings, axes, compared);
        if all.iter().all(|way| way.quality.is_none()) {
            compared.metric = None;
        }
        let canvas = Canvas::of(axes, &all, compared, findings.sheet)?;
        let arms: BTreeSet<usize> = all.iter().map(|way| way.arm).collect();
        let answer = answer(findings, axes, &all, &canvas);
        let drawn = thinned(&all);
        Some(Self {
            reading: reading(compared, &canvas),
            legend: arms.into_iter().map(|arm| Key::of_arm(arm, findings.study.arm_name(arm))).collect(),
            chart: canvas.chart(findings, &all, &drawn, answer.clone()),
            answer,
            note: note(axes, all.len(), drawn.len()),
        })
    }
}

fn measure_words(measure: SpeedMeasure) -> &'static str {
    match measure {
        SpeedMeasure::StepTime => "time per step",
        SpeedMeasure::TimeToTarget | SpeedMeasure::StepsToTarget => "time to target",
    }
}

fn reading(compared: Compared, canvas: &Canvas) -> String {
    let time = measure_words(compared.measure);
    let (ends, beaten) = match compared.metric {
        Some(metric) => (
            format!("{time} and its final {}, where up is better", metric_words(metric)),
            "one that is better in one of them, and not worse in the other by what matters",
        ),
        None => (format!("{time}, where up is faster"), "one that is faster"),
    };
    let lost = if canvas.ends.is_empty() { "" } else { " A line that ends at a cross has no time." };
    format!(
        "Each line is an arm under a condition. It leads through the values of the axes, in their order from the bottom, to its {ends}; of the lines \
         through one value the faster lie higher. A faint line is beaten, by their means, by another arm under its condition: {beaten}.{lost}"
    )
}

fn answer(findings: &Findings, axes: &Axes, all: &[Way], canvas: &Canvas) -> String {
    let mut said = Vec::new();
    let time = measure_words(canvas.compared.measure);
    let fastest = all.iter().filter_map(|way| Some((way.seconds?, way)));
    if let Some((seconds, way)) = fastest.min_by(|one, other| one.0.total_cmp(&other.0)) {
        let condition = findings.study.conditions[way.condition].name;
        let arm = findings.study.arm_name(way.arm);
        said.push(format!(
            "The least {time} is that of {arm} at {condition}: {}.",
            canvas.unit.short(seconds)
        ));
    }
    if let Some(effect) = strongest(all, axes) {
        let axis = &axes.ordered[effect.axis];
        let [less, more] = effect.values.map(|value| axis.values[value].text.as_str());
        said.push(format!(
            "Of the axes, {} changes it most: at {more} it is {} that at {less}, by the geometric mean over lines that are alike in everything else.",
            axis.name,
            number_format::times(effect.times)
        ));
    }
    if let Some(loss) = most_lost(all, axes) {
        let axis = &axes.ordered[loss.axis];
        let [with, without] = loss.values.map(|value| axis.values[value].text.as_str());
        said.push(format!(
            "Lines without a time are in no such mean. Whether there is one changes most with {}: of {} that have one at {with}, {} have none at \
             {without}.",
            axis.name,
            number_format::plural(loss.of, "line"),
            loss.lost
        ));
    }
    let lost = |kind: Lost| all.iter().filter(|way| way.lost == Some(kind)).count();
    let lines = number_format::plural(all.len(), "line");
    for (kind, words) in [(Lost::Missed, "missed the target"), (Lost::Diverged, "diverged")] {
        if lost(kind) > 0 {
            said.push(format!("Of {lines}, {} {words}.", lost(kind)));
        }
    }
    said.join(" ")
}

fn note(axes: &Axes, all: usize, drawn: usize) -> String {
    let mut said = Vec::new();
    if drawn < all {
        said.push(format!(
            "{drawn} of {all} lines are drawn: the fastest and the slowest, and of the others those that are not beaten first; the CSV files hold all."
        ));
    }
    let left_out: Vec<String> = axes.ordered.iter().skip(MOST_AXES).map(|axis| axis.name.clone()).collect();
    if !left_out.is_empty() {
        said.push(format!("Not drawn: {}.", listed(&left_out)));
    }
    said.join(" ")
}

/// The lines that are drawn, as indices: all, or evenly many of those that are not beaten and then of the others, with both extremes.
fn thinned(all: &[Way]) -> Vec<usize> {
    if all.len() <= MOST_WAYS {
        return (0..all.len()).collect();
    }
    let timed = || all.iter().enumerate().filter_map(|(place, way)| Some((way.seconds?, place)));
    let least = timed().min_by(|one, other| one.0.total_cmp(&other.0));
    let most = timed().max_by(|one, other| one.0.total_cmp(&other.0));
    let mut kept: BTreeSet<usize> = least.into_iter().chain(most).map(|(_, place)| place).collect();
    for beaten in [false, true] {
        let own: Vec<usize> =
            (0..all.len()).filter(|place| all[*place].beaten == beaten && !kept.contains(place)).collect();
        let room = MOST_WAYS.saturating_sub(kept.len()).min(own.len());
        kept.extend((0..room).map(|number| own[number * own.len() / room]));
    }
    kept.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::sample::{GridAxis, Sample, on_grid};
    use comparison::study::Study;
    use store::SweepRows;

    /// Two arms under 2 x 2 x 2 conditions: latency costs the first nothing and the second much.
    fn rows() -> SweepRows {
        let axes = [
            GridAxis::new("nodes.workers", &[2.0, 8.0]),
            GridAxis::new("model.parameters", &[1e4, 1e6]),
            GridAxis::new("network.latency", &[0.0, 0.01]),
        ];
        let one = Sample { repeats: 2, epochs: (4, 4), ..Sample::duel() }.rows();
        on_grid(&one, &axes, |arm, at| 5e-3 + at[0] * 1e-5 + at[1] * 1e-10 + arm as f64 * at[2])
    }

    fn section(rows: &SweepRows) -> Option<Section> {
        let findings = Findings::of(rows, &Options::default()).unwrap();
        let axes = Axes::of(&findings.study)?;
        Section::of(&findings, &axes)
    }

    #[test]
    fn every_arm_under_every_condition_has_a_line() {
        let found = section(&rows()).unwrap();
        let names: Vec<&str> = found.chart.axes.iter().map(|axis| axis.title.as_str()).collect();
        assert_eq!(names, ["workers", "parameters", "latency", "time to target", "test accuracy"]);
        let lines: Vec<(String, bool, usize)> = found
            .chart
            .groups
            .iter()
            .map(|group| (group.style.clone(), group.beaten, group.lines.len()))
            .collect();
        assert_eq!(lines.iter().map(|(_, _, lines)| lines).sum::<usize>(), 16, "{lines:?}");
        // The second arm is slower wherever there is latency.
        let beaten = found.chart.groups.iter().find(|group| group.style == "arm-1" && group.beaten).unwrap();
        assert!(
            beaten.lines.iter().filter(|line| line.title.contains("latency=0.01")).count() == 4,
            "{beaten:?}"
        );
        assert!(
            found.answer.contains("Of the axes, latency changes it most: at 0.01 it is 1.7"),
            "{}",
            found.answer
        );
        assert_eq!((found.chart.figure.table.rows.len(), found.note.as_str()), (16, ""));
        // Each line has a point on each of the five axes.
        let points = |line: &Line| line.path.matches('l').count() + 1;
        assert!(found.chart.groups.iter().flat_map(|group| &group.lines).all(|line| points(line) == 5));
    }

    #[test]
    fn lines_of_one_value_lie_beside_each_other() {
        let rows = rows();
        let findings = Findings::of(&rows, &Options::default()).unwrap();
        let axes = Axes::of(&findings.study).unwrap();
        let compared = Compared { measure: SpeedMeasure::TimeToTarget, metric: None };
        let all = ways(&findings, &axes, compared);
        let found = section(&rows).unwrap();
        let starts: BTreeSet<String> = found
            .chart
            .groups
            .iter()
            .flat_map(|group| &group.lines)
            .map(|line| line.path.split('l').next().unwrap().to_owned())
            .collect();
        assert_eq!(starts.len(), all.len());
    }

    #[test]
    fn what_missed_its_target_ends_at_a_cross() {
        let mut rows = rows();
        for run in rows.runs.iter_mut().filter(|run| run.cell == 3) {
            run.attempt.as_mut().unwrap().metrics.iter_mut().for_each(|row| row.value = row.value.min(0.9));
        }
        let found = section(&rows).unwrap();
        let crossed: Vec<&Line> = found
            .chart
            .groups
            .iter()
            .flat_map(|group| &group.lines)
            .filter(|line| !line.cross.is_empty())
            .collect();
        assert_eq!(crossed.len(), 1);
        assert!(crossed[0].title.ends_with("target missed, 90.0\u{a0}%"), "{}", crossed[0].title);
        assert_eq!(crossed[0].path.matches('l').count(), 3);
        assert_eq!(
            found.chart.ends.iter().map(|end| end.label.as_str()).collect::<Vec<_>>(),
            ["target missed"]
        );
        assert!(found.answer.ends_with("Of 16 lines, 1 missed the target."), "{}", found.answer);
    }

    /// At the small latency nothing reaches the target, at the large one everything does: no ratio of times shows it.
    #[test]
    fn an_axis_that_decides_whether_there_is_a_time_is_named() {
        let mut rows = rows();
        let latency = |cell: usize| {
            rows.plan.cells[cell]
                .axes
                .iter()
                .any(|axis| axis.path == "network.latency" && axis.number == Some(0.0))
        };
        let without: BTreeSet<usize> = (0..rows.plan.cells.len()).filter(|cell| latency(*cell)).collect();
        for run in rows.runs.iter_mut().filter(|run| without.contains(&run.cell)) {
            run.attempt.as_mut().unwrap().metrics.iter_mut().for_each(|row| row.value = row.value.min(0.9));
        }
        let answer = section(&rows).unwrap().answer;
        let told = "Whether there is one changes most with latency: of 8 lines that have one at 0.01, 8 have none at 0.";
        assert!(answer.contains(told) && !answer.contains("latency changes it most"), "{answer}");
    }

    #[test]
    fn two_axes_have_no_such_chart_and_without_a_time_there_is_none() {
        let one = Sample { repeats: 1, epochs: (1, 1), ..Sample::duel() }.rows();
        let two =
            [GridAxis::new("nodes.workers", &[2.0, 8.0]), GridAxis::new("model.parameters", &[1e4, 1e6])];
        assert!(section(&on_grid(&one, &two, |_, _| 5e-3)).is_none());
        let mut rows = rows();
        rows.runs.iter_mut().for_each(|run| run.attempt = None);
        assert!(Study::new(&rows, None).is_ok() && section(&rows).is_none());
    }

    #[test]
    fn of_very_many_lines_the_extremes_and_the_best_are_drawn() {
        let way = |place: usize| Way {
            arm: place % 2,
            condition: place / 2,
            places: vec![place],
            seconds: Some(((place * 7_919) % 4_001) as f64 + 1.0),
            quality: None,
            lost: None,
            beaten: !place.is_multiple_of(8),
        };
        let all: Vec<Way> = (0..4_000).map(way).collect();
        let kept = thinned(&all);
        assert_eq!(kept.len(), MOST_WAYS);
        let ends = |places: &[usize]| {
            let seconds = || places.iter().filter_map(|place| all[*place].seconds);
            (seconds().reduce(f64::min), seconds().reduce(f64::max))
        };
        assert_eq!(ends(&kept), ends(&(0..all.len()).collect::<Vec<_>>()));
        assert!(kept.iter().filter(|place| !all[**place].beaten).count() >= MOST_WAYS - 2);
        assert_eq!(thinned(&all[..100]).len(), 100);
    }
}
