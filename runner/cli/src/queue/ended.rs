//! A job that is not in the queue any more: whose fault that is, and what a user can do.

use super::slurm::JobEnd;
use std::path::Path;

/// A job that is not in the queue any more.
pub(crate) struct Ended {
    pub(crate) number: String,
    pub(super) end: JobEnd,
}

impl Ended {
    /// Whether the queue or a node ended the job, and not its own run.
    pub(crate) fn is_of_the_infrastructure(&self) -> bool {
        matches!(self.end.state.as_str(), "NODE_FAIL" | "PREEMPTED" | "BOOT_FAIL")
    }

    /// Whether it was ended before its time.
    pub(crate) fn was_cut_short(&self) -> bool {
        self.is_of_the_infrastructure()
            || matches!(self.end.state.as_str(), "CANCELLED" | "TIMEOUT" | "DEADLINE")
    }

    /// `job 17 was cancelled`, and what to do.
    pub(crate) fn words(&self, log: Option<&Path>) -> String {
        let number = &self.number;
        let (what, cure) = match self.end.state.as_str() {
            "CANCELLED" => ("was cancelled".to_owned(), "the same command submits it again"),
            "DEADLINE" => (
                "was not over at the time of its `--deadline`".to_owned(),
                "the same command submits it again; give it a later one with `-- --deadline=now+HOURShours`",
            ),
            "TIMEOUT" => (
                "had too little time".to_owned(),
                "the same command submits it again; give it more with `-- --time=HOURS:00:00`, and `train.checkpoint` lets it continue",
            ),
            "OUT_OF_MEMORY" => (
                "had too little memory".to_owned(),
                "give it more with `-- --mem=0` and run the same command again",
            ),
            "NODE_FAIL" | "BOOT_FAIL" => ("lost a node".to_owned(), "the same command submits it again"),
            "PREEMPTED" => {
                ("had to make room for another job".to_owned(), "the same command submits it again")
            }
            "" => ("has left the queue without a result".to_owned(), "the same command submits it again"),
            state => (
                format!("ended as {} with exit code {}", state.to_lowercase(), self.end.exit),
                "read its log; the same command submits it again",
            ),
        };
        let log = log.map_or_else(String::new, |log| format!("; its log: {}", log.display()));
        format!("Slurm's job {number} {what}; {cure}{log}")
    }

    /// Of a job that ended in order because it was asked to.
    pub(crate) fn stopped(&self, log: Option<&Path>) -> String {
        let log = log.map_or_else(String::new, |log| format!("; its log: {}", log.display()));
        format!(
            "Slurm's job {} was asked to end before its time was up; the same command continues it, and `-- --time=HOURS:00:00` gives it \
             more{log}",
            self.number
        )
    }

    /// The same of a job that left no sign of life.
    pub(crate) fn unbegun(&self, log: &Path) -> String {
        if self.was_cut_short() {
            return self.words(None);
        }
        format!(
            "Slurm's job {} ended ({}) and left nothing in its folder: do the nodes see {}? Name a folder on a shared disk with --store",
            self.number,
            if self.end.state.is_empty() { "no state is known" } else { &self.end.state },
            log.parent().unwrap_or(log).display()
        )
    }
}
