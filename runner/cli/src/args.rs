//! The command line as types. Each verb's own arguments are in the verb's file.

use crate::output::Loudness;
use crate::verbs;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;

/// Compares distributed-SGD strategies: a recipe in, a page with a verdict out.
#[derive(Debug, Parser)]
#[command(
    name = "bakeoff",
    version,
    about = "Compares distributed-SGD strategies: a recipe in, a page with a verdict out.",
    long_about = "Compares distributed-SGD strategies: a recipe in, a page with a verdict out.\n\n\
        A recipe is a TOML file: a model, a data set, the strategies to compare, and what to vary. `run` trains \
        every combination as often as the recipe says, keeps every measurement in a store, and writes one page \
        that says which strategy won, by how much, and how sure that is.",
    after_help = "Start with `bakeoff init`, or see `bakeoff --help` for exit codes and environment variables.",
    after_long_help = AFTER_HELP,
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
    /// How to do it.
    #[command(flatten)]
    pub(crate) global: Global,
}

const AFTER_HELP: &str = "\
Examples:
  bakeoff init                          write a commented recipe to start from
  bakeoff check recipe.toml             find every mistake before anything starts
  bakeoff plan recipe.toml              show what would run
  bakeoff run recipe.toml               run it; run it again to resume
  bakeoff report last -o page.html      make the page again

Exit codes:
    0  done
    1  a fault of bakeoff itself
    2  wrong usage, or an invalid recipe
    3  nothing fits the selection
    4  this machine cannot do what is asked, or data is missing; nothing was started
    5  finished, but some runs failed, lost a rank, or missed their target
    7  the store cannot be used
  129  the terminal went away (SIGHUP); the same command resumes
  130  interrupted by Ctrl-C; the same command resumes
  143  ended by SIGTERM or `bakeoff stop`; the same command resumes

Environment:
  BAKEOFF_STORE   folder of the store, in place of .bakeoff
  BAKEOFF_DATA    folder of the data sets, in place of data
  BAKEOFF_WORKER  the worker program, in place of `bakeoff-worker` beside this one
  BAKEOFF_LOG     what the parts log to standard error, as in `launch=debug`
  NO_COLOR        no colours
  COLUMNS         width of the terminal";

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
    /// Say only what went wrong.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say more: causes of causes, and what the parts do.
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

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Write a commented recipe to start from.
    #[command(after_help = verbs::init::EXAMPLES)]
    Init(verbs::init::InitArgs),
    /// Find everything that is wrong with recipes; nothing is run.
    #[command(after_help = verbs::check::EXAMPLES)]
    Check(verbs::check::CheckArgs),
    /// Show what a recipe expands to, and what `run` would do.
    #[command(after_help = verbs::plan::EXAMPLES)]
    Plan(verbs::plan::PlanArgs),
    /// Run a recipe; run it again to resume.
    #[command(after_help = verbs::run::EXAMPLES)]
    Run(verbs::run::RunArgs),
    /// Show what runs now, and what killed processes left.
    #[command(after_help = verbs::status::EXAMPLES)]
    Status(verbs::status::StatusArgs),
    /// Stop what runs now, and clear up what killed processes left.
    #[command(after_help = verbs::stop::EXAMPLES)]
    Stop(verbs::stop::StopArgs),
    /// List runs.
    #[command(after_help = verbs::list::EXAMPLES)]
    List(verbs::list::ListArgs),
    /// Show everything about one run.
    #[command(after_help = verbs::show::EXAMPLES)]
    Show(verbs::show::ShowArgs),
    /// Show what the processes of a run logged.
    #[command(after_help = verbs::logs::EXAMPLES)]
    Logs(verbs::logs::LogsArgs),
    /// Make the page of a sweep.
    #[command(after_help = verbs::report::EXAMPLES)]
    Report(verbs::report::ReportArgs),
    /// Fetch and verify public data sets.
    #[command(after_help = verbs::data::EXAMPLES)]
    Data(verbs::data::DataArgs),
    /// Write measurements, traces and weights for other programs.
    #[command(after_help = verbs::export::EXAMPLES)]
    Export(verbs::export::ExportArgs),
    /// Explain a recipe's key, a strategy, or an error's code.
    #[command(after_help = verbs::explain::EXAMPLES)]
    Explain(verbs::explain::ExplainArgs),
    /// Print the JSON schema of recipes, for editors.
    #[command(after_help = verbs::schema::EXAMPLES)]
    Schema(verbs::schema::SchemaArgs),
    /// Look after the database of the store.
    #[command(after_help = verbs::db::EXAMPLES)]
    Db(verbs::db::DbArgs),
    /// Print a script that completes commands in a shell.
    #[command(after_help = verbs::completions::EXAMPLES)]
    Completions(verbs::completions::CompletionsArgs),
}

/// Which recipe, and what the command line changes in it.
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
    /// Repeat each cell so often, whatever the recipe says.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) repeats: Option<u32>,
}
