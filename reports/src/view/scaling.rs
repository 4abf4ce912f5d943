//! Speed-up and efficiency over numbers of workers, beside the ideal and what Amdahl's law makes of them.

use super::arm_lines::LineMark;
use crate::axes::Axes;
use crate::chart::{
    self, Area, CurvePoint, Figure, Frame, Key, Path, Scale, Stretch, Table, Tick, coordinate, marker,
};
use crate::findings::Findings;
use crate::number_format;
use crate::pays::{Pays, pays};
use crate::scaling::{ArmScaling, Kept, OnWorkers, families, workers_axis};
use comparison::statistics::Amdahl;
use comparison::study::SpeedMeasure;
use serde::Serialize;
use std::collections::BTreeSet;

/// Largest number of pairs of charts.
const MOST_PANELS: usize = 6;

#[derive(Debug, Serialize)]
pub(crate) struct Scaling {
    pub(crate) reading: String,
    pub(crate) legend: Vec<Key>,
    pub(crate) panels: Vec<ScalingPanel>,
    pub(crate) note: String,
}

/// The numbers of workers under one value of each other axis.
#[derive(Debug, Serialize)]
pub(crate) struct ScalingPanel {
    /// The values of the other axes; empty if there are none.
    pub(crate) name: String,
    /// Sentences on the batch that was kept, the fit, and whether distributing pays.
    pub(crate) finding: String,
    pub(crate) charts: Vec<ScalingChart>,
    pub(crate) table: Table,
}

#[derive(Debug, Serialize)]
pub(crate) struct ScalingChart {
    pub(crate) figure: Figure,
    pub(crate) frame: Frame,
    pub(crate) ideal: String,
    pub(crate) lines: Vec<ScalingLine>,
}

#[derive(Debug, Serialize)]
pub(crate) struct ScalingLine {
    pub(crate) style: String,
    pub(crate) line: String,
    /// Amdahl's law; empty if nothing was fitted.
    pub(crate) fit: String,
    pub(crate) marks: Vec<LineMark>,
}

impl Scaling {
    /// `None` if the number of workers is no axis.
    pub(crate) fn of(findings: &Findings, axes: &Axes) -> Option<Self> {
        let own = workers_axis(findings, axes)?;
        let families = families(axes, own);
        let mut has_control = false;
        let mut arms: BTreeSet<usize> = BTreeSet::new();
        let mut panels = Vec::new();
        let mut left = 0;
        for (others, conditions) in families {
            let found = scaled(findings, &conditions);
            if found.is_empty() {
                continue;
            }
            if panels.len() == MOST_PANELS {
                left += 1;
                continue;
            }
            arms.extend(found.iter().map(|scaling| scaling.arm));
            let name = others_words(axes, own, &others);
            let pays = pays(findings, &conditions);
            has_control |= !pays.is_empty();
            panels.push(panel(findings, panels.len(), name, &Found { scaling: &found, pays: &pays }));
        }
        if panels.is_empty() {
            return None;
        }
        Some(Self {
            reading: "Speed-up is the samples per second on n workers divided by those on the fewest, efficiency its share of the \
                      ideal (the straight line): a line that bends away from the ideal pays for more workers. Dotted is Amdahl's \
                      law, fitted to the mean times of a sample."
                .to_owned(),
            legend: arms.into_iter().map(|arm| Key::of_arm(arm, findings.study.arm_name(arm))).collect(),
            panels,
            note: note(left, has_control),
        })
    }
}

/// `left` panels are not shown.
fn note(left: usize, has_control: bool) -> String {
    let mut notes = Vec::new();
    if left > 0 {
        notes.push(format!(
            "The first {MOST_PANELS} of {} values of the other axes are shown.",
            left + MOST_PANELS
        ));
    }
    if !has_control {
        notes.push(
            "No run had a single worker, so that whether distributing pays at all is not known: add 1 to the values of \
             `nodes.workers`; results that are there are taken over."
                .to_owned(),
        );
    }
    notes.join(" ")
}

fn others_words(axes: &Axes, own: usize, others: &[usize]) -> String {
    let kept = axes.ordered.iter().enumerate().filter(|(place, _)| *place != own).map(|(_, axis)| axis);
    let words = kept.zip(others).map(|(axis, place)| format!("{}={}", axis.name, axis.values[*place].text));
    words.collect::<Vec<_>>().join(" ")
}

/// The arms that have times on two numbers of workers.
fn scaled(findings: &Findings, conditions: &[usize]) -> Vec<ArmScaling> {
    let confidence = findings.thresholds.confidence;
    let mut found = Vec::new();
    for arm in 0..findings.rows().plan.arms.len() {
        let point = |condition: &usize| {
            let condition = &findings.study.conditions[*condition];
            let cell = condition.cell(arm).filter(|cell| !cell.mostly_diverged())?;
            let step = condition.time(cell, SpeedMeasure::StepTime, confidence)?.value;
            (step > 0.0).then_some(OnWorkers { workers: condition.workers.max(1), batch: cell.batch, step })
        };
        let points: Vec<OnWorkers> = conditions.iter().filter_map(point).collect();
        if points.len() > 1 {
            found.push(ArmScaling::new(arm, points));
        }
    }
    found
}

/// The measures of the arms under the conditions of a panel.
struct Found<'p, 'f, 'a> {
    scaling: &'p [ArmScaling],
    pays: &'p [Pays<'f, 'a>],
}

fn panel(findings: &Findings, number: usize, name: String, found: &Found<'_, '_, '_>) -> ScalingPanel {
    let finding = finding(findings, found);
    let table = table(findings, found);
    let kinds = [Kind::SpeedUp, Kind::Efficiency];
    let charts =
        kinds.into_iter().map(|kind| chart(findings, number, found.scaling, kind, &finding)).collect();
    ScalingPanel { name, finding, charts, table }
}

/// `Strong scaling: ... On 8 workers d-sync is 3.10× as fast as on 2 (efficiency 77.5 %, serial share 4.1 %).`
fn finding(findings: &Findings, Found { scaling: found, pays }: &Found<'_, '_, '_>) -> String {
    let all: Vec<OnWorkers> = found.iter().flat_map(|scaling| &scaling.points).copied().collect();
    let mut said = vec![Kept::of(&all).words()];
    for scaling in *found {
        let (Some(first), Some(last)) = (scaling.points.first(), scaling.points.last()) else { continue };
        let share = scaling
            .fit
            .map_or(String::new(), |fit| format!(", serial share {}", number_format::percent(fit.share())));
        said.push(format!(
            "On {} workers {} is {} as fast as on {} (efficiency {}{share}).",
            last.workers,
            findings.study.arm_name(scaling.arm),
            number_format::times(scaling.speed_up(last)),
            first.workers,
            number_format::percent(scaling.efficiency(last)),
        ));
    }
    said.extend(said_of_pay(findings, found, pays));
    if found.iter().any(|scaling| scaling.fit.is_some()) {
        said.push("Fitted: time of a sample = serial + parallel / workers, by least squares of the relative errors.".to_owned());
    }
    said.join(" ")
}

/// Whether each arm pays on its most workers.
fn said_of_pay(findings: &Findings, found: &[ArmScaling], pays: &[Pays<'_, '_>]) -> Vec<String> {
    let most = |scaling: &ArmScaling| {
        let workers = scaling.points.last()?.workers;
        pays.iter().find(|one| one.is_of(scaling.arm, workers))
    };
    found.iter().filter_map(most).map(|one| one.sentence(findings)).collect()
}

/// Quantity of a chart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    SpeedUp,
    Efficiency,
}

impl Kind {
    fn value(self, scaling: &ArmScaling, point: &OnWorkers) -> f64 {
        match self {
            Self::SpeedUp => scaling.speed_up(point),
            Self::Efficiency => scaling.efficiency(point),
        }
    }

    /// Of what Amdahl's law says.
    fn fitted(self, scaling: &ArmScaling, fit: Amdahl, workers: f64) -> f64 {
        let speed_up = scaling.points[0].sample() / fit.time(workers);
        match self {
            Self::SpeedUp => speed_up,
            Self::Efficiency => speed_up / scaling.ideal(workers),
        }
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::SpeedUp => ("speed-up", "Speed-up"),
            Self::Efficiency => ("efficiency", "Efficiency"),
        }
    }
}

fn chart(
    findings: &Findings,
    number: usize,
    found: &[ArmScaling],
    kind: Kind,
    finding: &str,
) -> ScalingChart {
    let page = Area { width: 500.0, height: 320.0, left: 52.0, right: 488.0, top: 28.0, bottom: 276.0 };
    let area = findings.sheet.small(page);
    let points = || found.iter().flat_map(|scaling| scaling.points.iter().map(move |point| (scaling, point)));
    let workers: BTreeSet<u32> = points().map(|(_, point)| point.workers).collect();
    let few = f64::from(workers.first().copied().unwrap_or(1));
    let many = f64::from(workers.last().copied().unwrap_or(1));
    let inside = area.left + 14.0..=area.right - 14.0;
    let x = Scale::new(few..=many, inside, 1.0).stretched(Stretch::Logarithm);
    let values = || points().map(|(scaling, point)| kind.value(scaling, point));
    let high = values().fold(1.0, f64::max);
    let low = values().fold(1.0, f64::min);
    let places = area.bottom..=area.top;
    let y = match kind {
        Kind::SpeedUp => {
            let top = high.max(many / few) * 1.1;
            Scale::new(low * 0.9..=top, places, 1.0).stretched(Stretch::Logarithm)
        }
        Kind::Efficiency => Scale::new(0.0..=high * 1.06, places, 100.0),
    };
    let ideal = |workers: f64| if kind == Kind::SpeedUp { workers / few } else { 1.0 };
    let (word, title) = kind.words();
    let unit = if kind == Kind::Efficiency { " (%)" } else { ", logarithmic" };
    let mut frame = area.frame(&x, &y, ["workers".to_owned(), format!("{word}{unit}")]);
    frame.x_ticks = worker_ticks(&x, &workers);
    let line = |scaling: &ArmScaling| {
        let at = |point: &OnWorkers| (x.at(f64::from(point.workers)), y.at(kind.value(scaling, point)));
        let fit = scaling.fit.map_or(String::new(), |fit| {
            let along = (0..=FIT_STROKES)
                .map(|step| few * (many / few).powf(f64::from(step) / f64::from(FIT_STROKES)));
            let place =
                |workers: f64| -> CurvePoint { (x.at(workers), y.at(kind.fitted(scaling, fit, workers))) };
            Path::tracing(along.map(place)).finish()
        });
        let mark = |point: &OnWorkers| LineMark {
            shape: marker(scaling.arm, at(point).0, at(point).1, 4.5),
            title: format!(
                "{} on {}: {}",
                findings.study.arm_name(scaling.arm),
                number_format::plural(point.workers as usize, "worker"),
                match kind {
                    Kind::SpeedUp => number_format::times(scaling.speed_up(point)),
                    Kind::Efficiency => number_format::percent(scaling.efficiency(point)),
                }
            ),
        };
        ScalingLine {
            style: chart::arm_style(scaling.arm),
            line: Path::tracing(scaling.points.iter().map(at)).finish(),
            fit,
            marks: scaling.points.iter().map(mark).collect(),
        }
    };
    ScalingChart {
        figure: Figure {
            id: format!("scaling-{number}-{word}"),
            title: format!("{title} over workers"),
            description: finding.to_owned(),
            reading: String::new(),
            table: Table::default(),
        },
        ideal: Path::through([few, many].map(|workers| (x.at(workers), y.at(ideal(workers))))).finish(),
        lines: found.iter().map(line).collect(),
        frame,
    }
}

/// Strokes of a fitted curve.
const FIT_STROKES: u32 = 24;

/// The numbers of workers themselves, as far as there is room.
fn worker_ticks(x: &Scale, workers: &BTreeSet<u32>) -> Vec<Tick> {
    let mut ticks = Vec::new();
    let mut last = f64::NEG_INFINITY;
    for workers in workers {
        let at = x.at(f64::from(*workers));
        if at - last > 26.0 {
            ticks.push(Tick { at: coordinate(at), label: workers.to_string() });
            last = at;
        }
    }
    ticks
}

fn table(findings: &Findings, Found { scaling, pays }: &Found<'_, '_, '_>) -> Table {
    let mut table = Table::new([
        "arm",
        "workers",
        "global batch",
        "step time",
        "speed-up",
        "ideal",
        "efficiency",
        "serial share",
    ]);
    if !pays.is_empty() {
        table.columns.extend(["beside one worker", "distributing"].map(str::to_owned));
    }
    for scaling in *scaling {
        for point in &scaling.points {
            let mut row = vec![
                findings.study.arm_name(scaling.arm).to_owned(),
                point.workers.to_string(),
                point.batch.to_string(),
                number_format::seconds(point.step),
                number_format::times(scaling.speed_up(point)),
                number_format::times(scaling.ideal(f64::from(point.workers))),
                number_format::percent(scaling.efficiency(point)),
                scaling.fit.map_or_else(|| "–".to_owned(), |fit| number_format::percent(fit.share())),
            ];
            if !pays.is_empty() {
                let found = pays.iter().find(|one| one.is_of(scaling.arm, point.workers));
                let words = |found: &Pays<'_, '_>| [found.ratio_words(), found.verdict().to_owned()];
                let other = if point.workers == 1 { ["1×", "control"] } else { ["–", "–"] };
                row.extend(found.map_or_else(|| other.map(str::to_owned), words));
            }
            table.rows.push(row);
        }
    }
    findings.sheet.cut(&mut table, 200);
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::sample::Sample;
    use record::Nanos;
    use store::SweepRows;

    /// Runs whose step takes serial + parallel / workers, without jitter.
    fn rows(batch: impl Fn(u32) -> u32) -> SweepRows {
        let workers = vec![1, 2, 4, 8];
        let mut rows = Sample { workers, repeats: 2, epochs: (1, 1), target: None, ..Sample::duel() }.rows();
        for cell in &mut rows.plan.cells {
            cell.spec.train.global_batch = batch(cell.spec.cluster.workers());
        }
        for run in &mut rows.runs {
            let cell = &rows.plan.cells[run.cell];
            let arm = cell.arm;
            let workers = f64::from(cell.spec.cluster.workers());
            let share = [0.2, 0.05][arm];
            let sample = 1e-4 * (share + (1.0 - share) / workers);
            let step = Nanos((sample * f64::from(cell.spec.train.global_batch) * 1e9).round() as u64);
            let attempt = run.attempt.as_mut().unwrap();
            (attempt.step_time, attempt.mean_step_time) = (Some(step), Some(step));
        }
        rows
    }

    fn scaling(rows: &SweepRows) -> Scaling {
        let findings = Findings::of(rows, &Options::default()).unwrap();
        Scaling::of(&findings, &Axes::of(&findings.study).unwrap()).unwrap()
    }

    #[test]
    fn the_true_serial_shares_are_found_in_strong_and_weak_scaling() {
        for (batch, kept) in [
            ((|_| 96) as fn(u32) -> u32, "Strong scaling: the global batch of 96 samples"),
            (|workers| 24 * workers, "Weak scaling: the batch of 24 samples of each worker"),
            (|workers| 100 + workers, "Neither strong nor weak"),
        ] {
            let found = scaling(&rows(batch));
            assert_eq!(found.panels.len(), 1);
            let finding = &found.panels[0].finding;
            assert!(finding.starts_with(kept), "{finding}");
            // Speed-up on 8 workers: 1 / (0.2 + 0.8 / 8).
            assert!(
                finding.contains(
                    "ps-sync is 3.33× as fast as on 1 (efficiency 41.7\u{a0}%, serial share 20.0\u{a0}%)"
                ),
                "{finding}"
            );
            assert!(finding.contains("serial share 5.00\u{a0}%"), "{finding}");
        }
    }

    #[test]
    fn where_workers_are_no_axis_nothing_is_said_of_scaling() {
        let mut rows = rows(|_| 96);
        rows.plan.cells.iter_mut().for_each(|cell| {
            let value = &mut cell.axes[0];
            value.number = value.number.map(|number| number * 10.0);
        });
        let findings = Findings::of(&rows, &Options::default()).unwrap();
        assert!(Scaling::of(&findings, &Axes::of(&findings.study).unwrap()).is_none());
    }
}
