//! The numbers that count as a time or a rate.

/// Whether the number can be a time or a rate: finite and not negative. NaN is neither.
pub(crate) fn is_amount(number: f64) -> bool {
    number.is_finite() && number >= 0.0
}
