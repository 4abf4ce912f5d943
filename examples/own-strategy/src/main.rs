//! `bakeoff-worker` with the strategies of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    worker::main_with(&own_strategy::registry())
}
