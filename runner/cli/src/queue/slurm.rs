//! Slurm's commands. Their words are interpreted here and nowhere else.

use crate::exit::{Exit, Failure};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;

/// How long a command may take: a busy controller replies late.
const PATIENCE: Duration = Duration::from_secs(30);

/// How a job stands in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueuedJob {
    /// The number that Slurm gave it.
    pub(crate) number: String,
    /// Slurm's word for its state: `PENDING`, `RUNNING`, `COMPLETING`.
    pub(crate) state: String,
    /// Why it waits; empty where nothing is said.
    pub(crate) reason: String,
    /// The nodes that it has.
    pub(crate) nodes: String,
}

/// Reasons for waiting that do not pass by themselves.
const NEVER: [&str; 8] = [
    "AssocMaxWallDurationPerJobLimit",
    "BadConstraints",
    "DependencyNeverSatisfied",
    "JobHeldAdmin",
    "JobHeldUser",
    "PartitionConfig",
    "PartitionNodeLimit",
    "PartitionTimeLimit",
];

impl QueuedJob {
    /// `job 17 is pending (Resources)`, `job 17 is running on n1`.
    pub(crate) fn words(&self) -> String {
        let state = self.state.to_lowercase();
        let more = match (self.state.as_str(), self.nodes.is_empty(), self.reason.as_str()) {
            ("PENDING", _, reason) if NEVER.contains(&reason) => {
                format!(
                    " and will not begin ({reason}): cancel it with `scancel {}`, and give other options",
                    self.number
                )
            }
            ("PENDING", _, reason) if !reason.is_empty() && reason != "None" => format!(" ({reason})"),
            ("PENDING", ..) | (_, true, _) => String::new(),
            _ => format!(" on {}", self.nodes),
        };
        format!("job {} is {state}{more}", self.number)
    }
}

/// How a job ended, by the controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobEnd {
    /// `COMPLETED`, `CANCELLED`, `TIMEOUT`, `NODE_FAIL`; empty where the controller knows nothing of it any more.
    pub(crate) state: String,
    /// `1:0`: exit code and signal.
    pub(crate) exit: String,
    pub(crate) reason: String,
}

/// Why there is no number of a job.
pub(super) enum Refusal {
    /// There is no job.
    Refused(Failure),
    /// There may be one.
    Unknown(Failure),
}

/// Submits a script; the number of the job.
///
/// # Errors
/// There is no `sbatch`, or it refuses, or does not come back.
pub(super) async fn submit(arguments: Vec<OsString>, script: &std::path::Path) -> Result<String, Refusal> {
    let mut words = arguments;
    words.push(script.into());
    let output = call("sbatch", &words).await.map_err(|error| Refusal::Unknown(absent("sbatch", &error)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim().trim_start_matches("sbatch: ").replace('\n', "; ");
        if ["timed out", "contact"].iter().any(|words| said.contains(words)) {
            let what = format!("the queue did not reply, and may have taken a job: {said}");
            return Err(Refusal::Unknown(Failure::new(Exit::Preflight, what).cure(
                "see whether `sinfo` works; the same command finds what was submitted, and submits the rest",
            )));
        }
        let failure = Failure::new(Exit::Preflight, format!("the queue refuses a job: {said}"));
        return Err(Refusal::Refused(failure.cure("name partition, account, time as your cluster wants them: `bakeoff run RECIPE --submit slurm -- --partition=NAME --time=30:00`; with --jobs fewer jobs are in the queue at once")));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    // `17` or `17;cluster`, after what a site has to say.
    let last = said.trim().lines().last().unwrap_or_default();
    let number = last.trim().split(';').next().unwrap_or_default();
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        let what = format!("`sbatch` says `{}` in place of a job's number", said.trim());
        return Err(Refusal::Unknown(
            Failure::new(Exit::Preflight, what)
                .cure("see with `squeue --me` whether the job is there; then the same command waits for it"),
        ));
    }
    Ok(number.to_owned())
}

/// The user's jobs that are in the queue, by their names.
///
/// # Errors
/// `squeue` is not there, fails, or does not come back.
pub(crate) async fn queued_jobs() -> io::Result<BTreeMap<String, QueuedJob>> {
    let output = call("squeue", &["--me", "-h", "-o", "%i|%j|%T|%r|%N"]).await?;
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(read_standings(&String::from_utf8_lossy(&output.stdout)))
}

fn read_standings(text: &str) -> BTreeMap<String, QueuedJob> {
    let line = |line: &str| {
        let mut fields = line.split('|').map(|field| field.trim().to_owned());
        let number = fields.next()?;
        let name = fields.next()?;
        let state = fields.next()?;
        let reason = fields.next()?;
        let nodes = fields.next().unwrap_or_default();
        Some((name, QueuedJob { number, state, reason, nodes }))
    };
    text.lines().filter_map(line).collect()
}

/// The number of the allocation that this process is in, if that has ended.
pub(crate) async fn ended_allocation() -> Option<String> {
    let number = std::env::var("SLURM_JOB_ID").ok()?;
    let output = call("squeue", &["-h", "-j", &number, "-o", "%T"]).await.ok()?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_lowercase();
    let is_over = if output.status.success() {
        // A line for each component, and for each task of an array whose number this one has.
        let live = ["running", "suspended", "configuring", "resizing", "signaling", "stopped"];
        !said(&output.stdout).lines().any(|state| live.contains(&state.trim()))
    } else {
        said(&output.stderr).contains("invalid job id")
    };
    is_over.then_some(number)
}

/// States of a job that has not ended.
const UNDER_WAY: [&str; 10] = [
    "PENDING",
    "RUNNING",
    "SUSPENDED",
    "COMPLETING",
    "CONFIGURING",
    "REQUEUED",
    "RESIZING",
    "SIGNALING",
    "STAGE_OUT",
    "STOPPED",
];
/// How often the controller is asked how a job ended.
const QUESTIONS: u32 = 5;
const BETWEEN: Duration = Duration::from_secs(3);

impl JobEnd {
    /// Whether it has ended, or is not known any more.
    pub(super) fn is_final(&self) -> bool {
        !UNDER_WAY.contains(&self.state.as_str())
    }
}

/// How a job ended that is not in the queue any more.
///
/// # Errors
/// The controller cannot be reached, and was asked several times.
pub(super) async fn end_of(number: &str) -> io::Result<JobEnd> {
    let mut asked = 0;
    loop {
        asked += 1;
        let error = match call("scontrol", &["show", "job", "-o", number]).await {
            Ok(output) if output.status.success() => {
                return Ok(read_end(&String::from_utf8_lossy(&output.stdout)));
            }
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                // It ended long ago, or its number was never known.
                if said.to_lowercase().contains("invalid job id") {
                    return Ok(JobEnd::default());
                }
                io::Error::other(said)
            }
            Err(error) => error,
        };
        if asked == QUESTIONS {
            return Err(error);
        }
        tokio::time::sleep(BETWEEN).await;
    }
}

/// Asks Slurm to cancel a job, which may still run for a while.
///
/// # Errors
/// `scancel` is not there, fails, or does not come back.
pub(super) async fn cancel(number: &str) -> Result<(), Failure> {
    let said = match call("scancel", &[number]).await {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Err(Failure::new(Exit::Preflight, format!("job {number} cannot be cancelled: {said}"))
        .cure(format!("cancel it with `scancel {number}`, then run the same command again")))
}

/// Variables that `sbatch` would take for options, and does not get.
pub(super) fn ignored_variables() -> Vec<String> {
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("SBATCH_")).collect()
}

/// Options of an allocation that this process may be in are not those of its jobs, options by variables are no part of a run's
/// identity, and those of `squeue` hide jobs.
fn is_withheld(name: &str) -> bool {
    let of_slurm = ["SLURM_", "SBATCH_", "SQUEUE_", "SCANCEL_"];
    of_slurm.iter().any(|prefix| name.starts_with(prefix)) && name != "SLURM_CONF"
}

fn read_end(text: &str) -> JobEnd {
    let field = |name: &str| {
        let mut words = text.split_whitespace();
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).unwrap_or_default().to_owned()
    };
    JobEnd { state: field("JobState"), exit: field("ExitCode"), reason: field("Reason") }
}

/// Whether Slurm's commands are there.
///
/// # Errors
/// `sbatch` is not there, or cannot be used.
pub(super) async fn check() -> Result<(), Failure> {
    call("sbatch", &["--version"]).await.map(drop).map_err(|error| absent("sbatch", &error))
}

fn absent(name: &str, error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::NotFound {
        return Failure::new(Exit::Preflight, format!("there is no `{name}` on the PATH"))
            .cure("run it where jobs are submitted, on a login node of the cluster (some need `module load slurm`), or without `--submit`");
    }
    Failure::new(Exit::Preflight, format!("`{name}` cannot be used: {error}"))
        .cure("see whether `sinfo` works; the same command continues where this one stopped")
}

async fn call<W: AsRef<OsStr>>(name: &str, words: &[W]) -> io::Result<Output> {
    let mut command = Command::new(name);
    command.args(words).stdin(Stdio::null()).kill_on_drop(true);
    for variable in std::env::vars_os().map(|(variable, _)| variable) {
        if is_withheld(&variable.to_string_lossy()) {
            command.env_remove(&variable);
        }
    }
    match timeout(PATIENCE, command.output()).await {
        Ok(output) => output,
        Err(_) => Err(io::Error::other(format!("it has not come back within {} s", PATIENCE.as_secs()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_read_by_the_names_of_jobs() {
        let text = "17|bakeoff-ab|PENDING|Resources|\n18|bakeoff-cd|RUNNING|None|n[1-2]\nodd line\n";
        let found = read_standings(text);
        let words: Vec<String> = found.values().map(QueuedJob::words).collect();
        assert_eq!(words, ["job 17 is pending (Resources)", "job 18 is running on n[1-2]"]);
        assert_eq!(found["bakeoff-ab"].number, "17");
        let held = &read_standings("19|bakeoff-ef|PENDING|PartitionTimeLimit|\n")["bakeoff-ef"];
        assert!(held.words().contains("will not begin (PartitionTimeLimit): cancel it with `scancel 19`"));
    }

    #[test]
    fn variables_decide_nothing_about_a_job() {
        let withheld = ["SLURM_JOB_ID", "SBATCH_PARTITION", "SQUEUE_STATES"].map(is_withheld);
        assert_eq!((withheld, is_withheld("SLURM_CONF"), is_withheld("PATH")), ([true; 3], false, false));
    }

    #[test]
    fn the_end_of_a_job_is_read_from_one_line() {
        let end =
            read_end("JobId=17 JobName=bakeoff-ab JobState=CANCELLED Reason=None ExitCode=0:15 NodeList=n1");
        let wanted = JobEnd { state: "CANCELLED".into(), exit: "0:15".into(), reason: "None".into() };
        assert_eq!(end, wanted);
        assert!(
            end.is_final() && !read_end("JobId=1 JobState=COMPLETING Reason=None ExitCode=0:0").is_final()
        );
        assert_eq!(read_end("slurm_load_jobs error: Invalid job id specified"), JobEnd::default());
    }
}
