//! The page as a plain structure with every string formatted and every shape placed. Templates only lay it out.

pub(crate) mod accuracy;
mod arm_lines;
mod changes;
mod communication;
mod conditions;
pub(crate) mod cost;
mod course;
pub(crate) mod curves;
mod described;
mod drift;
mod emulation;
mod failures;
mod folding;
pub(crate) mod forecast;
pub(crate) mod forest;
pub(crate) mod front;
mod groups;
pub(crate) mod masthead;
mod method;
pub(crate) mod overview;
pub(crate) mod parallel;
pub(crate) mod phases;
pub(crate) mod plane;
mod planned_faults;
mod rank_matrix;
mod reach;
mod reproduce;
mod rise;
pub(crate) mod scaling;
mod schedule;
pub(crate) mod scoreboard;
pub(crate) mod search;
pub(crate) mod series;
mod spread;
mod staleness;
mod target_label;
mod timeline;
mod trust_mark;
mod trust_marks;
mod tuned;
mod verdicts;
mod waiting;
pub(crate) mod winner_map;

pub(crate) use timeline::chosen_runs;

use crate::axes::Axes;
use crate::chart::{Figure, Key};
use crate::data::Data;
use crate::findings::Findings;
use crate::verdict::{self, Verdict};
use crate::{Options, ReportError, Timelines, winner};
use serde::Serialize;
use std::collections::BTreeSet;

/// Everything that the templates show.
#[derive(Debug, Serialize)]
pub(crate) struct View {
    pub(crate) title: String,
    /// Of the whole page, to be hidden and shown.
    pub(crate) arms: Vec<Key>,
    pub(crate) masthead: masthead::Masthead,
    pub(crate) overview: Option<overview::Overview>,
    /// Where the page is of several sweeps.
    pub(crate) changes: Option<changes::Section>,
    pub(crate) parallel: Option<parallel::Section>,
    pub(crate) forest: Option<forest::Forest>,
    pub(crate) scaling: Option<scaling::Scaling>,
    pub(crate) planes: Option<plane::Planes>,
    pub(crate) fronts: Option<front::Fronts>,
    pub(crate) verdicts: Vec<verdicts::VerdictGroup>,
    pub(crate) boards: Vec<scoreboard::Board>,
    pub(crate) cost: Option<cost::Section>,
    pub(crate) drift: Option<drift::Drift>,
    pub(crate) accuracy: Vec<accuracy::Accuracy>,
    /// Each arm at its best, where rates or schedules vary.
    pub(crate) tuned: Option<tuned::Section>,
    /// Where each arm searched its settings by short trainings.
    pub(crate) search: Option<search::Section>,
    /// Where there are many: then verdicts, boards and accuracy are in these.
    pub(crate) conditions: Vec<conditions::Folded>,
    /// Note on the conditions that have a line only; `None` where all have their details.
    pub(crate) conditions_note: Option<String>,
    pub(crate) phases: Option<phases::Phases>,
    pub(crate) timelines: timeline::Section,
    pub(crate) waiting: Option<waiting::Section>,
    pub(crate) staleness: Option<staleness::Section>,
    pub(crate) communication: Option<communication::Communication>,
    pub(crate) groups: Option<groups::Section>,
    pub(crate) schedule: Option<schedule::Section>,
    pub(crate) forecast: Option<forecast::Section>,
    pub(crate) failures: failures::Failures,
    pub(crate) method: method::Method,
    pub(crate) reproduce: reproduce::Reproduce,
}

impl View {
    pub(crate) fn of(
        findings: &Findings,
        timelines: &Timelines,
        options: &Options,
        data: Data,
    ) -> Result<Self, ReportError> {
        let verdicts: Vec<Verdict> = verdict::all(findings);
        let winners = winner::winners(findings);
        let axes = Axes::of(&findings.study);
        let open = PerCondition::of(findings, &verdicts, &winners);
        Ok(Self {
            title: findings.rows().plan.name.clone(),
            arms: arms(findings),
            masthead: masthead::Masthead::of(findings, &verdicts, options),
            overview: axes.as_ref().and_then(|axes| overview::Overview::of(findings, axes, &winners)),
            changes: options.changes.as_ref().map(|changes| changes::Section::of(findings, changes)),
            scaling: axes.as_ref().and_then(|axes| scaling::Scaling::of(findings, axes)),
            parallel: axes.as_ref().and_then(|axes| parallel::Section::of(findings, axes)),
            forest: forest::Forest::of(findings),
            tuned: tuned::Section::of(findings, options)?,
            search: search::Section::of(findings),
            planes: plane::Planes::of(findings),
            fronts: front::Fronts::of(findings),
            verdicts: open.groups,
            boards: open.boards,
            cost: cost::Section::of(findings),
            drift: drift::Drift::of(findings),
            accuracy: open.accuracy,
            conditions: open.folded,
            conditions_note: folding::note(&findings.study),
            phases: phases::Phases::of(findings),
            timelines: timeline::Section::of(findings, timelines),
            waiting: waiting::Section::of(findings, timelines),
            staleness: staleness::Section::of(findings),
            communication: communication::Communication::of(findings),
            groups: groups::Section::of(findings),
            schedule: schedule::Section::of(findings),
            forecast: forecast::Section::of(findings),
            failures: failures::Failures::of(findings),
            method: method::Method::of(findings),
            reproduce: reproduce::Reproduce::of(findings, options, data),
        })
    }
}

/// The arms that have cells, in the order of the plan.
fn arms(findings: &Findings) -> Vec<Key> {
    let arms: BTreeSet<usize> = findings.study.arm_cells().map(|placed| placed.cell.arm).collect();
    arms.into_iter().map(|arm| Key::of_arm(arm, findings.study.arm_name(arm))).collect()
}

/// The sections of each condition: open, one section below the other, or folded away where there are many.
#[derive(Default)]
struct PerCondition {
    groups: Vec<verdicts::VerdictGroup>,
    boards: Vec<scoreboard::Board>,
    accuracy: Vec<accuracy::Accuracy>,
    folded: Vec<conditions::Folded>,
}

impl PerCondition {
    fn of(findings: &Findings, verdicts: &[Verdict], winners: &[Option<winner::Winner>]) -> Self {
        let groups = verdicts::verdict_groups(findings, verdicts);
        if folding::are_folded(&findings.study) {
            let folded = conditions::folded(findings, groups, winners);
            return Self { folded, ..Self::default() };
        }
        let boards = scoreboard::boards(findings);
        let accuracy = accuracy::all(findings);
        Self { groups, boards, accuracy, folded: Vec::new() }
    }
}

/// Picture beside a sweep on the index of a site: the one that its own page begins with.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Picture {
    /// Lines over the values of one axis.
    Lines { lines: arm_lines::ArmLines, legend: Vec<Key> },
    /// Map over two axes; of more, the first map.
    Map { map: winner_map::WinnerMap, areas: Vec<overview::Area> },
    /// Curves of a sweep with one condition, or with axes that have no order.
    Curves { figure: Figure, panel: Box<curves::Panel>, legend: Vec<Key> },
}

impl Picture {
    /// `id` is unique on the page that it stands on.
    pub(crate) fn of(findings: &Findings, id: &str) -> Option<Self> {
        Self::of_axes(findings, id).or_else(|| Self::of_curves(findings, id))
    }

    fn of_axes(findings: &Findings, id: &str) -> Option<Self> {
        let axes = Axes::of(&findings.study)?;
        let overview = overview::Overview::of(findings, &axes, &winner::winners(findings))?;
        let overview::Overview { lines, legend, areas, maps, .. } = overview;
        let named = |figure: Figure| Figure { id: id.to_owned(), ..figure };
        if let Some(lines) = lines {
            return Some(Self::Lines {
                lines: arm_lines::ArmLines { figure: named(lines.figure), ..lines },
                legend,
            });
        }
        let map = maps.into_iter().next()?;
        Some(Self::Map { map: winner_map::WinnerMap { figure: named(map.figure), ..map }, areas })
    }

    fn of_curves(findings: &Findings, id: &str) -> Option<Self> {
        let accuracy = accuracy::all(findings).into_iter().next()?;
        let chart = accuracy.charts.into_iter().next()?;
        let panel = Box::new(chart.panels.into_iter().next()?);
        let figure = Figure { id: id.to_owned(), ..chart.figure };
        Some(Self::Curves { figure, panel, legend: accuracy.legend })
    }
}

/// The heading of a condition; if there is only one, its number of workers.
pub(crate) fn condition_title(condition: &comparison::study::Condition) -> String {
    match condition.name {
        "" => crate::number_format::plural(condition.workers as usize, "worker"),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Sample, timelines};

    #[test]
    fn the_view_of_a_small_sweep() {
        let sample = Sample { workers: vec![2], repeats: 2, epochs: (1, 1), ..Sample::duel() };
        let rows = sample.rows();
        let options = Options { generated_by: "bakeoff 0.1.0".to_owned(), ..Options::default() };
        let mut spans = timelines(&rows);
        for traced in spans.values_mut() {
            traced.spans.retain(|span| span.step == 1 && span.rank.0 == 0);
            for worker in traced.course.iter_mut().flat_map(|course| &mut course.workers) {
                worker.stretches.truncate(8);
            }
        }
        let view = {
            let findings = Findings::of(&rows, &options).unwrap();
            let data = Data::of(&findings, None);
            View::of(&findings, &spans, &options, data).unwrap()
        };
        insta::assert_json_snapshot!(view);
    }
}
