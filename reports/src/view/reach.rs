//! The share of runs at their target by time: a step curve for each arm, with a tick where a run ended without.

use super::condition_title;
use crate::chart::{self, Area, Figure, Frame, Path, Scale, Table};
use crate::digits::{self, Unit};
use crate::findings::Findings;
use crate::study::{Condition, Entry};
use crate::verdict;
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
    /// Where runs ended without reaching the target.
    pub(crate) ended: String,
}

/// The chart, where the condition has a target and any run was judged.
pub(crate) fn of(findings: &Findings, number: usize, condition: &Condition) -> Option<Reach> {
    let target = condition.target?;
    let latest = condition
        .entries
        .iter()
        .flat_map(|entry| &entry.trials)
        .map(|trial| trial.hit.map_or(trial.watched, |row| row.at.seconds()))
        .fold(0.0, f64::max);
    if latest <= 0.0 {
        return None;
    }
    let area = Area::wide(210.0);
    let unit = Unit::of_seconds(latest);
    let x = Scale::new((0.0, latest * 1.02), (area.left, area.right), unit.factor);
    let y = Scale::new((0.0, 1.0), (area.bottom, area.top + 6.0), 100.0);
    let mut frame =
        area.frame(&x, &y, [format!("wall time ({})", unit.name), "runs at target (%)".to_owned()]);
    frame.y_ticks = y.ticks(4);
    Some(Reach {
        figure: Figure {
            id: format!("reach-{number}"),
            title: format!("Runs at {}, {}", verdict::target_words(target), condition_title(condition)),
            description: "Step curves of the share of runs that reached the target by each time.".to_owned(),
            reading: "Each step is a run reaching the target; a curve further left is sooner, one that stays below \
                      100 % has runs that never got there. A small upright tick marks when such a run ended."
                .to_owned(),
            table: table(findings, condition),
        },
        frame,
        curves: condition.entries.iter().map(|entry| curve(entry, &x, &y, latest)).collect(),
    })
}

fn curve(entry: &Entry, x: &Scale, y: &Scale, latest: f64) -> ReachCurve {
    let mut hits: Vec<f64> =
        entry.trials.iter().map(crate::study::Trial::time_to_target).filter(|t| t.is_finite()).collect();
    hits.sort_by(f64::total_cmp);
    let share = |count: usize| count as f64 / entry.trials.len().max(1) as f64;
    let mut points = vec![(0.0, 0.0)];
    for (place, time) in hits.iter().enumerate() {
        points.push((*time, share(place)));
        points.push((*time, share(place + 1)));
    }
    points.push((latest * 1.02, share(hits.len())));
    let mut ended = Path::default();
    for trial in entry.trials.iter().filter(|trial| trial.hit.is_none()) {
        let before = hits.iter().filter(|time| **time <= trial.watched).count();
        let (at, level) = (x.at(trial.watched), y.at(share(before)));
        ended.stroke((at, level - 6.0), (at, level + 6.0));
    }
    let line = if entry.trials.is_empty() {
        String::new()
    } else {
        Path::through(points.into_iter().map(|(time, share)| (x.at(time), y.at(share)))).finish()
    };
    ReachCurve { style: chart::arm_style(entry.arm), line, ended: ended.finish() }
}

fn table(findings: &Findings, condition: &Condition) -> Table {
    let mut table =
        Table::new(["arm", "repeat", "seed", "reached after", "at step", "at samples", "watched for"]);
    for entry in &condition.entries {
        let batch = f64::from(findings.batch(entry));
        for trial in &entry.trials {
            let dash = || "not reached".to_owned();
            table.rows.push(vec![
                findings.study.arm_name(entry.arm).to_owned(),
                (trial.run.repeat + 1).to_string(),
                trial.run.seed.to_string(),
                trial.hit.map_or_else(dash, |row| digits::seconds(row.at.seconds())),
                trial.hit.map_or_else(dash, |row| digits::count((row.samples as f64 / batch).round() as u64)),
                trial.hit.map_or_else(dash, |row| digits::count(row.samples)),
                digits::seconds(trial.watched),
            ]);
        }
    }
    table.cut(200);
    table
}
