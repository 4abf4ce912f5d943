//! Every run's step time by its start, beside the others of its arm: whether the machine changed meanwhile.

use super::folding;
use crate::calendar;
use crate::chart::{
    Area, Figure, Frame, Key, Mark, Path, Place, Scale, Table, arm_style, coordinate, marker,
    uncrowded_remark,
};
use crate::findings::Findings;
use crate::machine::drift::{self, Point, Slope};
use crate::machine::load;
use crate::number_format::{self, Unit};
use crate::verdict::whole_percent;
use comparison::statistics::median;
use comparison::study::JudgedRun;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct Drift {
    pub(crate) figure: Figure,
    pub(crate) frame: Frame,
    pub(crate) legend: Vec<Key>,
    /// Height of the line of the arms' medians.
    pub(crate) zero: String,
    /// Line of the common slope; empty without one.
    pub(crate) slope: String,
    pub(crate) arms: Vec<ArmRuns>,
}

/// The runs of one arm under one condition.
#[derive(Debug, Serialize)]
pub(crate) struct ArmRuns {
    pub(crate) style: String,
    pub(crate) marks: Vec<RunMark>,
}

#[derive(Debug, Serialize)]
pub(crate) struct RunMark {
    pub(crate) shape: String,
    /// Whether it is from an earlier sweep.
    pub(crate) hollow: bool,
    pub(crate) title: String,
}

/// A judged run with a step time.
struct Timed<'s, 'a> {
    judged: &'s JudgedRun<'a>,
    arm: usize,
    /// The arm, and the condition if there are several.
    label: String,
    point: Point,
    /// Logarithm of the step time divided by the median of the arm under its condition.
    relative: f64,
}

/// The largest number of runs in the table beside the chart.
const MOST_ROWS: usize = 40;

impl Drift {
    /// `None` if fewer than two runs have a step time.
    pub(crate) fn of(findings: &Findings) -> Option<Self> {
        let timed = timed(findings);
        let last = timed.iter().map(|run| run.point.start).reduce(f64::max)?;
        if timed.len() < 2 {
            return None;
        }
        let points: Vec<Point> = timed.iter().map(|run| run.point).collect();
        let slope =
            drift::slope(&points, findings.thresholds.confidence).filter(|slope| is_known(slope, last));
        let area = Area::wide(240.0);
        let unit = span_unit(last);
        let x = Scale::new(-0.02 * last..=1.02 * last, area.left..=area.right, unit.factor);
        let furthest = timed.iter().map(|run| run.relative.exp_m1().abs()).fold(0.01, f64::max);
        let y = Scale::new(-furthest..=furthest, area.bottom - 8.0..=area.top + 8.0, 100.0).rounded(4);
        let mut frame = area.frame(
            &x,
            &y,
            [
                format!("start after the first run ({})", unit.name),
                "step time beside the arm's median (%)".to_owned(),
            ],
        );
        frame.x_ticks.retain(|tick| !tick.label.starts_with('\u{2212}'));
        frame.y_ticks = y.ticks(4);
        let marks: Vec<Mark> = timed.iter().map(|run| mark(run, &x, &y)).collect();
        let drawn = folding::drawn(findings, &marks);
        let reused = timed.iter().any(|run| run.judged.run.reused);
        let mut reading = reading(findings, slope, reused);
        reading.extend(uncrowded_remark(&drawn, "the CSV files have the runs of all"));
        Some(Self {
            figure: Figure {
                id: "drift".to_owned(),
                title: "Step time of every run by its start".to_owned(),
                description: finding(slope, last, findings.thresholds.min_effect),
                reading,
                table: table(&timed),
            },
            legend: legend(findings, &timed),
            zero: coordinate(y.at(0.0)),
            slope: slope.map(|slope| line(slope, &timed, last, &x, &y)).unwrap_or_default(),
            arms: arms(&timed, &marks, &drawn),
            frame,
        })
    }
}

/// By arm, as in the plan.
fn timed<'s, 'a>(findings: &'s Findings<'a>) -> Vec<Timed<'s, 'a>> {
    let runs = || {
        findings
            .study
            .arm_cells()
            .flat_map(|placed| &placed.cell.runs)
            .filter(|judged| !judged.has_diverged())
    };
    let first = runs().map(|judged| judged.attempt.started).min().unwrap_or(0);
    let step = |judged: &JudgedRun| {
        let time = judged.attempt.mean_step_time.or(judged.attempt.step_time);
        time.map(record::Nanos::seconds).filter(|step| *step > 0.0)
    };
    let mut timed = Vec::new();
    for (number, placed) in findings.study.arm_cells().enumerate() {
        let steps: Vec<f64> = placed.cell.sound_runs().filter_map(step).collect();
        let Some(middle) = median(&steps) else { continue };
        for judged in placed.cell.sound_runs() {
            let Some(step) = step(judged) else { continue };
            timed.push(Timed {
                judged,
                arm: placed.cell.arm,
                label: findings.label(&placed),
                point: Point { cell: number, start: (judged.attempt.started - first) as f64, step },
                relative: (step / middle).ln(),
            });
        }
    }
    timed
}

/// Minutes or days where seconds or hours would have too many digits.
fn span_unit(seconds: f64) -> Unit {
    match seconds {
        short if short < 300.0 => Unit { name: "s", factor: 1.0 },
        minutes if minutes < 7_200.0 => Unit { name: "min", factor: 1.0 / 60.0 },
        hours if hours < 172_800.0 => Unit { name: "h", factor: 1.0 / 3_600.0 },
        _ => Unit { name: "days", factor: 1.0 / 86_400.0 },
    }
}

/// An interval that reaches beyond a doubling says nothing of a drift; a slope of few runs close together reaches any number.
const MOST_CHANGE: f64 = 1.0;

/// Whether the runs determine the slope at all.
fn is_known(slope: &Slope, span: f64) -> bool {
    let [_, low, high] = slope.over(span);
    high - low <= MOST_CHANGE
}

/// `no drift: the slope over 12 min is +0.3 % (−1.0 … +2.0)`.
fn finding(slope: Option<Slope>, span: f64, min_effect: f64) -> String {
    let Some(slope) = slope else {
        return "Too few runs to judge whether the machine drifted.".to_owned();
    };
    let changes = slope.over(span);
    let [_, low, high] = changes;
    let verdict = match (low > 0.0, high < 0.0) {
        (true, _) => "Drift: steps became longer",
        (_, true) => "Drift: steps became shorter",
        _ if low > -min_effect && high < min_effect => "No drift that matters",
        _ => "A drift is neither shown nor ruled out",
    };
    let wide = (high - low) / 2.0 * 100.0;
    let decimals = number_format::decimals_for(wide).min(2);
    let [value, low, high] = changes.map(|change| number_format::signed(change * 100.0, decimals));
    let unit = span_unit(span);
    let span = unit.with(number_format::short(span * unit.factor));
    format!("{verdict}: the slope over {span} is {value}\u{a0}% ({low} … {high}).")
}

fn reading(findings: &Findings, slope: Option<Slope>, reused: bool) -> String {
    let line = match slope {
        Some(_) => format!(
            " The line is the slope that all arms have in common, by least squares with an intercept for each arm and \
             condition; its interval is Student's t, {}.",
            whole_percent(findings.thresholds.confidence)
        ),
        None => String::new(),
    };
    let hollow = if reused { " Hollow marks are runs of an earlier sweep." } else { "" };
    format!(
        "Each mark is a run: to the right, when it began; upwards, by how much its mean step time exceeds the median of its \
         arm under its condition.{hollow}{line} A drift of the machine shows as a slope, a disturbance as single marks far from the line; the \
         table has what else the machine did during each run."
    )
}

fn legend(findings: &Findings, timed: &[Timed]) -> Vec<Key> {
    let arms: std::collections::BTreeSet<usize> = timed.iter().map(|run| run.arm).collect();
    arms.into_iter().map(|arm| Key::of_arm(arm, findings.study.arm_name(arm))).collect()
}

fn line(slope: Slope, timed: &[Timed], last: f64, x: &Scale, y: &Scale) -> String {
    let count = timed.len() as f64;
    let start = timed.iter().map(|run| run.point.start).sum::<f64>() / count;
    let level = timed.iter().map(|run| run.relative).sum::<f64>() / count;
    let at = |moment: f64| (x.at(moment), y.at((level + slope.value * (moment - start)).exp_m1()));
    Path::through([at(0.0), at(last)]).finish()
}

fn mark(run: &Timed, x: &Scale, y: &Scale) -> Mark {
    let place = Place { x: x.at(run.point.start), y: y.at(run.relative.exp_m1()) };
    Mark { arm: run.arm, differs: run.judged.run.reused, place }
}

/// The runs of each arm under each condition, with the marks that are drawn.
fn arms(timed: &[Timed], marks: &[Mark], drawn: &[bool]) -> Vec<ArmRuns> {
    let run_mark = |run: &Timed, mark: &Mark| RunMark {
        shape: marker(run.arm, mark.place.x, mark.place.y, 4.5),
        hollow: mark.differs,
        title: format!(
            "{}, repeat {}: {}, {}",
            run.label,
            run.judged.run.repeat + 1,
            number_format::seconds(run.point.step),
            change(run.relative)
        ),
    };
    let shown: Vec<usize> = (0..timed.len()).filter(|place| drawn[*place]).collect();
    shown
        .chunk_by(|left, right| timed[*left].point.cell == timed[*right].point.cell)
        .map(|runs| ArmRuns {
            style: arm_style(timed[runs[0]].arm),
            marks: runs.iter().map(|place| run_mark(&timed[*place], &marks[*place])).collect(),
        })
        .collect()
}

/// Change in per cent, from the logarithm of a ratio: `+1.2 %`.
fn change(relative: f64) -> String {
    format!("{}\u{a0}%", number_format::signed(relative.exp_m1() * 100.0, 1))
}

fn table(timed: &[Timed]) -> Table {
    let mut table = Table::new([
        "start",
        "after the first",
        "arm",
        "repeat",
        "step time",
        "beside the median",
        "from an earlier sweep",
        "other processes",
        "hypervisor",
        "waits for a core",
        "waits for memory",
        "load",
        "frequency",
    ]);
    let mut order: Vec<&Timed> = timed.iter().collect();
    order.sort_by_key(|run| (run.judged.attempt.started, run.judged.run.index));
    for run in order {
        let uses = load::uses(run.judged.attempt);
        let most = |of: fn(&record::HostUse) -> Option<f64>| uses.iter().filter_map(of).reduce(f64::max);
        let share = |share: Option<f64>| share.map_or_else(|| "–".to_owned(), number_format::percent);
        let number = |value: Option<f64>, unit: &str| {
            value.map_or_else(|| "–".to_owned(), |value| format!("{}{unit}", number_format::fixed(value, 2)))
        };
        table.rows.push(vec![
            calendar::moment(run.judged.attempt.started),
            number_format::seconds(run.point.start),
            run.label.clone(),
            (run.judged.run.repeat + 1).to_string(),
            number_format::seconds(run.point.step),
            change(run.relative),
            if run.judged.run.reused { "yes" } else { "no" }.to_owned(),
            share(most(|used| Some(used.others))),
            share(most(|used| Some(used.steal))),
            share(most(|used| used.cpu_pressure)),
            share(most(|used| used.memory_pressure)),
            number(most(|used| used.load), ""),
            number(most(|used| used.frequency).map(|kilohertz| kilohertz / 1e6), "\u{a0}GHz"),
        ]);
    }
    table.cut(MOST_ROWS);
    table
}
