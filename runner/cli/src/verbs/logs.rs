//! `bakeoff logs`: what the processes of a run wrote to their standard error.

use super::Context;
use crate::exit::{Exit, Failure};
use crate::output::paint::{FAINT, paint};
use crate::output;
use crate::reuse::short;
use clap::Args;
use launch::{last_lines, log_file};
use mesh::Member;
use record::Rank;
use std::path::PathBuf;
use std::time::Duration;
use store::{RunDetail, RunState, Store};

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff logs 4F7K2Q9M           every process of the run's last attempt
  bakeoff logs 4F7K2Q9M -w 2      rank 2
  bakeoff logs 4F7K2Q9M -f        go on showing what is added, until the run ends";

/// Arguments of `logs`.
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// The run: the beginning or the end of its id.
    run: String,
    /// Only this rank.
    #[arg(short = 'w', long = "worker", value_name = "RANK")]
    rank: Option<u32>,
    /// Go on showing what is added, until the run ends.
    #[arg(short, long)]
    follow: bool,
}

/// How often a growing log is looked at.
const GLANCE: Duration = Duration::from_millis(250);

/// Shows logs.
pub(crate) fn execute(args: &LogsArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    super::wait(async {
        let store = Store::open_existing(&context.global.store).await?;
        let detail = store.show(&args.run).await?;
        let mut logs = logs(args, &detail)?;
        let told = read_on(&mut logs)?;
        if args.follow {
            follow(&store, &detail.line.id, &mut logs).await?;
        } else if !told {
            context.talk.say("the processes of this run logged nothing");
        }
        store.close().await;
        Ok(Exit::Done)
    })
}
