//! Mistakes of users and faults of machines: each has an error that says where, what and what to do; nothing is lost.
//!
//! A row is one thing that is broken. Before each, there is a store with one finished run; after it, the store is as it
//! was, or, where the store itself is broken, its file is, byte for byte.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

mod command_lines;
mod data;
mod machines;
mod recipes;
mod row;
mod stores;

use command_lines::COMMAND_LINES;
use data::DATA;
use e2e::binary;
use machines::MACHINES;
use recipes::RECIPES;
use stores::STORES;

#[test]
fn there_are_cases_enough() {
    let tables = [RECIPES, COMMAND_LINES, MACHINES, DATA, STORES];
    let count: usize = tables.iter().map(|table| table.len()).sum();
    assert!(count >= 40 && binary("bakeoff-worker").is_ok(), "{count}");
}
