//! Output for people: data goes to standard output, everything else to standard error.

mod calm;
mod console;
pub(crate) mod human;
pub(crate) mod paint;
pub(crate) mod table;

pub(crate) use calm::calm;
pub(crate) use console::{Console, Loudness};

use crate::exit::Failure;
use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

/// The width if the terminal's is unknown.
const USUAL_WIDTH: usize = 80;

/// Columns that a text needs to be readable.
const LEAST: usize = 20;

/// Columns of the terminal: `COLUMNS`, else the terminal's own width.
pub(crate) fn width() -> usize {
    let named = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
    let asked = || {
        let size = rustix::termios::tcgetwinsize(std::io::stderr())
            .or_else(|_| rustix::termios::tcgetwinsize(std::io::stdout()));
        size.ok().map(|size| usize::from(size.ws_col))
    };
    named.filter(|columns| *columns > 0).or_else(asked).filter(|columns| *columns > 0).unwrap_or(USUAL_WIDTH)
}

/// Writes data to standard output; a missing end of line is added. A file or another program gets them as they are.
pub(crate) fn data(text: &str) -> Result<(), Failure> {
    let text = if io::stdout().is_terminal() { Cow::from(calm(text)) } else { Cow::from(text) };
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') && !text.is_empty() {
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// Empties the terminal that data goes to, if it is one.
pub(crate) fn clear_screen() -> Result<(), Failure> {
    let out = io::stdout();
    if out.is_terminal() { Ok(out.lock().write_all(b"\x1b[H\x1b[J")?) } else { Ok(()) }
}

/// Writes a value as indented JSON.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| {
        Failure::new(crate::exit::Exit::Internal, format!("this has no JSON form: {error}"))
    })?;
    data(&text)
}

/// Breaks lines that are longer than `width` at spaces; what follows hangs below the line's last column.
pub(crate) fn wrap(text: &str, width: usize) -> String {
    text.lines().map(|line| hang(line, width) + "\n").collect()
}

fn hang(line: &str, width: usize) -> String {
    // A gap of two spaces or more begins a column.
    let gap = line.rfind("  ").map_or(0, |place| place + 2);
    let indent = line.get(..gap).map_or(0, |lead| lead.chars().count());
    if columns(line) <= width || indent + LEAST > width {
        return line.to_owned();
    }
    let (lead, rest) = line.split_at(gap);
    let lines = fold(rest, width - indent);
    format!("{lead}{}", lines.join(&format!("\n{}", " ".repeat(indent))))
}

/// Columns that a text takes; colours take none.
fn columns(text: &str) -> usize {
    anstream::adapter::strip_str(text).map(|plain| plain.chars().count()).sum()
}

/// Breaks a text at spaces, but not inside `n = 5` or `95 %`, into lines of at most `width` characters, where its
/// words allow.
pub(crate) fn fold(text: &str, width: usize) -> Vec<String> {
    let bound = text.replace(" = ", "\u{a0}=\u{a0}").replace(" %", "\u{a0}%").replace(" … ", "\u{a0}…\u{a0}");
    let mut lines = vec![String::new()];
    for word in bound.split([' ', '\n']).filter(|word| !word.is_empty()) {
        let full =
            lines.last().is_some_and(|line| !line.is_empty() && columns(line) + 1 + columns(word) > width);
        if full {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(&word.replace('\u{a0}', " "));
        }
    }
    lines
}

/// At most `width` characters; a cut shows.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// A word as it is written on a command line of a shell.
pub(crate) fn shell_word(word: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "-_./=,:@%+".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// One line of CSV (RFC 4180), with its end.
pub(crate) fn csv_line<'a>(fields: impl IntoIterator<Item = &'a str>) -> String {
    let quoted = |field: &str| {
        if field.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field.to_owned()
        }
    };
    let mut line = fields.into_iter().map(quoted).collect::<Vec<_>>().join(",");
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_at_spaces_and_long_words_stay_whole() {
        assert_eq!(fold("one two three", 7), ["one two", "three"]);
        assert_eq!(fold("extraordinary word", 5), ["extraordinary", "word"]);
        assert_eq!(fold("", 5), [""]);
        assert_eq!(fold("(95 % CI, n = 5)", 8), ["(95 %", "CI,", "n = 5)"]);
    }

    #[test]
    fn words_are_quoted_where_a_shell_would_read_more_into_them() {
        assert_eq!(shell_word("runs/my-recipe.toml"), "runs/my-recipe.toml");
        assert_eq!(shell_word("my recipe.toml"), "'my recipe.toml'");
        assert_eq!(shell_word("it's;rm"), r"'it'\''s;rm'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn what_does_not_fit_hangs_below_its_column() {
        let text = "  key    a sentence that is longer than it may be\n\nshort\n";
        assert_eq!(wrap(text, 30), "  key    a sentence that is\n         longer than it may be\n\nshort\n");
        assert_eq!(wrap(text, 80), text);
        assert_eq!(wrap(text, 12), text);
        // Colours take no room.
        let painted = "\u{1b}[1m\u{1b}[31mthirty columns of painted text\u{1b}[0m\n";
        assert_eq!(wrap(painted, 30), painted);
        assert_eq!(wrap(painted, 25).lines().next(), Some("\u{1b}[1m\u{1b}[31mthirty columns of painted"));
    }

    #[test]
    fn fields_with_commas_and_quotes_are_quoted() {
        assert_eq!(csv_line(["a", "b,c", "say \"d\""]), "a,\"b,c\",\"say \"\"d\"\"\"\n");
    }
}
