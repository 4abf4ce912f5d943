//! `cargo xtask`: the project's chores, one command each.
//!
//! A fresh clone builds it first, so it has few dependencies and never libtorch: bringing libtorch
//! is one of its chores.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "talking to the person at the terminal is this program's work"
)]

mod axe;
mod bench;
mod checksum;
mod child;
mod demo;
mod faults;
mod fuzz;
mod gate;
mod libtorch;
mod stage;
mod tools;
mod workspace;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::stage::Stages;
use crate::workspace::Workspace;

const USAGE: &str = "\
The chores of this project.

Usage: cargo xtask <COMMAND>

Commands:
  setup                       bring libtorch 2.11.0 (CPU) into ./libtorch, unless LIBTORCH names one
  demo                        set up, build in release, run recipes/quickstart.toml, write quickstart.html
  test [--quick] [--keep-going]
                              set up, then all that CI checks: format, clippy, docs, tests
      --quick                 leave out the documentation and the end-to-end tests, and say so
      --keep-going            go on after a check that fails
  bench [all-reduce|training|layers|models]
                              build in release, then measure beside Gloo, Open MPI and PyTorch
  bench training mnist-mlp    one of its models; the other is vgg-like
  bench training network      D-Sync and PyTorch between network namespaces at 1 Gbit/s (needs root, ip and tc)
  bench learning              the loss that gpt reaches in 1,500 steps, here and in PyTorch
  bench large                 every all-reduce with 40 million weights, 2 and 4 processes (4 GB of memory)
  bench network               the emulated network beside the kernel's (needs root, ip and tc)
  bench store                 the commands that read stores of 10,000 runs, and the disk that runs take
  faults [--count N] [--seed N] [--first N]
                              let N real runs go wrong, drawn by the seed, and print what became of them
  kills [--count N] [--seed N]
                              kill the driver of small sweeps N times, and compare their numbers with one undisturbed
  fuzz TARGET [--minutes N]   throw changed inputs at recipe, frame, control, idx or cifar (needs nightly, cargo-fuzz)
  help                        this text

Environment:
  LIBTORCH                    a libtorch 2.11.0 of your own, used instead of ./libtorch
  BAKEOFF_CHROMIUM            the browser for the tests that open a page (else: looked for in PATH)
  BAKEOFF_AXE                 the file of axe-core for the tests that look for barriers (else: out of a Python package)
  BAKEOFF_DATA                a folder with mnist/, cifar-10/, cifar-100/ for the tests on real data
  BAKEOFF_REQUIRE_ALL=1       a missing tool is an error, not a test left out (CI sets it)
";

/// The command line, parsed.
#[derive(Debug, PartialEq, Eq)]
enum Chore {
    Setup,
    Demo,
    Test(gate::Options),
    Bench(bench::Subject),
    /// The program that plays the faults, and its arguments.
    Faults {
        player: String,
        words: Vec<String>,
    },
    Fuzz(fuzz::Options),
    Help,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match parse(&arguments).and_then(perform) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Result<Chore> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] | ["help" | "--help" | "-h", ..] => Ok(Chore::Help),
        ["setup"] => Ok(Chore::Setup),
        ["demo"] => Ok(Chore::Demo),
        ["test", rest @ ..] => Ok(Chore::Test(gate::Options::parse(rest)?)),
        ["bench", rest @ ..] => Ok(Chore::Bench(bench::Subject::parse(rest)?)),
        [player @ ("faults" | "kills"), rest @ ..] => {
            let words = rest.iter().map(ToString::to_string).collect();
            Ok(Chore::Faults { player: (*player).to_owned(), words })
        }
        ["fuzz", rest @ ..] => Ok(Chore::Fuzz(fuzz::Options::parse(rest)?)),
        ["setup" | "demo", extra, ..] => bail!("`{extra}` is not expected here; see `cargo xtask help`"),
        [other, ..] => bail!("there is no `{other}`; `cargo xtask help` lists what there is"),
    }
}

fn perform(chore: Chore) -> Result<ExitCode> {
    match chore {
        Chore::Help => {
            print!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        Chore::Setup => {
            libtorch::ensure(&Workspace::find()?)?;
            Ok(ExitCode::SUCCESS)
        }
        Chore::Demo => demo::run(&Workspace::find()?, &mut Stages::default()),
        Chore::Bench(subject) => bench::run(&Workspace::find()?, subject),
        Chore::Faults { player, words } => faults::run(&Workspace::find()?, &player, &words),
        Chore::Fuzz(options) => fuzz::run(&Workspace::find()?, &options).map(|()| ExitCode::SUCCESS),
        Chore::Test(options) => gate::run(&Workspace::find()?, options),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chore(line: &str) -> Result<Chore> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words)
    }

    #[test]
    fn command_lines() {
        let plain = gate::Options { quick: false, keep_going: false };
        for (line, expected) in [
            ("", Chore::Help),
            ("--help", Chore::Help),
            ("setup", Chore::Setup),
            ("bench network", Chore::Bench(bench::Subject::Network)),
            ("bench large", Chore::Bench(bench::Subject::Large)),
            ("bench learning", Chore::Bench(bench::Subject::Learning)),
            ("bench store", Chore::Bench(bench::Subject::Store)),
            ("demo", Chore::Demo),
            ("test", Chore::Test(plain)),
            ("bench", Chore::Bench(bench::Subject::All)),
            ("bench training", Chore::Bench(bench::Subject::Training)),
            ("bench training network", Chore::Bench(bench::Subject::TrainingOverNetwork)),
            ("bench training vgg-like", Chore::Bench(bench::Subject::TrainingOf("vgg-like"))),
            ("bench models", Chore::Bench(bench::Subject::Models)),
            ("bench layers", Chore::Bench(bench::Subject::Layers)),
            ("test --quick", Chore::Test(gate::Options { quick: true, ..plain })),
            ("test --keep-going --quick", Chore::Test(gate::Options { quick: true, keep_going: true })),
        ] {
            assert_eq!(chore(line).expect(line), expected, "{line}");
        }
    }

    #[test]
    fn unknown_words_are_refused_by_name() {
        let wrong = [
            ("tset", "tset"),
            ("setup now", "now"),
            ("test --fast", "--fast"),
            ("bench mark", "mark"),
            ("bench models --fast", "--fast"),
            ("bench models network", "network"),
            ("bench training network --fast", "--fast"),
            ("bench training lenet", "lenet"),
            ("bench training vgg-like network", "network"),
            ("fuzz everything", "everything"),
            ("fuzz idx --minutes x", "x"),
            ("fuzz", "frame"),
        ];
        for (line, word) in wrong {
            let error = chore(line).expect_err(line).to_string();
            assert!(error.contains(word), "{line}: {error}");
        }
    }
}
