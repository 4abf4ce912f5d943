//! Files on their way to hosts: a bar for each on a terminal, else a line.

use crate::args::ProgressChoice;
use crate::output::{Console, Loudness, human};
use indicatif::{ProgressBar, ProgressStyle};
use launch::Upload;
use std::collections::BTreeMap;
use std::io::IsTerminal;

/// Smaller files are sent without a word.
const LARGE: u64 = 4 << 20;

/// The display of uploads.
pub(crate) struct Sending {
    console: Console,
    bars: bool,
    /// By host and file.
    open: BTreeMap<(String, String), Option<ProgressBar>>,
}

impl Sending {
    /// Nothing is on its way yet.
    pub(crate) fn begin(choice: ProgressChoice, console: &Console) -> Self {
        let bars = match choice {
            ProgressChoice::Auto => std::io::stderr().is_terminal() && console.loudness() > Loudness::Quiet,
            ProgressChoice::Bar => true,
            ProgressChoice::Plain | ProgressChoice::None => false,
        };
        Self { console: console.clone(), bars, open: BTreeMap::new() }
    }

    /// A piece was sent.
    pub(crate) fn show(&mut self, upload: &Upload) {
        let Upload { host, file, sent, size } = upload;
        if *size < LARGE {
            return;
        }
        let console = &self.console;
        let bars = self.bars;
        let bar = self.open.entry((host.clone(), file.clone())).or_insert_with(|| {
            let title = format!("{host}: sending {file}");
            if !bars {
                console.say(&format!("{title}, {}", human::bytes(*size)));
                return None;
            }
            let bar = console.show_bars().add(ProgressBar::new(*size));
            let style = "{msg}  {bar:20.green} {bytes}/{total_bytes}  {bytes_per_sec}, {eta} left";
            // The template is a constant; an invalid one would only look plain.
            bar.set_style(
                ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar.set_message(title);
            Some(bar)
        });
        if let Some(bar) = bar {
            bar.set_position(*sent);
            if sent == size {
                bar.finish_and_clear();
            }
        }
    }

    /// Removes unfinished bars from the terminal.
    pub(crate) fn finish(self) {
        for bar in self.open.into_values().flatten() {
            bar.finish_and_clear();
        }
    }
}
