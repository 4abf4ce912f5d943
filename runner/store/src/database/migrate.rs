//! Brings the database to the newest version, and rejects files that this program did not create.

use crate::StoreError;
use crate::database::connect::{not_ours, options};
use crate::database::lock;
use sqlx::migrate::Migrator;
use sqlx::sqlite::{SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// "BAKE" in ASCII: distinguishes our files from other SQLite databases.
pub(crate) const APPLICATION_ID: i64 = 0x4241_4b45;

/// Copies of earlier versions that are kept.
const COPIES: usize = 2;
/// A copy is named after the version that it has.
const COPY: &str = "bakeoff-version-";

/// Creates or migrates the database to the newest known version, in WAL mode. After an error the file is unchanged. The
/// caller has the database alone.
pub(crate) async fn migrate(folder: &Path, file: &Path, migrations: &Migrator) -> Result<(), StoreError> {
    // Earlier programs take only this lock.
    let _moment = lock::moment(folder).await?;
    let fresh = fs::metadata(file).map_or(true, |data| data.len() == 0);
    let mut connection = options(file)
        .create_if_missing(true)
        .synchronous(SqliteSynchronous::Normal)
        .connect()
        .await
        .map_err(|error| not_ours(file, error))?;
    let found = if fresh { 0 } else { version(&mut connection, file).await? };
    let known = newest(migrations);
    if found > known {
        return Err(StoreError::Newer { path: file.to_owned(), found, known });
    }
    if found < known {
        let backup = if found > 0 { Some(copy_aside(&mut connection, folder, found).await?) } else { None };
        // Only now, because a foreign file must not change. The mode is stored in the file.
        connection.close().await?;
        connection = options(file).journal_mode(SqliteJournalMode::Wal).connect().await?;
        migrations.run(&mut connection).await.map_err(|source| StoreError::Migration {
            path: file.to_owned(),
            backup,
            source,
        })?;
        forget_old_copies(folder);
    }
    connection.close().await.map_err(|error| StoreError::from(error).of_file(file))
}

/// The highest version of these migrations.
pub(crate) fn newest(migrations: &Migrator) -> i64 {
    migrations.iter().map(|migration| migration.version).max().unwrap_or(0)
}

/// The file's schema version, or an error if this program did not create it. 0 for a database without tables, or with
/// only those of the migrator: its creator was killed before the first migration.
pub(crate) async fn version(connection: &mut SqliteConnection, file: &Path) -> Result<i64, StoreError> {
    let (application, version, foreign): (i64, i64, bool) = sqlx::query_as(
        "SELECT application_id, user_version, EXISTS \
         (SELECT 1 FROM sqlite_schema WHERE tbl_name NOT IN ('_sqlx_migrations', 'sqlite_sequence')) \
         FROM pragma_application_id, pragma_user_version",
    )
    .fetch_one(connection)
    .await
    .map_err(|error| not_ours(file, error))?;
    match (application, version, foreign) {
        (APPLICATION_ID, version, _) => Ok(version),
        (0, 0, false) => Ok(0),
        _ => Err(StoreError::Foreign { path: file.to_owned() }),
    }
}

/// Copies the database, including its write-ahead log, into a new file.
async fn copy_aside(
    connection: &mut SqliteConnection,
    folder: &Path,
    version: i64,
) -> Result<PathBuf, StoreError> {
    let mut path = folder.join(format!("{COPY}{version}.db"));
    let mut number = 1;
    while path.exists() {
        number += 1;
        path = folder.join(format!("{COPY}{version}-{number}.db"));
    }
    sqlx::query("VACUUM INTO ?").bind(path.to_string_lossy().into_owned()).execute(connection).await?;
    Ok(path)
}

/// Removes all copies but the newest; each is as large as the database was. A copy that cannot be removed stays.
fn forget_old_copies(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut copies: Vec<(SystemTime, PathBuf)> = entries
        .filter(|entry| is_copy(&entry.file_name().to_string_lossy()))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    copies.sort();
    let surplus = copies.len().saturating_sub(COPIES);
    for (_, path) in copies.drain(..surplus) {
        let _ = fs::remove_file(path);
    }
}

/// A name that [`copy_aside`] gives.
fn is_copy(name: &str) -> bool {
    let numbers = name.strip_prefix(COPY).and_then(|name| name.strip_suffix(".db")).unwrap_or_default();
    let mut parts = numbers.split('-');
    let number = |part: Option<&str>| part.is_some_and(|part| part.parse::<u32>().is_ok());
    let first = number(parts.next());
    first && parts.next().is_none_or(|part| number(Some(part))) && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;
    use crate::database::migrations::MIGRATIONS;
    use sqlx::SqlSafeStr;
    use sqlx::migrate::{Migration, MigrationType};

    /// Versions, with the checksums of what they apply.
    const RELEASED: [(i64, &str); 21] = [
        (
            1,
            "7f3204f783cf03dc2cb907ffb296f741fe27a7fee0c7f1e27221adc53424bddadfb750dbffda3a2d935d58251fee68ae",
        ),
        (
            2,
            "53d1a6405707b697f677968c565f509c9072c835d48fd94ff816e0df6884d910e81248e23d8f934b558cd7e1729cbfdc",
        ),
        (
            3,
            "10a329581a53c904fe906e1c916c3c9b1efff574a72527fa52f80e943314466928bb6dba2a2dbec42f4226686737d59a",
        ),
        (
            4,
            "50ed769f41411a3f14bab4620ab76fd6b5cc15385f30d7d26e00cb617e804d70f2a206f804554f41b88db3e383c706e0",
        ),
        (
            5,
            "90b6469c3f0377ca2fc2258d930e78bf12f231f24d44cacd09cb13009fb604d024115b18d1021f1e63dd20b23a962c2d",
        ),
        (
            6,
            "7d4af1ddcf25d02df1943c101de913de39c12356cf461d82a3045276ff7d65840503ecda3d6543ea07043ff0967cd057",
        ),
        (
            7,
            "86691f2191d50761bfe7e57e7e179f4f8cdbd7741d8649b4c46729146754ee804e8f15351026f23a40202312fa1d832e",
        ),
        (
            8,
            "eb53714d33ddf7758d1e81bc464d7074bbe36a396e8c0fc9c5e58a395dc4bc71f04d559f25cabd759125eb78e995cbb8",
        ),
        (
            9,
            "947fb1ce260be524a95365daacb33018c3af270594cb23a75d8a02638b0ae2e4a3a7a0916858187b7933f0f8bd7df9bf",
        ),
        (
            10,
            "a645c8db42e5feb2db3b63838088c6b98e177dc191f1aeb387a88f016f2420e9c13acbc7ee0721d416ac113c2078a216",
        ),
        (
            11,
            "b42479744a340ff4c51ab3fcb7625f1b4ff12cc9de5c3e445cc62fbce39b6ea8e7a433a7df645b5f488e3ab5a2b6cfab",
        ),
        (
            12,
            "b8ff6f733940895e95c6b4ebeb0e08c76b8b8127f5cef88c7770139362d690e836a19326c68f88d4e4d790536ec6cc91",
        ),
        (
            13,
            "e47af8153dba4b323df90ffad3ed96983b60382d9d65776f64cc896e302c4ce9180698a0e8c678fda43f79f4c080cefa",
        ),
        (
            14,
            "a80a89d25116a6b8276361f1fb967f16d56b2b9d966ee2eec8f432f1d56ed5f5e460f370bea347ced8c6688e2f713bbc",
        ),
        (
            15,
            "e7fe5f9f0b3dda8af9f866b9bb0d75db5ee97b0cd3ca58fa577f1059ec6ddaa0817f562d24ec3d43d131bffd033dd15d",
        ),
        (
            16,
            "3a9763913f02b35930e98fb37baa16d1239cf023e79ab6ce909d08c7d083753f762cca24fb77d0cca83575db51647519",
        ),
        (
            17,
            "9c4d38cd2525ad5efdb48d4ab1dc99ba6b30afa59720e427e6b9dd9b8b33ede9da09ad3df2453252d915c3337c53756c",
        ),
        (
            18,
            "131b6a94fd73242c24bee0ef9360b509cdf0f82ef964cd491bf4371dd0f29fd2baf423f796829796dad9f6a59b8ea24b",
        ),
        (
            19,
            "a64a3cf085702985c2996f431167940fc6291f63f57059c941049c1ff0317b965029536f8ce46e620bd3605bfa186f59",
        ),
        (
            20,
            "eade3255f7ed4038d57a36ed029e16af7c850ea4a7485d75ea6f3b6617340522c8489ee369b7d20e3ee91b1d0abc9520",
        ),
        (
            21,
            "8808cde4310a1f13addc73a0d29c7b269a76b1e36db88e66e22d6851320026020da3388bf6ac2d118eee0c67c6b3a9eb",
        ),
    ];

    /// A released migration must never change: existing stores could not be opened any more.
    #[test]
    fn released_migrations_are_as_they_were() {
        let embedded: Vec<(i64, String)> = MIGRATIONS
            .iter()
            .map(|migration| (migration.version, recipe::hex(&migration.checksum)))
            .collect();
        let embedded: Vec<(i64, &str)> =
            embedded.iter().map(|(version, sum)| (*version, sum.as_str())).collect();
        assert_eq!(embedded, RELEASED);
    }

    #[test]
    fn migrations_set_the_application_id_and_their_version() {
        for migration in MIGRATIONS.iter() {
            let sql = migration.sql.as_str();
            assert!(sql.contains(&format!("PRAGMA user_version = {};", migration.version)));
            assert!(
                migration.version > 1 || sql.contains(&format!("PRAGMA application_id = {APPLICATION_ID};"))
            );
            assert!(!sql.contains('\r'));
        }
    }

    /// Of workers at their own pace the samples in steady steps were not kept.
    #[tokio::test]
    async fn an_older_file_learns_the_mean_step_time_of_workers_that_step_together() {
        let folder = tempfile::tempdir().unwrap();
        let old = MIGRATIONS.iter().filter(|migration| migration.version <= 9).cloned().collect();
        let old = Store::at(folder.path(), &Migrator::with_migrations(old)).await.unwrap();
        sqlx::raw_sql(
            "PRAGMA foreign_keys = OFF; \
             INSERT INTO config VALUES (1, printf('%064d', 1), '{\"strategy\":{\"kind\":\"d-sync\"}}'), \
              (2, printf('%064d', 2), '{\"strategy\":{\"kind\":\"ad-psgd\"}}'); \
             INSERT INTO cell SELECT value, 1, value, 0, '', '', '', '', 2, value, NULL FROM json_each('[1, 2]'); \
             INSERT INTO run SELECT value, printf('%026d', value), 1, value, value, 0, '1', 'done', NULL, NULL \
              FROM json_each('[1, 2]'); \
             INSERT INTO attempt (id, run, number, started_unix, heartbeat_unix, state) VALUES \
              (1, 1, 1, 0, 0, 'failed'), (2, 1, 2, 0, 0, 'done'), (3, 2, 1, 0, 0, 'done'), (4, 1, 3, 0, 0, 'running'); \
             INSERT INTO rank (attempt, rank, role, node, steady, steady_steps) SELECT attempt.id, rank.value, \
              iif(rank.value < 2, 'worker', 'server'), 1, 100 + 100 * rank.value, iif(attempt.id > 1, 7, 0) \
              FROM attempt, json_each('[0, 1, 2]') AS rank",
        )
        .execute(&old.writer)
        .await
        .unwrap();
        old.close().await;
        drop(old);
        let store = Store::at(folder.path(), &MIGRATIONS).await.unwrap();
        let times: Vec<Option<i64>> = sqlx::query_scalar("SELECT mean_step_time FROM attempt ORDER BY id")
            .fetch_all(&store.reader)
            .await
            .unwrap();
        // 200 / 7 of worker 1; rank 2 is a server.
        assert_eq!(times, [None, Some(28), None, None]);
    }

    /// The version that this program knows.
    fn known() -> i64 {
        MIGRATIONS.iter().map(|migration| migration.version).max().unwrap()
    }

    /// A program that knows one more.
    fn with(more: &str) -> Migrator {
        let sql = format!("{more}; PRAGMA user_version = {}", known() + 1);
        let sql = sqlx::AssertSqlSafe(sql).into_sql_str();
        let next = Migration::new(known() + 1, "next".into(), MigrationType::Simple, sql, false);
        Migrator::with_migrations(MIGRATIONS.iter().cloned().chain([next]).collect())
    }

    #[tokio::test]
    async fn an_older_file_learns_the_states_that_came_later() {
        let folder = tempfile::tempdir().unwrap();
        let old = MIGRATIONS.iter().filter(|migration| migration.version <= 3).cloned().collect();
        let old = Store::at(folder.path(), &Migrator::with_migrations(old)).await.unwrap();
        let recipe = "INSERT INTO recipe VALUES (1, printf('%064d', 1), '')";
        let sweep = "INSERT INTO sweep VALUES (1, printf('%026d', 1), 1, '', '', '', '', '', '', NULL, NULL, 'done', 0, \
                     NULL, 1, '')";
        let config = "INSERT INTO config VALUES (1, printf('%064d', 1), '')";
        let cell = "INSERT INTO cell VALUES (1, 1, 0, 0, '', '', '', '', 1, 1, NULL)";
        let run = "INSERT INTO run VALUES (1, printf('%026d', 1), 1, 1, 0, 0, '1', 'done', NULL, NULL)";
        let attempt = "INSERT INTO attempt (run, number, started_unix, heartbeat_unix, state) VALUES (1, 1, 0, 0, 'done')";
        for statement in [recipe, sweep, config, cell, run, attempt] {
            sqlx::query(statement).execute(&old.writer).await.unwrap();
        }
        let degrade = ["UPDATE run SET state = 'degraded'", "UPDATE attempt SET state = 'degraded'"];
        for statement in degrade {
            let refused = sqlx::query(statement).execute(&old.writer).await.unwrap_err();
            assert!(refused.to_string().contains("CHECK"), "{refused}");
        }
        old.close().await;
        drop(old);
        let store = Store::open(folder.path()).await.unwrap();
        for statement in degrade {
            assert_eq!(sqlx::query(statement).execute(&store.writer).await.unwrap().rows_affected(), 1);
        }
        let spared = sqlx::query("UPDATE run SET state = 'not-needed'").execute(&store.writer).await;
        assert_eq!(spared.unwrap().rows_affected(), 1);
        let nonsense = sqlx::query("UPDATE run SET state = 'sad'").execute(&store.writer).await.unwrap_err();
        assert!(nonsense.to_string().contains("CHECK"), "{nonsense}");
        assert_eq!(store.db_check().await.unwrap(), []);
    }

    #[tokio::test]
    async fn an_older_file_is_copied_aside_before_it_is_brought_up_to_date() {
        let folder = tempfile::tempdir().unwrap();
        Store::open(folder.path()).await.unwrap().close().await;
        let broken = with("CREATE TABLE more (id INTEGER) STRICT; SELECT nonsense");
        let error = Store::at(folder.path(), &broken).await.unwrap_err();
        let StoreError::Migration { backup: Some(backup), .. } = &error else { panic!("{error}") };
        assert_eq!(*backup, folder.path().join(format!("bakeoff-version-{}.db", known())));
        assert!(backup.is_file());
        // A migration that fails leaves the old version.
        Store::open(folder.path()).await.unwrap().close().await;

        let good = with("CREATE TABLE more (id INTEGER) STRICT");
        let store = Store::at(folder.path(), &good).await.unwrap();
        assert_eq!(store.db_info().await.unwrap().version, known() + 1);
        assert!(folder.path().join(format!("bakeoff-version-{}-2.db", known())).is_file());
        store.close().await;
        let refused = Store::open(folder.path()).await.unwrap_err();
        let StoreError::Newer { found, known: ours, .. } = refused else { panic!("{refused}") };
        assert_eq!((found, ours), (known() + 1, known()));
    }

    #[tokio::test]
    async fn the_last_two_copies_are_kept_and_no_other_file_goes() {
        let folder = tempfile::tempdir().unwrap();
        Store::open(folder.path()).await.unwrap().close().await;
        let names = [
            "bakeoff-version-3.db",
            "bakeoff-version-3-2.db",
            "bakeoff-version-x.db",
            "bakeoff-version-3-2-1.db",
        ];
        for (age, name) in names.iter().enumerate() {
            let file = fs::File::create(folder.path().join(name)).unwrap();
            // All older than the copy that is made now.
            let day = std::time::Duration::from_hours(24);
            file.set_modified(SystemTime::UNIX_EPOCH + day * age as u32).unwrap();
        }
        Store::at(folder.path(), &with("SELECT 1")).await.unwrap().close().await;
        let kept = |name: &str| folder.path().join(name).exists();
        assert_eq!(names.map(kept), [false, true, true, true]);
        assert!(kept(&format!("bakeoff-version-{}.db", known())));
    }
}
