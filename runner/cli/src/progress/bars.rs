//! The bars of a terminal: one for the sweep, a line for the run under way.

use crate::durations::Estimate;
use crate::output::{self, human};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::time::Duration;

/// Spinner and space before the line of the run.
const MARGIN: usize = 3;

/// The bars of a sweep.
pub(crate) struct Bars {
    run: ProgressBar,
    sweep: ProgressBar,
}

impl Bars {
    /// Draws the sweep's bar.
    pub(crate) fn new(bars: &MultiProgress) -> Self {
        let run = bars.add(ProgressBar::new_spinner());
        run.set_style(style("{spinner} {msg}"));
        run.enable_steady_tick(Duration::from_millis(200));
        let sweep = bars.add(ProgressBar::new(0));
        sweep.set_style(style("  {bar:24.green} {pos}/{len} runs  {msg}"));
        sweep.tick();
        Self { run, sweep }
    }

    /// Records how many runs there are.
    pub(crate) fn length(&self, total: usize) {
        self.sweep.set_length(total as u64);
    }

    /// Records how many runs have ended.
    pub(crate) fn sweep(&self, ended: usize, elapsed: Duration, left: Option<&Estimate>) {
        let left = left
            .map(|left| format!(", about {} left {}", human::whole(left.length), left.by()))
            .unwrap_or_default();
        self.sweep.set_position(ended as u64);
        self.sweep.set_message(format!("{}{left}", human::whole(elapsed)));
    }

    /// The line of the run under way, made for the width that there is.
    pub(crate) fn run(&self, line: impl Fn(usize) -> String) {
        self.run.set_message(line(output::width().saturating_sub(MARGIN)));
    }

    /// No run is under way.
    pub(crate) fn no_run(&self) {
        self.run.set_message("");
    }

    /// Takes the bars off the terminal.
    pub(crate) fn clear(&self) {
        self.run.finish_and_clear();
        self.sweep.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates are constants; an invalid one would only look plain.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
