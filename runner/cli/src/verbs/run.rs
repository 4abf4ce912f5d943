//! `bakeoff run`: a recipe, from its plan to its verdict.

use crate::args::RecipeArgs;
use crate::context::Context;
use crate::durations::{Durations, Estimate};
use crate::ending;
use crate::environment::Environment;
use crate::exit::{Exit, Failure};
use crate::live::{self, Live};
use crate::machines;
use crate::output::{Console, human};
use crate::page;
use crate::planning;
use crate::progress::Progress;
use crate::queue::{self, JobFolder, Options, Queue, QueueKind, Wanted};
use crate::repository;
use crate::reuse::{self, Action, Decision, Reuse};
use crate::session::{Session, Work};
use crate::sweep::{Pace, Places, Sweep};
use crate::time_budget::TimeBudget;
use crate::verbs::submit;
use clap::{Args, ValueHint};
use launch::ConcernLevel;
use recipe::{Node, Plan, RunSpec};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::{Driver, NewSweep, NodeId, NodeRow, Store, SweepId};

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff run recipe.toml
  bakeoff run recipe.toml                  again: only unfinished runs
  bakeoff run recipe.toml --repeats 10     add repeats to those there
  bakeoff run recipe.toml --repeats 3..24  until decided: 3 at first, at most 24
  bakeoff run recipe.toml --time-budget 30min   as many runs as fit
  bakeoff run recipe.toml --set train.epochs=2 --report page.html --open
  bakeoff run recipe.toml --only \"strategy.name == 'd-sync'\"
  bakeoff run recipe.toml --jobs 4         up to 4 runs at once
  bakeoff run recipe.toml --submit slurm -- --partition=short --time=30:00

Ctrl-C once stops after the current step, twice at once, thrice kills; running
the same command again resumes. `bakeoff status` and `bakeoff stop` work from
another terminal. Exit code 5 if runs failed, diverged or missed their target,
4 if this machine cannot do what the plan asks.

--jobs: runs are made at once only on machines that they do not share, as one
would disturb what the other measures. Repeats are spread over equal machines;
all arms of a repeat have the same ones. This machine evaluates the models of
all runs, beside their training: runs with ranks here are made alone.

--submit: each run is a job with nodes of its own; how many follows from `use =
[\"slurm*2\"]` and `workers`, or one node for `local*2`. Options of sbatch come
after `--`; machines, and so partitions, are a part of what a run is. The store
must lie on a disk that the nodes share. Ctrl-C leaves the jobs in the queue:
the same command takes their results later and submits only missing runs.";

/// Arguments of `run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    recipe: RecipeArgs,
    /// Train all runs again, including finished ones.
    #[arg(long)]
    fresh: bool,
    /// Run more runs than the recipe's `limits.max-runs`.
    #[arg(short, long)]
    yes: bool,
    /// Start no new run after N failed runs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_fail: Option<u32>,
    /// Start no run that would end after this time, such as 30min, by what its cell's runs took so far.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    time_budget: Option<Duration>,
    /// Make up to N runs at once, on machines that they do not share; with --submit, have up to N jobs in the queue.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), conflicts_with = "time_budget")]
    jobs: Option<u32>,
    /// Make each run a job of this queue; options for `sbatch` come after `--`.
    #[arg(long, value_name = "QUEUE", conflicts_with = "time_budget")]
    submit: Option<QueueKind>,
    /// Show which jobs would be submitted; submit nothing.
    #[arg(long, requires = "submit")]
    dry_run: bool,
    /// Options for the queue.
    #[arg(last = true, value_name = "SBATCH_OPTION", requires = "submit")]
    queue_options: Vec<String>,
    /// File of the page; by default in the store.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    report: Option<PathBuf>,
    /// Open the page in a browser.
    #[arg(long)]
    open: bool,
}

fn duration(text: &str) -> Result<Duration, String> {
    recipe::parse_duration(text)
        .ok_or_else(|| "a number with a unit is expected, such as 90s, 30min or 2h".to_owned())
}

/// Runs a recipe, writes its page, and returns the exit code of the results.
pub(crate) fn execute(args: &RunArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let console = context.console;
    let options = Options::of(&args.queue_options)?;
    let plan = planning::plan_for(&args.recipe, args.submit, console)?;
    console.say(planning::headline(&plan).trim_end());
    refuse_too_many(args, &plan)?;
    if args.dry_run {
        return super::wait(submit::show(&plan, &options, args.reuse(), context));
    }
    let places = match (args.submit, args.jobs) {
        (None, Some(jobs @ 2..)) => Some(Places::of(&plan, jobs as usize)?),
        _ => None,
    };
    args.report.as_deref().map_or(Ok(()), page::prepare)?;
    let left = launch::reap();
    if left > 0 {
        console.detail(&format!("removed {} that killed drivers left behind", human::count(left, "folder")));
    }
    super::wait(async {
        let store_folder = &context.global.store;
        let (mut environment, pace, work) = prepared(args, &plan, Ways { options, places }, context).await?;
        let session = Session::listen_at(work, console, store_folder)?;
        let store = Store::open(store_folder).await?;
        let training = Training {
            plan: &plan,
            recipe: &args.recipe.recipe,
            reuse: args.reuse(),
            max_fail: args.max_fail,
            time_budget: args.time_budget.map(TimeBudget::new),
            pace: &pace,
            session: &session,
            store: &store,
        };
        let trained = train(&training, &mut environment, context).await;
        environment.machines.close().await;
        if let Pace::Queued(queue) = &pace {
            submit::tell_left(queue, console);
        }
        let id = trained?;
        let report = ending::ReportOptions { file: args.report.as_deref(), open: args.open };
        let exit = ending::tell(&store, &id, context, &report).await?;
        store.close().await;
        Ok(session.interrupted().unwrap_or(exit))
    })
}

/// Where runs are made beside one after another here.
struct Ways {
    /// For the jobs of a queue.
    options: Options,
    /// For runs at once.
    places: Option<Places>,
}

/// Where the runs of a plan are made: the environment, how many are under way at once, and what the driver does meanwhile.
async fn prepared(
    args: &RunArgs,
    plan: &Plan,
    ways: Ways,
    context: &Context<'_>,
) -> Result<(Environment, Pace, Work), Failure> {
    let console = context.console;
    match (args.submit, ways.places) {
        (Some(QueueKind::Slurm), _) => {
            let environment = Environment::in_front_of_a_queue(ways.options.asked())?;
            let wanted = Wanted { most: args.jobs, fresh: args.fresh };
            let queue = Queue::open(&context.global.store, ways.options, wanted, console).await?;
            Ok((environment, Pace::Queued(Box::new(queue)), Work::Waiting))
        }
        (None, Some(places)) => {
            let environment = Environment::with(plan, &places.machines(plan), context).await?;
            places.check_kinds(plan, &environment)?;
            let here = rustix::system::uname().nodename().to_string_lossy().into_owned();
            if let Some(words) = environment.namesakes(&places.machines(plan), Some(&here)) {
                let what = format!("{words}: if they are one machine, runs at once disturb each other there");
                console.warn(&what, "leave out --jobs if they are");
            }
            Ok((environment, Pace::AtOnce(places), Work::Training))
        }
        (None, None) => {
            let environment = Environment::of(plan, context).await?;
            if let Some(words) = environment.namesakes(&machines::nodes_of(plan), None) {
                let what = format!("{words}: if they are one machine, its cores are counted twice");
                console
                    .warn(&what, "name it once, with the number of its ranks, as in `use = [\"lab01*2\"]`");
            }
            Ok((environment, Pace::OneByOne, Work::Training))
        }
    }
}

impl RunArgs {
    fn reuse(&self) -> Reuse {
        if self.fresh { Reuse::Nothing } else { Reuse::Finished }
    }
}

/// A plan to be trained.
pub(crate) struct Training<'a> {
    /// The plan whose runs are trained.
    pub(crate) plan: &'a Plan,
    /// The recipe as the user named it.
    pub(crate) recipe: &'a Path,
    /// Whether finished runs are looked for.
    pub(crate) reuse: Reuse,
    /// Number of failed runs after which no new run is started.
    pub(crate) max_fail: Option<u32>,
    /// The time that it may take.
    pub(crate) time_budget: Option<TimeBudget>,
    /// How many runs are under way at once, and where.
    pub(crate) pace: &'a Pace,
    /// The user's requests to stop.
    pub(crate) session: &'a Session,
    /// Store that the results are written to.
    pub(crate) store: &'a Store,
}

/// Other drivers with the same results may train on the same machines, and even the same runs.
fn warn_of_others(store: &Path, context: &Context<'_>) {
    let others = live::all(store).into_iter().filter(Live::is_alive);
    for other in others.filter(|other| other.driver.pid != std::process::id()) {
        let what = format!(
            "`bakeoff run` of {} (process {}) is under way with the results in {}: on the same machines each disturbs what the \
             other measures, and a run that it trains now is trained here as well",
            other.recipe,
            other.driver.pid,
            store.display()
        );
        context
            .console
            .warn(&what, "wait until it has ended (`bakeoff status --watch`), or end it with `bakeoff stop`");
    }
}

/// A run that finished before and is made again by a job of an earlier driver is that job's.
fn wait_for_jobs(decisions: &mut [Decision], queue: &Queue) {
    let reused = decisions.iter_mut().filter(|decision| matches!(decision.action, Action::Reuse(_)));
    for decision in reused.filter(|decision| queue.is_awaited(&decision.identity)) {
        decision.action = Action::Repeat;
        "an earlier command submitted it again".clone_into(&mut decision.why);
    }
}

/// Jobs that are named where some are left.
const MOST_NAMED: usize = 20;

/// Jobs of a queue that this command does not wait for.
async fn warn_of_jobs(training: &Training<'_>, decisions: &[Decision], context: &Context<'_>) {
    let (strays, what) = match training.pace {
        Pace::Queued(queue) => {
            let identities = decisions.iter().map(|decision| decision.identity.as_str());
            (
                queue.strays(identities),
                "belong to other runs: of another recipe, or with other settings or options",
            )
        }
        Pace::OneByOne | Pace::AtOnce(_) => {
            let folders = queue::all(&context.global.store);
            let queued_jobs = if folders.is_empty() { None } else { queue::queued_jobs().await.ok() };
            let job = |folder: &JobFolder| queued_jobs.as_ref()?.get(&folder.ticket().ok()?.job).cloned();
            (folders.iter().filter_map(job).collect(), "of `run --submit` are not waited for by this command")
        }
    };
    let numbers: Vec<&str> = strays.iter().take(MOST_NAMED).map(|job| job.number.as_str()).collect();
    if !numbers.is_empty() {
        context.console.warn(
            &format!("{} in the queue {what}", human::count(strays.len(), "job")),
            &format!("`bakeoff status` shows them; `scancel {}` cancels", numbers.join(" ")),
        );
    }
}

/// Trains the runs of a plan and records them as a sweep, whose id is returned.
///
/// # Errors
/// The machine cannot train them, or the store cannot be written; a run that fails is a result.
pub(crate) async fn train(
    training: &Training<'_>,
    environment: &mut Environment,
    context: &Context<'_>,
) -> Result<SweepId, Failure> {
    let Training { plan, store, session, .. } = *training;
    warn_of_others(&context.global.store, context);
    let mut decisions = reuse::decide(plan, environment, Some(store), training.reuse).await?;
    if let Pace::Queued(queue) = training.pace {
        wait_for_jobs(&mut decisions, queue);
    }
    preflight(plan, &decisions, environment, context)?;
    announce(plan, &decisions, context.console);
    warn_of_jobs(training, &decisions, context).await;
    let durations = Durations::of(plan, Some(store)).await?;
    let estimate = to_train(plan, Some(&decisions), &durations);
    // How long jobs wait is not known.
    if let Some(estimate) = estimate.filter(|_| !environment.is_in_front_of_a_queue()) {
        context.console.say(&estimate.at_once(training.pace.blocks()).words());
    }
    let id = begin(training).await?;
    let heartbeats = store.keep_alive(&id);
    let nodes = nodes(&training.pace.machines(plan), environment, store).await?;
    let progress = Progress::begin(context.global.progress, context.console, plan);
    progress.publish(store.folder(), plan, &id);
    progress.at_once(training.pace.blocks());
    let sweep = Sweep {
        plan,
        decisions: &decisions,
        store,
        id: &id,
        environment,
        nodes: &nodes,
        session,
        progress: &progress,
        max_fail: training.max_fail,
        durations,
        time_budget: training.time_budget,
        pace: training.pace,
    };
    let ran = sweep.run().await;
    progress.finish();
    drop(heartbeats);
    ran?;
    Ok(id)
}

fn refuse_too_many(args: &RunArgs, plan: &Plan) -> Result<(), Failure> {
    let most = plan.limits.max_runs as usize;
    if plan.number_of_runs().most <= most || args.yes {
        return Ok(());
    }
    let what = format!("the plan has {}, more than limits.max-runs = {most}", planning::number_of_runs(plan));
    Err(Failure::new(Exit::Usage, what)
        .cure("run it with --yes, choose with --only, or raise limits.max-runs"))
}

/// Checks before the start whether this machine can train the runs that are left; in front of a queue, what does not depend on machines.
pub(crate) fn preflight(
    plan: &Plan,
    decisions: &[Decision],
    environment: &Environment,
    context: &Context<'_>,
) -> Result<(), Failure> {
    let worker = &environment.worker;
    let free = launch::free_resources(&context.global.store)?;
    let reused: BTreeSet<(usize, u32)> = plan
        .runs
        .iter()
        .zip(decisions)
        .filter(|(_, decision)| matches!(decision.action, Action::Reuse(_)))
        .map(|(run, _)| (run.cell, run.repeat))
        .collect();
    let needed = plan.most_needed().into_iter().filter(|run| !reused.contains(&(run.cell, run.repeat)));
    let specs: Vec<&RunSpec> = needed.map(|run| &plan.cells[run.cell].spec).collect();
    let mut concerns = launch::check_inventory(&specs, worker);
    let hosts = |node: &recipe::Node| environment.machines.free(node);
    if !environment.is_in_front_of_a_queue() {
        let free = launch::Free { here: free, of: &hosts };
        concerns.extend(launch::preflight(&specs, free, &worker.inventory));
    }
    concerns.extend(launch::check_model_files(&specs));
    for concern in concerns.iter().filter(|concern| concern.severity == ConcernLevel::Warning) {
        // The planner warns about cores with the place in the recipe.
        let told =
            plan.warnings.iter().any(|warning| warning.code == "R201") && concern.what.contains("cores");
        if !told {
            context.console.warn(&concern.what, &concern.cure);
        }
    }
    match concerns.into_iter().find(|concern| concern.severity == ConcernLevel::Refusal) {
        Some(concern) => Err(Failure::new(Exit::Preflight, concern.what).cure(concern.cure)),
        None => Ok(()),
    }
}

/// Expected duration of the runs that are trained in any case.
pub(crate) fn to_train(
    plan: &Plan,
    decisions: Option<&[Decision]>,
    durations: &Durations,
) -> Option<Estimate> {
    let is_reused =
        |place: usize| decisions.is_some_and(|decisions| matches!(decisions[place].action, Action::Reuse(_)));
    let runs = plan.runs.iter().enumerate();
    let left = runs.filter(|(place, run)| plan.is_certain(run) && !is_reused(*place));
    durations.together(left.map(|(_, run)| run.cell))
}

/// Prints how many runs are trained, if some are reused or repeated.
fn announce(plan: &Plan, decisions: &[Decision], console: &Console) {
    let certain = plan.runs.iter().zip(decisions).filter(|(run, _)| plan.is_certain(run));
    let decisions: Vec<&Decision> = certain.map(|(_, decision)| decision).collect();
    let of = |name: &str| decisions.iter().filter(|decision| decision.action.name() == name).count();
    let fresh = of("run");
    let repeated = of("repeat");
    let reused = of("reuse");
    let changed =
        decisions.iter().filter(|decision| decision.action == Action::Run).map(|decision| &decision.why);
    let mut reasons: Vec<&String> = changed.collect();
    reasons.dedup();
    let because = match reasons.as_slice() {
        [only] if *only != reuse::NEVER => format!(" ({only})"),
        _ => String::new(),
    };
    if reused + repeated > 0 || !because.is_empty() {
        let counts = [
            (fresh, format!("to run{because}")),
            (repeated, "to repeat".to_owned()),
            (reused, "finished before and reused".to_owned()),
        ];
        let told =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, words)| format!("{count} {words}"));
        console.say(&format!("{}; `plan --why` says more", told.collect::<Vec<_>>().join(", ")));
    }
}

async fn begin(training: &Training<'_>) -> Result<SweepId, Failure> {
    let argv: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let new = NewSweep {
        plan: training.plan,
        recipe_path: &training.recipe.to_string_lossy(),
        argv: &argv,
        version: env!("CARGO_PKG_VERSION"),
        commit: repository::commit(training.recipe),
        started: human::now(),
        driver: Driver::this(),
    };
    Ok(training.store.record_sweep(&new).await?)
}

/// The rows of machines, by the name of the node.
async fn nodes(
    machines: &[Node],
    environment: &Environment,
    store: &Store,
) -> Result<BTreeMap<String, NodeId>, Failure> {
    let mut ids = BTreeMap::new();
    for node in machines {
        let Some(facts) = environment.facts(node) else { continue };
        let row = NodeRow {
            name: node.name.clone(),
            host: facts.host.clone(),
            system: facts.system.clone(),
            processor: facts.computes_on(node),
            cores: facts.cores,
            memory: facts.memory,
        };
        ids.insert(node.name.clone(), store.record_node(&row).await?);
    }
    Ok(ids)
}
