//! Checked values, and the flat list of them that a cell is built from.

use crate::Extent;
use crate::key::KeyId;
use crate::layers::LayerSetting;
use crate::slow::SlowSetting;
use crate::source::{Sources, Span};
use crate::table::KEYS;
use crate::value;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// A value of a key, checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Typed {
    Text(String),
    Path(PathBuf),
    Flag(bool),
    Whole(u64),
    Number(f64),
    Choice(&'static str),
    Duration(Duration),
    Extent(Extent),
    Extents(Vec<Extent>),
    List(Vec<String>),
    Seeds(Seeds),
    Layers(Vec<LayerSetting>),
    Slow(Vec<SlowSetting>),
    /// Bytes per second.
    Bandwidth(u64),
}

/// Where the seeds of the repeats come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seeds {
    /// Counting up.
    From(u64),
    /// As listed.
    List(Vec<u64>),
}

/// A checked value, as it was written, and where.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) typed: Typed,
    /// For people: `0.1`, `ring`, `1Gbit/s`.
    pub(crate) text: String,
    /// For the expanded recipe.
    pub(crate) toml: String,
    /// `None` for a default.
    pub(crate) span: Option<Span>,
}

impl Leaf {
    /// A whole number that nobody wrote.
    pub(crate) fn whole(number: u64) -> Arc<Self> {
        let text = number.to_string();
        Arc::new(Self { typed: Typed::Whole(number), toml: text.clone(), text, span: None })
    }

    /// A name that nobody wrote.
    pub(crate) fn name(name: &'static str) -> Arc<Self> {
        let (text, toml) = (name.to_owned(), crate::tree::quote(name));
        Arc::new(Self { typed: Typed::Choice(name), toml, text, span: None })
    }

    /// A path that nobody wrote.
    pub(crate) fn path(path: PathBuf) -> Arc<Self> {
        let text = path.to_string_lossy().into_owned();
        let toml = crate::tree::quote(&text);
        Arc::new(Self { typed: Typed::Path(path), text, toml, span: None })
    }

    /// A list of texts that nobody wrote.
    pub(crate) fn list(texts: &[String]) -> Arc<Self> {
        let quoted: Vec<String> = texts.iter().map(|text| crate::tree::quote(text)).collect();
        let toml = format!("[{}]", quoted.join(", "));
        Arc::new(Self { typed: Typed::List(texts.to_vec()), text: texts.join(","), toml, span: None })
    }

    /// The value as a number, where it is one.
    pub(crate) fn number(&self) -> Option<f64> {
        self.typed.number()
    }
}

impl Typed {
    /// The value as a number in its base unit, where it is one; of extents, whatever they count.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Self::Whole(number) | Self::Bandwidth(number) => Some(*number as f64),
            Self::Number(number) => Some(*number),
            Self::Duration(duration) => Some(duration.as_secs_f64()),
            Self::Extent(Extent::Epochs(epochs)) => Some(*epochs),
            Self::Extent(Extent::Steps(steps)) => Some(*steps as f64),
            _ => None,
        }
    }
}

/// The defaults of all keys, by [`KeyId`].
static DEFAULTS: LazyLock<Vec<Option<Arc<Leaf>>>> = LazyLock::new(|| KEYS.iter().map(default_leaf).collect());

fn default_leaf(key: &'static crate::key::Key) -> Option<Arc<Leaf>> {
    let item = crate::parse::value(key.default?, 0, 0)?;
    let mut leaf = value::leaf(key, &item, &Sources::default()).ok()?;
    leaf.span = None;
    Some(Arc::new(leaf))
}

/// One value for each key that has one; indexed by [`KeyId`].
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    given: Vec<Option<Arc<Leaf>>>,
}

impl Settings {
    /// Nothing but defaults.
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
    pub(crate) fn put(&mut self, id: KeyId, leaf: Arc<Leaf>) {
        self.given[id.0] = Some(leaf);
    }

    /// Takes a key's value away.
    pub(crate) fn clear(&mut self, id: KeyId) {
        self.given[id.0] = None;
    }

    /// The value that was given.
    pub(crate) fn given(&self, id: KeyId) -> Option<&Arc<Leaf>> {
        self.given[id.0].as_ref()
    }

    /// The value that was given, else the default.
    pub(crate) fn get(&self, id: KeyId) -> Option<&Arc<Leaf>> {
        self.given[id.0].as_ref().or(DEFAULTS[id.0].as_ref())
    }

    /// Where the value was given.
    pub(crate) fn span(&self, id: KeyId) -> Option<Span> {
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

    pub(crate) fn whole(&self, id: KeyId) -> Option<u64> {
        match self.get(id)?.typed {
            Typed::Whole(number) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn number(&self, id: KeyId) -> Option<f64> {
        self.get(id)?.number()
    }

    pub(crate) fn flag(&self, id: KeyId) -> bool {
        self.get(id).is_some_and(|leaf| leaf.typed == Typed::Flag(true))
    }

    /// The name that was chosen; empty where there is none.
    pub(crate) fn choice(&self, id: KeyId) -> &'static str {
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

    pub(crate) fn extent(&self, id: KeyId) -> Option<Extent> {
        match self.get(id)?.typed {
            Typed::Extent(extent) => Some(extent),
            _ => None,
        }
    }

    pub(crate) fn extents(&self, id: KeyId) -> &[Extent] {
        match self.get(id).map(|leaf| &leaf.typed) {
            Some(Typed::Extents(extents)) => extents,
            _ => &[],
        }
    }

    pub(crate) fn duration(&self, id: KeyId) -> Option<Duration> {
        match self.get(id)?.typed {
            Typed::Duration(duration) => Some(duration),
            _ => None,
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
