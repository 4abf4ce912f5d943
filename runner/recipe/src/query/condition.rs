//! Conditions on the cells of a recipe: which keys they name, and whether a cell meets them.

use crate::StrategyKind;
use crate::keys::lookup;
use crate::query::grammar::{Misread, Query, Relation, Word};
use crate::query::key_test::{self, KeyTest, OwnKey};
use crate::resolve::in_force::CellKey;
use crate::spec::family::Family;
use crate::text::finding::Finding;
use crate::text::source::Span;
use crate::values::settings::Settings;
use crate::values::value;

/// A condition whose names and values are known.
#[derive(Debug)]
pub(crate) enum Condition {
    All(Vec<Condition>),
    Either(Vec<Condition>),
    Not(Box<Condition>),
    Named { name: Named, is_equal: bool, value: String },
    Key(KeyTest),
}

/// A name of a cell, beside the values of its keys.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Named {
    /// Its strategy's name; or its strategy's kind, where no strategy of the recipe has that name.
    Strategy,
    StrategyName,
    Arm,
    /// Its condition: the values of the axes that are not part of its arm.
    Condition,
}

/// A comparison as it is written.
#[derive(Clone, Copy)]
struct Comparison<'a> {
    name: &'a Word,
    relation: Relation,
    value: &'a Word,
}

/// The names that runs have beside those of their cells, in selections. A key that ends in one of them needs more of its path.
pub const NAMES_OF_RUNS: [&str; 6] = ["recipe", "state", "seed", "repeat", "tag", "origin"];

/// The names of a cell.
const NAMES: [&str; 4] = ["strategy", "strategy.name", "arm", "condition"];

/// The cell that a condition is asked about.
pub(crate) struct Subjects<'a> {
    /// The name of its strategy.
    pub(crate) strategy: &'a str,
    pub(crate) kind: StrategyKind,
    /// The names of all strategies of the recipe.
    pub(crate) strategies: &'a [&'a str],
    pub(crate) arm: &'a str,
    pub(crate) condition: &'a str,
    pub(crate) settings: &'a Settings,
}

impl Subjects<'_> {
    fn is_strategy(&self, word: &str) -> bool {
        if self.strategies.contains(&word) { self.strategy == word } else { self.kind.name() == word }
    }
}

impl Condition {
    /// Reads a condition on the cells of a recipe whose strategies have these names.
    pub(crate) fn read(text: &str, strategies: &[&str]) -> Result<Self, Misread> {
        Self::of(&Query::read(text)?, strategies)
    }

    fn of(query: &Query, strategies: &[&str]) -> Result<Self, Misread> {
        let of = |part: &Query| Self::of(part, strategies);
        let all = |parts: &[Query]| parts.iter().map(of).collect::<Result<Vec<Self>, Misread>>();
        Ok(match query {
            Query::All(parts) => Self::All(all(parts)?),
            Query::Either(parts) => Self::Either(all(parts)?),
            Query::Not(part) => Self::Not(Box::new(of(part)?)),
            Query::Compare { name, relation, value } => {
                Self::comparison(Comparison { name, relation: *relation, value }, strategies)?
            }
            Query::Word(word) => {
                return Err(
                    word.misread(format!("`{}` is compared with nothing: a key needs a value", word.text))
                );
            }
        })
    }

    fn comparison(of: Comparison<'_>, strategies: &[&str]) -> Result<Self, Misread> {
        let Comparison { name, relation, value } = of;
        let named = match name.text.as_str() {
            "strategy" => Named::Strategy,
            "strategy.name" => Named::StrategyName,
            "arm" => Named::Arm,
            "condition" => Named::Condition,
            word if NAMES_OF_RUNS.contains(&word) => {
                let reason = format!("`{word}` belongs to runs: a condition on cells cannot ask for it");
                let mut keys = CellKey::all().iter().filter(|key| key.id.key().name() == word);
                let only = keys.next().filter(|_| keys.next().is_none());
                let suggestion = only.map(|key| key.id.shown().to_owned());
                return Err(Misread { suggestion, ..name.misread(reason) });
            }
            _ => return Self::of_key(of, strategies),
        };
        if relation.orders() {
            return Err(key_test::unordered(relation, value));
        }
        Ok(Self::Named { name: named, is_equal: relation == Relation::Equal, value: value.text.clone() })
    }

    fn of_key(of: Comparison<'_>, strategies: &[&str]) -> Result<Self, Misread> {
        let Comparison { name, relation, value } = of;
        let read = |name: &Word| KeyTest::read(name, relation, value, &NAMES).map(Self::Key);
        let Some(own) = OwnKey::of(name) else { return read(name) };
        let is_kind = StrategyKind::named(&own.strategy).is_some();
        if !is_kind && !strategies.contains(&own.strategy.as_str()) {
            let suggestion = lookup::nearest(&own.strategy, strategies.iter().copied());
            let suggestion = suggestion.map(|near| name.text.replacen(&own.strategy, near, 1));
            let reason = format!("no strategy of the recipe is called `{}`", own.strategy);
            return Err(Misread { suggestion, ..name.misread(reason) });
        }
        let named = Self::Named { name: Named::Strategy, is_equal: true, value: own.strategy };
        Ok(Self::All(vec![named, read(&own.key)?]))
    }

    /// Whether a cell meets it.
    pub(crate) fn holds(&self, of: &Subjects<'_>) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.holds(of)),
            Self::Either(parts) => parts.iter().any(|part| part.holds(of)),
            Self::Not(part) => !part.holds(of),
            Self::Named { name, is_equal, value } => {
                let same = match name {
                    Named::Strategy => of.is_strategy(value),
                    Named::StrategyName => of.strategy == value,
                    Named::Arm => of.arm == value,
                    Named::Condition => of.condition == value,
                };
                same == *is_equal
            }
            Self::Key(test) => test.holds(test.key().value(of.settings, of.kind).as_deref()),
        }
    }
}

/// The problem of a condition that cannot be read, where its first letter stands at the start of `start`.
pub(crate) fn finding(misread: Misread, start: Option<Span>) -> Finding {
    let label = match &misread.suggestion {
        Some(name) => format!("did you mean `{name}`?"),
        None => "not understood".to_owned(),
    };
    let span = start.map(|first| Span {
        start: first.start + misread.at.start as u32,
        end: first.start + misread.at.end as u32,
        ..first
    });
    Finding::new("R040", format!("this is no condition: {}", misread.reason))
        .at_option(span, label)
        .suggest(misread.suggestion.as_deref())
        .note("a condition compares keys with values: `strategy.name == 'd-sync'`, for example")
        .note(value::more("sweep.exclude.when"))
}
