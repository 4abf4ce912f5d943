//! Written text: files, their trees, places in them, and the problems that point there.

pub(crate) mod finding;
pub(crate) mod load;
pub(crate) mod parse;
pub(crate) mod render;
pub(crate) mod source;
pub(crate) mod tree;
pub(crate) mod turning;
