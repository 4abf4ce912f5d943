//! FetchProgress of a download: a bar with speed and remaining time on a terminal, else a line per source.

use crate::args::ProgressChoice;
use crate::output::{Console, Loudness, human};
use datasets::{FetchProgress, PublicDataSet};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// A data set on its way.
pub(crate) struct Transfer {
    console: Console,
    bar: Option<ProgressBar>,
    title: &'static str,
    /// The address shown last: a retry of it is not shown again.
    asked: String,
}

impl Transfer {
    /// Nothing has come yet.
    pub(crate) fn begin(choice: ProgressChoice, console: &Console, set: &'static PublicDataSet) -> Self {
        let bar = match choice {
            ProgressChoice::Auto => std::io::stderr().is_terminal() && console.loudness() > Loudness::Quiet,
            ProgressChoice::Bar => true,
            ProgressChoice::Plain | ProgressChoice::None => false,
        };
        let bar = bar.then(|| {
            let bar = console.show_bars().add(ProgressBar::no_length());
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self { console: console.clone(), bar, title: set.title, asked: String::new() }
    }

    /// Shows the next step of the fetch, on the bar or as a line.
    pub(crate) fn show(&mut self, step: &FetchProgress<'_>) {
        match step {
            FetchProgress::Here { archive } => {
                self.console.detail(&format!("{}: there, and as published", archive.name));
            }
            FetchProgress::Source { archive, url, have } => {
                let rest = if *have > 0 {
                    format!(", of which {} are here", human::bytes(*have))
                } else {
                    String::new()
                };
                let title = self.title;
                let size = human::bytes(archive.bytes);
                let line = format!("{title}: fetching {size}{rest}: {url}");
                match &self.bar {
                    Some(bar) => {
                        bar.set_style(style("{spinner} {msg}  {bar:20.green} {bytes}/{total_bytes}  {bytes_per_sec}, {eta} left"));
                        bar.set_message(archive.name);
                        bar.set_length(archive.bytes);
                        bar.set_position(*have);
                        // Bytes of an earlier download are no part of this one's speed.
                        bar.reset_eta();
                        self.console.detail(&line);
                    }
                    // A retry of the same address was shown already.
                    None if self.asked == *url => {}
                    None => self.console.say(&line),
                }
                (*url).clone_into(&mut self.asked);
            }
            FetchProgress::Received { bytes } => {
                if let Some(bar) = &self.bar {
                    bar.set_position(*bytes);
                }
            }
            FetchProgress::Again { reason } => self.console.say(&format!("note: {reason}; trying again")),
            FetchProgress::Refused { refusal } => self.console.say(&format!("note: {refusal}")),
            FetchProgress::Unpacking { archive } => {
                let line = format!("{}: as published; unpacking", archive.name);
                match &self.bar {
                    Some(bar) => {
                        bar.set_style(style("{spinner} {msg}"));
                        bar.set_message(line);
                    }
                    None => self.console.detail(&line),
                }
            }
        }
    }

    /// Takes the bar off the terminal.
    pub(crate) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates are constants; an invalid one would only look plain.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
