//! The keys of one entry of a list of tables.

use crate::keys::key::Key;
use crate::keys::lookup;
use crate::text::finding::Finding;
use crate::text::tree::{Item, NamedItem, Table};
use crate::values::leaf::Typed;
use crate::values::{unknown, value};
use std::time::Duration;

/// Reads the entries of a list.
///
/// # Errors
/// The problems of all of them.
pub(crate) fn entries<T>(
    items: &[Item],
    one: impl Fn(&Item) -> Result<T, Vec<Finding>>,
) -> Result<Vec<T>, Vec<Finding>> {
    let mut read = Vec::new();
    let mut problems = Vec::new();
    for item in items {
        match one(item) {
            Ok(entry) => read.push(entry),
            Err(found) => problems.extend(found),
        }
    }
    if problems.is_empty() { Ok(read) } else { Err(problems) }
}

/// Without keys that are missing because they are misspelt, which is said already.
pub(crate) fn without_misspelt(mut problems: Vec<Finding>) -> Vec<Finding> {
    let meant: Vec<String> = problems
        .iter()
        .filter_map(|problem| problem.suggestion.as_deref())
        .map(|name| format!("`{name}`"))
        .collect();
    problems.retain(|problem| {
        let label = problem.spans.first().map_or("", |(_, label)| label);
        problem.code != "R010" || !meant.iter().any(|name| label.contains(name))
    });
    problems
}

/// Value that was read; a problem is kept with the others of its entry.
pub(crate) fn noted<T>(read: Result<T, Finding>, problems: &mut Vec<Finding>) -> Option<T> {
    read.map_err(|problem| problems.push(problem)).ok()
}

/// The keys of one entry of a list of tables, whose own keys are those below `path`.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    pub(crate) path: &'static str,
    pub(crate) table: &'a Table,
}

impl Fields<'_> {
    /// The keys that are not among the list's, or not of `kind` where the entries have kinds.
    pub(crate) fn unknown(&self, kind: Option<&str>) -> Vec<Finding> {
        let is_known = |key: &&Key| kind.is_none_or(|kind| key.is_of(kind));
        let known: Vec<&str> = lookup::children(self.path).filter(is_known).map(Key::name).collect();
        let whose = kind.map_or_else(|| format!(" in `{}`", self.path), |kind| format!(" for `{kind}`"));
        let strange = self.table.entries.iter().filter(|entry| !known.contains(&entry.name.as_str()));
        let problem = |entry| {
            let elsewhere = self.of_another_kind(entry, &whose);
            elsewhere.unwrap_or_else(|| unknown::key(entry, &whose, &known, self.path))
        };
        strange.map(problem).collect()
    }

    /// A key that other entries of the list have.
    fn of_another_kind(&self, entry: &NamedItem, whose: &str) -> Option<Finding> {
        let key = lookup::find(&lookup::join(self.path, &entry.name))?;
        Some(
            Finding::new("R012", format!("`{}` is no key{whose}", key.path))
                .at(entry.name_span, format!("only for {}", key.of.join(", ")))
                .note(value::more(self.path)),
        )
    }

    fn typed(&self, name: &str) -> Result<Option<Typed>, Finding> {
        match (self.table.get(name), lookup::find(&lookup::join(self.path, name))) {
            (Some(entry), Some(key)) => value::typed(key, &entry.item).map(Some),
            _ => Ok(None),
        }
    }

    pub(crate) fn whole(&self, name: &str) -> Result<Option<u64>, Finding> {
        Ok(self.typed(name)?.and_then(|typed| typed.whole()))
    }

    pub(crate) fn flag(&self, name: &str) -> Result<bool, Finding> {
        Ok(matches!(self.typed(name)?, Some(Typed::Flag(true))))
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>, Finding> {
        Ok(self.typed(name)?.and_then(|typed| typed.number()))
    }

    pub(crate) fn duration(&self, name: &str) -> Result<Option<Duration>, Finding> {
        Ok(self.typed(name)?.and_then(|typed| typed.duration()))
    }

    /// A text, or the name of a choice.
    pub(crate) fn text(&self, name: &str) -> Result<Option<String>, Finding> {
        Ok(match self.typed(name)? {
            Some(Typed::Text(text)) => Some(text),
            Some(Typed::Choice(name)) => Some(name.to_owned()),
            _ => None,
        })
    }
}
