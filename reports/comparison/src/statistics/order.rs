//! Medians and ranks.

/// The median, which may be infinite; `None` for no values or if one is NaN.
pub fn median(values: &[f64]) -> Option<f64> {
    if values.is_empty() || values.iter().any(|value| value.is_nan()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        return Some(sorted[middle]);
    }
    let low = sorted[middle - 1];
    let high = sorted[middle];
    Some(if high.is_infinite() { high } else { low.midpoint(high) })
}

/// The rank of each value from 1; equal values share the mean of their ranks. Infinities may be ranked.
pub(crate) fn mid_ranks(values: &[f64]) -> Vec<f64> {
    values
        .iter()
        .map(|value| {
            let below = values.iter().filter(|other| *other < value).count();
            let equal = values.iter().filter(|other| other.total_cmp(value).is_eq()).count();
            below as f64 + f64::midpoint(equal as f64, 1.0)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[1.0, f64::NAN]), None);
        let never = f64::INFINITY;
        assert_eq!(median(&[1.0, 2.0, never]), Some(2.0));
        assert_eq!(median(&[1.0, never]), Some(never));
        assert_eq!(median(&[1.0, 2.0, never, never]), Some(never));
    }

    #[test]
    fn ranks_of_ties_are_shared() {
        let never = f64::INFINITY;
        assert_eq!(mid_ranks(&[20.0, 10.0, never, 20.0, never]), [2.5, 1.0, 4.5, 2.5, 4.5]);
    }
}
