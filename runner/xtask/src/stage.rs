//! Named, timed stages of a chore, and the table that sums them up.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::Result;

/// How a stage ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed,
}

/// The stages so far, and the skipped ones.
#[derive(Default)]
pub(crate) struct Stages {
    done: Vec<(String, Outcome, Duration)>,
    not_run: Vec<String>,
}

impl Stages {
    /// Announces `name`, does `work`, and notes how it ended and how long it took.
    pub(crate) fn perform<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        println!("\n==> {name}");
        let start = Instant::now();
        let result = work();
        let outcome = if result.is_ok() { Outcome::Passed } else { Outcome::Failed };
        self.done.push((name.to_owned(), outcome, start.elapsed()));
        result
    }

    /// Notes something that was left out, with the reason and the cure.
    pub(crate) fn leave_out(&mut self, what: impl Into<String>) {
        self.not_run.push(what.into());
    }

    /// Whether every stage passed.
    pub(crate) fn all_passed(&self) -> bool {
        self.done.iter().all(|(_, outcome, _)| *outcome == Outcome::Passed)
    }

    /// One line for each stage, their sum, and what did not run.
    pub(crate) fn summary(&self) -> String {
        let width = self.done.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        for (name, outcome, duration) in &self.done {
            let word = match outcome {
                Outcome::Passed => "passed",
                Outcome::Failed => "FAILED",
            };
            let _ = writeln!(text, "  {name:width$}  {word}  {:>8}", clock(*duration));
        }
        let sum = self.done.iter().map(|(_, _, duration)| *duration).sum();
        let _ = writeln!(text, "  {:width$}          {:>8}", "in all", clock(sum));
        for what in &self.not_run {
            let _ = writeln!(text, "  not run: {what}");
        }
        text
    }
}

/// A duration as a person reads it: `0.4 s`, `12.3 s`, `4:05 min`.
fn clock(duration: Duration) -> String {
    let tenths = (duration.as_secs_f64() * 10.0).round() as u64;
    if tenths < 600 {
        format!("{}.{} s", tenths / 10, tenths % 10)
    } else {
        let seconds = (tenths + 5) / 10;
        format!("{}:{:02} min", seconds / 60, seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks() {
        for (milliseconds, expected) in [
            (0, "0.0 s"),
            (449, "0.4 s"),
            (12_345, "12.3 s"),
            (59_949, "59.9 s"),
            (59_951, "1:00 min"),
            (60_000, "1:00 min"),
            (245_400, "4:05 min"),
            (3_661_000, "61:01 min"),
        ] {
            assert_eq!(clock(Duration::from_millis(milliseconds)), expected, "{milliseconds} ms");
        }
    }

    #[test]
    fn the_summary_lists_stages_in_order_and_what_was_left_out() {
        let mut stages = Stages {
            done: vec![
                ("format".into(), Outcome::Passed, Duration::from_millis(1_200)),
                ("all tests".into(), Outcome::Failed, Duration::from_secs(100)),
            ],
            not_run: Vec::new(),
        };
        stages.leave_out("browser tests (no Chromium)");
        let expected = "  format     passed     1.2 s\n  \
                          all tests  FAILED  1:40 min\n  \
                          in all             1:41 min\n  \
                          not run: browser tests (no Chromium)\n";
        assert_eq!(stages.summary(), expected);
        assert!(!stages.all_passed());
    }

    #[test]
    fn a_stage_that_fails_is_kept_and_its_error_handed_on() {
        let mut stages = Stages::default();
        stages.perform("good", || Ok(())).expect("passes");
        assert!(stages.all_passed());
        let error = stages.perform("bad", || anyhow::bail!("no")).map(|(): ()| ()).expect_err("fails");
        assert_eq!(error.to_string(), "no");
        assert_eq!(stages.done.len(), 2);
        assert!(!stages.all_passed());
    }
}
