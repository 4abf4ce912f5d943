//! The database as a file: located, opened, migrated, locked and checked, on a disk that may be full.

pub(crate) mod compact;
pub(crate) mod connect;
pub(crate) mod filesystem;
pub(crate) mod health;
pub(crate) mod lock;
pub(crate) mod migrate;
pub(crate) mod migrations;
pub(crate) mod older;
pub(crate) mod open;
pub(crate) mod reserve;
