//! Prices of machines, of several sweeps that are shown as one.

use super::Side;
use recipe::Prices;
use std::collections::BTreeSet;

/// No price yet, in the currency of the first side that names one.
pub(crate) fn none_yet(sides: &[Side<'_>]) -> Prices {
    let mut currencies = sides.iter().map(|side| &side.rows.plan.report.prices.currency);
    let currency = currencies.find(|currency| !currency.is_empty()).cloned().unwrap_or_default();
    Prices { currency, cells: Vec::new() }
}

/// Prices in two currencies cannot be compared. A side without prices has none.
pub(crate) fn in_one_currency(sides: &[Side<'_>]) -> bool {
    let prices = sides.iter().map(|side| &side.rows.plan.report.prices);
    let currencies: BTreeSet<&String> =
        prices.filter(|prices| !prices.is_none()).map(|prices| &prices.currency).collect();
    currencies.len() < 2
}
