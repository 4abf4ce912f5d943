//! The colours of the output. They only repeat the words, and are stripped where the output is not a terminal.

use anstyle::{AnsiColor, Style};
use std::fmt::Display;
use store::RunState;

/// Style of headings and names.
pub(crate) const STRONG: Style = Style::new().bold();
/// Style of successes, such as runs that are done.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// Style of failures, such as errors.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// Style of texts that deserve a look, such as warnings.
pub(crate) const ODD: Style = AnsiColor::Yellow.on_default();
/// Style of secondary texts.
pub(crate) const FAINT: Style = Style::new().dimmed();
/// Style of all other texts: the terminal's own.
pub(crate) const PLAIN: Style = Style::new();

/// A text in a style.
pub(crate) fn paint(style: Style, text: impl Display) -> String {
    if style.is_plain() { text.to_string() } else { format!("{style}{text}{style:#}") }
}

/// How a state looks.
pub(crate) fn state_style(state: RunState) -> Style {
    match state {
        RunState::Done => GOOD,
        RunState::Failed | RunState::TimedOut => BAD,
        RunState::Degraded | RunState::Diverged | RunState::Interrupted => ODD,
        RunState::Pending | RunState::NotNeeded => FAINT,
        RunState::Running => PLAIN,
    }
}
