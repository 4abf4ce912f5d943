//! How long the commands take that read a large store, and how much of the disk runs take.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::line::lines;
use super::machine::Machine;
use super::table::{Table, times};
use crate::child::Child;
use crate::workspace::Workspace;

/// How often each command is run.
const TURNS: usize = 3;
/// Of the store with many short runs.
const MANY: Sweep = Sweep { runs: 10_000, ranks: 2, steps: 20 };
/// Of the sweep with a large page.
const PAGE: Sweep = Sweep { runs: 350, ranks: 8, steps: 500 };
/// Of the runs whose bytes are counted: between the two, a database has grown by what it keeps of runs, and not by room that it uses again.
const LONG: [Sweep; 2] =
    [Sweep { runs: 10, ranks: 16, steps: 5_000 }, Sweep { runs: 30, ranks: 16, steps: 5_000 }];
const SPANS: &str = "1000000";

/// A sweep to enter.
#[derive(Clone, Copy)]
struct Sweep {
    runs: u32,
    ranks: u32,
    steps: u32,
}

/// Builds, enters the stores, measures, and prints.
pub(super) fn run(workspace: &Workspace) -> Result<()> {
    let build = ["build", "--release", "--locked", "--workspace", "--bin", "bakeoff", "--example", "large"];
    workspace.child("cargo").arguments(&build).run()?;
    let release = workspace.target_folder()?.join("release");
    let folder = tempfile::tempdir().context("a folder for the stores")?;
    let bench = Bench { bakeoff: release.join("bakeoff"), large: release.join("examples/large"), folder };
    println!("\n{}; medians of {TURNS} turns with their range\n", Machine::look()?);
    let mut table = Table::new("Commands on large stores", &["store", "command", "time", "written"]);
    bench.spans(&mut table)?;
    bench.many(&mut table)?;
    bench.page(&mut table)?;
    bench.long(&mut table)?;
    println!("{table}");
    Ok(())
}

struct Bench {
    bakeoff: PathBuf,
    large: PathBuf,
    folder: TempDir,
}

impl Bench {
    fn spans(&self, table: &mut Table) -> Result<()> {
        let mut taken = Vec::new();
        for turn in 1..=TURNS {
            eprintln!("store: turn {turn} of {TURNS}, spans");
            let folder = self.folder.path().join(format!("spans-{turn}"));
            let program = Child::new(&self.large.to_string_lossy()).argument(&folder);
            let output = program.arguments(&["spans", SPANS]).read()?;
            let said = lines(&output, "store");
            taken.push(said.first().and_then(|line| line.value("us")).context("it printed no time")?);
            fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        table.push(vec!["1 run".into(), format!("records {SPANS} spans"), times(&taken), String::new()]);
        Ok(())
    }

    fn many(&self, table: &mut Table) -> Result<()> {
        let store = self.enter("many", MANY)?;
        let words: [&[&str]; 5] = [
            &["list"],
            &["list", "train.lr=0.1 and seed=3"],
            &["list", "--format", "json"],
            &["status"],
            &["db", "info"],
        ];
        for words in words {
            let command = Command { store: &store, words, output: None };
            table.push(self.timed(MANY, &command)?);
        }
        let site = self.folder.path().join("site");
        let publish = Command { store: &store, words: &["publish"], output: Some(&site) };
        table.push(self.timed(MANY, &publish)?);
        Ok(())
    }

    fn page(&self, table: &mut Table) -> Result<()> {
        let store = self.enter("page", PAGE)?;
        let page = self.folder.path().join("page.html");
        let words: &[&str] = &["report", "--allow-large", "-o"];
        table.push(self.timed(PAGE, &Command { store: &store, words, output: Some(&page) })?);
        Ok(())
    }

    /// The bytes of the database and of the event logs, as for ten thousand such runs.
    fn long(&self, table: &mut Table) -> Result<()> {
        let [few, many] = LONG;
        let bytes = [("few", few), ("long", many)].map(|(name, sweep)| bytes_in(&self.enter(name, sweep)?));
        let [less, more] = bytes;
        let grown = more?.saturating_sub(less?) as f64;
        let of_run = grown / f64::from(many.runs - few.runs);
        let written = format!("{:.2} MB per run, {:.1} GB for 10,000", of_run / 1e6, of_run / 1e5);
        table.push(vec![many.title(), "is kept".into(), String::new(), written]);
        Ok(())
    }

    fn enter(&self, name: &str, sweep: Sweep) -> Result<PathBuf> {
        eprintln!("store: {} are entered", sweep.title());
        let folder = self.folder.path().join(name);
        let numbers = [sweep.runs, sweep.ranks, sweep.steps].map(|number| number.to_string());
        let program = Child::new(&self.large.to_string_lossy()).argument(&folder).argument("runs");
        numbers.iter().fold(program, Child::argument).run()?;
        Ok(folder.join(".bakeoff"))
    }

    /// The row of a command.
    fn timed(&self, sweep: Sweep, command: &Command<'_>) -> Result<Vec<String>> {
        let Command { store, words, output } = command;
        let name = words.join(" ");
        let mut taken = Vec::new();
        let mut said = 0;
        for turn in 1..=TURNS {
            eprintln!("store: turn {turn} of {TURNS}, {name}");
            let program = Child::new(&self.bakeoff.to_string_lossy()).argument("--store").argument(store);
            let child = output.iter().fold(program.arguments(words), Child::argument);
            let begin = Instant::now();
            said = child.read()?.len() as u64;
            taken.push(begin.elapsed().as_secs_f64() * 1e6);
        }
        let bytes = output.map_or(Ok(said), bytes_in)?;
        let written = format!("{:.2} MB", bytes as f64 / 1e6);
        Ok(vec![sweep.title(), name, times(&taken), written])
    }
}

/// A command of `bakeoff`.
struct Command<'a> {
    store: &'a Path,
    words: &'a [&'a str],
    /// The file or folder that it writes, its last argument.
    output: Option<&'a Path>,
}

impl Sweep {
    fn title(self) -> String {
        format!("{} runs x {} ranks x {} steps", self.runs, self.ranks, self.steps)
    }
}

/// The length of a file, or of all files in a folder.
fn bytes_in(path: &Path) -> Result<u64> {
    let about = || format!("cannot look at {}", path.display());
    let metadata = fs::symlink_metadata(path).with_context(about)?;
    if !metadata.is_dir() {
        return Ok(metadata.len());
    }
    let entries = fs::read_dir(path).with_context(about)?;
    entries.map(|entry| bytes_in(&entry.with_context(about)?.path())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_as_long_as_all_its_files() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("inner")).expect("a folder in it");
        fs::write(folder.path().join("one"), [0; 5]).expect("a file");
        fs::write(folder.path().join("inner/two"), [0; 7]).expect("a file");
        assert_eq!(bytes_in(folder.path()).expect("a folder"), 12);
        assert_eq!(bytes_in(&folder.path().join("one")).expect("a file"), 5);
        assert!(bytes_in(&folder.path().join("none")).is_err());
    }
}
