//! Words for people: data goes to standard output, talk to standard error.

pub(crate) mod human;
pub(crate) mod paint;
pub(crate) mod table;
mod talk;

pub(crate) use talk::{Loudness, Talk};

use crate::exit::Failure;
use std::io::Write;

/// Where nothing says how wide the terminal is.
const USUAL_WIDTH: usize = 80;

/// Columns of the terminal: `COLUMNS`, else what the terminal says.
pub(crate) fn width() -> usize {
    let named = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
    let asked = || {
        let size = rustix::termios::tcgetwinsize(std::io::stderr())
            .or_else(|_| rustix::termios::tcgetwinsize(std::io::stdout()));
        size.ok().map(|size| usize::from(size.ws_col))
    };
    named.filter(|columns| *columns > 0).or_else(asked).filter(|columns| *columns > 0).unwrap_or(USUAL_WIDTH)
}

/// Writes data to standard output; a missing end of line is added.
pub(crate) fn data(text: &str) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') && !text.is_empty() {
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// Writes a value as indented JSON.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| {
        Failure::new(crate::exit::Exit::Internal, format!("this has no JSON form: {error}"))
    })?;
    data(&text)
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
