//! How domain values stand in columns, and how rows are read and inserted.

pub(crate) mod document;
pub(crate) mod from_row;
pub(crate) mod insert;
pub(crate) mod value;
