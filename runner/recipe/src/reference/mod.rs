//! Reference on recipes for people and editors: pages of `explain`, the JSON schema, templates.

pub(crate) mod codes;
pub(crate) mod explain;
pub(crate) mod schema;
pub(crate) mod template;
