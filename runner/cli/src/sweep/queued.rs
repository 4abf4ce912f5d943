//! A run as a job of a queue: submitted unless it was before, waited for, and taken over into the store.

use super::Sweep;
use super::outcome::{Attempted, lost};
use crate::exit::{Exit, Failure};
use crate::output::human;
use crate::queue::{Ended, Fate, JobFolder, Queue, Receipt, Ticket, When};
use crate::resume;
use crate::reuse::Decision;
use launch::Update;
use recipe::{Cell, Plan, Run};
use std::path::{Path, PathBuf};
use store::{AttemptEnd, AttemptId, EventLog, NewAttempt, NodeId, NodeRow, RunId, RunState, StoreError};

/// Events taken over at once.
const BATCH: usize = 512;

/// The plan with one of its runs.
pub(crate) fn plan_of(plan: &Plan, run: &Run) -> Plan {
    Plan {
        cells: vec![Cell { axes: Vec::new(), ..plan.cells[run.cell].clone() }],
        values: Vec::new(),
        runs: vec![Run { cell: 0, ..*run }],
        looks: Vec::new(),
        search: None,
        warnings: Vec::new(),
        source: String::new(),
        expanded: String::new(),
        ..plan.clone()
    }
}

impl Sweep<'_> {
    /// Submits a run, unless its job is there, and takes over what the job hands back. Left in the queue where the user ends the driver.
    pub(super) async fn attempt_in(
        &self,
        queue: &Queue,
        run: &Run,
        id: &RunId,
        decision: &Decision,
    ) -> Result<Attempted, Failure> {
        let folder = queue.folder(&decision.identity);
        self.progress.submitting(self.plan, run);
        let stop = self.session.stop();
        loop {
            let turn = queue.turn().await;
            if stop.at_next_step.is_cancelled() {
                return Ok(left());
            }
            let spec = &self.plan.cells[run.cell].spec;
            let job = queue.find_or_submit(&folder, spec, || self.ticket(&folder, run, id, decision)).await?;
            drop(turn);
            let told = match job.when {
                When::Now => match &job.replaced {
                    Some(before) => format!("job {} is submitted in place of job {before}", job.number),
                    None => format!("job {} is submitted", job.number),
                },
                When::Before => format!("job {} was submitted before", job.number),
                When::BeforeAndEnded => format!("job {} was submitted before, and has ended", job.number),
            };
            self.progress.queued(run, &told);
            let tell = |words: &str| self.progress.queued(run, words);
            let fate = tokio::select! {
                fate = queue.wait(&folder, &job, tell) => fate,
                () = stop.at_next_step.cancelled() => return Ok(left()),
            };
            let ended = match fate {
                Fate::Ended(ended) => ended,
                Fate::Silent(why) => {
                    return Err(Failure::new(Exit::Preflight, why).cure(
                        "the jobs stay in the queue; the same command waits for them and takes their results",
                    ));
                }
            };
            let taken = TakenJob { folder: &folder, ended: &ended, receipt: folder.receipt() };
            let attempted = self.take_over(&taken, run, id, decision).await?;
            folder.remove()?;
            queue.has_taken(&job.number);
            self.warn_of_kinds(queue, taken.receipt.as_ref());
            // A run that went wrong before this driver came is repeated, as one that the store has is.
            let is_kept =
                matches!(attempted.end.state, RunState::Done | RunState::Diverged) || attempted.as_ordered;
            if job.when == When::BeforeAndEnded && !is_kept {
                continue;
            }
            return Ok(attempted);
        }
    }

    fn warn_of_kinds(&self, queue: &Queue, receipt: Option<&Receipt>) {
        if let Some(kinds) = receipt.and_then(|receipt| queue.was_on(&receipt.hardware)) {
            self.progress.looked(&format!(
                "warning: the queue gave machines of different kinds, whose times cannot be compared: {}; ask for one kind, as in \
                 `-- --constraint=NAME` or `-- --partition=NAME`",
                kinds.join(" and ")
            ));
        }
    }

    fn ticket(&self, folder: &JobFolder, run: &Run, id: &RunId, decision: &Decision) -> Ticket {
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        let before = resume::attempts(self.store, &Self::continued(id, decision));
        Ticket {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            job: folder.job_of(id.as_str()),
            title: format!("{}, repeat {}", self.plan.cells[run.cell].label, run.repeat + 1),
            argv: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
            submitted: human::now(),
            plan: plan_of(self.plan, run),
            surroundings: decision.surroundings.clone(),
            before: before.into_iter().map(absolute).collect(),
        }
    }

    /// Records what a job handed back as an attempt at the run. The job's folder stays until all is recorded: a driver that is killed
    /// before leaves it to the next one.
    async fn take_over(
        &self,
        job: &TakenJob<'_>,
        run: &Run,
        id: &RunId,
        decision: &Decision,
    ) -> Result<Attempted, Failure> {
        let spec = &self.plan.cells[run.cell].spec;
        let machines = job.receipt.iter().flat_map(|receipt| &receipt.machines);
        let mut nodes: Vec<NodeId> = Vec::new();
        for machine in machines {
            nodes.push(self.store.record_node(machine).await?);
        }
        // A job that never came as far has no machines.
        for node in spec.cluster.nodes.iter().skip(nodes.len()) {
            nodes.push(self.store.record_node(&unknown(&node.name)).await?);
        }
        let started = job.receipt.as_ref().map_or_else(human::now, |receipt| receipt.started);
        let new = NewAttempt { started, cluster: &spec.cluster, nodes: &nodes };
        let attempt = self.store.record_attempt(id, &new).await?;
        self.store.record_surroundings(attempt, started, &decision.surroundings).await?;
        let directory = self.store.attempt_directory(id, self.store.attempt_number(attempt).await?);
        let mut end = job.end(&directory);
        let whole = end.detail.clone();
        let left_behind = match self.take_files(job.folder, &directory, attempt, run).await? {
            Taken::Whole => None,
            // Of a job that was killed the last event may be half there.
            Taken::Torn(why) => {
                if job.receipt.is_some() && !job.is_cut_short() {
                    lost(&mut end, &why);
                }
                None
            }
            Taken::LeftBehind(why) => {
                lost(&mut end, &why);
                Some(why)
            }
        };
        for note in job.receipt.iter().flat_map(|receipt| &receipt.notes) {
            self.store.record_note(attempt, note.time, &note.state, &note.text).await?;
        }
        let where_it_was = format!("Slurm's job {}{}", job.ended.number, job.place());
        self.store.record_note(attempt, started, "note", &where_it_was).await?;
        let of_the_run = job.receipt.as_ref().filter(|_| !job.is_cut_short());
        // Where its records are whole.
        let as_ordered = of_the_run.is_some_and(|receipt| receipt.as_ordered)
            && end.state != RunState::Interrupted
            && end.detail == whole;
        self.record_end(attempt, &end, as_ordered).await?;
        if let Some(why) = left_behind {
            let failure = Failure::new(
                Exit::Store,
                format!("the result of job {} is not taken: {why}", job.ended.number),
            );
            return Err(failure.cure(
                "the job's folder keeps it; make room, and run the same command again: it takes the result",
            ));
        }
        if matches!(end.state, RunState::Done | RunState::Diverged) {
            resume::delete_checkpoints(self.store, &Self::continued(id, decision), &directory);
        }
        let may_do_better = job.ended.is_of_the_infrastructure() && job.is_cut_short()
            || of_the_run.is_some_and(|receipt| receipt.may_do_better);
        Ok(Attempted { end, may_do_better, as_ordered, is_left: false, is_the_last: false })
    }

    /// Brings the files of an attempt to their place, and its events into the store.
    async fn take_files(
        &self,
        folder: &JobFolder,
        directory: &Path,
        attempt: AttemptId,
        run: &Run,
    ) -> Result<Taken, StoreError> {
        if let Err(error) = folder.hand_over(directory) {
            let why = format!("its files cannot be brought to {}: {error}", directory.display());
            return Ok(Taken::LeftBehind(why));
        }
        let mut events = match EventLog::events(directory) {
            Ok(events) => events,
            Err(error) => return Ok(Taken::Torn(error.to_string())),
        };
        loop {
            let mut batch = Vec::new();
            let mut torn = None;
            for event in events.by_ref().take(BATCH) {
                match event {
                    Ok(event) => batch.push(event),
                    Err(error) => {
                        torn = Some(error.to_string());
                        break;
                    }
                }
            }
            if !batch.is_empty() {
                self.store.record_events(attempt, &batch).await?;
            }
            let is_last = batch.len() < BATCH;
            self.progress.update(run, &Update::Events(batch));
            match torn {
                Some(why) => return Ok(Taken::Torn(why)),
                None if is_last => return Ok(Taken::Whole),
                None => {}
            }
        }
    }
}

/// Outcome of taking over the files of an attempt.
enum Taken {
    Whole,
    /// Its events end in the middle, or cannot be read: why.
    Torn(String),
    /// They are where they were, whole: why.
    LeftBehind(String),
}

/// Whether an attempt came to the end of its run.
fn is_result(end: &AttemptEnd) -> bool {
    matches!(end.state, RunState::Done | RunState::Degraded | RunState::Diverged)
}

/// A machine of which nothing is known but what the plan calls it.
fn unknown(name: &str) -> NodeRow {
    NodeRow {
        name: name.to_owned(),
        host: String::new(),
        system: String::new(),
        processor: String::new(),
        cores: 1,
        memory: 0,
    }
}

/// A run that continues without this driver.
fn left() -> Attempted {
    let end = AttemptEnd {
        state: RunState::Interrupted,
        detail: String::new(),
        culprit: None,
        last_lines: Vec::new(),
        wall: None,
        ended: human::now(),
        lost: Vec::new(),
    };
    Attempted { end, may_do_better: false, as_ordered: false, is_left: true, is_the_last: false }
}

/// A job that is not in the queue any more, with what it handed back.
struct TakenJob<'a> {
    folder: &'a JobFolder,
    ended: &'a Ended,
    receipt: Option<Receipt>,
}

impl TakenJob<'_> {
    /// Whether it has no result because it was ended from outside.
    fn is_cut_short(&self) -> bool {
        self.ended.was_cut_short() && !self.receipt.as_ref().is_some_and(|receipt| is_result(&receipt.end))
    }

    /// ` on n1, n2`.
    fn place(&self) -> String {
        let hosts: Vec<&str> = self
            .receipt
            .iter()
            .flat_map(|receipt| &receipt.machines)
            .map(|machine| machine.name.as_str())
            .collect();
        if hosts.is_empty() { String::new() } else { format!(" on {}", hosts.join(", ")) }
    }

    /// The end of the attempt, whose files are in `directory`.
    fn end(&self, directory: &Path) -> AttemptEnd {
        // It is not brought there yet.
        let log = self.folder.log().exists().then(|| directory.join("slurm.log"));
        let log = log.as_deref();
        match &self.receipt {
            Some(receipt) if self.is_cut_short() => AttemptEnd {
                state: RunState::Interrupted,
                detail: self.ended.words(log),
                ..receipt.end.clone()
            },
            // It was asked to end before its time was up.
            Some(receipt) if receipt.end.state == RunState::Interrupted => {
                AttemptEnd { detail: self.ended.stopped(log), ..receipt.end.clone() }
            }
            Some(receipt) => receipt.end.clone(),
            None => AttemptEnd {
                state: if self.ended.was_cut_short() { RunState::Interrupted } else { RunState::Failed },
                detail: if log.is_some() {
                    self.ended.words(log)
                } else {
                    self.ended.unbegun(&self.folder.log())
                },
                last_lines: launch::last_lines(&self.folder.log(), LINES),
                ..left().end
            },
        }
    }
}

/// Lines of a log in the end of an attempt.
const LINES: usize = 20;
