//! Tables as CSV or JSON lines: a page at a time, so that size is no matter.

use crate::exit::Failure;
use crate::output;
use clap::ValueEnum;
use serde_json::{Map, Value as Json};
use std::io::Write;
use store::{Export, ExportTable, Value};

/// The table or file to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Table {
    /// A row per run.
    Runs,
    /// A row per evaluation.
    Metrics,
    /// A row per step, rank and lane, with the time in each phase.
    Steps,
    /// A row per rank, lane and phase.
    Phases,
    /// A row per machine and reading of its counters.
    Hosts,
    /// A row per rank, lane, phase and range of times: how many steps took so long.
    Histograms,
    /// A row per sample of a step, of one run.
    Samples,
    /// The events that the ranks reported, as JSON lines only.
    Events,
    /// A row per arm, condition and measure: what the page says of them.
    Verdicts,
}

impl Table {
    /// Where the store has it; `None` for tables that are made of something else.
    pub(crate) fn stored(self) -> Option<ExportTable> {
        match self {
            Self::Runs => Some(ExportTable::Runs),
            Self::Metrics => Some(ExportTable::Metrics),
            Self::Steps => Some(ExportTable::Steps),
            Self::Phases => Some(ExportTable::Phases),
            Self::Hosts => Some(ExportTable::Hosts),
            Self::Histograms => Some(ExportTable::Histograms),
            Self::Samples | Self::Events | Self::Verdicts => None,
        }
    }
}

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
