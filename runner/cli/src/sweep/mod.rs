//! The runs of a sweep: rungs of a search, rounds until it is decided, and in each round run after run, or several at once.

mod attempt;
mod crowd;
mod outcome;
mod places;
mod queued;
mod round;

pub(crate) use attempt::{CHANNEL, Execution, execute};
pub(crate) use outcome::{changed, changed_data, ended, is_of_the_infrastructure};
pub(crate) use places::Places;

use crate::durations::Durations;
use crate::environment::Environment;
use crate::exit::Failure;
use crate::machines::nodes_of;
use crate::output::human;
use crate::page;
use crate::progress::Progress;
use crate::queue::Queue;
use crate::reuse::Decision;
use crate::session::Session;
use crate::time_budget::{self, TimeBudget};
use places::Occupied;
use recipe::{Node, Plan, Run, Search};
use reports::Look;
use std::collections::{BTreeMap, BTreeSet};
use store::{NodeId, RunId, Selection, Store, StoreError, SweepEnd, SweepId};

/// How many runs are under way at once, and where.
pub(crate) enum Pace {
    /// One run after another.
    OneByOne,
    /// Several, on machines that they do not share.
    AtOnce(Places),
    /// Each is a job of a queue.
    Queued(Box<Queue>),
}

impl Pace {
    /// The most runs under way.
    fn most(&self) -> usize {
        match self {
            Self::OneByOne => 1,
            Self::AtOnce(places) => places.most(),
            Self::Queued(queue) => queue.most(),
        }
    }

    /// The most runs that are under way together because they have machines of their own.
    pub(crate) fn blocks(&self) -> usize {
        match self {
            Self::OneByOne | Self::Queued(_) => 1,
            Self::AtOnce(places) => places.blocks(),
        }
    }

    /// The machines that runs of a plan have, each once.
    pub(crate) fn machines(&self, plan: &Plan) -> Vec<Node> {
        match self {
            Self::OneByOne | Self::Queued(_) => nodes_of(plan),
            Self::AtOnce(places) => places.machines(plan),
        }
    }

    /// Machines that a run keeps from others while it is under way.
    fn occupied(&self, plan: &Plan, run: &Run) -> Occupied {
        match self {
            Self::OneByOne => Occupied::Everything,
            Self::AtOnce(places) => places.occupied(plan, run),
            Self::Queued(_) => Occupied::Nothing,
        }
    }
}

/// A sweep about to be run.
pub(crate) struct Sweep<'a> {
    /// The plan that is run.
    pub(crate) plan: &'a Plan,
    /// The decision about each run, in the plan's order.
    pub(crate) decisions: &'a [Decision],
    /// Store that the results are written to.
    pub(crate) store: &'a Store,
    /// Id of the sweep's row in the store.
    pub(crate) id: &'a SweepId,
    /// The worker program and the machines.
    pub(crate) environment: &'a Environment,
    /// The rows of the plan's machines, by the name of the node.
    pub(crate) nodes: &'a BTreeMap<String, NodeId>,
    /// The user's requests to stop.
    pub(crate) session: &'a Session,
    pub(crate) progress: &'a Progress,
    /// Number of failed runs after which no new run is started.
    pub(crate) max_fail: Option<u32>,
    /// The durations of runs that are known before the first.
    pub(crate) durations: Durations,
    /// The time after which none is to end.
    pub(crate) time_budget: Option<TimeBudget>,
    /// How many runs are under way at once.
    pub(crate) pace: &'a Pace,
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

/// A sentence for the user about the result of a look.
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
