//! What a key is. The table of all keys is in `table.rs` and `arm_keys.rs`; parsing, known-key lists, suggestions, the JSON
//! schema, `explain` and the defaults of `plan --full` all read it, so that they cannot drift apart.

use crate::table::KEYS;

/// One key of a recipe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// Dotted path: `train.optimizer.lr`. A strategy's keys are under `strategy`, a layer's under `model.layers`.
    pub(crate) path: &'static str,
    /// What values it takes.
    pub(crate) kind: Kind,
    /// What it is for, in one or two sentences.
    pub(crate) doc: &'static str,
    /// The value where none is given, as TOML.
    pub(crate) default: Option<&'static str>,
    /// A value, as TOML.
    pub(crate) example: &'static str,
    /// The kinds of the enclosing table that have this key; empty for all of them.
    pub(crate) of: &'static [&'static str],
    /// Whether this version has it.
    pub(crate) later: bool,
    /// What an axis over it multiplies.
    pub(crate) reach: Reach,
}

/// What an axis over a key multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It cannot be an axis: it concerns the sweep as a whole.
    Sweep,
    /// Arms.
    Arm,
    /// Conditions.
    Condition,
}

/// What values a key takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Keys of its own.
    Table,
    /// Any string.
    Text,
    /// A file or folder.
    Path,
    /// `true` or `false`.
    Flag,
    /// A whole number between the two.
    Whole(u64, u64),
    /// A number.
    Number(Range),
    /// A number, or one with a per-cent sign.
    Share(Range),
    /// One of these names.
    Choice(&'static [Choice]),
    /// `"15min"`.
    Duration,
    /// `"2 epochs"`, `"100 steps"`; whether nothing is allowed.
    Extent(Least),
    /// A list of lengths: `["10 epochs", "20 epochs"]`.
    Extents,
    /// A list of any strings.
    TextList,
    /// A list of these names.
    ChoiceList(&'static [Choice]),
    /// `{ from = 42 }`, or a list of whole numbers.
    Seeds,
    /// A list of layers.
    Layers,
    /// A list of slow ranks.
    Slow,
    /// `"1Gbit/s"`.
    Bandwidth,
}

/// Whether an extent may be nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Least {
    /// It may.
    Nothing,
    /// It may not.
    Something,
}

/// An interval of numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    /// Lower end.
    pub(crate) least: f64,
    /// Upper end.
    pub(crate) most: f64,
    /// Which ends belong to it.
    pub(crate) ends: Ends,
}

/// Which ends of an interval belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// Both.
    Closed,
    /// Neither.
    Open,
    /// Only the lower one.
    Lower,
}

impl Range {
    /// Whether a number is in it.
    pub(crate) fn contains(self, number: f64) -> bool {
        match self.ends {
            Ends::Closed => number >= self.least && number <= self.most,
            Ends::Open => number > self.least && number < self.most,
            Ends::Lower => number >= self.least && number < self.most,
        }
    }

    /// In words: `at least 0 and below 1`.
    pub(crate) fn describe(self) -> String {
        let lower = if self.ends == Ends::Open { "above" } else { "at least" };
        let upper = if self.ends == Ends::Closed { "at most" } else { "below" };
        match (self.least.is_finite(), self.most.is_finite()) {
            (true, true) => format!("{lower} {} and {upper} {}", self.least, self.most),
            (true, false) => format!("{lower} {}", self.least),
            _ => "finite".to_owned(),
        }
    }
}

/// One of the names that a key takes.
#[derive(Debug)]
pub(crate) struct Choice {
    /// The name.
    pub(crate) name: &'static str,
    /// What it means.
    pub(crate) doc: &'static str,
    /// Whether it can be chosen.
    pub(crate) availability: Availability,
}

/// Whether a name can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Availability {
    /// It can.
    Now,
    /// Not in this version.
    Later,
    /// It is known from a paper by this name, and is a setting here: which.
    Setting(&'static str),
}

impl Choice {
    /// A name that can be chosen.
    pub(crate) const fn now(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc, availability: Availability::Now }
    }

    /// A name that a later version brings.
    pub(crate) const fn later(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc, availability: Availability::Later }
    }

    /// A paper's name for something that is a setting here.
    pub(crate) const fn setting(name: &'static str, doc: &'static str, setting: &'static str) -> Self {
        Self { name, doc, availability: Availability::Setting(setting) }
    }
}

impl Key {
    /// A key whose axes multiply conditions.
    pub(crate) const fn new(path: &'static str, kind: Kind, doc: &'static str) -> Self {
        let reach = Reach::Condition;
        Self { path, kind, doc, default: None, example: "", of: &[], later: false, reach }
    }

    /// The value where none is given; also the example.
    pub(crate) const fn default(mut self, toml: &'static str) -> Self {
        self.default = Some(toml);
        self.example = toml;
        self
    }

    /// An example of a value.
    pub(crate) const fn example(mut self, toml: &'static str) -> Self {
        self.example = toml;
        self
    }

    /// Restricts the key to some kinds of its table.
    pub(crate) const fn of(mut self, kinds: &'static [&'static str]) -> Self {
        self.of = kinds;
        self
    }

    /// A later version brings it.
    pub(crate) const fn later(mut self) -> Self {
        self.later = true;
        self
    }

    /// Its axes multiply arms.
    pub(crate) const fn arm(mut self) -> Self {
        self.reach = Reach::Arm;
        self
    }

    /// It cannot be an axis.
    pub(crate) const fn sweep(mut self) -> Self {
        self.reach = Reach::Sweep;
        self
    }

    /// The path of the enclosing table.
    pub(crate) fn parent(&self) -> &'static str {
        self.path.rsplit_once('.').map_or("", |(parent, _)| parent)
    }

    /// The last part of the path.
    pub(crate) fn name(&self) -> &'static str {
        self.path.rsplit_once('.').map_or(self.path, |(_, name)| name)
    }

    /// Whether a table of this kind has the key.
    pub(crate) fn is_of(&self, kind: &str) -> bool {
        self.of.is_empty() || self.of.contains(&kind)
    }
}

/// Index into [`KEYS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeyId(pub(crate) usize);

impl KeyId {
    /// The key of this path.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let path = plain(path);
        KEYS.iter().position(|key| key.path == path).map(Self)
    }

    /// The key.
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

const fn same(left: &[u8], right: &[u8]) -> bool {
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

/// Whether a path is a table with a `kind`.
pub(crate) fn is_union(path: &str) -> bool {
    find(path).is_some_and(|key| matches!(key.kind, Kind::Table)) && find(&join(path, "kind")).is_some()
}

/// Whether a table of this kind has the key at `path`; unknown keys are not dropped here but reported.
pub(crate) fn applies(path: &str, kind: &str) -> bool {
    find(path).is_none_or(|key| key.is_of(kind))
}

/// The name nearest to what was written, where one is near.
pub(crate) fn nearest<'a>(written: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_lowercase().replace('_', "-");
    names
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&written, name), name))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, name)| name)
}
