//! A sweep's journal, read for a bundle: which files belong to it, and whether a driver could have written it.

use super::is_id;
use crate::journal::entries::{Entry, SweepEntry};
use crate::read::earlier::SURROUNDINGS;
use crate::rebuild::valid::{last_ends, unpruned};
use crate::{NodeRow, RunState, SweepNote, SweepTag};
use recipe::{Provenance, SharedBy, hex, turns_text};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// An attempt: the run and its number.
pub(crate) type AttemptName = (String, u32);

/// A sweep by its journal.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) entry: SweepEntry,
    /// Bytes of the events of each attempt that ended.
    pub(crate) logs: BTreeMap<AttemptName, u64>,
    /// Attempts without an end.
    pub(crate) open: BTreeSet<AttemptName>,
    /// Whether the sweep itself has an end.
    pub(crate) has_ended: bool,
    /// Runs from which others took their results.
    pub(crate) sources: BTreeSet<String>,
    /// Whether runs of it were removed.
    pub(crate) pruned: bool,
    /// Number of runs with a result.
    pub(crate) done: usize,
    /// The machines of its attempts.
    pub(crate) machines: Vec<NodeRow>,
    /// Distinct provenances of its attempts, which decide their numbers together with the configurations.
    pub(crate) surroundings: Vec<Provenance>,
    pub(crate) tags: BTreeSet<String>,
    pub(crate) note: String,
    /// The runs of the sweep.
    own: BTreeSet<String>,
    /// SHA-256 of its lines, without those of tags and notes, which may differ from store to store.
    pub(crate) digest: String,
}

impl Content {
    /// Reads a journal of whole lines.
    ///
    /// # Errors
    /// A reason in words, if a line cannot be read or the first is no plan.
    pub(crate) fn read(journal: &[u8]) -> Result<Self, String> {
        let mut digest = Sha256::new();
        let mut entries = Vec::new();
        for (number, line) in (1..).zip(journal.split_inclusive(|byte| *byte == b'\n')) {
            if !line.ends_with(b"\n") {
                return Err(format!("line {number} of the journal has no end"));
            }
            let entry: Entry = serde_json::from_slice(line)
                .map_err(|error| format!("line {number} of the journal cannot be read: {error}"))?;
            if !entry.is_annotation() {
                digest.update(line);
            }
            entries.push(entry);
        }
        let mut entries = entries.into_iter();
        let Some(Entry::Sweep(entry)) = entries.next() else {
            return Err("the journal does not begin with a plan".to_owned());
        };
        let mut content = Self {
            own: entry.runs.iter().cloned().collect(),
            entry: *entry,
            logs: BTreeMap::new(),
            open: BTreeSet::new(),
            has_ended: false,
            sources: BTreeSet::new(),
            pruned: false,
            done: 0,
            machines: Vec::new(),
            surroundings: Vec::new(),
            tags: BTreeSet::new(),
            note: String::new(),
            digest: hex(&digest.finalize()),
        };
        let mut done = BTreeSet::new();
        for entry in last_ends(unpruned(entries.collect())) {
            content.add(entry, &mut done)?;
        }
        content.done = done.len();
        Ok(content)
    }

    fn add(&mut self, entry: Entry, done: &mut BTreeSet<String>) -> Result<(), String> {
        match entry {
            Entry::Attempt { run, number, nodes, .. } => {
                self.own(&run)?;
                self.open.insert((run, number));
                for node in nodes {
                    if !self.machines.contains(&node) {
                        self.machines.push(node);
                    }
                }
            }
            Entry::AttemptEnd { run, number, end, log, .. } => {
                if !self.open.remove(&(run.clone(), number)) {
                    return Err(format!("attempt {number} of run {run:?} ends, and never began"));
                }
                if matches!(end.state, RunState::Pending | RunState::Running | RunState::NotNeeded) {
                    return Err(format!("attempt {number} of run {run} ends as {}", end.state.name()));
                }
                let counts = matches!(end.state, RunState::Done | RunState::Diverged);
                if counts {
                    done.insert(run.clone())
                } else {
                    done.remove(&run)
                };
                self.logs.insert((run, number), log);
            }
            Entry::Note { run, state, text, .. } => {
                self.own(&run)?;
                if state == SURROUNDINGS
                    && let Ok(found) = serde_json::from_str::<Provenance>(&text)
                    && !self.surroundings.contains(&found)
                {
                    self.surroundings.push(found);
                }
            }
            Entry::Identity { run, .. } => self.own(&run)?,
            Entry::Reused { run, source } => {
                self.own(&run)?;
                done.insert(run);
                self.sources.insert(source);
            }
            Entry::Pruned { run } => {
                self.own(&run)?;
                self.pruned = true;
            }
            Entry::SweepEnd { .. } => self.has_ended = true,
            Entry::Tag { name, .. } => {
                self.tags
                    .insert(SweepTag::parse(&name).map_err(|error| error.to_string())?.as_str().to_owned());
            }
            Entry::Untag { name, .. } => {
                self.tags.remove(&name);
            }
            Entry::SweepNote { text, .. } => {
                let note = SweepNote::parse(&text).map_err(|error| error.to_string())?;
                note.as_str().clone_into(&mut self.note);
            }
            Entry::Imported { .. } => {}
            Entry::Sweep(_) | Entry::Report { .. } => {
                return Err("the journal has a second plan, or a page".to_owned());
            }
        }
        Ok(())
    }

    fn own(&self, run: &str) -> Result<(), String> {
        if self.own.contains(run) {
            return Ok(());
        }
        Err(format!("the journal tells of a run {run:?}, which is none of the sweep's"))
    }

    /// Why no driver wrote this as the journal of the ended sweep of this id.
    pub(crate) fn fault(&self, sweep: &str) -> Option<String> {
        let SweepEntry { sweep: own, runs, plan, .. } = &self.entry;
        if own != sweep {
            return Some(format!("the journal of sweep {sweep} is that of {own:?}"));
        }
        let distinct: BTreeSet<&String> = runs.iter().collect();
        if runs.len() != plan.runs.len() || distinct.len() != runs.len() || !runs.iter().all(|run| is_id(run))
        {
            return Some(format!("the runs of sweep {sweep} are not those of its plan"));
        }
        let refers = plan.runs.iter().all(|run| run.cell < plan.cells.len())
            && plan.cells.iter().all(|cell| cell.arm < plan.arms.len())
            && plan
                .search
                .iter()
                .flat_map(|search| &search.trials)
                .all(|trial| trial.cell < plan.cells.len())
            && plan.values.iter().all(|value| match value.of {
                SharedBy::Plan => true,
                SharedBy::Arm(arm) => arm < plan.arms.len(),
                SharedBy::Cell(cell) => cell < plan.cells.len(),
            });
        let names: BTreeSet<&String> = plan.arms.iter().map(|arm| &arm.name).collect();
        let baselines = plan.arms.iter().filter(|arm| arm.baseline).count();
        if !refers || names.len() != plan.arms.len() || baselines != 1 {
            return Some(format!("the plan of sweep {sweep} contradicts itself"));
        }
        if !self.is_plausible() {
            return Some(format!("the plan of sweep {sweep} has numbers that no run can have"));
        }
        if !self.has_ended || !self.open.is_empty() {
            return Some(format!("sweep {sweep} has no end: it was under way when it was bundled"));
        }
        let odd = self.names().find(|name| name.chars().any(turns_text)).map(str::to_owned);
        let odd = odd.or_else(|| self.specs().find_map(|spec| turning(&spec).map(str::to_owned)));
        odd.map(|name| {
            let name = super::manifest::cut(&name);
            format!("sweep {sweep} has the name {name:?}, with a character that changes how text is shown, which no recipe may have")
        })
    }

    /// Whether its numbers are so small that no sum or product of them overflows.
    fn is_plausible(&self) -> bool {
        let plan = &self.entry.plan;
        let report = &plan.report;
        let shares = [report.confidence, report.min_effect, report.min_quality];
        shares.iter().all(|share| (0.0..1.0).contains(share)) && self.specs().all(|spec| is_bounded(&spec))
    }

    /// Specifications of its cells, as JSON.
    fn specs(&self) -> impl Iterator<Item = Value> {
        self.entry.plan.cells.iter().map(|cell| serde_json::to_value(&cell.spec).unwrap_or_default())
    }

    /// The texts that tables and sentences show of it; each was a single line where it was made.
    fn names(&self) -> impl Iterator<Item = &str> {
        let SweepEntry { plan, version, recipe_path, commit, driver, .. } = &self.entry;
        let of_plan = [&plan.name, version, recipe_path, &driver.host].into_iter();
        let arms = plan.arms.iter().flat_map(|arm| [&arm.name, &arm.kind]);
        let cells = plan.cells.iter().flat_map(|cell| [&cell.condition, &cell.label]);
        let axes = plan.cells.iter().flat_map(|cell| &cell.axes).flat_map(|axis| [&axis.path, &axis.text]);
        let values = plan.values.iter().flat_map(|value| [&value.path, &value.text]);
        let machines =
            self.machines.iter().flat_map(|node| [&node.name, &node.host, &node.system, &node.processor]);
        let surroundings =
            self.surroundings.iter().flat_map(|found| [&found.data, &found.worker, &found.hardware]);
        let all =
            of_plan.chain(arms).chain(cells).chain(axes).chain(values).chain(machines).chain(surroundings);
        all.chain(commit.iter().map(|commit| &commit.hash)).map(String::as_str)
    }
}

/// A text of a specification with a character that changes how text is shown.
fn turning(spec: &Value) -> Option<&str> {
    match spec {
        Value::String(text) => text.chars().any(turns_text).then_some(text.as_str()),
        Value::Array(values) => values.iter().find_map(turning),
        Value::Object(fields) => {
            let named = fields.keys().find(|name| name.chars().any(turns_text));
            named.map(String::as_str).or_else(|| fields.values().find_map(turning))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// The largest number of a specification: operations of a model, bits in a second.
const LARGEST: u64 = 1 << 48;
/// Number of values of the largest tensor.
const LARGEST_TENSOR: u64 = 1 << 31;

/// Whether all numbers of a specification are bounded.
fn is_bounded(spec: &Value) -> bool {
    match spec {
        Value::Object(fields) => fields.iter().all(|(name, value)| match name.as_str() {
            "seed" => true,
            "model" => is_bounded(value) && has_bounded_tensors(value),
            _ => is_bounded(value),
        }),
        Value::Array(values) => values.iter().all(is_bounded),
        Value::Number(number) => number.as_u64().is_none_or(|number| number <= LARGEST),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

/// Whether what a shape's numbers multiply to is bounded: they stand in a list.
fn has_bounded_tensors(model: &Value) -> bool {
    match model {
        Value::Object(fields) => {
            fields.iter().all(|(name, value)| name == "flops" || has_bounded_tensors(value))
        }
        Value::Array(values) => {
            let mut sizes = values.iter().filter_map(Value::as_u64);
            let size = sizes.try_fold(1_u64, |product, size| product.checked_mul(size.max(1)));
            size.is_some_and(|size| size <= LARGEST_TENSOR) && values.iter().all(has_bounded_tensors)
        }
        Value::Number(number) => number.as_u64().is_none_or(|number| number <= LARGEST_TENSOR),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tensors_are_bounded_by_what_their_sizes_multiply_to() {
        let model = |model: Value| is_bounded(&json!({ "model": model, "dataset": { "seed": u64::MAX } }));
        assert!(model(
            json!({ "shape": [512, 512, 3, 3], "flops": 1_u64 << 40, "output": { "image": [64, 224, 224] } })
        ));
        for bad in [
            json!({ "flat": u64::MAX }),
            json!({ "flops": u64::MAX }),
            json!({ "shape": [1 << 20, 1 << 20] }),
            json!({ "layers": [{ "output": { "image": [1 << 20, 1 << 20, 1] } }] }),
            json!({ "a": [{ "b": { "flat": 1_u64 << 32 } }] }),
            json!({ "shape": [u64::MAX, u64::MAX] }),
        ] {
            assert!(!model(bad.clone()), "{bad}");
        }
        assert!(!is_bounded(&json!({ "train": { "global_batch": u64::MAX } })));
        assert!(is_bounded(&json!({ "train": { "milestones": [1 << 20, 1 << 20] } })));
    }
}
