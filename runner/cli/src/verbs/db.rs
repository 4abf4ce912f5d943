//! `bakeoff db`: what is in the store's database, and whether it is sound.

use super::Context;
use crate::exit::{Exit, Failure};
use crate::output::paint::{GOOD, paint};
use crate::output::table::Sheet;
use crate::output::{self, human};
use clap::{Args, Subcommand};
use std::fmt::Write;
use store::Store;

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff db info      where it is, how large, what is in it
  bakeoff db check     looks for damage; exit code 7 if there is any

It is plain SQLite, with views for people:
  sqlite3 .bakeoff/bakeoff.db 'SELECT arm, training_s FROM runs_flat'";

/// Arguments of `db`.
#[derive(Debug, Args)]
pub(crate) struct DbArgs {
    #[command(subcommand)]
    action: Action,
}

/// What to do with the database.
#[derive(Clone, Copy, Debug, Subcommand)]
enum Action {
    /// Where it is, how large, what is in it.
    Info,
    /// Read all of it and look for damage.
    Check,
}

/// Looks after the database.
pub(crate) fn execute(args: &DbArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    super::wait(async {
        let store = Store::open_existing(&context.global.store).await?;
        let exit = match args.action {
            Action::Info => info(&store).await,
            Action::Check => check(&store, context).await,
        };
        store.close().await;
        exit
    })
}

async fn info(store: &Store) -> Result<Exit, Failure> {
    let info = store.db_info().await?;
    let mut out = String::new();
    let _ = writeln!(out, "{}", info.path.display());
    let _ = writeln!(out, "{}, schema version {}\n", human::bytes(info.bytes), info.version);
    let mut sheet = Sheet::new(&["table", "rows"]).right(&[1]);
    for (table, rows) in &info.counts {
        sheet.row(vec![table.as_str().into(), human::thousands(*rows).into()]);
    }
    out.push_str(&sheet.render(output::width()));
    output::data(&out)?;
    Ok(Exit::Done)
}

async fn check(store: &Store, context: &Context<'_>) -> Result<Exit, Failure> {
    let problems = store.db_check().await?;
    if problems.is_empty() {
        output::data(&format!("{}  {}", paint(GOOD, "ok"), store.folder().join(store::DATABASE).display()))?;
        return Ok(Exit::Done);
    }
    for problem in &problems {
        output::data(&format!("{}: {}", problem.check, problem.text))?;
    }
    context.talk.error(
        &format!("the database has {}", human::count(problems.len(), "problem")),
        "move it away and start afresh, or restore a copy; the runs' own folders are not touched",
    );
    Ok(Exit::Store)
}
