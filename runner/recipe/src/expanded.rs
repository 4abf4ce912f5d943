//! The recipe as it is run: everything merged, overrides applied, defaults written down.

use crate::arm_keys::ELASTIC;
use crate::assign;
use crate::cells::place_data;
use crate::check::OPTIONAL;
use crate::elastic::{MOVING_RATE, RHO};
use crate::files::{Files, Machine};
use crate::key::{Key, KeyId, Kind, id};
use crate::method::{PERIOD, SERVE, usual_period, usual_serve};
use crate::recipe::{Exclusion, Recipe, StrategySetting};
use crate::setting::{Leaf, Settings};
use crate::table::KEYS;
use crate::tree::{bare_or_quoted, quote};
use std::fmt::Write;

const DATASET_KIND: KeyId = id("dataset.kind");
const DATASET_PATH: KeyId = id("dataset.path");

/// What a recipe is planned in, and what was decided for it there.
pub(crate) struct Surroundings<'a> {
    pub(crate) files: &'a dyn Files,
    pub(crate) machine: Machine,
    /// Of each worker, where all cells have the same.
    pub(crate) threads: Option<u32>,
}

/// Writes a recipe that plans to the same cells and runs, whatever the defaults of a later version.
pub(crate) fn write(recipe: &Recipe, name: &str, around: &Surroundings<'_>) -> String {
    let mut out = String::new();
    let mut settings = recipe.settings.clone();
    let swept = swept(recipe);
    fill(&mut settings, &swept, around);
    if !swept.contains(&DATASET_KIND) && !swept.contains(&DATASET_PATH) {
        place_data(&mut settings, around.files);
    }
    let _ = writeln!(out, "schema = 1\nname = {}", quote(name));
    let _ = writeln!(out, "question = {}", quote(recipe.settings.text(crate::key::id("question"))));
    for key in KEYS.iter().filter(|key| matches!(key.kind, Kind::Table) && !key.later) {
        if key.path == "nodes" && around.threads.is_none() && !swept.contains(&assign::THREADS) {
            let _ = writeln!(
                out,
                "\n# nodes.threads: conditions differ, so that each has what the cores of the machine leave it"
            );
        }
        match key.path {
            "strategy" => strategies(&mut out, recipe, &swept),
            path if path.starts_with("strategy.") => {}
            path if path == "sweep" || path.starts_with("sweep.") => {}
            path => section(&mut out, &format!("[{path}]"), path, &settings),
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

/// Writes down what is the same for all cells on this machine, and might be another number on another one.
fn fill(settings: &mut Settings, swept: &[KeyId], around: &Surroundings<'_>) {
    if let Some(threads) = around.threads.filter(|_| !swept.contains(&assign::THREADS)) {
        settings.put(assign::THREADS, Leaf::whole(u64::from(threads)));
    }
    if swept.contains(&assign::USE) {
        return;
    }
    let slots = assign::slots(settings, around.machine);
    if settings.list(assign::USE).iter().any(|node| !node.contains('*')) {
        settings.put(assign::USE, Leaf::list(&[format!("local*{slots}")]));
    }
    if settings.given(assign::WORKERS).is_none() && !swept.contains(&assign::WORKERS) {
        settings.put(assign::WORKERS, Leaf::whole(u64::from(slots)));
    }
}

/// The values of a table's keys, defaults included.
fn values<'a>(path: &'a str, settings: &'a Settings) -> Vec<(&'static Key, &'a str)> {
    KEYS.iter()
        .enumerate()
        .filter(|(_, key)| key.parent() == path && !matches!(key.kind, Kind::Table) && !key.later)
        .filter(|(index, key)| {
            let kind = KeyId(*index).kind().map(|kind| settings.choice(kind));
            settings.given(KeyId(*index)).is_some() || kind.is_none_or(|kind| key.is_of(kind))
        })
        .filter_map(|(index, key)| Some((key, settings.get(KeyId(index))?.toml.as_str())))
        .collect()
}

fn section(out: &mut String, head: &str, path: &str, settings: &Settings) {
    let values = values(path, settings);
    // Defaults alone make no target, no network and no step time.
    let optional = OPTIONAL.contains(&path);
    if values.is_empty() || optional && !any_given(path, settings) {
        return;
    }
    let _ = writeln!(out, "\n{head}");
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
            quote(strategy.kind)
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
            let own = key.parent() == "strategy" && key.is_of(strategy.kind) && !swept.contains(&id);
            let leaf = if own { strategy.settings.get(id) } else { strategy.settings.given(id) };
            // These have another default for each kind.
            let usual = match id {
                PERIOD => Some(Leaf::whole(usual_period(strategy.kind))),
                SERVE => Some(Leaf::name(usual_serve(strategy.kind))),
                _ => None,
            };
            if let Some(leaf) = leaf.or(usual.as_ref().filter(|_| own)) {
                let path = key.path.strip_prefix("strategy.").unwrap_or(key.path);
                let _ = writeln!(out, "{path} = {}", leaf.toml);
            }
        }
    }
}

/// Whether an elastic strategy has the moving rate of its kind.
fn usual_rate(strategy: &StrategySetting, swept: &[KeyId]) -> bool {
    let unsaid = |key| strategy.settings.given(key).is_none() && !swept.contains(&key);
    ELASTIC.contains(&strategy.kind) && unsaid(RHO) && unsaid(MOVING_RATE)
}

fn sweep(out: &mut String, recipe: &Recipe) {
    let axis = |axis: &crate::axes::Axis| {
        let values: Vec<&str> = axis.points.iter().map(|point| point.toml.as_str()).collect();
        let path: Vec<String> = axis.segments.iter().map(|segment| bare_or_quoted(segment)).collect();
        format!("{} = [{}]", path.join("."), values.join(", "))
    };
    let (single, zipped): (Vec<_>, Vec<_>) =
        recipe.dimensions.iter().partition(|dimension| dimension.axes.len() == 1);
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
    for Exclusion { text, reason, .. } in &recipe.exclusions {
        let _ = writeln!(out, "\n[[sweep.exclude]]\nwhen = {}\nreason = {}", quote(text), quote(reason));
    }
}
