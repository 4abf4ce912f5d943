//! `cargo xtask test`: everything that CI checks, as one command.
//!
//! The tests come last, so that their report is at the end of a log.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::axe;
use crate::child::Child;
use crate::libtorch;
use crate::stage::Stages;
use crate::tools;
use crate::workspace::Workspace;

/// The options of `cargo xtask test`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Skip the slowest stages, and report that.
    pub(crate) quick: bool,
    /// Go on after a check that fails.
    pub(crate) keep_going: bool,
}

impl Options {
    /// Reads the words after `test`.
    pub(crate) fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self { quick: false, keep_going: false };
        for word in words {
            match *word {
                "--quick" => options.quick = true,
                "--keep-going" => options.keep_going = true,
                other => bail!("`test` does not know `{other}`; see `cargo xtask help`"),
            }
        }
        Ok(options)
    }
}

/// One thing that must pass: a Cargo command line, as its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Check {
    name: &'static str,
    words: &'static [&'static str],
}

const FORMAT: Check = Check { name: "format", words: &["fmt", "--all", "--check"] };
const CLIPPY: Check = Check {
    name: "clippy",
    words: &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"],
};
const DOCS: Check =
    Check { name: "documentation", words: &["doc", "--workspace", "--no-deps", "--locked", "--quiet"] };
/// End-to-end tests start the programs themselves; Cargo builds a program for the tests of its own package only. Together with the tests, because by
/// themselves programs have dependencies with fewer features, and Cargo would compile those and what uses them twice.
const PROGRAMS: Check = Check {
    name: "programs and tests",
    words: &["build", "--workspace", "--lib", "--bins", "--examples", "--tests", "--locked"],
};
const NEXTEST: Check = Check { name: "tests", words: &["nextest", "run", "--workspace", "--locked"] };
const NEXTEST_QUICK: Check = Check {
    name: "tests but end-to-end",
    words: &["nextest", "run", "--workspace", "--locked", "--exclude", "e2e"],
};
/// nextest leaves the examples in documentation to Cargo.
const EXAMPLES: Check = Check {
    name: "examples in documentation",
    words: &["test", "--doc", "--workspace", "--locked", "--quiet"],
};
const CARGO_TEST: Check =
    Check { name: "tests", words: &["test", "--workspace", "--locked", "--no-fail-fast"] };
const CARGO_TEST_QUICK: Check = Check {
    name: "tests but end-to-end",
    words: &["test", "--workspace", "--locked", "--no-fail-fast", "--exclude", "e2e"],
};

/// The checks in their order: cheap ones first, the tests last.
fn checks(options: Options, has_nextest: bool) -> Vec<Check> {
    let mut checks = vec![FORMAT, CLIPPY];
    if !options.quick {
        checks.push(DOCS);
    }
    checks.push(PROGRAMS);
    checks.extend(match (has_nextest, options.quick) {
        (true, false) => vec![EXAMPLES, NEXTEST],
        (true, true) => vec![EXAMPLES, NEXTEST_QUICK],
        (false, false) => vec![CARGO_TEST],
        (false, true) => vec![CARGO_TEST_QUICK],
    });
    checks
}

/// Runs all checks and prints what passed, what failed, and what did not run.
pub(crate) fn run(workspace: &Workspace, options: Options) -> Result<ExitCode> {
    if options.quick && tools::all_required() {
        bail!("--quick leaves checks out, and BAKEOFF_REQUIRE_ALL=1 forbids that");
    }
    let mut stages = Stages::default();
    let ended = perform(workspace, options, &mut stages);
    println!("\n{}", stages.summary());
    ended?;
    Ok(if stages.all_passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn perform(workspace: &Workspace, options: Options, stages: &mut Stages) -> Result<()> {
    stages.perform("libtorch", || libtorch::ensure(workspace))?;
    let tools = stages.perform("tools", || tools(workspace))?;
    for what in left_out(options, &tools, std::env::var_os("BAKEOFF_DATA").is_some()) {
        stages.leave_out(what);
    }
    let checks = checks(options, tools::has_nextest());
    for (index, check) in checks.iter().enumerate() {
        let child = child(workspace, check, &tools);
        let result = stages.perform(check.name, || {
            println!("$ {}", child.name());
            child.run()
        });
        match result {
            Ok(()) => {}
            Err(error) if options.keep_going => eprintln!("error: {error:#}"),
            Err(error) => {
                for later in &checks[index + 1..] {
                    stages.leave_out(format!("{} (a check before it failed; see --keep-going)", later.name));
                }
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Programs and abilities of this machine that some tests need; `None` or `false` leaves these tests out.
#[derive(Default)]
struct Tools {
    chromium: Option<PathBuf>,
    axe: Option<PathBuf>,
    sshd: Option<PathBuf>,
    slurm: bool,
    namespaces: bool,
}

fn tools(workspace: &Workspace) -> Result<Tools> {
    let chromium = browser()?;
    let axe = axe_core(workspace)?;
    let sshd = daemon()?;
    // A system may have no packages of Slurm: that test alone may be left out anywhere.
    Ok(Tools { chromium, axe, sshd, slurm: tools::slurm(), namespaces: tools::namespaces() })
}

/// OpenSSH's server; where nothing may be left out, there must be one.
fn daemon() -> Result<Option<PathBuf>> {
    let found = tools::sshd();
    if found.is_none() && tools::all_required() {
        bail!("no sshd for the tests that start hosts; install OpenSSH's server");
    }
    println!("sshd: {}", found.as_ref().map_or_else(|| "none".into(), |path| path.display().to_string()));
    Ok(found)
}

/// axe-core for the tests; where nothing may be left out, there must be one.
fn axe_core(workspace: &Workspace) -> Result<Option<PathBuf>> {
    match axe::ensure(workspace) {
        Ok(path) => {
            println!("axe-core: {}", path.display());
            Ok(Some(path))
        }
        Err(error) if tools::all_required() => Err(error.context(format!(
            "no axe-core for the tests that look for barriers; set {} to its file",
            axe::VARIABLE
        ))),
        Err(error) => {
            println!("no axe-core: {error:#}");
            Ok(None)
        }
    }
}

/// The browser for the tests; where nothing may be left out, there must be one.
fn browser() -> Result<Option<PathBuf>> {
    let found = tools::chromium()?;
    match &found {
        Some(path) => println!("Chromium: {}", path.display()),
        None if tools::all_required() => {
            bail!(
                "no Chromium for the tests that open a page; install it or set {}",
                tools::CHROMIUM_VARIABLE
            )
        }
        None => println!("no Chromium"),
    }
    Ok(found)
}

/// Checks and tests that will not run, each with its reason and cure.
fn left_out(options: Options, tools: &Tools, has_data: bool) -> Vec<&'static str> {
    let mut left_out = Vec::new();
    if options.quick {
        left_out.push("documentation, end-to-end tests (--quick)");
    }
    if tools.sshd.is_none() {
        left_out.push("tests that start hosts (no sshd; install OpenSSH's server)");
    }
    if !tools.namespaces {
        left_out.push("tests between network namespaces (run as root, with ip and unshare)");
    }
    if !tools.slurm {
        left_out.push("the test that starts Slurm (no slurmctld, slurmd or munge; install them as root)");
    }
    if tools.chromium.is_none() {
        left_out
            .push("tests that open a page (no Chromium; install it, or set BAKEOFF_CHROMIUM to its path)");
    }
    if tools.axe.is_none() {
        left_out.push("tests that look for barriers (no axe-core; set BAKEOFF_AXE to its file)");
    }
    if !has_data {
        left_out.push("tests on real data (set BAKEOFF_DATA to a folder that holds mnist/)");
    }
    left_out
}

fn child(workspace: &Workspace, check: &Check, tools: &Tools) -> Child {
    let mut child = workspace.child("cargo").arguments(check.words);
    if *check == DOCS {
        child = child.variable("RUSTDOCFLAGS", "-D warnings");
    }
    if *check == NEXTEST || *check == NEXTEST_QUICK {
        child = child.variable("NEXTEST_TEST_THREADS", at_once().to_string());
    }
    if let Some(chromium) = &tools.chromium {
        child = child.variable(tools::CHROMIUM_VARIABLE, chromium);
    }
    if let Some(axe) = &tools.axe {
        child = child.variable(axe::VARIABLE, axe);
    }
    if let Some(sshd) = &tools.sshd {
        child = child.variable(tools::SSHD_VARIABLE, sshd);
    }
    child
}

/// Tests at once: twice as many as there are cores, because many end-to-end tests wait most of their time
/// (`.config/nextest.toml`).
fn at_once() -> usize {
    2 * std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything, or all but the browser.
    fn tools(has_browser: bool) -> Tools {
        Tools {
            chromium: has_browser.then(|| "/bin/chromium".into()),
            axe: Some("/target/axe/axe.min.js".into()),
            sshd: Some("/usr/sbin/sshd".into()),
            slurm: true,
            namespaces: true,
        }
    }

    fn names(quick: bool, has_nextest: bool) -> Vec<&'static str> {
        checks(Options { quick, keep_going: false }, has_nextest).iter().map(|check| check.name).collect()
    }

    #[test]
    fn the_full_gate_has_every_check_and_ends_with_the_tests() {
        let with_nextest =
            ["format", "clippy", "documentation", "programs and tests", "examples in documentation", "tests"];
        assert_eq!(names(false, true), with_nextest);
        // Cargo's own test command runs the examples in documentation too.
        assert_eq!(names(false, false), ["format", "clippy", "documentation", "programs and tests", "tests"]);
    }

    #[test]
    fn quick_leaves_out_only_what_it_says() {
        let quick =
            ["format", "clippy", "programs and tests", "examples in documentation", "tests but end-to-end"];
        assert_eq!(names(true, true), quick);
    }

    #[test]
    fn whatever_does_not_run_is_named() {
        let options = |quick| Options { quick, keep_going: false };
        for (quick, has_browser, has_data, words) in [
            (false, true, true, &[][..]),
            (true, true, true, &["--quick"][..]),
            (false, false, true, &["Chromium"][..]),
            (true, false, false, &["--quick", "Chromium", "BAKEOFF_DATA"][..]),
        ] {
            let named = left_out(options(quick), &tools(has_browser), has_data);
            assert_eq!(named.len(), words.len(), "{named:?}");
            assert!(named.iter().zip(words).all(|(line, word)| line.contains(word)), "{named:?}");
        }
    }

    #[test]
    fn every_check_that_can_be_is_locked() {
        for check in checks(Options { quick: false, keep_going: false }, true) {
            assert!(check == FORMAT || check.words.contains(&"--locked"), "{check:?}");
        }
    }
}
