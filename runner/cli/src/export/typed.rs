//! Tables whose columns have types: which values a table has, and two passes over them.

use super::parquet::{Kind, ParquetFile, learn};
use super::table::Table;
use super::{create, samples, verdicts};
use crate::exit::Failure;
use std::path::Path;
use store::{ExportTable, Selection, Store, Value};

/// Writes a table as Parquet.
pub(crate) async fn write(
    store: &Store,
    selection: &Selection,
    table: Table,
    file: &Path,
) -> Result<(), Failure> {
    match table {
        Table::Samples => {
            let ids = samples::of_selection(store, selection).await?;
            let columns: Vec<String> = samples::COLUMNS.iter().map(|name| (*name).to_owned()).collect();
            whole(&columns, samples::values(&ids).collect(), file)
        }
        Table::Verdicts => {
            let rows = verdicts::of_selection(store, selection).await?;
            let table = verdicts::whole(rows);
            whole(&table.columns, table.rows, file)
        }
        table => stored(store, selection, table.stored().unwrap_or(ExportTable::Runs), file).await,
    }
}

/// A table that is in memory.
fn whole(columns: &[String], rows: Vec<Vec<Value>>, file: &Path) -> Result<(), Failure> {
    let mut kinds = vec![Kind::default(); columns.len()];
    learn(&mut kinds, &rows);
    let mut out = ParquetFile::begin(create(file)?, columns, kinds)?;
    rows.into_iter().try_for_each(|row| out.row(row))?;
    out.finish()
}

/// A table of the store, page by page.
async fn stored(
    store: &Store,
    selection: &Selection,
    table: ExportTable,
    file: &Path,
) -> Result<(), Failure> {
    let columns = table.columns();
    let mut kinds = vec![Kind::default(); columns.len()];
    let mut export = store.export(table, selection).await?;
    while let Some(rows) = export.next_page().await? {
        learn(&mut kinds, &rows);
    }
    let mut export = store.export(table, selection).await?;
    let mut out = ParquetFile::begin(create(file)?, &columns, kinds)?;
    while let Some(rows) = export.next_page().await? {
        rows.into_iter().try_for_each(|row| out.row(row))?;
    }
    out.finish()
}
