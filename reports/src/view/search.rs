//! How each arm found its settings: what every setting came to in each rung, and which went on.

use crate::chart::{
    Area, Figure, Frame, Key, Path, Scale, Sheet, Table, Tick, arm_style, coordinate, marker,
};
use crate::findings::Findings;
use crate::number_format::{self, Unit};
use crate::search::{Group, Outcome};
use crate::tuned::{edge, setting_words};
use crate::verdict::{metric_words, value_words};
use recipe::{AxisValue, Plan, Trial};
use serde::Serialize;
use std::collections::BTreeMap;

/// More searches have no chart of their own; the table has them all.
const MOST_CHARTS: usize = 12;

/// Rows of a table on the page.
const MOST_ROWS: usize = 200;

#[derive(Debug, Serialize)]
pub(crate) struct Section {
    pub(crate) reading: String,
    /// Metric that settings are chosen by.
    pub(crate) metric: String,
    /// Doubts about the choices, a sentence each.
    pub(crate) cautions: Vec<String>,
    pub(crate) has_conditions: bool,
    pub(crate) chosen: Vec<Chosen>,
    pub(crate) legend: Vec<Key>,
    pub(crate) charts: Vec<Chart>,
}

/// Setting that an arm has chosen under a condition.
#[derive(Debug, Serialize)]
pub(crate) struct Chosen {
    pub(crate) key: Key,
    pub(crate) condition: String,
    /// Setting in words, or why there is none.
    pub(crate) setting: String,
    pub(crate) score: String,
    pub(crate) tried: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct Chart {
    pub(crate) figure: Figure,
    pub(crate) arm: String,
    pub(crate) name: String,
    pub(crate) frame: Frame,
    pub(crate) style: String,
    pub(crate) lines: Vec<Line>,
}

/// Line of one setting over the rungs.
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
        let values = |group: &Group| -> Vec<Vec<f64>> {
            group.trials.iter().map(|trial| values(group, trial)).collect()
        };
        // A figure has no table of choices beside it.
        let most = if findings.sheet == Sheet::Page { MOST_CHARTS } else { groups.len() };
        let drawn: Vec<Drawn> =
            groups.iter().take(most).map(|group| Drawn { group, each: values(group) }).collect();
        let charts = match range(&drawn) {
            Some(range) => {
                let chart = |(number, drawn): (usize, &Drawn)| chart(findings, number, drawn, range);
                drawn.iter().enumerate().filter_map(chart).collect()
            }
            None => Vec::new(),
        };
        let mut legend: Vec<Key> = Vec::new();
        for group in &groups {
            let key = Key::of_arm(group.cell().arm, findings.study.arm_name(group.cell().arm));
            if !legend.iter().any(|other| other.style == key.style && other.name == key.name) {
                legend.push(key);
            }
        }
        Some(Self {
            reading: reading(&rows.plan, &groups),
            metric: metric_words(metric),
            cautions: cautions(findings, &groups),
            has_conditions: groups.iter().any(|group| !group.condition().is_empty()),
            chosen: groups.iter().map(|group| chosen(findings, group)).collect(),
            legend,
            charts,
        })
    }
}

fn reading(plan: &Plan, groups: &[Group]) -> String {
    let Some((search, first)) = plan.search.as_ref().zip(groups.first()) else { return String::new() };
    let sizes = search.sizes(first.trials.len());
    let alike = groups.iter().all(|group| group.trials.len() == first.trials.len());
    let rungs = sizes.iter().zip(search.parts()).map(|(size, part)| match part {
        1 => format!("{size} to the end"),
        part => format!("{size} for 1/{part} of the length"),
    });
    let (budget, numbers) = if alike {
        let rungs: Vec<String> = rungs.collect();
        (" Each arm had the same number of settings and rungs.", format!(" ({})", rungs.join(", ")))
    } else {
        ("", String::new())
    };
    let scale = if groups.len() > 1 { " All charts have one scale." } else { "" };
    format!(
        "Each arm chose its own settings by successive halving: all of them trained for a short time, and fewer and fewer for longer, each time \
         from the start{numbers}, by the {} at the end of the run. The best one alone trained to the end, with other seeds, and is what the page \
         compares.{budget} Milestones later than a rung did not happen in it, and a cosine fell over its own length. A line is a setting; where it ends, \
         it was given up.{scale}",
        metric_words(first.metric)
    )
}

fn chosen(findings: &Findings, group: &Group) -> Chosen {
    let cell = group.cell();
    let rungs = group.rungs();
    let (last, words) = match group.outcome() {
        Outcome::Chosen(trial) => (Some(trial), setting_words(&trial.setting)),
        Outcome::NoneLeft => (None, "none was left".to_owned()),
        Outcome::UnderWay => (None, "not known yet".to_owned()),
        Outcome::NotSelected => (None, "not in this selection".to_owned()),
    };
    let score = last.and_then(|trial| group.score_of(trial, rungs - 1));
    Chosen {
        key: Key::of_arm(cell.arm, findings.study.arm_name(cell.arm)),
        condition: group.condition().to_owned(),
        setting: words,
        score: score.map_or_else(|| "–".to_owned(), |score| value_words(group.metric, score)),
        tried: group.trials.len().to_string(),
    }
}

/// Reasons not to take the arms for equally well tuned.
fn cautions(findings: &Findings, groups: &[Group]) -> Vec<String> {
    let mut said = Vec::new();
    let unequal = |one: &Group, other: &Group| {
        one.condition() == other.condition() && one.trials.len() != other.trials.len()
    };
    if groups.iter().any(|one| groups.iter().any(|other| unequal(one, other))) {
        said.push("Not all arms had the same number of settings: more of them find a better one.".to_owned());
    }
    for group in groups {
        let failed: Vec<String> = (0..group.rungs()).flat_map(|rung| group.failed(rung)).collect();
        if !failed.is_empty() {
            let place = if group.condition().is_empty() {
                String::new()
            } else {
                format!(" at {}", group.condition())
            };
            said.push(format!(
                "{} gave up {}{place} because a run failed, not because of what it came to; with `limits.retries` it is made again.",
                findings.study.arm_name(group.cell().arm),
                failed.join(", ")
            ));
        }
    }
    let mut at_edge: BTreeMap<(&str, String, &str), usize> = BTreeMap::new();
    let mut tied = 0;
    for group in groups {
        let name = findings.study.arm_name(group.cell().arm);
        let last = match group.outcome() {
            Outcome::Chosen(last) => last,
            Outcome::NoneLeft => {
                said.push(format!("No setting of {name} was left: in a rung none ended as planned."));
                continue;
            }
            Outcome::UnderWay | Outcome::NotSelected => continue,
        };
        tied += usize::from(group.ties(last) > 0);
        let all: Vec<Vec<AxisValue>> = group.trials.iter().map(|trial| trial.setting.clone()).collect();
        for (axis, side) in last.setting.iter().filter_map(|value| edge(value, &all)) {
            *at_edge.entry((name, axis, side)).or_default() += 1;
        }
    }
    match (tied, groups.len()) {
        (0, _) => {}
        (_, 1) => said.push("The chosen setting was not better than another in the last rung.".to_owned()),
        (tied, all) => said.push(format!(
            "In {tied} of {all} searches the chosen setting was not better than another in the last rung."
        )),
    }
    let several = groups.iter().any(|group| group.condition() != groups[0].condition());
    said.extend(at_edge.into_iter().map(|((name, axis, side), count)| {
        let place = if several {
            format!(" under {}", number_format::plural(count, "condition"))
        } else {
            String::new()
        };
        format!(
            "The best {axis} of {name} is the {side} that was tried{place}: beyond it may lie a better one."
        )
    }));
    said
}

/// The metric of a trial in each rung, as far as it went, and at the end.
fn values(group: &Group, trial: &Trial) -> Vec<f64> {
    let rungs = (0..group.rungs()).map_while(|rung| group.score_of(trial, rung));
    let mut values: Vec<f64> = rungs.collect();
    if values.len() == group.rungs() as usize {
        values.extend(group.final_score(trial));
    }
    values
}

/// A search with the values of each of its settings.
struct Drawn<'a> {
    group: &'a Group<'a>,
    each: Vec<Vec<f64>>,
}

/// The least and the largest value of all charts, which have one scale so that arms can be compared; `None` if no run has ended.
fn range(drawn: &[Drawn]) -> Option<[f64; 2]> {
    let all = || drawn.iter().flat_map(|drawn| &drawn.each).flatten().copied();
    Some([all().reduce(f64::min)?, all().reduce(f64::max)?])
}

/// Outcome of a search in words, for the description of its chart.
fn outcome_words(group: &Group, outcome: Outcome) -> String {
    let settings = number_format::plural(group.trials.len(), "setting");
    match outcome {
        Outcome::Chosen(trial) => {
            let chosen = setting_words(&trial.setting);
            match group.ties(trial) {
                0 => format!("Of {settings}, {chosen} was the best."),
                1 => format!("Of {settings}, {chosen} was chosen; another one was as good."),
                more => format!("Of {settings}, {chosen} was chosen; {more} others were as good."),
            }
        }
        Outcome::NoneLeft => format!("None of {settings} was left."),
        Outcome::UnderWay | Outcome::NotSelected => format!("Of {settings}, the best is not known yet."),
    }
}

/// `None` if no run of the search has ended.
fn chart(findings: &Findings, number: usize, drawn: &Drawn, range: [f64; 2]) -> Option<Chart> {
    let Drawn { group, each } = drawn;
    let [low, high] = range;
    each.iter().flatten().next()?;
    let page = Area { width: 500.0, height: 320.0, left: 58.0, right: 488.0, top: 28.0, bottom: 276.0 };
    let area = findings.sheet.small(page);
    let unit = Unit::of_metric(group.metric);
    let margin = ((high - low) * 0.08).max(high.abs() * 1e-3);
    let y = Scale::new(low - margin..=high + margin, area.bottom..=area.top, unit.factor);
    let x = Scale::new(0.0..=f64::from(group.rungs()), area.left + 24.0..=area.right - 40.0, 1.0);
    let metric = metric_words(group.metric);
    let y_words = if unit.name.is_empty() { metric.clone() } else { format!("{metric} ({})", unit.name) };
    let lengths = group.lengths();
    let (x_words, labels) = match findings.sheet {
        Sheet::Page => ("trained for".to_owned(), lengths.clone()),
        Sheet::Figure { .. } => unit_apart(&lengths),
    };
    let mut frame = area.frame(&x, &y, [x_words, y_words]);
    let tick =
        |(place, label): (usize, &String)| Tick { at: coordinate(x.at(place as f64)), label: label.clone() };
    frame.x_ticks = labels.iter().enumerate().map(tick).collect();
    let cell = group.cell();
    let outcome = group.outcome();
    let line = |(trial, values): (&&Trial, &Vec<f64>)| {
        let at = |(place, value): (usize, &f64)| (x.at(place as f64), y.at(*value));
        let mark = |(place, value): (usize, &f64)| {
            let (across, up) = at((place, value));
            Mark {
                shape: marker(cell.arm, across, up, 4.0),
                title: format!(
                    "{}: {} after {}",
                    setting_words(&trial.setting),
                    unit.short(*value),
                    lengths[place]
                ),
            }
        };
        Line {
            chosen: outcome == Outcome::Chosen(trial),
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
            description: outcome_words(group, outcome),
            reading: String::new(),
            table: table(findings, drawn, &lengths, unit),
        },
        arm: arm.to_owned(),
        name,
        frame,
        style: arm_style(cell.arm),
        lines: group.trials.iter().zip(each).map(line).collect(),
    })
}

/// The words of the axis with the unit of all lengths, which then stand without theirs: a figure has less room.
fn unit_apart(lengths: &[String]) -> (String, Vec<String>) {
    let split =
        |length: &String| length.split_once(' ').map(|(number, unit)| (number.to_owned(), unit.to_owned()));
    let parts: Option<Vec<(String, String)>> = lengths.iter().map(split).collect();
    let parts = parts.unwrap_or_default();
    let unit = |part: &(String, String)| part.1.trim_end_matches('s').to_owned();
    match parts.first() {
        Some(first) if parts.iter().all(|part| unit(part) == unit(first)) => {
            let words = format!("trained for ({}s)", unit(first));
            (words, parts.into_iter().map(|(number, _)| number).collect())
        }
        _ => ("trained for".to_owned(), lengths.to_vec()),
    }
}

fn table(findings: &Findings, drawn: &Drawn, lengths: &[String], unit: Unit) -> Table {
    let Drawn { group, each } = drawn;
    let mut table = Table::new(["setting"]);
    table.columns.extend(lengths.iter().map(|length| format!("after {length}")));
    for (trial, values) in group.trials.iter().zip(each) {
        let text = |place: usize| match values.get(place) {
            Some(value) => unit.short(*value),
            None => group.state_of(trial, place as u32).unwrap_or("–").to_owned(),
        };
        table
            .rows
            .push([setting_words(&trial.setting)].into_iter().chain((0..lengths.len()).map(text)).collect());
    }
    findings.sheet.cut(&mut table, MOST_ROWS);
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::sample::decided;

    #[test]
    fn a_setting_whose_run_failed_is_named() {
        let mut rows = decided(&[0.1, 0.2, 0.4], 2, |_, rate, _| 0.9 - (rate - 0.2).abs() / 20.0);
        let failed = rows.plan.search.as_ref().unwrap().trials[0].rungs[0];
        rows.runs.iter_mut().find(|run| run.cell == failed).unwrap().state = store::RunState::Failed;
        let section = Section::of(&Findings::of(&rows, &Options::default()).unwrap()).unwrap();
        let told = "gave up lr=0.1 because a run failed, not because of what it came to; with `limits.retries` it is made again.";
        assert!(section.cautions[0].ends_with(told), "{:?}", section.cautions);
    }

    /// The second arm is ten points worse, and its chart shows it.
    #[test]
    fn all_charts_have_one_scale() {
        let rows = decided(&[0.1, 0.2, 0.4], 2, |arm, rate, rung| {
            0.9 - 0.1 * arm as f64 - (rate - 0.2).abs() / 20.0 + f64::from(rung) / 50.0
        });
        let section = Section::of(&Findings::of(&rows, &Options::default()).unwrap()).unwrap();
        let ticks = |chart: &Chart| -> Vec<String> {
            chart.frame.y_ticks.iter().map(|tick| format!("{} at {}", tick.label, tick.at)).collect()
        };
        assert_eq!(section.charts.len(), 2);
        assert_eq!(ticks(&section.charts[0]), ticks(&section.charts[1]));
        assert!(
            section.reading.ends_with("it was given up. All charts have one scale."),
            "{}",
            section.reading
        );
    }
}
