//! Queries on a database of an earlier version: what later migrations added is put before it as temporary views and tables of
//! the reading connection, so that no reader changes a file that an older driver writes.

use std::fmt::Write;

/// The earliest version that can be read as it is.
const OLDEST: i64 = 7;

/// Column or table that a migration added, as a reader of an earlier file sees it.
enum Addition {
    /// A column, with the value that its migration gives to old rows where it computes none.
    Column { table: &'static str, column: &'static str },
    /// A table, empty, with the columns that later migrations gave it.
    Table(&'static str),
}

use Addition::{Column, Table};

/// By version. Every migration after [`OLDEST`] has its lines, unless queries do not notice it.
const ADDITIONS: &[(i64, Addition)] = &[
    (9, Column { table: "artifact", column: "0 AS ended" }),
    (10, Column { table: "attempt", column: "NULL AS mean_step_time" }),
    (10, Column { table: "runs_flat", column: "NULL AS mean_step_ms" }),
    (
        11,
        Table(
            "CREATE TEMP TABLE host (attempt, node, at, cores, busy, steal, own, cpu_pressure, memory_pressure, load, \
             frequency, governor, memory_available, clock_error);",
        ),
    ),
    (11, Table("CREATE TEMP TABLE block (attempt, number, steps, length);")),
    (12, Column { table: "sweep", column: "'' AS driver_host" }),
    (12, Column { table: "sweep", column: "'' AS driver_space" }),
    (12, Column { table: "sweep", column: "NULL AS heartbeat_unix" }),
    (13, Column { table: "attempt", column: "NULL AS step_stride" }),
    (13, Table("CREATE TEMP TABLE step_histogram (attempt, rank, lane, phase, counts);")),
    (14, Column { table: "attempt", column: "NULL AS traced_steps" }),
    (14, Table("CREATE TEMP TABLE loss_extreme (attempt, step);")),
    (15, Table("CREATE TEMP TABLE schedule (attempt, record);")),
    (16, Column { table: "rank", column: "NULL AS held_weights" }),
    (16, Column { table: "rank", column: "NULL AS held_gradients" }),
    (16, Column { table: "rank", column: "NULL AS held_optimizer" }),
    (16, Column { table: "rank", column: "NULL AS held_activations" }),
    (16, Column { table: "rank", column: "NULL AS resident_at_end" }),
    (16, Column { table: "rank", column: "NULL AS exchanging" }),
    (16, Column { table: "rank", column: "NULL AS exchanging_steps" }),
    (18, Table("CREATE TEMP TABLE tag (sweep, name);")),
    (18, Column { table: "sweep", column: "'' AS note" }),
    (18, Column { table: "sweep", column: "NULL AS imported_unix" }),
    (19, Column { table: "host", column: "NULL AS clock_error" }),
    (20, Table("CREATE TEMP TABLE key_value (id, sweep, arm, cell, path, text, number);")),
    (21, Column { table: "rank", column: "NULL AS replica_group" }),
];

/// The statements that let a file of version `found` be queried as one of version `known`; `None` if it is too old.
pub(crate) fn additions(found: i64, known: i64) -> Option<String> {
    if found < OLDEST {
        return None;
    }
    let missing = || ADDITIONS.iter().filter(|(version, _)| *version > found && *version <= known);
    let made = missing().filter_map(|(_, addition)| match addition {
        Table(statement) => Some(*statement),
        Column { .. } => None,
    });
    let mut statements: String = made.collect();
    let mut tables: Vec<&str> = Vec::new();
    for (_, addition) in missing() {
        if let Column { table, .. } = addition
            && !tables.contains(table)
            && !statements.contains(&format!("CREATE TEMP TABLE {table} ("))
        {
            tables.push(table);
        }
    }
    for table in tables {
        let columns = missing().filter_map(|(_, addition)| match addition {
            Column { table: of, column } if *of == table => Some(format!(", {column}")),
            _ => None,
        });
        let columns: String = columns.collect();
        // A temporary name hides the one in the file; views in the file still mean their own tables.
        let _ = write!(statements, "CREATE TEMP VIEW {table} AS SELECT *{columns} FROM main.{table};");
    }
    Some(statements)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::database::migrate::newest;
    use crate::database::migrations::MIGRATIONS;
    use crate::{DATABASE, ExportTable, RunState, Selection, Store, StoreError};
    use recipe::{RunSpec, Strategy};
    use sqlx::AssertSqlSafe;
    use sqlx::migrate::Migrator;
    use std::fs;
    use std::path::Path;

    /// A driver's store, as a program made it that knew no later version.
    async fn of_version(folder: &Path, version: i64) -> Store {
        let known = MIGRATIONS.iter().filter(|migration| migration.version <= version).cloned().collect();
        Store::at(folder, &Migrator::with_migrations(known)).await.unwrap()
    }

    /// Of a program that knew no later setting.
    const PLAN: &str = r#"{"name":"old","question":"","source":"","expanded":"","arms":[],"cells":[],"runs":[],
        "limits":{"run_timeout":null,"retries":1,"max_runs":9},
        "report":{"min_effect":0.05,"confidence":0.95,"redact":[]}}"#;

    /// A sweep of one run under way, with the columns that every version has.
    pub(crate) async fn fill(driver: &Store) {
        let spec = RunSpec::sample_of(Strategy::DSync, 1);
        let this = crate::Driver::this();
        let statements = [
            "INSERT INTO recipe VALUES (1, printf('%064d', 1), '')".to_owned(),
            format!(
                "INSERT INTO sweep (id, ulid, recipe, recipe_path, name, question, plan, argv, version, state, started_unix, \
                 driver_pid, driver_born) VALUES (1, printf('%026d', 1), 1, '', 'old', '', '{}', '[]', '0.0.9', 'running', \
                 0, {}, '{}')",
                PLAN, this.pid,
                this.born,
            ),
            format!("INSERT INTO config VALUES (1, printf('%064d', 1), '{}')", spec.canonical().replace('\'', "''")),
            "INSERT INTO cell VALUES (1, 1, 0, 0, '', 'd-sync', '', '', 1, 1, NULL)".to_owned(),
            "INSERT INTO run VALUES (1, printf('%026d', 1), 1, 1, 0, 0, '1', 'running', printf('%064d', 7), NULL)".to_owned(),
            "INSERT INTO attempt (run, number, started_unix, heartbeat_unix) VALUES (1, 1, 0, 0)".to_owned(),
            "INSERT INTO node VALUES (1, printf('%064d', 1), '', '', '', '', 1, 1)".to_owned(),
            "INSERT INTO rank (attempt, rank, role, node) VALUES (1, 0, 'worker', 1)".to_owned(),
            "INSERT INTO step (attempt, lane, step, rank, begin, length, samples, own_samples, bytes_out, bytes_in, loss, \
             is_finite, drain, phases) SELECT 1, 0, value, 0, 10 * value, 9, value, 1, 0, 0, 0.5, 1, 0, x'0009' \
             FROM json_each('[1, 2, 3, 4, 5, 6]')"
                .to_owned(),
            "INSERT INTO artifact (attempt, path, rank, kind, model, step, samples, at, last) VALUES \
             (1, 'a', 0, 'snapshot', 'rank 0', 0, 0, 0, 1)"
                .to_owned(),
        ];
        for statement in statements {
            sqlx::query(AssertSqlSafe(statement)).execute(&driver.writer).await.unwrap();
        }
    }

    /// Runs every query of a reader.
    async fn look(store: &Store) {
        let lines = store.list(&Selection::parse("state=running").unwrap()).await.unwrap();
        assert_eq!(lines.iter().map(|line| line.state).collect::<Vec<_>>(), [RunState::Running]);
        let rows = store.sweep_rows(&Selection::last()).await.unwrap();
        assert_eq!(rows.runs[0].attempt.as_ref().unwrap().steps, 6);
        let run = store.find_run(&lines[0].id).await.unwrap();
        assert_eq!(store.show(run.as_str()).await.unwrap().attempts.len(), 1);
        for table in ExportTable::ALL {
            let mut export = store.export(table, &Selection::all()).await.unwrap();
            while let Some(page) = export.next_page().await.unwrap() {
                assert_eq!(page[0].len(), table.columns().len());
            }
        }
        let mut trace = store.trace(&run).await.unwrap().unwrap();
        assert_eq!(trace.lanes().await.unwrap().len(), 1);
        assert_eq!(trace.next_steps().await.unwrap().len(), 6);
        assert_eq!(trace.next_spans().await.unwrap(), []);
        assert_eq!(store.timeline(&run).await.unwrap(), []);
        assert_eq!(store.kept_models(&run).await.unwrap().len(), 1);
        assert_eq!(store.earlier_runs("old").await.unwrap().len(), 1);
        assert!(store.find_finished(&format!("{:064}", 7)).await.unwrap().is_none());
        assert_eq!(store.left_over().await.unwrap(), []);
        assert!(store.annotations().await.unwrap().is_empty());
        let fitting =
            async |text: &str| store.runs_fitting(&Selection::parse(text).unwrap()).await.unwrap().len();
        assert_eq!(fitting("origin=own and not tag=a").await, 1);
        // Its rate was not recorded.
        assert_eq!(
            [fitting("lr=0.1").await, fitting("lr!=0.1").await, fitting("not lr=0.1").await],
            [0, 0, 0]
        );
        assert!(store.db_info().await.unwrap().bytes > 0);
        assert_eq!(store.db_check().await.unwrap(), []);
    }

    #[tokio::test]
    async fn a_reader_leaves_the_tables_of_an_older_driver_alone() {
        for version in OLDEST..=newest(&MIGRATIONS) {
            let folder = tempfile::tempdir().unwrap();
            let driver = of_version(folder.path(), version).await;
            fill(&driver).await;
            let looking = Store::open_existing(folder.path()).await.unwrap();
            assert_eq!(looking.is_read_only(), version < newest(&MIGRATIONS));
            look(&looking).await;
            assert_eq!(looking.db_info().await.unwrap().version, version);
            looking.close().await;
            drop(looking);
            // The next statement of the driver is that of its own version.
            let link = match version {
                7 => {
                    "INSERT INTO link (attempt, src, dst, bytes, raw_bytes, messages) VALUES (1, 0, 0, 1, 1, 1)"
                }
                _ => "INSERT INTO link (attempt, src, dst, bytes, messages) VALUES (1, 0, 0, 1, 1)",
            };
            sqlx::query(link).execute(&driver.writer).await.unwrap();
            driver.close().await;
        }
    }

    #[tokio::test]
    async fn a_driver_migrates_only_what_it_has_alone() {
        let folder = tempfile::tempdir().unwrap();
        let old = newest(&MIGRATIONS) - 1;
        let driver = of_version(folder.path(), old).await;
        fill(&driver).await;
        let refused = Store::open(folder.path()).await.unwrap_err();
        let StoreError::InUse { found, known, .. } = refused else { panic!("{refused}") };
        assert_eq!((found, known), (old, old + 1));
        sqlx::query("UPDATE sweep SET state = 'done'").execute(&driver.writer).await.unwrap();
        driver.close().await;
        drop(driver);
        let store = Store::open(folder.path()).await.unwrap();
        assert_eq!(store.db_info().await.unwrap().version, known);
        assert!(!store.is_read_only());
    }

    #[tokio::test]
    async fn a_file_that_is_too_old_says_who_wrote_it_and_how_it_is_brought_up_to_date() {
        let folder = tempfile::tempdir().unwrap();
        let driver = of_version(folder.path(), OLDEST - 1).await;
        fill(&driver).await;
        driver.close().await;
        drop(driver);
        let before = fs::read(folder.path().join(DATABASE)).unwrap();
        let refused = Store::open_existing(folder.path()).await.unwrap_err();
        let StoreError::Older { found, writer, .. } = &refused else { panic!("{refused}") };
        assert_eq!((*found, writer.as_str()), (OLDEST - 1, "0.0.9"));
        assert!(refused.to_string().contains("`bakeoff db migrate`"), "{refused}");
        assert_eq!(fs::read(folder.path().join(DATABASE)).unwrap(), before);
        let store = Store::open(folder.path()).await.unwrap();
        assert_eq!(store.db_check().await.unwrap(), []);
    }
}
