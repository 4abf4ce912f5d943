//! Short SVG paths.

use std::fmt::Write;

/// A coordinate with one decimal at most.
pub(crate) fn coordinate(value: f64) -> String {
    let value = if value.is_finite() { value.clamp(-1e5, 1e5) } else { 0.0 };
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// A coordinate in tenths, rounded as [`coordinate`] rounds.
fn tenths(value: f64) -> i64 {
    let text = format!("{:.1}", if value.is_finite() { value.clamp(-1e5, 1e5) } else { 0.0 });
    text.replace('.', "").parse().unwrap_or_default()
}

/// A number of tenths without zeros that mean nothing.
fn shortest(tenths: i64) -> String {
    let sign = if tenths < 0 { "-" } else { "" };
    match (tenths.abs() / 10, tenths.abs() % 10) {
        (whole, 0) => format!("{sign}{whole}"),
        (0, tenth) => format!("{sign}.{tenth}"),
        (whole, tenth) => format!("{sign}{whole}.{tenth}"),
    }
}

/// A place in a chart, from its upper left corner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) x: f64,
    pub(crate) y: f64,
}

/// How finely the points of a line are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grain {
    /// Tenths of a unit.
    Tenth,
    /// Whole units, which are about as wide as a pixel: for lines that cover each other.
    Whole,
}

impl Grain {
    /// A coordinate in tenths.
    fn tenths(self, value: f64) -> i64 {
        match self {
            Self::Tenth => tenths(value),
            Self::Whole => tenths(value.round()),
        }
    }
}

/// The `d` attribute of a path, while it is being written.
#[derive(Debug, Default)]
pub(crate) struct Path {
    text: String,
    /// The end of the last level stroke, in tenths.
    at: Option<[i64; 2]>,
}

impl Path {
    /// A line through these points.
    pub(crate) fn through(points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let mut path = Self::default();
        for (place, (x, y)) in points.into_iter().enumerate() {
            path.point(if place == 0 { 'M' } else { 'L' }, x, y);
        }
        path
    }

    /// The same line with each point relative to the one before, which is about half as long. Rounding errors do not add up.
    pub(crate) fn tracing(points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::tracing_by(Grain::Tenth, points)
    }

    /// The same with a choice of the grain.
    pub(crate) fn tracing_by(grain: Grain, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let mut path = Self::default();
        let mut at: Option<[i64; 2]> = None;
        for (x, y) in points {
            let next = [grain.tenths(x), grain.tenths(y)];
            match at {
                None => path.point('M', next[0] as f64 / 10.0, next[1] as f64 / 10.0),
                Some(before) => path.step('l', before, next),
            }
            at = Some(next);
        }
        path
    }

    /// A polygon through these points.
    pub(crate) fn around(points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::tracing(points).closed()
    }

    /// The same, with a line from the last point to the first.
    pub(crate) fn closed(mut self) -> Self {
        if !self.text.is_empty() {
            self.text.push('Z');
        }
        self
    }

    /// Adds a level stroke between two horizontal places.
    pub(crate) fn level(&mut self, ends: [f64; 2], y: f64) {
        let [from, to] = ends.map(tenths);
        let level = tenths(y);
        match self.at {
            None => self.point('M', ends[0], y),
            Some(before) => self.step('m', before, [from, level]),
        }
        let _ = write!(self.text, "h{}", shortest(to - from));
        self.at = Some([to, level]);
    }

    /// Adds a separate stroke.
    pub(crate) fn stroke(&mut self, from: Place, to: Place) {
        self.point('M', from.x, from.y);
        self.point('L', to.x, to.y);
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }

    /// A command with a point relative to the one before.
    fn step(&mut self, command: char, before: [i64; 2], next: [i64; 2]) {
        let right = shortest(next[0] - before[0]);
        let down = shortest(next[1] - before[1]);
        let between = if down.starts_with('-') { "" } else { " " };
        let _ = write!(self.text, "{command}{right}{between}{down}");
    }

    fn point(&mut self, command: char, x: f64, y: f64) {
        let _ = write!(self.text, "{command}{} {}", coordinate(x), coordinate(y));
    }
}

/// The mark of an arm around a point: a circle, square, triangle and so on, of about equal weight.
pub(crate) fn marker(arm: usize, x: f64, y: f64, size: f64) -> String {
    let corners = |angles: &[f64], radius: f64| {
        Path::around(angles.iter().map(|turn| {
            let angle = turn * std::f64::consts::TAU;
            (x + radius * angle.sin(), y - radius * angle.cos())
        }))
        .finish()
    };
    match super::dash(arm) {
        0 => {
            let left = coordinate(x - size);
            let diameter = coordinate(2.0 * size);
            let radius = coordinate(size);
            let y = coordinate(y);
            format!("M{left} {y}a{radius} {radius} 0 1 0 {diameter} 0a{radius} {radius} 0 1 0 -{diameter} 0z")
        }
        1 => corners(&[0.125, 0.375, 0.625, 0.875], size * 1.25),
        2 => corners(&[0.0, 1.0 / 3.0, 2.0 / 3.0], size * 1.35),
        3 => corners(&[0.0, 0.25, 0.5, 0.75], size * 1.3),
        4 => corners(&[0.5, 1.0 / 6.0, 5.0 / 6.0], size * 1.35),
        5 => corners(&[0.0, 0.2, 0.4, 0.6, 0.8], size * 1.2),
        6 => corners(&[1.0 / 12.0, 0.25, 5.0 / 12.0, 7.0 / 12.0, 0.75, 11.0 / 12.0], size * 1.15),
        _ => corners(&[0.0, 0.4, 0.8, 0.2, 0.6], size * 1.4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short_and_finite() {
        for (value, text) in
            [(1.0, "1"), (1.25, "1.2"), (-0.01, "0"), (f64::NAN, "0"), (f64::INFINITY, "0"), (1e9, "100000")]
        {
            assert_eq!(coordinate(value), text);
        }
    }

    #[test]
    fn a_traced_line_leads_through_the_same_points() {
        let points = [(1.04, 2.0), (1.3, 1.96), (-7.25, 1.5), (-7.25, 20.0)];
        assert_eq!(Path::tracing(points).finish(), "M1 2l.3 0l-8.5-.5l0 18.5");
        // A step of a third of the resolution still arrives.
        let path = Path::tracing((0..=300).map(|place| (f64::from(place) / 30.0, 0.0))).finish();
        let right = |step: &str| step.split(' ').next().unwrap().parse::<f64>().unwrap();
        let width: f64 = path.split('l').skip(1).map(right).sum();
        assert!((width - 10.0).abs() < 1e-9, "{width}");
    }

    #[test]
    fn paths() {
        assert_eq!(Path::through([(0.0, 1.0), (2.0, 3.5)]).finish(), "M0 1L2 3.5");
        assert_eq!(Path::around([]).finish(), "");
        let mut path = Path::default();
        path.level([1.0, 4.25], 2.5);
        path.level([4.25, 5.0], 2.5);
        path.level([8.0, 9.0], 12.0);
        assert_eq!(path.finish(), "M1 2.5h3.2m0 0h.8m3 9.5h1");
        let whole = Path::tracing_by(Grain::Whole, [(1.4, 2.6), (2.6, 3.4)]).closed();
        assert_eq!(whole.finish(), "M1 3l2 0Z");
    }
}
