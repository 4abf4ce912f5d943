//! The recipe as it is run: everything merged, overrides applied, defaults written down.

use crate::files::Files;
use crate::keys::key::{Key, Kind};
use crate::keys::lookup::KeyId;
use crate::keys::table::KEYS;
use crate::resolve::assign;
use crate::resolve::in_force;
use crate::resolve::inventory::Known;
use crate::resolve::shared_keys::{
    DATASET_KIND, DATASET_PATH, MOVING_RATE, RHO, THREADS, USED_NODES, WORKERS,
};
use crate::spec::strategy_kind::ExchangeThrough;
use crate::sweep::axes::Axis;
use crate::sweep::cells::place_data;
use crate::sweep::recipe::{Exclusion, Recipe, StrategySetting};
use crate::text::tree::{bare_or_quoted, quote};
use crate::values::check::OPTIONAL;
use crate::values::leaf::Leaf;
use crate::values::settings::Settings;
use std::fmt::Write;

/// The machine that a recipe is planned on, and the threads that were decided there.
pub(crate) struct PlannedOn<'a> {
    pub(crate) files: &'a dyn Files,
    pub(crate) machine: Known<'a>,
    /// Of each worker, where all cells have the same.
    pub(crate) threads: Option<u32>,
}

/// Writes a recipe that plans to the same cells and runs, whatever the defaults of a later version.
pub(crate) fn write(recipe: &Recipe, name: &str, around: &PlannedOn<'_>) -> String {
    let mut out = String::new();
    let mut settings = recipe.settings.clone();
    let swept = swept(recipe);
    fill(&mut settings, &swept, around);
    if !swept.contains(&DATASET_KIND.into()) && !swept.contains(&DATASET_PATH) {
        place_data(&mut settings, around.files);
    }
    let _ = writeln!(out, "schema = 1\nname = {}", quote(name));
    let _ = writeln!(out, "question = {}", quote(recipe.settings.text(crate::keys::lookup::id("question"))));
    for key in KEYS.iter().filter(|key| matches!(key.kind, Kind::Table) && !key.later) {
        if key.path == "nodes" && around.threads.is_none() && !swept.contains(&THREADS.into()) {
            let _ = writeln!(
                out,
                "\n# nodes.threads: conditions differ, so that each has what the cores of the machine leave it"
            );
        }
        match key.path {
            "strategy" => strategies(&mut out, recipe, &swept),
            path if path.starts_with("strategy.") => {}
            path if path == "sweep" || path.starts_with("sweep.") => {}
            path => section(&mut out, path, &settings, &swept),
        }
    }
    sweep(&mut out, recipe);
    out
}

/// The keys that axes set: their values stand in the sweep.
fn swept(recipe: &Recipe) -> Vec<KeyId> {
    let axes = recipe.dimensions.iter().flat_map(|dimension| &dimension.axes);
    axes.flat_map(|axis| &axis.points)
        .flat_map(|point| point.sets().map(|(id, _)| id).collect::<Vec<_>>())
        .collect()
}

/// Writes down the numbers that are the same for all cells on this machine, and might differ on another one.
fn fill(settings: &mut Settings, swept: &[KeyId], around: &PlannedOn<'_>) {
    if let Some(threads) = around.threads.filter(|_| !swept.contains(&THREADS.into())) {
        settings.put(THREADS, Leaf::whole(u64::from(threads)));
    }
    if swept.contains(&USED_NODES) {
        return;
    }
    if settings.list(USED_NODES).iter().any(|node| !node.contains('*')) {
        settings.put(USED_NODES, Leaf::list(&assign::written(settings, around.machine)));
    }
    if settings.given(WORKERS).is_none()
        && !swept.contains(&WORKERS.into())
        && let Some(slots) = assign::slots(settings, around.machine)
    {
        settings.put(WORKERS, Leaf::whole(u64::from(slots)));
    }
}

/// The values of a table's keys, defaults included. Where axes give the table its kind, a default that depends on the kind is
/// left out: written down, it would be that of all kinds.
fn values<'a>(path: &'a str, settings: &'a Settings, swept: &[KeyId]) -> Vec<(&'static Key, &'a str)> {
    KEYS.iter()
        .enumerate()
        .filter(|(_, key)| key.parent() == path && !matches!(key.kind, Kind::Table) && !key.later)
        .filter(|(index, key)| {
            let kind = KeyId(*index).kind();
            let varies = !key.usual.is_empty() && kind.is_some_and(|kind| swept.contains(&kind));
            let fits = kind.is_none_or(|kind| key.is_of(settings.name(kind)));
            settings.given(KeyId(*index)).is_some() || fits && !varies
        })
        .filter_map(|(index, key)| Some((key, settings.get(KeyId(index))?.toml.as_str())))
        .collect()
}

fn section(out: &mut String, path: &str, settings: &Settings, swept: &[KeyId]) {
    let values = values(path, settings, swept);
    // Defaults alone make no target, no network and no step time.
    let optional = OPTIONAL.contains(&path);
    if values.is_empty() || optional && !any_given(path, settings) {
        return;
    }
    let _ = writeln!(out, "\n[{path}]");
    for (key, toml) in values {
        let _ = writeln!(out, "{} = {toml}", key.name());
    }
}

fn any_given(path: &str, settings: &Settings) -> bool {
    KEYS.iter().enumerate().any(|(index, key)| key.parent() == path && settings.given(KeyId(index)).is_some())
}

fn strategies(out: &mut String, recipe: &Recipe, swept: &[KeyId]) {
    for strategy in &recipe.strategies {
        let _ = writeln!(
            out,
            "\n[[strategy]]\nname = {}\nkind = {}",
            quote(&strategy.name),
            quote(strategy.kind.name())
        );
        if strategy.baseline.is_some() {
            let _ = writeln!(out, "baseline = true");
        }
        if usual_rate(strategy, swept) {
            // It depends on the workers, which a recipe may vary, so that no number stands for it.
            let _ =
                writeln!(out, "# moving-rate: 0.9 / workers, since there is neither `rho` nor `moving-rate`");
        }
        for (index, key) in KEYS.iter().enumerate() {
            if ["strategy.name", "strategy.kind", "strategy.baseline"].contains(&key.path) {
                continue;
            }
            let id = KeyId(index);
            let own = key.parent() == "strategy" && key.is_of(strategy.kind.name()) && !swept.contains(&id);
            let leaf = if own { strategy.settings.get(id) } else { strategy.settings.given(id) };
            let usual = in_force::usual_of(strategy.kind, id);
            if let Some(leaf) = leaf.or(usual.as_ref().filter(|_| own)) {
                let path = key.path.strip_prefix("strategy.").unwrap_or(key.path);
                let _ = writeln!(out, "{path} = {}", leaf.toml);
            }
        }
    }
}

/// Whether an elastic strategy has the moving rate of its kind.
fn usual_rate(strategy: &StrategySetting, swept: &[KeyId]) -> bool {
    let unsaid = |key: KeyId| strategy.settings.given(key).is_none() && !swept.contains(&key);
    let elastic = strategy.kind.profile().exchange == ExchangeThrough::Centre;
    elastic && unsaid(RHO.into()) && unsaid(MOVING_RATE.into())
}

fn sweep(out: &mut String, recipe: &Recipe) {
    let written = |axis: &Axis| {
        axis.segments.iter().map(|segment| bare_or_quoted(segment)).collect::<Vec<String>>().join(".")
    };
    let axis = |axis: &Axis| {
        let values: Vec<&str> = axis.points.iter().map(|point| point.toml.as_str()).collect();
        format!("{} = [{}]", written(axis), values.join(", "))
    };
    // Lone axes come first; those behind others in lockstep, as draws of one key are, keep their place.
    let first = recipe.dimensions.iter().take_while(|dimension| dimension.axes.len() == 1).count();
    let (single, zipped) = recipe.dimensions.split_at(first);
    if !single.is_empty() {
        let _ = writeln!(out, "\n[sweep.axes]");
    }
    for dimension in single {
        let _ = writeln!(out, "{}", axis(&dimension.axes[0]));
    }
    for dimension in zipped {
        let lines: Vec<String> = dimension.axes.iter().map(axis).collect();
        let _ = writeln!(out, "\n[[sweep.zip]]\n{}", lines.join("\n"));
    }
    for include in &recipe.includes {
        let _ = writeln!(out, "\n[[sweep.include]]");
        for axis in &include.axes {
            let value = axis.points.first().map_or("", |point| point.toml.as_str());
            let _ = writeln!(out, "{} = {value}", written(axis));
        }
    }
    for Exclusion { text, reason, .. } in &recipe.exclusions {
        let _ = writeln!(out, "\n[[sweep.exclude]]\nwhen = {}\nreason = {}", quote(text), quote(reason));
    }
}
