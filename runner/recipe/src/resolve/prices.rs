//! Price of an hour of the machines of each cell.

use crate::keys::lookup::{KeyId, id};
use crate::resolve::inventory::Known;
use crate::text::finding::Finding;
use crate::values::settings::Settings;
use crate::values::typed_key::Optional;
use crate::{Cell, Prices};
use std::collections::BTreeSet;

const PRICE: Optional<f64> = Optional::number("nodes.price");
const CURRENCY: KeyId = id("nodes.currency");

/// More letters than this are no name of a currency, and leave no room for the amount beside it.
const MOST_LETTERS: usize = 24;

/// The prices of all cells, and their problems.
pub(crate) fn of(
    settings: &Settings,
    cells: &[Cell],
    machine: Known<'_>,
    findings: &mut Vec<Finding>,
) -> Prices {
    let currency = settings.text(CURRENCY).trim().to_owned();
    let cells = cells.iter().map(|cell| hour(settings, cell, machine)).collect();
    let prices = Prices { currency, cells };
    findings.extend(wrong_currency(settings, &prices));
    if prices.is_none() { Prices::default() } else { prices }
}

/// Price of an hour of all machines that have ranks of the cell; `None` where one of them has no price.
fn hour(settings: &Settings, cell: &Cell, machine: Known<'_>) -> Option<f64> {
    let cluster = &cell.spec.cluster;
    let used: BTreeSet<u32> = cluster.placements.iter().map(|placement| placement.node).collect();
    let price = |node: u32| {
        let name = &cluster.nodes.get(node as usize)?.name;
        machine.machines.price(name, settings).or_else(|| PRICE.of(settings))
    };
    used.into_iter().map(price).sum()
}

fn wrong_currency(settings: &Settings, prices: &Prices) -> Option<Finding> {
    let leaf = settings.given(CURRENCY)?;
    let currency = &prices.currency;
    if currency.is_empty()
        || currency.chars().count() > MOST_LETTERS
        || currency.chars().any(char::is_control)
    {
        return Some(
            Finding::new("R014", format!("`{}` is no currency", settings.text(CURRENCY).escape_debug()))
                .at_option(leaf.span, format!("must be a name of 1 to {MOST_LETTERS} letters"))
                .cure("write `currency = \"EUR\"`, or leave it out"),
        );
    }
    prices.is_none().then(|| {
        Finding::new("R114", "`nodes.currency` has no effect without a price")
            .at_option(leaf.span, "the currency of which price?")
            .cure("write `price = 2.5` under `[nodes]`, or under the machines of the inventory; or leave it out")
    })
}
