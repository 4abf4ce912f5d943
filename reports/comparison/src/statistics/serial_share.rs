//! The share of the work that more workers do not shorten.
//!
//! Amdahl, G. M. (1967), "Validity of the single processor approach to achieving large scale computing capabilities": the time on n
//! workers is serial + parallel / n. Both parts are fitted by least squares of the relative errors, since short times are known as
//! well as long ones in proportion to them.

/// A number of workers and the time that they took.
#[derive(Clone, Copy, Debug)]
pub struct TimeOnWorkers {
    /// Number of workers, at least one.
    pub workers: f64,
    /// Time on this number of workers, in any unit, above zero.
    pub time: f64,
}

/// The fitted parts, in the unit of the times; none is below zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Amdahl {
    /// Time that more workers do not shorten.
    pub serial: f64,
    /// Time on one worker that n workers divide by n.
    pub parallel: f64,
}

/// Fewer numbers of workers than this leave no error to judge a fit of two parts by.
const FEWEST: usize = 3;

impl Amdahl {
    /// `None` for fewer than three numbers of workers, or if a time is not above zero.
    pub fn fitted(points: &[TimeOnWorkers]) -> Option<Self> {
        let mut workers: Vec<f64> = points.iter().map(|point| point.workers).collect();
        workers.sort_by(f64::total_cmp);
        workers.dedup();
        let sound =
            points.iter().all(|point| point.workers > 0.0 && point.time > 0.0 && point.time.is_finite());
        if workers.len() < FEWEST || !sound {
            return None;
        }
        // Normal equations of Σ ((serial + parallel / n) / time - 1)².
        let mut ones = 0.0;
        let mut mixed = 0.0;
        let mut squares = 0.0;
        let mut first = 0.0;
        let mut second = 0.0;
        for point in points {
            let one = 1.0 / point.time;
            let part = 1.0 / (point.workers * point.time);
            ones += one * one;
            mixed += one * part;
            squares += part * part;
            first += one;
            second += part;
        }
        let determinant = ones * squares - mixed * mixed;
        if determinant <= 0.0 {
            return None;
        }
        let serial = (first * squares - second * mixed) / determinant;
        let parallel = (ones * second - mixed * first) / determinant;
        // Where one part would be negative, the other part is fitted alone.
        Some(match (serial < 0.0, parallel < 0.0) {
            (true, _) => Self { serial: 0.0, parallel: second / squares },
            (_, true) => Self { serial: first / ones, parallel: 0.0 },
            _ => Self { serial, parallel },
        })
    }

    /// Of the time on one worker.
    pub fn share(&self) -> f64 {
        self.serial / (self.serial + self.parallel)
    }

    /// The fitted time on a number of workers, in the unit of the times.
    pub fn time(&self, workers: f64) -> f64 {
        self.serial + self.parallel / workers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(time: impl Fn(f64) -> f64) -> Vec<TimeOnWorkers> {
        [1.0, 2.0, 4.0, 8.0]
            .into_iter()
            .map(|workers| TimeOnWorkers { workers, time: time(workers) })
            .collect()
    }

    #[test]
    fn times_of_amdahl_are_found_again() {
        let fit = Amdahl::fitted(&points(|workers| 0.3 + 2.7 / workers)).unwrap();
        assert!((fit.serial - 0.3).abs() < 1e-12 && (fit.parallel - 2.7).abs() < 1e-12);
        assert!((fit.share() - 0.1).abs() < 1e-12 && (fit.time(16.0) - 0.468_75).abs() < 1e-12);
    }

    #[test]
    fn no_part_is_below_zero() {
        let faster = Amdahl::fitted(&points(|workers| 1.0 / workers.powf(1.2))).unwrap();
        assert!(faster.serial.abs() < 1e-15 && faster.parallel > 0.0);
        let slower = Amdahl::fitted(&points(f64::sqrt)).unwrap();
        assert!(slower.parallel.abs() < 1e-15 && (slower.share() - 1.0).abs() < 1e-15);
        assert!(Amdahl::fitted(&points(|_| 1.0)[..2]).is_none());
        assert!(Amdahl::fitted(&points(|_| 0.0)).is_none());
    }
}
