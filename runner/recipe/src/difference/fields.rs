//! The fields in which two specifications differ.

use crate::{Cluster, Node, Role, RunSpec};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The numbers of ranks, beside the fields of a cluster.
const RANKS: &str = "/cluster/ranks";
/// The facts of the machines by their names.
const NODES: &str = "/cluster/nodes";

/// A field that two specifications have with different values.
#[derive(Clone, Debug)]
pub(crate) struct FieldDifference {
    /// Names from the outside in, with hyphens: `train.length.epochs`.
    pub(crate) path: String,
    pub(crate) before: Value,
    pub(crate) now: Value,
}

/// All fields in which two specifications differ.
pub(crate) fn of_specs(before: &RunSpec, now: &RunSpec) -> Vec<FieldDifference> {
    let [mut one, mut other] = [before, now].map(document);
    // Numbers of ranks say more than the list of their machines, which follows from them.
    if one.pointer(RANKS) != other.pointer(RANKS) {
        for document in [&mut one, &mut other] {
            cluster_of(document).map(|cluster| cluster.remove("seats"));
        }
    }
    keep_common(&mut one, &mut other);
    let mut found = Vec::new();
    collect("", &one, &other, &mut found);
    found
}

fn cluster_of(document: &mut Value) -> Option<&mut Map<String, Value>> {
    document.get_mut("cluster").and_then(Value::as_object_mut)
}

/// A specification as JSON, with the names, devices and other facts of its machines apart.
fn document(spec: &RunSpec) -> Value {
    let mut document = serde_json::to_value(spec).unwrap_or(Value::Null);
    let Cluster { nodes, placements, .. } = &spec.cluster;
    let servers = placements.iter().filter(|placement| placement.role == Role::Server).count();
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    let devices: BTreeMap<&str, String> =
        nodes.iter().map(|node| (node.name.as_str(), node.device.to_string())).collect();
    let facts: BTreeMap<&str, Value> =
        nodes.iter().map(|node| (node.name.as_str(), facts_of(node))).collect();
    if let Some(cluster) = cluster_of(&mut document) {
        cluster.insert("ranks".to_owned(), json!({ "workers": spec.cluster.workers(), "servers": servers }));
        cluster.insert("names".to_owned(), json!(names.join(", ")));
        cluster.insert("devices".to_owned(), json!(devices));
        cluster.insert("nodes".to_owned(), json!(facts));
    }
    document
}

/// A machine without its name, its device, and its slots, which are rooms for ranks: their numbers are compared.
fn facts_of(node: &Node) -> Value {
    let mut facts = serde_json::to_value(node).unwrap_or(Value::Null);
    if let Some(fields) = facts.as_object_mut() {
        fields.retain(|name, _| !["name", "slots", "device"].contains(&name.as_str()));
        // As a list, of which no value is shown: variables may be secrets.
        if let Some(environment) = fields.remove("environment") {
            fields.insert("environment".to_owned(), json!([environment]));
        }
    }
    facts
}

/// Keeps the facts of the machines that both have.
fn keep_common(one: &mut Value, other: &mut Value) {
    let names = |document: &Value| -> BTreeSet<String> {
        let nodes = document.pointer(NODES).and_then(Value::as_object);
        nodes.into_iter().flat_map(Map::keys).cloned().collect()
    };
    let common: BTreeSet<String> = names(one).intersection(&names(other)).cloned().collect();
    for document in [one, other] {
        if let Some(nodes) = document.pointer_mut(NODES).and_then(Value::as_object_mut) {
            nodes.retain(|name, _| common.contains(name));
        }
    }
}

fn collect(path: &str, before: &Value, now: &Value, found: &mut Vec<FieldDifference>) {
    if before == now {
        return;
    }
    let names: BTreeSet<&String> = [before, now].into_iter().filter_map(fields).flat_map(Map::keys).collect();
    let has_fields = |value: &Value| value.is_null() || fields(value).is_some();
    if names.is_empty() || !has_fields(before) || !has_fields(now) {
        found.push(FieldDifference { path: path.to_owned(), before: before.clone(), now: now.clone() });
        return;
    }
    for name in names {
        let joint = if path.is_empty() { "" } else { "." };
        let below = format!("{path}{joint}{}", name.replace('_', "-"));
        let [one, other] = [before, now].map(|value| value.get(name).unwrap_or(&Value::Null));
        collect(&below, one, other, found);
    }
}

/// The fields of a table; a time is a value.
fn fields(value: &Value) -> Option<&Map<String, Value>> {
    value.as_object().filter(|_| duration(value).is_none())
}

/// A field's value as a reader of recipes knows it.
pub(crate) fn words(value: &Value) -> String {
    if let Some(duration) = duration(value) {
        return format!("{duration:?}");
    }
    match value {
        Value::Null => "not set".to_owned(),
        // A choice with settings of its own is an object with one entry, named after it.
        Value::Object(fields) if fields.len() == 1 => {
            fields.keys().next().map(|name| name.replace('_', "-")).unwrap_or_default()
        }
        Value::Object(_) | Value::Array(_) => "another".to_owned(),
        Value::Number(number) => match number.as_f64() {
            // 32-bit settings show the digits that were written.
            Some(value) if number.is_f64() && !(1e-4..1e6).contains(&value.abs()) && value != 0.0 => {
                format!("{:e}", value as f32)
            }
            Some(value) if number.is_f64() => format!("{}", value as f32),
            _ => number.to_string(),
        },
        Value::String(text) => text.clone(),
        Value::Bool(value) => value.to_string(),
    }
}

fn duration(value: &Value) -> Option<Duration> {
    value.get("secs").and_then(|_| serde_json::from_value(value.clone()).ok())
}
