//! `cargo xtask demo`: from a fresh clone to a page about a real comparison.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::libtorch::{self, remove_if_there};
use crate::stage::Stages;
use crate::workspace::Workspace;

const RECIPE: &str = "recipes/quickstart.toml";
const PAGE: &str = "quickstart.html";

/// Sets up, builds, runs the quick-start recipe, and prints the path of its page.
///
/// A run that ends with an exit code of its own hands that code on.
pub(crate) fn run(workspace: &Workspace, stages: &mut Stages) -> Result<ExitCode> {
    stages.perform("libtorch", || libtorch::ensure(workspace))?;
    stages.perform("build (release; the first time takes minutes)", || {
        workspace
            .child("cargo")
            .arguments(&["build", "--release", "--locked", "--package", "cli", "--package", "worker"])
            .run()
    })?;
    let page = workspace.root().join(PAGE);
    remove_if_there(&page).context("the page of an earlier demo is in the way")?;
    let program = workspace.target_folder()?.join("release").join("bakeoff");
    let status = stages.perform(RECIPE, || {
        workspace
            .child(&program.to_string_lossy())
            .arguments(&["run", RECIPE, "--report", PAGE, "--yes"])
            .status()
    })?;
    if !status.success() {
        let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
        eprintln!("\nerror: `bakeoff run {RECIPE}` failed ({status})");
        return Ok(ExitCode::from(code));
    }
    let size = page.metadata().with_context(|| format!("the run wrote no page at {}", page.display()))?.len();
    if size == 0 {
        bail!("the page {} is empty", page.display());
    }
    println!("\n{}\nThe page ({} KB): {}", stages.summary(), size.div_ceil(1000), page.display());
    Ok(ExitCode::SUCCESS)
}
