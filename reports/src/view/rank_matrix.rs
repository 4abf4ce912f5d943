//! A rank x rank heat map of an amount that passed from each rank to each other.

use crate::chart::{Figure, Tick, coordinate};
use serde::Serialize;

/// Ranks up to which a map prints its numbers.
const NUMBERED_RANKS: usize = 10;

/// Heat map with a row and a column for each rank.
#[derive(Debug, Serialize)]
pub(crate) struct Matrix {
    pub(crate) figure: Figure,
    pub(crate) arm: String,
    pub(crate) condition: String,
    pub(crate) x_label: String,
    pub(crate) y_label: String,
    pub(crate) size: String,
    pub(crate) cell: String,
    pub(crate) cells: Vec<MatrixCell>,
    /// Meaning of the shades, from the lightest to the darkest.
    pub(crate) shades: Vec<Shade>,
    pub(crate) columns: Vec<Tick>,
    pub(crate) rows: Vec<Tick>,
    pub(crate) grid: String,
}

/// An amount with the darkness of its cells.
#[derive(Debug, Serialize)]
pub(crate) struct Shade {
    pub(crate) weight: String,
    pub(crate) label: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct MatrixCell {
    pub(crate) x: String,
    pub(crate) y: String,
    /// Darkness, from 0 to 1.
    pub(crate) weight: String,
    pub(crate) dark: bool,
    pub(crate) label: String,
    pub(crate) label_x: String,
    pub(crate) label_y: String,
    pub(crate) title: String,
}

/// The words around a map.
pub(crate) struct Words<'a> {
    pub(crate) figure: Figure,
    pub(crate) arm: &'a str,
    pub(crate) condition: &'a str,
    /// Of the rows, then of the columns.
    pub(crate) labels: [&'a str; 2],
    /// Writes an amount for the legend of shades.
    pub(crate) written: fn(f64) -> String,
}

/// An amount that passed from one rank to another.
pub(crate) struct Passed {
    /// The row, then the column.
    pub(crate) ranks: [usize; 2],
    pub(crate) amount: f64,
    /// Printed in the cell if it fits.
    pub(crate) label: String,
    pub(crate) title: String,
}

/// The map of at least `ranks` ranks; `None` if nothing passed.
pub(crate) fn matrix(words: Words, passed: &[Passed], ranks: usize) -> Option<Matrix> {
    let largest = passed.iter().map(|cell| cell.amount).reduce(f64::max).filter(|most| *most > 0.0)?;
    let ranks = passed.iter().flat_map(|cell| cell.ranks).map(|rank| rank + 1).max()?.max(ranks);
    let numbered = ranks <= NUMBERED_RANKS;
    let margin = 44.0;
    let cell =
        if numbered { (300.0 / ranks as f64).clamp(44.0, 64.0) } else { (360.0 / ranks as f64).max(4.0) };
    let at = |rank: usize| margin + cell * rank as f64;
    let stride = ranks.div_ceil(16).max(1);
    let place = |rank: usize| Tick { at: coordinate(at(rank) + cell / 2.0), label: rank.to_string() };
    let labels: Vec<Tick> = (0..ranks).step_by(stride).map(place).collect();
    let cells = passed.iter().filter(|passed| passed.amount > 0.0).map(|passed| {
        let weight = passed.amount / largest;
        let x = at(passed.ranks[1]);
        let y = at(passed.ranks[0]);
        MatrixCell {
            x: coordinate(x),
            y: coordinate(y),
            weight: darkness(weight),
            dark: weight > 0.5,
            label: if numbered { passed.label.clone() } else { String::new() },
            label_x: coordinate(x + cell / 2.0),
            label_y: coordinate(y + cell / 2.0 + 3.0),
            title: passed.title.clone(),
        }
    });
    Some(Matrix {
        cells: cells.collect(),
        shades: shades(largest, words.written),
        figure: words.figure,
        arm: words.arm.to_owned(),
        condition: words.condition.to_owned(),
        y_label: words.labels[0].to_owned(),
        x_label: words.labels[1].to_owned(),
        size: coordinate(at(ranks) + 8.0),
        cell: coordinate(cell - 1.0),
        grid: coordinate(cell * ranks as f64),
        columns: labels.clone(),
        rows: labels,
    })
}

/// The opacity of an amount's cell; the least amount is still seen.
fn darkness(share: f64) -> String {
    format!("{:.2}", 0.12 + 0.88 * share)
}

/// Quarters of the largest amount; those that read the same appear once.
fn shades(largest: f64, written: fn(f64) -> String) -> Vec<Shade> {
    let mut shades: Vec<Shade> = Vec::new();
    for share in [0.25, 0.5, 0.75, 1.0] {
        let label = written(largest * share);
        if shades.last().is_none_or(|shade| shade.label != label) {
            shades.push(Shade { weight: darkness(share), label });
        }
    }
    shades
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_are_quarters_of_the_largest_amount() {
        let labels = |largest| -> Vec<String> {
            let whole = |amount: f64| format!("{amount:.0}");
            shades(largest, whole)
                .into_iter()
                .map(|shade| format!("{} {}", shade.weight, shade.label))
                .collect()
        };
        assert_eq!(labels(80.0), ["0.34 20", "0.56 40", "0.78 60", "1.00 80"]);
        assert_eq!(labels(1.0), ["0.34 0", "0.78 1"]);
    }
}
