//! Holm's step-down correction for several comparisons.

/// Adjusted p values in the order given; those that are `None` take no part.
///
/// Holm, S. (1979), "A simple sequentially rejective multiple test procedure": the i-th smallest of m is
/// multiplied by m - i + 1, and no adjusted value is below one before it.
pub(crate) fn holm(p_values: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<(usize, f64)> =
        p_values.iter().enumerate().filter_map(|(place, p)| p.map(|p| (place, p))).collect();
    order.sort_by(|left, right| left.1.total_cmp(&right.1));
    let count = order.len();
    let mut adjusted = vec![None; p_values.len()];
    let mut floor = 0.0_f64;
    for (rank, (place, p)) in order.into_iter().enumerate() {
        floor = floor.max((p * (count - rank) as f64).min(1.0));
        adjusted[place] = Some(floor);
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_down() {
        let close = |found: &[Option<f64>], wanted: &[Option<f64>]| {
            assert_eq!(found.len(), wanted.len());
            for (found, wanted) in found.iter().zip(wanted) {
                match (found, wanted) {
                    (Some(found), Some(wanted)) => assert!((found - wanted).abs() < 1e-12),
                    (found, wanted) => assert_eq!(found, wanted),
                }
            }
        };
        close(&holm(&[]), &[]);
        close(&holm(&[Some(0.03)]), &[Some(0.03)]);
        close(
            &holm(&[Some(0.01), Some(0.04), Some(0.03), Some(0.005)]),
            &[Some(0.03), Some(0.06), Some(0.06), Some(0.02)],
        );
        close(&holm(&[Some(0.6), None, Some(0.9)]), &[Some(1.0), None, Some(1.0)]);
    }

    #[test]
    fn five_repeats_settle_four_arms_at_five_percent_and_four_do_not() {
        let smallest = |p: f64| holm(&[Some(p); 4])[0].unwrap();
        assert!(smallest(2.0 / 252.0) < 0.05);
        assert!(smallest(2.0 / 70.0) > 0.05);
    }
}
