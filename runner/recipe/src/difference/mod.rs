//! Settings in which two runs differ: by the keys that a recipe has, and by the facts that only a specification has.

pub(crate) mod configuration;
mod field_names;
mod fields;
