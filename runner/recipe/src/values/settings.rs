//! The settings of a recipe, a strategy or a cell: at most one checked value for each key.

use crate::Extent;
use crate::keys::key::Key;
use crate::keys::lookup::KeyId;
use crate::keys::table::KEYS;
use crate::text::source::{Sources, Span};
use crate::values::leaf::{Leaf, Typed};
use crate::values::read;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

/// The defaults of all keys, by [`KeyId`].
static DEFAULTS: LazyLock<Vec<Defaults>> = LazyLock::new(|| KEYS.iter().map(Defaults::of).collect());

/// The defaults of a key.
struct Defaults {
    /// Where its table is of no kind below.
    default: Option<Arc<Leaf>>,
    /// By the kind of its table.
    usual: Vec<(&'static str, Arc<Leaf>)>,
}

impl Defaults {
    fn of(key: &'static Key) -> Self {
        let usual = key.usual.iter().filter_map(|usual| Some((usual.kind, leaf(key, usual.toml)?)));
        Self { default: key.default.and_then(|toml| leaf(key, toml)), usual: usual.collect() }
    }
}

fn leaf(key: &'static Key, toml: &str) -> Option<Arc<Leaf>> {
    let item = crate::text::parse::value(toml, 0, 0)?;
    let mut leaf = read::leaf(key, &item, &Sources::default()).ok()?;
    leaf.span = None;
    Some(Arc::new(leaf))
}

/// One value for each key that has one; indexed by [`KeyId`].
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    given: Vec<Option<Arc<Leaf>>>,
}

impl Settings {
    /// Settings in which no key has a value of its own.
    pub(crate) fn new() -> Self {
        Self { given: vec![None; KEYS.len()] }
    }

    /// Gives a key a value. A `kind` that changes takes the keys along that only its former kind had.
    pub(crate) fn set(&mut self, id: KeyId, leaf: Arc<Leaf>) {
        if let (Typed::Choice(kind), "kind") = (&leaf.typed, id.key().name()) {
            let parent = id.key().parent();
            for (key, given) in KEYS.iter().zip(&mut self.given) {
                if key.parent() == parent && !key.is_of(kind) {
                    *given = None;
                }
            }
        }
        self.given[id.0] = Some(leaf);
    }

    /// Gives a key a value and leaves all others as they are.
    pub(crate) fn put(&mut self, id: impl Into<KeyId>, leaf: Arc<Leaf>) {
        self.given[id.into().0] = Some(leaf);
    }

    /// Takes a key's value away.
    pub(crate) fn clear(&mut self, id: KeyId) {
        self.given[id.0] = None;
    }

    /// The value that was given.
    pub(crate) fn given(&self, id: impl Into<KeyId>) -> Option<&Arc<Leaf>> {
        self.given[id.into().0].as_ref()
    }

    /// The value that was given, else the default.
    pub(crate) fn get(&self, id: impl Into<KeyId>) -> Option<&Arc<Leaf>> {
        let id = id.into();
        self.given[id.0].as_ref().or_else(|| self.default(id))
    }

    /// The default of a key, which may depend on the kind of its table.
    fn default(&self, id: KeyId) -> Option<&Arc<Leaf>> {
        let Defaults { default, usual } = &DEFAULTS[id.0];
        if usual.is_empty() {
            return default.as_ref();
        }
        let kind = id.kind().map_or("", |kind| self.name(kind));
        let usual = usual.iter().find(|(of, _)| *of == kind).map(|(_, leaf)| leaf);
        usual.or(default.as_ref())
    }

    /// Where the value was given.
    pub(crate) fn span(&self, id: impl Into<KeyId>) -> Option<Span> {
        self.given(id)?.span
    }

    /// Lays the values of `over` over these.
    pub(crate) fn overlay(&mut self, over: &Self) {
        for (index, leaf) in over.given.iter().enumerate() {
            if let Some(leaf) = leaf {
                self.set(KeyId(index), Arc::clone(leaf));
            }
        }
    }

    /// The name that was chosen, for keys whose family does not matter; empty where there is none.
    pub(crate) fn name(&self, id: KeyId) -> &'static str {
        match self.get(id).map(|leaf| &leaf.typed) {
            Some(Typed::Choice(name)) => name,
            _ => "",
        }
    }

    /// The text; empty where there is none.
    pub(crate) fn text(&self, id: KeyId) -> &str {
        match self.get(id).map(|leaf| &leaf.typed) {
            Some(Typed::Text(text)) => text,
            _ => "",
        }
    }

    pub(crate) fn extents(&self, id: KeyId) -> &[Extent] {
        match self.get(id).map(|leaf| &leaf.typed) {
            Some(Typed::Extents(extents)) => extents,
            _ => &[],
        }
    }

    pub(crate) fn path(&self, id: KeyId) -> Option<&PathBuf> {
        match &self.get(id)?.typed {
            Typed::Path(path) => Some(path),
            _ => None,
        }
    }

    pub(crate) fn list(&self, id: KeyId) -> &[String] {
        match self.get(id).map(|leaf| &leaf.typed) {
            Some(Typed::List(list)) => list,
            _ => &[],
        }
    }
}
