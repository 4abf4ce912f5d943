//! What people and editors read about recipes: pages of `explain`, the JSON schema, templates.

pub(crate) mod codes;
pub(crate) mod explain;
pub(crate) mod schema;
pub(crate) mod template;
