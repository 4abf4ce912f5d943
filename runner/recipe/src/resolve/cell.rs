//! A cell while it is resolved: its settings, and their problems so far.

use crate::keys::lookup::KeyId;
use crate::text::finding::Finding;
use crate::text::source::Span;
use crate::values::settings::Settings;
use crate::values::value;
use std::collections::BTreeMap;

/// One cell's settings and their problems so far.
pub(crate) struct Cell<'a> {
    pub(crate) settings: &'a Settings,
    /// Where the recipe's tables begin: the place of problems about keys that are missing from them.
    pub(crate) sections: &'a BTreeMap<String, Span>,
    pub(crate) findings: Vec<Finding>,
}

impl Cell<'_> {
    /// Notes that a key without a default has no value.
    pub(crate) fn miss(&mut self, key: impl Into<KeyId>, why: &str) {
        let key = key.into().key();
        let section = key.path.split('.').next().unwrap_or_default();
        self.findings.push(
            Finding::new("R010", format!("`{}` is missing{why}", key.path))
                .at_option(self.sections.get(section).copied(), format!("`{}` belongs here", key.name()))
                .cure(format!("write `{} = {}`, for example", key.name(), key.example))
                .note(value::more(key.path))
                .missing(key.path),
        );
    }
}
