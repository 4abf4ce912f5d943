//! `bakeoff-worker` with the strategy and the codec of `examples/own-strategy`: the program that its README builds, built with
//! this workspace for the end-to-end tests.

#[path = "../../../examples/own-strategy/src/lib.rs"]
#[expect(unreachable_pub, reason = "it is a library in its own folder")]
mod own_strategy;

use std::process::ExitCode;

fn main() -> ExitCode {
    worker::main_with(&own_strategy::registry())
}
