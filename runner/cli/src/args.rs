//! Options that several verbs share. Each verb's own arguments are in the verb's file.

use crate::output::Loudness;
use clap::{ArgAction, Args, ValueEnum, ValueHint};
use recipe::RepeatCount;
use std::path::PathBuf;

/// Options of every verb.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Folder that holds all results.
    #[arg(long, global = true, env = "BAKEOFF_STORE", default_value = ".bakeoff", value_name = "DIR", hide_env_values = true, value_hint = ValueHint::DirPath)]
    pub(crate) store: PathBuf,
    /// When to use colours.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColourChoice,
    /// How to show progress: `auto` is a bar on a terminal, else lines.
    #[arg(long, global = true, value_name = "HOW", default_value = "auto")]
    pub(crate) progress: ProgressChoice,
    /// Print errors and warnings only.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print more: causes of errors, and activities of the parts.
    #[arg(short, long, global = true, action = ArgAction::SetTrue)]
    pub(crate) verbose: bool,
}

impl Global {
    /// How much is said.
    pub(crate) fn loudness(&self) -> Loudness {
        match (self.quiet, self.verbose) {
            (true, _) => Loudness::Quiet,
            (_, true) => Loudness::Verbose,
            _ => Loudness::Usual,
        }
    }
}

/// How a verb writes a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableFormat {
    /// For people.
    Table,
    /// One JSON document.
    Json,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColourChoice {
    /// On a terminal that has them, unless `NO_COLOR` is set.
    Auto,
    /// Also into files and pipes.
    Always,
    /// Never.
    Never,
}

/// How to show progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressChoice {
    /// A bar on a terminal, else lines.
    Auto,
    /// A bar.
    Bar,
    /// One line per change of state.
    Plain,
    /// Nothing.
    None,
}

/// The recipe, and the changes of it on the command line.
#[derive(Debug, Args)]
pub(crate) struct RecipeArgs {
    /// The recipe.
    #[arg(value_name = "RECIPE", value_hint = ValueHint::FilePath)]
    pub(crate) recipe: PathBuf,
    /// Set a key of the recipe; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) overrides: Vec<String>,
    /// Make a key of the recipe an axis; may be repeated.
    #[arg(long = "sweep", value_name = "KEY=A,B")]
    pub(crate) sweeps: Vec<String>,
    /// Keep only the cells for which this holds, as in `nodes.workers >= 4`.
    #[arg(long, value_name = "EXPR")]
    pub(crate) only: Option<String>,
    /// Repeats of each cell, in place of the recipe's; `3..24` for 3 at first, and up to 24 while a comparison is open.
    #[arg(long, value_name = "N|N..M")]
    pub(crate) repeats: Option<RepeatCount>,
}
