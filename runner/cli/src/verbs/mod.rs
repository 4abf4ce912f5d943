//! The verbs, one per file: examples, arguments, `execute`.

pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod data;
pub(crate) mod db;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod init;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod plan;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod show;
pub(crate) mod status;
pub(crate) mod stop;

use crate::args::{Cli, Global, Verb};
use crate::exit::{Exit, Failure};
use crate::output::Talk;
use std::future::Future;

/// What every verb may use.
pub(crate) struct Context<'a> {
    /// Options of every verb.
    pub(crate) global: Global,
    /// Standard error.
    pub(crate) talk: &'a Talk,
}

/// Does what the command line says.
pub(crate) fn execute(cli: Cli, talk: &Talk) -> Result<Exit, Failure> {
    let context = Context { global: cli.global, talk };
    match cli.verb {
        Verb::Init(args) => init::execute(&args, &context),
        Verb::Check(args) => check::execute(&args, &context),
        Verb::Plan(args) => plan::execute(&args, &context),
        Verb::Run(args) => run::execute(&args, &context),
        Verb::Status(args) => status::execute(&args, &context),
        Verb::Stop(args) => stop::execute(&args, &context),
        Verb::List(args) => list::execute(&args, &context),
        Verb::Show(args) => show::execute(&args, &context),
        Verb::Logs(args) => logs::execute(&args, &context),
        Verb::Report(args) => report::execute(&args, &context),
        Verb::Export(args) => export::execute(&args, &context),
        Verb::Data(args) => data::execute(&args, &context),
        Verb::Explain(args) => explain::execute(&args),
        Verb::Schema(args) => schema::execute(&args),
        Verb::Db(args) => db::execute(&args, &context),
        Verb::Completions(args) => completions::execute(&args),
    }
}

/// Waits for what can only be done asynchronously.
pub(crate) fn wait<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Internal, format!("threads cannot be started: {error}")))?;
    runtime.block_on(future)
}
