//! The schema's history, embedded; a file is never edited once released.

use sqlx::SqlSafeStr;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use std::sync::LazyLock;

/// All of them, oldest first.
pub(crate) static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let migrations = (1..).zip(FILES).map(|(version, file)| {
        let description = file.name.trim_start_matches(|c: char| c.is_ascii_digit()).replace('_', " ");
        let description = description.trim_start().to_owned().into();
        let without_transaction = file.sql.starts_with("-- no-transaction");
        Migration::new(
            version,
            description,
            MigrationType::Simple,
            file.sql.into_sql_str(),
            without_transaction,
        )
    });
    Migrator::with_migrations(migrations.collect())
});

/// A file of the folder `migrations`.
struct File {
    /// Its number and its description.
    name: &'static str,
    sql: &'static str,
}

macro_rules! file {
    ($name:literal) => {
        File { name: $name, sql: include_str!(concat!("../../migrations/", $name, ".sql")) }
    };
}

/// In the order of their numbers, which count from one.
const FILES: [File; 21] = [
    file!("0001_core"),
    file!("0002_emulation"),
    file!("0003_coding"),
    file!("0004_staleness"),
    file!("0005_losses"),
    file!("0006_judged"),
    file!("0007_heterogeneity"),
    file!("0008_links"),
    file!("0009_ended"),
    file!("0010_mean_step_time"),
    file!("0011_machine"),
    file!("0012_drivers"),
    file!("0013_rolled_up"),
    file!("0014_thinned"),
    file!("0015_schedule"),
    file!("0016_usage"),
    file!("0017_not_needed"),
    file!("0018_annotations"),
    file!("0019_clocks"),
    file!("0020_key_values"),
    file!("0021_replica_groups"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_of_the_folder_is_embedded_under_its_number() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations");
        let files = std::fs::read_dir(folder).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut there: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
        there.sort();
        let embedded = FILES.map(|file| format!("{}.sql", file.name));
        assert_eq!(there, embedded);
        for (version, file) in (1..).zip(FILES) {
            assert!(file.name.starts_with(&format!("{version:04}_")), "{}", file.name);
        }
        let descriptions = MIGRATIONS.iter().map(|migration| migration.description.as_ref());
        assert!(descriptions.zip(["core", "emulation"]).all(|(one, other)| one == other));
    }
}
