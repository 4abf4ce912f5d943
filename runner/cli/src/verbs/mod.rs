//! The verbs, one per file: examples, arguments, `execute`.

pub(crate) mod agent;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod data;
pub(crate) mod db;
pub(crate) mod describe_texts;
pub(crate) mod diff;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod figure;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod nodes;
pub(crate) mod noise;
pub(crate) mod note;
pub(crate) mod plan;
pub(crate) mod predict;
pub(crate) mod publish;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod show;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod submit;
pub(crate) mod tag;

use crate::args::Global;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::Console;
use clap::{Parser, Subcommand};
use std::future::Future;

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
    /// The verb.
    #[command(subcommand)]
    pub(crate) verb: Verb,
    /// Options of every verb.
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
    4  this machine lacks a resource, or data is missing; nothing was started
    5  finished, but runs failed, diverged, lost a rank, or missed their target;
       or `--time-budget` left some
    6  `compare` found what `--fail-if` names
    7  the store cannot be used
  129  the terminal went away (SIGHUP); the same command resumes
  130  interrupted by Ctrl-C; the same command resumes
  143  ended by SIGTERM or `bakeoff stop`; the same command resumes

Environment:
  BAKEOFF_STORE   folder of the store, in place of .bakeoff
  BAKEOFF_DATA    folder of the data sets, in place of data
  BAKEOFF_WORKER  the worker program, in place of `bakeoff-worker` beside this one
  BAKEOFF_SSH     the program that reaches other machines, in place of `ssh`
  BAKEOFF_CACHE   on a machine that runs ranks: folder of files sent there, in
                  place of ~/.cache/bakeoff
  BAKEOFF_LOG     what the parts log to standard error, as in `launch=debug`
  NO_COLOR        no colours
  COLUMNS         width of the terminal";

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Write a commented recipe to start from.
    #[command(after_help = init::EXAMPLES)]
    Init(init::InitArgs),
    /// Find all mistakes in recipes; nothing is run.
    #[command(after_help = check::EXAMPLES)]
    Check(check::CheckArgs),
    /// Show the arms, cells and runs of a recipe.
    #[command(after_help = plan::EXAMPLES)]
    Plan(plan::PlanArgs),
    /// Predict the step times of a recipe's arms on a network.
    #[command(after_help = predict::EXAMPLES)]
    Predict(predict::PredictArgs),
    /// Run a recipe; run it again to resume.
    #[command(after_help = run::EXAMPLES)]
    Run(run::RunArgs),
    /// Check the machines of a recipe, and measure the ways between them.
    #[command(after_help = nodes::EXAMPLES)]
    Nodes(nodes::NodesArgs),
    /// Measure the smallest difference that this machine can show.
    #[command(after_help = noise::EXAMPLES)]
    Noise(noise::NoiseArgs),
    /// Show running sweeps and the remains of killed drivers.
    #[command(after_help = status::EXAMPLES)]
    Status(status::StatusArgs),
    /// Stop running sweeps, and clean up after killed drivers.
    #[command(after_help = stop::EXAMPLES)]
    Stop(stop::StopArgs),
    /// List runs.
    #[command(after_help = list::EXAMPLES)]
    List(list::ListArgs),
    /// Show everything about one run.
    #[command(after_help = show::EXAMPLES)]
    Show(show::ShowArgs),
    /// Show in what two runs differ: settings, surroundings, results.
    #[command(after_help = diff::EXAMPLES)]
    Diff(diff::DiffArgs),
    /// Show the logs of a run's processes.
    #[command(after_help = logs::EXAMPLES)]
    Logs(logs::LogsArgs),
    /// Make the page of a sweep.
    #[command(after_help = report::EXAMPLES)]
    Report(report::ReportArgs),
    /// Write one chart or table of a page, for print.
    #[command(after_help = figure::EXAMPLES)]
    Figure(figure::FigureArgs),
    /// Compare two selections of runs; fail if one is slower.
    #[command(after_help = compare::EXAMPLES)]
    Compare(compare::CompareArgs),
    /// Make a static site of the pages of many sweeps.
    #[command(after_help = publish::EXAMPLES)]
    Publish(publish::PublishArgs),
    /// Fetch and verify public data sets; describe your own.
    #[command(after_help = data::EXAMPLES)]
    Data(data::DataArgs),
    /// Write measurements, traces, weights, or whole sweeps.
    #[command(after_help = export::EXAMPLES)]
    Export(export::ExportArgs),
    /// Take over the sweeps of a colleague's bundle.
    #[command(after_help = import::EXAMPLES)]
    Import(import::ImportArgs),
    /// Give sweeps tags, or take them away.
    #[command(after_help = tag::EXAMPLES)]
    Tag(tag::TagArgs),
    /// Say something of a sweep.
    #[command(after_help = note::EXAMPLES)]
    Note(note::NoteArgs),
    /// Explain a recipe's key, a strategy, or an error's code.
    #[command(after_help = explain::EXAMPLES)]
    Explain(explain::ExplainArgs),
    /// Print the JSON schema of recipes, for editors.
    #[command(after_help = schema::EXAMPLES)]
    Schema(schema::SchemaArgs),
    /// Inspect, check or rebuild the database of the store.
    #[command(after_help = db::EXAMPLES)]
    Db(db::DbArgs),
    /// Serve a driver on this host.
    #[command(hide = true)]
    Agent,
    /// Make the run of a job that was submitted.
    #[command(hide = true)]
    Job(job::JobArgs),
    /// Print a script that completes commands in a shell.
    #[command(after_help = completions::EXAMPLES)]
    Completions(completions::CompletionsArgs),
}

/// Executes the verb of a command line.
pub(crate) fn execute(cli: Cli, console: &Console) -> Result<Exit, Failure> {
    let context = Context { global: cli.global, console };
    match cli.verb {
        Verb::Init(args) => init::execute(&args, &context),
        Verb::Check(args) => check::execute(&args, &context),
        Verb::Plan(args) => plan::execute(&args, &context),
        Verb::Predict(args) => predict::execute(&args, &context),
        Verb::Run(args) => run::execute(&args, &context),
        Verb::Nodes(args) => nodes::execute(&args, &context),
        Verb::Noise(args) => noise::execute(&args, &context),
        Verb::Status(args) => status::execute(&args, &context),
        Verb::Stop(args) => stop::execute(&args, &context),
        Verb::List(args) => list::execute(&args, &context),
        Verb::Show(args) => show::execute(&args, &context),
        Verb::Diff(args) => diff::execute(&args, &context),
        Verb::Logs(args) => logs::execute(&args, &context),
        Verb::Report(args) => report::execute(&args, &context),
        Verb::Figure(args) => figure::execute(&args, &context),
        Verb::Compare(args) => compare::execute(&args, &context),
        Verb::Publish(args) => publish::execute(&args, &context),
        Verb::Export(args) => export::execute(&args, &context),
        Verb::Import(args) => import::execute(&args, &context),
        Verb::Tag(args) => tag::execute(&args, &context),
        Verb::Note(args) => note::execute(&args, &context),
        Verb::Data(args) => data::execute(&args, &context),
        Verb::Explain(args) => explain::execute(&args),
        Verb::Schema(args) => schema::execute(&args),
        Verb::Db(args) => db::execute(&args, &context),
        Verb::Agent => agent::execute(&context),
        Verb::Job(args) => job::execute(&args, &context),
        Verb::Completions(args) => completions::execute(&args),
    }
}

/// Runs a future to its end.
pub(crate) fn wait<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Internal, format!("threads cannot be started: {error}")))?;
    runtime.block_on(future)
}
