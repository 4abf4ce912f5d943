//! Decides for each run of a plan whether it is trained, repeated or reused, from its identity and its earlier attempts.

use crate::environment::Environment;
use crate::exit::Failure;
use crate::live::{self, Live};
use crate::resume;
use launch::Continuation;
use recipe::{Cell, Plan, Provenance, Run, RunSpec};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::time::Duration;
use store::{EarlierRun, RunId, RunRef, RunState, Store};

/// Why a run is trained that nothing is known of.
pub(crate) const NEVER: &str = "never run before";

/// The action for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// It is trained.
    Run,
    /// It is trained again: it did not end well.
    Repeat,
    /// It continues from the furthest checkpoint of these runs, which are the same and ended early.
    Resume(Vec<RunId>),
    /// The numbers of this finished run are taken.
    Reuse(RunRef),
}

impl Action {
    /// Its name in `plan --why`.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Repeat => "repeat",
            Self::Resume(_) => "resume",
            Self::Reuse(_) => "reuse",
        }
    }
}

/// The decision about a run.
#[derive(Clone, Debug)]
pub(crate) struct Decision {
    pub(crate) action: Action,
    /// Why, in a few words.
    pub(crate) why: String,
    /// What makes the run the same as another.
    pub(crate) identity: String,
    /// What decides its numbers beside its configuration.
    pub(crate) surroundings: Provenance,
}

/// Whether finished runs are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reuse {
    /// They are.
    Finished,
    /// `--fresh`: everything is trained.
    Nothing,
    /// Everything is trained, and no other sweep takes the results.
    Apart,
}

/// Decides about every run of a plan, in its order. Without a store there is nothing to reuse.
pub(crate) async fn decide(
    plan: &Plan,
    environment: &mut Environment,
    store: Option<&Store>,
    reuse: Reuse,
) -> Result<Vec<Decision>, Failure> {
    let earlier = match store {
        Some(store) => store.earlier_runs(&plan.name).await?,
        None => Vec::new(),
    };
    let earlier: BTreeMap<(&str, &str, u32), &EarlierRun> =
        earlier.iter().map(|run| ((run.arm.as_str(), run.condition.as_str(), run.repeat), run)).collect();
    let mut decisions = Vec::with_capacity(plan.runs.len());
    for run in &plan.runs {
        let cell = &plan.cells[run.cell];
        let surroundings = environment.surroundings(&cell.spec)?;
        let identity = run.identity(cell, &surroundings);
        let identity = if reuse == Reuse::Apart { apart(&identity) } else { identity };
        let finished = match (store, reuse) {
            (Some(store), Reuse::Finished) => store.find_finished(&identity).await?,
            _ => None,
        };
        let before = earlier.get(&(plan.arms[cell.arm].name.as_str(), cell.condition.as_str(), run.repeat));
        let now = Now { run, cell, identity: &identity, surroundings: &surroundings };
        let (action, why) = match (finished, reuse) {
            (Some(finished), _) => {
                let why = format!("{} as {}", finished.state.name(), short(finished.run.as_str()));
                (Action::Reuse(finished), why)
            }
            (None, Reuse::Nothing) => (Action::Run, "asked for with --fresh".to_owned()),
            (None, Reuse::Apart) => (Action::Run, NEVER.to_owned()),
            (None, Reuse::Finished) => now.resumed(store, before.copied()).await?,
        };
        decisions.push(Decision { action, why, identity, surroundings });
    }
    Ok(decisions)
}

/// An identity that no run of a recipe has.
fn apart(identity: &str) -> String {
    recipe::hex(&Sha256::digest(format!("apart\n{identity}")))
}

/// The end of an id: what tells runs of one sweep apart.
pub(crate) fn short(id: &str) -> &str {
    id.get(id.len().saturating_sub(8)..).unwrap_or(id)
}

/// A run as it would be now.
struct Now<'a> {
    run: &'a Run,
    cell: &'a Cell,
    identity: &'a str,
    surroundings: &'a Provenance,
}

impl Now<'_> {
    /// As [`compared_with`](Self::compared_with), from a checkpoint where there is one.
    async fn resumed(
        &self,
        store: Option<&Store>,
        before: Option<&EarlierRun>,
    ) -> Result<(Action, String), Failure> {
        let (action, why) = self.compared_with(before);
        let (Action::Repeat, Some(store), Some(before)) = (&action, store, before) else {
            return Ok((action, why));
        };
        let runs = self.ended_early(store).await?;
        Ok(match resume::continuation(store, &runs, &self.cell.spec) {
            Some(Continuation { checkpoint, .. }) => {
                (Action::Resume(runs), format!("{why}; it continues after step {}", checkpoint.step()))
            }
            None if matches!(before.state, RunState::Interrupted | RunState::Running) => {
                (action, format!("{why}; it begins anew"))
            }
            None => (action, why),
        })
    }

    /// The earlier runs of this identity whose checkpoints are complete: those of a living driver change.
    async fn ended_early(&self, store: &Store) -> Result<Vec<RunId>, Failure> {
        let living = live::all(store.folder()).into_iter().filter(Live::is_alive);
        let living: Vec<String> = living.map(|driver| driver.sweep).collect();
        let runs = store.ended_early(self.identity).await?;
        let dead = runs.into_iter().filter(|(_, sweep)| !living.iter().any(|one| one == sweep.as_str()));
        Ok(dead.map(|(run, _)| run).collect())
    }

    fn compared_with(&self, before: Option<&EarlierRun>) -> (Action, String) {
        let Some(before) = before else { return (Action::Run, NEVER.to_owned()) };
        if before.identity.as_deref() != Some(self.identity) {
            return (Action::Run, self.difference(before));
        }
        let detail = if before.detail.is_empty() { String::new() } else { format!(": {}", before.detail) };
        match before.state {
            RunState::Failed => (Action::Repeat, format!("it failed{detail}")),
            RunState::Degraded => (Action::Repeat, format!("it is degraded{detail}")),
            RunState::TimedOut => (Action::Repeat, "it ran out of time".to_owned()),
            RunState::Interrupted => (Action::Repeat, "it was interrupted".to_owned()),
            RunState::Running => (Action::Repeat, "it was not finished".to_owned()),
            // With all of its ranks it would have been reused.
            RunState::Diverged => (Action::Repeat, format!("it was degraded, and diverged{detail}")),
            RunState::Pending | RunState::Done => (Action::Run, NEVER.to_owned()),
        }
    }

    /// The first input that differs from the earlier run's.
    fn difference(&self, before: &EarlierRun) -> String {
        if let Some(words) = first_difference(&before.spec, &self.cell.spec) {
            return words;
        }
        if before.seed != self.run.seed {
            return format!("the seed is {}, was {}", self.run.seed, before.seed);
        }
        match &before.surroundings {
            Some(then) if then.data != self.surroundings.data => "the data has changed".to_owned(),
            Some(then) if then.worker != self.surroundings.worker => {
                "the worker program has changed".to_owned()
            }
            Some(then) if then.hardware != self.surroundings.hardware => {
                format!("the machine is {}, was {}", self.surroundings.hardware, then.hardware)
            }
            _ => "data, worker program or machine have changed".to_owned(),
        }
    }
}

/// The first setting in which two specifications differ, in words.
fn first_difference(before: &RunSpec, now: &RunSpec) -> Option<String> {
    let [before, now] = [before, now].map(|spec| serde_json::to_value(spec).unwrap_or_default());
    first_written(&before, &now)
}

/// A setting that the recipe writes comes before one that follows from others: where the evaluator computes follows from the
/// target, the ranks and the workers' threads.
fn first_written(before: &Value, now: &Value) -> Option<String> {
    const DERIVED: &str = "threads";
    let own = |spec: &Value| {
        let mut own = spec.clone();
        let threads = own.as_object_mut().and_then(|fields| fields.remove(DERIVED));
        (own, threads.unwrap_or_default())
    };
    let (before, threads_before) = own(before);
    let (now, threads_now) = own(now);
    let worker = |threads: &Value| threads.get("worker").cloned().unwrap_or_default();
    differing("", &before, &now)
        .or_else(|| differing("threads.worker", &worker(&threads_before), &worker(&threads_now)))
        .or_else(|| differing(DERIVED, &threads_before, &threads_now))
}

fn differing(path: &str, before: &Value, now: &Value) -> Option<String> {
    match (before, now) {
        _ if before == now => None,
        (Value::Object(one), Value::Object(other))
            if duration(before).is_none() || duration(now).is_none() =>
        {
            let names: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            names.into_iter().find_map(|name| {
                let joint = if path.is_empty() { "" } else { "." };
                let below = format!("{path}{joint}{}", name.replace('_', "-"));
                differing(
                    &below,
                    one.get(name).unwrap_or(&Value::Null),
                    other.get(name).unwrap_or(&Value::Null),
                )
            })
        }
        // A choice with settings of its own is an object with one entry, named after it; one without is a name.
        (Value::String(_), Value::Object(_)) | (Value::Object(_), Value::String(_)) => {
            Some(format!("{} is {}, was {}", key(path), chosen(now), chosen(before)))
        }
        _ => Some(format!("{} is {}, was {}", key(path), brief(now), brief(before))),
    }
}

/// The recipe's name of a setting.
fn key(path: &str) -> String {
    if path == "emulation" {
        return "what is emulated".to_owned();
    }
    path.replace("train.length.", "train.")
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
        Value::Object(fields) if fields.len() == 1 => fields.keys().next().cloned().unwrap_or_default(),
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
        Value::Object(_) | Value::Array(_) => "another".to_owned(),
        Value::Number(number) => match number.as_f64() {
            // 32-bit settings show the digits that were written.
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

    fn told(before: Value, now: Value) -> Option<String> {
        differing("", &before, &now)
    }

    #[test]
    fn the_first_difference_is_named_with_both_values() {
        let before = json!({ "train": { "optimizer": { "lr": 0.1f32, "momentum": 0.0 } }, "strategy": { "kind": "d-sync" } });
        let mut now = before.clone();
        assert_eq!(told(before.clone(), now.clone()), None);
        now["train"]["optimizer"]["lr"] = json!(0.2f32);
        assert_eq!(told(before.clone(), now.clone()).unwrap(), "train.optimizer.lr is 0.2, was 0.1");
        now["strategy"]["kind"] = json!("ps-sync");
        assert_eq!(told(before, now).unwrap(), "strategy.kind is ps-sync, was d-sync");
    }

    #[test]
    fn settings_have_the_names_of_the_recipe() {
        let length = |epochs| json!({ "train": { "length": { "epochs": epochs } } });
        assert_eq!(told(length(3.0), length(2.5)).unwrap(), "train.epochs is 2.5, was 3");
        let step = |time: Duration| json!({ "emulation": { "compute": { "step_time": time } } });
        let [before, now] = [Duration::from_millis(20), Duration::from_secs(8)].map(step);
        assert_eq!(told(before.clone(), now).unwrap(), "compute.step-time is 8s, was 20ms");
        assert_eq!(told(json!({}), before).unwrap(), "what is emulated is another, was not set");
        let scale = |scale: Value| json!({ "train": { "schedule": { "scale": scale } } });
        assert_eq!(
            told(scale(json!("none")), scale(json!({ "linear": { "reference_batch": 32 } }))).unwrap(),
            "train.lr-schedule.scale is linear, was none"
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
        let told = |now| first_written(&spec(2, false, false), &now);
        assert_eq!(told(spec(2, true, true)).unwrap(), "train.target.stop is true, was false");
        assert_eq!(told(spec(1, true, false)).unwrap(), "nodes.threads is 1, was 2");
        assert_eq!(told(spec(2, true, false)).unwrap(), "evaluation beside the run is true, was false");
        assert_eq!(told(spec(2, false, false)), None);
    }

    #[test]
    fn keys_that_come_or_go_count_as_not_set() {
        assert_eq!(told(json!({}), json!({ "global_batch": 4 })).unwrap(), "global-batch is 4, was not set");
        assert_eq!(told(json!({ "a": [1] }), json!({ "a": null })).unwrap(), "a is not set, was another");
    }
}
