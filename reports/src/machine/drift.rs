//! Whether step times grow or fall with the time of the start: a slope that all arms have in common.
//!
//! y_ci = a_c + b x_ci + e_ci, where y is the logarithm of the step time of run i of arm and condition c and x its start:
//! least squares with an intercept for each c and one slope (N. R. Draper, H. Smith, "Applied Regression Analysis", 3rd ed.
//! 1998, section 1.3 for the slope and its interval, chapter 14 for the intercepts). The intercepts take up what arms differ
//! by, so that arms in separate blocks do not look like a drift, nor a drift between them like an arm.

use comparison::statistics::student_quantile;

/// A run in the regression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    /// Which arm under which condition.
    pub(crate) cell: usize,
    /// Start, in seconds from any moment.
    pub(crate) start: f64,
    /// Step time in seconds.
    pub(crate) step: f64,
}

/// A slope of logarithms, per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slope {
    pub(crate) value: f64,
    /// Lower end of the confidence interval; `high` is the upper one.
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Slope {
    /// The change of the step time within `seconds`, as a share: value, low, high.
    pub(crate) fn over(&self, seconds: f64) -> [f64; 3] {
        [self.value, self.low, self.high].map(|slope| (slope * seconds).exp_m1())
    }
}

/// The common slope; `None` if fewer than two degrees of freedom are left, or all runs of each cell began at once.
pub(crate) fn slope(points: &[Point], confidence: f64) -> Option<Slope> {
    let cells: std::collections::BTreeSet<usize> = points.iter().map(|point| point.cell).collect();
    let freedom = points.len().checked_sub(cells.len() + 1).filter(|freedom| *freedom >= 2)? as f64;
    let mut sums = [0.0; 3];
    for cell in cells {
        let own: Vec<(f64, f64)> = points
            .iter()
            .filter(|point| point.cell == cell)
            .map(|point| (point.start, point.step.ln()))
            .collect();
        let count = own.len() as f64;
        let x = own.iter().map(|(x, _)| x).sum::<f64>() / count;
        let y = own.iter().map(|(_, y)| y).sum::<f64>() / count;
        for (own_x, own_y) in own {
            let x = own_x - x;
            let y = own_y - y;
            sums[0] += x * x;
            sums[1] += x * y;
            sums[2] += y * y;
        }
    }
    let [xx, xy, yy] = sums;
    let value = xy / xx;
    let error = ((yy - value * xy).max(0.0) / freedom / xx).sqrt();
    let half = student_quantile(0.5 + confidence / 2.0, freedom)? * error;
    (value.is_finite() && half.is_finite()).then_some(Slope { value, low: value - half, high: value + half })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(cell: usize, runs: &[(f64, f64)]) -> Vec<Point> {
        runs.iter().map(|(start, log)| Point { cell, start: *start, step: log.exp() }).collect()
    }

    #[test]
    fn one_arm_by_hand() {
        // x 0..3, y 0, 1, 1, 2: Sxx 5, Sxy 3, Syy 2; slope 0.6, residual variance (2 - 1.8) / 2.
        let found = slope(&points(0, &[(0.0, 0.0), (1.0, 1.0), (2.0, 1.0), (3.0, 2.0)]), 0.95).unwrap();
        let half = 4.302_653 * (0.1_f64 / 5.0).sqrt();
        assert!((found.value - 0.6).abs() < 1e-9, "{found:?}");
        assert!((found.high - 0.6 - half).abs() < 1e-5 && (0.6 - found.low - half).abs() < 1e-5, "{found:?}");
        let [value, low, high] = found.over(2.0);
        assert!((value - (1.2_f64.exp() - 1.0)).abs() < 1e-9 && low < value && value < high);
    }

    #[test]
    fn arms_in_blocks_are_no_drift_of_either() {
        // The second arm is slower and later; neither changes.
        let mut runs = points(0, &[(0.0, 1.0), (1.0, 1.1), (2.0, 1.0)]);
        runs.extend(points(1, &[(100.0, 3.0), (101.0, 3.1), (102.0, 3.0)]));
        assert!(slope(&runs, 0.95).unwrap().value.abs() < 1e-9);
        // In turn with a common slope the intercepts cost nothing.
        let mut runs = points(0, &[(0.0, 1.0), (2.0, 1.2), (4.0, 1.4)]);
        runs.extend(points(1, &[(1.0, 5.1), (3.0, 5.3), (5.0, 5.5)]));
        let found = slope(&runs, 0.95).unwrap();
        assert!((found.value - 0.1).abs() < 1e-9 && found.high - found.low < 1e-6, "{found:?}");
    }

    #[test]
    fn too_few_runs_have_no_slope() {
        assert_eq!(slope(&[], 0.95), None);
        assert_eq!(slope(&points(0, &[(0.0, 1.0), (1.0, 1.0), (2.0, 1.0)]), 0.95), None);
        let mut each = points(0, &[(0.0, 1.0), (1.0, 1.0)]);
        each.extend(points(1, &[(0.5, 1.0), (1.5, 1.0)]));
        assert_eq!(slope(&each, 0.95), None);
        assert_eq!(slope(&points(0, &[(7.0, 1.0); 5]), 0.95), None);
    }
}
