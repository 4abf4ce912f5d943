//! Vectors far beyond the credits of a peer, through every all-reduce, in real processes: whether each ends.

use anyhow::Result;

use crate::workspace::Workspace;

const RANKS: [&str; 2] = ["2", "4"];
/// With two ranks, a quarter of a chunk is 20 MB: four of them have no room at once.
const WEIGHTS: &str = "40000000";

/// Builds the program and runs it; it checks every sum.
pub(super) fn run(workspace: &Workspace) -> Result<()> {
    let build = ["build", "--release", "--locked", "-p", "mesh", "--example", "large_sums"];
    workspace.child("cargo").arguments(&build).run()?;
    let program = workspace.target_folder()?.join("release/examples/large_sums");
    for ranks in RANKS {
        workspace.child(&program.to_string_lossy()).arguments(&[ranks, WEIGHTS]).run()?;
    }
    Ok(())
}
