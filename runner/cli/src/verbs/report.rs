//! `bakeoff report`: the page of a sweep, from the store.

use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::paint::{STRONG, paint};
use crate::page;
use crate::selected;
use clap::{Args, ValueHint};
use reports::Options;
use std::path::PathBuf;
use store::Store;

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff report -o page.html                     the newest sweep
  bakeoff report last -o page.html --open
  bakeoff report \"last and workers=4\" -o page.html
  bakeoff report last -o page.html --baseline d-sync
  bakeoff report last~2 last~1 last -o page.html  three sweeps on one page
  bakeoff report tag=weekly --every-sweep -o page.html

Of several sweeps with the same arms, each is a condition of its own, and the
page says how each arm changed from one to the next; sweeps of different arms
stand side by side. A tag that only one of them has is its name on the page.

The page is one file that needs no network. CSV files of more than 512 KiB
together lie in a folder beside it (page-data for page.html). The same runs give
the same bytes.";

/// Arguments of `report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Which runs of one sweep; several for a page of several sweeps.
    #[arg(value_name = "SELECTION", default_value = "last")]
    selections: Vec<String>,
    /// File of the page.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: PathBuf,
    /// Compare with this arm, in place of the recipe's baseline.
    #[arg(long, value_name = "ARM")]
    baseline: Option<String>,
    /// Show every sweep that SELECTION fits, in place of the newest one.
    #[arg(long)]
    every_sweep: bool,
    /// Make the page even if it has more than 20 MiB.
    #[arg(long)]
    allow_large: bool,
    /// Open the page in a browser.
    #[arg(long)]
    open: bool,
}

/// Writes the page of the selected sweeps, and opens it on request.
pub(crate) fn execute(args: &ReportArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    super::wait(async {
        let store = Store::open_existing(&context.global.store).await?;
        let shown = selected::shown(&store, &args.selections, args.every_sweep).await?;
        let options = Options { changes: shown.changes, remarks: shown.remarks, ..options(args) };
        let content = page::Content { rows: &shown.rows, selection: &shown.selection, options: &options };
        page::write(&store, &content, &args.output, context.console).await?;
        store.close().await;
        Ok(())
    })?;
    output::data(&format!("{} {}", paint(STRONG, "report:"), args.output.display()))?;
    if args.open {
        page::open(&args.output, context.console);
    }
    Ok(Exit::Done)
}

fn options(args: &ReportArgs) -> Options {
    Options { baseline: args.baseline.clone(), allow_large: args.allow_large, ..page::options() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ReportArgs,
    }

    #[test]
    fn pages_of_any_size_are_made_if_that_is_asked_for() {
        let read = |words: &[&str]| {
            options(&Line::parse_from([&["report", "-o", "page.html"], words].concat()).args)
        };
        assert!(!read(&[]).allow_large);
        assert!(read(&["--allow-large"]).allow_large);
        assert_eq!(read(&["--baseline", "d-sync"]).baseline.as_deref(), Some("d-sync"));
    }
}
