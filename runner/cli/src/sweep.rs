//! The loop over the runs of a sweep: each is reused, or tried until it ends well or tries run out.

use crate::durations::Durations;
use crate::environment::Environment;
use crate::exit::Failure;
use crate::machines::Machines;
use crate::output::human;
use crate::page;
use crate::progress::{Progress, RunEnd};
use crate::recorder::Recorder;
use crate::resume;
use crate::reuse::{Action, Decision};
use crate::session::Session;
use crate::time_budget::{self, TimeBudget};
use launch::{Attempt, Deadlines, End, FaultOrigin, LaunchError, LostRank, Outcome};
use recipe::{Plan, Run, Search, Source};
use record::Nanos;
use reports::Look;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};
use store::{
    AttemptEnd, LostRow, NewAttempt, NodeId, RunId, RunState, Selection, Store, StoreError, SweepEnd, SweepId,
};
use tokio::sync::mpsc;

/// Updates that wait for the recorder; beyond them the launcher keeps them.
const CHANNEL: usize = 1024;

/// A sweep about to be run.
pub(crate) struct Sweep<'a> {
    /// The plan that is run.
    pub(crate) plan: &'a Plan,
    /// The decision about each run, in the plan's order.
    pub(crate) decisions: &'a [Decision],
    /// Where results go.
    pub(crate) store: &'a Store,
    /// The sweep's row.
    pub(crate) id: &'a SweepId,
    /// The worker program and the machines.
    pub(crate) environment: &'a Environment,
    /// The rows of the plan's machines, by the name of the node.
    pub(crate) nodes: &'a BTreeMap<String, NodeId>,
    /// The user's requests to stop.
    pub(crate) session: &'a Session,
    /// The progress display.
    pub(crate) progress: &'a Progress,
    /// Number of failed runs after which no new run is started.
    pub(crate) max_fail: Option<u32>,
    /// The durations of runs that are known before the first.
    pub(crate) durations: Durations,
    /// The time after which none is to end.
    pub(crate) time_budget: Option<TimeBudget>,
}

impl Sweep<'_> {
    /// Runs the sweep to its end, or until it is to stop.
    ///
    /// # Errors
    /// The store cannot be written; a run that fails is a result.
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        let ids = self.store.runs_of(self.id).await?;
        let mut all = Rounds {
            ids: &ids,
            tried: vec![false; ids.len()],
            failed: 0,
            durations: self.durations.clone(),
            told: false,
        };
        let chosen = match &self.plan.search {
            Some(search) => self.by_halving(&mut all, search).await?,
            None => Some((0..self.plan.cells.len()).collect()),
        };
        let end = match (chosen, self.plan.looks.as_slice()) {
            (None, _) => SweepEnd::Interrupted,
            (Some(cells), []) => self.round(&mut all, |run| cells.contains(&run.cell)).await?,
            (Some(cells), looks) => self.until_decided(&mut all, cells, looks).await?,
        };
        Ok(self.write_last(|| self.store.record_sweep_end(self.id, end, human::now())).await?)
    }

    /// Runs the rungs of all searches, each with the settings that are left. Returns the cells that train to the end; `None` if it was
    /// interrupted.
    async fn by_halving(
        &self,
        all: &mut Rounds<'_>,
        search: &Search,
    ) -> Result<Option<BTreeSet<usize>>, Failure> {
        let first = search.trials.iter().filter_map(|trial| trial.rungs.first().copied());
        let mut needed: BTreeSet<usize> = first.collect();
        for rung in 0..search.rungs {
            if needed.is_empty() {
                break;
            }
            if self.round(all, |run| needed.contains(&run.cell)).await? == SweepEnd::Interrupted {
                return Ok(None);
            }
            let rows = self.store.sweep_rows(&Selection::sweep(self.id)).await?;
            let Some(promotion) = reports::promoted(&rows, rung) else { break };
            self.progress.looked(&format!("after rung {} of {}:", rung + 1, search.rungs));
            promotion.words.iter().for_each(|words| self.progress.looked(&format!("  {words}")));
            needed = promotion.needed;
        }
        Ok(Some(needed))
    }

    /// Runs the cells up to the first look; from then on, up to each further look, those that it needs.
    async fn until_decided(
        &self,
        all: &mut Rounds<'_>,
        cells: BTreeSet<usize>,
        looks: &[u32],
    ) -> Result<SweepEnd, Failure> {
        let mut needed = cells;
        for (number, up_to) in looks.iter().enumerate() {
            let chosen = |run: &Run| run.repeat < *up_to && needed.contains(&run.cell);
            if self.round(all, chosen).await? == SweepEnd::Interrupted {
                return Ok(SweepEnd::Interrupted);
            }
            let rows = self.store.sweep_rows(&Selection::sweep(self.id)).await?;
            let look = reports::look(&rows, &page::options())?;
            self.progress.looked(&looked(self.plan, &look, *up_to, looks.get(number + 1)));
            if look.needed.is_empty() {
                return Ok(SweepEnd::Done);
            }
            needed = look.needed;
        }
        // An arm that was settled before, and is open again beside what the others have become, has repeats left.
        self.round(all, |run| needed.contains(&run.cell)).await
    }

    /// Makes those of the chosen runs that were not tried before; interrupted if it ends before the last of them.
    async fn round(&self, all: &mut Rounds<'_>, chosen: impl Fn(&Run) -> bool) -> Result<SweepEnd, Failure> {
        let runs = self.plan.runs.iter().zip(all.ids).zip(self.decisions).enumerate();
        let round: Vec<_> = runs.filter(|(place, ((run, _), _))| !all.tried[*place] && chosen(run)).collect();
        let is_trained = |decision: &Decision| !matches!(decision.action, Action::Reuse(_));
        self.progress.add(round.len());
        // Of the runs that are made in any case that was said before the first of them.
        let reused = |(_, ((run, _), decision)): &&(usize, ((&Run, &RunId), &Decision))| {
            !self.plan.is_certain(run) && !is_trained(decision)
        };
        match round.iter().filter(reused).count() {
            0 => {}
            reused => self.progress.looked(&format!(
                "{reused} of {} finished before and reused",
                human::count(round.len(), "run")
            )),
        }
        for (_, ((run, _), _)) in round.iter().filter(|(_, (_, decision))| !is_trained(decision)) {
            all.durations.reused(run.cell);
        }
        self.tell_what_fits(all);
        for (number, (place, ((run, id), decision))) in round.iter().enumerate() {
            let left = round[number..].iter().filter(|(_, (_, decision))| is_trained(decision));
            let left: Vec<usize> = left.map(|(_, ((run, _), _))| run.cell).collect();
            self.progress.expect(all.durations.together(left.iter().copied()));
            if is_trained(decision) && self.is_used_up(all, &left) {
                return Ok(SweepEnd::Interrupted);
            }
            let place = *place;
            if self.session.interrupted().is_some() || self.max_fail.is_some_and(|most| all.failed >= most) {
                return Ok(SweepEnd::Interrupted);
            }
            all.tried[place] = true;
            self.store.record_identity(id, &decision.identity).await?;
            if let Action::Reuse(finished) = &decision.action {
                // Its driver may have been killed between its end and this.
                let directory = self.store.shown_directory(&finished.run).await?.unwrap_or_default();
                resume::delete_checkpoints(self.store, std::slice::from_ref(&finished.run), &directory);
                self.store.record_reuse(id, &finished.run).await?;
                self.progress.reused(self.plan, run);
                continue;
            }
            let Attempted { end: AttemptEnd { state, wall, .. }, as_ordered, .. } =
                self.try_until_it_ends(run, id, decision).await?;
            // What failed, or was ended, does not tell how long it would have taken.
            if let (RunState::Done | RunState::Diverged, Some(wall)) = (state, wall) {
                all.durations.add(run.cell, Duration::from_nanos(wall.0));
            }
            self.tell_what_fits(all);
            all.failed += u32::from(matches!(state, RunState::Failed | RunState::TimedOut) && !as_ordered);
            if state == RunState::Interrupted {
                return Ok(SweepEnd::Interrupted);
            }
        }
        Ok(SweepEnd::Done)
    }

    /// Whether the first of the runs that are left, each named by its cell, does not fit in the time budget, which is said then.
    fn is_used_up(&self, all: &Rounds<'_>, left: &[usize]) -> bool {
        let Some(budget) = self.time_budget else { return false };
        let next = left.first().and_then(|cell| all.durations.measured(*cell));
        let (Some(next), Some(expected)) = (next, all.durations.together(left.iter().copied())) else {
            return false;
        };
        let used = !budget.allows(next);
        if used {
            self.progress.looked(&budget.used(left.len(), &expected));
        }
        used
    }

    /// Once: how many repeats fit in the time budget, and what they can settle.
    fn tell_what_fits(&self, all: &mut Rounds<'_>) {
        if all.told {
            return;
        }
        let Some(repeats) = self.time_budget.and_then(|budget| budget.repeats(self.plan, &all.durations))
        else {
            return;
        };
        all.told = true;
        self.progress
            .looked(&format!("{} of each cell will fit in the time budget", human::count(repeats, "repeat")));
        for words in time_budget::outlook(self.plan, repeats) {
            self.progress.looked(&format!("  evidence: {}", words.replace('\u{a0}', " ")));
        }
    }

    /// Writes the end of something, if necessary into the disk space that was reserved for it.
    async fn write_last<F>(&self, write: impl Fn() -> F) -> Result<(), StoreError>
    where
        F: Future<Output = Result<(), StoreError>>,
    {
        match write().await {
            Err(_) if self.store.free_reserve() => write().await,
            written => written,
        }
    }

    /// Tries a run; faults of the infrastructure are tried again as often as the recipe allows.
    async fn try_until_it_ends(
        &self,
        run: &Run,
        id: &RunId,
        decision: &Decision,
    ) -> Result<Attempted, Failure> {
        let mut tries = 0;
        loop {
            tries += 1;
            let attempted = self.attempt(run, id, decision).await?;
            let end = &attempted.end;
            let again = attempted.origin == Some(FaultOrigin::Infrastructure)
                && tries <= self.plan.limits.retries
                && self.session.interrupted().is_none();
            if again {
                self.progress.again(self.plan, run, &end.detail);
                continue;
            }
            let as_ordered = attempted.as_ordered;
            let told = RunEnd { state: end.state, wall: end.wall, detail: &end.detail, as_ordered };
            self.progress.ended(self.plan, run, &told);
            return Ok(attempted);
        }
    }

    /// The runs from whose checkpoints a run may continue: itself when it is tried again, and those before it.
    fn continued(id: &RunId, decision: &Decision) -> Vec<RunId> {
        match &decision.action {
            Action::Resume(earlier) => earlier.iter().chain([id]).cloned().collect(),
            Action::Run | Action::Repeat | Action::Reuse(_) => vec![id.clone()],
        }
    }

    async fn attempt(&self, run: &Run, id: &RunId, decision: &Decision) -> Result<Attempted, StoreError> {
        let spec = &self.plan.cells[run.cell].spec;
        // A machine without ranks has no row and needs none; its position must not shift the others.
        let row =
            |node: &recipe::Node| self.nodes.get(&node.name).or_else(|| self.nodes.values().next()).copied();
        let nodes: Vec<NodeId> = spec.cluster.nodes.iter().filter_map(row).collect();
        let new = NewAttempt { started: human::now(), cluster: &spec.cluster, nodes: &nodes };
        let attempt = self.store.record_attempt(id, &new).await?;
        self.store.record_surroundings(attempt, human::now(), &decision.surroundings).await?;
        let number = self.store.attempt_number(attempt).await?;
        let directory = self.store.attempt_directory(id, number);
        self.progress.attempt(self.plan, run, number);
        let (updates, arriving) = mpsc::channel(CHANNEL);
        let recorder = Recorder {
            store: self.store.clone(),
            attempt,
            directory: directory.clone(),
            progress: self.progress.clone(),
        };
        let recording = tokio::spawn(recorder.record(arriving));
        let continued = Self::continued(id, decision);
        let begun = Instant::now();
        let order = Attempt {
            spec,
            seed: run.seed,
            directory: whole(&directory),
            worker: self.environment.worker.path.clone(),
            deadlines: Deadlines::default(),
            timeout: self.plan.limits.run_timeout,
            resume: resume::continuation(self.store, &continued, spec),
        };
        let stop = self.session.stop();
        let outcome = match &self.environment.machines {
            Machines::Hosts(hosts) if launch::needs_hosts(&spec.cluster) => {
                launch::run_on_hosts(hosts, self.plan.hosts.ports, order, stop, updates).await
            }
            Machines::Hosts(_) | Machines::Here => launch::run(order, stop, updates).await,
        };
        let recorded = recording.await;
        let origin = origin(&outcome);
        let ordered = outcome.as_ref().is_ok_and(|outcome| outcome.as_ordered);
        let mut end = ended(outcome, begun);
        let detail = end.detail.clone();
        match recorded {
            Ok(Ok(())) => {}
            Ok(Err(error)) => lost(&mut end, &error.to_string()),
            Err(fault) => lost(&mut end, &fault.to_string()),
        }
        if let Some(why) = changed_data(&spec.dataset.source, &decision.surroundings.data).await {
            changed(&mut end, &why);
        }
        // Where its records are whole.
        let as_ordered = ordered && end.detail == detail;
        if as_ordered {
            self.write_last(|| self.store.record_ordered(attempt, end.ended, &end.detail)).await?;
        }
        self.write_last(|| self.store.record_attempt_end(attempt, &end)).await?;
        if matches!(end.state, RunState::Done | RunState::Diverged) {
            resume::delete_checkpoints(self.store, &continued, &directory);
        }
        Ok(Attempted { end, origin, as_ordered })
    }
}

/// The runs of a sweep over all its rounds.
struct Rounds<'a> {
    /// In the plan's order.
    ids: &'a [RunId],
    /// Whether each was tried or reused.
    tried: Vec<bool>,
    /// Number of failed runs.
    failed: u32,
    durations: Durations,
    /// Whether it was said what fits in the time budget.
    told: bool,
}

/// Cells that are named where something is open.
const MOST_NAMED: usize = 3;

/// What a look found, for people.
fn looked(plan: &Plan, look: &Look, repeats: u32, next: Option<&u32>) -> String {
    let after = human::count(repeats as usize, "repeat");
    if look.needed.is_empty() {
        return format!(
            "after {after}: {}",
            human::count(look.comparisons, "comparison") + ", none of whose speeds is open"
        );
    }
    let open: Vec<&str> = (look.needed.iter())
        .map(|cell| &plan.cells[*cell])
        .filter(|cell| !plan.arms[cell.arm].baseline)
        .map(|cell| cell.label.as_str())
        .collect();
    let named = open.iter().take(MOST_NAMED).copied().collect::<Vec<_>>().join(", ");
    let more = match open.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let then = match next {
        Some(next) if open.len() == 1 => format!("it and its baseline go on to {next} repeats"),
        Some(next) => format!("they and their baselines go on to {next} repeats"),
        None => "`repeats.at-most` is reached".to_owned(),
    };
    format!(
        "after {after}: {} of {} open: {named}{more}; {then}",
        look.open,
        human::count(look.comparisons, "comparison")
    )
}

/// How an attempt ended.
struct Attempted {
    end: AttemptEnd,
    /// Where the fault comes from; `None` without one.
    origin: Option<FaultOrigin>,
    /// Whether it lost ranks, or failed by one, because its recipe asked for it.
    as_ordered: bool,
}

fn origin(outcome: &Result<Outcome, LaunchError>) -> Option<FaultOrigin> {
    match outcome {
        Ok(Outcome { end: End::Failed { origin, .. }, .. }) => Some(*origin),
        Ok(_) => None,
        Err(error) => Some(error.origin()),
    }
}

/// Workers may be started from any folder.
fn whole(directory: &Path) -> std::path::PathBuf {
    std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned())
}

/// Marks a run whose records are incomplete as failed.
fn lost(end: &mut AttemptEnd, why: &str) {
    let before = if end.detail.is_empty() { String::new() } else { format!("; {}", end.detail) };
    end.state = RunState::Failed;
    end.detail = format!("the run's reports could not be kept: {why}{before}");
}

/// Why the data on this machine is not what the sweep was planned with; `None` where it is. Ranks compare their data with each
/// other only, and the evaluator reads its own later.
async fn changed_data(source: &Source, planned: &str) -> Option<String> {
    let folder = source.path()?.display().to_string();
    let source = source.clone();
    let found = tokio::task::spawn_blocking(move || launch::data_digest(&source)).await.ok()?;
    match found {
        Ok(found) if found == planned => None,
        Ok(_) => Some(format!(
            "the data in {folder} changed since the sweep was planned; run the same command again to train on the new data"
        )),
        Err(error) => Some(format!("the data of the run is gone: {error}")),
    }
}

/// Marks a run whose data changed as failed: it is not known what each of its ranks has read.
fn changed(end: &mut AttemptEnd, why: &str) {
    if matches!(end.state, RunState::Done | RunState::Degraded | RunState::Diverged) {
        end.state = RunState::Failed;
        why.clone_into(&mut end.detail);
    }
}

fn ended(outcome: Result<Outcome, LaunchError>, begun: Instant) -> AttemptEnd {
    let ended = human::now();
    match outcome {
        Ok(outcome) => AttemptEnd {
            state: match outcome.end {
                End::Done | End::TargetReached { .. } if outcome.lost_ranks.is_empty() => RunState::Done,
                End::Done | End::TargetReached { .. } => RunState::Degraded,
                End::Diverged { .. } => RunState::Diverged,
                End::Failed { .. } => RunState::Failed,
                End::TimedOut { .. } => RunState::TimedOut,
                End::Interrupted { .. } => RunState::Interrupted,
            },
            detail: outcome.detail,
            culprit: outcome.culprit,
            last_lines: outcome.last_lines,
            wall: Some(outcome.wall),
            ended,
            lost: outcome.lost_ranks.into_iter().map(row).collect(),
        },
        Err(error) => AttemptEnd {
            state: RunState::Failed,
            detail: error.to_string(),
            culprit: None,
            last_lines: Vec::new(),
            wall: Some(Nanos(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX))),
            ended,
            lost: Vec::new(),
        },
    }
}

fn row(lost: LostRank) -> LostRow {
    let LostRank { rank, step, at, reason } = lost;
    LostRow { rank, step, at, reason }
}
