//! A key of a recipe: a row of the table in `table.rs`. Parsing, known-key lists, suggestions, the JSON
//! schema, `explain` and the defaults of `plan --full` all read these rows, so that they cannot drift apart.

use crate::spec::family::Choice;

/// One key of a recipe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// Dotted path: `train.optimizer.lr`. A strategy's keys are under `strategy`, a layer's under `model.layers`.
    pub(crate) path: &'static str,
    /// Form of the values that it takes.
    pub(crate) kind: Kind,
    /// Purpose of the key, in one or two sentences.
    pub(crate) doc: &'static str,
    /// The value where none is given, as TOML.
    pub(crate) default: Option<&'static str>,
    /// Other defaults, for some kinds of the enclosing table.
    pub(crate) usual: &'static [Usual],
    /// A value, as TOML.
    pub(crate) example: &'static str,
    /// The kinds of the enclosing table that have this key; empty for all of them.
    pub(crate) of: &'static [&'static str],
    /// Whether this version has it.
    pub(crate) later: bool,
    /// Whether it can be an axis, and whether one over it multiplies arms or conditions.
    pub(crate) reach: Reach,
}

/// The default of a key in a table of one kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usual {
    /// Kind of the enclosing table.
    pub(crate) kind: &'static str,
    /// The value, as TOML.
    pub(crate) toml: &'static str,
}

/// Arms or conditions that an axis over a key multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It cannot be an axis: it concerns the sweep as a whole.
    Sweep,
    Arm,
    Condition,
}

/// Form of the values that a key takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Keys of its own.
    Table,
    Text,
    /// A file or folder.
    Path,
    Flag,
    /// A whole number between the two.
    Whole(u64, u64),
    Number(Range),
    /// A number, or one with a per-cent sign.
    Share(Range),
    /// One of these names.
    Choice(&'static [Choice]),
    /// A time with its unit: `"15min"`.
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
    /// A list of lists of layers.
    LayerRows,
    /// A list of slow ranks.
    Slow,
    /// A list of faults.
    Faults,
    /// Bits or bytes per second, with the unit: `"1Gbit/s"`.
    Bandwidth,
    /// Bytes, with the unit: `"25MiB"`.
    Size,
}

/// Whether an extent may be nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Least {
    Nothing,
    Something,
}

/// An interval of numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) least: f64,
    pub(crate) most: f64,
    /// Which ends belong to it.
    pub(crate) ends: Ends,
}

/// Which ends of an interval belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    Closed,
    Open,
    /// Only the lower one.
    Lower,
}

impl Range {
    pub(crate) const POSITIVE: Self = Self::new(0.0, f64::INFINITY, Ends::Open);
    pub(crate) const AT_LEAST_ZERO: Self = Self::new(0.0, f64::INFINITY, Ends::Lower);
    pub(crate) const AT_LEAST_ONE: Self = Self::new(1.0, f64::INFINITY, Ends::Lower);
    /// Of an hour of a machine. Beyond it is no price, and sums stay finite.
    pub(crate) const PRICE: Self = Self::new(0.0, 1e12, Ends::Closed);
    pub(crate) const UP_TO_ONE: Self = Self::new(0.0, 1.0, Ends::Closed);
    pub(crate) const BELOW_ONE: Self = Self::new(0.0, 1.0, Ends::Lower);
    pub(crate) const INSIDE_ONE: Self = Self::new(0.0, 1.0, Ends::Open);

    pub(crate) const fn new(least: f64, most: f64, ends: Ends) -> Self {
        Self { least, most, ends }
    }

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

impl Key {
    /// A key whose axes multiply conditions.
    pub(crate) const fn new(path: &'static str, kind: Kind, doc: &'static str) -> Self {
        let reach = Reach::Condition;
        Self { path, kind, doc, default: None, usual: &[], example: "", of: &[], later: false, reach }
    }

    /// The value where none is given; also the example.
    pub(crate) const fn default(mut self, toml: &'static str) -> Self {
        self.default = Some(toml);
        self.example = toml;
        self
    }

    /// Other defaults, for some kinds of the enclosing table.
    pub(crate) const fn usual(mut self, usual: &'static [Usual]) -> Self {
        self.usual = usual;
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
