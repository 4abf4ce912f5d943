//! `bakeoff job`: what a queue starts for a run that was submitted. Not for people: it reads a ticket and hands in a receipt.

use super::wait;
use crate::context::Context;
use crate::environment::Environment;
use crate::exit::{Exit, Failure};
use crate::output::human;
use crate::planning;
use crate::queue::{JobFolder, JobNote, Receipt, Ticket};
use crate::resume;
use crate::reuse::{Action, Decision};
use crate::session::Session;
use crate::sweep::{self, Execution};
use crate::verbs::run;
use clap::Args;
use launch::Update;
use recipe::{Access, Plan};
use record::Event;
use std::path::PathBuf;
use std::time::Instant;
use store::{AttemptEnd, EventLog, NodeRow, RunState, StoreError};
use tokio::sync::mpsc::{self, Receiver};

/// Updates taken at once.
const BATCH: usize = 512;

/// Arguments of `job`.
#[derive(Debug, Args)]
pub(crate) struct JobArgs {
    /// The job's folder.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// The name under which it was submitted.
    #[arg(long)]
    name: String,
}

/// Makes the run of a job's folder.
pub(crate) fn execute(args: &JobArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let folder = JobFolder::at(&args.folder);
    let ticket = folder.ticket().map_err(|failure| {
        failure.cure("`bakeoff job` is started by the queue for `bakeoff run RECIPE --submit slurm`; its folder must be on a shared disk")
    })?;
    if ticket.version != env!("CARGO_PKG_VERSION") {
        let what = format!(
            "the run was submitted by bakeoff {}, and this is {}",
            ticket.version,
            env!("CARGO_PKG_VERSION")
        );
        return Err(
            Failure::new(Exit::Preflight, what).cure("run the same command again: it submits the run anew")
        );
    }
    // An earlier driver was killed before it knew of this job, and the run was submitted again; or the queue started it twice.
    if ticket.job != args.name || !folder.claim()? {
        context.console.say("another job has this run");
        return Ok(Exit::Done);
    }
    wait(async {
        context.console.say(&format!("{}: {}", ticket.plan.name, ticket.title));
        let receipt = match trained(&ticket, &folder, context).await {
            Ok(receipt) => receipt,
            Err(failure) => {
                context.console.failure(&failure);
                refused(ticket.job.clone(), &failure)
            }
        };
        folder.hand_in(&receipt)?;
        context.console.say(&format!("{} {}", receipt.end.state.name(), receipt.end.detail));
        Ok(match receipt.end.state {
            RunState::Done | RunState::Degraded | RunState::Diverged => Exit::Done,
            RunState::Pending
            | RunState::NotNeeded
            | RunState::Running
            | RunState::Failed
            | RunState::TimedOut
            | RunState::Interrupted => Exit::Short,
        })
    })
}

/// The receipt of a run that could not begin.
fn refused(job: String, failure: &Failure) -> Receipt {
    let detail = match failure {
        Failure::Told(_) => "it could not begin; its log says why".to_owned(),
        Failure::Fault { error, cure: None, .. } => error.to_string(),
        Failure::Fault { error, cure: Some(cure), .. } => format!("{error}; {cure}"),
    };
    let end = AttemptEnd {
        state: RunState::Failed,
        detail,
        culprit: None,
        last_lines: Vec::new(),
        wall: None,
        ended: human::now(),
        lost: Vec::new(),
    };
    let machines = Vec::new();
    let notes = Vec::new();
    let hardware = String::new();
    Receipt {
        job,
        started: human::now(),
        end,
        may_do_better: false,
        as_ordered: false,
        machines,
        hardware,
        notes,
    }
}

async fn trained(ticket: &Ticket, folder: &JobFolder, context: &Context<'_>) -> Result<Receipt, Failure> {
    let session = Session::listen(context.console, &context.global.store)?;
    let plan = placed(ticket.plan.clone())?;
    let mut environment = Environment::of(&plan, context).await?;
    let receipt = trained_there(
        &plan,
        ticket,
        folder,
        Means { environment: &mut environment, session: &session, context },
    )
    .await;
    environment.machines.close().await;
    receipt
}

/// Parts of the program that a job needs to make its run.
struct Means<'a> {
    environment: &'a mut Environment,
    session: &'a Session,
    context: &'a Context<'a>,
}

async fn trained_there(
    plan: &Plan,
    ticket: &Ticket,
    folder: &JobFolder,
    means: Means<'_>,
) -> Result<Receipt, Failure> {
    let Means { environment, session, context } = means;
    let (Some(cell), Some(run)) = (plan.cells.first(), plan.runs.first()) else {
        return Err(Failure::new(Exit::Internal, "the ticket has no run"));
    };
    let spec = &cell.spec;
    let found = environment.surroundings(spec)?;
    let same = [
        (&found.data, &ticket.surroundings.data, "data"),
        (&found.worker, &ticket.surroundings.worker, "worker program"),
    ];
    if let Some((_, _, what)) = same.into_iter().find(|(here, there, _)| here != there) {
        let what = format!("the {what} on the node of the job is not what the run was submitted with");
        return Err(
            Failure::new(Exit::Preflight, what).cure("run the same command again: it submits the run anew")
        );
    }
    let decision = Decision {
        action: Action::Run,
        why: String::new(),
        identity: String::new(),
        surroundings: found.clone(),
    };
    run::preflight(plan, std::slice::from_ref(&decision), environment, context)?;
    let started = human::now();
    let begun = Instant::now();
    let directory = folder.attempt();
    let (updates, arriving) = mpsc::channel(sweep::CHANNEL);
    let recording = tokio::spawn(recorded(arriving, directory.clone()));
    let execution = Execution {
        plan,
        spec,
        seed: run.seed,
        directory: &directory,
        environment,
        resume: resume::continuation(&ticket.before, spec),
    };
    let outcome = sweep::execute(execution, session.stop(), updates).await;
    let may_do_better = sweep::is_of_the_infrastructure(&outcome);
    let ordered = outcome.as_ref().is_ok_and(|outcome| outcome.as_ordered);
    let mut end = sweep::ended(outcome, begun);
    let detail = end.detail.clone();
    let notes = match recording.await {
        Ok(Ok(notes)) => notes,
        Ok(Err(error)) => return Err(error.into()),
        Err(fault) => return Err(Failure::new(Exit::Internal, fault.to_string())),
    };
    if let Some(why) = sweep::changed_data(&spec.dataset.source, &found.data).await {
        sweep::changed(&mut end, &why);
    }
    let as_ordered = ordered && end.detail == detail;
    let machines = machines(plan, environment);
    let job = ticket.job.clone();
    Ok(Receipt { job, started, end, may_do_better, as_ordered, machines, hardware: found.hardware, notes })
}

/// The plan on the hosts of this job.
fn placed(mut plan: Plan) -> Result<Plan, Failure> {
    let hosts = planning::machine().allocation;
    let Some(cell) = plan.cells.first_mut() else {
        return Err(Failure::new(Exit::Internal, "the ticket has no run"));
    };
    let nodes = cell.spec.cluster.nodes.iter_mut().filter(|node| node.access != Access::Local);
    for (place, node) in nodes.enumerate() {
        let Some(host) = hosts.get(place) else {
            let what = format!("the run needs {} or more hosts, and its job has {}", place + 1, hosts.len());
            return Err(Failure::new(Exit::Preflight, what)
                .cure("`bakeoff job` is started by the queue; give the queue's options behind `--` without a number of nodes"));
        };
        node.name.clone_from(&host.name);
        node.access = Access::Slurm { host: host.name.clone() };
    }
    Ok(plan)
}

/// The machines in the order of the recipe.
fn machines(plan: &Plan, environment: &Environment) -> Vec<NodeRow> {
    let row = |node: &recipe::Node| {
        let facts = environment.facts(node)?;
        // Which host a job's own machine is says its host name.
        let name = if node.access == Access::Local { facts.host.clone() } else { node.name.clone() };
        Some(NodeRow {
            name,
            host: facts.host.clone(),
            system: facts.system.clone(),
            processor: facts.computes_on(node),
            cores: facts.cores,
            memory: facts.memory,
        })
    };
    let rows: Vec<Option<NodeRow>> =
        plan.cells.iter().flat_map(|cell| &cell.spec.cluster.nodes).map(row).collect();
    // A machine without ranks has no facts and needs none; its position must not shift the others.
    let any = rows.iter().flatten().next().cloned();
    rows.into_iter().filter_map(|row| row.or_else(|| any.clone())).collect()
}

/// Writes the events of an attempt to its log; what was said besides comes back.
async fn recorded(mut updates: Receiver<Update>, directory: PathBuf) -> Result<Vec<JobNote>, StoreError> {
    let mut log = EventLog::open(&directory)?;
    let mut notes = Vec::new();
    let mut batch = Vec::with_capacity(BATCH);
    while updates.recv_many(&mut batch, BATCH).await > 0 {
        let mut events: Vec<Event> = Vec::new();
        for update in batch.drain(..) {
            let note =
                |state: &str, text: String| JobNote { time: human::now(), state: state.to_owned(), text };
            match update {
                Update::Events(more) => events.extend(more),
                Update::Note(text) => notes.push(note("note", text)),
                Update::Lost { reason, .. } => notes.push(note(RunState::Degraded.name(), reason)),
                Update::Spawned { .. }
                | Update::Continued { .. }
                | Update::Heartbeat(..)
                | Update::State(_) => {}
            }
        }
        log.append(&events)?;
    }
    Ok(notes)
}
