//! How each arm found its settings: what every setting came to in each rung, and which went on.

use crate::chart::{Area, Figure, Frame, Key, Path, Scale, Table, Tick, arm_style, coordinate, marker};
use crate::findings::Findings;
use crate::number_format::{self, Unit};
use crate::search::{Group, setting};
use crate::verdict::{metric_words, value_words};
use recipe::{Metric, Plan, Trial};
use serde::Serialize;
use store::SweepRows;

/// More searches have no chart of their own; the table has them all.
const MOST_CHARTS: usize = 12;

/// The section.
#[derive(Debug, Serialize)]
pub(crate) struct Section {
    pub(crate) reading: String,
    /// What settings are chosen by.
    pub(crate) metric: String,
    /// What speaks against the choices, a sentence each.
    pub(crate) cautions: Vec<String>,
    pub(crate) has_conditions: bool,
    pub(crate) chosen: Vec<Chosen>,
    pub(crate) legend: Vec<Key>,
    pub(crate) charts: Vec<Chart>,
}

/// What an arm has chosen under a condition.
#[derive(Debug, Serialize)]
pub(crate) struct Chosen {
    pub(crate) key: Key,
    pub(crate) condition: String,
    /// Empty while it is not known.
    pub(crate) setting: String,
    pub(crate) score: String,
    pub(crate) tried: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct Chart {
    pub(crate) figure: Figure,
    pub(crate) name: String,
    pub(crate) frame: Frame,
    pub(crate) style: String,
    pub(crate) lines: Vec<Line>,
}

/// A setting.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    /// Whether it is the one that trained to the end.
    pub(crate) chosen: bool,
    pub(crate) path: String,
    pub(crate) marks: Vec<Mark>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Mark {
    pub(crate) shape: String,
    pub(crate) title: String,
}

impl Section {
    /// `None` where the sweep searches for nothing.
    pub(crate) fn of(findings: &Findings) -> Option<Self> {
        let rows = findings.rows();
        let search = rows.plan.search.as_ref()?;
        let groups = Group::all(rows, search);
        let metric = groups.first()?.metric;
        let drawn = groups.iter().take(MOST_CHARTS).enumerate();
        let charts = drawn.filter_map(|(number, group)| chart(findings, number, group)).collect();
        let mut legend: Vec<Key> = Vec::new();
        for group in &groups {
            let key = Key::of_arm(group.cell().arm, findings.study.arm_name(group.cell().arm));
            if !legend.iter().any(|other| other.style == key.style && other.name == key.name) {
                legend.push(key);
            }
        }
        Some(Self {
            reading: reading(&rows.plan, metric),
            metric: metric_words(metric),
            cautions: cautions(findings, &groups),
            has_conditions: groups.iter().any(|group| !group.condition().is_empty()),
            chosen: groups.iter().map(|group| chosen(findings, group)).collect(),
            legend,
            charts,
        })
    }
}

fn reading(plan: &Plan, metric: Metric) -> String {
    let lengths: Vec<String> = plan
        .search
        .iter()
        .flat_map(|search| search.trials.first())
        .flat_map(|trial| {
            trial
                .rungs
                .iter()
                .chain([&trial.cell])
                .map(|cell| plan.cells[*cell].spec.train.length.to_string())
                .collect::<Vec<_>>()
        })
        .collect();
    let factor = plan.search.as_ref().map_or(0, |search| search.factor);
    format!(
        "Each arm chose its own settings by successive halving: all of them trained for a short time, one in {factor} went on, for {factor} times as \
         long and from the start ({}), by the {} at the end of the run. The best one alone trained to the end, with other seeds, and is what the page \
         compares. Each arm had the same number of settings, rungs and steps. A line is a setting; where it ends, it was given up.",
        lengths.join(", "),
        metric_words(metric)
    )
}

fn chosen(findings: &Findings, group: &Group) -> Chosen {
    let cell = group.cell();
    let rungs = group.rungs();
    let last = group.survivors(rungs).first().copied();
    let score = last.and_then(|trial| group.score_of(trial, rungs - 1));
    Chosen {
        key: Key::of_arm(cell.arm, findings.study.arm_name(cell.arm)),
        condition: group.condition().to_owned(),
        setting: last.map(setting).unwrap_or_default(),
        score: score.map_or_else(|| "–".to_owned(), |score| value_words(group.metric, score)),
        tried: group.trials.len().to_string(),
    }
}

/// What speaks against taking the arms for equally well tuned.
fn cautions(findings: &Findings, groups: &[Group]) -> Vec<String> {
    let mut said = Vec::new();
    let unequal = |one: &Group, other: &Group| {
        one.condition() == other.condition() && one.trials.len() != other.trials.len()
    };
    if groups.iter().any(|one| groups.iter().any(|other| unequal(one, other))) {
        said.push("Not all arms had the same number of settings: more of them find a better one.".to_owned());
    }
    for group in groups {
        let Some(last) = group.survivors(group.rungs()).first().copied() else {
            if group.is_over(findings.rows()) {
                let name = findings.study.arm_name(group.cell().arm);
                said.push(format!("No setting of {name} was left: each diverged or failed in a rung."));
            }
            continue;
        };
        for value in &last.setting {
            if let Some(side) = edge(value, group) {
                let name = findings.study.arm_name(group.cell().arm);
                let place = if group.condition().is_empty() {
                    String::new()
                } else {
                    format!(" at {}", group.condition())
                };
                said.push(format!(
                    "The best {} of {name}{place} is the {side} that was tried with it: beyond it may lie a better one.",
                    value.short()
                ));
            }
        }
    }
    said
}

/// Whether a value is the smallest or the largest that was tried.
fn edge(value: &recipe::AxisValue, group: &Group) -> Option<&'static str> {
    let own = value.number?;
    let all = group.trials.iter().flat_map(|trial| &trial.setting).filter(|other| other.path == value.path);
    let numbers: Vec<f64> = all.map(|other| other.number).collect::<Option<_>>()?;
    let least = numbers.iter().copied().fold(own, f64::min);
    let most = numbers.iter().copied().fold(own, f64::max);
    match (own <= least, own >= most) {
        (true, false) => Some("smallest"),
        (false, true) => Some("largest"),
        (true, true) | (false, false) => None,
    }
}

/// The metric of a trial in each rung, as far as it went, and at the end.
fn values(rows: &SweepRows, group: &Group, trial: &Trial) -> Vec<f64> {
    let rungs = (0..group.rungs()).map_while(|rung| group.score_of(trial, rung));
    let mut values: Vec<f64> = rungs.collect();
    if values.len() == group.rungs() as usize {
        values.extend(group.final_score(rows, trial));
    }
    values
}

/// `None` if no run of the search has ended.
fn chart(findings: &Findings, number: usize, group: &Group) -> Option<Chart> {
    let rows = findings.rows();
    let each: Vec<Vec<f64>> = group.trials.iter().map(|trial| values(rows, group, trial)).collect();
    let all = || each.iter().flatten().copied();
    let (low, high) = (all().reduce(f64::min)?, all().reduce(f64::max)?);
    let area = Area { width: 500.0, height: 320.0, left: 58.0, right: 488.0, top: 28.0, bottom: 276.0 };
    let unit = Unit::of_metric(group.metric);
    let margin = ((high - low) * 0.08).max(high.abs() * 1e-3);
    let y = Scale::new(low - margin..=high + margin, area.bottom..=area.top, unit.factor);
    let x = Scale::new(0.0..=f64::from(group.rungs()), area.left + 24.0..=area.right - 40.0, 1.0);
    let metric = metric_words(group.metric);
    let y_words = if unit.name.is_empty() { metric.clone() } else { format!("{metric} ({})", unit.name) };
    let mut frame = area.frame(&x, &y, ["trained for".to_owned(), y_words]);
    let lengths = group.lengths();
    let tick =
        |(place, label): (usize, &String)| Tick { at: coordinate(x.at(place as f64)), label: label.clone() };
    frame.x_ticks = lengths.iter().enumerate().map(tick).collect();
    let cell = group.cell();
    let last = group.survivors(group.rungs()).first().copied();
    let line = |(trial, values): (&&Trial, &Vec<f64>)| {
        let at = |(place, value): (usize, &f64)| (x.at(place as f64), y.at(*value));
        let mark = |(place, value): (usize, &f64)| {
            let (across, up) = at((place, value));
            Mark {
                shape: marker(cell.arm, across, up, 4.0),
                title: format!("{}: {} after {}", setting(trial), unit.short(*value), lengths[place]),
            }
        };
        Line {
            chosen: last == Some(*trial),
            path: Path::through(values.iter().enumerate().map(at)).finish(),
            marks: values.iter().enumerate().map(mark).collect(),
        }
    };
    let arm = findings.study.arm_name(cell.arm);
    let name =
        if group.condition().is_empty() { arm.to_owned() } else { format!("{arm}, {}", group.condition()) };
    Some(Chart {
        figure: Figure {
            id: format!("search-{number}"),
            title: format!("Search of {name}"),
            description: match last {
                Some(trial) => format!(
                    "Of {}, {} was the best.",
                    number_format::plural(group.trials.len(), "setting"),
                    setting(trial)
                ),
                None => format!("{} are being tried.", number_format::plural(group.trials.len(), "setting")),
            },
            reading: String::new(),
            table: table(group, &each, &lengths, unit),
        },
        name,
        frame,
        style: arm_style(cell.arm),
        lines: group.trials.iter().zip(&each).map(line).collect(),
    })
}

fn table(group: &Group, each: &[Vec<f64>], lengths: &[String], unit: Unit) -> Table {
    let mut table = Table::new(["setting"]);
    table.columns.extend(lengths.iter().map(|length| format!("after {length}")));
    for (trial, values) in group.trials.iter().zip(each) {
        let text =
            |place: usize| values.get(place).map_or_else(|| "–".to_owned(), |value| unit.short(*value));
        table.rows.push([setting(trial)].into_iter().chain((0..lengths.len()).map(text)).collect());
    }
    table.cut(200);
    table
}
