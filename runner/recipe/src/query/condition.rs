//! Conditions on the cells of a recipe: which keys they name, and whether a cell meets them.

use crate::Extent;
use crate::StrategyKind;
use crate::keys::key::{Kind, Reach};
use crate::keys::lookup::{self, KeyId};
use crate::keys::table::KEYS;
use crate::query::grammar::{Misread, Query, Relation, Word};
use crate::text::finding::Finding;
use crate::text::parse;
use crate::text::source::Span;
use crate::text::tree::{Item, Value};
use crate::values::leaf::{Leaf, Typed};
use crate::values::settings::Settings;
use crate::values::value;
use std::cmp::Ordering;

/// A condition whose names and values are known.
#[derive(Debug)]
pub(crate) enum Condition {
    All(Vec<Condition>),
    Either(Vec<Condition>),
    Not(Box<Condition>),
    Compare { subject: Subject, relation: Relation, operand: Operand },
}

/// The subject of a comparison.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject {
    /// The name of the cell's strategy, or its kind where no strategy of the recipe has that name.
    Strategy,
    StrategyName,
    /// The name of the cell's arm.
    Arm,
    /// The cell's condition: the values of the axes that are not part of its arm.
    Condition,
    /// A key's value.
    Key(KeyId),
}

/// The value that it is compared with.
#[derive(Debug)]
pub(crate) struct Operand {
    text: String,
    typed: Option<Typed>,
}

impl Operand {
    /// How a value is ordered beside this one; `None` where they are neither equal nor ordered.
    fn order(&self, leaf: &Leaf) -> Option<Ordering> {
        match (&leaf.typed, &self.typed) {
            (Typed::Extent(Extent::Epochs(_)), Some(Typed::Extent(Extent::Steps(_))))
            | (Typed::Extent(Extent::Steps(_)), Some(Typed::Extent(Extent::Epochs(_)))) => None,
            (left, Some(right)) => match (left.number(), right.number()) {
                (Some(left), Some(right)) => left.partial_cmp(&right),
                _ => (left == right || leaf.text == self.text).then_some(Ordering::Equal),
            },
            (_, None) => (leaf.text == self.text).then_some(Ordering::Equal),
        }
    }
}

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
    /// Reads a condition.
    pub(crate) fn read(text: &str) -> Result<Self, Misread> {
        Self::of(&Query::read(text)?)
    }

    fn of(query: &Query) -> Result<Self, Misread> {
        let all = |parts: &[Query]| parts.iter().map(Self::of).collect::<Result<Vec<Self>, Misread>>();
        Ok(match query {
            Query::All(parts) => Self::All(all(parts)?),
            Query::Either(parts) => Self::Either(all(parts)?),
            Query::Not(part) => Self::Not(Box::new(Self::of(part)?)),
            Query::Compare { name, relation, value } => Self::comparison(name, *relation, value)?,
            Query::Word(word) => {
                return Err(
                    word.misread(format!("`{}` is compared with nothing: a key needs a value", word.text))
                );
            }
        })
    }

    fn comparison(name: &Word, relation: Relation, value: &Word) -> Result<Self, Misread> {
        let subject = subject(name)?;
        let operand = operand(subject, value)?;
        if relation.orders() && operand.typed.as_ref().and_then(Typed::number).is_none() {
            let sign = relation.sign();
            return Err(value.misread(format!("`{sign}` orders numbers, and `{}` is none", value.text)));
        }
        Ok(Self::Compare { subject, relation, operand })
    }

    /// Whether a cell meets it.
    pub(crate) fn holds(&self, of: &Subjects<'_>) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.holds(of)),
            Self::Either(parts) => parts.iter().any(|part| part.holds(of)),
            Self::Not(part) => !part.holds(of),
            Self::Compare { subject, relation, operand } => {
                let equal = |same: bool| same.then_some(Ordering::Equal);
                let order = match subject {
                    Subject::Strategy => equal(of.is_strategy(&operand.text)),
                    Subject::StrategyName => equal(of.strategy == operand.text),
                    Subject::Arm => equal(of.arm == operand.text),
                    Subject::Condition => equal(of.condition == operand.text),
                    // A key without a value differs from every value.
                    Subject::Key(key) => of.settings.get(*key).and_then(|leaf| operand.order(leaf)),
                };
                meets(*relation, order)
            }
        }
    }
}

fn meets(relation: Relation, order: Option<Ordering>) -> bool {
    match relation {
        Relation::Equal => order.is_some_and(Ordering::is_eq),
        Relation::Different => !order.is_some_and(Ordering::is_eq),
        Relation::Less => order.is_some_and(Ordering::is_lt),
        Relation::AtMost => order.is_some_and(Ordering::is_le),
        Relation::Greater => order.is_some_and(Ordering::is_gt),
        Relation::AtLeast => order.is_some_and(Ordering::is_ge),
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

fn subject(token: &Word) -> Result<Subject, Misread> {
    match token.text.as_str() {
        "strategy" => Ok(Subject::Strategy),
        "strategy.name" => Ok(Subject::StrategyName),
        "arm" => Ok(Subject::Arm),
        "condition" => Ok(Subject::Condition),
        word @ ("recipe" | "state" | "repeat") => {
            Err(token.misread(format!("`{word}` belongs to runs: a condition on cells cannot ask for it")))
        }
        _ => key_of(token).map(Subject::Key),
    }
}

/// The path of the one key that a word means.
///
/// # Errors
/// Where it means none, or several.
pub fn key_path(word: &str) -> Result<&'static str, Misread> {
    let token = Word { text: word.to_owned(), quoted: false, at: 0..word.len() };
    key_of(&token).map(KeyId::shown)
}

/// A key by its path, a table with a `kind` by its own path, and either by its end where that is unique, or unique among
/// the keys that are no strategy's.
fn key_of(token: &Word) -> Result<KeyId, Misread> {
    let word = token.text.as_str();
    if let Some(later) = lookup::later(word) {
        return Err(token.misread(format!("`{}` is not in this version", later.path)));
    }
    let kind = lookup::join(word, "kind");
    let exact = KeyId::of(&kind).or_else(|| KeyId::of(word)).filter(|id| comparable(*id));
    if let Some(id) = exact {
        return Ok(id);
    }
    let ends = |path: &str| {
        [word, &kind].iter().any(|end| path.strip_suffix(end).is_some_and(|rest| rest.ends_with('.')))
    };
    let found = || (0..KEYS.len()).map(KeyId).filter(|id| comparable(*id) && ends(id.key().path));
    // A strategy's own `lr` takes nothing from the recipe's, which most conditions are about.
    let mut of_the_recipe = found().filter(|id| !id.key().path.starts_with("strategy."));
    if let (Some(id), None) = (of_the_recipe.next(), of_the_recipe.next()) {
        return Ok(id);
    }
    let mut found = found();
    match (found.next(), found.next()) {
        (Some(id), None) => Ok(id),
        (Some(one), Some(other)) => Err(token.misread(format!(
            "`{word}` may be {} or {}: write the whole path",
            one.key().path,
            other.key().path
        ))),
        _ => {
            let known = KEYS.iter().enumerate().filter(|(index, _)| comparable(KeyId(*index)));
            let names = known.flat_map(|(_, key)| [key.path, key.name()]).chain(["strategy.name", "arm"]);
            let suggestion = lookup::nearest(word, names).map(str::to_owned);
            Err(Misread { suggestion, ..token.misread(format!("`{word}` is no key that cells have")) })
        }
    }
}

fn comparable(id: KeyId) -> bool {
    let key = id.key();
    let of_cells = key.reach != Reach::Sweep || key.path == "strategy.kind";
    of_cells
        && !key.later
        && !matches!(key.kind, Kind::Table | Kind::Layers | Kind::LayerRows | Kind::Slow | Kind::Faults)
}

fn operand(subject: Subject, token: &Word) -> Result<Operand, Misread> {
    let text = token.text.clone();
    let id = match subject {
        Subject::Key(id) => id,
        Subject::Strategy | Subject::StrategyName | Subject::Arm | Subject::Condition => {
            return Ok(Operand { text, typed: None });
        }
    };
    let span = Span { source: 0, start: 0, end: 0 };
    let literal = Item { span, value: Value::Text(text.clone()) };
    let candidates = [parse::value(&text, 0, 0), Some(literal)];
    let mut reason = None;
    for item in candidates.iter().flatten() {
        match value::typed(id.key(), item) {
            Ok(typed) => return Ok(Operand { text, typed: Some(typed) }),
            Err(finding) => reason = Some(finding),
        }
    }
    // Free lists, as `nodes.use`, are compared by their text.
    match reason {
        Some(finding)
            if !matches!(
                id.key().kind,
                Kind::Extents | Kind::TextList | Kind::ChoiceList(_) | Kind::Seeds
            ) =>
        {
            Err(Misread { suggestion: finding.suggestion.map(Into::into), ..token.misread(finding.title) })
        }
        _ => Ok(Operand { text, typed: None }),
    }
}
