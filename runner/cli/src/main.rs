//! `bakeoff`: the command line. Verbs, exit codes, words for humans; everything else is in the libraries.
//!
//! This program links no tensor library and starts in milliseconds; nothing asynchronous is set up before a
//! verb needs it.

mod args;
mod context;
mod disk;
mod durations;
mod ending;
mod environment;
mod exchanges;
mod exit;
mod export;
mod live;
mod live_curve;
mod machines;
mod model_table;
mod needs;
mod output;
mod page;
mod pdf;
mod planning;
mod progress;
mod queue;
mod recorder;
mod repository;
mod resume;
mod reuse;
mod searches;
mod selected;
mod session;
mod site;
mod sweep;
mod time_budget;
mod transformed;
mod verbs;

use args::ColourChoice;
use clap::{Parser, ValueEnum};
use exit::{Exit, Failure};
use output::Console;
use std::ffi::OsString;
use std::io::Write;
use std::panic;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;
use verbs::Cli;

fn main() -> ExitCode {
    if let Err(failure) = heed_the_store() {
        Console::new(output::Loudness::Usual).failure(&failure);
        return Exit::Usage.into();
    }
    colours(colours_asked(std::env::args_os().skip(1)));
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => return misused(&usage),
    };
    colours(cli.global.color);
    let console = Console::new(cli.global.loudness());
    explain_faults(&console);
    if let Err(failure) = log_to(&console) {
        console.failure(&failure);
        return Exit::Usage.into();
    }
    match panic::catch_unwind(panic::AssertUnwindSafe(|| verbs::execute(cli, &console))) {
        Ok(Ok(exit)) => exit.into(),
        Ok(Err(failure)) => {
            console.failure(&failure);
            match failure {
                Failure::Told(exit) | Failure::Fault { exit, .. } => exit.into(),
            }
        }
        Err(_) => Exit::Internal.into(),
    }
}

/// Shows the help that was asked for, or the problem of the command line, which may quote anything.
fn misused(usage: &clap::Error) -> ExitCode {
    let text = output::calm(&usage.render().ansi().to_string());
    // A closed pipe, or a failure of standard error, cannot be reported anywhere.
    if usage.use_stderr() {
        let _ = anstream::stderr().lock().write_all(text.as_bytes());
        return Exit::Usage.into();
    }
    let _ = anstream::stdout().lock().write_all(text.as_bytes());
    Exit::Done.into()
}

/// `--color` of a command line that may be wrong elsewhere, and whose problem is shown.
fn colours_asked(arguments: impl Iterator<Item = OsString>) -> ColourChoice {
    let options = arguments.map(|word| word.to_string_lossy().into_owned()).take_while(|word| word != "--");
    let words: Vec<String> = options.collect();
    let joined = words.iter().filter_map(|word| word.strip_prefix("--color="));
    let apart = words.windows(2).filter(|pair| pair[0] == "--color").map(|pair| pair[1].as_str());
    let choice = |word: &str| ColourChoice::from_str(word, false).ok();
    joined.chain(apart).find_map(choice).unwrap_or(ColourChoice::Auto)
}

fn colours(choice: ColourChoice) {
    let choice = match choice {
        ColourChoice::Auto => anstream::ColorChoice::Auto,
        ColourChoice::Always => anstream::ColorChoice::AlwaysAnsi,
        ColourChoice::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
}

/// Sets up the libraries' log: warnings, or the levels that `-v` and `BAKEOFF_LOG` ask for.
fn log_to(console: &Console) -> Result<(), Failure> {
    let usual = if console.loudness() == output::Loudness::Verbose {
        "warn,usvg=error,launch=debug,store=debug"
    } else {
        // Its warnings, about letters that no font has, are given by `figure`.
        "warn,usvg=error"
    };
    let asked = std::env::var_os("BAKEOFF_LOG").filter(|text| !text.is_empty());
    let asked = asked.map_or_else(|| usual.to_owned(), |text| text.to_string_lossy().into_owned());
    let filter = EnvFilter::try_new(&asked).map_err(|error| {
        Failure::new(Exit::Usage, format!("BAKEOFF_LOG={asked} cannot be understood: {error}"))
            .cure("give parts and levels, as in BAKEOFF_LOG=warn,launch=debug")
    })?;
    let writer = console.clone();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_span_events(FmtSpan::NONE)
        .with_target(false)
        .without_time()
        .with_writer(move || writer.clone())
        .init();
    Ok(())
}

/// An empty name would mean the current folder, and fill it.
fn heed_the_store() -> Result<(), Failure> {
    if std::env::var_os("BAKEOFF_STORE").is_some_and(|name| name.is_empty()) {
        return Err(Failure::new(Exit::Usage, "BAKEOFF_STORE is set, and empty")
            .cure("give it the folder of a store, or unset it: the store is .bakeoff then"));
    }
    Ok(())
}

/// Reports a panic in a sentence, without a backtrace.
fn explain_faults(console: &Console) {
    let console = console.clone();
    panic::set_hook(Box::new(move |fault| {
        let place = fault.location().map(|place| format!(" at {}:{}", place.file(), place.line()));
        let what = fault.payload_as_str().unwrap_or("no message");
        let title = format!("this is a fault of bakeoff itself{}: {what}", place.unwrap_or_default());
        console.error(
            &title,
            "please report it with the command line and the recipe; what was recorded is safe",
        );
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_of_a_wrong_command_line_are_those_that_it_asks_for() {
        let asked = |line: &str| colours_asked(line.split(' ').map(OsString::from));
        assert_eq!(asked("runn --color never"), ColourChoice::Never);
        assert_eq!(asked("--color=always runn"), ColourChoice::Always);
        assert_eq!(asked("run --color"), ColourChoice::Auto);
        assert_eq!(asked("run --color blue"), ColourChoice::Auto);
    }
}
