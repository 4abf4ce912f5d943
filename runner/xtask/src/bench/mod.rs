//! `cargo xtask bench`: how fast this project is, beside others who do the same, in one table.

mod all_reduce;
mod large;
mod layers;
mod learning;
mod line;
mod machine;
mod memory;
mod models;
mod namespaces;
mod network;
mod over_network;
mod peers;
mod runs;
mod store;
mod table;
mod training;
mod turns;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::libtorch;
use crate::workspace::Workspace;

/// How often each program has its turn.
const TURNS: usize = 5;

/// The benchmarks that are to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// All-reduces, steps, layers and models.
    All,
    /// All-reduces of several sizes.
    AllReduce,
    /// Steps of training every model, in worker processes on this machine.
    Training,
    /// Steps of training one model, by the name of its recipe.
    TrainingOf(&'static str),
    /// Steps of training between network namespaces.
    TrainingOverNetwork,
    /// The layers of two models in one process.
    Layers,
    /// Steps of every model in one process.
    Models,
    /// Which loss a transformer reaches here and in PyTorch.
    Learning,
    /// Whether every all-reduce ends with vectors far beyond the credits of a peer.
    Large,
    /// The emulated network beside the kernel's.
    Network,
    /// Commands that read large stores.
    Store,
}

impl Subject {
    /// The benchmarks that the words after `bench` on the command line choose.
    pub(crate) fn parse(words: &[&str]) -> Result<Self> {
        let subject = match words.first() {
            None => Self::All,
            Some(&"all-reduce") => Self::AllReduce,
            Some(&"training") => Self::Training,
            Some(&"layers") => Self::Layers,
            Some(&"models") => Self::Models,
            Some(&"learning") => Self::Learning,
            Some(&"large") => Self::Large,
            Some(&"network") => Self::Network,
            Some(&"store") => Self::Store,
            Some(word) => bail!("`{word}` is not expected here; see `cargo xtask help`"),
        };
        let (subject, rest) = match (subject, words.get(1..).unwrap_or_default()) {
            (Self::Training, ["network", rest @ ..]) => (Self::TrainingOverNetwork, rest),
            (Self::Training, [word, rest @ ..]) if let Some(model) = training::model(word) => {
                (Self::TrainingOf(model), rest)
            }
            (subject, rest) => (subject, rest),
        };
        match rest.first() {
            None => Ok(subject),
            Some(word) => bail!("`{word}` is not expected here; see `cargo xtask help`"),
        }
    }
}

/// Builds, brings the peers that can be brought, measures, and prints.
pub(crate) fn run(workspace: &Workspace, subject: Subject) -> Result<ExitCode> {
    if subject == Subject::Large {
        large::run(workspace)?;
        return Ok(ExitCode::SUCCESS);
    }
    if subject == Subject::Store {
        store::run(workspace)?;
        return Ok(ExitCode::SUCCESS);
    }
    libtorch::ensure(workspace)?;
    if subject == Subject::Network {
        network::run(workspace)?;
        return Ok(ExitCode::SUCCESS);
    }
    let build = ["build", "--release", "--locked", "--workspace", "--bins", "--examples"];
    workspace.child("cargo").arguments(&build).run()?;
    let peers = peers::Peers::find(workspace)?;
    if subject == Subject::Learning {
        println!("\n{}", learning::measure(workspace, &peers)?);
        return Ok(ExitCode::SUCCESS);
    }
    let machine = machine::Machine::look()?;
    let mut turns = turns::Turns::default();
    println!(
        "\n{machine}; one thread of computation per process; medians of {TURNS} turns with their range\n"
    );
    let measures = |one: Subject| subject == Subject::All || subject == one;
    if measures(Subject::AllReduce) {
        println!("{}", all_reduce::measure(workspace, &peers, &mut turns)?);
    }
    if let Subject::All | Subject::Training | Subject::TrainingOf(_) = subject {
        let model = if let Subject::TrainingOf(model) = subject { Some(model) } else { None };
        println!("{}", training::measure(workspace, &peers, &mut turns, model)?);
    }
    if subject == Subject::TrainingOverNetwork {
        println!("{}", over_network::measure(workspace, &peers, &mut turns)?);
    }
    if measures(Subject::Layers) {
        for table in layers::measure(workspace, &peers, &mut turns)? {
            println!("{table}");
        }
    }
    if measures(Subject::Models) {
        println!("{}", models::measure(workspace, &peers, &mut turns)?);
    }
    println!("{}", turns.load());
    println!("stored: {}", turns.store(&workspace.target_folder()?.join("bench"), &machine)?.display());
    for missing in peers.missing() {
        println!("{missing}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The middle value; of an even number, the larger one of the two.
fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}
