//! Where the time of a step goes: stacked bars per arm, absolute and as shares.

use super::condition_title;
use super::described;
use super::folding;
use crate::chart::{Figure, Key, Scale, Sheet, Table, Tick, coordinate, row_label};
use crate::findings::Findings;
use crate::number_format::{self, Unit};
use crate::phase_shares::{self, StepShares};
use comparison::study::Condition;
use record::{Category, Phase};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct Phases {
    pub(crate) figure: Figure,
    pub(crate) width: String,
    pub(crate) height: String,
    pub(crate) legend: Vec<LegendGroup>,
    pub(crate) headings: Vec<Tick>,
    pub(crate) bars: Vec<PhaseBar>,
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

/// One arm under one condition: a bar of time per step, the same as shares, and all communication beneath.
#[derive(Debug, Serialize)]
pub(crate) struct PhaseBar {
    pub(crate) arm: String,
    pub(crate) name: String,
    /// The name, shortened to fit beside the bar.
    pub(crate) lines: Vec<Tick>,
    pub(crate) total_y: String,
    pub(crate) segments: Vec<Segment>,
    /// Communication: the exposed part, then the hidden one.
    pub(crate) lanes: Vec<Segment>,
    pub(crate) total: String,
    pub(crate) total_x: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct Segment {
    pub(crate) style: String,
    pub(crate) hatch: String,
    /// Its rectangles on both scales.
    pub(crate) shape: String,
    pub(crate) title: String,
}

const LABELS: f64 = 168.0;

/// Width of a letter of a label.
const LETTER: f64 = 6.9;

/// Where the shares begin on the page.
const SPLIT: f64 = 640.0;

/// Room for the words at the end of a bar.
const TOTAL: f64 = 74.0;
const BAR: f64 = 24.0;
/// Of the communication of all lanes, beneath the bar.
const LANE: f64 = 7.0;
const ROW: f64 = 50.0;

/// The lanes of one condition, each arm's workers before its servers.
struct Measured<'s> {
    condition: String,
    lanes: Vec<Lane<'s>>,
}

/// The workers or the servers of an arm.
struct Lane<'s> {
    arm: &'s str,
    name: String,
    shares: StepShares,
}

impl<'s> Measured<'s> {
    fn of(findings: &'s Findings, condition: &Condition) -> Option<Self> {
        let mut lanes = Vec::new();
        for cell in &condition.cells {
            let arm = findings.study.arm_name(cell.arm);
            let workers = phase_shares::mean(cell, phase_shares::workers);
            lanes.extend(workers.map(|shares| Lane { arm, name: arm.to_owned(), shares }));
            let servers = phase_shares::mean(cell, phase_shares::servers);
            lanes.extend(servers.map(|shares| Lane { arm, name: format!("{arm}, server"), shares }));
        }
        (!lanes.is_empty()).then(|| Self { condition: condition_title(condition), lanes })
    }
}

impl Phases {
    pub(crate) fn of(findings: &Findings) -> Option<Self> {
        let measured: Vec<Measured> = findings
            .study
            .conditions
            .iter()
            .take(folding::listed(findings))
            .filter_map(|condition| Measured::of(findings, condition))
            .collect();
        let lanes = measured.iter().flat_map(|measured| &measured.lanes);
        let longest = lanes.map(|lane| lane.shares.length).reduce(f64::max)?;
        let unit = Unit::of_seconds(longest);
        let names = measured.iter().flat_map(|measured| &measured.lanes).map(|lane| lane.name.as_str());
        let mut layout = Layout::new(findings.sheet, Columns::of(findings.sheet, names), longest, unit);
        for Measured { condition, lanes } in &measured {
            if findings.has_conditions() {
                layout.heading(condition);
            }
            for lane in lanes {
                layout.bar(lane);
            }
        }
        let named = measured.iter().flat_map(|Measured { condition, lanes }| {
            let aside = if findings.has_conditions() { format!(", {condition}") } else { String::new() };
            lanes.iter().map(move |lane| (format!("{}{aside}", lane.name), &lane.shares))
        });
        Some(layout.finish(described::phases(named), table(findings, &measured, unit)))
    }
}

/// Where the labels, the times and the shares end.
struct Columns {
    labels: f64,
    times: f64,
    /// `None` in a figure for print, which shows times only.
    shares: Option<f64>,
}

impl Columns {
    fn of<'a>(sheet: Sheet, names: impl Iterator<Item = &'a str>) -> Self {
        match sheet {
            Sheet::Page => Self { labels: LABELS, times: SPLIT, shares: Some(sheet.width() - 16.0) },
            Sheet::Figure { width } => {
                let letters = names.flat_map(row_label).map(|line| line.chars().count()).max().unwrap_or(0);
                Self { labels: (letters as f64 * LETTER + 18.0).min(LABELS), times: width, shares: None }
            }
        }
    }
}

struct Layout {
    y: f64,
    bars: Vec<PhaseBar>,
    headings: Vec<Tick>,
    sheet: Sheet,
    labels: f64,
    absolute: Scale,
    /// Of shares of the step.
    relative: Option<Scale>,
    unit: Unit,
}

impl Layout {
    fn new(sheet: Sheet, columns: Columns, longest: f64, unit: Unit) -> Self {
        Self {
            y: 34.0,
            bars: Vec::new(),
            headings: Vec::new(),
            sheet,
            labels: columns.labels,
            absolute: Scale::new(0.0..=longest, columns.labels..=columns.times - TOTAL, unit.factor),
            relative: columns.shares.map(|right| Scale::new(0.0..=1.0, columns.times..=right, 100.0)),
            unit,
        }
    }

    fn heading(&mut self, name: &str) {
        self.headings.push(Tick { at: coordinate(self.y + 14.0), label: name.to_owned() });
        self.y += 26.0;
    }

    fn bar(&mut self, lane: &Lane) {
        let Lane { arm, name, shares } = lane;
        let mut segments = Vec::new();
        let mut at = 0.0;
        let mut share_at = 0.0;
        for (phase, seconds) in shares.phases.iter().filter(|(_, seconds)| *seconds > 0.0) {
            let share = seconds / shares.length;
            let title =
                format!("{name}, {phase}: {}, {}", self.unit.short(*seconds), number_format::percent(share));
            let time = (self.absolute.at(at), self.absolute.length(*seconds));
            let part = self.relative.as_ref().map(|scale| (scale.at(share_at), scale.length(share)));
            let shape = rectangles([time].into_iter().chain(part), self.y, BAR);
            segments.push(segment(*phase, shape, title));
            at += seconds;
            share_at += share;
        }
        let lines = row_label(name);
        let places = if lines.len() > 1 { [self.y + 10.0, self.y + 25.0] } else { [self.y + 16.0; 2] };
        self.bars.push(PhaseBar {
            arm: (*arm).to_owned(),
            name: name.clone(),
            lines: lines
                .into_iter()
                .zip(places)
                .map(|(label, at)| Tick { at: coordinate(at), label })
                .collect(),
            total_y: coordinate(self.y + 16.0),
            segments,
            lanes: self.lanes(name, shares),
            total: self.unit.short(shares.length),
            total_x: coordinate(self.absolute.at(shares.length) + 7.0),
        });
        self.y += ROW;
    }

    /// The communication of all lanes beneath the step that it belongs to.
    fn lanes(&self, name: &str, shares: &StepShares) -> Vec<Segment> {
        let exposed = shares.exposed.unwrap_or(0.0);
        let hidden = shares.hidden.unwrap_or(0.0);
        let kinds = [("exposed", (0.0, exposed)), ("hidden", (exposed, hidden))];
        let relative = self.relative.as_ref().map(|scale| (scale, shares.length));
        let scales: Vec<(&Scale, f64)> = [(&self.absolute, 1.0)].into_iter().chain(relative).collect();
        let top = self.y + BAR + 3.0;
        kinds
            .into_iter()
            .filter(|(_, (_, seconds))| *seconds > 0.0)
            .map(|(kind, (from, seconds))| {
                let amount = self.unit.short(seconds);
                let share = number_format::percent(seconds / shares.length);
                let title = format!("{name}, {kind} communication: {amount}, {share}");
                let places = scales
                    .iter()
                    .map(|(scale, whole)| (scale.at(from / whole), scale.length(seconds / whole)));
                Segment {
                    style: kind.to_owned(),
                    hatch: format!("hatch-{kind}"),
                    shape: rectangles(places, top, LANE),
                    title,
                }
            })
            .collect()
    }

    fn finish(self, description: String, table: Table) -> Phases {
        let grid = |scale: &Scale, ticks: usize, title: String| Grid {
            title,
            middle: coordinate(scale.at(scale.low())),
            top: "26".to_owned(),
            bottom: coordinate(self.y - 8.0),
            ticks: scale.ticks_across(ticks),
        };
        Phases {
            figure: Figure {
                id: "phases".to_owned(),
                title: "Time of a step by phase".to_owned(),
                description,
                reading: "Each bar is the mean steady step of a worker's compute lane (or a turn of a server's lane), divided into phases that \
                          exclude each other and add up to the step: shorter is faster. Blue computes, orange communicates, \
                          hatched pink waits, grey is the rest. The thin bar beneath is the communication of all lanes of the rank: \
                          hatched if exposed, because the compute lane itself communicated or waited; cross-hatched on green if \
                          hidden, because the compute lane computed meanwhile."
                    .to_owned(),
                table,
            },
            width: coordinate(self.sheet.width()),
            height: coordinate(self.y + 22.0),
            legend: legend(),
            scales: [grid(&self.absolute, 6, format!("time per step ({})", self.unit.name))]
                .into_iter()
                .chain(self.relative.as_ref().map(|scale| grid(scale, 4, "share of the step (%)".to_owned())))
                .collect(),
            headings: self.headings,
            bars: self.bars,
            axis_y: coordinate(self.y + 8.0),
            label_x: coordinate(self.labels - 12.0),
        }
    }
}

fn segment(phase: Phase, shape: String, title: String) -> Segment {
    Segment { style: phase_style(phase), hatch: hatch(phase).to_owned(), shape, title }
}

/// One outline of several rectangles, each from its left end and as long as is said, between `top` and `top + height`.
fn rectangles(places: impl Iterator<Item = (f64, f64)>, top: f64, height: f64) -> String {
    let rectangle = |(left, width): (f64, f64)| {
        // Nothing that was measured is invisible.
        let right = left + width.max(0.1);
        format!(
            "M{} {}V{}H{}V{}z",
            coordinate(left),
            coordinate(top),
            coordinate(top + height),
            coordinate(right),
            coordinate(top)
        )
    };
    places.map(rectangle).collect()
}

/// The CSS class of a phase.
pub(crate) fn phase_style(phase: Phase) -> String {
    format!("phase-{phase}")
}

/// The hatch of a phase; empty for computing.
pub(crate) fn hatch(phase: Phase) -> &'static str {
    match phase.category() {
        Category::Compute => "",
        Category::Communication => "hatch-communication",
        Category::Waiting => "hatch-waiting",
        Category::Rest => "hatch-rest",
    }
}

/// All phases by kind, whether they occurred or not.
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

fn table(findings: &Findings, measured: &[Measured], unit: Unit) -> Table {
    let lanes =
        || measured.iter().flat_map(|measured| measured.lanes.iter().map(|lane| (&measured.condition, lane)));
    let mut table = Table { columns: vec!["phase".to_owned()], ..Table::default() };
    for (condition, Lane { name, .. }) in lanes() {
        let name = if findings.has_conditions() { format!("{name}, {condition}") } else { name.clone() };
        table.columns.push(format!("{name} ({})", unit.name));
        table.columns.push("share".to_owned());
    }
    let mut add = |name: &str, value: &dyn Fn(&StepShares) -> Option<f64>| {
        let mut row = vec![name.to_owned()];
        for (_, Lane { shares, .. }) in lanes() {
            let cells = value(shares)
                .map(|value| [unit.number(value, 3), number_format::percent(value / shares.length)]);
            row.extend(cells.unwrap_or_else(|| ["–", "–"].map(str::to_owned)));
        }
        table.rows.push(row);
    };
    for phase in Phase::ALL {
        add(phase.name(), &|shares| Some(shares.of(phase)));
    }
    add("whole step", &|shares| Some(shares.length));
    add("exposed communication", &|shares| shares.exposed);
    add("hidden communication", &|shares| shares.hidden);
    table
}
