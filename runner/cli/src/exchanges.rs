//! Exchanges of a worker of each arm: gradients or weights, in how many parts, and their bytes as they are coded.

use crate::output::{self, human};
use predict::schedule::{LayerTime, StepProfile, fixed};
use recipe::{Collective, Compression, ExchangeThrough, Parameter, Plan, RunSpec, Schedule, Sends, Strategy};
use serde_json::{Value, json};
use std::fmt::Write;

/// Bytes of a weight.
const FLOAT: usize = 4;
/// Columns, with what stands before them in a recipe, 80.
const WIDTH: usize = 78;
/// Where only the run, or the code of another crate, can say.
const UNKNOWN: &str = "-";

/// The vectors that travel in one direction or through one all-reduce.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Exchange {
    what: String,
    /// Parts that travel one by one; `None` where the run plans them.
    parts: Option<usize>,
    /// Of all parts, before a collective divides them among ranks; `None` for a codec of another crate.
    bytes: Option<usize>,
}

/// The exchanges of all arms, as comments of a recipe; those within a group of ranks that hold one model stand in the table of its network.
pub(crate) fn comments(plan: &Plan) -> String {
    // Arms and conditions that exchange the same share their rows.
    let mut rows: Vec<(Vec<Exchange>, Vec<&str>)> = Vec::new();
    for cell in plan.cells.iter().filter(|cell| cell.excluded.is_none()) {
        let arm = plan.arms[cell.arm].name.as_str();
        let exchanges = of(&cell.spec);
        if exchanges.is_empty() {
            continue;
        }
        match rows.iter_mut().find(|(other, _)| *other == exchanges) {
            Some((_, arms)) if arms.contains(&arm) => {}
            Some((_, arms)) => arms.push(arm),
            None => rows.push((exchanges, vec![arm])),
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let mut out = format!("#\n# Exchanges of a worker\n# {}\n", line("", "parts", "bytes"));
    for (exchanges, arms) in rows {
        for line in output::fold(&arms.join("; "), WIDTH) {
            let _ = writeln!(out, "# {line}");
        }
        for Exchange { what, parts, bytes } in exchanges {
            let parts = parts.map_or("as planned".to_owned(), |parts| human::thousands(parts as u64));
            let bytes = bytes.map_or(UNKNOWN.to_owned(), |bytes| human::bytes(bytes as u64));
            let _ = writeln!(out, "# {}", line(&format!("  {what}"), &parts, &bytes));
        }
    }
    out.push_str("# of all parts, before an all-reduce or several servers divide them\n");
    out
}

/// A row of the table.
fn line(what: &str, parts: &str, bytes: &str) -> String {
    format!("{what:<52}{parts:>12}{bytes:>14}").trim_end().to_owned()
}

/// The same of one cell, for programs.
pub(crate) fn document(spec: &RunSpec) -> Value {
    let exchanges = of(spec).into_iter();
    exchanges
        .map(|Exchange { what, parts, bytes }| json!({ "what": what, "parts": parts, "bytes": bytes }))
        .collect()
}

fn of(spec: &RunSpec) -> Vec<Exchange> {
    let profile = spec.strategy.kind().profile();
    let every = match spec.strategy.period() {
        1 => String::new(),
        steps => format!(", each {steps} steps"),
    };
    if spec.cluster.workers() < 2
        && matches!(profile.exchange, ExchangeThrough::AllReduce | ExchangeThrough::Neighbours)
    {
        return Vec::new();
    }
    let reduced = match spec.communication.collective {
        Collective::AllGather => "to all others",
        Collective::Ring
        | Collective::PipelinedRing { .. }
        | Collective::Tree
        | Collective::RecursiveDoubling
        | Collective::HalvingDoubling
        | Collective::Star
        | Collective::Hierarchical { .. } => "all-reduced",
    };
    match (&spec.strategy, profile.exchange, profile.sends) {
        (Strategy::Custom { .. }, ..) => {
            vec![Exchange { what: "what its code says".to_owned(), parts: None, bytes: None }]
        }
        // Exchanges of ranks that hold parts of a model are in the table of their network.
        (Strategy::Gmp { mp: 2.., .. }, ..) => Vec::new(),
        (Strategy::Gmp { average_every: Some(_), .. }, ..)
        | (_, ExchangeThrough::AllReduce, Sends::Weights | Sends::Both) => {
            vec![weights(spec, &format!("all-reduced{every}"))]
        }
        (_, ExchangeThrough::AllReduce, Sends::Gradients) => vec![gradients(spec, reduced)],
        (_, ExchangeThrough::SyncServer, _) => {
            vec![
                gradients(spec, &format!("to {}", servers(spec))),
                divided_weights(spec, &format!("from {}", servers(spec))),
            ]
        }
        (_, ExchangeThrough::AsyncServer, _) => {
            vec![
                gradients(spec, &format!("to {}", servers(spec))),
                weights(spec, &format!("from {}", servers(spec))),
            ]
        }
        (Strategy::EasgdSync { .. }, ..) => {
            vec![
                divided_weights(spec, "of the centre, down a tree of the workers"),
                divided_weights(spec, "summed up the same tree"),
            ]
        }
        (_, ExchangeThrough::Centre, _) => vec![weights(spec, &format!("with the centre, each way{every}"))],
        (Strategy::Sgp, ..) => vec![weights(spec, "to the neighbour of the step")],
        (_, ExchangeThrough::Neighbours, _) => vec![weights(spec, "to each neighbour that it averages with")],
    }
}

fn servers(spec: &RunSpec) -> String {
    let ranks = spec.cluster.placements.len() - spec.cluster.workers() as usize;
    if ranks == 1 { "the server".to_owned() } else { format!("{ranks} servers, which share them") }
}

fn weights(spec: &RunSpec, whereto: &str) -> Exchange {
    let bytes = spec.compression.weight_bytes(spec.model.parameter_count());
    Exchange { what: format!("weights {whereto}"), parts: Some(1), bytes }
}

/// Weights that travel in the parts of the schedule.
fn divided_weights(spec: &RunSpec, whereto: &str) -> Exchange {
    let Some(groups) = groups(spec) else { return Exchange { parts: None, ..weights(spec, whereto) } };
    let size = |group: &Vec<&Parameter>| group.iter().map(|tensor| tensor.size()).sum();
    let bytes = groups.iter().map(|group| spec.compression.weight_bytes(size(group))).sum();
    Exchange { parts: Some(groups.len()), bytes, ..weights(spec, whereto) }
}

fn gradients(spec: &RunSpec, whereto: &str) -> Exchange {
    let what = format!("gradients {whereto}");
    let compression = spec.compression;
    let all = || compression.gradient_bytes(spec.model.tensors());
    if let segments @ 2.. = spec.strategy.segments() {
        let count = segments as usize;
        let elements = spec.model.parameter_count();
        let pieces = (0..count).map(|place| (place + 1) * elements / count - place * elements / count);
        let bytes = match compression {
            Compression::None => all(),
            Compression::Coded { codec, .. } => pieces.map(|piece| codec.packet_bytes(piece)).sum(),
        };
        return Exchange { what, parts: Some(count), bytes };
    }
    let Some(groups) = groups(spec) else { return Exchange { what, parts: None, bytes: all() } };
    let bytes = groups.iter().map(|group| compression.gradient_bytes(group.iter().copied())).sum();
    Exchange { what, parts: Some(compression.sums_of_gradient() * groups.len()), bytes }
}

/// The tensors of layers that travel together, the last layers first; `None` where a run finds them out.
fn groups(spec: &RunSpec) -> Option<Vec<Vec<&Parameter>>> {
    let layers = spec.model.weighted_layers();
    let tensors = |layer: usize| layers[layers.len() - 1 - layer].parameters.iter();
    match spec.communication.schedule {
        Schedule::Single => Some(vec![(0..layers.len()).flat_map(tensors).collect()]),
        Schedule::PerLayer => Some((0..layers.len()).map(|layer| tensors(layer).collect()).collect()),
        Schedule::Fixed { bytes } => {
            let times: Vec<LayerTime> = layers
                .iter()
                .rev()
                .map(|layer| LayerTime { backward: 0.0, bytes: (FLOAT * layer.size()) as u64 })
                .collect();
            let grouping = fixed(&StepProfile::new(0.0, &times).ok()?, bytes);
            Some(grouping.groups().map(|group| group.flat_map(tensors).collect()).collect())
        }
        Schedule::Merged | Schedule::MergedExact => None,
    }
}
