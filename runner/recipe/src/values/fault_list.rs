//! Reads the list of faults, `[[faults]]`.

use crate::keys::key::Kind;
use crate::keys::lookup;
use crate::spec::family::Family;
use crate::text::finding::Finding;
use crate::text::tree::{Item, Value};
use crate::values::fault::{FaultSetting, Stricken};
use crate::values::fields::{Fields, entries, noted, without_misspelt};
use crate::values::value;
use crate::{FaultAction, FaultKind};

const TABLE: &str = "faults";

/// Reads a list of faults.
pub(crate) fn read(item: &Item) -> Result<Vec<FaultSetting>, Vec<Finding>> {
    match (&item.value, lookup::find(TABLE)) {
        (Value::List(items), _) => entries(items, one),
        (_, Some(key)) => Err(vec![value::wrong_type(key, item, value::expected(&Kind::Faults))
            .cure("write `[[faults]]` in front of it, or a list: `faults = [{ kind = \"kill\", rank = 2, step = 40 }]`")]),
        _ => Ok(Vec::new()),
    }
}

fn one(item: &Item) -> Result<FaultSetting, Vec<Finding>> {
    let Value::Table(table) = &item.value else {
        let found = Finding::new("R011", format!("a fault is a table, not {}", item.value.describe()))
            .at(item.span, "expected a table")
            .note(value::more(TABLE));
        return Err(vec![found]);
    };
    let fields = Fields { path: TABLE, table };
    let mut problems = Vec::new();
    let kind = noted(kind(item, fields), &mut problems);
    problems.extend(fields.unknown(kind.map(FaultKind::name)));
    let whom = noted(whom(item, fields), &mut problems);
    let step = noted(step(item, fields), &mut problems);
    let action = kind.and_then(|kind| noted(action(kind, item, fields), &mut problems));
    match (whom, step, action) {
        (Some(whom), Some(step), Some(action)) if problems.is_empty() => {
            ends_later(action, step, item).map_err(|problem| vec![problem])?;
            Ok(FaultSetting { whom, step, action, span: item.span })
        }
        _ => Err(without_misspelt(problems)),
    }
}

fn kind(item: &Item, fields: Fields<'_>) -> Result<FaultKind, Finding> {
    let kind = fields.text("kind")?.and_then(|name| FaultKind::named(&name));
    kind.ok_or_else(|| {
        let kinds: Vec<&str> = FaultKind::ALL.iter().map(|kind| kind.name()).collect();
        missing(
            item,
            "what happens",
            "`kind` is missing",
            format!("write one of {}: `kind = \"kill\"`", kinds.join(", ")),
        )
    })
}

fn step(item: &Item, fields: Fields<'_>) -> Result<u64, Finding> {
    fields.whole("step")?.ok_or_else(|| {
        missing(
            item,
            "when it strikes",
            "`step` is missing",
            "write `step = 40` for the beginning of a rank's step 40",
        )
    })
}

fn whom(item: &Item, fields: Fields<'_>) -> Result<Stricken, Finding> {
    match (fields.whole("rank")?, fields.text("host")?) {
        (Some(rank), None) => Ok(Stricken::Rank(rank as u32)),
        (None, Some(host)) => Ok(Stricken::Host(host)),
        (None, None) => Err(missing(
            item,
            "whom it strikes",
            "`rank` or `host` is missing",
            "write `rank = 2`, or `host = \"lab02\"` for all ranks of a machine",
        )),
        (Some(_), Some(_)) => Err(Finding::new("R016", "an entry of `faults` says twice whom it strikes")
            .at(item.span, "one of `rank` and `host`")
            .cure("keep one of them, or write an entry for each")),
    }
}

fn action(kind: FaultKind, item: &Item, fields: Fields<'_>) -> Result<FaultAction, Finding> {
    match kind {
        FaultKind::Kill => Ok(FaultAction::Kill),
        FaultKind::Pause => Ok(FaultAction::Pause { length: fields.duration("for")? }),
        FaultKind::DropLink => dropped_link(item, fields),
        FaultKind::Slow => slowness(item, fields),
    }
}

fn dropped_link(item: &Item, fields: Fields<'_>) -> Result<FaultAction, Finding> {
    if let Some(peer) = fields.whole("peer")? {
        return Ok(FaultAction::DropLink { peer: peer as u32 });
    }
    // A rank has no link to itself.
    let peer = u8::from(fields.whole("rank")? == Some(0));
    let cure = format!("write `peer = {peer}` for the link between the rank and rank {peer}");
    Err(missing(item, "which link", "`peer` is missing", cure))
}

fn slowness(item: &Item, fields: Fields<'_>) -> Result<FaultAction, Finding> {
    let compute = fields.number("compute")?.ok_or_else(|| {
        missing(
            item,
            "how slow",
            "`compute` is missing",
            "write `compute = 4.0` for computing that takes four times as long",
        )
    })?;
    if compute <= 1.0 {
        return Err(Finding::new("R114", "a fault that changes nothing")
            .at(item.span, "without effect")
            .cure("write `compute = 4.0`, for example"));
    }
    Ok(FaultAction::Slow { compute, until: fields.whole("until")? })
}

/// Refuses slowness that ends before it begins.
fn ends_later(action: FaultAction, step: u64, item: &Item) -> Result<(), Finding> {
    match action {
        FaultAction::Slow { until: Some(until), .. } if until <= step => {
            Err(Finding::new("R188", format!("slow from step {step} until step {until}: for no step"))
                .at(item.span, "ends before it begins")
                .note("`until` is the first step that is as fast as before")
                .cure(format!("write `until = {}` or more", step.saturating_add(1))))
        }
        FaultAction::Kill
        | FaultAction::Pause { .. }
        | FaultAction::DropLink { .. }
        | FaultAction::Slow { .. } => Ok(()),
    }
}

fn missing(item: &Item, what: &str, label: &str, cure: impl Into<String>) -> Finding {
    Finding::new("R010", format!("an entry of `faults` does not say {what}"))
        .at(item.span, label)
        .note(value::more(TABLE))
        .cure(cure)
}
