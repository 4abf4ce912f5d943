//! Looks keys up in the table: by path, by table, by the likeness of a misspelt name.

use crate::keys::key::{Key, Kind};
use crate::keys::table::KEYS;
use crate::spec::family::{Availability, Choice};

/// A key, as an index into [`KEYS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeyId(pub(crate) usize);

impl KeyId {
    /// The key of this path.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let path = plain(path);
        KEYS.iter().position(|key| key.path == path).map(Self)
    }

    /// The key whose values are recorded under this path: a table with a `kind` by its name.
    pub(crate) fn of_value(path: &str) -> Option<Self> {
        Self::of(&join(path, "kind")).or_else(|| Self::of(path))
    }

    pub(crate) fn key(self) -> &'static Key {
        &KEYS[self.0]
    }

    /// Its path as a recipe may write it: a table with a `kind` may be its name alone.
    pub(crate) fn shown(self) -> &'static str {
        let path = self.key().path;
        path.strip_suffix(".kind").unwrap_or(path)
    }

    /// The `kind` beside the key, where its table has one.
    pub(crate) fn kind(self) -> Option<Self> {
        Self::of(&join(self.key().parent(), "kind"))
    }
}

/// The key of a path, at compile time: a path that is not in the table does not compile.
pub(crate) const fn id(path: &str) -> KeyId {
    let mut index = 0;
    while index < KEYS.len() {
        if same(KEYS[index].path.as_bytes(), path.as_bytes()) {
            return KeyId(index);
        }
        index += 1;
    }
    panic!("the table has no such key")
}

pub(crate) const fn same(left: &[u8], right: &[u8]) -> bool {
    let mut index = 0;
    while index < left.len() && index < right.len() && left[index] == right[index] {
        index += 1;
    }
    index == left.len() && index == right.len()
}

/// Path of a name in a table; the recipe itself has the empty path.
pub(crate) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// A strategy's own `communication` and `compression` have the keys of the recipe's.
fn plain(path: &str) -> &str {
    match path.strip_prefix("strategy.") {
        Some(rest) if rest.starts_with("communication.") || rest.starts_with("compression.") => rest,
        _ => path,
    }
}

/// The table's row for a path.
pub(crate) fn find(path: &str) -> Option<&'static Key> {
    KeyId::of(path).map(KeyId::key)
}

/// The first part of a path, from the left, that a later version brings.
pub(crate) fn later(path: &str) -> Option<&'static Key> {
    let ends = path.match_indices('.').map(|(end, _)| end).chain([path.len()]);
    ends.filter_map(|end| find(&path[..end])).find(|key| key.later)
}

/// The names in a table that can be chosen: for messages and schemas.
pub(crate) fn available(choices: &[Choice]) -> impl Iterator<Item = &'static str> + Clone {
    choices.iter().filter(|choice| choice.availability == Availability::Now).map(|choice| choice.name)
}

/// The keys directly in a table.
pub(crate) fn children(path: &str) -> impl Iterator<Item = &'static Key> {
    let path = plain(path);
    let path = match path {
        "strategy.communication" | "strategy.compression" => &path["strategy.".len()..],
        other => other,
    };
    KEYS.iter().filter(move |key| key.parent() == path)
}

/// The keys of this name in other tables, `kind` left out: every second table has one.
pub(crate) fn elsewhere<'n>(name: &'n str, table: &'n str) -> impl Iterator<Item = &'static Key> + 'n {
    KEYS.iter().filter(move |key| key.name() == name && name != "kind" && key.parent() != plain(table))
}

/// The keys whose paths end in these names: `optimizer.lr`.
pub(crate) fn ending_in(end: &str) -> impl Iterator<Item = &'static Key> {
    let is_end = move |key: &&Key| key.path.strip_suffix(end).is_some_and(|rest| rest.ends_with('.'));
    KEYS.iter().filter(move |key| !key.later && is_end(key))
}

/// Whether a path is a table with a `kind`.
pub(crate) fn is_union(path: &str) -> bool {
    find(path).is_some_and(|key| matches!(key.kind, Kind::Table)) && find(&join(path, "kind")).is_some()
}

/// Whether a table of this kind has the key at `path`; unknown keys are not dropped here but reported.
pub(crate) fn applies(path: &str, kind: &str) -> bool {
    find(path).is_none_or(|key| key.is_of(kind))
}

/// The name nearest to what was written, where one is near.
pub fn nearest<'a>(written: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_lowercase().replace('_', "-");
    names
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&written, name), name))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, name)| name)
}
