//! Whether runs of the same arm differ by more than what varies within them explains.
//!
//! Each run is a few blocks of steps. The model is x_rb = mean + run_r + e_rb of the logarithms of their mean lengths, the
//! one-way layout with random runs: if runs differ by nothing of their own, the variance of the runs' means is that of the
//! mean of a run's blocks, s_r^2 / B_r, on average over the runs. The ratio of the two is then distributed as F with R - 1 and
//! sum (B_r - 1) degrees of freedom, and what the variance of the means has beyond it is that of the runs themselves
//! (S. R. Searle, G. Casella, C. E. McCulloch, "Variance Components", 1992, section 3.6; exact where all runs have as many
//! blocks).

use comparison::statistics::{Summary, average};
use statrs::distribution::{ContinuousCDF, FisherSnedecor};
use store::BlockRow;

/// How much the runs of one arm differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    /// Variance of the runs' means; of logarithms, so that its root is a share.
    pub(crate) between: f64,
    /// The part of it that blocks within the runs explain.
    pub(crate) explained: f64,
    /// Probability of at least this ratio of the two if runs differed by nothing of their own.
    pub(crate) p: f64,
}

impl Spread {
    /// Of runs with these blocks; runs without blocks count for nothing. `None` for fewer than two.
    pub(crate) fn of(runs: &[&[BlockRow]]) -> Option<Self> {
        let mut means = Vec::new();
        let mut explained = Vec::new();
        let mut freedom = 0.0;
        for blocks in runs.iter().filter(|blocks| blocks.len() > 1) {
            let logs: Vec<f64> = blocks.iter().map(|block| (block.length.0 as f64).ln()).collect();
            let run = Summary::of(&logs)?;
            means.push(run.mean);
            explained.push(run.variance / run.size);
            freedom += run.freedom;
        }
        let means = Summary::of(&means)?;
        let between = means.variance;
        let explained = average(&explained)?;
        let p = if explained > 0.0 {
            FisherSnedecor::new(means.freedom, freedom).ok()?.sf(between / explained)
        } else if between > 0.0 {
            // Blocks of equal length: any difference is one of the runs.
            0.0
        } else {
            1.0
        };
        Some(Self { between, explained, p })
    }

    /// Standard deviation between runs that blocks within them do not explain, as a share of the step time.
    pub(crate) fn excess(&self) -> f64 {
        (self.between - self.explained).max(0.0).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Nanos;

    fn blocks(lengths: &[f64]) -> Vec<BlockRow> {
        lengths.iter().map(|length| BlockRow { steps: 50, length: Nanos((length * 1e9) as u64) }).collect()
    }

    fn spread(runs: &[&[f64]]) -> Option<Spread> {
        let runs: Vec<Vec<BlockRow>> = runs.iter().map(|lengths| blocks(lengths)).collect();
        Spread::of(&runs.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    #[test]
    fn the_parts_of_the_variance_by_hand() {
        // Logarithms 0 and 2, 1 and 3, 5 and 7: means 1, 2, 6 with variance 7; within each run variance 2, of a mean 1.
        let e = |power: f64| power.exp();
        let found = spread(&[&[e(0.0), e(2.0)], &[e(1.0), e(3.0)], &[e(5.0), e(7.0)]]).unwrap();
        assert!((found.between - 7.0).abs() < 1e-6 && (found.explained - 1.0).abs() < 1e-6, "{found:?}");
        assert!((found.excess() - 6.0_f64.sqrt()).abs() < 1e-6);
        // P(F(2, 3) >= 7) = (1 + 2 * 7 / 3)^(-3 / 2).
        assert!((found.p - (1.0 + 14.0 / 3.0_f64).powf(-1.5)).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn runs_with_other_numbers_of_blocks_count_by_their_own() {
        // Variances 2 over two blocks and 4 over four: of means 1 and 1.
        let e = |power: f64| power.exp();
        let four = [e(9.0), e(9.0 + 2.0 * 1.5_f64.sqrt()), e(9.0), e(9.0 + 2.0 * 1.5_f64.sqrt())];
        let found = spread(&[&[e(0.0), e(2.0)], &four]).unwrap();
        assert!((found.explained - 0.75).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn one_run_and_runs_without_blocks_say_nothing() {
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[&[1.0, 1.1]]), None);
        assert_eq!(spread(&[&[1.0, 1.1], &[], &[2.0]]), None);
    }

    #[test]
    fn blocks_that_are_all_equal_leave_everything_to_the_runs() {
        let same = spread(&[&[1.0, 1.0], &[1.0, 1.0]]).unwrap();
        assert_eq!((same.excess(), same.p), (0.0, 1.0));
        let apart = spread(&[&[1.0, 1.0], &[2.0, 2.0]]).unwrap();
        assert!(apart.p < 1e-12 && (apart.excess() - 2.0_f64.ln() / 2.0_f64.sqrt()).abs() < 1e-6);
    }
}
