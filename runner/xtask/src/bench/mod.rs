//! `cargo xtask bench`: measurements, each printed as a table.

pub(crate) mod network;
