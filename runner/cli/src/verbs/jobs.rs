//! Jobs of a queue for `status`: how those stand that no driver has taken over yet.

use crate::ending;
use crate::exit::Failure;
use crate::output::paint::{ODD, STRONG, paint};
use crate::output::table::Sheet;
use crate::output::{self, Console, human};
use crate::queue::{self, JobFolder, QueuedJob};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A job of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Job {
    /// Its number; none where its driver was killed before it knew.
    number: Option<String>,
    /// Name of the recipe.
    recipe: String,
    /// Cell and repeat, in words.
    run: String,
    /// When it was submitted, in seconds since 1970.
    submitted: i64,
    /// As the queue says: `pending`, `running`; `unknown` where it says nothing; else that it ended.
    state: JobState,
    /// More about that, in words.
    words: String,
    log: PathBuf,
    /// The command that submitted it, and takes its result.
    command: String,
}

/// How a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum JobState {
    /// It waits, or runs.
    InTheQueue,
    /// It has a result that is not taken yet.
    Ended,
    /// It left the queue without a result.
    Lost,
    /// The queue does not say.
    Unknown,
}

impl Job {
    /// Whether it waits or runs.
    pub(super) fn is_in_the_queue(&self) -> bool {
        self.state == JobState::InTheQueue
    }

    fn of(folder: &JobFolder, queued_jobs: Option<&BTreeMap<String, QueuedJob>>) -> Option<Self> {
        let ticket = folder.ticket().ok()?;
        let standing = queued_jobs.map(|queued_jobs| queued_jobs.get(&ticket.job));
        let (state, words) = match (standing, folder.receipt()) {
            (Some(Some(standing)), _) => (JobState::InTheQueue, standing.words()),
            (_, Some(receipt)) => (JobState::Ended, format!("ended: {}", receipt.end.state.name())),
            (Some(None), None) if folder.number().is_none() => {
                (JobState::Lost, "was not submitted".to_owned())
            }
            (Some(None), None) => (JobState::Lost, "left the queue without a result".to_owned()),
            (None, None) => (JobState::Unknown, "not known: `squeue` does not say".to_owned()),
        };
        Some(Self {
            number: folder.number(),
            recipe: ticket.plan.name,
            run: ticket.title,
            submitted: ticket.submitted,
            state,
            words,
            log: folder.log(),
            command: ending::again(&ticket.argv),
        })
    }
}

/// The jobs of a store. Without any the queue is not asked.
pub(super) fn of(store: &Path, console: &Console) -> Result<Vec<Job>, Failure> {
    let folders = queue::all(store);
    if folders.is_empty() {
        return Ok(Vec::new());
    }
    let queued_jobs = super::wait(async { Ok(queue::queued_jobs().await) })?;
    let queued_jobs = queued_jobs.inspect_err(|error| console.warn(&format!("`squeue`: {error}"), "")).ok();
    let mut jobs: Vec<Job> =
        folders.iter().filter_map(|folder| Job::of(folder, queued_jobs.as_ref())).collect();
    let number = |job: &Job| job.number.as_deref().and_then(|number| number.parse::<u64>().ok());
    // Those whose number is not known come last.
    jobs.sort_by_key(|job| (number(job).is_none(), number(job), job.submitted));
    Ok(jobs)
}

/// How jobs are shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    /// Width of the terminal, in columns.
    pub(super) width: usize,
    /// Whether a driver waits for them, and takes their results.
    pub(super) is_waited_for: bool,
}

/// The jobs, and what to do with those that ended.
pub(super) fn write(out: &mut String, jobs: &[Job], shown: Shown) {
    let width = shown.width;
    if jobs.is_empty() {
        return;
    }
    let _ = writeln!(out, "{}", paint(STRONG, human::count(jobs.len(), "job")));
    let mut sheet = Sheet::new(&["job", "run", "state", "submitted"]);
    for job in jobs {
        let ago = Duration::from_secs((human::now() - job.submitted).max(0) as u64);
        sheet.row(vec![
            job.number.as_deref().unwrap_or("?").into(),
            format!("{}: {}", job.recipe, job.run).as_str().into(),
            job.words.as_str().into(),
            format!("{} ago", human::whole(ago)).as_str().into(),
        ]);
    }
    for line in sheet.render(width.saturating_sub(2)).lines() {
        let _ = writeln!(out, "  {line}");
    }
    for job in jobs.iter().filter(|job| job.state == JobState::Lost) {
        let number = job.number.as_deref().unwrap_or("?");
        let log = if job.log.exists() {
            format!("; its log: {}", job.log.display())
        } else {
            "; it has no log, because it did not begin".to_owned()
        };
        let words = format!("job {number} {}{log}", job.words);
        for line in output::fold(&words, width.saturating_sub(2)) {
            let _ = writeln!(out, "  {}", paint(ODD, line));
        }
    }
    if shown.is_waited_for {
        return;
    }
    let mut commands: Vec<&str> =
        jobs.iter().filter(|job| !job.is_in_the_queue()).map(|job| job.command.as_str()).collect();
    commands.sort_unstable();
    commands.dedup();
    for command in commands {
        let words = format!("takes results, submits runs without one: {command}");
        for line in output::fold(&words, width.saturating_sub(2)) {
            let _ = writeln!(out, "  {line}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_without_a_result_is_named_with_its_log_and_the_command() {
        let job = |number: &str, state, words: &str| Job {
            number: Some(number.to_owned()),
            recipe: "small".to_owned(),
            run: "d-sync, repeat 1".to_owned(),
            submitted: human::now(),
            state,
            words: words.to_owned(),
            log: "/s/jobs/ab/slurm.log".into(),
            command: "bakeoff run small.toml --submit slurm".to_owned(),
        };
        let jobs = [
            job("17", JobState::InTheQueue, "job 17 is running on n1"),
            job("18", JobState::Lost, "left the queue without a result"),
        ];
        let mut out = String::new();
        let shown = Shown { width: 100, is_waited_for: false };
        write(&mut out, &jobs, shown);
        let out = anstream::adapter::strip_str(&out).to_string();
        for words in [
            "2 jobs",
            "job 17 is running on n1",
            "job 18 left the queue",
            "it has no log",
            "bakeoff run small.toml --submit",
        ] {
            assert!(out.contains(words), "{words}: {out}");
        }
        out.lines().for_each(|line| assert!(line.chars().count() <= 100, "{line}"));
        let mut waited = String::new();
        write(&mut waited, &jobs, Shown { is_waited_for: true, ..shown });
        assert!(!waited.contains("takes results"), "the driver does: {waited}");
        let mut none = String::new();
        write(&mut none, &[], shown);
        assert_eq!(none, "");
    }
}
