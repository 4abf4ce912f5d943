//! How an axis stretches its values: evenly, by their logarithm, or by the logarithm of the error that is left.

/// The stretch of an axis. All rise with the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stretch {
    Linear,
    /// Equal ratios are equally long.
    Logarithm,
    /// Of a share of one: each halving of the distance to one is equally long.
    Error,
}

/// Smaller amounts are drawn as this one.
const SMALLEST: f64 = 1e-12;

impl Stretch {
    /// The value in the axis's own measure.
    pub(crate) fn stretched(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Logarithm => value.max(SMALLEST).log10(),
            Self::Error => -(1.0 - value).max(SMALLEST).log10(),
        }
    }

    /// Name by which the page's script knows the stretch.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Logarithm => "logarithm",
            Self::Error => "error",
        }
    }

    /// At most `count` values between two that lie at round amounts of the stretched quantity, with the decimals that each
    /// needs once it is multiplied by `factor`. `None` if fewer than two fit: the range is too narrow for them.
    pub(crate) fn round_values(
        self,
        low: f64,
        high: f64,
        factor: f64,
        count: usize,
    ) -> Option<Vec<(f64, usize)>> {
        let (least, most) = match self {
            Self::Linear => return None,
            Self::Logarithm => (low * factor, high * factor),
            Self::Error => ((1.0 - high) * factor, (1.0 - low) * factor),
        };
        let amounts = round_amounts(least.max(SMALLEST), most.max(SMALLEST), count)?;
        let value = |amount: f64| match self {
            Self::Linear | Self::Logarithm => amount / factor,
            Self::Error => 1.0 - amount / factor,
        };
        let decimals = |amount: f64| (-(amount.log10() + 1e-9).floor()).clamp(0.0, 9.0) as usize;
        let mut values: Vec<(f64, usize)> =
            amounts.into_iter().map(|amount| (value(amount), decimals(amount))).collect();
        values.sort_by(|left, right| left.0.total_cmp(&right.0));
        Some(values)
    }
}

/// The densest of the usual divisions of a decade that has at most `count` amounts between two positive ones.
fn round_amounts(least: f64, most: f64, count: usize) -> Option<Vec<f64>> {
    const DIVISIONS: [&[f64]; 4] = [&[1.0, 2.0, 3.0, 5.0, 7.0], &[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
    let from = least.log10().floor() as i32;
    let to = most.log10().ceil() as i32;
    let between = |stride: usize, division: &[f64]| -> Vec<f64> {
        let powers = (from..=to).filter(|power| power.rem_euclid(stride as i32) == 0);
        powers
            .flat_map(|power| division.iter().map(move |times| times * 10_f64.powi(power)))
            .filter(|amount| *amount >= least * (1.0 - 1e-9) && *amount <= most * (1.0 + 1e-9))
            .collect()
    };
    let divided = DIVISIONS.into_iter().map(|division| between(1, division));
    let powers = (2..=30).map(|stride| between(stride, &[1.0]));
    divided.chain(powers).find(|amounts| amounts.len() <= count).filter(|amounts| amounts.len() >= 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_round_and_few() {
        for (least, most, count, amounts) in [
            (0.5, 60.0, 7, &[0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0][..]),
            (2.0, 10.0, 7, &[2.0, 3.0, 5.0, 7.0, 10.0]),
            (0.001, 1000.0, 7, &[0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0]),
            (1e-6, 1e6, 7, &[1e-6, 1e-4, 1e-2, 1.0, 1e2, 1e4, 1e6]),
        ] {
            let found = round_amounts(least, most, count).unwrap();
            assert_eq!(found.len(), amounts.len(), "{found:?}");
            assert!(
                found.iter().zip(amounts).all(|(left, right)| (left / right - 1.0).abs() < 1e-12),
                "{found:?}"
            );
        }
        assert_eq!(round_amounts(2.1, 2.9, 7), None);
    }

    #[test]
    fn each_halving_of_the_error_is_equally_long() {
        let [far, near, nearer] = [0.9, 0.95, 0.975].map(|value| Stretch::Error.stretched(value));
        assert!(((near - far) - (nearer - near)).abs() < 1e-12);
        let values = Stretch::Error.round_values(0.5, 0.995, 100.0, 7).unwrap();
        let shown: Vec<String> =
            values.iter().map(|(value, decimals)| format!("{:.decimals$}", value * 100.0)).collect();
        assert_eq!(shown, ["50", "80", "90", "95", "98", "99", "99.5"]);
    }

    #[test]
    fn what_has_no_logarithm_is_drawn_at_the_end() {
        for (stretch, value, wanted) in
            [(Stretch::Logarithm, 0.0, -12.0), (Stretch::Logarithm, -1.0, -12.0), (Stretch::Error, 1.0, 12.0)]
        {
            assert!((stretch.stretched(value) - wanted).abs() < 1e-9, "{stretch:?} of {value}");
        }
    }
}
