//! `bakeoff report`: the page of a sweep, from what is in the store.

use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::paint::{STRONG, paint};
use crate::page;
use clap::{Args, ValueHint};
use reports::Options;
use std::path::PathBuf;
use store::{Selection, Store, StoreError};

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff report -o page.html                     the newest sweep
  bakeoff report last -o page.html --open
  bakeoff report \"last and workers=4\" -o page.html
  bakeoff report last -o page.html --baseline d-sync

The page is one file that needs no network. CSV files of more than 512 KiB
together lie in a folder beside it (page-data for page.html). The same runs give
the same bytes.";

/// Arguments of `report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Which runs of one sweep.
    #[arg(value_name = "EXPR", default_value = "last")]
    selection: String,
    /// File of the page.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: PathBuf,
    /// Compare with this arm, in place of the recipe's baseline.
    #[arg(long, value_name = "ARM")]
    baseline: Option<String>,
    /// Make the page even if it has more than 20 MiB.
    #[arg(long)]
    allow_large: bool,
    /// Open the page in a browser.
    #[arg(long)]
    open: bool,
}

/// Makes a page.
pub(crate) fn execute(args: &ReportArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let selection = Selection::parse(&args.selection)?;
    super::wait(async {
        let store = Store::open_existing(&context.global.store).await?;
        let rows = store.sweep_rows(&selection).await?;
        if rows.runs.is_empty() {
            return Err(StoreError::Empty { selection: args.selection.clone() }.into());
        }
        let options = options(args);
        let content = page::Content { rows: &rows, selection: &selection, options: &options };
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
