//! The folder of a job: its ticket, its script, its log, and what it hands back.

use crate::exit::{Exit, Failure};
use recipe::{Plan, Provenance};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use store::{AttemptEnd, NodeRow, RunState};

/// The order for a job: a run, its surroundings, and the attempts that it may continue.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Ticket {
    /// Version of the program that wrote it.
    pub(crate) version: String,
    /// The name of its job: a job of another name that comes to this folder is an earlier one.
    pub(crate) job: String,
    /// Cell and repeat, in words.
    pub(crate) title: String,
    /// The command line that submitted it.
    pub(crate) argv: Vec<String>,
    /// When, in seconds since 1970.
    pub(crate) submitted: i64,
    /// The plan with this one run.
    pub(crate) plan: Plan,
    /// Provenance of the run, of which data and worker program must be the same where it runs.
    pub(crate) surroundings: Provenance,
    /// Attempts from whose checkpoints it may continue.
    pub(crate) before: Vec<PathBuf>,
}

/// How an attempt of a job ended.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Receipt {
    /// The name of the job that wrote it.
    pub(crate) job: String,
    /// When it began, in seconds since 1970.
    pub(crate) started: i64,
    pub(crate) end: AttemptEnd,
    /// Whether another attempt may do better.
    pub(crate) may_do_better: bool,
    /// Whether it lost ranks, or failed by one, because its recipe asked for it.
    pub(crate) as_ordered: bool,
    /// The machines, in the order of the recipe; none where it did not begin.
    pub(crate) machines: Vec<NodeRow>,
    /// The kind of these machines, in words; empty where it did not begin.
    pub(crate) hardware: String,
    /// Its messages to users, each with its time.
    pub(crate) notes: Vec<JobNote>,
}

impl Receipt {
    /// Whether the run came to its end, or ended as its recipe says.
    pub(crate) fn is_of_a_result(&self) -> bool {
        self.as_ordered || matches!(self.end.state, RunState::Done | RunState::Degraded | RunState::Diverged)
    }
}

/// A message of a job to users.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct JobNote {
    /// When it was said, in seconds since 1970.
    pub(crate) time: i64,
    /// `note`, or the state that the run had from then on.
    pub(crate) state: String,
    pub(crate) text: String,
}

/// The folder of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobFolder {
    path: PathBuf,
}

/// Letters of an identity in names.
const LETTERS: usize = 16;
/// Letters of a run in names.
const LAST: usize = 10;

/// The folder of all jobs of a store.
pub(crate) fn jobs_of(store: &Path) -> PathBuf {
    let jobs = store.join("jobs");
    // Jobs begin in folders of their own.
    std::path::absolute(&jobs).unwrap_or(jobs)
}

/// The folders of all jobs of a store, in the order of their names.
pub(crate) fn all(store: &Path) -> Vec<JobFolder> {
    all_in(&jobs_of(store))
}

/// Those in the folder of all jobs.
pub(super) fn all_in(jobs: &Path) -> Vec<JobFolder> {
    let entries = fs::read_dir(jobs).into_iter().flatten().flatten();
    let mut folders: Vec<JobFolder> =
        entries.map(|entry| JobFolder::at(&entry.path())).filter(|folder| folder.ticket().is_ok()).collect();
    folders.sort_by(|one, other| one.path.cmp(&other.path));
    folders
}

impl JobFolder {
    /// That of the run with this identity.
    pub(crate) fn of(jobs: &Path, identity: &str) -> Self {
        Self { path: jobs.join(identity.get(..LETTERS).unwrap_or(identity)) }
    }

    pub(crate) fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// The name in the queue of a job that is submitted for this run: no other store and no other sweep has it.
    pub(crate) fn job_of(&self, run: &str) -> String {
        let name = self.path.file_name().map(|name| name.to_string_lossy().into_owned());
        let run = run.to_lowercase();
        format!(
            "bakeoff-{}-{}",
            name.unwrap_or_default(),
            run.get(run.len().saturating_sub(LAST)..).unwrap_or(&run)
        )
    }

    /// File of the output of the queue and of the job.
    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("slurm.log")
    }

    /// The directory of the attempt.
    pub(crate) fn attempt(&self) -> PathBuf {
        self.path.join("attempt")
    }

    pub(crate) fn script(&self) -> PathBuf {
        self.path.join("job.sh")
    }

    /// The number that the queue gave; none where its driver was killed before it knew.
    pub(crate) fn number(&self) -> Option<String> {
        fs::read_to_string(self.path.join("number")).ok().map(|text| text.trim().to_owned())
    }

    pub(crate) fn keep_number(&self, number: &str) -> Result<(), Failure> {
        self.write("number", number.as_bytes())
    }

    pub(crate) fn ticket(&self) -> Result<Ticket, Failure> {
        self.read("ticket.json").map_err(|error| self.fault("ticket.json", "read", &error))
    }

    /// Whether there is a ticket, which may be one that cannot be read.
    pub(crate) fn has_ticket(&self) -> bool {
        self.path.join("ticket.json").exists()
    }

    /// Makes the folder anew, with ticket and script.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn prepare(&self, ticket: &Ticket, program: &Path) -> Result<(), Failure> {
        self.remove()?;
        fs::create_dir_all(&self.path).map_err(|error| self.fault("", "made", &error))?;
        let quoted = |path: &Path| format!("'{}'", path.display().to_string().replace('\'', r"'\''"));
        let store = self.path.ancestors().nth(2).unwrap_or(&self.path);
        let script = format!(
            "#!/bin/sh\n# {}\nexec {} job {} --name '{}' --store {}\n",
            ticket.title.replace(['\n', '\r'], " "),
            quoted(program),
            quoted(&self.path),
            ticket.job,
            quoted(store)
        );
        self.write("job.sh", script.as_bytes())?;
        // Last: a folder without a ticket is none.
        self.write_json("ticket.json", ticket)
    }

    /// The receipt of the ticket's job; `None` before it is written.
    pub(crate) fn receipt(&self) -> Option<Receipt> {
        let receipt: Receipt = self.read("receipt.json").ok()?;
        // A job that was cancelled may end after the folder was made anew for another one.
        (receipt.job == self.ticket().ok()?.job).then_some(receipt)
    }

    /// Makes the directory of the attempt; `false` where another job has.
    pub(crate) fn claim(&self) -> Result<bool, Failure> {
        match fs::create_dir(self.attempt()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(self.fault("attempt", "made", &error)),
        }
    }

    /// Whether the job got as far as this program.
    pub(crate) fn has_begun(&self) -> bool {
        self.attempt().exists()
    }

    /// Leaves a receipt, unless the folder is another job's by now.
    pub(crate) fn hand_in(&self, receipt: &Receipt) -> Result<(), Failure> {
        if self.ticket()?.job != receipt.job {
            return Ok(());
        }
        self.write_json("receipt.json", receipt)
    }

    /// Copies the files of the attempt and the log to the attempt's place in the store; where both are on one disk, without copying. The
    /// folder stays as it is, until all is recorded.
    pub(crate) fn hand_over(&self, directory: &Path) -> io::Result<()> {
        fs::create_dir_all(directory)?;
        if self.log().exists() {
            link_or_copy(&self.log(), &directory.join("slurm.log"))?;
        }
        if self.attempt().exists() { copy_all(&self.attempt(), directory) } else { Ok(()) }
    }

    /// Removes the folder, and first what makes it one: a driver that is killed meanwhile leaves nothing that is taken for a job.
    pub(crate) fn remove(&self) -> Result<(), Failure> {
        let gone = |removed: io::Result<()>| match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        };
        gone(fs::remove_file(self.path.join("ticket.json")))
            .and_then(|()| gone(fs::remove_dir_all(&self.path)))
            .map_err(|error| self.fault("", "removed", &error))
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<T> {
        Ok(serde_json::from_slice(&fs::read(self.path.join(name))?)?)
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), Failure> {
        let text =
            serde_json::to_vec_pretty(value).map_err(|error| self.fault(name, "written", &error.into()))?;
        self.write(name, &text)
    }

    /// In one step, so that no reader sees half of it.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let path = self.path.join(name);
        let new = self.path.join(format!("{name}.new"));
        let written = fs::write(&new, bytes).and_then(|()| fs::rename(&new, &path));
        written.map_err(|error| self.fault(name, "written", &error))
    }

    fn fault(&self, name: &str, done: &str, error: &io::Error) -> Failure {
        let path = self.path.join(name);
        Failure::new(Exit::of_file(error), format!("{} cannot be {done}: {error}", path.display()))
            .cure("the folder of the store must be one that the nodes of the cluster see under the same path: name it with --store")
    }
}

fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_all(&entry.path(), &target)?;
        } else if entry.file_type()?.is_file() {
            link_or_copy(&entry.path(), &target)?;
        }
    }
    Ok(())
}

fn link_or_copy(from: &Path, to: &Path) -> io::Result<()> {
    // It is there where an earlier driver was killed in between.
    if to.exists() || fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    fs::copy(from, to).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::DiskFiles;
    use recipe::{Machine, PlanRequest};

    fn ticket(job: &str) -> Ticket {
        let smoke = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes/smoke.toml");
        let plan = recipe::plan(&DiskFiles, &PlanRequest::new(&smoke), &Machine::new(2)).unwrap();
        Ticket {
            version: String::new(),
            job: job.to_owned(),
            title: String::new(),
            argv: Vec::new(),
            submitted: 0,
            plan,
            surroundings: Provenance { data: String::new(), worker: String::new(), hardware: String::new() },
            before: Vec::new(),
        }
    }

    fn receipt(job: &str) -> Receipt {
        let end = AttemptEnd {
            state: RunState::Done,
            detail: String::new(),
            culprit: None,
            last_lines: Vec::new(),
            wall: None,
            ended: 0,
            lost: Vec::new(),
        };
        let machines = Vec::new();
        let notes = Vec::new();
        let hardware = String::new();
        let job = job.to_owned();
        Receipt { job, started: 0, end, may_do_better: false, as_ordered: false, machines, hardware, notes }
    }

    #[test]
    fn a_receipt_of_another_job_is_none() {
        let place = tempfile::tempdir().unwrap();
        let folder = JobFolder::of(place.path(), &"ab".repeat(32));
        folder.prepare(&ticket("first"), Path::new("/bin/bakeoff")).unwrap();
        folder.hand_in(&receipt("first")).unwrap();
        assert_eq!(folder.receipt().unwrap().job, "first");
        // The first is cancelled, and ends when the folder is the second's.
        folder.prepare(&ticket("second"), Path::new("/bin/bakeoff")).unwrap();
        folder.hand_in(&receipt("first")).unwrap();
        assert!(folder.receipt().is_none());
        folder.write_json("receipt.json", &receipt("first")).unwrap();
        assert!(folder.receipt().is_none(), "an older program writes it all the same");
        folder.hand_in(&receipt("second")).unwrap();
        assert_eq!(folder.receipt().unwrap().job, "second");
    }

    #[test]
    fn what_is_handed_over_lies_in_both_places_until_the_folder_goes() {
        let place = tempfile::tempdir().unwrap();
        let folder = JobFolder::of(place.path(), &"ab".repeat(32));
        assert_eq!(folder.job_of("01KB3V9T0M5Q4X8Z7Y6W2R1ABC"), "bakeoff-abababababababab-7y6w2r1abc");
        fs::create_dir_all(place.path().join("ab".repeat(8))).unwrap();
        assert!(folder.claim().unwrap() && !folder.claim().unwrap(), "one job has it");
        fs::create_dir_all(folder.attempt().join("snapshots")).unwrap();
        fs::write(folder.attempt().join("snapshots/a.f32"), "weights").unwrap();
        fs::write(folder.log(), "said").unwrap();
        let directory = place.path().join("runs/1");
        for _ in 0..2 {
            folder.hand_over(&directory).unwrap();
            assert_eq!(fs::read_to_string(directory.join("snapshots/a.f32")).unwrap(), "weights");
            assert_eq!(fs::read_to_string(directory.join("slurm.log")).unwrap(), "said");
        }
        folder.remove().unwrap();
        folder.remove().unwrap();
        assert!(
            directory.join("snapshots/a.f32").exists() && folder.receipt().is_none() && !folder.has_begun()
        );
    }
}
