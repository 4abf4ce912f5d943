//! `bakeoff logs`: the standard error of a run's processes.

use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::paint::{FAINT, paint};
use crate::reuse::short;
use clap::Args;
use launch::{Member, log_file, readable};
use record::Rank;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;
use store::{RunDetail, RunState, Store};

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff logs 4F7K2Q9M           every process of the run's last attempt
  bakeoff logs 4F7K2Q9M -w 2      rank 2
  bakeoff logs 4F7K2Q9M -f        show new lines too, until the run ends";

/// Arguments of `logs`.
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// The run: the beginning or the end of its id.
    run: String,
    /// Only this rank.
    #[arg(short = 'w', long = "worker", value_name = "RANK")]
    rank: Option<u32>,
    /// Follow the logs until the run ends.
    #[arg(short, long)]
    follow: bool,
}

/// How often a growing log is looked at.
const GLANCE: Duration = Duration::from_millis(250);

/// Prints the logs; with `--follow`, new lines too until the run ends.
pub(crate) fn execute(args: &LogsArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    super::wait(async {
        let store = Store::open_existing(&context.global.store).await?;
        let detail = store.show(&args.run).await?;
        let mut logs = logs(args, &detail)?;
        let told = read_on(&mut logs)?;
        if args.follow {
            follow(&store, &detail.line.id, &mut logs).await?;
        } else if !told {
            context.console.say("the processes of this run logged nothing");
        }
        store.close().await;
        Ok(Exit::Done)
    })
}

/// The log of one process, as far as it was shown.
struct Log {
    member: Member,
    path: PathBuf,
    shown: u64,
}

fn logs(args: &LogsArgs, detail: &RunDetail) -> Result<Vec<Log>, Failure> {
    let id = short(&detail.line.id);
    let Some(attempt) = detail.attempts.last() else {
        return Err(Failure::new(Exit::Empty, format!("run {id} was never begun, so it has no logs")));
    };
    let ranks = detail.line.spec.cluster.ranks();
    let members: Vec<Member> = match args.rank {
        Some(rank) if rank >= ranks => {
            let what = format!("run {id} has no rank {rank}; its ranks are 0 to {}", ranks.saturating_sub(1));
            return Err(Failure::new(Exit::Usage, what));
        }
        Some(rank) => vec![Member::Rank(Rank(rank))],
        None => (0..ranks).map(|rank| Member::Rank(Rank(rank))).chain([Member::Evaluator]).collect(),
    };
    let log = |member| Log { member, path: log_file(&attempt.directory, member), shown: 0 };
    Ok(members.into_iter().map(log).collect())
}

/// Shows the lines that were added to the logs; returns whether there were any.
fn read_on(logs: &mut [Log]) -> Result<bool, Failure> {
    let several = logs.len() > 1;
    let mut told = false;
    for log in logs {
        for line in log.new_lines() {
            let who = if several {
                format!("{} ", paint(FAINT, format!("{}:", log.member)))
            } else {
                String::new()
            };
            output::data(&format!("{who}{line}"))?;
            told = true;
        }
    }
    Ok(told)
}

impl Log {
    /// The whole lines that were added, fit for a terminal. A log that is not there yet has none.
    fn new_lines(&mut self) -> Vec<String> {
        let read = || -> std::io::Result<Vec<u8>> {
            let mut file = File::open(&self.path)?;
            file.seek(SeekFrom::Start(self.shown))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let bytes = read().unwrap_or_default();
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        self.shown += whole as u64;
        let text = String::from_utf8_lossy(&bytes[..whole]);
        text.lines().filter(|line| !line.trim().is_empty()).map(readable).collect()
    }
}

/// Follows the logs until the run ends.
async fn follow(store: &Store, run: &str, logs: &mut [Log]) -> Result<(), Failure> {
    loop {
        let over = store.show(run).await?.line.state != RunState::Running;
        read_on(logs)?;
        if over {
            return Ok(());
        }
        tokio::time::sleep(GLANCE).await;
    }
}
