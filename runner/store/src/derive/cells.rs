//! Cells whose width is a fixed share of the value, so that one set of them suits nanoseconds and hours.
//!
//! Up to 2^(BITS + 1) each value has its own cell; beyond that, 2^BITS cells divide each factor of two.

/// The cell of a value.
pub(crate) fn cell_of<const BITS: u32>(value: u64) -> u32 {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(BITS + 1);
    (shift << BITS) + u32::try_from(value >> shift).unwrap_or(u32::MAX)
}

/// The smallest and the largest value of a cell; beyond the last cell, those of the last one.
pub(crate) fn range_of<const BITS: u32>(cell: u32) -> (u64, u64) {
    let cell = cell.min(cell_of::<BITS>(u64::MAX));
    let shift = (cell >> BITS).saturating_sub(1);
    let first = u64::from(cell - (shift << BITS)) << shift;
    (first, first + ((1_u64 << shift) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check<const BITS: u32>(value: u64) {
        let (first, last) = range_of::<BITS>(cell_of::<BITS>(value));
        assert!((first..=last).contains(&value), "{value}");
        assert!(last - first <= value >> BITS, "{value}");
        assert!(last == u64::MAX || cell_of::<BITS>(last + 1) == cell_of::<BITS>(value) + 1, "{value}");
    }

    proptest! {
        #[test]
        fn every_value_is_in_the_range_of_its_cell(value in prop_oneof![any::<u64>(), 0..5_000_u64], shift in 0..64_u32) {
            check::<5>(value >> shift);
            check::<10>(value >> shift);
        }
    }
}
