//! Where the time of a step goes: stacked bars per arm, absolute and as shares.

use super::condition_title;
use crate::chart::{Figure, Key, Scale, Table, Tick, WIDTH, coordinate};
use crate::digits::{self, Unit};
use crate::findings::Findings;
use crate::study::{Condition, Entry};
use recipe::Role;
use record::{Category, LaneId, Phase};
use serde::Serialize;
use store::AttemptRow;

/// The section.
#[derive(Debug, Serialize)]
pub(crate) struct Phases {
    pub(crate) figure: Figure,
    pub(crate) width: String,
    pub(crate) height: String,
    pub(crate) legend: Vec<LegendGroup>,
    pub(crate) headings: Vec<Tick>,
    pub(crate) bars: Vec<Bar>,
    pub(crate) scales: Vec<Grid>,
    pub(crate) axis_y: String,
    pub(crate) label_x: String,
}

/// Phases of one kind.
#[derive(Debug, Serialize)]
pub(crate) struct LegendGroup {
    pub(crate) name: String,
    pub(crate) keys: Vec<Key>,
}

/// A vertical scale with its title.
#[derive(Debug, Serialize)]
pub(crate) struct Grid {
    pub(crate) title: String,
    pub(crate) middle: String,
    pub(crate) top: String,
    pub(crate) bottom: String,
    pub(crate) ticks: Vec<Tick>,
}

/// One arm under one condition: a bar of time per step, the same as shares, and exposed communication beneath.
#[derive(Debug, Serialize)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) name_y: String,
    pub(crate) y: String,
    pub(crate) height: String,
    pub(crate) segments: Vec<Segment>,
    pub(crate) exposed: Vec<Segment>,
    pub(crate) exposed_y: String,
    pub(crate) total: String,
    pub(crate) total_x: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct Segment {
    pub(crate) style: String,
    pub(crate) hatch: String,
    pub(crate) x: String,
    pub(crate) width: String,
    pub(crate) title: String,
}

/// Mean seconds per steady step of a worker: by phase, exposed, in all.
pub(crate) struct StepShares {
    pub(crate) phases: Vec<(Phase, f64)>,
    pub(crate) exposed: f64,
    pub(crate) length: f64,
}

const LABELS: f64 = 168.0;
const SPLIT: f64 = 640.0;
const BAR: f64 = 24.0;
const ROW: f64 = 50.0;

impl Phases {
    pub(crate) fn of(findings: &Findings) -> Option<Self> {
        let measured: Vec<(&Condition, Vec<(&Entry, StepShares)>)> = findings
            .study
            .conditions
            .iter()
            .map(|condition| {
                (condition, condition.entries.iter().filter_map(|e| Some((e, step_shares(e)?))).collect())
            })
            .filter(|(_, entries): &(_, Vec<_>)| !entries.is_empty())
            .collect();
        let longest = measured
            .iter()
            .flat_map(|(_, entries)| entries)
            .map(|(_, shares)| shares.length)
            .reduce(f64::max)?;
        let unit = Unit::of_seconds(longest);
        let absolute = Scale::new((0.0, longest), (LABELS, SPLIT - 74.0), unit.factor);
        let relative = Scale::new((0.0, 1.0), (SPLIT, WIDTH - 16.0), 100.0);
        let mut layout = Layout { y: 34.0, bars: Vec::new(), headings: Vec::new(), absolute, relative, unit };
        for (condition, entries) in &measured {
            if findings.has_conditions() {
                layout.heading(&condition_title(condition));
            }
            for (entry, shares) in entries {
                layout.bar(findings.study.arm_name(entry.arm), shares);
            }
        }
        Some(layout.finish(table(findings, &measured, unit)))
    }
}

struct Layout {
    y: f64,
    bars: Vec<Bar>,
    headings: Vec<Tick>,
    absolute: Scale,
    relative: Scale,
    unit: Unit,
}

impl Layout {
    fn heading(&mut self, name: &str) {
        self.headings.push(Tick { at: coordinate(self.y + 14.0), label: name.to_owned() });
        self.y += 26.0;
    }

    fn bar(&mut self, name: &str, shares: &StepShares) {
        let mut segments = Vec::new();
        let (mut at, mut share_at) = (0.0, 0.0);
        for (phase, seconds) in shares.phases.iter().filter(|(_, seconds)| *seconds > 0.0) {
            let share = seconds / shares.length;
            let title = format!("{name}, {phase}: {}, {}", self.unit.short(*seconds), digits::percent(share));
            segments.push(segment(*phase, &self.absolute, (at, *seconds), title.clone()));
            segments.push(segment(*phase, &self.relative, (share_at, share), title));
            at += seconds;
            share_at += share;
        }
        let exposed_share = shares.exposed / shares.length;
        let title = format!(
            "{name}, exposed communication: {}, {}",
            self.unit.short(shares.exposed),
            digits::percent(exposed_share)
        );
        let exposed = |scale: &Scale, amount: f64| Segment {
            style: "exposed".to_owned(),
            hatch: String::new(),
            x: coordinate(scale.at(0.0)),
            width: coordinate(scale.length(amount)),
            title: title.clone(),
        };
        self.bars.push(Bar {
            name: name.to_owned(),
            name_y: coordinate(self.y + 16.0),
            y: coordinate(self.y),
            height: coordinate(BAR),
            segments,
            exposed: vec![exposed(&self.absolute, shares.exposed), exposed(&self.relative, exposed_share)],
            exposed_y: coordinate(self.y + BAR + 3.0),
            total: self.unit.short(shares.length),
            total_x: coordinate(self.absolute.at(shares.length) + 7.0),
        });
        self.y += ROW;
    }

    fn finish(self, table: Table) -> Phases {
        let grid = |scale: &Scale, ticks: usize, title: String| Grid {
            title,
            middle: coordinate(scale.at(scale.low())),
            top: "26".to_owned(),
            bottom: coordinate(self.y - 8.0),
            ticks: scale.ticks(ticks),
        };
        Phases {
            figure: Figure {
                id: "phases".to_owned(),
                title: "Time of a step by phase".to_owned(),
                description: "Stacked bars of exclusive time per phase for each arm, in time per step and as shares; \
                              the table below holds every value."
                    .to_owned(),
                reading: "Each bar is the mean steady step of a worker's compute lane, cut into phases that exclude each \
                          other and add up to the whole: shorter is faster. Blue computes, orange communicates, hatched \
                          pink waits, grey is the rest. The thin hatched bar beneath is exposed communication: what the \
                          lane spent communicating or waiting instead of computing."
                    .to_owned(),
                table,
            },
            width: coordinate(WIDTH),
            height: coordinate(self.y + 22.0),
            legend: legend(),
            scales: vec![
                grid(&self.absolute, 6, format!("time per step ({})", self.unit.name)),
                grid(&self.relative, 4, "share of the step (%)".to_owned()),
            ],
            headings: self.headings,
            bars: self.bars,
            axis_y: coordinate(self.y + 8.0),
            label_x: coordinate(LABELS - 12.0),
        }
    }
}

fn segment(phase: Phase, scale: &Scale, (from, amount): (f64, f64), title: String) -> Segment {
    Segment {
        style: phase_style(phase),
        hatch: hatch(phase).to_owned(),
        x: coordinate(scale.at(from)),
        width: coordinate(scale.length(amount).max(0.1)),
        title,
    }
}

/// The CSS class of a phase.
pub(crate) fn phase_style(phase: Phase) -> String {
    format!("phase-{phase}")
}

/// The pattern laid over a phase: none for computing.
pub(crate) fn hatch(phase: Phase) -> &'static str {
    match phase.category() {
        Category::Compute => "",
        Category::Communication => "hatch-communication",
        Category::Waiting => "hatch-waiting",
        Category::Rest => "hatch-rest",
    }
}

/// All phases by kind, whether they occurred or not: the list is closed.
pub(crate) fn legend() -> Vec<LegendGroup> {
    let kinds = [
        (Category::Compute, "computes"),
        (Category::Communication, "communicates"),
        (Category::Waiting, "waits"),
        (Category::Rest, "rest"),
    ];
    let key = |phase: Phase| Key {
        style: phase_style(phase),
        name: phase.name().to_owned(),
        mark: hatch(phase).to_owned(),
    };
    kinds
        .into_iter()
        .map(|(kind, name)| LegendGroup {
            name: name.to_owned(),
            keys: Phase::ALL.into_iter().filter(|phase| phase.category() == kind).map(key).collect(),
        })
        .collect()
}

/// The mean over judged runs; none where no run has a steady step.
pub(crate) fn step_shares(entry: &Entry) -> Option<StepShares> {
    let runs: Vec<StepShares> =
        entry.trials.iter().filter_map(|trial| attempt_shares(trial.attempt)).collect();
    if runs.is_empty() {
        return None;
    }
    let mean = |value: &dyn Fn(&StepShares) -> f64| runs.iter().map(value).sum::<f64>() / runs.len() as f64;
    Some(StepShares {
        phases: Phase::ALL
            .into_iter()
            .enumerate()
            .map(|(place, phase)| (phase, mean(&|run| run.phases[place].1)))
            .collect(),
        exposed: mean(&|run| run.exposed),
        length: mean(&|run| run.length),
    })
}

/// Of one run: sums over the workers' compute lanes, per step. What the phases leave of the steps' length is
/// `other`.
pub(crate) fn attempt_shares(attempt: &AttemptRow) -> Option<StepShares> {
    let workers = || attempt.ranks.iter().filter(|rank| rank.role == Role::Worker);
    let steps: u64 = workers().map(|rank| rank.steady.1).sum();
    let length: f64 = workers().map(|rank| rank.steady.0.seconds()).sum();
    if steps == 0 || length <= 0.0 {
        return None;
    }
    let total = |phase: Phase| -> f64 {
        let rows = workers().flat_map(|rank| &rank.phases);
        rows.filter(|row| row.phase == phase && row.lane == LaneId::Compute)
            .map(|row| row.total.seconds())
            .sum()
    };
    let mut phases: Vec<(Phase, f64)> = Phase::ALL.into_iter().map(|phase| (phase, total(phase))).collect();
    let named: f64 =
        phases.iter().filter(|(phase, _)| *phase != Phase::Other).map(|(_, seconds)| seconds).sum();
    for (phase, seconds) in &mut phases {
        if *phase == Phase::Other {
            *seconds = (length - named).max(0.0);
        }
        *seconds /= steps as f64;
    }
    Some(StepShares {
        phases,
        exposed: workers().map(|rank| rank.exposed.seconds()).sum::<f64>() / steps as f64,
        length: length.max(named) / steps as f64,
    })
}

fn table(findings: &Findings, measured: &[(&Condition, Vec<(&Entry, StepShares)>)], unit: Unit) -> Table {
    let mut table = Table::default();
    let heads =
        measured.iter().flat_map(|(condition, entries)| entries.iter().map(move |entry| (condition, entry)));
    table.columns = vec!["phase".to_owned()];
    for (condition, (entry, _)) in heads.clone() {
        let arm = findings.study.arm_name(entry.arm);
        let name = if findings.has_conditions() {
            format!("{arm}, {}", condition_title(condition))
        } else {
            arm.to_owned()
        };
        table.columns.push(format!("{name} ({})", unit.name));
        table.columns.push("share".to_owned());
    }
    let mut add = |name: &str, value: &dyn Fn(&StepShares) -> f64| {
        let mut row = vec![name.to_owned()];
        for (_, (_, shares)) in heads.clone() {
            row.push(unit.number(value(shares), 3));
            row.push(digits::percent(value(shares) / shares.length));
        }
        table.rows.push(row);
    };
    for (place, phase) in Phase::ALL.into_iter().enumerate() {
        add(phase.name(), &|shares| shares.phases[place].1);
    }
    add("whole step", &|shares| shares.length);
    add("exposed communication", &|shares| shares.exposed);
    table
}
