//! `bakeoff db`: shows, checks and rebuilds the store's database.

use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::paint::{GOOD, paint};
use crate::output::table::Sheet;
use crate::output::{self, human};
use clap::{Args, Subcommand};
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};
use store::{Prunable, PrunedSweep, Rebuilding, Selection, Store, StoreError, Surplus};

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff db info      its path, size and contents
  bakeoff db check     looks for damage; exit code 7 if there is any
  bakeoff db migrate   brings an older one up to date, as `run` does
  bakeoff db prune --older 90d --dry-run
                       what would go of runs begun 90 days ago and earlier
  bakeoff db prune \"recipe=quickstart and not last\"
                       removes these runs, with their logs and models
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
#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// Show its path, size and contents.
    Info,
    /// Check all of it for damage.
    Check,
    /// Bring it up to date with this program; a copy of the old one is kept.
    Migrate,
    /// Remove runs with their files, and sweeps that have none left; never a run under way.
    Prune(PruneArgs),
    /// Rebuild it from the runs' own directories; the old one is kept.
    Rebuild {
        /// Also if the old database has sweeps that are recorded only there.
        #[arg(long)]
        force: bool,
    },
}

/// Which runs to remove.
#[derive(Clone, Debug, Args)]
struct PruneArgs {
    /// Which runs, in the words of `bakeoff list`.
    #[arg(value_name = "SELECTION", required_unless_present = "older")]
    selection: Option<String>,
    /// Only runs begun longer ago than this: `12h`, `90d`, `8w`.
    #[arg(long, value_name = "AGE", value_parser = age)]
    older: Option<Age>,
    /// Show what would go, and remove nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Age of a run, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Age(i64);

fn age(text: &str) -> Result<Age, String> {
    let wrong = || format!("{text:?} is no age: write `12h`, `90d` or `8w`");
    let unit = text.chars().last().ok_or_else(wrong)?;
    let number = text.strip_suffix(unit).ok_or_else(wrong)?;
    let seconds = match unit {
        'h' => 3_600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        _ => return Err(wrong()),
    };
    let number: u32 = number.parse().map_err(|_| wrong())?;
    Ok(Age(i64::from(number) * seconds))
}

/// Carries out the action.
pub(crate) fn execute(args: &DbArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    super::wait(async {
        match &args.action {
            Action::Info | Action::Check => {}
            Action::Migrate => return migrate(&context.global.store).await,
            Action::Prune(surplus) => return prune(surplus, context).await,
            Action::Rebuild { force } => return rebuild(*force, context).await,
        }
        let store = Store::open_existing(&context.global.store).await?;
        let exit = if matches!(args.action, Action::Info) {
            info(&store).await
        } else {
            check(&store, context).await
        };
        store.close().await;
        exit
    })
}

/// Opens an existing store as a driver does.
pub(super) async fn open(folder: &Path) -> Result<Store, StoreError> {
    if !folder.join(store::DATABASE).exists() {
        return Err(StoreError::NoStore { folder: folder.to_owned() });
    }
    Store::open(folder).await
}

async fn prune(args: &PruneArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let folder = &context.global.store;
    let selection = Selection::parse(args.selection.as_deref().unwrap_or_default())?;
    // To look changes nothing, not even the version.
    let store = if args.dry_run { Store::open_existing(folder).await? } else { open(folder).await? };
    let before = args.older.map(|Age(seconds)| human::now() - seconds);
    let prunable = store.prunable(&Surplus { selection: &selection, before }).await?;
    for line in stays(&prunable) {
        context.console.say(&line);
    }
    if prunable.runs.is_empty() {
        store.close().await;
        output::data("nothing to remove")?;
        return Ok(Exit::Done);
    }
    for sweep in &prunable.sweeps {
        output::data(&loses(sweep))?;
    }
    let amount = format!(
        "{}: {} of files, about {} in the database",
        human::count(prunable.runs.len(), "run"),
        human::bytes(prunable.file_bytes),
        human::bytes(prunable.database_bytes)
    );
    if args.dry_run {
        store.close().await;
        output::data(&format!("would remove {amount}"))?;
        return Ok(Exit::Done);
    }
    store.prune(&prunable).await?;
    store.close().await;
    drop(store);
    output::data(&format!("removed {amount}"))?;
    match store::compact(folder).await {
        Err(StoreError::Busy { .. }) => {
            context.console.say(
                "another process has the database open: its file keeps its size, and the next runs fill it",
            );
        }
        compacted => compacted?,
    }
    Ok(Exit::Done)
}

/// Sentences about runs and sweeps that would be removed, but are under way or needed.
fn stays(prunable: &Prunable) -> Vec<String> {
    let under_way = prunable.under_way.iter().map(|sweep| format!("sweep {sweep} is under way, and stays"));
    let needed = prunable
        .needed
        .iter()
        .map(|needed| format!("run {} stays: sweep {} took its result from it", needed.run, needed.by));
    under_way.chain(needed).collect()
}

fn loses(sweep: &PrunedSweep) -> String {
    let PrunedSweep { sweep, recipe, removed, kept } = sweep;
    match kept {
        0 => format!(
            "sweep {sweep} of {recipe}: {}, which are all, and the sweep itself",
            human::count(*removed, "run")
        ),
        _ => format!(
            "sweep {sweep} of {recipe}: {removed} of {}; a report of it will lack them",
            human::count(removed + kept, "run")
        ),
    }
}

async fn migrate(folder: &Path) -> Result<Exit, Failure> {
    let store = open(folder).await?;
    let info = store.db_info().await?;
    store.close().await;
    output::data(&format!("{}: schema version {}", info.path.display(), info.version))?;
    Ok(Exit::Done)
}

async fn info(store: &Store) -> Result<Exit, Failure> {
    let info = store.db_info().await?;
    let mut out = String::new();
    let _ = writeln!(out, "{}", info.path.display());
    let unused = match info.unused {
        0 => String::new(),
        bytes => format!(", {} of it unused", human::bytes(bytes)),
    };
    let _ = writeln!(out, "{}{unused}, schema version {}\n", human::bytes(info.bytes), info.version);
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
        let info = store.db_info().await?;
        if info.version < info.known {
            let text = format!("its schema is version {} of {}", info.version, info.known);
            context
                .console
                .say(&format!("{text}: `bakeoff db migrate` brings it up to date, as `bakeoff run` does"));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_a_unit() {
        assert_eq!(["12h", "90d", "8w"].map(age), [43_200, 7_776_000, 4_838_400].map(|age| Ok(Age(age))));
        for wrong in ["", "d", "90", "-1d", "1.5d", "90 d", "4294967296d", "12dd", "ä"] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
    }
}
