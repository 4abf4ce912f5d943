//! Numbers with their unit and with as many digits as their uncertainty supports.

use recipe::Metric;

/// Decimals that leave two significant digits of the uncertainty.
pub(crate) fn decimals_for(uncertainty: f64) -> usize {
    if !uncertainty.is_finite() || uncertainty <= 0.0 {
        return 3;
    }
    (1.0 - uncertainty.log10().floor()).clamp(0.0, 6.0) as usize
}

/// Decimals that leave three significant digits of the value, for values whose uncertainty is not known.
pub(crate) fn decimals_of(value: f64) -> usize {
    if !value.is_finite() || value == 0.0 {
        return 0;
    }
    (2.0 - value.abs().log10().floor()).clamp(0.0, 6.0) as usize
}

/// A bound of an interval beside a value of `decimals` decimals: one that is far away has none.
pub(crate) fn bound(value: f64, decimals: usize) -> String {
    fixed(value, if value.abs() < 1000.0 { decimals } else { 0 })
}

/// From here on a number is written with its power of ten: what exploded, not what was measured.
const HUGE: f64 = 1e12;

/// The value with `decimals` decimals, a true minus sign, and narrow spaces between thousands from five digits on.
pub(crate) fn fixed(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return match value {
            value if value.is_nan() => "NaN".to_owned(),
            value if value > 0.0 => "\u{221e}".to_owned(),
            _ => "\u{2212}\u{221e}".to_owned(),
        };
    }
    if value.abs() >= HUGE {
        return format!("{value:.1e}").replace('-', "\u{2212}");
    }
    let text = format!("{:.decimals$}", value.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let sign =
        if value < 0.0 && text.bytes().any(|byte| (b'1'..=b'9').contains(&byte)) { "\u{2212}" } else { "" };
    format!("{sign}{}{rest}", grouped(whole))
}

/// As [`fixed`], with a plus sign above zero.
pub(crate) fn signed(value: f64, decimals: usize) -> String {
    let text = fixed(value, decimals);
    let plus = value > 0.0 && text.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    if plus { format!("+{text}") } else { text }
}

fn grouped(digits: &str) -> String {
    if digits.len() < 5 {
        return digits.to_owned();
    }
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A whole number, with spaces between thousands from five digits on.
pub(crate) fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// `3 runs`, `1 run`.
pub(crate) fn plural(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{} {noun}s", count(number as u64)) }
}

/// A value with three significant digits.
pub(crate) fn short(value: f64) -> String {
    fixed(value, decimals_of(value))
}

/// A share of one as per cent.
pub(crate) fn percent(share: f64) -> String {
    let value = share * 100.0;
    let decimals = if value.abs() >= 10.0 || value == 0.0 { 1 } else { decimals_of(value).min(2) };
    format!("{}\u{a0}%", fixed(value, decimals))
}

/// A ratio with the sign of a factor: `1.31×`.
pub(crate) fn times(ratio: f64) -> String {
    let most = if ratio >= 0.1 { 2 } else { 4 };
    let decimals = decimals_of(ratio).min(most);
    format!("{}×", fixed(ratio, decimals))
}

/// The unit that a column or an axis of one kind of values is shown in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Unit {
    /// Text behind the number; empty for bare numbers.
    pub(crate) name: &'static str,
    /// How many of it a base unit is.
    pub(crate) factor: f64,
}

impl Unit {
    pub(crate) const BARE: Self = Self { name: "", factor: 1.0 };
    pub(crate) const PER_CENT: Self = Self { name: "%", factor: 100.0 };

    /// For times about as long as this many seconds.
    pub(crate) fn of_seconds(typical: f64) -> Self {
        match typical.abs() {
            size if size < 1e-3 && size > 0.0 => Self { name: "µs", factor: 1e6 },
            size if size < 1.0 && size > 0.0 => Self { name: "ms", factor: 1e3 },
            size if size < 7200.0 => Self { name: "s", factor: 1.0 },
            _ => Self { name: "h", factor: 1.0 / 3600.0 },
        }
    }

    /// For about as many bytes.
    pub(crate) fn of_bytes(typical: f64) -> Self {
        const KIB: f64 = 1024.0;
        match typical.abs() {
            size if size < KIB => Self { name: "B", factor: 1.0 },
            size if size < KIB * KIB => Self { name: "KiB", factor: 1.0 / KIB },
            size if size < KIB * KIB * KIB => Self { name: "MiB", factor: 1.0 / (KIB * KIB) },
            _ => Self { name: "GiB", factor: 1.0 / (KIB * KIB * KIB) },
        }
    }

    /// For the values of a metric.
    pub(crate) fn of_metric(metric: Metric) -> Self {
        match metric {
            Metric::TestAccuracy
            | Metric::ValidationAccuracy
            | Metric::TestTop5Accuracy
            | Metric::ValidationTop5Accuracy => Self::PER_CENT,
            Metric::TestLoss | Metric::ValidationLoss => Self { name: "nats", factor: 1.0 },
            Metric::TestPerplexity | Metric::ValidationPerplexity | Metric::ConsensusDistance => Self::BARE,
        }
    }

    /// The bare number with `decimals` decimals.
    pub(crate) fn number(self, value: f64, decimals: usize) -> String {
        fixed(value * self.factor, decimals)
    }

    /// The number and the unit, three significant digits.
    pub(crate) fn short(self, value: f64) -> String {
        self.with(short(value * self.factor))
    }

    /// The number and the unit, as many digits as the uncertainty supports.
    pub(crate) fn supported(self, value: f64, uncertainty: Option<f64>) -> String {
        self.with(self.number(value, self.decimals(value, uncertainty)))
    }

    pub(crate) fn decimals(self, value: f64, uncertainty: Option<f64>) -> usize {
        let coarse = decimals_of(value * self.factor) + 1;
        uncertainty.map_or(coarse - 1, |wide| decimals_for(wide * self.factor).min(coarse + 1))
    }

    /// The number with the unit behind it.
    pub(crate) fn with(self, number: String) -> String {
        if self.name.is_empty() { number } else { format!("{number}\u{a0}{}", self.name) }
    }
}

/// A time with three significant digits.
pub(crate) fn seconds(value: f64) -> String {
    Unit::of_seconds(value).short(value)
}

/// Bytes with three significant digits.
pub(crate) fn bytes(value: f64) -> String {
    Unit::of_bytes(value).short(value)
}

/// Three decimals below 0.1, else two; the smallest value shown is 0.001.
pub(crate) fn p_value(p: f64) -> String {
    match p {
        p if p < 0.001 => "< 0.001".to_owned(),
        p if p < 0.1 => fixed(p, 3),
        p => fixed(p, 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_follow_uncertainty() {
        for (uncertainty, decimals) in [(16.5, 0), (1.6, 1), (0.16, 2), (0.016, 3), (240.0, 0), (0.0, 3)] {
            assert_eq!(decimals_for(uncertainty), decimals, "{uncertainty}");
        }
        let unit = Unit::of_seconds(400.0);
        assert_eq!(unit.supported(412.345, Some(16.5)), "412\u{a0}s");
        assert_eq!(unit.supported(412.345, Some(1.65)), "412.3\u{a0}s");
        assert_eq!(unit.supported(412.345, None), "412\u{a0}s");
        assert_eq!(Unit::of_seconds(0.0123).supported(0.012_345, Some(0.000_2)), "12.35\u{a0}ms");
    }

    #[test]
    fn signs_and_thousands() {
        assert_eq!(fixed(-1234.5, 1), "\u{2212}1234.5");
        assert_eq!(fixed(12345.0, 0), "12\u{202f}345");
        assert_eq!(fixed(-0.001, 1), "0.0");
        assert_eq!(signed(0.12, 1), "+0.1");
        assert_eq!(signed(0.01, 1), "0.0");
        assert_eq!(fixed(f64::NAN, 2), "NaN");
        assert_eq!(fixed(1.23e30, 4), "1.2e30");
        assert_eq!(short(-1.23e30), "\u{2212}1.2e30");
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
    }

    #[test]
    fn a_bound_far_away_has_no_decimals() {
        assert_eq!([bound(1.305, 2), bound(999.994, 2)], ["1.30", "999.99"]);
        assert_eq!([bound(40_857.79, 2), bound(-1_000.4, 2)], ["40\u{202f}858", "\u{2212}1000"]);
    }

    #[test]
    fn units_fit_the_size() {
        assert_eq!(seconds(0.000_5), "500\u{a0}µs");
        assert_eq!(seconds(0.0), "0\u{a0}s");
        assert_eq!(seconds(90.0), "90.0\u{a0}s");
        assert_eq!(seconds(36_000.0), "10.0\u{a0}h");
        assert_eq!(bytes(1536.0), "1.50\u{a0}KiB");
        assert_eq!(percent(0.9712), "97.1\u{a0}%");
        assert_eq!(percent(0.005), "0.50\u{a0}%");
        assert_eq!(times(1.3149), "1.31×");
        assert_eq!(times(0.0612), "0.0612×");
        assert_eq!(times(0.75), "0.75×");
        assert_eq!(p_value(0.0286), "0.029");
    }
}
