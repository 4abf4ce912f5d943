//! How domain values stand in columns, and how rows are inserted.

pub(crate) mod document;
pub(crate) mod insert;
pub(crate) mod value;
