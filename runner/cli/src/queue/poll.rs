//! A queue while a driver waits for its jobs: what it looks like now, and what became of a job that is gone.

use super::ended::Ended;
use super::folder::{JobFolder, Ticket, all_in, jobs_of};
use super::options::{Options, Shape};
use super::slurm::{self, JobEnd, QueuedJob, Refusal};
use crate::exit::{Exit, Failure};
use crate::output::Console;
use recipe::RunSpec;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Between two looks at the queue.
const PACE: Duration = Duration::from_secs(2);
/// How long a receipt may take to be seen here after its job has ended: shared disks are late.
const LATE: Duration = Duration::from_secs(10);
/// How long a cancelled job may take to leave: Slurm kills it half a minute after it was asked to end.
const CANCELLED: Duration = Duration::from_mins(2);
/// How long the queue may be silent before that is said: one command that fails is nothing.
const NOTICED: Duration = Duration::from_secs(10);
/// How long the queue may be silent before the driver leaves.
const SILENCE: Duration = Duration::from_mins(10);

/// A queue that takes the runs of a sweep.
pub(crate) struct Queue {
    jobs: PathBuf,
    program: PathBuf,
    options: Options,
    most: usize,
    looks: watch::Receiver<Look>,
    looking: JoinHandle<()>,
    /// Only one driver takes jobs of a store.
    _alone: File,
    turns: tokio::sync::Mutex<()>,
    /// Numbers of the jobs that it waits for.
    waits_for: Mutex<BTreeMap<String, Instant>>,
    /// Whether jobs of earlier drivers are cancelled, and their results thrown away.
    fresh: bool,
    /// Names of the jobs that it submitted.
    own: Mutex<BTreeSet<String>>,
    /// Kinds of the machines that the queue gave so far.
    hardware: Mutex<BTreeSet<String>>,
}

/// Options of a driver for its use of a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// The most jobs in the queue at once; without it, all.
    pub(crate) most: Option<u32>,
    /// Whether each run is made again, whatever was submitted before.
    pub(crate) fresh: bool,
}

/// The queue at one moment.
#[derive(Clone, Debug)]
struct Look {
    /// When it was asked for.
    asked: Instant,
    jobs: BTreeMap<String, QueuedJob>,
    /// Since when there was none.
    silent: Option<(Instant, String)>,
}

/// A job of a run.
pub(crate) struct Submitted {
    /// The job's name in the queue.
    pub(crate) name: String,
    pub(crate) number: String,
    pub(crate) when: When,
    /// The job of an earlier driver whose place it takes.
    pub(crate) replaced: Option<String>,
}

/// When a job was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Now, by this driver.
    Now,
    /// By an earlier one, and it is in the queue.
    Before,
    /// By an earlier one, and it is not in the queue any more.
    BeforeAndEnded,
}

/// Outcome of waiting for a job.
pub(crate) enum Fate {
    /// It is not in the queue any more.
    Ended(Ended),
    /// The queue has not answered for long.
    Silent(String),
}

impl Queue {
    /// Opens the queue for the jobs of a store.
    ///
    /// # Errors
    /// Slurm is not there, the folder of jobs cannot be written, or another driver waits for jobs of this store.
    pub(crate) async fn open(
        store: &Path,
        options: Options,
        wanted: Wanted,
        console: &Console,
    ) -> Result<Self, Failure> {
        slurm::check().await?;
        let jobs = jobs_of(store);
        // Before the first look: an earlier driver may have submitted more until then.
        let alone = alone(&jobs)?;
        let first = slurm::queued_jobs().await.map_err(|error| {
            Failure::new(Exit::Preflight, format!("`squeue` does not list the queue: {error}"))
                .cure("see whether `squeue --me` works, and run the same command again")
        })?;
        let program = std::env::current_exe().map_err(|error| {
            Failure::new(Exit::Internal, format!("this program cannot be found: {error}"))
        })?;
        if options.shares_nodes() {
            console.warn(
                "jobs may share nodes with others, which disturb what they measure",
                "leave out `--oversubscribe`: then each job has its nodes alone",
            );
        }
        if let Some(name) = slurm::ignored_variables().first() {
            console.warn(
                &format!("{name} is set, and not used: which machines a run has is a part of what it is"),
                "write the option after `--`, as in `-- --partition=NAME`",
            );
        }
        let (sender, looks) = watch::channel(Look { asked: Instant::now(), jobs: first, silent: None });
        let looking = tokio::spawn(keep_looking(sender));
        Ok(Self {
            jobs,
            program,
            options,
            most: wanted.most.map_or(usize::MAX, |most| most as usize),
            looks,
            looking,
            _alone: alone,
            turns: tokio::sync::Mutex::default(),
            waits_for: Mutex::default(),
            fresh: wanted.fresh,
            own: Mutex::default(),
            hardware: Mutex::default(),
        })
    }

    /// The most jobs in the queue at once.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// The folder of the run with this identity.
    pub(crate) fn folder(&self, identity: &str) -> JobFolder {
        JobFolder::of(&self.jobs, identity)
    }

    /// The job of a run: the one that is there, or a new one.
    ///
    /// # Errors
    /// The queue refuses it, or its folder cannot be written.
    pub(crate) async fn find_or_submit(
        &self,
        folder: &JobFolder,
        spec: &RunSpec,
        ticket: impl FnOnce() -> Ticket,
    ) -> Result<Submitted, Failure> {
        let mut replaced = None;
        let found = match folder.ticket() {
            Ok(known) if self.fresh && !lock(&self.own).contains(&known.job) => {
                replaced = folder.number();
                self.cancel(folder, &known.job).await?;
                None
            }
            Ok(known) => self.known(folder, known.job),
            Err(failure) if folder.has_ticket() => {
                return Err(failure.cure(
                    "it may be of another version of bakeoff, or broken: cancel its job, if `squeue --me` shows it, remove the folder, and run \
                     the same command again",
                ));
            }
            Err(_) => None,
        };
        let submitted = if let Some(submitted) = found {
            submitted
        } else {
            let ticket = ticket();
            folder.prepare(&ticket, &self.program)?;
            let arguments = self.options.arguments(Shape::of(spec), &ticket.job, &folder.log());
            let number = match slurm::submit(arguments, &folder.script()).await {
                Ok(number) => number,
                Err(Refusal::Refused(failure)) => {
                    folder.remove()?;
                    return Err(failure);
                }
                // The queue may have taken the job: its name tells.
                Err(Refusal::Unknown(failure)) => return Err(failure),
            };
            lock(&self.own).insert(ticket.job.clone());
            Submitted { name: ticket.job, number, when: When::Now, replaced }
        };
        folder.keep_number(&submitted.number)?;
        lock(&self.waits_for).insert(submitted.number.clone(), Instant::now());
        Ok(submitted)
    }

    /// The job that was submitted before under this name. One that has ended is looked at before anything is submitted in its place.
    fn known(&self, folder: &JobFolder, name: String) -> Option<Submitted> {
        let found = self.looks.borrow().jobs.get(&name).map(|standing| standing.number.clone());
        let (number, when) = match (found, folder.number()) {
            (Some(number), _) => (number, When::Before),
            (None, Some(number)) => (number, When::BeforeAndEnded),
            // Its driver was killed before it knew the number.
            (None, None) if folder.receipt().is_some() => ("?".to_owned(), When::BeforeAndEnded),
            // A job that its `sbatch` may still bring finds a ticket with another name.
            (None, None) => return None,
        };
        Some(Submitted { name, number, when, replaced: None })
    }

    /// Cancels the job of an earlier driver, and throws away what it has left.
    async fn cancel(&self, folder: &JobFolder, name: &str) -> Result<(), Failure> {
        let found = self.looks.borrow().jobs.get(name).cloned();
        if let Some(QueuedJob { number, state, .. }) = found {
            slurm::cancel(&number).await?;
            if state == "PENDING" && !folder.has_begun() {
                return folder.remove();
            }
            // Until it is gone, its ranks may write into the folder.
            let gone = tokio::time::timeout(CANCELLED, self.until_gone(name, None, &|_: &str| ())).await;
            if !matches!(gone, Ok(None)) {
                let what =
                    format!("job {number} is cancelled, and still there after {} s", CANCELLED.as_secs());
                return Err(Failure::new(Exit::Preflight, what)
                    .cure("see `squeue --me`; run the same command again when it is gone"));
            }
        }
        folder.remove()
    }

    /// Whether a job is in the queue for the run with this identity.
    pub(crate) fn is_awaited(&self, identity: &str) -> bool {
        let folder = self.folder(identity);
        folder.ticket().is_ok_and(|ticket| self.looks.borrow().jobs.contains_key(&ticket.job))
    }

    /// How the jobs stand that are in the queue and belong to none of these runs: an earlier driver submitted them with other settings.
    pub(crate) fn strays<'a>(&self, identities: impl Iterator<Item = &'a str>) -> Vec<QueuedJob> {
        let wanted: Vec<JobFolder> = identities.map(|identity| self.folder(identity)).collect();
        let look = self.looks.borrow();
        let strange = all_in(&self.jobs).into_iter().filter(|folder| !wanted.contains(folder));
        strange.filter_map(|folder| look.jobs.get(&folder.ticket().ok()?.job).cloned()).collect()
    }

    /// One run after another is submitted, in the order of the plan.
    pub(crate) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turns.lock().await
    }

    /// Waits until a job has ended; `tell` gets to know how it stands.
    pub(crate) async fn wait(&self, folder: &JobFolder, job: &Submitted, tell: impl Fn(&str)) -> Fate {
        let end = loop {
            if let Some(why) = self.until_gone(&job.name, Some(folder), &tell).await {
                return Fate::Silent(why);
            }
            // The receipt is written last: more need not be known of a job with a result.
            if folder.receipt().is_some_and(|receipt| receipt.is_of_a_result()) {
                break JobEnd { state: "COMPLETED".to_owned(), ..JobEnd::default() };
            }
            match slurm::end_of(&job.number).await {
                // It is in the queue again, or a look has missed it.
                Ok(end) if !end.is_final() => tokio::time::sleep(PACE).await,
                Ok(end) => break end,
                Err(error) => {
                    return Fate::Silent(format!(
                        "`scontrol` does not say how job {} ended: {error}",
                        job.number
                    ));
                }
            }
        };
        let late = Instant::now() + LATE;
        while folder.receipt().is_none()
            && Instant::now() < late
            && (folder.has_begun() || end.state == "COMPLETED")
        {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Fate::Ended(Ended { number: job.number.clone(), end })
    }

    /// Waits until a look does not show a job, or, while the queue is silent, until the folder has a result; the error says why no look comes.
    async fn until_gone(
        &self,
        name: &str,
        folder: Option<&JobFolder>,
        tell: &impl Fn(&str),
    ) -> Option<String> {
        let begun = Instant::now();
        let mut looks = self.looks.clone();
        loop {
            {
                let look = looks.borrow_and_update();
                match (look.jobs.get(name), &look.silent) {
                    (_, Some((since, why))) if since.elapsed() > NOTICED => tell(&format!(
                        "the queue does not reply: {why}; it is asked for {} min in all",
                        SILENCE.as_secs() / 60
                    )),
                    (Some(standing), _) => tell(&standing.words()),
                    (None, None) if look.asked > begun => return None,
                    _ => {}
                }
                if let Some((since, why)) =
                    look.silent.as_ref().filter(|(since, _)| since.elapsed() > SILENCE)
                {
                    let minutes = since.elapsed().as_secs() / 60;
                    return Some(format!("the queue has said nothing for {minutes} min: {why}"));
                }
            }
            // A queue that does not reply keeps no result back.
            let is_silent = looks.borrow().silent.is_some();
            if is_silent
                && folder.and_then(JobFolder::receipt).is_some_and(|receipt| receipt.is_of_a_result())
            {
                return None;
            }
            if looks.changed().await.is_err() {
                return Some("the task that reads the queue has ended".to_owned());
            }
        }
    }

    /// A job is taken over, and not waited for any more.
    pub(crate) fn has_taken(&self, number: &str) {
        lock(&self.waits_for).remove(number);
    }

    /// The numbers of jobs that are still waited for, and were in the queue when it was last looked at.
    pub(crate) fn left(&self) -> Vec<String> {
        let look = self.looks.borrow();
        let is_there = |number: &String, since: &Instant| {
            *since > look.asked || look.jobs.values().any(|standing| standing.number == *number)
        };
        let waits_for = lock(&self.waits_for);
        waits_for
            .iter()
            .filter(|(number, since)| is_there(number, since))
            .map(|(number, _)| number.clone())
            .collect()
    }

    /// Takes in on what machines a job was; all kinds so far, if this one is news and not the first.
    pub(crate) fn was_on(&self, hardware: &str) -> Option<Vec<String>> {
        let mut all = lock(&self.hardware);
        let is_news = !hardware.is_empty() && all.insert(hardware.to_owned());
        (is_news && all.len() > 1).then(|| all.iter().cloned().collect())
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.looking.abort();
    }
}

/// Looks at the queue again and again.
async fn keep_looking(looks: watch::Sender<Look>) {
    while !looks.is_closed() {
        tokio::time::sleep(PACE).await;
        let asked = Instant::now();
        match slurm::queued_jobs().await {
            Ok(jobs) => looks.send_replace(Look { asked, jobs, silent: None }),
            Err(error) => {
                let mut last = looks.borrow().clone();
                let since = last.silent.map_or(asked, |(since, _)| since);
                last.silent = Some((since, error.to_string()));
                looks.send_replace(last)
            }
        };
    }
}

/// Keeps other drivers from the jobs of a store.
fn alone(jobs: &Path) -> Result<File, Failure> {
    let path = jobs.join("lock");
    let fault = |error: std::io::Error| {
        Failure::new(Exit::of_file(&error), format!("{} cannot be written: {error}", path.display()))
            .cure("the folder of the store must be one that the nodes of the cluster see under the same path: name it with --store")
    };
    std::fs::create_dir_all(jobs).map_err(fault)?;
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(fault)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Failure::new(
            Exit::Store,
            format!("another `bakeoff run --submit` waits for the jobs in {}", jobs.display()),
        )
        .cure("let it finish, or end it with `bakeoff stop`: its jobs stay in the queue; or take another store with --store")),
        Err(TryLockError::Error(error)) => Err(fault(error)),
    }
}

fn lock<T>(value: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // The sets have no invariant that a panic could have broken.
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
