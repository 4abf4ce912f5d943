//! Runs as jobs of a queue (Slurm): what a job is handed and hands back, how it is submitted, and how it stands.
//!
//! A job has a folder of its own in `jobs/` of the store, named after the identity of its run:
//!
//! ```text
//! ticket.json      what to run, written before the job is submitted
//! job.sh           what the queue runs: this program, with the folder
//! slurm.log        what the queue and the job say
//! attempt/         the directory of the attempt: events, logs, snapshots, checkpoints
//! receipt.json     how the attempt ended, written last
//! ```
//!
//! The job writes plain files and opens no database; the driver that waits takes them over into its sweep, and removes the folder. As the
//! folder is found by the run, and the job by its name, which the ticket has, a driver that comes later finds what an earlier one submitted: it waits for the
//! job, or takes its result, and submits nothing twice.

mod ended;
mod folder;
mod options;
mod poll;
mod slurm;

pub(crate) use ended::Ended;
pub(crate) use folder::{JobFolder, JobNote, Receipt, Ticket, all, jobs_of};
pub(crate) use options::{Options, Shape};
pub(crate) use poll::{Fate, Queue, Wanted, When};
pub(crate) use slurm::{QueuedJob, ended_allocation, queued_jobs};

use clap::ValueEnum;

/// The queues that runs can be submitted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum QueueKind {
    /// Slurm: `sbatch`, `squeue` and `scontrol` are called.
    Slurm,
}
