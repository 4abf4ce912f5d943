//! The program `bakeoff-worker`, with the strategies of a registry.

use libc::c_int;
use mesh::{Briefing, FORK_SERVER, Forked, INTRODUCE, Inventory, Member, PROTOCOL};
use recipe::{Shape, hex};
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::Path;
use strategies::Registry;
use tracing::error;

/// The exit code of a worker that failed.
const FAILED: u8 = 1;
/// The exit code if a file is no model that can be trained.
const REFUSED: u8 = 3;

/// Runs one rank of a run, or the evaluator of its snapshots, as the briefing on standard input says. A `bakeoff-worker`
/// with strategies of its own calls this in its `main`.
/// The process ends as soon as its work is done.
pub fn main_with(registry: &Registry) -> ! {
    mesh::keep_freed_memory();
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    quit(match arguments.as_slice() {
        [] => work_logged(registry),
        _ if arguments == FORK_SERVER => serve_forks(registry),
        [argument, rest @ ..] => answer(&argument.to_string_lossy(), rest, registry),
    })
}

/// Ends the process without libtorch's clean-up, which takes operator after operator out of its registry: a quarter of what
/// it takes to start and end a worker.
fn quit(code: u8) -> ! {
    // Where it cannot be written, there is no reader.
    let _ = std::io::stdout().flush();
    #[expect(unsafe_code, reason = "the standard library's own end runs the clean-up of all libraries")]
    // SAFETY: takes a number; nothing of this process runs afterwards.
    unsafe {
        libc::_exit(c_int::from(code))
    }
}

/// Prints what the driver must know of this program before a run.
#[expect(clippy::print_stdout, reason = "the driver reads it there")]
fn introduce(registry: &Registry) -> u8 {
    let Ok(inventory) = inventory_of(registry).to_line() else { return FAILED };
    let version = env!("CARGO_PKG_VERSION");
    let libtorch = hex(&Sha256::digest(torch_native::build()));
    let format = mesh::wire_format();
    println!("bakeoff-worker {version} protocol {PROTOCOL} format {format:016x} libtorch {libtorch} forks");
    println!("{inventory}");
    0
}

/// Makes a process of this one for each worker that the driver wants, and works in it.
fn serve_forks(registry: &Registry) -> u8 {
    match mesh::serve_forks() {
        Ok(Forked::Server) => 0,
        Ok(Forked::Worker) => work_logged(registry),
        Ok(Forked::Introducer) => introduce(registry),
        Err(_) => FAILED,
    }
}

fn work_logged(registry: &Registry) -> u8 {
    // A log that cannot be written, because the disk is full, is no reason to panic.
    let log = tracing_subscriber::fmt().json().with_writer(std::io::stderr).log_internal_errors(false);
    log.with_max_level(tracing::Level::INFO).init();
    match work(registry) {
        Ok(()) => 0,
        Err(error) => {
            error!(error = format!("{error:#}"), "worker failed");
            FAILED
        }
    }
}

/// Replies to a question on the command line, from a person or from the driver before a run.
#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is the program's answer on the command line"
)]
fn answer(argument: &str, rest: &[OsString], registry: &Registry) -> u8 {
    let version = env!("CARGO_PKG_VERSION");
    match argument {
        INTRODUCE => return introduce(registry),
        "--describe-model" => match describe(rest) {
            // A model may have printed a part of a line.
            Ok(layout) => println!("\n{layout}"),
            Err(error) => {
                eprintln!("{error:#}");
                return REFUSED;
            }
        },
        "--version" | "-V" => println!("bakeoff-worker {version}"),
        _ => {
            eprintln!(
                "bakeoff-worker {version} is started by `bakeoff run`; it takes --version, --protocol, and \
                 --describe-model FILE SHAPE only"
            );
            return 2;
        }
    }
    0
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
