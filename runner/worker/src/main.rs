//! `bakeoff-worker`: one rank of a run, or the evaluator of its snapshots. Started by `bakeoff run` only.

use std::process::ExitCode;

fn main() -> ExitCode {
    worker::main_with(&strategies::Registry::default())
}
