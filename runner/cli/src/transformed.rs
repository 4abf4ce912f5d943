//! The network that groups of ranks make of a model: what each rank holds of each layer, and what travels between layers.

use crate::output::human;
use recipe::{
    FcUpdate, ModelPartition, ModuloScheme, OptimizerKind, OptimizerSettings, Plan, RunSpec, Schedule, Stage,
    Strategy,
};
use serde_json::{Value, json};
use std::fmt::Write;

/// Bytes of a value.
const FLOAT: usize = 4;

/// The transformed networks of all arms whose ranks hold parts of a model, as comments of a recipe; empty where each rank holds
/// the whole.
pub(crate) fn comments(plan: &Plan) -> String {
    // Arms and conditions that make the same network share its description.
    let mut networks: Vec<(String, Vec<&str>)> = Vec::new();
    for cell in plan.cells.iter().filter(|cell| cell.excluded.is_none() && cell.spec.strategy.parts() > 1) {
        let arm = plan.arms[cell.arm].name.as_str();
        let text = network(&cell.spec);
        match networks.iter_mut().find(|(other, _)| *other == text) {
            Some((_, arms)) if arms.contains(&arm) => {}
            Some((_, arms)) => arms.push(arm),
            None => networks.push((text, vec![arm])),
        }
    }
    let mut out = String::new();
    for (text, arms) in networks {
        for line in [String::new(), format!("Network of {}", arms.join("; "))]
            .iter()
            .map(String::as_str)
            .chain(text.lines())
        {
            let _ = writeln!(out, "{}", format!("# {line}").trim_end());
        }
    }
    out
}

/// The same of one cell, for programs; nothing where each rank holds the whole model.
pub(crate) fn document(spec: &RunSpec) -> Option<Value> {
    (spec.strategy.parts() > 1).then(|| {
        let partition = spec.model_partition();
        let parts = 0..partition.parts();
        json!({
            "parts": partition.parts(),
            "weights": parts.map(|part| partition.parameter_count(part)).collect::<Vec<_>>(),
            "values-sent-per-sample": partition.values_sent(),
            "stages": partition.stages().iter().map(|stage| stage_document(spec, *stage)).collect::<Vec<_>>(),
        })
    })
}

fn stage_document(spec: &RunSpec, stage: Stage) -> Value {
    match stage {
        Stage::Layer { layer, split } => {
            json!({ "stage": "layer", "name": spec.model.weighted_layers()[layer].name, "split": split })
        }
        Stage::Modulo { width } => json!({ "stage": "modulo", "width": width }),
        Stage::Shard { width, returns } => json!({ "stage": "shard", "width": width, "returns": returns }),
    }
}

fn network(spec: &RunSpec) -> String {
    let partition = spec.model_partition();
    let workers = spec.cluster.workers() as usize;
    let parts = partition.parts();
    let groups = workers / parts;
    let mut out = match groups {
        1 => format!("{workers} workers, which hold one model together\n"),
        _ => format!(
            "{workers} workers in {groups} groups of {parts}, each of which holds one model together\n"
        ),
    };
    let _ = writeln!(out, "{}", columns(["", "weights", "of each rank", "values/row", "sent/sample"]));
    for stage in partition.stages() {
        out.push_str(&line(spec, &partition, stage));
    }
    let batch = (spec.train.global_batch as usize).div_ceil(workers.max(1));
    let held = partition.parameter_count(0);
    let whole = spec.model.parameter_count();
    let sent = human::thousands(partition.values_sent() as u64);
    let all = range(&partition, 0..partition.above().end);
    let _ = writeln!(out, "{}", columns(["all", &human::thousands(whole as u64), &all, "", &sent]));
    let saved = human::percent(1.0 - held as f64 / whole.max(1) as f64);
    let _ = writeln!(out, "saved on rank 0: {saved} of the weights");
    let activations = batch * spec.activations_per_sample();
    let optimizer = spec.train.optimizer;
    let vectors = 2 + optimizer.vectors() as usize;
    let _ = writeln!(
        out,
        "memory of rank 0: {} of weights and gradients{}, {} of activations",
        human::bytes((vectors * held * FLOAT) as u64),
        remembered(&optimizer),
        human::bytes((activations * FLOAT) as u64),
    );
    let _ = writeln!(
        out,
        "within the group each rank sends {} per step, for {batch} samples of its own",
        human::bytes((partition.values_sent() * batch * FLOAT) as u64),
    );
    out.push_str(&averaged(spec, &partition, groups));
    out
}

/// Words for the values that an optimizer keeps of each weight, to follow "weights and gradients".
fn remembered(optimizer: &OptimizerSettings) -> &'static str {
    match (optimizer.kind(), optimizer.vectors()) {
        (OptimizerKind::Sgd | OptimizerKind::Lars, 0) => "",
        (OptimizerKind::Sgd | OptimizerKind::Lars, _) => " and velocities",
        (OptimizerKind::Adamw, _) => " and moments",
    }
}

/// A line of the network; 80 columns with what stands before it in a recipe.
fn columns([name, weights, own, row, sent]: [&str; 5]) -> String {
    format!("{name:<18}{weights:>12}{own:>24}{row:>11}{sent:>13}").trim_end().to_owned()
}

fn line(spec: &RunSpec, partition: &ModelPartition, stage: Stage) -> String {
    let peers = partition.parts() - 1;
    let sent = |width: usize, ways: usize| human::thousands((peers * width * ways) as u64);
    let number = |number: usize| human::thousands(number as u64);
    let text = match stage {
        Stage::Layer { layer, split } => {
            let described = &spec.model.weighted_layers()[layer];
            let name = if split { format!("{}, split", described.name) } else { described.name.to_owned() };
            let row = partition.columns(layer, 0).len();
            let own = range(partition, layer..layer + 1);
            columns([&name, &number(described.size()), &own, &number(row), ""])
        }
        Stage::Modulo { width } => {
            let ways = if partition.below().is_empty() { 1 } else { 2 };
            columns(["  modulo", "", "", &number(width), &sent(width, ways)])
        }
        Stage::Shard { width, returns } => {
            columns(["  shard", "", "", &number(width), &sent(width, if returns { 2 } else { 1 })])
        }
    };
    text + "\n"
}

/// The weights of some layers that a rank holds: `33,032`, or `33,032-33,289` where outputs do not divide.
fn range(partition: &ModelPartition, layers: std::ops::Range<usize>) -> String {
    let held = |part: usize| layers.clone().map(|layer| partition.held(layer, part)).sum::<usize>();
    let most = held(0);
    let least = held(partition.parts() - 1);
    let text = human::thousands(most as u64);
    if most == least { text } else { format!("{}-{text}", human::thousands(least as u64)) }
}

/// Rounds of a step that have rows: as many as a worker has samples, if those are fewer.
fn rounds_with_rows(spec: &RunSpec, scheme: ModuloScheme, parts: usize) -> usize {
    let own = spec.train.global_batch.div_ceil(spec.cluster.workers().max(1)) as usize;
    let all = scheme.rounds(parts);
    if scheme == ModuloScheme::Shares { all.min(own) } else { all }
}

/// Lines about the exchange between groups; empty for strategies other than `gmp`.
fn averaged(spec: &RunSpec, partition: &ModelPartition, groups: usize) -> String {
    let Strategy::Gmp { average_every, fc_update, scheme, .. } = spec.strategy else { return String::new() };
    let weights = spec.model.weighted_layers();
    let size = |layers: std::ops::Range<usize>| layers.map(|layer| weights[layer].size()).sum::<usize>();
    let below = size(partition.below());
    let whole = size(partition.whole_above());
    let split = partition.parameter_count(0) - below - whole;
    let (what, when) = match average_every {
        None => ("gradients", "in each step".to_owned()),
        Some(every) => (
            "weights",
            format!("every {}", human::count(usize::try_from(every).unwrap_or(usize::MAX), "step")),
        ),
    };
    let rounds = match (average_every, fc_update) {
        (None, FcUpdate::PerRound) => match rounds_with_rows(spec, scheme, partition.parts()) {
            1 => String::new(),
            rounds => format!(", in each of {rounds} rounds"),
        },
        _ => String::new(),
    };
    let mut out = String::new();
    if below > 0 {
        let _ = writeln!(out, "averaged over all workers {when}: {} {what}", human::thousands(below as u64));
    }
    if whole > 0 {
        let whole = human::thousands(whole as u64);
        let _ = writeln!(out, "averaged over all workers {when}: {whole} {what}{rounds}");
    }
    if groups > 1 {
        let split = human::thousands(split as u64);
        let _ = writeln!(out, "averaged over {groups} holders {when}: {split} {what}{rounds}");
    }
    if spec.strategy.averages_through_servers() {
        let servers = human::count((spec.cluster.ranks() - spec.cluster.workers()) as usize, "server");
        let _ = writeln!(out, "added by {servers} without weights");
    }
    if spec.communication.schedule != Schedule::Single {
        let _ = writeln!(
            out,
            "sent by the schedule `{}` during the backward pass of what each rank computes alone",
            spec.communication.schedule.kind()
        );
    }
    out
}
