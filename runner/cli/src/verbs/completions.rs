//! `bakeoff completions`: a script for the user's shell.

use super::Cli;
use crate::exit::{Exit, Failure};
use crate::output;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff completions bash > ~/.local/share/bash-completion/completions/bakeoff
  bakeoff completions zsh  > \"${fpath[1]}/_bakeoff\"
  bakeoff completions fish > ~/.config/fish/completions/bakeoff.fish";

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// Prints the completion script of a shell to standard output.
pub(crate) fn execute(args: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "bakeoff", &mut script);
    output::data(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
