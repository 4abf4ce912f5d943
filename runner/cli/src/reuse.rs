//! Decides for each run of a plan whether it is trained, repeated or reused, from its identity and its earlier attempts.

use crate::environment::Environment;
use crate::exit::Failure;
use crate::live::{self, Live};
use crate::resume;
use launch::Continuation;
use recipe::{
    Cell, ChangedSetting, Configuration, Configurations, KeyValue, Plan, Provenance, Run, SharedValues,
    changed_settings,
};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use store::{EarlierRun, RunId, RunRef, RunState, Store, StoreError, SweepId};

/// Why a run is trained that nothing is known of.
pub(crate) const NEVER: &str = "never run before";

/// The action for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// It is trained from the beginning.
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
    /// Key by which finished runs are found: equal for equal runs.
    pub(crate) identity: String,
    /// Data, worker program and hardware, which decide its numbers beside its configuration.
    pub(crate) surroundings: Provenance,
}

/// Whether finished runs are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reuse {
    /// Results of finished runs are taken.
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
    let values = match store {
        Some(store) => values_of(store, earlier.values().copied()).await?,
        None => BTreeMap::new(),
    };
    let values: BTreeMap<&SweepId, SharedValues<'_>> =
        values.iter().map(|(sweep, values)| (sweep, SharedValues::of(values))).collect();
    let configurations = Configurations::of(plan);
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
        let now = Now {
            run,
            cell,
            identity: &identity,
            surroundings: &surroundings,
            configurations: &configurations,
            values: &values,
        };
        let (action, why) = match (finished, reuse) {
            (Some(finished), _) => {
                let why = format!("{} as {}", finished.state.name(), short(finished.run.as_str()));
                (Action::Reuse(finished), why)
            }
            (None, Reuse::Nothing) => (Action::Run, "asked for with --fresh".to_owned()),
            (None, Reuse::Apart) => (Action::Run, NEVER.to_owned()),
            (None, Reuse::Finished) => now.resumed(store, before.copied()).await?,
        };
        let why = match (store, reuse) {
            (Some(store), Reuse::Finished) if why == NEVER => never_here(store, &identity).await?,
            _ => why,
        };
        decisions.push(Decision { action, why, identity, surroundings });
    }
    Ok(decisions)
}

/// Why a run that was never measured here is trained. An equal one that was imported is no result of this machine: a run's identity knows
/// the kind of a machine, and not what else ran on it.
async fn never_here(store: &Store, identity: &str) -> Result<String, Failure> {
    Ok(match store.find_imported(identity).await? {
        Some(run) => format!("measured elsewhere as {}, never here", short(run.as_str())),
        None => NEVER.to_owned(),
    })
}

/// The values of the keys of the sweeps of these runs.
async fn values_of(
    store: &Store,
    runs: impl Iterator<Item = &EarlierRun>,
) -> Result<BTreeMap<SweepId, Vec<KeyValue>>, StoreError> {
    let sweeps: BTreeSet<&SweepId> = runs.map(|run| &run.sweep).collect();
    let mut values = BTreeMap::new();
    for sweep in sweeps {
        values.insert(sweep.clone(), store.key_values(sweep).await?);
    }
    Ok(values)
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
    configurations: &'a Configurations<'a>,
    /// Of the keys of the earlier sweeps.
    values: &'a BTreeMap<&'a SweepId, SharedValues<'a>>,
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
        Ok(match resume::continuation(&resume::attempts(store, &runs), &self.cell.spec) {
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
            RunState::Pending | RunState::NotNeeded | RunState::Done => (Action::Run, NEVER.to_owned()),
        }
    }

    /// The first setting that differs from the earlier run's, in words.
    fn first_setting(&self, before: &EarlierRun) -> Option<String> {
        if before.spec == self.cell.spec {
            return None;
        }
        let values = self.values.get(&before.sweep)?.of_cell(before.cell.arm, before.cell.cell);
        let before = Configuration { values, spec: before.spec.clone() };
        changed_settings(&before, &self.configurations.of_cell(self.run.cell)?)
            .first()
            .map(ChangedSetting::words)
    }

    /// The first input that differs from the earlier run's.
    fn difference(&self, before: &EarlierRun) -> String {
        if let Some(first) = self.first_setting(before) {
            return first;
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
