//! Reads the list of slow ranks, `nodes.slow`.

use crate::Whom;
use crate::keys::key::Kind;
use crate::keys::lookup;
use crate::text::finding::Finding;
use crate::text::tree::{Item, Value};
use crate::values::fields::{Fields, entries, noted, without_misspelt};
use crate::values::slow::{SlowSetting, Whose};
use crate::values::value;

const TABLE: &str = "nodes.slow";

/// Reads a list of slow ranks.
pub(crate) fn read(item: &Item) -> Result<Vec<SlowSetting>, Vec<Finding>> {
    match (&item.value, lookup::find(TABLE)) {
        (Value::List(items), _) => entries(items, one),
        (_, Some(key)) => Err(vec![value::wrong_type(key, item, value::expected(&Kind::Slow))]),
        _ => Ok(Vec::new()),
    }
}

fn one(item: &Item) -> Result<SlowSetting, Vec<Finding>> {
    let Value::Table(table) = &item.value else {
        let found = Finding::new("R011", format!("a slow rank is a table, not {}", item.value.describe()))
            .at(item.span, "expected a table")
            .note(value::more(TABLE));
        return Err(vec![found]);
    };
    let fields = Fields { path: TABLE, table };
    let mut problems = fields.unknown(None);
    let whose = noted(whose(item, fields), &mut problems);
    let [compute, link, probability] =
        ["compute", "link", "probability"].map(|name| noted(fields.number(name), &mut problems));
    let factor = |read: Option<Option<f64>>| read.flatten().unwrap_or(1.0);
    let Some(whose) = whose.filter(|_| problems.is_empty()) else { return Err(without_misspelt(problems)) };
    let slow = SlowSetting {
        whose,
        compute: factor(compute),
        link: factor(link),
        probability: factor(probability),
        span: item.span,
    };
    refuse_without_effect(&slow, item).map_err(|problem| vec![problem])?;
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
