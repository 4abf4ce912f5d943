//! Reads the list of slow ranks, `nodes.slow`.

use crate::Whom;
use crate::keys::key::Kind;
use crate::keys::lookup;
use crate::text::finding::Finding;
use crate::text::tree::{Item, Value};
use crate::values::fields::Fields;
use crate::values::slow::{SlowSetting, Whose};
use crate::values::value;

const TABLE: &str = "nodes.slow";

/// Reads a list of slow ranks; the first problem is reported.
pub(crate) fn read(item: &Item) -> Result<Vec<SlowSetting>, Finding> {
    match (&item.value, lookup::find(TABLE)) {
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
    let fields = Fields { path: TABLE, table };
    fields.refuse_unknown(None)?;
    let slow = SlowSetting {
        whose: whose(item, fields)?,
        compute: fields.number("compute")?.unwrap_or(1.0),
        link: fields.number("link")?.unwrap_or(1.0),
        probability: fields.number("probability")?.unwrap_or(1.0),
        span: item.span,
    };
    refuse_without_effect(&slow, item)?;
    Ok(slow)
}

fn whose(item: &Item, fields: Fields<'_>) -> Result<Whose, Finding> {
    let rank = fields.whole("rank")?.map(|rank| Whose::These(Whom::Rank(rank as u32)));
    let random = fields.whole("random")?.map(|count| Whose::These(Whom::Random(count as u32)));
    let servers = fields.flag("servers")?.then_some(Whose::Servers);
    let mut said = [rank, random, servers].into_iter().flatten();
    match (said.next(), said.next()) {
        (Some(whose), None) => Ok(whose),
        (None, _) => Err(Finding::new("R010", "an entry of `nodes.slow` does not say who is slow")
            .at(item.span, "`rank`, `random` or `servers` is missing")
            .cure(
                "write `rank = 3`, `random = 1` for a worker drawn by the run's seed, or `servers = true`",
            )),
        (Some(_), Some(_)) => Err(Finding::new("R016", "an entry of `nodes.slow` says twice who is slow")
            .at(item.span, "one of `rank`, `random` and `servers`")
            .cure("keep one of them, or write an entry for each")),
    }
}

fn refuse_without_effect(slow: &SlowSetting, item: &Item) -> Result<(), Finding> {
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
