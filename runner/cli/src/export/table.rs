//! Tables as CSV or JSON lines: a page at a time, so that size is no matter.

use crate::exit::Failure;
use crate::output;
use serde_json::{Map, Value as Json};
use std::io::Write;
use store::{Export, Value};

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lines {
    /// A head, then a line per row.
    Csv,
    /// A JSON object per line.
    Json,
}

/// Writes a whole table.
pub(crate) async fn write(
    mut export: Export,
    columns: &[String],
    lines: Lines,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if lines == Lines::Csv {
        out.write_all(output::csv_line(columns.iter().map(String::as_str)).as_bytes())?;
    }
    while let Some(rows) = export.next_page().await? {
        for row in rows {
            out.write_all(line(row, columns, lines).as_bytes())?;
        }
    }
    Ok(())
}

/// A row as a line of its own.
pub(crate) fn line(row: Vec<Value>, columns: &[String], lines: Lines) -> String {
    match lines {
        Lines::Csv => {
            let fields: Vec<String> = row.iter().map(field).collect();
            output::csv_line(fields.iter().map(String::as_str))
        }
        Lines::Json => {
            let object: Map<String, Json> = columns.iter().cloned().zip(row.into_iter().map(json)).collect();
            format!("{}\n", Json::Object(object))
        }
    }
}

fn field(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => text.clone(),
    }
}

fn json(value: Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Integer(number) => number.into(),
        Value::Real(number) => number.into(),
        Value::Text(text) => text.into(),
    }
}
