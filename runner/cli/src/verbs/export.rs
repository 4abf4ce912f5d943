//! `bakeoff export`: measurements for other programs.

use super::Context;
use crate::exit::{Exit, Failure};
use crate::output;
use clap::{Args, ValueEnum, ValueHint};
use serde_json::{Map, Value as Json};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use store::{Export, ExportTable, Selection, Store, Value};

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff export last --format csv > runs.csv
  bakeoff export \"arm=d-sync\" --format jsonl --what metrics -o metrics.jsonl
  bakeoff export last --format csv --what steps -o steps.csv

Units stand in the names of the columns. A loss that is not a number is an
empty field, with is_finite = 0.";

/// Arguments of `export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Which runs.
    #[arg(value_name = "EXPR")]
    selection: String,
    /// How it is written.
    #[arg(long, value_name = "FORMAT")]
    format: Format,
    /// What is written.
    #[arg(long, value_name = "TABLE", default_value = "runs")]
    what: Table,
    /// Where it goes; standard output where nothing is said.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
}

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A head, then a line per row.
    Csv,
    /// A JSON object per line.
    Jsonl,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Table {
    /// A row per run.
    Runs,
    /// A row per evaluation.
    Metrics,
    /// A row per step, rank and lane, with the time in each phase.
    Steps,
    /// A row per rank, lane and phase.
    Phases,
}

/// Exports.
pub(crate) fn execute(args: &ExportArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let selection = Selection::parse(&args.selection)?;
    let table = match args.what {
        Table::Runs => ExportTable::Runs,
        Table::Metrics => ExportTable::Metrics,
        Table::Steps => ExportTable::Steps,
        Table::Phases => ExportTable::Phases,
    };
    super::wait(async {
        let store = Store::open_existing(&context.global.store).await?;
        let export = store.export(table, &selection).await?;
        match &args.output {
            None => copy(export, &table.columns(), args.format, &mut anstream::stdout().lock()).await?,
            Some(path) => {
                let fault = |error: std::io::Error| {
                    Failure::new(Exit::Internal, format!("{} cannot be written: {error}", path.display()))
                };
                let mut file = BufWriter::new(File::create(path).map_err(fault)?);
                copy(export, &table.columns(), args.format, &mut file).await?;
                file.flush().map_err(fault)?;
            }
        }
        store.close().await;
        Ok(Exit::Done)
    })
}

/// A page at a time, so that size is no matter.
async fn copy(
    mut export: Export,
    columns: &[String],
    format: Format,
    out: &mut impl Write,
) -> Result<(), Failure> {
    if format == Format::Csv {
        out.write_all(output::csv_line(columns.iter().map(String::as_str)).as_bytes())?;
    }
    while let Some(rows) = export.next_page().await? {
        for row in rows {
            let line = match format {
                Format::Csv => {
                    let fields: Vec<String> = row.iter().map(field).collect();
                    output::csv_line(fields.iter().map(String::as_str))
                }
                Format::Jsonl => {
                    let object: Map<String, Json> =
                        columns.iter().cloned().zip(row.into_iter().map(json)).collect();
                    format!("{}\n", Json::Object(object))
                }
            };
            out.write_all(line.as_bytes())?;
        }
    }
    Ok(out.flush()?)
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
