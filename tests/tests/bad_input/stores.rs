//! Damaged databases and stores.

use crate::row::{RUN, Row, Template, database, hold, kept, typed};
use e2e::Desk;
use std::fs::{self, File};
use std::os::unix::fs::symlink;

pub(crate) const STORES: &[Row] = &[
    (
        "a newer database",
        |desk| poke(desk, 60, &99_u32.to_be_bytes()),
        &["list"],
        7,
        &["bakeoff.db has schema version 99", "--store"],
    ),
    (
        "a damaged database",
        |desk| poke(desk, 100, &[0xff; 3000]),
        &["list"],
        7,
        &["bakeoff.db is damaged", "bakeoff db rebuild"],
    ),
    (
        "a database that is none",
        |desk| fs::write(database(desk), "dear diary").unwrap(),
        RUN,
        7,
        &["bakeoff.db is not a bakeoff database", "--store"],
    ),
    (
        "another program's database",
        |desk| poke(desk, 68, &[1, 2, 3, 4]),
        RUN,
        7,
        &["bakeoff.db is not a bakeoff database"],
    ),
    (
        "a database that is a folder",
        |desk| {
            fs::remove_file(database(desk)).unwrap();
            fs::create_dir(database(desk)).unwrap();
        },
        RUN,
        7,
        &["bakeoff.db is not a bakeoff database"],
    ),
    (
        "a store that is a file",
        |desk| desk.write("file", "").unwrap(),
        &["run", "recipe.toml", "--store", "file"],
        7,
        &["cannot use file", "--store"],
    ),
    (
        "a store that leads nowhere",
        |desk| symlink("/proc/nowhere", desk.at("link")).unwrap(),
        &["run", "recipe.toml", "--store", "link"],
        7,
        &["cannot use link", "--store"],
    ),
    (
        "no store to look at",
        |_| (),
        &["list", "--store", "none"],
        7,
        &["no store in none", "run something first"],
    ),
    (
        "the database cannot be rebuilt",
        |_| (),
        &["db", "rebuild", "--store", "none"],
        7,
        &["none/runs holds no journal"],
    ),
];

/// Overwrites bytes of the database.
fn poke(desk: &Desk, at: usize, bytes: &[u8]) {
    let mut all = fs::read(database(desk)).unwrap();
    all[at..at + bytes.len()].copy_from_slice(bytes);
    fs::write(database(desk), all).unwrap();
}

#[test]
fn broken_stores() {
    hold(STORES);
}

/// Another process keeps the store to itself, as a rebuild does: the command waits, then names that process.
#[test]
fn a_locked_store() {
    let template = Template::new();
    let before = kept(&template.0);
    let held = File::create(template.0.at(".bakeoff/bakeoff.in-use")).unwrap();
    held.lock().unwrap();
    let ended = typed(&template.0, &["list"]).with_code(7).unwrap();
    assert!(
        ended.stderr.contains("bakeoff.in-use locked for 10 s") && ended.stderr.contains("bakeoff status"),
        "{}",
        ended.stderr
    );
    drop(held);
    assert_eq!(kept(&template.0), before);
}
