//! Sweeps of a store that asked what a sweep of a bundle asks, and where they were made.

use super::content::Content;
use crate::read::earlier::provenances_of;
use crate::read::plan::values_of;
use crate::sql::document::{from_json, to_json};
use crate::sql::from_row::from_row;
use crate::sql::value::uint;
use crate::{NodeRow, StoreError};
use recipe::{Configuration, Configurations, Provenance, SharedValues};
use serde::Serialize;
use sqlx::sqlite::SqliteConnection;

/// The most that are named for one sweep.
const MOST: u32 = 3;

/// A sweep of the store that has configurations in common with another one, or at least its name.
#[derive(Clone, Debug, Serialize)]
pub struct AlikeSweep {
    /// ULID of the sweep.
    pub sweep: String,
    /// Name of its recipe.
    pub recipe: String,
    /// Start, in seconds since 1970.
    pub started: i64,
    /// Version of its driver.
    pub version: String,
    /// Whether it was imported.
    pub imported: bool,
    /// Number of configurations that both have.
    pub shared: u32,
    /// The machines of its ranks.
    pub machines: Vec<NodeRow>,
    /// Distinct provenances of its attempts, which decide their numbers together with the configurations.
    pub surroundings: Vec<Provenance>,
    /// Where no configuration is shared: arm and condition of a cell that both have, with what runs there.
    #[serde(skip)]
    pub cell: Option<AlikeCell>,
}

/// A cell that two sweeps have with different settings.
#[derive(Clone, Debug)]
pub struct AlikeCell {
    /// Its arm and its condition.
    pub label: String,
    /// In the sweep of the store.
    pub here: Configuration,
    /// In the sweep of the bundle.
    pub there: Configuration,
}

from_row! {
    struct Columns {
        id: i64,
        ulid: String,
        name: String,
        started_unix: i64,
        version: String,
        imported: bool,
        shared: u32,
    }
}

/// The sweeps outside of the bundle that have the most configurations in common with this one; else the newest one of the same name.
pub(super) async fn alike(
    connection: &mut SqliteConnection,
    content: &Content,
    bundle: &[Content],
) -> Result<Vec<AlikeSweep>, StoreError> {
    let plan = &content.entry.plan;
    let hashes: Vec<&str> = plan.cells.iter().map(|cell| cell.config_hash.as_str()).collect();
    let siblings: Vec<&str> = bundle.iter().map(|content| content.entry.sweep.as_str()).collect();
    let rows: Vec<Columns> = sqlx::query_as(
        "SELECT sweep.id, sweep.ulid, sweep.name, started_unix, version, imported_unix IS NOT NULL AS imported, \
         count(DISTINCT CASE WHEN config.sha256 IN (SELECT value FROM json_each(?1)) THEN config.id END) AS shared \
         FROM sweep JOIN cell ON cell.sweep = sweep.id JOIN config ON config.id = cell.config \
         WHERE sweep.ulid NOT IN (SELECT value FROM json_each(?2)) GROUP BY sweep.id HAVING shared > 0 OR sweep.name = ?3 \
         ORDER BY shared DESC, sweep.ulid DESC LIMIT ?4",
    )
    .bind(to_json("configuration hashes", &hashes)?)
    .bind(to_json("list of sweeps", &siblings)?)
    .bind(&plan.name)
    .bind(MOST)
    .fetch_all(&mut *connection)
    .await?;
    let sharing = rows.iter().filter(|row| row.shared > 0).count();
    let mut found = Vec::new();
    for row in rows.into_iter().take(sharing.max(1)) {
        found.push(described(connection, content, row).await?);
    }
    Ok(found)
}

async fn described(
    connection: &mut SqliteConnection,
    content: &Content,
    row: Columns,
) -> Result<AlikeSweep, StoreError> {
    let machines: Vec<(String, String, String, String, u32, i64)> = sqlx::query_as(
        "SELECT DISTINCT node.name, host, system, processor, cores, memory FROM run JOIN shown ON shown.run = run.id \
         JOIN rank ON rank.attempt = shown.attempt JOIN node ON node.id = rank.node WHERE run.sweep = ? ORDER BY node.id",
    )
    .bind(row.id)
    .fetch_all(&mut *connection)
    .await?;
    let machine = |(name, host, system, processor, cores, memory)| NodeRow {
        name,
        host,
        system,
        processor,
        cores,
        memory: uint(memory),
    };
    let cell = if row.shared == 0 { common_cell(connection, content, row.id).await? } else { None };
    Ok(AlikeSweep {
        sweep: row.ulid,
        recipe: row.name,
        started: row.started_unix,
        version: row.version,
        imported: row.imported,
        shared: row.shared,
        machines: machines.into_iter().map(machine).collect(),
        surroundings: provenances_of(connection, row.id).await?,
        cell,
    })
}

/// The first cell that both sweeps have by arm and condition.
async fn common_cell(
    connection: &mut SqliteConnection,
    content: &Content,
    sweep: i64,
) -> Result<Option<AlikeCell>, StoreError> {
    let cells: Vec<CellColumns> = sqlx::query_as(
        "SELECT arm, position, label, spec FROM cell JOIN config ON config.id = cell.config WHERE cell.sweep = ? ORDER BY position",
    )
    .bind(sweep)
    .fetch_all(&mut *connection)
    .await?;
    let values = values_of(connection, sweep).await?;
    let there = Configurations::of(&content.entry.plan);
    for (index, cell) in content.entry.plan.cells.iter().enumerate() {
        let own = cells.iter().find(|own| own.label == cell.label);
        let Some((own, there)) = own.zip(there.of_cell(index)) else { continue };
        let here = Configuration {
            values: SharedValues::of(&values).of_cell(uint(own.arm) as usize, uint(own.position) as usize),
            spec: from_json("configuration", &own.spec)?,
        };
        return Ok(Some(AlikeCell { label: own.label.clone(), here, there }));
    }
    Ok(None)
}

from_row! {
    struct CellColumns {
        arm: i64,
        position: i64,
        label: String,
        spec: String,
    }
}
