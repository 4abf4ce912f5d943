//! `bakeoff agent`: what the driver starts on each host. Not for people: it speaks frames.

use super::wait;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use std::io::{IsTerminal, stdin};

/// Serves a driver over standard input and output.
pub(crate) fn execute(context: &Context<'_>) -> Result<Exit, Failure> {
    if stdin().is_terminal() {
        return Err(Failure::new(Exit::Usage, "`bakeoff agent` is started by `bakeoff run` on each host")
            .cure("name the host in a recipe, as in `nodes.use = [\"lab1*2\"]`, and run the recipe"));
    }
    wait(async {
        let served = launch::serve_agent().await;
        // At once: the runtime would wait for a read of an input that a silent driver keeps open.
        match served {
            Ok(()) => std::process::exit(Exit::Done as i32),
            Err(error) => {
                context.console.write(&format!("the agent ends: {error}"));
                std::process::exit(Exit::Internal as i32)
            }
        }
    })
}
