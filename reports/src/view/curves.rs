//! Curves over training: every run thin, the median thick, the range as a band.

use super::described::Names;
use super::rise::{Rise, vertical_scale};
use super::series::{Axis, MOST_POINTS, Point, Series};
use super::spread::{Together, together};
use super::target_label::{Obstacles, TargetLine};
use crate::chart::{self, CurvePoint, Frame, Grain, Path, Scale, Sheet, coordinate, marker};
use crate::number_format;
use comparison::study::{ArmCell, Condition, JudgedRun};
use serde::Serialize;

/// One choice of the two axes.
#[derive(Debug, Serialize)]
pub(crate) struct Panel {
    /// The numbers of both choices: `0-1` is the first horizontal axis with the second vertical one.
    pub(crate) place: String,
    pub(crate) axis: String,
    /// Says how the vertical axis is stretched; empty if it is not.
    pub(crate) aside: String,
    pub(crate) frame: Frame,
    /// The place of the panel that draws the same curves; empty if this one draws them.
    pub(crate) like: String,
    pub(crate) curves: Vec<Curve>,
    pub(crate) target: Option<TargetLine>,
    pub(crate) exits: Vec<Exit>,
    /// Says which arms left through the top, where and how far; empty if none did.
    pub(crate) left: String,
    pub(crate) readout: Readout,
}

/// A sign at the upper edge where an arm leaves the chart for good.
#[derive(Debug, Serialize)]
pub(crate) struct Exit {
    pub(crate) style: String,
    pub(crate) shape: String,
}

/// Converts a pointer's position into values: value = offset + slope x position, for each direction. On a stretched axis
/// that is the stretched value, which `y_form` leads back from; `y_factor` then makes it one of the unit.
#[derive(Debug, Serialize)]
pub(crate) struct Readout {
    pub(crate) x: String,
    pub(crate) y: String,
    pub(crate) x_unit: String,
    pub(crate) y_unit: String,
    pub(crate) y_form: &'static str,
    pub(crate) y_factor: String,
}

/// The curves of one arm.
#[derive(Debug, Serialize)]
pub(crate) struct Curve {
    pub(crate) style: String,
    pub(crate) name: String,
    pub(crate) arm: usize,
    /// The lines of all runs.
    pub(crate) runs: String,
    pub(crate) band: String,
    pub(crate) median: String,
    /// The outline of a mark around the origin.
    pub(crate) mark: String,
    pub(crate) marks: Vec<Mark>,
}

/// The end of a run: filled if it reached the target, otherwise hollow.
#[derive(Debug, Serialize)]
pub(crate) struct Mark {
    pub(crate) x: String,
    pub(crate) y: String,
    pub(crate) hollow: bool,
    /// Empty where there are many: the table names every run.
    pub(crate) title: String,
}

/// Marks of one chart up to which each has a title of its own.
const TITLED_MARKS: usize = 60;

/// Positions at which the runs of an arm are compared; lines are thinned afterwards.
const MOST_COMPUTED: usize = 2_000;

struct Canvas {
    x: Scale,
    y: Scale,
    series: Series,
    axis: Axis,
    /// Whether the condition's target is one of this series.
    aims: bool,
    /// Largest number of points of each line.
    points: usize,
    /// Whether marks have titles.
    titled: bool,
    grain: Grain,
}

/// Content of a panel.
#[derive(Clone, Copy)]
pub(crate) struct Choice {
    pub(crate) series: Series,
    /// The index of a horizontal axis of the series.
    pub(crate) axis: usize,
    /// The index of a vertical axis of the series.
    pub(crate) rise: usize,
    /// Largest number of points of each line.
    pub(crate) points: usize,
    pub(crate) sheet: Sheet,
}

/// Every choice of a series on the page.
pub(crate) fn choices(series: Series, points: usize) -> impl Iterator<Item = Choice> {
    let sheet = Sheet::Page;
    let axes = 0..series.axes().len();
    axes.flat_map(move |axis| {
        (0..Rise::of(series).len()).map(move |rise| Choice { series, axis, rise, points, sheet })
    })
}

/// Every choice drawn. Axes that differ in their unit alone, as epochs and samples do, share their curves.
pub(crate) fn panels(
    condition: &Condition,
    choices: impl Iterator<Item = Choice>,
    names: Names,
) -> Vec<Panel> {
    let mut panels: Vec<Panel> = Vec::new();
    for choice in choices {
        let mut drawn = panel(condition, choice, names);
        if let Some(same) = panels.iter().find(|panel| panel.like.is_empty() && panel.draws_as(&drawn)) {
            drawn.like.clone_from(&same.place);
            drawn.curves.clear();
        }
        panels.push(drawn);
    }
    panels
}

/// One choice that stands alone: it draws its curves itself.
pub(crate) fn alone(condition: &Condition, choice: Choice, names: Names) -> Panel {
    Panel { place: FIRST.to_owned(), ..panel(condition, choice, names) }
}

/// The place of the panel that has the outlines of the marks.
const FIRST: &str = "0-0";

impl Panel {
    /// Whether all shapes are the same, whatever the marks are called.
    fn draws_as(&self, other: &Self) -> bool {
        let shapes = |curve: &Curve| (curve.runs.clone(), curve.median.clone(), curve.band.clone());
        let marks = |curve: &Curve| -> Vec<[String; 2]> {
            curve.marks.iter().map(|mark| [mark.x.clone(), mark.y.clone()]).collect()
        };
        self.curves.len() == other.curves.len()
            && self.curves.iter().zip(&other.curves).all(|(left, right)| {
                left.arm == right.arm && shapes(left) == shapes(right) && marks(left) == marks(right)
            })
    }
}

/// The curves of all arms of a condition; `names` are the arms' by their place in the plan.
fn panel(condition: &Condition, choice: Choice, names: Names) -> Panel {
    let Choice { series, points, .. } = choice;
    let axis = series.axes()[choice.axis];
    let rise = Rise::of(series)[choice.rise];
    let area = choice.sheet.wide(400.0);
    let judged = || condition.cells.iter().flat_map(|cell| &cell.runs);
    let runs: Vec<Vec<CurvePoint>> = judged().map(|judged| series.drawn(judged, axis, points)).collect();
    let largest = runs.iter().flatten().map(|(x, _)| *x).fold(0.0, f64::max);
    let x_unit = axis.unit(largest);
    let y_unit = series.unit();
    let canvas = Canvas {
        x: Scale::new(0.0..=largest * 1.02, area.left..=area.right, x_unit.factor),
        y: vertical_scale(condition, series, rise, &area),
        series,
        axis,
        aims: series.target(condition).is_some(),
        points,
        // On a page of many curves the tables name every run.
        titled: judged().count() <= TITLED_MARKS && points >= MOST_POINTS,
        grain: if judged().count() <= TITLED_MARKS { Grain::Tenth } else { Grain::Whole },
    };
    let unit = if y_unit.name.is_empty() { String::new() } else { format!(" ({})", y_unit.name) };
    let labels = [axis.label(x_unit), format!("{}{unit}{}", series.words(), rise.aside())];
    let mut curves = Vec::new();
    let mut obstacles = Obstacles::default();
    let mut exits = Vec::new();
    let mut left = Vec::new();
    for cell in &condition.cells {
        curves.push(canvas.curve(cell, names(cell.arm), &mut obstacles));
        if let Some(gone) = canvas.gone(cell) {
            exits.push(Exit {
                style: chart::arm_style(cell.arm),
                shape: marker_up(canvas.x.at(gone.0), area.top),
            });
            left.push(canvas.gone_words(&names(cell.arm), gone));
        }
    }
    Panel {
        place: format!("{}-{}", choice.axis, choice.rise),
        axis: axis.name().to_owned(),
        aside: rise.aside().to_owned(),
        like: String::new(),
        curves,
        exits,
        left: left.join(" "),
        target: series
            .target(condition)
            .map(|target| TargetLine::of(target, canvas.y.at(target.threshold), &area, &obstacles)),
        readout: Readout {
            x: canvas.x.inverse(),
            y: canvas.y.inverse(),
            x_unit: if x_unit.name.is_empty() { axis.name() } else { x_unit.name }.to_owned(),
            y_unit: y_unit.name.to_owned(),
            y_form: rise.stretch().name(),
            y_factor: y_unit.factor.to_string(),
        },
        frame: area.frame(&canvas.x, &canvas.y, labels),
    }
}

impl Canvas {
    fn place(&self, x: f64, y: f64) -> CurvePoint {
        (self.x.at(x), self.y.at(y))
    }

    fn curve(&self, cell: &ArmCell, name: String, obstacles: &mut Obstacles) -> Curve {
        let whole: Vec<Vec<Point>> = cell.runs.iter().map(|judged| self.series.points(judged)).collect();
        let spread = Spread::of(&whole, self.axis, (2 * self.points).min(MOST_POINTS));
        let outline = spread.high.into_iter().chain(spread.low.into_iter().rev());
        let outline = outline.map(|(x, y)| self.place(x, y));
        let band = Path::tracing_by(self.grain, outline).closed().finish();
        let median: Vec<CurvePoint> = spread.middle.into_iter().map(|(x, y)| self.place(x, y)).collect();
        let mut runs = String::new();
        for judged in &cell.runs {
            let drawn = self.series.drawn(judged, self.axis, self.points);
            let line: Vec<CurvePoint> = drawn.into_iter().map(|(x, y)| self.place(x, y)).collect();
            obstacles.line(&line);
            if line.len() > 1 {
                runs += &Path::tracing_by(self.grain, line).finish();
            }
        }
        obstacles.line(&median);
        Curve {
            style: chart::arm_style(cell.arm),
            name,
            arm: cell.arm,
            band: if whole.len() > 1 { band } else { String::new() },
            median: Path::tracing(median).finish(),
            runs,
            mark: marker(cell.arm, 0.0, 0.0, 4.0),
            marks: cell.runs.iter().filter_map(|judged| self.mark(judged, obstacles)).collect(),
        }
    }

    /// Where the first run of an arm leaves through the top and does not come back, and the largest value of those that do.
    fn gone(&self, cell: &ArmCell) -> Option<CurvePoint> {
        let high = self.y.high();
        let left = cell.runs.iter().filter_map(|judged| {
            let places = self.series.places(judged, self.axis);
            let inside = places.iter().rposition(|(_, y)| *y <= high).map_or(0, |place| place + 1);
            let beyond = &places[inside..];
            let most = beyond.iter().map(|(_, y)| *y).reduce(f64::max)?;
            Some((beyond[0].0, most))
        });
        left.reduce(|(first, most), (x, y)| (first.min(x), most.max(y)))
            .filter(|_| !self.series.higher_is_better())
    }

    /// `d-sync leaves the chart at 3.20 s wall time and reaches 1.2e30 nats.`
    fn gone_words(&self, name: &str, (x, most): CurvePoint) -> String {
        format!(
            "{name} leaves the chart at {} and reaches {}.",
            self.moment(x),
            self.series.unit().short(most)
        )
    }

    fn coordinate(&self, value: f64) -> String {
        coordinate(if self.grain == Grain::Whole { value.round() } else { value })
    }

    /// A place on the horizontal axis in words.
    fn moment(&self, x: f64) -> String {
        let unit = self.axis.unit(x);
        let name = [unit.name, self.axis.name()].join(" ");
        format!("{} {}", number_format::short(x * unit.factor), name.trim())
    }

    fn mark(&self, judged: &JudgedRun, obstacles: &mut Obstacles) -> Option<Mark> {
        let hit = judged.hit.filter(|_| self.aims);
        let (point, what) = match hit {
            Some(row) => {
                let at = match self.axis {
                    Axis::Wall => row.at.seconds(),
                    Axis::Epochs => row.epoch,
                    Axis::Samples => row.samples as f64,
                };
                ((at, row.value), "reached the target at")
            }
            None => (*self.series.places(judged, self.axis).last()?, "ended at"),
        };
        let (x, y) = self.place(point.0, point.1);
        obstacles.mark((x, y));
        let title = || {
            format!(
                "repeat {} {what} {}: {}",
                judged.run.repeat + 1,
                self.moment(point.0),
                self.series.unit().short(point.1)
            )
        };
        Some(Mark {
            x: self.coordinate(x),
            y: self.coordinate(y),
            hollow: hit.is_none(),
            title: if self.titled { title() } else { String::new() },
        })
    }
}

/// A triangle that points up at a place of the upper edge.
fn marker_up(x: f64, top: f64) -> String {
    Path::around([(x, top), (x + 6.0, top + 10.0), (x - 6.0, top + 10.0)]).finish()
}

/// The lowest, the median and the highest values of the runs along the axis.
struct Spread {
    low: Vec<CurvePoint>,
    middle: Vec<CurvePoint>,
    high: Vec<CurvePoint>,
}

impl Spread {
    /// Each line has at most `most` points, and its extremes.
    fn of(runs: &[Vec<Point>], axis: Axis, most: usize) -> Self {
        let all = together(runs, MOST_COMPUTED);
        let line = |value: fn(&Together) -> f64| {
            let points = all.iter().map(|all| (axis.place(&all.middle), value(all)));
            chart::thinned(points.collect(), most)
        };
        Self { low: line(|all| all.low), middle: line(|all| all.middle.value), high: line(|all| all.high) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spike_of_the_median_survives_among_many_points() {
        let line = |offset: f64| -> Vec<Point> {
            let value = |place: u32| if place == 777 { 9.0 + offset } else { offset };
            let point = |place: u32| {
                let at = f64::from(place);
                Point { seconds: at, epochs: at, samples: at, value: value(place) }
            };
            (0..1_000).map(point).collect()
        };
        let spread = Spread::of(&[line(0.0), line(0.1), line(0.2)], Axis::Wall, 60);
        for (line, spike) in [(spread.low, 9.0), (spread.middle, 9.1), (spread.high, 9.2)] {
            assert!(line.len() <= 60 && line.contains(&(777.0, spike)), "{line:?}");
        }
    }
}
