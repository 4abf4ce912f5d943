//! `bakeoff note`: what a user says of a sweep.

use super::tag::writable;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::{self, human};
use clap::Args;
use store::{FittingSweep, Selection, SweepNote};

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff note last \"after the fix of the scheduler; fan was loud\"
  bakeoff note 4F7K2Q9M \"the numbers of table 2\"
  bakeoff note last \"\"       removes the note
  bakeoff show last          shows it

A note belongs to a whole sweep. Its page and its published card show it, with
the names of hosts, users and paths left out where `--redact` or the recipe's
`report.redact` asks for that; bundles and rebuilds keep it.";

/// Arguments of `note`.
#[derive(Debug, Args)]
pub(crate) struct NoteArgs {
    /// Which sweeps: those of which a run fits, in the words of `bakeoff list`.
    #[arg(value_name = "SELECTION")]
    selection: String,
    /// One paragraph, in place of what was said before; empty to remove it.
    #[arg(value_name = "TEXT")]
    text: String,
}

/// Gives the note to each sweep that fits, in place of its former one.
pub(crate) fn execute(args: &NoteArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let selection = Selection::parse(&args.selection)?;
    let note = SweepNote::parse(&args.text)?;
    super::wait(async {
        let (store, sweeps) = writable(&selection, context).await?;
        for found in &sweeps {
            store.record_sweep_note(&found.sweep, &note, human::now()).await?;
            output::data(&words(found, &note))?;
        }
        store.close().await;
        Ok(Exit::Done)
    })
}

fn words(found: &FittingSweep, note: &SweepNote) -> String {
    let head = format!("sweep {} of {}", found.sweep, found.recipe);
    match (note.as_str(), found.annotations.note.as_str()) {
        ("", "") => format!("{head} has no note"),
        ("", former) => format!("{head} lost its note: {former}"),
        (note, former) if note == former => format!("{head} has this note already"),
        (note, "") => format!("{head}: {note}"),
        (note, former) => format!("{head}: {note}\n  in place of: {former}"),
    }
}
