//! The curve of a run while it trains, as far as `bakeoff status` needs it: small numbers in the driver's file, a line of blocks on a
//! terminal.

use serde::{Deserialize, Serialize};

/// The most points that are kept: a terminal has no room for more.
const MOST: usize = 64;
/// From low to high.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// An evaluation of a run under way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CurvePoint {
    /// The part of the training before it, from 0 to 1.
    pub(crate) share: f64,
    /// The value of the watched metric.
    pub(crate) value: f64,
}

/// The evaluations of a run in their order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct LiveCurve(Vec<CurvePoint>);

impl LiveCurve {
    /// Adds an evaluation. Values that are not finite have no height; their run ends as diverged soon.
    pub(crate) fn push(&mut self, share: f64, value: f64) {
        if !(share.is_finite() && value.is_finite()) {
            return;
        }
        self.0.push(CurvePoint { share: share.clamp(0.0, 1.0), value });
        if self.0.len() > MOST {
            // Every second point; the last one stays.
            let last = self.0.len() - 1;
            let mut place = 0;
            self.0.retain(|_| {
                place += 1;
                (last + 1 - place).is_multiple_of(2)
            });
        }
    }

    /// The lowest and the highest value.
    pub(crate) fn range(&self) -> Option<(f64, f64)> {
        let values = || self.0.iter().map(|point| point.value).filter(|value| value.is_finite());
        let low = values().reduce(f64::min)?;
        Some((low, values().reduce(f64::max)?))
    }

    /// A block for each of `columns` equal parts of the training: its last value, or that before it, between the ends of `scale`. What the
    /// run has not come to is empty.
    pub(crate) fn blocks(&self, columns: usize, scale: (f64, f64)) -> String {
        let (low, high) = scale;
        let Some(end) = self.0.iter().map(|point| point.share).reduce(f64::max) else { return String::new() };
        let block = |value: f64| {
            let height = if high > low { (value - low) / (high - low) } else { 1.0 };
            let place = (height * (BLOCKS.len() - 1) as f64).round().clamp(0.0, (BLOCKS.len() - 1) as f64);
            BLOCKS.get(place as usize).copied().unwrap_or(' ')
        };
        let mut line = String::new();
        for column in 0..columns {
            let from = column as f64 / columns as f64;
            let to = (column + 1) as f64 / columns as f64;
            if from > end {
                break;
            }
            let known = self.0.iter().rfind(|point| point.share <= to);
            line.push(known.map_or(' ', |point| block(point.value)));
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_rises_over_the_training_and_ends_where_the_run_is() {
        let mut curve = LiveCurve::default();
        for step in 0..=5 {
            curve.push(f64::from(step) / 10.0, f64::from(step));
        }
        assert_eq!(curve.range(), Some((0.0, 5.0)));
        assert_eq!(curve.blocks(10, (0.0, 7.0)), "▂▃▄▅▆▆");
        assert_eq!(curve.blocks(5, (0.0, 7.0)), "▃▅▆");
        // A flat curve has no height of its own.
        assert_eq!(curve.blocks(2, (5.0, 5.0)), "██");
        assert_eq!(LiveCurve::default().blocks(10, (0.0, 1.0)), "");
    }

    #[test]
    fn many_evaluations_are_thinned_out_and_the_last_one_stays() {
        let mut curve = LiveCurve::default();
        for step in 0..1000 {
            curve.push(f64::from(step) / 999.0, f64::from(step));
            assert!(curve.0.len() <= MOST);
            assert_eq!(curve.0.last().map(|point| point.value), Some(f64::from(step)));
        }
        curve.push(f64::NAN, 1.0);
        curve.push(0.5, f64::INFINITY);
        assert_eq!(curve.range().map(|(_, high)| high), Some(999.0));
        assert!(curve.0.windows(2).all(|pair| pair[0].share < pair[1].share));
    }
}
