//! Costs of reaching the target: in time of machines, in time of ranks, in money.

mod words;

use super::condition_title;
use crate::chart::{Key, Sheet, Table};
use crate::cost::{Bill, Costs};
use crate::findings::Findings;
use crate::number_format;
use crate::scoreboard::TextCell;
use comparison::study::{ArmCell, Condition, Resource};
use serde::Serialize;
use words::Words;

/// Rows on the page.
const MOST_ROWS: usize = 200;

#[derive(Debug, Serialize)]
pub(crate) struct Section {
    pub(crate) reading: String,
    /// Which arm is the soonest and which the cheapest: a sentence for each condition, or for those in which they differ.
    pub(crate) said: Vec<String>,
    pub(crate) has_conditions: bool,
    pub(crate) columns: Vec<Heading>,
    pub(crate) rows: Vec<Row>,
    pub(crate) notes: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Heading {
    pub(crate) name: String,
    pub(crate) meaning: &'static str,
}

/// An arm under a condition.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) key: Key,
    pub(crate) condition: String,
    pub(crate) baseline: bool,
    pub(crate) cells: Vec<Amount>,
    pub(crate) grade: String,
    pub(crate) style: &'static str,
}

#[derive(Debug, Serialize)]
pub(crate) struct Amount {
    pub(crate) text: String,
    /// An interval behind it, in parentheses; empty for none.
    pub(crate) interval: String,
    pub(crate) sort: String,
}

impl From<TextCell> for Amount {
    fn from(cell: TextCell) -> Self {
        let sort = if cell.sort.is_finite() { format!("{}", cell.sort) } else { "1e308".to_owned() };
        let (text, interval) = match cell.text.split_once(" (") {
            Some((text, interval)) => (text.to_owned(), format!("({interval}")),
            None => (cell.text, String::new()),
        };
        Self { text, interval, sort }
    }
}

impl Amount {
    fn whole(&self) -> String {
        format!("{} {}", self.text, self.interval).trim_end().to_owned()
    }
}

impl Section {
    /// `None` before any run is judged.
    pub(crate) fn of(findings: &Findings) -> Option<Self> {
        let bill = Bill::of(findings)?;
        let words = Words { findings, bill: &bill };
        let conditions = findings.study.conditions.iter().enumerate();
        let mut rows: Vec<Row> =
            conditions.flat_map(|(number, condition)| rows(findings, &bill, number, condition)).collect();
        let mut notes = words.notes();
        if findings.sheet == Sheet::Page && rows.len() > MOST_ROWS {
            let all = rows.len();
            notes.push(format!(
                "The first {MOST_ROWS} of {all} rows; `bakeoff figure cost -o cost.csv` has all."
            ));
            rows.truncate(MOST_ROWS);
        }
        Some(Self {
            reading: words.reading(),
            said: words.said(),
            has_conditions: findings.has_conditions(),
            columns: columns(&words, &bill),
            rows,
            notes,
        })
    }

    /// All cells as text.
    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new(["arm"]);
        table.columns.extend(self.has_conditions.then(|| "condition".to_owned()));
        table.columns.extend(self.columns.iter().map(|column| column.name.clone()));
        table.columns.push("verdict".to_owned());
        for row in &self.rows {
            let mut cells = vec![row.key.name.clone()];
            cells.extend(self.has_conditions.then(|| row.condition.clone()));
            cells.extend(row.cells.iter().map(Amount::whole));
            cells.push(row.grade.clone());
            table.rows.push(cells);
        }
        table
    }
}

fn columns(words: &Words<'_>, bill: &Bill) -> Vec<Heading> {
    let heading = |name: String, meaning| Heading { name, meaning };
    let mut columns = vec![
        heading("machines".to_owned(), "on which ranks of a run are"),
        heading("ranks".to_owned(), "workers and servers of a run"),
        heading(words.time_name(), "geometric mean; the median where some runs did not reach the target"),
    ];
    for costs in &bill.costs {
        let name = words.resource_name(costs.resource);
        let ratio = match costs.resource {
            Resource::Money => "price ratio".to_owned(),
            Resource::Time | Resource::Machines | Resource::Ranks => format!("{name} ratio"),
        };
        columns.push(heading(name, meaning(costs.resource)));
        columns.push(heading(ratio, "to the baseline, with the confidence interval: below 1× is cheaper"));
    }
    columns
}

fn meaning(resource: Resource) -> &'static str {
    match resource {
        Resource::Time => "time",
        Resource::Machines => "time of each machine that has ranks of the run, added up",
        Resource::Ranks => "time of each rank, servers included, added up",
        Resource::Money => "of the machine time, by the price of an hour",
    }
}

/// The arms of a condition that have runs.
fn rows(findings: &Findings, bill: &Bill, number: usize, condition: &Condition) -> Vec<Row> {
    let times = Costs::times(findings, condition);
    let amounts: Vec<Vec<TextCell>> =
        bill.costs.iter().map(|costs| costs.amounts(findings, condition)).collect();
    let deciding = bill.deciding(condition).map_or(&[][..], |costs| costs.comparisons(number));
    let count = |number: u64| TextCell { text: number_format::count(number), sort: number as f64 };
    let row = |(place, cell): (usize, &ArmCell)| {
        let usage = cell.usage;
        let mut cells =
            vec![count(usage.machines as u64), count(u64::from(usage.ranks)), times[place].clone()];
        for (costs, amounts) in bill.costs.iter().zip(&amounts) {
            cells.extend([amounts[place].clone(), costs.ratio(findings, number, cell)]);
        }
        let found = deciding.iter().find(|found| found.arm == cell.arm);
        // A cheaper arm may have paid with its quality.
        let quality = found.and_then(|found| found.quality.as_ref()).map(|gap| gap.grade);
        let baseline = cell.arm == findings.study.baseline;
        let other = if baseline { "baseline" } else { "–" };
        Row {
            key: Key::of_arm(cell.arm, findings.study.arm_name(cell.arm)),
            condition: condition_title(condition),
            baseline,
            cells: cells.into_iter().map(Amount::from).collect(),
            grade: found.map_or_else(|| other.to_owned(), |found| found.grade.cost_label(quality)),
            style: found.map_or("baseline", |found| found.grade.class(quality)),
        }
    };
    condition.cells.iter().enumerate().filter(|(_, cell)| !cell.runs.is_empty()).map(row).collect()
}

#[cfg(test)]
mod tests;
