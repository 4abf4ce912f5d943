//! A recipe's tree against the table of keys: every key known, every value in its range.

use crate::keys::key::{Key, Kind};
use crate::keys::lookup::{self, KeyId};
use crate::keys::table::KEYS;
use crate::text::finding::Finding;
use crate::text::parse;
use crate::text::source::Sources;
use crate::text::tree::{Item, NamedItem, Table, Value};
use crate::values::leaf::Leaf;
use crate::values::settings::Settings;
use crate::values::value;
use crate::values::{read, unknown};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Tables that mean something by being there.
pub(crate) const OPTIONAL: [&str; 5] = ["train.target", "network", "compute", "compute.split", "search"];

/// Checks tables; collects settings and findings.
pub(crate) struct Checker<'a> {
    sources: &'a Sources,
    findings: &'a mut Vec<Finding>,
    settings: Settings,
    /// Keys whose value is wrong: what depends on them is not judged.
    broken: BTreeSet<KeyId>,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(sources: &'a Sources, findings: &'a mut Vec<Finding>) -> Self {
        Self { sources, findings, settings: Settings::new(), broken: BTreeSet::new() }
    }

    /// Checks the table at `path`, except for the names in `skip`, which the caller reads.
    pub(crate) fn table(&mut self, table: &Table, path: &str, skip: &[&str]) {
        let kind = table.entries.iter().find(|entry| entry.name == "kind");
        let kind = kind.and_then(|entry| match &entry.item.value {
            Value::Text(kind) => Some(kind.as_str()),
            _ => None,
        });
        for entry in table.entries.iter().filter(|entry| !skip.contains(&entry.name.as_str())) {
            self.entry(entry, path, kind);
        }
    }

    /// The settings so far, and which keys were wrong.
    pub(crate) fn finish(self) -> (Settings, BTreeSet<KeyId>) {
        (self.settings, self.broken)
    }

    fn entry(&mut self, entry: &NamedItem, path: &str, kind: Option<&str>) {
        let here = lookup::join(path, &entry.name);
        let Some(id) = KeyId::of(&here) else {
            // Those of the table's own kind, if it is one.
            let kind = kind.filter(|kind| is_kind_of(path, kind));
            let known =
                lookup::children(path).filter(|key| !key.later && kind.is_none_or(|kind| key.is_of(kind)));
            let known: Vec<&str> = known.map(Key::name).collect();
            let whose = if path.is_empty() { String::new() } else { format!(" in `{path}`") };
            self.findings.push(unknown::key(entry, &whose, &known, path));
            return;
        };
        self.value(id, &here, entry);
    }

    /// Checks the value of a key that stands at `path`.
    pub(crate) fn value(&mut self, id: KeyId, path: &str, entry: &NamedItem) {
        let key = id.key();
        if key.later {
            // A key of a later version may be written down as off.
            if !matches!((&key.kind, &entry.item.value), (Kind::Flag, Value::Flag(false))) {
                self.findings.push(later(path, entry));
            }
            return;
        }
        match (&key.kind, &entry.item.value) {
            (Kind::Table, Value::Table(table)) => {
                if table.entries.is_empty() && OPTIONAL.contains(&path) {
                    self.by_defaults(path, entry);
                }
                self.table(table, path, &[]);
            }
            (Kind::Table, Value::Text(_)) if lookup::is_union(path) => {
                if let Some(kind) = KeyId::of(&lookup::join(path, "kind")) {
                    self.leaf(kind, &entry.item);
                }
            }
            (Kind::Table, _) => {
                self.findings.push(value::wrong_type(key, &entry.item, value::expected(&key.kind)));
            }
            _ => self.leaf(id, &entry.item),
        }
    }

    /// An empty table asks for the defaults of its keys, where each has one.
    fn by_defaults(&mut self, path: &str, entry: &NamedItem) {
        let keys: Vec<&'static Key> = lookup::children(path).filter(|key| !key.later).collect();
        let leaf = |key: &&'static Key| {
            let item = parse::value(key.default?, entry.name_span.source, 0)?;
            let id = KeyId::of(key.path)?;
            let leaf = read::leaf(key, &item, self.sources).ok()?;
            Some((id, Leaf { span: Some(entry.name_span), ..leaf }))
        };
        match keys.iter().map(leaf).collect::<Option<Vec<_>>>() {
            Some(leaves) => leaves.into_iter().for_each(|(id, leaf)| self.settings.put(id, Arc::new(leaf))),
            None => self.findings.push(empty(path, entry)),
        }
    }

    fn leaf(&mut self, id: KeyId, item: &Item) {
        match read::leaf(id.key(), item, self.sources) {
            // Straight into the list: whether a key suits its kind is judged when all are known.
            Ok(leaf) => self.settings.put(id, Arc::new(leaf)),
            Err(findings) => {
                self.findings.extend(findings);
                self.broken.insert(id);
            }
        }
    }
}

/// Whether a table can be of that kind.
fn is_kind_of(path: &str, kind: &str) -> bool {
    let key = lookup::find(&lookup::join(path, "kind"));
    key.is_some_and(
        |key| matches!(key.kind, Kind::Choice(choices) if choices.iter().any(|one| one.name == kind)),
    )
}

fn empty(path: &str, entry: &NamedItem) -> Finding {
    let keys: Vec<&str> = lookup::children(path).filter(|key| !key.later).map(Key::name).collect();
    Finding::new("R010", format!("`{path}` is empty, and would do nothing"))
        .at(entry.name_span, "which one?")
        .note(format!("known keys: {}", keys.join(", ")))
        .cure(smallest(path))
}

/// How the table can be written: the keys that have no default, or one of them.
fn smallest(path: &str) -> String {
    let keys = || lookup::children(path).filter(|key| !key.later && !matches!(key.kind, Kind::Table));
    let needed = keys().find(|key| key.default.is_none()).or_else(|| keys().next());
    let written = needed.map(|key| format!("`{} = {}`", key.name(), key.example)).unwrap_or_default();
    format!("write {written} in it, for example, or leave it out")
}

fn later(path: &str, entry: &NamedItem) -> Finding {
    let doc = lookup::find(path).map_or("", |key| key.doc);
    Finding::new("R020", format!("`{path}` is not in this version"))
        .at(entry.name_span, "a later version brings it")
        .note(doc)
        .cure("leave it out")
}

/// Reports keys that no kind which their table can have knows.
///
/// `swept` tells the kinds that axes give a table's `kind`.
pub(crate) fn misplaced(
    settings: &Settings,
    broken: &BTreeSet<KeyId>,
    swept: &dyn Fn(KeyId) -> Vec<&'static str>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, key) in KEYS.iter().enumerate().filter(|(_, key)| !key.of.is_empty()) {
        let Some(kind) = KeyId(index).kind() else { continue };
        let Some(span) = settings.span(KeyId(index)) else { continue };
        let chosen = settings.name(kind);
        if broken.contains(&kind) || key.is_of(chosen) || swept(kind).iter().any(|kind| key.is_of(kind)) {
            continue;
        }
        findings.push(misplaced_key(key, kind, chosen, settings, span));
    }
    findings
}

fn misplaced_key(
    key: &Key,
    kind: KeyId,
    chosen: &str,
    settings: &Settings,
    span: crate::text::source::Span,
) -> Finding {
    let subject = value::subject(kind.key().path);
    let finding = Finding::new("R012", format!("`{}` is no key of {subject} `{chosen}`", key.path))
        .at(span, format!("only for {}", owners(key, kind).join(", ")));
    match settings.given(kind) {
        Some(leaf) => finding.at_option(leaf.span, "chosen here"),
        None => finding.note(format!("`{}` is \"{chosen}\" by default", kind.key().path)),
    }
}

/// The kinds in this version that have a key.
fn owners(key: &Key, kind: KeyId) -> Vec<&'static str> {
    match kind.key().kind {
        Kind::Choice(choices) => lookup::available(choices).filter(|name| key.is_of(name)).collect(),
        _ => Vec::new(),
    }
}
