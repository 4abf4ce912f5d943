//! The runs of an arm taken together: what the thick line, the band and the table of a chart show, by one definition. Runs are compared
//! after equally many samples, and each quantity there, the time included, is the median of theirs. Compared at equal times
//! instead, the end of the line would be that of the slower runs alone.

use super::series::Point;
use comparison::statistics;

/// The runs after a number of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Together {
    /// Its number among the points of a run.
    pub(crate) place: usize,
    /// Medians of the runs' places and values.
    pub(crate) middle: Point,
    /// Lowest value of any run.
    pub(crate) low: f64,
    /// Highest value of any run.
    pub(crate) high: f64,
    /// Number of runs that have begun and not ended there; at least half.
    pub(crate) runs: usize,
}

/// The runs at every point that half of them have; where there are more than about `most`, at every few of them and the last.
pub(crate) fn together(runs: &[Vec<Point>], most: usize) -> Vec<Together> {
    let longest = runs.iter().map(Vec::len).max().unwrap_or(0);
    let stride = longest.div_ceil(most.max(1)).max(1);
    let places = (0..longest).filter(|place| place % stride == 0 || place + 1 == longest);
    places.filter_map(|place| at(runs, place)).collect()
}

fn at(runs: &[Vec<Point>], place: usize) -> Option<Together> {
    let there: Vec<f64> = runs.iter().filter_map(|run| run.get(place)).map(|point| point.samples).collect();
    let samples = statistics::median(&there)?;
    let points: Vec<Point> = runs.iter().filter_map(|run| interpolated(run, samples)).collect();
    if there.len() * 2 < runs.len() || points.len() * 2 < runs.len() {
        return None;
    }
    let median = |of: fn(&Point) -> f64| statistics::median(&points.iter().map(of).collect::<Vec<_>>());
    let values = || points.iter().map(|point| point.value);
    Some(Together {
        place,
        middle: Point {
            seconds: median(|point| point.seconds)?,
            // Steps have no epochs.
            epochs: median(|point| point.epochs).unwrap_or(f64::NAN),
            samples,
            value: median(|point| point.value)?,
        },
        low: values().fold(f64::INFINITY, f64::min),
        high: values().fold(f64::NEG_INFINITY, f64::max),
        runs: points.len(),
    })
}

/// A run after a number of samples; nothing before its first point and after its last.
fn interpolated(run: &[Point], samples: f64) -> Option<Point> {
    // Samples only grow.
    let after = run.partition_point(|point| point.samples < samples);
    let right = run.get(after)?;
    let Some(left) = after.checked_sub(1).and_then(|before| run.get(before)) else {
        return (right.samples <= samples).then_some(*right);
    };
    let share = (samples - left.samples) / (right.samples - left.samples);
    // At a point, nothing is lost to rounding.
    let between = |from: f64, to: f64| if share < 1.0 { from + (to - from) * share } else { to };
    Some(Point {
        seconds: between(left.seconds, right.seconds),
        epochs: between(left.epochs, right.epochs),
        samples,
        value: between(left.value, right.value),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run that takes `pace` seconds for each of its points, of which the k-th comes after k + 1 samples.
    fn run(pace: f64, values: &[f64]) -> Vec<Point> {
        let points = (1_u32..).zip(values);
        points
            .map(|(number, value)| {
                let samples = f64::from(number);
                Point { seconds: pace * samples, epochs: samples / 10.0, samples, value: *value }
            })
            .collect()
    }

    fn middles(runs: &[Vec<Point>]) -> Vec<[f64; 2]> {
        together(runs, 60).iter().map(|all| [all.middle.seconds, all.middle.value]).collect()
    }

    /// The middle of two runs of different speed is between their points, also of their last ones.
    #[test]
    fn the_median_of_an_even_number_of_runs_is_in_the_middle_up_to_the_end() {
        let two = [run(1.0, &[2.0, 6.0, 8.0]), run(3.0, &[4.0, 10.0, 16.0])];
        assert_eq!(middles(&two), [[2.0, 3.0], [4.0, 8.0], [6.0, 12.0]]);
        let four = [two[0].clone(), two[1].clone(), run(2.0, &[3.0, 7.0, 9.0]), run(4.0, &[1.0, 9.0, 11.0])];
        assert_eq!(middles(&four), [[2.5, 2.5], [5.0, 8.0], [7.5, 10.0]]);
        let last = together(&four, 60)[2];
        assert_eq!((last.low, last.high, last.runs, last.middle.epochs), (8.0, 16.0, 4, 0.3));
    }

    #[test]
    fn between_points_lies_a_line_and_beyond_them_nothing() {
        let run = run(2.0, &[10.0, 20.0]);
        let value = |samples| interpolated(&run, samples).map(|point| [point.seconds, point.value]);
        assert_eq!(value(1.5), Some([3.0, 15.0]));
        assert_eq!(value(1.0), Some([2.0, 10.0]));
        assert_eq!(value(2.0), Some([4.0, 20.0]));
        assert_eq!(value(0.5), None);
        assert_eq!(value(2.5), None);
    }

    #[test]
    fn the_median_ends_where_half_of_the_runs_have_ended() {
        let runs = [2, 4, 6, 8].map(|last| run(1.0, &vec![f64::from(last); last as usize]));
        let all = together(&runs, 60);
        let ends: Vec<_> = all.iter().map(|all| (all.place, all.runs, all.middle.value)).collect();
        assert_eq!(ends[..2], [(0, 4, 5.0), (1, 4, 5.0)]);
        assert_eq!(ends.last(), Some(&(5, 2, 7.0)));
    }
}
