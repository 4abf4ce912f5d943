//! `bakeoff db`: shows, checks and rebuilds the store's database.

use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::paint::{GOOD, paint};
use crate::output::table::Sheet;
use crate::output::{self, human};
use clap::{Args, Subcommand};
use std::fmt::Write;
use std::time::{Duration, Instant};
use store::{Rebuilding, Store};

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff db info      where it is, how large, what is in it
  bakeoff db check     looks for damage; exit code 7 if there is any
  bakeoff db rebuild   makes it again from the runs' own directories; the old
                       one is kept as .bakeoff/bakeoff-before-rebuild-1.db

It is plain SQLite, with views for people:
  sqlite3 .bakeoff/bakeoff.db 'SELECT arm, training_s FROM runs_flat'";

/// Arguments of `db`.
#[derive(Debug, Args)]
pub(crate) struct DbArgs {
    #[command(subcommand)]
    action: Action,
}

/// The action.
#[derive(Clone, Copy, Debug, Subcommand)]
enum Action {
    /// Show its path, size and contents.
    Info,
    /// Check all of it for damage.
    Check,
    /// Rebuild it from the runs' own directories; the old one is kept.
    Rebuild {
        /// Also if the old database has sweeps that are recorded only there.
        #[arg(long)]
        force: bool,
    },
}

/// Carries out the action.
pub(crate) fn execute(args: &DbArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    super::wait(async {
        if let Action::Rebuild { force } = args.action {
            return rebuild(force, context).await;
        }
        let store = Store::open_existing(&context.global.store).await?;
        let exit = match args.action {
            Action::Info => info(&store).await,
            Action::Check | Action::Rebuild { .. } => check(&store, context).await,
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
    context.console.error(
        &format!("the database has {}", human::count(problems.len(), "problem")),
        "`bakeoff db rebuild` makes it again from the runs' own directories; the old one is kept",
    );
    Ok(Exit::Store)
}

/// Between two words about how far it has come.
const PACE: Duration = Duration::from_secs(1);

async fn rebuild(force: bool, context: &Context<'_>) -> Result<Exit, Failure> {
    let folder = &context.global.store;
    let mut told = Instant::now();
    let progress = |step: Rebuilding| {
        if told.elapsed() >= PACE {
            told = Instant::now();
            context.console.say(&how_far(step));
        }
    };
    let rebuilt = store::rebuild(folder, force, progress).await?;
    // Closes the books of drivers that were killed, as every driver does.
    let store = Store::open(folder).await?;
    let problems = store.db_check().await?;
    store.close().await;
    for unread in &rebuilt.unread {
        context.console.warn(&format!("{}: {}", unread.path.display(), unread.reason), "");
    }
    output::data(&format!(
        "{}: {}, {}, {}",
        folder.join(store::DATABASE).display(),
        human::count(rebuilt.sweeps, "sweep"),
        human::count(rebuilt.attempts, "attempt"),
        human::count(usize::try_from(rebuilt.events).unwrap_or(usize::MAX), "event"),
    ))?;
    if let Some(backup) = &rebuilt.backup {
        output::data(&format!("the old one is kept as {}", backup.display()))?;
    }
    match (rebuilt.unread.len(), problems.first()) {
        (0, None) => Ok(Exit::Done),
        (_, Some(problem)) => {
            Err(Failure::new(Exit::Internal, format!("the new database: {}", problem.text)))
        }
        (unread, None) => {
            let what =
                format!("{} could not be read; everything else is there", human::count(unread, "thing"));
            Err(Failure::new(Exit::Store, what)
                .cure("restore the files that are named above, and rebuild again; or run the recipes again"))
        }
    }
}

fn how_far(step: Rebuilding) -> String {
    let sweeps = step.sweeps;
    let bytes = step.bytes;
    format!(
        "rebuilding: {} of {}, {} of {}",
        sweeps.0,
        human::count(sweeps.1, "sweep"),
        human::bytes(bytes.0),
        human::bytes(bytes.1)
    )
}
