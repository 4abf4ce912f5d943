//! The one writer of standard error: lines and progress bars never destroy each other.

use super::paint::{BAD, ODD, STRONG, paint};
use super::{calm, width, wrap};
use crate::exit::Failure;
use indicatif::{MultiProgress, ProgressDrawTarget};
use recipe::spelled_out;
use std::io::{self, IsTerminal, Write};

/// How much is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Loudness {
    /// Only errors and warnings.
    Quiet,
    /// Also the progress of the work.
    Usual,
    /// Also causes of errors and activities of the parts.
    Verbose,
}

/// Standard error. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Console {
    bars: MultiProgress,
    loudness: Loudness,
}

impl Console {
    /// No bars are drawn until [`Console::show_bars`].
    pub(crate) fn new(loudness: Loudness) -> Self {
        Self { bars: MultiProgress::with_draw_target(ProgressDrawTarget::hidden()), loudness }
    }

    /// How much is printed.
    pub(crate) fn loudness(&self) -> Loudness {
        self.loudness
    }

    /// The bars, drawn from now on.
    pub(crate) fn show_bars(&self) -> &MultiProgress {
        self.bars.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        &self.bars
    }

    /// A line for the user, unless asked to be quiet.
    pub(crate) fn say(&self, line: &str) {
        if self.loudness > Loudness::Quiet {
            self.write(line);
        }
    }

    /// A line for the user who asked for more.
    pub(crate) fn detail(&self, line: &str) {
        if self.loudness == Loudness::Verbose {
            self.write(line);
        }
    }

    /// A warning with its cure.
    pub(crate) fn warn(&self, what: &str, cure: &str) {
        self.write(&sentence(&paint(ODD, "warning"), what, cure));
    }

    /// An error with its cure.
    pub(crate) fn error(&self, what: &str, cure: &str) {
        self.write(&sentence(&paint(BAD, "error"), what, cure));
    }

    /// A failure; its causes too for the user who asked for more.
    pub(crate) fn failure(&self, failure: &Failure) {
        let Failure::Fault { error, cure, .. } = failure else { return };
        self.error(&error.to_string(), cure.as_deref().unwrap_or_default());
        if self.loudness == Loudness::Verbose {
            let mut said = error.to_string();
            for cause in error.chain().skip(1).map(ToString::to_string) {
                // Most errors quote their cause.
                if !said.contains(&cause) {
                    self.write(&format!("  {} {cause}", paint(STRONG, "because:")));
                }
                said = cause;
            }
        }
    }

    /// Writes a line even if asked to be quiet; long lines are wrapped, because a terminal would break them inside words.
    pub(crate) fn write(&self, line: &str) {
        let breaks = io::stderr().is_terminal() && !line.is_empty();
        let text = if breaks { wrap(line, width()) } else { format!("{line}\n") };
        self.write_text(&text);
    }

    fn write_text(&self, text: &str) {
        let text = calm(text);
        // A failure of standard error cannot be reported anywhere.
        self.bars.suspend(|| {
            let mut out = anstream::stderr().lock();
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        });
    }
}

/// A sentence that may quote anything: not even colours of its own are obeyed.
fn sentence(head: &str, what: &str, cure: &str) -> String {
    let cure = if cure.is_empty() { String::new() } else { format!("\n  = cure: {}", spelled_out(cure)) };
    format!("{head}: {}{cure}", spelled_out(what))
}

/// For the log of the program's parts: each write is whole lines.
impl Write for Console {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_text(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
