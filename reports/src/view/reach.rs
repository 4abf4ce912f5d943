//! The share of runs that reached their target over time: a step curve per arm, with a tick at the end of each other run.

use super::condition_title;
use super::described;
use crate::chart::{self, Area, Figure, Frame, Path, Place, Scale, Table};
use crate::findings::Findings;
use crate::number_format::{self, Unit};
use crate::verdict;
use comparison::study::{ArmCell, Condition};
use serde::Serialize;

/// The chart of one condition.
#[derive(Debug, Serialize)]
pub(crate) struct Reach {
    pub(crate) figure: Figure,
    pub(crate) frame: Frame,
    pub(crate) curves: Vec<ReachCurve>,
}

#[derive(Debug, Serialize)]
pub(crate) struct ReachCurve {
    pub(crate) style: String,
    pub(crate) line: String,
    /// Ends of runs that did not reach the target.
    pub(crate) ended: String,
}

/// `None` if the condition has no target or no judged run.
pub(crate) fn of(findings: &Findings, number: usize, condition: &Condition) -> Option<Reach> {
    let target = condition.target?;
    let latest = condition
        .cells
        .iter()
        .flat_map(|cell| &cell.runs)
        .map(|judged| judged.hit.map_or(judged.watched, |row| row.at.seconds()))
        .fold(0.0, f64::max);
    if latest <= 0.0 {
        return None;
    }
    let area = Area::wide(210.0);
    let unit = Unit::of_seconds(latest);
    let x = Scale::new(0.0..=latest * 1.02, area.left..=area.right, unit.factor);
    let y = Scale::new(0.0..=1.0, area.bottom..=area.top + 6.0, 100.0);
    let mut frame =
        area.frame(&x, &y, [format!("wall time ({})", unit.name), "runs at target (%)".to_owned()]);
    frame.y_ticks = y.ticks(4);
    Some(Reach {
        figure: Figure {
            id: format!("reach-{number}"),
            title: format!("Runs at {}, {}", verdict::target_words(target), condition_title(condition)),
            description: described::reach(condition, &|arm| findings.study.arm_name(arm).to_owned()),
            reading: "Each step is a run that reaches the target; a curve further left is faster, and one that stays below \
                      100 % has runs that never reached it. A small upright tick marks the end of such a run."
                .to_owned(),
            table: table(findings, condition),
        },
        frame,
        curves: condition.cells.iter().map(|cell| curve(cell, &x, &y, latest)).collect(),
    })
}

fn curve(cell: &ArmCell, x: &Scale, y: &Scale, latest: f64) -> ReachCurve {
    let mut hits: Vec<f64> = cell
        .runs
        .iter()
        .map(comparison::study::JudgedRun::time_to_target)
        .filter(|t| t.is_finite())
        .collect();
    hits.sort_by(f64::total_cmp);
    let share = |count: usize| count as f64 / cell.runs.len().max(1) as f64;
    let mut points = vec![(0.0, 0.0)];
    for (place, time) in hits.iter().enumerate() {
        points.push((*time, share(place)));
        points.push((*time, share(place + 1)));
    }
    points.push((latest * 1.02, share(hits.len())));
    let mut ended = Path::default();
    for judged in cell.runs.iter().filter(|judged| judged.hit.is_none()) {
        let before = hits.iter().filter(|time| **time <= judged.watched).count();
        let at = x.at(judged.watched);
        let level = y.at(share(before));
        ended.stroke(Place { x: at, y: level - 6.0 }, Place { x: at, y: level + 6.0 });
    }
    let line = if cell.runs.is_empty() {
        String::new()
    } else {
        Path::through(points.into_iter().map(|(time, share)| (x.at(time), y.at(share)))).finish()
    };
    ReachCurve { style: chart::arm_style(cell.arm), line, ended: ended.finish() }
}

fn table(findings: &Findings, condition: &Condition) -> Table {
    let mut table =
        Table::new(["arm", "repeat", "seed", "reached after", "at step", "at samples", "watched for"]);
    for cell in &condition.cells {
        let batch = f64::from(findings.batch(cell));
        for judged in &cell.runs {
            let dash = || "not reached".to_owned();
            table.rows.push(vec![
                findings.study.arm_name(cell.arm).to_owned(),
                (judged.run.repeat + 1).to_string(),
                judged.run.seed.to_string(),
                judged.hit.map_or_else(dash, |row| number_format::seconds(row.at.seconds())),
                judged.hit.map_or_else(dash, |row| {
                    number_format::count((row.samples as f64 / batch).round() as u64)
                }),
                judged.hit.map_or_else(dash, |row| number_format::count(row.samples)),
                number_format::seconds(judged.watched),
            ]);
        }
    }
    table.cut(200);
    table
}
