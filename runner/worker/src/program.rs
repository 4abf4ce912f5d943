//! The program `bakeoff-worker`, with the strategies of a registry.

use mesh::{Briefing, Inventory, Member, PROTOCOL};
use recipe::{Shape, hex};
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use strategies::Registry;
use tracing::error;

/// The exit code if a file is no model that can be trained.
const REFUSED: u8 = 3;

/// Runs one rank of a run, or the evaluator of its snapshots, as the briefing on standard input says. A `bakeoff-worker`
/// with strategies of its own calls this in its `main`.
pub fn main_with(registry: &Registry) -> ExitCode {
    mesh::keep_freed_memory();
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let [argument, rest @ ..] = arguments.as_slice() {
        return answer(&argument.to_string_lossy(), rest, registry);
    }
    // A log that cannot be written, because the disk is full, is no reason to panic.
    let log = tracing_subscriber::fmt().json().with_writer(std::io::stderr).log_internal_errors(false);
    log.with_max_level(tracing::Level::INFO).init();
    match work(registry) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(error = format!("{error:#}"), "worker failed");
            ExitCode::FAILURE
        }
    }
}

/// Replies to a question on the command line, from a person or from the driver before a run.
#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is the program's answer on the command line"
)]
fn answer(argument: &str, rest: &[OsString], registry: &Registry) -> ExitCode {
    let version = env!("CARGO_PKG_VERSION");
    match argument {
        "--protocol" => {
            let Ok(inventory) = inventory_of(registry).to_line() else { return ExitCode::FAILURE };
            let libtorch = hex(&Sha256::digest(torch_native::build()));
            let format = mesh::wire_format();
            println!("bakeoff-worker {version} protocol {PROTOCOL} format {format:016x} libtorch {libtorch}");
            println!("{inventory}");
        }
        "--describe-model" => match describe(rest) {
            // A model may have printed a part of a line.
            Ok(layout) => println!("\n{layout}"),
            Err(error) => {
                eprintln!("{error:#}");
                return ExitCode::from(REFUSED);
            }
        },
        "--version" | "-V" => println!("bakeoff-worker {version}"),
        _ => {
            eprintln!(
                "bakeoff-worker {version} is started by `bakeoff run`; it takes --version, --protocol, and \
                 --describe-model FILE SHAPE only"
            );
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

/// The layout of a model file, as JSON. The arguments are the file and the shape of an example.
fn describe(arguments: &[OsString]) -> anyhow::Result<String> {
    die_with_the_driver()?;
    let [file, shape] = arguments else { anyhow::bail!("--describe-model takes a file and a shape") };
    let shape: Shape = shape.to_string_lossy().parse()?;
    Ok(crate::model::describe(Path::new(file), shape)?.text())
}

fn inventory_of(registry: &Registry) -> Inventory {
    Inventory {
        strategies: registry
            .strategies()
            .map(|(name, strategy)| (name.to_owned(), strategy.own_vectors()))
            .collect(),
        codecs: registry.codecs().map(str::to_owned).collect(),
    }
}

fn work(registry: &Registry) -> anyhow::Result<()> {
    die_with_the_driver()?;
    let briefing = mesh::read_briefing(std::io::stdin().lock())?;
    watch_the_input()?;
    crate::threads::compute_with(briefing.threads);
    dispatch(&briefing, registry)
}

fn dispatch(briefing: &Briefing, registry: &Registry) -> anyhow::Result<()> {
    match briefing.member {
        Member::Rank(rank) => crate::rank::run(briefing, rank, registry),
        Member::Evaluator => crate::evaluation::run(briefing),
    }
}

/// The kernel kills this process when the thread that started it ends.
fn die_with_the_driver() -> anyhow::Result<()> {
    use rustix::process::{Signal, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(())
}

/// The end of the input means that the driver has ended: there is no process to report to, so nothing to save, and
/// libtorch's threads may be anywhere.
fn watch_the_input() -> std::io::Result<()> {
    let watch = || {
        let mut byte = [0_u8; 64];
        while matches!(std::io::stdin().lock().read(&mut byte), Ok(1..)) {}
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    };
    std::thread::Builder::new().name("input".into()).spawn(watch).map(drop)
}
