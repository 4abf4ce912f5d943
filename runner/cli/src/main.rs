//! `bakeoff`: the command line. Verbs, exit codes, words for humans; everything else is in the libraries.
//!
//! This program links no tensor library and starts in milliseconds; nothing asynchronous is set up before a
//! verb needs it.

mod args;
mod disk;
mod ending;
mod exit;
mod live;
mod output;
mod page;
mod planning;
mod progress;
mod recorder;
mod repository;
mod reuse;
mod session;
mod surroundings;
mod sweep;
mod verbs;

use args::{Cli, ColourChoice};
use clap::Parser;
use exit::{Exit, Failure};
use output::Talk;
use std::panic;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

fn main() -> ExitCode {
    let cli = Cli::parse();
    colours(cli.global.color);
    let talk = Talk::new(cli.global.loudness());
    log_to(&talk);
    explain_faults(&talk);
    match panic::catch_unwind(panic::AssertUnwindSafe(|| verbs::execute(cli, &talk))) {
        Ok(Ok(exit)) => exit.into(),
        Ok(Err(failure)) => {
            talk.failure(&failure);
            match failure {
                Failure::Told(exit) | Failure::Fault { exit, .. } => exit.into(),
            }
        }
        Err(_) => Exit::Internal.into(),
    }
}

fn colours(choice: ColourChoice) {
    let choice = match choice {
        ColourChoice::Auto => anstream::ColorChoice::Auto,
        ColourChoice::Always => anstream::ColorChoice::AlwaysAnsi,
        ColourChoice::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
}

/// What the libraries log: warnings, or as much as `-v` and `BAKEOFF_LOG` ask for.
fn log_to(talk: &Talk) {
    let usual =
        if talk.loudness() == output::Loudness::Verbose { "warn,launch=debug,store=debug" } else { "warn" };
    let filter = EnvFilter::try_from_env("BAKEOFF_LOG").unwrap_or_else(|_| EnvFilter::new(usual));
    let writer = talk.clone();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_span_events(FmtSpan::NONE)
        .with_target(false)
        .without_time()
        .with_writer(move || writer.clone())
        .init();
}

/// A fault of this program is said in a sentence, without a backtrace.
fn explain_faults(talk: &Talk) {
    let talk = talk.clone();
    panic::set_hook(Box::new(move |fault| {
        let place = fault.location().map(|place| format!(" at {}:{}", place.file(), place.line()));
        let what = fault.payload_as_str().unwrap_or("no message");
        let title = format!("this is a fault of bakeoff itself{}: {what}", place.unwrap_or_default());
        talk.error(
            &title,
            "please report it with the command line and the recipe; what was recorded is safe",
        );
    }));
}
