//! Error in the moment at which a target was reached, because evaluations are made at a few moments only.
//!
//! A run reached it somewhere between the evaluation that showed it and the one before. If the true moments spread over a
//! cell of this grid, the means of two arms err alike, and their difference not at all; if they all fall into one place of
//! a cell, each mean may err by up to half a cell. In between the error of the mean of normal values of deviation σ, read on
//! a grid of width w, is at most (w / π) exp(-2 π² σ² / w²): the first term of the Fourier series of the quantisation error
//! (Widrow and Kollár, "Quantization Noise", 2008, section 4.2).

use super::student::least_deviation;
use std::f64::consts::PI;

/// How sure the lower bound of the spread is.
const SURE: f64 = 0.95;

/// The cells in which the runs of one arm reached a target, on a logarithmic scale.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Grid {
    /// Mean width of the cells.
    pub width: f64,
    /// The largest error of the mean of their middles.
    pub error: f64,
}

impl Grid {
    /// `ends` are the logarithms of both ends of each run's cell.
    pub fn of(ends: &[(f64, f64)]) -> Self {
        let count = ends.len() as f64;
        if ends.is_empty() {
            return Self::default();
        }
        let width = ends.iter().map(|(low, high)| high - low).sum::<f64>() / count;
        let mean = ends.iter().map(|(_, high)| high).sum::<f64>() / count;
        let squares: f64 = ends.iter().map(|(_, high)| (high - mean).powi(2)).sum();
        let deviation = if count > 1.0 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
        Self { width, error: largest_error(width, least_deviation(deviation, count - 1.0, SURE)) }
    }
}

impl Grid {
    /// The variance of a uniform error within a cell, as far as the values spread over it: one that is bounded by half a cell
    /// is an error of the mean and no spread.
    pub fn variance(&self) -> f64 {
        let spread = if self.width > 0.0 { 1.0 - 2.0 * self.error / self.width } else { 0.0 };
        self.width.powi(2) / 12.0 * spread.clamp(0.0, 1.0)
    }
}

fn largest_error(width: f64, deviation: f64) -> f64 {
    if width <= 0.0 {
        return 0.0;
    }
    let smoothed = width / PI * (-2.0 * (PI * deviation / width).powi(2)).exp();
    // Without any spread the series is that of a saw tooth, whose maximum is half a cell.
    if deviation < width / 10.0 { width / 2.0 } else { smoothed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::{ContinuousCDF, Normal};

    /// The mean of normal values rounded to the middle of their cells of width one, by summing over all cells.
    fn mean_of_middles(mean: f64, deviation: f64) -> f64 {
        let normal = Normal::new(mean, deviation).unwrap();
        (-50..50)
            .map(f64::from)
            .map(|cell| (normal.cdf(cell + 1.0) - normal.cdf(cell)) * (cell + 0.5))
            .sum::<f64>()
    }

    #[test]
    fn no_mean_errs_by_more() {
        for deviation in [0.02, 0.05, 0.11, 0.2, 0.3, 0.5, 1.0] {
            let worst = (0..100)
                .map(|place| f64::from(place) / 100.0)
                .map(|mean| (mean_of_middles(mean, deviation) - mean).abs())
                .fold(0.0, f64::max);
            let bound = largest_error(1.0, deviation);
            // The bound leaves out the higher terms, which are below 2 % of it from a tenth of a cell on.
            assert!(worst <= bound * 1.25 + 1e-12, "{deviation}: {worst} > {bound}");
        }
        assert!(largest_error(1.0, 0.5) < 0.0025);
        assert!(largest_error(0.0, 0.0).abs() < 1e-15);
    }

    #[test]
    fn runs_that_all_end_in_one_cell_leave_half_a_cell_open() {
        let grid = Grid::of(&[(1.0, 1.2); 4]);
        assert!((grid.width - 0.2).abs() < 1e-12 && (grid.error - 0.1).abs() < 1e-12);
        let spread = [(0.9, 1.0), (1.3, 1.4), (1.6, 1.7), (1.0, 1.1), (0.5, 0.6)];
        assert!(Grid::of(&spread).error < 1e-3);
        assert_eq!(Grid::of(&[]), Grid::default());
    }
}
