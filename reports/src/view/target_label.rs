//! The line of the target, with its label where it covers least of the curves.

use crate::chart::{Area, CurvePoint, coordinate};
use crate::verdict;
use recipe::Target;
use serde::Serialize;

/// The width of a letter of the label, at most on average, and its height.
const LETTER: f64 = 6.6;
const HEIGHT: f64 = 13.0;

/// Between the ends of the line and the label.
const MARGIN: f64 = 8.0;

/// Size of a mark around its place.
const MARK: f64 = 5.0;

/// How much more a covered mark counts than a covered piece of a line.
const MARK_WEIGHT: usize = 20;

#[derive(Debug, Serialize)]
pub(crate) struct TargetLine {
    pub(crate) y: String,
    pub(crate) label_x: String,
    pub(crate) label_y: String,
    pub(crate) label: String,
}

/// Places that a label should not cover, in the chart's units.
#[derive(Debug, Default)]
pub(crate) struct Obstacles {
    lines: Vec<CurvePoint>,
    marks: Vec<CurvePoint>,
}

impl Obstacles {
    /// A line, as places at most a few units apart.
    pub(crate) fn line(&mut self, places: &[CurvePoint]) {
        for pair in places.windows(2) {
            let from = pair[0];
            let to = pair[1];
            // A line that leaves the chart has no more pieces than one across it.
            let pieces = ((to.0 - from.0).hypot(to.1 - from.1) / 4.0).clamp(1.0, 256.0);
            for piece in 0..=pieces as usize {
                let share = piece as f64 / pieces;
                self.lines.push((from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share));
            }
        }
    }

    pub(crate) fn mark(&mut self, place: CurvePoint) {
        self.marks.push(place);
    }

    /// How much a label covers whose baseline begins here.
    fn covered(&self, begin: CurvePoint, width: f64) -> usize {
        let within = |place: &&CurvePoint, margin: f64| {
            place.0 >= begin.0 - margin
                && place.0 <= begin.0 + width + margin
                && place.1 >= begin.1 - HEIGHT - margin
                && place.1 <= begin.1 + 3.0 + margin
        };
        let lines = self.lines.iter().filter(|place| within(place, 1.0)).count();
        lines + MARK_WEIGHT * self.marks.iter().filter(|place| within(place, MARK)).count()
    }
}

impl TargetLine {
    /// The line at height `y`; its label is above or beneath it at one of a few places, at the first that covers least.
    pub(crate) fn of(target: Target, y: f64, area: &Area, obstacles: &Obstacles) -> Self {
        let label = format!("target {}", verdict::threshold_words(target));
        let width = label.chars().count() as f64 * LETTER;
        let room = (area.right - area.left - 2.0 * MARGIN - width).max(0.0);
        let heights = [y - 6.0, y + 14.0].into_iter().filter(|at| (area.top..=area.bottom).contains(at));
        let places = heights
            .flat_map(|at| [0.0, 1.0, 0.5, 0.25, 0.75].map(|share| (area.left + MARGIN + room * share, at)));
        let begin = places
            .min_by_key(|begin| obstacles.covered(*begin, width))
            .unwrap_or((area.left + MARGIN, y - 6.0));
        Self { y: coordinate(y), label_x: coordinate(begin.0), label_y: coordinate(begin.1), label }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recipe::Metric;

    fn placed(obstacles: &Obstacles) -> [String; 2] {
        let target = Target { metric: Metric::TestAccuracy, threshold: 0.97, after: None, stop: false };
        let line = TargetLine::of(target, 200.0, &Area::wide(400.0), obstacles);
        [line.label_x, line.label_y]
    }

    #[test]
    fn a_label_moves_away_from_what_is_drawn() {
        let mut obstacles = Obstacles::default();
        assert_eq!(placed(&obstacles), ["72", "194"]);
        obstacles.mark((80.0, 190.0));
        assert_eq!(placed(&obstacles)[1], "194");
        assert_ne!(placed(&obstacles)[0], "72");
        // Something above the whole line: beneath it.
        obstacles.line(&[(60.0, 190.0), (1040.0, 190.0)]);
        assert_eq!(placed(&obstacles), ["72", "214"]);
    }
}
