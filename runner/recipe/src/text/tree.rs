//! A recipe's text as a tree that remembers where everything was written.

use crate::keys::lookup;
use crate::text::source::Span;

/// A value with its place.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// Where it is written.
    pub(crate) span: Span,
    pub(crate) value: Value,
}

/// A value of TOML.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Flag(bool),
    /// A value of which no recipe has a use: a date, or a whole number beyond 64 bits. What it is, in words.
    Foreign(&'static str),
    List(Vec<Item>),
    Table(Table),
}

/// Named values in the order in which they are written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) entries: Vec<NamedItem>,
}

#[derive(Clone, Debug)]
pub(crate) struct NamedItem {
    pub(crate) name: String,
    /// Where the name is written.
    pub(crate) name_span: Span,
    pub(crate) item: Item,
}

impl Value {
    /// Type of the value for people, with its article: `a string`.
    pub(crate) fn describe(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::Integer(_) => "a whole number",
            Self::Float(_) => "a number",
            Self::Flag(_) => "a truth value",
            Self::Foreign(what) => what,
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }

    /// The value for people, short enough for a label: `ring`, `0.1`, `local*2,local*4`, `dirichlet(alpha=0.1)`.
    pub(crate) fn plain(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::List(items) if items.is_empty() => NONE.to_owned(),
            Self::List(items) => items.iter().map(|item| item.value.plain()).collect::<Vec<_>>().join(","),
            Self::Table(table) => table.plain(),
            other => other.toml(),
        }
    }

    /// The value as TOML on one line.
    pub(crate) fn toml(&self) -> String {
        match self {
            Self::Text(text) => quote(text),
            Self::Integer(number) => number.to_string(),
            Self::Float(number) => format!("{number:?}"),
            Self::Flag(flag) => flag.to_string(),
            Self::Foreign(what) => quote(what),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(|item| item.value.toml()).collect();
                format!("[{}]", items.join(", "))
            }
            Self::Table(table) => {
                let entries: Vec<String> = (table.entries.iter())
                    .map(|entry| format!("{} = {}", bare_or_quoted(&entry.name), entry.item.value.toml()))
                    .collect();
                format!("{{ {} }}", entries.join(", "))
            }
        }
    }
}

/// Text of an empty list for people.
pub(crate) const NONE: &str = "none";

/// A string as TOML.
pub(crate) fn quote(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// A key as TOML.
pub(crate) fn bare_or_quoted(name: &str) -> String {
    let bare = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    if !name.is_empty() && name.chars().all(bare) { name.to_owned() } else { quote(name) }
}

impl Table {
    fn plain(&self) -> String {
        let kind = self.get("kind").map(|entry| entry.item.value.plain()).unwrap_or_default();
        let others: Vec<String> = (self.entries.iter())
            .filter(|entry| entry.name != "kind")
            .map(|entry| format!("{}={}", entry.name, entry.item.value.plain()))
            .collect();
        if others.is_empty() { kind } else { format!("{kind}({})", others.join(",")) }
    }

    /// The entry of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&NamedItem> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The entry of this name.
    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut NamedItem> {
        self.entries.iter_mut().find(|entry| entry.name == name)
    }

    /// Removes and returns the entry of this name.
    pub(crate) fn take(&mut self, name: &str) -> Option<NamedItem> {
        let index = self.entries.iter().position(|entry| entry.name == name)?;
        Some(self.entries.remove(index))
    }

    /// Lays another table over this one: tables deep, everything else replaced.
    ///
    /// `path` is where this table stands in a recipe. A table with a `kind` that changes drops the keys that
    /// only its former kind has.
    pub(crate) fn merge(&mut self, over: Table, path: &str) {
        for entry in over.entries {
            let here = lookup::join(path, &entry.name);
            match self.get_mut(&entry.name) {
                None => self.entries.push(entry),
                Some(existing) => merge_entry(existing, entry, &here),
            }
        }
    }
}

fn merge_entry(existing: &mut NamedItem, over: NamedItem, path: &str) {
    existing.name_span = over.name_span;
    if let (Value::Text(kind), Value::Table(_)) = (&existing.item.value, &over.item.value)
        && lookup::is_union(path)
    {
        let kind = Item { span: existing.item.span, value: Value::Text(kind.clone()) };
        let entry = NamedItem { name: "kind".to_owned(), name_span: existing.name_span, item: kind };
        existing.item.value = Value::Table(Table { entries: vec![entry] });
    }
    match (&mut existing.item.value, over.item.value) {
        (Value::Table(below), Value::Table(above)) => {
            if let Some(kind) = changed_kind(below, &above) {
                below.entries.retain(|entry| lookup::applies(&lookup::join(path, &entry.name), &kind));
            }
            below.merge(above, path);
        }
        (below, above) => {
            *below = above;
            existing.item.span = over.item.span;
        }
    }
}

fn changed_kind(below: &Table, above: &Table) -> Option<String> {
    let kind = |table: &Table| match &table.get("kind")?.item.value {
        Value::Text(kind) => Some(kind.clone()),
        _ => None,
    };
    kind(above).filter(|new| kind(below).as_ref() != Some(new))
}
