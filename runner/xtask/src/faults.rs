//! `cargo xtask faults` and `cargo xtask kills`: real runs that go wrong, drawn by a seed, and a table of their outcomes.

use std::process::ExitCode;

use anyhow::Result;

use crate::libtorch;
use crate::workspace::Workspace;

/// Builds the programs and plays the faults; the words go to the player as they are.
pub(crate) fn run(workspace: &Workspace, player: &str, words: &[String]) -> Result<ExitCode> {
    libtorch::ensure(workspace)?;
    let build = ["build", "--workspace", "--bins", "--examples", "--locked"];
    workspace.child("cargo").arguments(&build).run()?;
    let player = workspace.target_folder()?.join("debug/examples").join(player);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let status = workspace.child(&player.to_string_lossy()).arguments(&words).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
