//! Fewer points of a curve, without losing what it did in between.

/// A point of a curve.
pub(crate) type CurvePoint = (f64, f64);

/// At most `most` points: the first, the last, and of each stretch of equally many points between them the lowest and
/// the highest. Values that are not numbers are never chosen. Below four points nothing fits, and the ends remain.
pub(crate) fn thinned(points: Vec<CurvePoint>, most: usize) -> Vec<CurvePoint> {
    if points.len() <= most.max(2) {
        return points;
    }
    let last = points.len() - 1;
    let stretches = most.saturating_sub(2) / 2;
    let mut kept = vec![points[0]];
    for stretch in 0..stretches {
        let from = 1 + stretch * (last - 1) / stretches;
        let to = 1 + (stretch + 1) * (last - 1) / stretches;
        let numbers = || (from..to).filter(|place| points[*place].1.is_finite());
        let by_value = |left: &usize, right: &usize| points[*left].1.total_cmp(&points[*right].1);
        let (Some(lowest), Some(highest)) = (numbers().min_by(by_value), numbers().max_by(by_value)) else {
            continue;
        };
        kept.push(points[lowest.min(highest)]);
        if lowest != highest {
            kept.push(points[lowest.max(highest)]);
        }
    }
    kept.push(points[last]);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(count: u32) -> Vec<CurvePoint> {
        (0..count).map(|x| (f64::from(x), 1.0)).collect()
    }

    #[test]
    fn a_single_spike_among_many_points_survives_wherever_it_is() {
        for (at, value) in [(0, 9.0), (1, 9.0), (1_234, -9.0), (50_000, 9.0), (99_998, -9.0), (99_999, 9.0)] {
            let mut points = flat(100_000);
            points[at].1 = value;
            let kept = thinned(points, 60);
            assert!(kept.len() <= 60, "{}", kept.len());
            assert!(kept.contains(&(at as f64, value)), "the spike at {at} is gone");
            assert!(kept.is_sorted_by(|left, right| left.0 < right.0));
            assert_eq!((kept[0].0, kept[kept.len() - 1].0), (0.0, 99_999.0));
        }
    }

    #[test]
    fn few_points_stay_as_they_are() {
        assert_eq!(thinned(flat(60), 60), flat(60));
        assert_eq!(thinned(flat(5), 2), [(0.0, 1.0), (4.0, 1.0)]);
        assert_eq!(thinned(Vec::new(), 60), []);
    }
}
