//! The plan of a sweep, reassembled from its rows.

use crate::StoreError;
use crate::sql::document::from_json;
use crate::sql::from_row::from_row;
use crate::sql::value::{seed_of, uint};
use recipe::{AxisValue, Cell, KeyValue, Plan, Run, RunSpec, SharedBy};
use sqlx::sqlite::SqliteConnection;
use std::collections::BTreeMap;

/// Equal to the plan that was recorded.
pub(crate) async fn plan_of(connection: &mut SqliteConnection, sweep: i64) -> Result<Plan, StoreError> {
    let (frame, source): (String, String) = sqlx::query_as(
        "SELECT sweep.plan, recipe.source FROM sweep JOIN recipe ON recipe.id = sweep.recipe WHERE sweep.id = ?",
    )
    .bind(sweep)
    .fetch_one(&mut *connection)
    .await?;
    let frame: Plan = from_json("plan", &frame)?;
    Ok(Plan {
        source,
        cells: cells_of(connection, sweep).await?,
        values: values_of(connection, sweep).await?,
        runs: runs_of(connection, sweep).await?,
        ..frame
    })
}

from_row! {
    struct CellColumns {
        id: i64,
        arm: i64,
        condition: String,
        label: String,
        excluded: Option<String>,
        sha256: String,
        spec: String,
    }
}

async fn cells_of(connection: &mut SqliteConnection, sweep: i64) -> Result<Vec<Cell>, StoreError> {
    let mut axes = axes_of(connection, sweep).await?;
    let rows: Vec<CellColumns> = sqlx::query_as(
        "SELECT cell.id, arm, condition, label, excluded, sha256, spec FROM cell \
         JOIN config ON config.id = cell.config WHERE sweep = ? ORDER BY position",
    )
    .bind(sweep)
    .fetch_all(connection)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(Cell {
                arm: row.arm as usize,
                condition: row.condition,
                label: row.label,
                axes: axes.remove(&row.id).unwrap_or_default(),
                spec: from_json::<RunSpec>("configuration", &row.spec)?,
                config_hash: row.sha256,
                excluded: row.excluded,
            })
        })
        .collect()
}

async fn axes_of(
    connection: &mut SqliteConnection,
    sweep: i64,
) -> Result<BTreeMap<i64, Vec<AxisValue>>, StoreError> {
    let rows: Vec<(i64, String, String, Option<f64>)> = sqlx::query_as(
        "SELECT cell_axis.cell, path, text, number FROM cell JOIN cell_axis ON cell_axis.cell = cell.id \
         WHERE cell.sweep = ? ORDER BY cell_axis.cell, cell_axis.position",
    )
    .bind(sweep)
    .fetch_all(connection)
    .await?;
    let mut axes: BTreeMap<i64, Vec<AxisValue>> = BTreeMap::new();
    for (cell, path, text, number) in rows {
        axes.entry(cell).or_default().push(AxisValue { path, text, number });
    }
    Ok(axes)
}

from_row! {
    struct ValueColumns {
        arm: Option<i64>,
        cell: Option<i64>,
        path: String,
        text: String,
        number: Option<f64>,
    }
}

impl ValueColumns {
    fn row(self) -> KeyValue {
        let of = match (self.arm, self.cell) {
            (_, Some(cell)) => SharedBy::Cell(uint(cell) as usize),
            (Some(arm), None) => SharedBy::Arm(uint(arm) as usize),
            (None, None) => SharedBy::Plan,
        };
        KeyValue { path: self.path, text: self.text, number: self.number, of }
    }
}

/// The values of all keys of a sweep; none of one of an earlier version.
pub(crate) async fn values_of(
    connection: &mut SqliteConnection,
    sweep: i64,
) -> Result<Vec<KeyValue>, StoreError> {
    let rows: Vec<ValueColumns> =
        sqlx::query_as("SELECT arm, cell, path, text, number FROM key_value WHERE sweep = ? ORDER BY id")
            .bind(sweep)
            .fetch_all(connection)
            .await?;
    Ok(rows.into_iter().map(ValueColumns::row).collect())
}

async fn runs_of(connection: &mut SqliteConnection, sweep: i64) -> Result<Vec<Run>, StoreError> {
    let rows: Vec<(i64, u32, String)> = sqlx::query_as(
        "SELECT cell.position, repeat, seed FROM run JOIN cell ON cell.id = run.cell WHERE run.sweep = ? \
         ORDER BY run.position",
    )
    .bind(sweep)
    .fetch_all(connection)
    .await?;
    rows.into_iter()
        .map(|(cell, repeat, seed)| Ok(Run { cell: cell as usize, repeat, seed: seed_of(&seed)? }))
        .collect()
}
