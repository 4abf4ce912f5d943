//! Percentile bootstrap from a fixed seed.

use super::{Draws, RESAMPLES};

/// The interval of the mean.
pub(crate) fn mean_interval(values: &[f64], confidence: f64) -> (f64, f64) {
    let mut draws = Draws::new();
    percentiles((0..RESAMPLES).map(|_| resampled_mean(values, &mut draws)).collect(), confidence)
}

/// The interval of mean(left) - mean(right).
pub(crate) fn difference_interval(left: &[f64], right: &[f64], confidence: f64) -> (f64, f64) {
    let mut draws = Draws::new();
    let differences = (0..RESAMPLES)
        .map(|_| resampled_mean(left, &mut draws) - resampled_mean(right, &mut draws))
        .collect();
    percentiles(differences, confidence)
}

/// How often each sample has the smallest mean when all are resampled; ties count for the first. Empty
/// samples never win; a sample may hold infinities.
pub(crate) fn share_of_smallest(samples: &[Vec<f64>]) -> Vec<f64> {
    let mut draws = Draws::new();
    let mut wins = vec![0_u32; samples.len()];
    for _ in 0..RESAMPLES {
        let mut best: Option<(usize, f64)> = None;
        for (place, values) in samples.iter().enumerate().filter(|(_, values)| !values.is_empty()) {
            let mean = resampled_mean(values, &mut draws);
            if mean.is_finite() && best.is_none_or(|(_, least)| mean < least) {
                best = Some((place, mean));
            }
        }
        if let Some((place, _)) = best {
            wins[place] += 1;
        }
    }
    wins.into_iter().map(|count| f64::from(count) / RESAMPLES as f64).collect()
}

fn resampled_mean(values: &[f64], draws: &mut Draws) -> f64 {
    (0..values.len()).map(|_| values[draws.below(values.len())]).sum::<f64>() / values.len() as f64
}

fn percentiles(mut means: Vec<f64>, confidence: f64) -> (f64, f64) {
    means.sort_by(f64::total_cmp);
    let last = means.len() - 1;
    let at = |share: f64| means[(share * last as f64).round() as usize];
    (at((1.0 - confidence) / 2.0), at(f64::midpoint(1.0, confidence)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_holds_its_mean_is_repeatable_and_has_about_the_normal_width() {
        let values: Vec<f64> = (0..20).map(f64::from).collect();
        let (low, high) = mean_interval(&values, 0.95);
        assert_eq!((low, high), mean_interval(&values, 0.95));
        assert!(low < 9.5 && high > 9.5);
        let normal = 2.0 * 1.96 * (33.25_f64 / 20.0).sqrt();
        assert!(((high - low) / normal - 1.0).abs() < 0.1, "{low} {high}");
    }

    #[test]
    fn a_shift_is_found() {
        let left: Vec<f64> = (0..12).map(f64::from).collect();
        let right: Vec<f64> = left.iter().map(|value| value + 100.0).collect();
        let (low, high) = difference_interval(&left, &right, 0.95);
        assert!(low < -100.0 && high > -100.0 && high < -90.0);
    }

    #[test]
    fn the_smallest_wins() {
        let shares = share_of_smallest(&[vec![5.0, 6.0], vec![], vec![1.0, 2.0], vec![f64::INFINITY]]);
        assert_eq!(shares, [0.0, 0.0, 1.0, 0.0]);
        assert_eq!(share_of_smallest(&[]), Vec::<f64>::new());
    }
}
