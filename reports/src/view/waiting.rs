//! Who waited for whom: a sentence and a bar for each worker, for each arm under each condition.

use super::condition_title;
use super::course;
use super::folding;
use super::timeline::chosen_runs;
use crate::Timelines;
use crate::blame::sentence;
use crate::chart::{Area, Figure, Frame, Key, Scale, Table, Tick, coordinate};
use crate::findings::Findings;
use crate::number_format::{self, Unit};
use crate::waiting::{Links, Share, Waiting};
use comparison::study::PlacedCell;
use recipe::Role;
use record::Rank;
use serde::Serialize;

/// Charts on one page.
const MOST_CHARTS: usize = 12;

#[derive(Debug, Serialize)]
pub(crate) struct Section {
    pub(crate) items: Vec<Item>,
    pub(crate) legend: Vec<Key>,
    pub(crate) charts: Vec<Drawn>,
    /// Names the sentences and charts that are not shown; empty where all are.
    pub(crate) note: String,
    /// The arms' steps over the whole run, under the first condition and under others.
    pub(crate) courses: Vec<course::Map>,
    pub(crate) other_courses: Vec<course::Map>,
    /// Whose steps are not shown, or not all of them; may be empty.
    pub(crate) course_note: String,
}

/// One arm under one condition.
#[derive(Debug, Serialize)]
pub(crate) struct Item {
    pub(crate) key: Key,
    pub(crate) condition: String,
    pub(crate) sentence: String,
    /// The run that the sentence is about.
    pub(crate) run: String,
    /// Whether a rank or a link stands out.
    pub(crate) named: bool,
}

/// The workers of one run, a bar for each.
#[derive(Debug, Serialize)]
pub(crate) struct Drawn {
    pub(crate) figure: Figure,
    pub(crate) key: Key,
    pub(crate) condition: String,
    pub(crate) unit: String,
    pub(crate) frame: Frame,
    pub(crate) bars: Vec<StepPart>,
    pub(crate) outlines: Vec<Outline>,
}

/// A part of a worker's mean step.
#[derive(Debug, Serialize)]
pub(crate) struct StepPart {
    pub(crate) style: String,
    pub(crate) hatch: String,
    pub(crate) x: String,
    pub(crate) y: String,
    pub(crate) width: String,
    pub(crate) height: String,
    pub(crate) title: String,
}

/// A frame around the bar of a rank that stands out, with its name.
#[derive(Debug, Serialize)]
pub(crate) struct Outline {
    pub(crate) x: String,
    pub(crate) y: String,
    pub(crate) width: String,
    pub(crate) height: String,
    pub(crate) label: String,
    pub(crate) label_x: String,
    pub(crate) label_y: String,
    /// Value of the label's attribute `text-anchor`.
    pub(crate) anchor: String,
}

/// The parts of a step: style, pattern, name, amount.
type Part = (&'static str, &'static str, &'static str, fn(&Share) -> f64);

const PARTS: [Part; 3] = [
    ("phase-forward", "", "busy", |share| share.busy),
    ("phase-transfer", "hatch-communication", "exposed communication", |share| share.communicating),
    ("phase-wait-peer", "hatch-waiting", "waiting", |share| share.waiting),
];

impl Section {
    /// `None` if no run has two workers with a known pace.
    pub(crate) fn of(findings: &Findings, given: &Timelines) -> Option<Self> {
        let placed: Vec<PlacedCell> = findings.study.arm_cells().collect();
        let found: Vec<(PlacedCell, &Waiting)> = findings.waiting().collect();
        if found.is_empty() {
            return None;
        }
        let listed = found.iter().filter(|(placed, _)| placed.number < folding::listed(findings));
        let mut notes: Vec<String> = unlisted(findings, &found).into_iter().collect();
        let old = placed.iter().filter(|placed| is_old(placed)).count();
        if old > 0 {
            notes.push(format!(
                "{} recorded before paces were kept; `bakeoff db rebuild` derives them.",
                number_format::plural(old, "arm")
            ));
        }
        if found.len() > MOST_CHARTS {
            notes.push(format!(
                "The first {MOST_CHARTS} of {} charts are shown; the CSV files hold all.",
                found.len()
            ));
        }
        let key = |(style, hatch, name, _): Part| Key {
            style: style.to_owned(),
            name: name.to_owned(),
            mark: hatch.to_owned(),
        };
        let (maps, course_note) = courses(findings, given);
        let first = maps.first().map(|map| map.condition.clone());
        let (courses, other_courses) =
            maps.into_iter().partition(|map| Some(&map.condition) == first.as_ref());
        Some(Self {
            courses,
            other_courses,
            course_note,
            items: listed.map(|(placed, found)| item(findings, placed, found)).collect(),
            charts: found
                .iter()
                .take(MOST_CHARTS)
                .map(|(placed, one)| drawn(findings, placed, one, tallest(&found, placed.number)))
                .collect(),
            legend: PARTS.map(key).to_vec(),
            note: notes.join(" "),
        })
    }
}

/// Says of conditions without a sentence whether anything stands out there; `None` where all have one.
fn unlisted(findings: &Findings, found: &[(PlacedCell, &Waiting)]) -> Option<String> {
    let note = folding::listed_note(findings, "sentences on who waited")?;
    let others = found.iter().filter(|(placed, _)| placed.number >= folding::listed(findings));
    let others: Vec<&Waiting> = others.map(|(_, waiting)| *waiting).collect();
    let named = others.iter().filter(|waiting| waiting.named().is_some()).count();
    Some(format!(
        "{note} In {} of the {} median runs under the others a rank or a link stands out.",
        number_format::count(named as u64),
        number_format::count(others.len() as u64),
    ))
}

/// The maps of the runs that have timelines, and what they do not show.
fn courses(findings: &Findings, given: &Timelines) -> (Vec<course::Map>, String) {
    let mut maps = Vec::new();
    let mut without = 0;
    let mut sampled = 0;
    for (number, arm, run) in chosen_runs(&findings.study) {
        let condition = &findings.study.conditions[number];
        let cell = condition.cells.iter().find(|cell| cell.arm == arm);
        let judged = cell.and_then(|cell| cell.runs.iter().find(|judged| judged.run.id == run));
        let (Some(cell), Some(judged)) = (cell, judged) else { continue };
        if judged.attempt.ranks.iter().filter(|rank| rank.role == Role::Worker).count() < 2 {
            continue;
        }
        let shown = course::Shown { number, condition, cell, judged };
        let course = given.get(&run).and_then(|traced| traced.course.as_ref());
        match course.and_then(|course| course::map(findings, &shown, course)) {
            Some(map) => {
                maps.push(map);
                sampled += usize::from(judged.attempt.step_stride > 1);
            }
            None => without += 1,
        }
    }
    let mut notes = Vec::new();
    if sampled > 0 {
        notes.push(format!(
            "Of the steps of {}, every n-th and the slowest of each rank were kept (`measure.steps = \"all\"` keeps each).",
            number_format::plural(sampled, "run")
        ));
    }
    if without > 0 {
        notes.push(format!("{} kept no steps of several workers.", number_format::plural(without, "run")));
    }
    let all = findings.study.arm_cells().filter(|placed| !placed.cell.runs.is_empty()).count();
    let most = chosen_runs(&findings.study).len();
    if all > most {
        notes.push(format!("The first {most} of {all} combinations of arm and condition are shown."));
    }
    (maps, notes.join(" "))
}

/// Whether the arm's run was recorded before paces were kept.
fn is_old(placed: &PlacedCell) -> bool {
    let judged = placed.cell.median_run(placed.condition.measure());
    let ranks = judged.into_iter().flat_map(|judged| &judged.attempt.ranks);
    let mut workers = ranks.filter(|rank| rank.role == Role::Worker && rank.steady.steps > 0).peekable();
    placed.condition.workers > 1 && workers.peek().is_some() && workers.all(|rank| rank.pace.is_none())
}

fn item(findings: &Findings, placed: &PlacedCell, found: &Waiting) -> Item {
    let arm = findings.study.arm_name(placed.cell.arm);
    let run = placed.cell.runs[found.run].run;
    Item {
        key: Key::of_arm(placed.cell.arm, arm),
        condition: condition_title(placed.condition),
        sentence: sentence(found, arm),
        run: format!("repeat {}, seed {}", run.repeat + 1, run.seed),
        named: found.named().is_some(),
    }
}

/// The longest mean step under a condition: its charts share one scale.
fn tallest(found: &[(PlacedCell, &Waiting)], number: usize) -> f64 {
    let same = found.iter().filter(|(placed, _)| placed.number == number);
    same.flat_map(|(_, found)| &found.workers).map(Share::length).fold(0.0, f64::max)
}

fn drawn(findings: &Findings, placed: &PlacedCell, found: &Waiting, tallest: f64) -> Drawn {
    let arm = findings.study.arm_name(placed.cell.arm);
    let condition = condition_title(placed.condition);
    let unit = Unit::of_seconds(tallest);
    let area = Area { width: 500.0, height: 230.0, left: 48.0, right: 490.0, top: 26.0, bottom: 186.0 };
    let x = Scale::new(0.0..=found.workers.len() as f64, area.left..=area.right, 1.0);
    let y = Scale::new(0.0..=tallest, area.bottom..=area.top, unit.factor).rounded(4);
    let canvas = Canvas { area, x, y, unit };
    let labels = ["rank".to_owned(), String::new()];
    let frame =
        Frame { x_ticks: rank_ticks(&found.workers, &x), y_ticks: y.ticks(4), ..area.frame(&x, &y, labels) };
    let places = || found.workers.iter().enumerate();
    Drawn {
        figure: Figure {
            id: format!("heterogeneity-{}-{}", placed.number, placed.cell.arm),
            title: format!("Mean steady step of each worker: {arm}, {condition}"),
            description: sentence(found, arm),
            reading: String::new(),
            table: table(found),
        },
        key: Key::of_arm(placed.cell.arm, arm),
        condition,
        unit: unit.name.to_owned(),
        frame,
        bars: places().flat_map(|(place, share)| canvas.bars(place, share)).collect(),
        outlines: places().filter_map(|(place, share)| canvas.outline(place, share, found)).collect(),
    }
}

struct Canvas {
    area: Area,
    x: Scale,
    y: Scale,
    unit: Unit,
}

impl Canvas {
    /// Left end and width of the bar at a place, with a gap if there is space.
    fn column(&self, place: usize) -> (f64, f64) {
        let width = self.x.length(1.0);
        let gap = (width * 0.2).min(6.0);
        (self.x.at(place as f64) + gap / 2.0, width - gap)
    }

    fn bars(&self, place: usize, share: &Share) -> Vec<StepPart> {
        let (x, width) = self.column(place);
        let mut low = 0.0;
        let mut bars = Vec::new();
        for (style, hatch, name, amount) in PARTS {
            let seconds = amount(share);
            let top = self.y.at(low + seconds);
            if seconds > 0.0 {
                bars.push(StepPart {
                    style: style.to_owned(),
                    hatch: hatch.to_owned(),
                    x: coordinate(x),
                    y: coordinate(top),
                    width: coordinate(width),
                    height: coordinate(self.y.at(low) - top),
                    title: format!(
                        "rank {}, {name}: {}, {}",
                        share.rank,
                        self.unit.short(seconds),
                        number_format::percent(seconds / share.length())
                    ),
                });
            }
            low += seconds;
        }
        bars
    }

    fn outline(&self, place: usize, share: &Share, found: &Waiting) -> Option<Outline> {
        let label = marked(found, share.rank)?;
        let (x, width) = self.column(place);
        let top = self.y.at(share.length());
        let right = place * 2 >= found.workers.len();
        Some(Outline {
            x: coordinate(x - 1.5),
            y: coordinate(top - 1.5),
            width: coordinate(width + 3.0),
            height: coordinate(self.area.bottom - top + 3.0),
            label,
            label_x: coordinate(if right { x + width } else { x }),
            label_y: coordinate(top - 7.0),
            anchor: if right { "end" } else { "start" }.to_owned(),
        })
    }
}

/// The label of a rank that stands out.
fn marked(found: &Waiting, rank: Rank) -> Option<String> {
    let slow = found.slow.is_some_and(|slow| slow.rank == rank);
    let link = matches!(found.links, Links::Slow(link) if link.rank == rank);
    match (slow, link) {
        (true, true) => Some(format!("rank {rank}: slow, slow link")),
        (true, false) => Some(format!("rank {rank}: slow")),
        (false, true) => Some(format!("rank {rank}: slow link")),
        (false, false) => None,
    }
}

/// A label under each bar, or under every n-th of many bars.
fn rank_ticks(workers: &[Share], x: &Scale) -> Vec<Tick> {
    let stride = workers.len().div_ceil(16).max(1);
    let tick = |(place, share): (usize, &Share)| Tick {
        at: coordinate(x.at(place as f64 + 0.5)),
        label: share.rank.to_string(),
    };
    workers.iter().enumerate().step_by(stride).map(tick).collect()
}

fn table(found: &Waiting) -> Table {
    let mut table = Table::new([
        "rank",
        "steady steps",
        "busy",
        "exposed communication",
        "waiting",
        "step",
        "not waiting, median",
        "last",
        "made others wait",
    ]);
    let compared = found.rounds > 0;
    let dash = || "–".to_owned();
    for share in &found.workers {
        table.rows.push(vec![
            share.rank.to_string(),
            number_format::count(share.steps),
            number_format::seconds(share.busy),
            number_format::seconds(share.communicating),
            number_format::seconds(share.waiting),
            number_format::seconds(share.length()),
            number_format::seconds(share.pace.own.seconds()),
            if compared { number_format::count(share.pace.last) } else { dash() },
            if compared { number_format::seconds(share.pace.imposed.seconds()) } else { dash() },
        ]);
    }
    table.cut(256);
    table
}
