//! `bakeoff list`: the runs that fit a selection.

use super::Context;
use crate::exit::{Exit, Failure};
use crate::output::paint::{FAINT, state_style};
use crate::output::table::{Cell, Sheet};
use crate::output::{self, human};
use crate::reuse::short;
use clap::{Args, ValueEnum};
use store::{RunLine, Selection, Store, StoreError};

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff list                                        every run
  bakeoff list last                                   the newest sweep
  bakeoff list \"strategy=d-sync and workers>=4\"
  bakeoff list \"last and not state=done\"
  bakeoff list \"train.optimizer.lr=0.1 or recipe=quickstart\"

Fields: strategy, arm, recipe, condition, state, seed, workers, repeat, and every axis by its path.";

/// Arguments of `list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Which runs; all where nothing is said.
    #[arg(value_name = "EXPR", default_value = "")]
    selection: String,
    /// A table for people, or JSON for programs.
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,
}

/// How the list is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// One JSON document.
    Json,
}

/// Lists runs.
pub(crate) fn execute(args: &ListArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let selection = Selection::parse(&args.selection)?;
    let lines = super::wait(async {
        let store = Store::open_existing(&context.global.store).await?;
        let lines = store.list(&selection).await?;
        store.close().await;
        Ok(lines)
    })?;
    if lines.is_empty() && !args.selection.is_empty() {
        return Err(StoreError::Empty { selection: args.selection.clone() }.into());
    }
    match args.format {
        Format::Table => output::data(&sheet(&lines).render(output::width()))?,
        Format::Json => output::json(&lines)?,
    }
    Ok(Exit::Done)
}

fn sheet(lines: &[RunLine]) -> Sheet {
    let conditions = lines.iter().any(|line| !line.condition.is_empty());
    let mut head = vec!["run", "recipe", "arm"];
    if conditions {
        head.push("condition");
    }
    let numbers = head.len();
    head.extend(["repeat", "state", "training", "metric", "started"]);
    let right = [numbers, numbers + 2, numbers + 3];
    let mut sheet = Sheet::new(&head).right(&right).whole(&[0, numbers + 1]);
    for line in lines {
        let mut row = vec![Cell::from(short(&line.id)), (&line.recipe).into(), (&line.arm).into()];
        if conditions {
            row.push((&line.condition).into());
        }
        row.push((line.repeat + 1).to_string().into());
        row.push(Cell::styled(state_style(line.state), line.state.name()));
        row.push(line.training.map_or_else(String::new, human::time).into());
        row.push(line.metric.map_or_else(String::new, |(metric, value)| human::metric(metric, value)).into());
        row.push(Cell::styled(FAINT, line.started.map_or_else(String::new, human::moment)));
        sheet.row(row);
    }
    sheet
}
