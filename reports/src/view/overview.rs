//! The picture of all conditions: times over one axis of conditions, or the winner under each pair of values of two.

use super::arm_lines::{self, ArmLines, common_measure};
use super::winner_map::{self, RowCrossing, Shared, Slice, Source, WinnerMap, about, hatch};
use crate::axes::Axes;
use crate::chart::{Key, Table};
use crate::crossing::zero;
use crate::findings::Findings;
use crate::headline::listed;
use crate::number_format;
use crate::verdict::{sure_words, whole_percent};
use crate::winner::{Lead, Winner};
use serde::Serialize;
use std::collections::BTreeSet;

/// Largest number of maps.
const MOST_MAPS: usize = 24;

/// Largest number of cells of a map: more are too small to read.
const MOST_CELLS: usize = 1_600;

/// Places of a crossing line that a sentence names; the map shows the others.
const MOST_NAMED: usize = 6;

#[derive(Debug, Serialize)]
pub(crate) struct Overview {
    pub(crate) reading: String,
    /// Arms that are ahead, and where, in sentences.
    pub(crate) answer: String,
    /// Keys of the arms' lines.
    pub(crate) legend: Vec<Key>,
    pub(crate) lines: Option<ArmLines>,
    pub(crate) areas: Vec<Area>,
    pub(crate) maps: Vec<WinnerMap>,
    /// Whether a map has a line on which two arms are equally fast.
    pub(crate) crosses: bool,
    pub(crate) note: String,
}

/// An arm in the legend of maps.
#[derive(Debug, Serialize)]
pub(crate) struct Area {
    pub(crate) key: Key,
    pub(crate) hatch: String,
}

impl Overview {
    /// `None` where the axes do not tell the conditions apart, or no arm has a time. `winners` are those of all conditions.
    pub(crate) fn of(findings: &Findings, axes: &Axes, winners: &[Option<Winner>]) -> Option<Self> {
        let source = Source { findings, axes, winners };
        if axes.ordered.len() == 1 { by_one(source) } else { by_two(source) }
    }
}

fn by_one(source: Source) -> Option<Overview> {
    let Source { findings, axes, .. } = source;
    let axis = axes.ordered.first()?;
    let ends = crossings_of_lines(source);
    let answer = [Some(tally(source)), along(source), crossing_words(source, &ends)];
    let answer = answer.into_iter().flatten().collect::<Vec<_>>().join(" ");
    let words = arm_lines::Words {
        description: answer.clone(),
        reading: String::new(),
        table: table_of_lines(source),
    };
    let lines = arm_lines::lines(findings, axes, words)?;
    let confidence = whole_percent(findings.thresholds.confidence);
    let shape = if axis.numbers().is_some() { "line" } else { "row of marks" };
    let arms: BTreeSet<usize> = findings.study.arm_cells().map(|placed| placed.cell.arm).collect();
    Some(Overview {
        reading: format!(
            "One {shape} per arm over the values of {}: lower is faster, and an upright stroke or a band is the {confidence} interval of a mean.",
            axis.name
        ),
        answer,
        legend: arms.into_iter().map(|arm| Key::of_arm(arm, findings.study.arm_name(arm))).collect(),
        lines: Some(lines),
        areas: Vec::new(),
        maps: Vec::new(),
        crosses: false,
        note: String::new(),
    })
}

fn by_two(source: Source) -> Option<Overview> {
    let Source { findings, axes, winners } = source;
    if axes.ordered[0].values.len().saturating_mul(axes.ordered[1].values.len()) > MOST_CELLS {
        return None;
    }
    let slices = slices(axes);
    let all = slices.len();
    let maps: Vec<WinnerMap> = slices
        .iter()
        .take(MOST_MAPS)
        .filter_map(|slice| winner_map::map(source, slice, all, words_of_map(source, slice)))
        .collect();
    let x = &axes.ordered[0].name;
    let y = &axes.ordered[1].name;
    let first: BTreeSet<usize> = winners.iter().flatten().map(|winner| winner.arm).collect();
    if maps.is_empty() || first.is_empty() {
        return None;
    }
    let crosses = maps.iter().any(|map| !map.crossing.is_empty());
    let line = if crosses { " On the line two arms are equally fast." } else { "" };
    let each = if all > 1 { " Each map is one value of the other axes." } else { "" };
    let crossings = match slices.as_slice() {
        [only] => source.shared(only).and_then(|shared| map_crossings(source, &shared)),
        _ => None,
    };
    let answer = [Some(tally(source)), crossings];
    Some(Overview {
        reading: format!(
            "Each cell is a condition, named by the arm that wins at its {x} and {y}: the stronger its colour, the surer the \
             verdict, and a cell without colour is undecided.{line}{each}"
        ),
        answer: answer.into_iter().flatten().collect::<Vec<_>>().join(" "),
        legend: Vec::new(),
        lines: None,
        areas: first
            .into_iter()
            .map(|arm| Area { key: Key::of_arm(arm, findings.study.arm_name(arm)), hatch: hatch(arm) })
            .collect(),
        crosses,
        maps,
        note: if all > MOST_MAPS {
            format!("The first {MOST_MAPS} of {all} maps are shown; the lines below hold every condition.")
        } else {
            String::new()
        },
    })
}

/// A map for each combination of values of the axes beyond the first two that the plan has; the last axis changes fastest.
fn slices(axes: &Axes) -> Vec<Slice> {
    let others: BTreeSet<Vec<usize>> =
        axes.places.iter().map(|places| places.iter().skip(2).copied().collect()).collect();
    others.into_iter().enumerate().map(|(number, others)| Slice { number, others }).collect()
}

/// `d-sync is ahead under 7 of 12 conditions, ps-sync under 4; 1 is undecided.`
fn tally(source: Source) -> String {
    if source.findings.rows().plan.arms.len() == 1 {
        return "With one arm there is none to be ahead of.".to_owned();
    }
    let winners = || source.winners.iter().flatten();
    let ahead =
        |arm: usize| winners().filter(|winner| winner.arm == arm && winner.standing.is_ahead()).count();
    let count = number_format::plural(source.winners.len(), "condition");
    let mut arms: Vec<(usize, usize)> = (0..source.findings.rows().plan.arms.len())
        .map(|arm| (ahead(arm), arm))
        .filter(|(count, _)| *count > 0)
        .collect();
    arms.sort_by_key(|(count, arm)| (std::cmp::Reverse(*count), *arm));
    let mut said: Vec<String> = Vec::new();
    for (place, (won, arm)) in arms.iter().enumerate() {
        let name = source.findings.study.arm_name(*arm);
        said.push(if place == 0 {
            format!("{name} is ahead under {won} of {count}")
        } else {
            format!("{name} under {won}")
        });
    }
    let even = winners().filter(|winner| winner.standing == Lead::Even).count();
    let open = winners().filter(|winner| winner.standing == Lead::Open).count();
    let none = source.winners.iter().filter(|winner| winner.is_none()).count();
    let mut rest = Vec::new();
    for (number, words) in [(open, "undecided"), (even, "even"), (none, "without a winner")] {
        if number > 0 {
            rest.push(format!("{number} {} {words}", if number == 1 { "is" } else { "are" }));
        }
    }
    if said.is_empty() {
        said.push(format!("No arm is known to be ahead under any of {count}"));
    }
    let rest = if rest.is_empty() { String::new() } else { format!("; {}", listed(&rest)) };
    format!("{}{rest}.", listed(&said))
}

/// Who is ahead from where to where on one axis.
fn along(source: Source) -> Option<String> {
    let axis = source.axes.ordered.first()?;
    let mut stretches: Vec<(Option<usize>, usize, usize)> = Vec::new();
    for place in 0..axis.values.len() {
        let condition = source.axes.condition_at(&[place])?;
        let winner = source.winners[condition].as_ref().filter(|winner| winner.standing.is_ahead());
        let arm = winner.map(|winner| winner.arm);
        match stretches.last_mut() {
            Some((same, _, last)) if *same == arm => *last = place,
            _ => stretches.push((arm, place, place)),
        }
    }
    if stretches.len() < 2 || stretches.len() > MOST_NAMED {
        return None;
    }
    let text = |place: usize| axis.values[place].text.as_str();
    let words = stretches.iter().enumerate().map(|(number, (arm, from, to))| {
        let who = arm.map_or("no arm is known to be ahead".to_owned(), |arm| {
            format!("{} is ahead", source.findings.study.arm_name(arm))
        });
        let range =
            if from == to { text(*from).to_owned() } else { format!("{} to {}", text(*from), text(*to)) };
        if number == 0 { format!("At {}={range} {who}", axis.name) } else { format!("at {range} {who}") }
    });
    Some(format!("{}.", words.collect::<Vec<_>>().join(", ")))
}

/// Where the two arms that are first somewhere on one axis are equally fast.
fn crossings_of_lines(source: Source) -> Vec<f64> {
    let Some(axis) = source.axes.ordered.first().filter(|axis| axis.numbers().is_some()) else {
        return Vec::new();
    };
    let first: BTreeSet<usize> = source.winners.iter().flatten().map(|winner| winner.arm).collect();
    // Of arms none of which is ahead anywhere, chance decides which is first where.
    if !source.winners.iter().flatten().any(|winner| winner.standing.is_ahead()) {
        return Vec::new();
    }
    let Ok(arms) = <[usize; 2]>::try_from(first.into_iter().collect::<Vec<_>>()) else { return Vec::new() };
    let ratio = |place: usize| {
        let condition = source.axes.condition_at(&[place])?;
        let [first, second] = arms.map(|arm| winner_map::log_ratio(source.findings, condition, arm));
        Some(first? - second?)
    };
    (0..axis.values.len().saturating_sub(1))
        .filter_map(|place| axis.number_at(place as f64 + zero(ratio(place)?, ratio(place + 1)?)?))
        .collect()
}

fn crossing_words(source: Source, at: &[f64]) -> Option<String> {
    if at.is_empty() || at.len() > MOST_NAMED {
        return None;
    }
    let axis = &source.axes.ordered[0];
    let places: Vec<String> = at.iter().map(|number| about(axis, *number)).collect();
    let first: BTreeSet<usize> = source.winners.iter().flatten().map(|winner| winner.arm).collect();
    let names: Vec<&str> = first.into_iter().map(|arm| source.findings.study.arm_name(arm)).collect();
    Some(format!("{} are equally fast at about {}={}.", listed(&names), axis.name, listed(&places)))
}

/// Where two arms are equally fast, for the rows of a map.
fn map_crossings(source: Source, shared: &Shared) -> Option<String> {
    let [x, y] = [0, 1].map(|axis| &source.axes.ordered[axis]);
    let rows: Vec<RowCrossing> = source.crossings(shared);
    let said: Vec<String> = rows
        .iter()
        .filter(|row| !row.numbers.is_empty())
        .map(|row| {
            let places: Vec<String> = row.numbers.iter().map(|number| about(x, *number)).collect();
            format!("{} at {}={}", listed(&places), y.name, y.values[row.row].text)
        })
        .collect();
    if said.is_empty() || said.len() > MOST_NAMED {
        return None;
    }
    let names = shared.arms.map(|arm| source.findings.study.arm_name(arm));
    Some(format!("{} are equally fast at about {}={}.", listed(&names), x.name, listed(&said)))
}

/// The finding of one map.
fn words_of_map(source: Source, slice: &Slice) -> String {
    let crossings = source.shared(slice).and_then(|shared| map_crossings(source, &shared));
    let arms: Vec<String> = source
        .won_on(slice)
        .into_iter()
        .map(|(arm, won)| {
            format!(
                "{} is ahead in {}",
                source.findings.study.arm_name(arm),
                number_format::plural(won, "cell")
            )
        })
        .collect();
    let won = if arms.is_empty() {
        "No arm is known to be ahead.".to_owned()
    } else {
        format!("{}.", listed(&arms))
    };
    [Some(won), crossings].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn table_of_lines(source: Source) -> Table {
    let axis = &source.axes.ordered[0].name;
    let mut table = Table::new([axis.as_str(), "arm", "time", "low", "high", "runs", "standing", "sure"]);
    let measure = common_measure(source.findings);
    for place in 0..source.axes.ordered[0].values.len() {
        let Some(condition) = source.axes.condition_at(&[place]) else { continue };
        let winner = source.winners[condition].as_ref();
        let condition = &source.findings.study.conditions[condition];
        for cell in &condition.cells {
            let time = condition.time(cell, measure, source.findings.thresholds.confidence);
            let dash = || "–".to_owned();
            let first = winner.filter(|winner| winner.arm == cell.arm);
            let standing = first.map_or(String::new(), |winner| winner.standing.name().to_owned());
            table.rows.push(vec![
                source.axes.ordered[0].values[place].text.clone(),
                source.findings.study.arm_name(cell.arm).to_owned(),
                time.map_or_else(dash, |time| number_format::seconds(time.value)),
                time.and_then(|time| time.interval).map_or_else(dash, |(low, _)| number_format::seconds(low)),
                time.and_then(|time| time.interval)
                    .map_or_else(dash, |(_, high)| number_format::seconds(high)),
                cell.runs.len().to_string(),
                standing,
                first.and_then(|winner| winner.sure).map_or_else(String::new, sure_words),
            ]);
        }
    }
    source.findings.sheet.cut(&mut table, 200);
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::sample::{GridAxis, Sample, on_grid};
    use crate::winner::winners;
    use store::SweepRows;

    const WORKERS: [f64; 5] = [2.0, 3.0, 6.0, 12.0, 24.0];
    const PARAMETERS: [f64; 6] = [1e4, 1e5, 4e5, 1e6, 4e6, 1e7];

    /// Seconds of a step: of a parameter server, which takes each worker's weights in turn, and of an all-reduce, which takes
    /// a round per worker.
    fn truth(arm: usize, workers: f64, parameters: f64) -> f64 {
        if arm == 0 {
            4e-3 + 3e-10 * workers * parameters
        } else {
            6e-3 + 1e-4 * workers + 1e-10 * parameters
        }
    }

    fn rows() -> SweepRows {
        let one = Sample { repeats: 4, epochs: (1, 2), target: None, ..Sample::duel() }.rows();
        let axes = [GridAxis::new("nodes.workers", &WORKERS), GridAxis::new("model.parameters", &PARAMETERS)];
        on_grid(&one, &axes, |arm, at| truth(arm, at[0], at[1]))
    }

    #[test]
    fn the_map_shows_the_true_winners_and_the_line_lies_between_them() {
        let rows = rows();
        let findings = Findings::of(&rows, &Options::default()).unwrap();
        let axes = Axes::of(&findings.study).unwrap();
        let winners = winners(&findings);
        let source = Source { findings: &findings, axes: &axes, winners: &winners };
        assert_eq!((axes.ordered[0].name.as_str(), axes.ordered[1].name.as_str()), ("parameters", "workers"));
        let mut decided = 0;
        for (row, workers) in WORKERS.into_iter().enumerate() {
            for (column, parameters) in PARAMETERS.into_iter().enumerate() {
                let [server, reduce] = [0, 1].map(|arm| truth(arm, workers, parameters));
                let margin = server.max(reduce) / server.min(reduce);
                if margin < 1.1 {
                    continue;
                }
                let winner = winners[axes.condition_at(&[column, row]).unwrap()].as_ref().unwrap();
                assert_eq!(winner.arm, usize::from(reduce < server), "{workers} {parameters}");
                assert_eq!(winner.standing, Lead::Ahead, "{workers} {parameters}");
                assert!(winner.sure.unwrap() > 0.95, "{workers} {parameters}");
                decided += 1;
            }
        }
        assert!(decided > 20, "{decided} cells");
        let slice = Slice { number: 0, others: Vec::new() };
        let crossings = source.crossings(&source.shared(&slice).unwrap());
        let mut crossed = 0;
        for (row, workers) in WORKERS.into_iter().enumerate() {
            // Where both formulas are equal: 2e-3 + 1e-4 n + 1e-10 p = 3e-10 n p.
            let equal = (2e-3 + 1e-4 * workers) / (3e-10 * workers - 1e-10);
            let right = PARAMETERS.iter().position(|parameters| *parameters > equal).unwrap();
            let low = PARAMETERS[right - 1];
            let high = PARAMETERS[right];
            let found = &crossings[row].numbers;
            // On either side of a condition that is as good as even, jitter decides.
            let sure = [low, high]
                .iter()
                .all(|at| (truth(0, workers, *at) / truth(1, workers, *at)).ln().abs() > 0.03);
            if sure {
                assert!(found.len() == 1 && (low..high).contains(&found[0]), "{workers}: {found:?}, {equal}");
                crossed += 1;
            }
        }
        assert!(crossed >= 4, "{crossed} rows");
        let overview = Overview::of(&findings, &axes, &winners).unwrap();
        assert!(overview.answer.contains("is ahead under"), "{}", overview.answer);
        assert!(overview.answer.contains("are equally fast at about parameters="), "{}", overview.answer);
        assert!(overview.crosses && overview.maps.len() == 1 && overview.maps[0].cells.len() == 30);
    }

    #[test]
    fn three_axes_are_a_map_for_each_value_of_the_shortest() {
        let one = Sample { repeats: 2, epochs: (1, 1), target: None, ..Sample::duel() }.rows();
        let axes = [
            GridAxis::new("nodes.workers", &[2.0, 4.0]),
            GridAxis::new("model.parameters", &[1e4, 1e6, 1e8]),
            GridAxis::new("train.optimizer.lr", &[0.1, 0.2, 0.3, 0.4]),
        ];
        let rows = on_grid(&one, &axes, |arm, at| truth(arm, at[0], at[1]));
        let findings = Findings::of(&rows, &Options::default()).unwrap();
        let overview =
            Overview::of(&findings, &Axes::of(&findings.study).unwrap(), &winners(&findings)).unwrap();
        let names: Vec<&str> = overview.maps.iter().map(|map| map.name.as_str()).collect();
        assert_eq!(names, ["workers=2", "workers=4"]);
        assert!(overview.maps.iter().all(|map| map.cells.len() == 12));
        assert_eq!(overview.maps[0].x_label, "lr");
    }

    #[test]
    fn one_axis_is_a_line_per_arm_and_says_where_they_cross() {
        let one = Sample { repeats: 4, epochs: (1, 2), target: None, ..Sample::duel() }.rows();
        let axis = GridAxis::new("model.parameters", &[1e5, 1e6, 1e7, 1e8]);
        let rows = on_grid(&one, &[axis], |arm, at| truth(arm, 4.0, at[0]));
        let findings = Findings::of(&rows, &Options::default()).unwrap();
        let overview =
            Overview::of(&findings, &Axes::of(&findings.study).unwrap(), &winners(&findings)).unwrap();
        let lines = overview.lines.unwrap();
        assert_eq!(lines.lines.len(), 2);
        assert!(lines.lines.iter().all(|line| line.marks.len() == 4 && !line.line.is_empty()));
        let labels: Vec<&str> = lines.frame.x_ticks.iter().map(|tick| tick.label.as_str()).collect();
        assert_eq!(labels, ["100000", "1000000", "10000000", "100000000"]);
        for words in
            ["At parameters=100000 to 1000000 ps-sync is ahead", "at 10000000 to 100000000 d-sync is ahead"]
        {
            let found = overview.answer.contains(words);
            assert!(found, "{}", overview.answer);
        }
    }
}
