//! Scales with round ticks.

use super::{Stretch, Tick, coordinate};
use crate::number_format;
use std::ops::RangeInclusive;

/// Larger values, and narrower ranges, are not measurements.
const LARGEST: f64 = 1e15;
const NARROWEST: f64 = 1e-12;

/// Width of a digit on average, and height of a line of labels.
const LETTER: f64 = 6.8;
const LINE: f64 = 14.0;

/// Maps values to places.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    /// Factor from a value to the number on a tick label, whose unit may be another.
    factor: f64,
    stretch: Stretch,
}

impl Scale {
    /// Maps `values` to `places`, whose ends may be in any order. An empty or infinite range of values is widened from
    /// its lower end.
    pub(crate) fn new(values: RangeInclusive<f64>, places: RangeInclusive<f64>, factor: f64) -> Self {
        let (low, high) = values.into_inner();
        let (from, to) = places.into_inner();
        let low = if low.is_finite() { low.clamp(-LARGEST, LARGEST) } else { 0.0 };
        let wide = high.is_finite() && high - low > (low.abs() * 1e-9).max(NARROWEST);
        let high = if wide { high.min(2.0 * LARGEST) } else { low + (1.0 / factor).max(low.abs() * 1e-6) };
        Self { low, high, from, to, factor, stretch: Stretch::Linear }
    }

    /// The same ends with another stretch between them.
    pub(crate) fn stretched(self, stretch: Stretch) -> Self {
        Self { stretch, ..self }
    }

    /// The same scale with its ends moved outwards to round numbers.
    pub(crate) fn rounded(self, count: usize) -> Self {
        let step = self.step(count);
        let low = self.low * self.factor;
        let high = self.high * self.factor;
        let low = (low / step + 1e-9).floor() * step / self.factor;
        let high = (high / step - 1e-9).ceil() * step / self.factor;
        Self { low, high, ..self }
    }

    /// The place of a value; outside the range it lies outside the area, except where a stretch has no end: there it
    /// lies at the edge.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let value = match self.stretch {
            Stretch::Linear => value,
            Stretch::Logarithm => value.max(self.low),
            Stretch::Error => value.min(self.high),
        };
        let [low, high] = self.ends();
        self.from + (self.stretch.stretched(value) - low) / (high - low) * (self.to - self.from)
    }

    fn ends(&self) -> [f64; 2] {
        [self.low, self.high].map(|end| self.stretch.stretched(end))
    }

    /// The length of an amount.
    pub(crate) fn length(&self, amount: f64) -> f64 {
        self.at(self.low + amount) - self.from
    }

    /// `offset slope` of the line from places back to values in the scale's unit, or to stretched values.
    pub(crate) fn inverse(&self) -> String {
        let factor = if self.stretch == Stretch::Linear { self.factor } else { 1.0 };
        let [low, high] = self.ends();
        let slope = (high - low) / (self.to - self.from) * factor;
        let offset = low * factor - self.from * slope;
        format!("{offset:.6e} {slope:.6e}")
    }

    pub(crate) fn low(&self) -> f64 {
        self.low
    }

    pub(crate) fn high(&self) -> f64 {
        self.high
    }

    /// About `count` ticks at round numbers.
    pub(crate) fn ticks(&self, count: usize) -> Vec<Tick> {
        let tick = |(value, decimals): (f64, usize)| Tick {
            at: coordinate(self.at(value)),
            label: number_format::fixed(value * self.factor, decimals),
        };
        match self.stretch.round_values(self.low, self.high, self.factor, count + 2) {
            Some(values) => values.into_iter().map(tick).collect(),
            None => self.even_ticks(count),
        }
    }

    /// At most about `count` ticks of a horizontal axis, fewer where their labels would touch.
    pub(crate) fn ticks_across(&self, count: usize) -> Vec<Tick> {
        self.ticks_apart(count, |tick| LETTER * (tick.label.chars().count() as f64 + 1.0))
    }

    /// The same of a vertical axis.
    pub(crate) fn ticks_up(&self, count: usize) -> Vec<Tick> {
        self.ticks_apart(count, |_| LINE)
    }

    fn ticks_apart(&self, count: usize, room: impl Fn(&Tick) -> f64) -> Vec<Tick> {
        let place = |tick: &Tick| tick.at.parse::<f64>().unwrap_or(0.0);
        let fits = |pair: &[Tick]| match pair {
            [one, other] => (place(other) - place(one)).abs() >= f64::midpoint(room(one), room(other)),
            _ => true,
        };
        let fitting = (1..=count.max(1)).rev().map(|count| self.ticks(count));
        let found = fitting.into_iter().find(|ticks| ticks.windows(2).all(fits));
        found.unwrap_or_else(|| self.ticks(1).into_iter().take(1).collect())
    }

    fn even_ticks(&self, count: usize) -> Vec<Tick> {
        let step = self.step(count);
        let low = self.low * self.factor;
        let high = self.high * self.factor;
        let decimals = (-(step.log10() + 1e-9).floor()).clamp(0.0, 9.0) as usize;
        let first = (low / step - 1e-9).ceil() as i64;
        let last = (high / step + 1e-9).floor() as i64;
        (first..=last)
            .map(|place| place as f64 * step)
            .map(|value| Tick {
                at: coordinate(self.at(value / self.factor)),
                label: number_format::fixed(value, decimals),
            })
            .collect()
    }

    /// 1, 2 or 5 times a power of ten.
    fn step(&self, count: usize) -> f64 {
        let raw = (self.high - self.low) * self.factor / count.max(1) as f64;
        let power = 10_f64.powf(raw.log10().floor());
        [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|times| times * power)
            .find(|step| *step >= raw * 0.999)
            .unwrap_or(raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale, count: usize) -> Vec<String> {
        scale.ticks(count).into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn ticks_are_round_and_inside() {
        let scale = Scale::new(0.0..=47.0, 0.0..=470.0, 1.0);
        assert_eq!(labels(&scale, 5), ["0", "10", "20", "30", "40"]);
        assert_eq!(scale.ticks(5)[2].at, "200");
        assert_eq!(labels(&Scale::new(0.91..=0.985, 0.0..=1.0, 100.0), 4), ["92", "94", "96", "98"]);
        assert_eq!(labels(&Scale::new(0.0..=0.3, 0.0..=1.0, 1.0), 3), ["0.0", "0.1", "0.2", "0.3"]);
    }

    #[test]
    fn labels_that_would_touch_are_fewer() {
        let across = |wide: f64| Scale::new(0.0..=0.0047, 0.0..=wide, 1.0).ticks_across(5);
        assert_eq!(across(470.0).len(), 5);
        assert_eq!(
            across(120.0).iter().map(|tick| tick.label.as_str()).collect::<Vec<_>>(),
            ["0.000", "0.002", "0.004"]
        );
        assert_eq!(across(20.0).len(), 1);
        let up = |high: f64| Scale::new(0.0..=47.0, high..=0.0, 1.0).ticks_up(6).len();
        assert_eq!([up(300.0), up(60.0), up(30.0), up(5.0)], [5, 3, 1, 1]);
        for wide in (10..400).step_by(7).map(f64::from) {
            let scale = Scale::new(0.08..=250.0, 0.0..=wide, 1.0).stretched(Stretch::Logarithm);
            let ticks = scale.ticks_across(8);
            let end = |tick: &Tick, side: f64| {
                tick.at.parse::<f64>().unwrap() + side * 3.4 * tick.label.len() as f64
            };
            assert!(ticks.windows(2).all(|pair| end(&pair[0], 1.0) < end(&pair[1], -1.0)), "{wide}");
        }
    }

    #[test]
    fn rounding_moves_ends_outwards() {
        let scale = Scale::new(0.913..=0.985, 0.0..=100.0, 100.0).rounded(4);
        assert_eq!(labels(&scale, 4), ["90", "95", "100"]);
        assert!(scale.at(0.913) > 0.0 && scale.at(0.985) < 100.0);
    }

    #[test]
    fn a_place_leads_back_to_its_value() {
        let scale = Scale::new(0.5..=1.0, 300.0..=20.0, 100.0);
        let inverse = scale.inverse();
        let (offset, slope) = inverse.split_once(' ').unwrap();
        let value = offset.parse::<f64>().unwrap() + slope.parse::<f64>().unwrap() * scale.at(0.97);
        assert!((value - 97.0).abs() < 1e-3, "{value}");
    }

    #[test]
    fn a_stretched_scale_has_its_own_ticks_and_leads_back() {
        let loss = Scale::new(0.08..=2.5, 100.0..=0.0, 1.0).stretched(Stretch::Logarithm);
        assert_eq!(labels(&loss, 6), ["0.1", "0.2", "0.3", "0.5", "0.7", "1", "2"]);
        let accuracy = Scale::new(0.5..=0.995, 300.0..=20.0, 100.0).stretched(Stretch::Error);
        assert_eq!(labels(&accuracy, 6), ["50", "80", "90", "95", "98", "99", "99.5"]);
        assert_eq!((accuracy.at(0.5), accuracy.at(0.995), accuracy.at(1.0)), (300.0, 20.0, 20.0));
        let inverse = accuracy.inverse();
        let (offset, slope) = inverse.split_once(' ').unwrap();
        let digits = offset.parse::<f64>().unwrap() + slope.parse::<f64>().unwrap() * accuracy.at(0.97);
        assert!((1.0 - 10_f64.powf(-digits) - 0.97).abs() < 1e-5, "{digits}");
        // Too narrow for round amounts: round values.
        let narrow = Scale::new(0.9755..=0.9795, 100.0..=0.0, 100.0).stretched(Stretch::Error);
        assert_eq!(labels(&narrow, 4), ["97.6", "97.7", "97.8", "97.9"]);
    }

    #[test]
    fn empty_and_broken_ranges_still_scale() {
        for range in [
            (3.0, 3.0),
            (0.0, f64::NAN),
            (f64::INFINITY, 1.0),
            (5.0, 2.0),
            (0.0, 5e-324),
            (1e300, 2e300),
            (-1e300, 1e300),
        ] {
            let scale = Scale::new(range.0..=range.1, 0.0..=10.0, 1.0);
            assert!(scale.at(1.0).is_finite(), "{range:?}");
            assert!((1..20).contains(&scale.ticks(5).len()), "{range:?}");
            assert!((1..20).contains(&scale.rounded(5).ticks(5).len()), "{range:?}");
        }
    }
}
