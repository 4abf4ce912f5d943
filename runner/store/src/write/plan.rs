//! The rows of a plan: recipe, sweep, configurations, cells, axes, values of keys, runs.

use crate::StoreError;
use crate::journal::entries::SweepEntry;
use crate::sql::document::to_json;
use crate::sql::insert::{Target, insert};
use crate::sql::value::int;
use recipe::{Cell, KeyValue, Plan, Run, SharedBy, hex};
use sha2::{Digest, Sha256};
use sqlx::sqlite::SqliteConnection;
use std::collections::BTreeMap;

/// The row ids under which a plan is inserted: its cells follow one another from `first_cell`.
#[derive(Clone, Copy)]
struct Rows {
    sweep: i64,
    first_cell: i64,
}

/// Inserts a sweep with all its cells and runs.
pub(crate) async fn insert_plan(
    connection: &mut SqliteConnection,
    new: &SweepEntry,
) -> Result<(), StoreError> {
    let sweep = insert_sweep(connection, new).await?;
    let configs = insert_configs(connection, &new.plan.cells).await?;
    let first_cell = next_id(connection, "SELECT coalesce(max(id), 0) + 1 FROM cell").await?;
    let rows = Rows { sweep, first_cell };
    insert_cells(connection, &new.plan, &configs, rows).await?;
    insert_axes(connection, &new.plan.cells, rows).await?;
    insert_values(connection, &new.plan.values, rows.sweep).await?;
    insert_runs(connection, new, rows).await
}

async fn next_id(connection: &mut SqliteConnection, query: &'static str) -> Result<i64, StoreError> {
    Ok(sqlx::query_scalar(query).fetch_one(connection).await?)
}

async fn insert_sweep(connection: &mut SqliteConnection, new: &SweepEntry) -> Result<i64, StoreError> {
    let sha256 = hex(&Sha256::digest(&new.plan.source));
    sqlx::query("INSERT INTO recipe (sha256, source) VALUES (?, ?) ON CONFLICT (sha256) DO NOTHING")
        .bind(&sha256)
        .bind(&new.plan.source)
        .execute(&mut *connection)
        .await?;
    let frame = Plan {
        source: String::new(),
        cells: Vec::new(),
        values: Vec::new(),
        runs: Vec::new(),
        looks: new.plan.looks.clone(),
        search: new.plan.search.clone(),
        name: new.plan.name.clone(),
        question: new.plan.question.clone(),
        expanded: new.plan.expanded.clone(),
        arms: new.plan.arms.clone(),
        limits: new.plan.limits,
        hosts: new.plan.hosts,
        report: new.plan.report.clone(),
        warnings: new.plan.warnings.clone(),
    };
    let inserted = sqlx::query(
        "INSERT INTO sweep (ulid, recipe, recipe_path, name, question, plan, argv, version, git_commit, git_dirty, \
         state, started_unix, heartbeat_unix, driver_pid, driver_born, driver_host, driver_space) \
         SELECT ?, id, ?, ?, ?, ?, ?, ?, ?, ?, 'running', ?, ?, ?, ?, ?, ? FROM recipe WHERE sha256 = ?",
    )
    .bind(&new.sweep)
    .bind(&new.recipe_path)
    .bind(&new.plan.name)
    .bind(&new.plan.question)
    .bind(to_json("plan", &frame)?)
    .bind(to_json("command line", &new.argv)?)
    .bind(&new.version)
    .bind(new.commit.as_ref().map(|commit| &commit.hash))
    .bind(new.commit.as_ref().map(|commit| commit.is_changed))
    .bind(new.started)
    .bind(new.started)
    .bind(new.driver.pid)
    .bind(&new.driver.born)
    .bind(&new.driver.host)
    .bind(&new.driver.space)
    .bind(&sha256)
    .execute(connection)
    .await?;
    Ok(inserted.last_insert_rowid())
}

/// Configurations are shared between cells and sweeps. Returns the row id of each hash.
async fn insert_configs(
    connection: &mut SqliteConnection,
    cells: &[Cell],
) -> Result<BTreeMap<String, i64>, StoreError> {
    let distinct: BTreeMap<&str, &Cell> =
        cells.iter().map(|cell| (cell.config_hash.as_str(), cell)).collect();
    let hashes: Vec<&str> = distinct.keys().copied().collect();
    let known: Vec<(String, i64)> =
        sqlx::query_as("SELECT sha256, id FROM config WHERE sha256 IN (SELECT value FROM json_each(?))")
            .bind(to_json("configuration hashes", &hashes)?)
            .fetch_all(&mut *connection)
            .await?;
    let mut configs: BTreeMap<String, i64> = known.into_iter().collect();
    let first = next_id(connection, "SELECT coalesce(max(id), 0) + 1 FROM config").await?;
    let new: Vec<(i64, &Cell)> = (first..)
        .zip(distinct.into_values().filter(|cell| !configs.contains_key(&cell.config_hash)))
        .collect();
    let target = Target { head: "INSERT INTO config (id, sha256, spec)", tail: "" };
    insert(connection, target, &new, |(id, cell), values| {
        values.add(*id).add(&cell.config_hash).add(cell.spec.canonical());
    })
    .await?;
    configs.extend(new.into_iter().map(|(id, cell)| (cell.config_hash.clone(), id)));
    Ok(configs)
}

async fn insert_cells(
    connection: &mut SqliteConnection,
    plan: &Plan,
    configs: &BTreeMap<String, i64>,
    ids: Rows,
) -> Result<(), StoreError> {
    let rows: Vec<(usize, &Cell)> = plan.cells.iter().enumerate().collect();
    let target = Target {
        head: "INSERT INTO cell (id, sweep, position, arm, arm_name, strategy, condition, label, workers, config, \
               excluded)",
        tail: "",
    };
    insert(connection, target, &rows, |(position, cell), values| {
        let arm = plan.arms.get(cell.arm);
        values
            .add(ids.first_cell + *position as i64)
            .add(ids.sweep)
            .add(*position as i64)
            .add(cell.arm as i64)
            .add(arm.map(|arm| &arm.name))
            .add(cell.spec.strategy.kind().name())
            .add(&cell.condition)
            .add(&cell.label)
            .add(cell.spec.cluster.workers())
            .add(configs.get(&cell.config_hash))
            .add(cell.excluded.as_ref());
    })
    .await
}

async fn insert_axes(connection: &mut SqliteConnection, cells: &[Cell], ids: Rows) -> Result<(), StoreError> {
    let rows: Vec<_> = (ids.first_cell..)
        .zip(cells)
        .flat_map(|(cell, of)| (0_i64..).zip(&of.axes).map(move |(position, axis)| (cell, position, axis)))
        .collect();
    let target = Target { head: "INSERT INTO cell_axis (cell, position, path, text, number)", tail: "" };
    insert(connection, target, &rows, |(cell, position, axis), values| {
        values.add(*cell).add(*position).add(&axis.path).add(&axis.text).add(axis.number);
    })
    .await
}

async fn insert_values(
    connection: &mut SqliteConnection,
    key_values: &[KeyValue],
    sweep: i64,
) -> Result<(), StoreError> {
    let target = Target { head: "INSERT INTO key_value (sweep, arm, cell, path, text, number)", tail: "" };
    insert(connection, target, key_values, |value, values| {
        let arm = match value.of {
            SharedBy::Arm(arm) => Some(int(arm as u64)),
            SharedBy::Plan | SharedBy::Cell(_) => None,
        };
        let cell = match value.of {
            SharedBy::Cell(cell) => Some(int(cell as u64)),
            SharedBy::Plan | SharedBy::Arm(_) => None,
        };
        values.add(sweep).add(arm).add(cell).add(&value.path).add(&value.text).add(value.number);
    })
    .await
}

async fn insert_runs(
    connection: &mut SqliteConnection,
    new: &SweepEntry,
    ids: Rows,
) -> Result<(), StoreError> {
    let rows: Vec<((i64, &String), &Run)> = (0_i64..).zip(&new.runs).zip(&new.plan.runs).collect();
    let target = Target { head: "INSERT INTO run (ulid, sweep, cell, position, repeat, seed)", tail: "" };
    insert(connection, target, &rows, |((position, id), run), values| {
        values
            .add(*id)
            .add(ids.sweep)
            .add(ids.first_cell + int(run.cell as u64))
            .add(*position)
            .add(run.repeat)
            .add(run.seed.to_string());
    })
    .await
}
