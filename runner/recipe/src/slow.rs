//! The slow ranks of `nodes.slow`, as a recipe lists them.

use crate::key::{self, Kind};
use crate::problem::Finding;
use crate::setting::Typed;
use crate::source::Span;
use crate::tree::{Item, Table, Value};
use crate::value;
use crate::{Slow, Whom};

/// Slow ranks and where they are written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SlowSetting {
    pub(crate) slow: Slow,
    pub(crate) span: Span,
}

const TABLE: &str = "nodes.slow";

/// Reads a list of slow ranks; the first problem is reported.
pub(crate) fn read(item: &Item) -> Result<Vec<SlowSetting>, Finding> {
    match (&item.value, key::find(TABLE)) {
        (Value::List(items), _) => items.iter().map(one).collect(),
        (_, Some(key)) => Err(value::wrong_type(key, item, value::expected(&Kind::Slow))),
        _ => Ok(Vec::new()),
    }
}

fn one(item: &Item) -> Result<SlowSetting, Finding> {
    let Value::Table(table) = &item.value else {
        return Err(Finding::new("R011", format!("a slow rank is a table, not {}", item.value.describe()))
            .at(item.span, "expected a table")
            .note(value::more(TABLE)));
    };
    refuse_unknown(table)?;
    let slow = Slow {
        whom: whom(item, table)?,
        compute: number(table, "compute")?.unwrap_or(1.0),
        link: number(table, "link")?.unwrap_or(1.0),
        probability: number(table, "probability")?.unwrap_or(1.0),
    };
    refuse_without_effect(&slow, item)?;
    Ok(SlowSetting { slow, span: item.span })
}

fn whom(item: &Item, table: &Table) -> Result<Whom, Finding> {
    match (whole(table, "rank")?, whole(table, "random")?) {
        (Some(rank), None) => Ok(Whom::Rank(rank)),
        (None, Some(count)) => Ok(Whom::Random(count)),
        (None, None) => Err(Finding::new("R010", "an entry of `nodes.slow` does not say who is slow")
            .at(item.span, "`rank` or `random` is missing")
            .cure("write `rank = 3`, or `random = 1` for a worker drawn by the run's seed")),
        (Some(_), Some(_)) => Err(Finding::new("R016", "`rank` and `random` both say who is slow")
            .at(item.span, "one of the two")
            .cure("keep one of them")),
    }
}

fn refuse_without_effect(slow: &Slow, item: &Item) -> Result<(), Finding> {
    if slow.compute <= 1.0 && slow.link <= 1.0 {
        return Err(Finding::new("R114", "an entry of `nodes.slow` that slows nothing down")
            .at(item.span, "without effect")
            .cure("write `compute = 4.0`, or `link = 10.0` with a [network]"));
    }
    if slow.probability < 1.0 && slow.link > 1.0 {
        return Err(Finding::new("R121", "a link is slow in all steps or in none")
            .at(item.span, "`probability` is for `compute`")
            .cure("give the slow link an entry of its own, without `probability`"));
    }
    Ok(())
}

fn refuse_unknown(table: &Table) -> Result<(), Finding> {
    let known: Vec<&str> = key::children(TABLE).map(key::Key::name).collect();
    match table.entries.iter().find(|entry| !known.contains(&entry.name.as_str())) {
        None => Ok(()),
        Some(entry) => Err(crate::check::unknown(entry, " in `nodes.slow`", &known, TABLE)),
    }
}

fn typed(table: &Table, name: &str) -> Result<Option<Typed>, Finding> {
    match (table.get(name), key::find(&key::join(TABLE, name))) {
        (Some(entry), Some(key)) => value::typed(key, &entry.item).map(Some),
        _ => Ok(None),
    }
}

fn whole(table: &Table, name: &str) -> Result<Option<u32>, Finding> {
    Ok(match typed(table, name)? {
        Some(Typed::Whole(number)) => Some(number as u32),
        _ => None,
    })
}

fn number(table: &Table, name: &str) -> Result<Option<f64>, Finding> {
    Ok(typed(table, name)?.and_then(|typed| typed.number()))
}
