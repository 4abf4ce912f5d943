//! Jobs of a queue in words: those that `run --submit --dry-run` would submit, and those that an interrupted driver leaves.

use crate::context::Context;
use crate::environment::Environment;
use crate::exit::{Exit, Failure};
use crate::output::table::Sheet;
use crate::output::{self, Console, human};
use crate::queue::{self, JobFolder, Options, Queue, QueuedJob, Shape};
use crate::reuse::{self, Action, Reuse};
use recipe::Plan;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use store::{Store, StoreError};

/// Jobs that are named where some are left.
const MOST_NAMED: usize = 20;

/// Shows the jobs that would be submitted.
pub(crate) async fn show(
    plan: &Plan,
    options: &Options,
    reuse: Reuse,
    context: &Context<'_>,
) -> Result<Exit, Failure> {
    let mut environment = Environment::in_front_of_a_queue(options.asked())?;
    let folder = &context.global.store;
    let store = match Store::open_existing(folder).await {
        Ok(store) => Some(store),
        Err(StoreError::NoStore { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let decisions = reuse::decide(plan, &mut environment, store.as_ref(), reuse).await?;
    if let Some(store) = store {
        store.close().await;
    }
    // Without a queue the folders alone tell.
    let queued_jobs = queue::queued_jobs().await.ok();
    let mut sheet = Sheet::new(&["run", "repeat", "nodes", "tasks/node", "what"]).right(&[1, 2, 3]);
    let mut commands = BTreeSet::new();
    let mut new = 0;
    for (run, decision) in plan.runs.iter().zip(&decisions) {
        let cell = &plan.cells[run.cell];
        let shape = Shape::of(&cell.spec);
        let job = JobFolder::of(&queue::jobs_of(folder), &decision.identity);
        let what = match &decision.action {
            Action::Reuse(_) => in_the_queue(&job, queued_jobs.as_ref())
                .unwrap_or_else(|| "finished before and reused".to_owned()),
            Action::Run | Action::Repeat | Action::Resume(_) => standing(&job, queued_jobs.as_ref())
                .filter(|_| reuse == Reuse::Finished)
                .unwrap_or_else(|| {
                    new += 1;
                    let is_there = standing(&job, queued_jobs.as_ref()).is_some();
                    let before = if is_there { ", its earlier one is cancelled" } else { "" };
                    let words = options.arguments(shape, "bakeoff-ID", Path::new("ID/slurm.log"));
                    let words: Vec<String> =
                        words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
                    commands.insert(format!("sbatch {} ID/job.sh", words.join(" ")));
                    if plan.is_certain(run) {
                        format!("a new job{before}")
                    } else {
                        format!("a new job, if it is needed{before}")
                    }
                }),
        };
        let counts =
            [u64::from(run.repeat) + 1, shape.nodes as u64, shape.tasks as u64].map(human::thousands);
        let [repeat, nodes, tasks] = counts;
        sheet.row(vec![cell.label.as_str().into(), repeat.into(), nodes.into(), tasks.into(), what.into()]);
    }
    output::data(sheet.render(output::width()).trim_end())?;
    output::data(&format!("{} would be submitted", human::count(new, "job")))?;
    for command in &commands {
        output::data(&format!("  {command}"))?;
    }
    Ok(Exit::Done)
}

/// How the job of a run stands that is in the queue.
fn in_the_queue(job: &JobFolder, queued_jobs: Option<&BTreeMap<String, QueuedJob>>) -> Option<String> {
    Some(queued_jobs?.get(&job.ticket().ok()?.job)?.words())
}

/// State of a run that was submitted before, in words; `None` if it is submitted anew.
fn standing(job: &JobFolder, queued_jobs: Option<&BTreeMap<String, QueuedJob>>) -> Option<String> {
    let ticket = job.ticket().ok()?;
    let number = job.number().map_or_else(String::new, |number| format!(" {number}"));
    match (queued_jobs.map(|queued_jobs| queued_jobs.get(&ticket.job)), job.receipt()) {
        (Some(Some(standing)), _) => Some(standing.words()),
        (_, Some(receipt)) if receipt.is_of_a_result() => {
            Some(format!("the result of job{number} will be taken: {}", receipt.end.state.name()))
        }
        (None, None) => Some(format!("job{number} was submitted before; `squeue` does not say more")),
        (Some(None) | None, _) => None,
    }
}

/// Says which jobs stay in the queue, and what can be done with them.
pub(crate) fn tell_left(queue: &Queue, console: &Console) {
    let left = queue.left();
    if left.is_empty() {
        return;
    }
    let named: Vec<&str> = left.iter().take(MOST_NAMED).map(String::as_str).collect();
    let more = match left.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more, which `bakeoff status` names"),
    };
    console.write(&format!(
        "{} in the queue: the same command waits for {} again and takes results; `bakeoff status` shows them; `scancel {}` cancels{more}",
        human::count(left.len(), "job") + if left.len() == 1 { " stays" } else { " stay" },
        if left.len() == 1 { "it" } else { "them" },
        named.join(" ")
    ));
}
