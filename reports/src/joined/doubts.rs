//! Differences between two selections beside the settings compared.

use super::Side;
use super::prices::in_one_currency;
use crate::number_format;
use std::collections::BTreeSet;
use std::fmt;
use store::{RunRow, SweepRows};

/// A difference between two selections that their runs are not to blame for; shown as a sentence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Doubt {
    /// Other processors, cores or memory.
    OtherMachines,
    /// Two blocks in time.
    NotInTurn {
        /// Seconds from one block to the other.
        apart: f64,
    },
    /// Other thresholds in the recipes.
    OtherThresholds,
    /// Prices in different currencies.
    OtherCurrency,
    /// No seed on both sides.
    NoCommonSeed,
}

impl fmt::Display for Doubt {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherMachines => {
                text.write_str("The machines differ, and with them everything that takes time.")
            }
            Self::NotInTurn { apart } => write!(
                text,
                "The sides were not measured in turn, but {} apart on average: what changed on the machine meanwhile counts as a difference, \
                 and more repeats do not help.",
                number_format::seconds(*apart)
            ),
            Self::OtherThresholds => text.write_str(
                "The recipes differ in what they call sure or worse: the first one's settings count.",
            ),
            Self::OtherCurrency => text
                .write_str("The sides have prices in different currencies, so that they are not compared."),
            Self::NoCommonSeed => text
                .write_str("The sides have no seed in common, so that their runs are not compared in pairs."),
        }
    }
}

pub(crate) fn doubts(sides: [Side<'_>; 2], joined: &SweepRows) -> Vec<Doubt> {
    let [first, second] = sides.map(|side| side.rows);
    let mut doubts = Vec::new();
    if machines(first) != machines(second) {
        doubts.push(Doubt::OtherMachines);
    }
    doubts.extend(not_in_turn(joined));
    let [one, other] = [first, second].map(|rows| &rows.plan.report);
    if (one.min_quality, one.confidence) != (other.min_quality, other.confidence) {
        doubts.push(Doubt::OtherThresholds);
    }
    if !in_one_currency(&sides) {
        doubts.push(Doubt::OtherCurrency);
    }
    let [one, other] = [0, 1].map(|side| seeds(joined, side));
    if one.is_disjoint(&other) {
        doubts.push(Doubt::NoCommonSeed);
    }
    doubts
}

/// Properties that decide how fast each machine is: processor, cores and memory.
pub(crate) fn machines(rows: &SweepRows) -> BTreeSet<(&str, u32, u64)> {
    rows.nodes.iter().map(|node| (node.processor.as_str(), node.cores, node.memory)).collect()
}

/// Sides in turn change with nearly every run; two blocks change once.
fn not_in_turn(joined: &SweepRows) -> Option<Doubt> {
    let begin = |run: &RunRow| Some((run.attempt.as_ref()?.started, side_of(joined, run)));
    let mut begins: Vec<(i64, usize)> = joined.runs.iter().filter_map(begin).collect();
    begins.sort_unstable();
    let turns = begins.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
    let times = |side: usize| -> Vec<f64> {
        begins.iter().filter(|(_, of)| *of == side).map(|(at, _)| *at as f64).collect()
    };
    let [first, second] = [0, 1].map(times);
    let fewest = first.len().min(second.len());
    let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
    (fewest > 0 && turns < fewest.max(2))
        .then(|| Doubt::NotInTurn { apart: (mean(&second) - mean(&first)).abs() })
}

fn seeds(joined: &SweepRows, side: usize) -> BTreeSet<u64> {
    joined.runs.iter().filter(|run| side_of(joined, run) == side).map(|run| run.seed).collect()
}

fn side_of(joined: &SweepRows, run: &RunRow) -> usize {
    joined.plan.cells[run.cell].arm
}
