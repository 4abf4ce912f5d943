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

Fields: strategy, arm, recipe, condition, state, seed, workers, repeat, and
every axis by its path.";

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

/// Only columns that tell something.
fn sheet(lines: &[RunLine]) -> Sheet {
    let several = lines.iter().any(|line| line.recipe != lines[0].recipe);
    let now = human::now();
    let columns: [Column; 9] = [
        ("run", true, |line, _| short(&line.id).into()),
        ("recipe", several, |line, _| (&line.recipe).into()),
        ("arm", true, |line, _| (&line.arm).into()),
        ("condition", lines.iter().any(|line| !line.condition.is_empty()), |line, _| {
            (&line.condition).into()
        }),
        ("repeat", lines.iter().any(|line| line.repeat > 0), |line, _| (line.repeat + 1).to_string().into()),
        ("state", true, |line, _| Cell::styled(state_style(line.state), line.state.name())),
        ("training", lines.iter().any(|line| line.training.is_some()), |line, _| {
            line.training.map_or_else(String::new, human::time).into()
        }),
        ("metric", lines.iter().any(|line| line.metric.is_some()), |line, _| {
            line.metric.map_or_else(String::new, |(metric, value)| human::metric(metric, value)).into()
        }),
        ("started", true, |line, now| {
            Cell::styled(FAINT, line.started.map_or_else(String::new, |began| human::ago(began, now)))
        }),
    ];
    let shown: Vec<&Column> = columns.iter().filter(|(_, shown, _)| *shown).collect();
    let head: Vec<&str> = shown.iter().map(|(name, ..)| *name).collect();
    let places =
        |names: &[&str]| (0..head.len()).filter(|place| names.contains(&head[*place])).collect::<Vec<_>>();
    let right = places(&["repeat", "training", "metric"]);
    let whole = places(&["run", "repeat", "state", "training", "metric", "started"]);
    let mut sheet = Sheet::new(&head).right(&right).whole(&whole);
    for line in lines {
        sheet.row(shown.iter().map(|(.., cell)| cell(line, now)).collect());
    }
    sheet
}

/// A column: its name, whether it is shown, and its cell for a run, given the current moment.
type Column = (&'static str, bool, fn(&RunLine, i64) -> Cell);
