//! The slow ranks of `nodes.slow`, as a recipe lists them.

use crate::key::{self, Kind};
use crate::problem::Finding;
use crate::setting::Typed;
use crate::source::Span;
use crate::tree::{Item, Table, Value};
use crate::value;
use crate::{Cluster, Role, Slow, Whom};

/// Slow ranks and where they are written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SlowSetting {
    pub(crate) whose: Whose,
    pub(crate) compute: f64,
    pub(crate) link: f64,
    pub(crate) probability: f64,
    pub(crate) span: Span,
}

/// Which ranks an entry means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Whose {
    These(Whom),
    /// Every server: which ranks these are depends on the arm, and some have none.
    Servers,
}

impl SlowSetting {
    /// What the entry means in a cluster; nothing for the servers of one without.
    pub(crate) fn among(&self, cluster: &Cluster) -> Vec<Slow> {
        let Self { compute, link, probability, .. } = *self;
        let slow = |whom| Slow { whom, compute, link, probability };
        match self.whose {
            Whose::These(whom) => vec![slow(whom)],
            Whose::Servers => {
                let ranks = (0_u32..).zip(&cluster.seats).filter(|(_, seat)| seat.role == Role::Server);
                ranks.map(|(rank, _)| slow(Whom::Rank(rank))).collect()
            }
        }
    }

    /// In a few letters, for labels: `rank3:compute*4,link/10`.
    pub(crate) fn label(&self) -> String {
        let Self { compute, link, probability, .. } = *self;
        let whom = match self.whose {
            Whose::These(Whom::Rank(rank)) => format!("rank{rank}"),
            Whose::These(Whom::Random(count)) => format!("random{count}"),
            Whose::Servers => "servers".to_owned(),
        };
        let often = if probability < 1.0 { format!("@{probability}") } else { String::new() };
        let compute = (compute > 1.0).then(|| format!("compute*{compute}{often}"));
        let link = (link > 1.0).then(|| format!("link/{link}"));
        let parts: Vec<String> = compute.into_iter().chain(link).collect();
        format!("{whom}:{}", parts.join(","))
    }
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
    let slow = SlowSetting {
        whose: whose(item, table)?,
        compute: number(table, "compute")?.unwrap_or(1.0),
        link: number(table, "link")?.unwrap_or(1.0),
        probability: number(table, "probability")?.unwrap_or(1.0),
        span: item.span,
    };
    refuse_without_effect(&slow, item)?;
    Ok(slow)
}

fn whose(item: &Item, table: &Table) -> Result<Whose, Finding> {
    let rank = whole(table, "rank")?.map(|rank| Whose::These(Whom::Rank(rank)));
    let random = whole(table, "random")?.map(|count| Whose::These(Whom::Random(count)));
    let servers = flag(table, "servers")?.then_some(Whose::Servers);
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

fn flag(table: &Table, name: &str) -> Result<bool, Finding> {
    Ok(matches!(typed(table, name)?, Some(Typed::Flag(true))))
}

fn number(table: &Table, name: &str) -> Result<Option<f64>, Finding> {
    Ok(typed(table, name)?.and_then(|typed| typed.number()))
}
