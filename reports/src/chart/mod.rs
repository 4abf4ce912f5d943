//! Parts of all charts: scales, ticks, paths, tables. Geometry leaves this crate as finished strings.

mod crowding;
mod path;
mod row_label;
mod scale;
mod sheet;
mod stretch;
mod thinning;

pub(crate) use crowding::{Mark, uncrowded, uncrowded_remark};
pub(crate) use path::{Grain, Path, Place, coordinate, marker};
pub(crate) use row_label::row_label;
pub(crate) use scale::Scale;
pub(crate) use sheet::Sheet;
pub(crate) use stretch::Stretch;
pub(crate) use thinning::{CurvePoint, thinned};

use serde::Serialize;

/// Width of a full chart in its own units, which are about one pixel on a wide screen.
pub(crate) const WIDTH: f64 = 1040.0;

/// Room for a tick of a horizontal axis with its label.
const TICK: f64 = 62.0;

/// Numbers of colours, dashes and marks that distinguish arms.
const COLOURS: usize = 8;

/// Number of arms that differ in colour or dash, and in colour or mark; further arms begin again.
pub(crate) const STYLES: usize = 24;

/// The words around a chart, and its numbers as a table.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    /// Unique on the page.
    pub(crate) id: String,
    pub(crate) title: String,
    /// Description of the chart for screen readers.
    pub(crate) description: String,
    /// How to read it.
    pub(crate) reading: String,
    pub(crate) table: Table,
}

/// A table of text.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Table {
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
    /// Says how many rows are not shown; empty where all are.
    pub(crate) note: String,
}

impl Table {
    pub(crate) fn new<const N: usize>(columns: [&str; N]) -> Self {
        Self { columns: columns.map(str::to_owned).to_vec(), ..Self::default() }
    }

    /// Keeps the first `most` rows and adds a note.
    pub(crate) fn cut(&mut self, most: usize) {
        if self.rows.len() > most {
            self.note = format!("The first {most} of {} rows; the CSV files hold all.", self.rows.len());
            self.rows.truncate(most);
        }
    }
}

/// The axes of a chart.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Frame {
    pub(crate) width: String,
    pub(crate) height: String,
    pub(crate) left: String,
    pub(crate) right: String,
    pub(crate) top: String,
    pub(crate) bottom: String,
    pub(crate) x_ticks: Vec<Tick>,
    pub(crate) y_ticks: Vec<Tick>,
    pub(crate) x_label: String,
    pub(crate) y_label: String,
}

/// A labelled place on an axis.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Tick {
    pub(crate) at: String,
    pub(crate) label: String,
}

/// The plotting area in the chart's units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
}

impl Area {
    /// A chart of full width with room for labels on the left and below.
    pub(crate) fn wide(height: f64) -> Self {
        Self { width: WIDTH, height, left: 64.0, right: WIDTH - 16.0, top: 28.0, bottom: height - 44.0 }
    }

    /// The frame of this area with two scales; labels are written in the scales' units.
    pub(crate) fn frame(&self, x: &Scale, y: &Scale, labels: [String; 2]) -> Frame {
        let [x_label, y_label] = labels;
        Frame {
            width: coordinate(self.width),
            height: coordinate(self.height),
            left: coordinate(self.left),
            right: coordinate(self.right),
            top: coordinate(self.top),
            bottom: coordinate(self.bottom),
            x_ticks: x.ticks_across((self.width / TICK).clamp(3.0, 8.0) as usize),
            y_ticks: y.ticks_up(6),
            x_label,
            y_label,
        }
    }
}

/// An entry of a legend.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Key {
    /// CSS class that carries colour, dash and hatch.
    pub(crate) style: String,
    pub(crate) name: String,
    /// Outline of the mark around the origin; empty for areas.
    pub(crate) mark: String,
}

impl Key {
    /// The legend's entry for an arm by its index in the plan.
    pub(crate) fn of_arm(arm: usize, name: &str) -> Self {
        Self { style: arm_style(arm), name: name.to_owned(), mark: marker(arm, 0.0, 0.0, 4.0) }
    }
}

/// The dash and the mark of an arm, others in each round of the colours; equal to the styles of the page.
fn dash(arm: usize) -> usize {
    let round = arm % STYLES / COLOURS;
    let colour = arm % COLOURS;
    (colour + 3 * round) % COLOURS
}

/// The CSS classes of an arm: that of its style, and beyond the styles one of its own, which comes last and tells it from
/// the arm with the same style.
pub(crate) fn arm_style(arm: usize) -> String {
    let style = format!("arm-{}", arm % STYLES);
    if arm < STYLES { style } else { format!("{style} arm-{arm}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn so_many_arms_differ_in_colour_and_dash_and_in_colour_and_mark() {
        let css = include_str!("../../../templates/page.css");
        let rule = |arm: usize| {
            let head = format!(".{} {{ ", arm_style(arm));
            let rule = css.split(&head).nth(1).unwrap().split(" }").next().unwrap();
            let (colour, dash) = rule.split_once("; ").unwrap();
            (colour.to_owned(), dash.to_owned())
        };
        let drawn: BTreeSet<_> = (0..STYLES).map(rule).collect();
        let marked: BTreeSet<_> = (0..STYLES).map(|arm| (rule(arm).0, marker(arm, 0.0, 0.0, 4.0))).collect();
        assert_eq!((drawn.len(), marked.len()), (STYLES, STYLES));
        assert!((0..STYLES).all(|arm| rule(arm).1 == format!("--dash: var(--dash-{});", dash(arm))));
        assert_eq!((arm_style(0), arm_style(STYLES)), ("arm-0".to_owned(), "arm-0 arm-24".to_owned()));
    }
}
