//! The bars of a terminal: one for the sweep, a line for each run under way.

use crate::durations::Estimate;
use crate::output::{self, human};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Spinner and space before the line of the run.
const MARGIN: usize = 3;

/// Lines for runs under way; of more runs only the number is shown.
const MOST_LINES: usize = 8;

/// The bars of a sweep.
pub(crate) struct Bars {
    all: MultiProgress,
    /// A line for each run under way, at least one, above the sweep's.
    runs: Mutex<Vec<ProgressBar>>,
    sweep: ProgressBar,
}

impl Bars {
    /// Draws the sweep's bar.
    pub(crate) fn new(bars: &MultiProgress) -> Self {
        let sweep = bars.add(ProgressBar::new(0));
        sweep.set_style(style("  {bar:10.green} {pos}/{len} runs  {wide_msg}"));
        let first = spinner(bars, &sweep);
        sweep.tick();
        Self { all: bars.clone(), runs: Mutex::new(vec![first]), sweep }
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

    /// The lines of the runs under way, each made for the width that there is.
    pub(crate) fn runs(&self, count: usize, line: impl Fn(usize, usize) -> String) {
        let mut runs = self.lines();
        let shown = if count > MOST_LINES { MOST_LINES - 1 } else { count };
        let lines = count.clamp(1, MOST_LINES);
        while runs.len() < lines {
            let next = spinner(&self.all, &self.sweep);
            runs.push(next);
        }
        for surplus in runs.drain(lines..) {
            surplus.finish_and_clear();
            self.all.remove(&surplus);
        }
        let width = output::width().saturating_sub(MARGIN);
        for (place, bar) in runs.iter().enumerate() {
            bar.set_message(if place < shown {
                line(place, width)
            } else if count > shown {
                format!("and {}", human::count(count - shown, "more run"))
            } else {
                // No run is under way.
                String::new()
            });
        }
    }

    fn lines(&self) -> std::sync::MutexGuard<'_, Vec<ProgressBar>> {
        // Lines have no invariant that a panic could have broken.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the bars off the terminal.
    pub(crate) fn clear(&self) {
        self.lines().iter().for_each(ProgressBar::finish_and_clear);
        self.sweep.finish_and_clear();
    }
}

/// A line above the sweep's bar.
fn spinner(bars: &MultiProgress, sweep: &ProgressBar) -> ProgressBar {
    let run = bars.insert_before(sweep, ProgressBar::new_spinner());
    run.set_style(style("{spinner} {msg}"));
    run.enable_steady_tick(Duration::from_millis(200));
    run
}

fn style(template: &str) -> ProgressStyle {
    // The templates are constants; an invalid one would only look plain.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
