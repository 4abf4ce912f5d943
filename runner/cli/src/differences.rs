//! The settings in which two specifications differ, by the recipe's names.

use recipe::{Cluster, Role, RunSpec};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

/// A setting that two specifications have with different values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// The recipe's name of it.
    pub(crate) key: String,
    /// The value in the first one, in words.
    pub(crate) before: String,
    /// The value in the second one.
    pub(crate) now: String,
}

impl Difference {
    /// `train.epochs is 2.5, was 3`.
    pub(crate) fn words(&self) -> String {
        format!("{} is {}, was {}", self.key, self.now, self.before)
    }
}

/// All settings in which two specifications differ; those that follow from others come last.
pub(crate) fn of_specs(before: &RunSpec, now: &RunSpec) -> Vec<Difference> {
    let mut found = of_clusters(&before.cluster, &now.cluster);
    let [before, now] = [before, now].map(|spec| {
        let mut value = serde_json::to_value(spec).unwrap_or_default();
        // Compared above; its placements follow from those settings.
        value.as_object_mut().and_then(|fields| fields.remove("cluster"));
        value
    });
    found.extend(written_first(&before, &now));
    found
}

/// Where ranks run, as the recipe says it.
fn of_clusters(before: &Cluster, now: &Cluster) -> Vec<Difference> {
    let servers = |cluster: &Cluster| {
        cluster.placements.iter().filter(|placement| placement.role == Role::Server).count()
    };
    let nodes = |cluster: &Cluster| {
        cluster.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let all = [
        ("nodes.workers", before.workers().to_string(), now.workers().to_string()),
        ("servers", servers(before).to_string(), servers(now).to_string()),
        ("nodes.use", nodes(before), nodes(now)),
    ];
    let differing = all.into_iter().filter(|(_, before, now)| before != now);
    let mut found: Vec<Difference> =
        differing.map(|(key, before, now)| Difference { key: key.to_owned(), before, now }).collect();
    if found.is_empty() && before != now {
        let [before, now] = [before, now].map(|cluster| serde_json::to_value(cluster).unwrap_or_default());
        collect("nodes", &before, &now, &mut found);
    }
    found
}

/// Settings that the recipe writes come before those that follow from others: where the evaluator computes follows from the
/// target, the ranks and the workers' threads.
fn written_first(before: &Value, now: &Value) -> Vec<Difference> {
    const DERIVED: &str = "threads";
    const OF_WORKERS: &str = "worker";
    let divided = |spec: &Value| {
        let mut own = spec.clone();
        let mut threads = own.as_object_mut().and_then(|fields| fields.remove(DERIVED)).unwrap_or_default();
        let worker = threads.as_object_mut().and_then(|fields| fields.remove(OF_WORKERS));
        [own, worker.unwrap_or_default(), threads]
    };
    let mut found = Vec::new();
    let paths = [String::new(), format!("{DERIVED}.{OF_WORKERS}"), DERIVED.to_owned()];
    for ((path, before), now) in paths.iter().zip(divided(before)).zip(divided(now)) {
        collect(path, &before, &now, &mut found);
    }
    found
}

fn collect(path: &str, before: &Value, now: &Value, found: &mut Vec<Difference>) {
    match (before, now) {
        _ if before == now => {}
        (Value::Object(one), Value::Object(other))
            if duration(before).is_none() || duration(now).is_none() =>
        {
            let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for name in names {
                let joint = if path.is_empty() { "" } else { "." };
                let below = format!("{path}{joint}{}", name.replace('_', "-"));
                let [one, other] = [one, other].map(|fields| fields.get(name).unwrap_or(&Value::Null));
                collect(&below, one, other, found);
            }
        }
        // A choice with settings of its own is an object with one entry, named after it; one without is a name.
        (Value::String(_), Value::Object(_)) | (Value::Object(_), Value::String(_)) => {
            found.push(Difference { key: key(path), before: chosen(before), now: chosen(now) });
        }
        _ => found.push(Difference { key: key(path), before: brief(before), now: brief(now) }),
    }
}

/// The recipe's name of a setting.
fn key(path: &str) -> String {
    if path == "emulation" {
        return "the emulation".to_owned();
    }
    path.replace("train.length.", "train.")
        .replace("train.evaluate.steps", "train.evaluate (steps)")
        .replace("train.evaluate.epochs", "train.evaluate (epochs)")
        .replace("train.target.threshold", "train.target (value)")
        .replace("communication.schedule.fixed.bytes", "communication.schedule.size (bytes)")
        .replace("train.schedule.", "train.lr-schedule.")
        .replace("dataset.source.", "dataset.")
        .replace("emulation.slow", "nodes.slow")
        .replace("threads.worker", "nodes.threads")
        .replace("threads.evaluate-at-once", "evaluation beside the run")
        .replace("threads.evaluator", "threads of the evaluator")
        .replace(".moving-rate.divided", ".moving-rate (0.9 / workers)")
        .replace(".moving-rate.fixed", ".moving-rate")
        .replace(".moving-rate.rho", ".rho")
        .replace("compression.codec", "compression")
        .replace("train.lr-schedule.scale.linear.reference", "train.lr-schedule.reference")
        .replace("emulation.", "")
}

fn chosen(value: &Value) -> String {
    match value {
        Value::Object(fields) if fields.len() == 1 => {
            fields.keys().next().map(|name| name.replace('_', "-")).unwrap_or_default()
        }
        _ => brief(value),
    }
}

fn duration(value: &Value) -> Option<Duration> {
    value.get("secs").and_then(|_| serde_json::from_value(value.clone()).ok())
}

fn brief(value: &Value) -> String {
    if let Some(duration) = duration(value) {
        return format!("{duration:?}");
    }
    let text = match value {
        Value::Null => "not set".to_owned(),
        Value::Object(fields) if fields.len() == 1 => chosen(value),
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
    };
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(before: Value, now: Value) -> Vec<String> {
        written_first(&before, &now).iter().map(Difference::words).collect()
    }

    #[test]
    fn differences_are_named_with_both_values() {
        let before = json!({ "train": { "optimizer": { "lr": 0.1f32, "momentum": 0.0 } }, "strategy": { "kind": "d-sync" } });
        let mut now = before.clone();
        assert_eq!(told(before.clone(), now.clone()), [""; 0]);
        now["train"]["optimizer"]["lr"] = json!(0.2f32);
        assert_eq!(told(before.clone(), now.clone()), ["train.optimizer.lr is 0.2, was 0.1"]);
        now["strategy"]["kind"] = json!("ps-sync");
        let both = ["strategy.kind is ps-sync, was d-sync", "train.optimizer.lr is 0.2, was 0.1"];
        assert_eq!(told(before, now), both);
    }

    #[test]
    fn settings_have_the_names_of_the_recipe() {
        let length = |epochs| json!({ "train": { "length": { "epochs": epochs } } });
        assert_eq!(told(length(3.0), length(2.5)), ["train.epochs is 2.5, was 3"]);
        let step = |time: Duration| json!({ "emulation": { "compute": { "step_time": time } } });
        let [before, now] = [Duration::from_millis(20), Duration::from_secs(8)].map(step);
        assert_eq!(told(before.clone(), now), ["compute.step-time is 8s, was 20ms"]);
        assert_eq!(told(json!({}), before), ["the emulation is compute, was not set"]);
        let scale = |scale: Value| json!({ "train": { "schedule": { "scale": scale } } });
        assert_eq!(
            told(scale(json!("none")), scale(json!({ "linear": { "reference_batch": 32 } }))),
            ["train.lr-schedule.scale is linear, was none"]
        );
    }

    #[test]
    fn a_setting_that_follows_from_others_comes_last() {
        let spec = |workers: u32, beside: bool, stop: bool| {
            json!({
                "threads": { "worker": workers, "evaluator": 1, "evaluate_at_once": beside },
                "train": { "target": { "stop": stop } },
            })
        };
        let told = |now| told(spec(2, false, false), now);
        let [stop, beside] =
            ["train.target.stop is true, was false", "evaluation beside the run is true, was false"];
        assert_eq!(told(spec(2, true, true)), [stop, beside]);
        assert_eq!(told(spec(1, true, false)), ["nodes.threads is 1, was 2", beside]);
        assert_eq!(told(spec(2, true, false)), [beside]);
        assert_eq!(told(spec(2, false, false)), [""; 0]);
    }

    #[test]
    fn keys_that_come_or_go_count_as_not_set() {
        assert_eq!(told(json!({}), json!({ "global_batch": 4 })), ["global-batch is 4, was not set"]);
        assert_eq!(told(json!({ "a": [1] }), json!({ "a": null })), ["a is not set, was another"]);
    }
}
