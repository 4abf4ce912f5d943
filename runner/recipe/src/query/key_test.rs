//! A comparison of a recipe's key with a value: of `--only` and `sweep.exclude`, asked of a cell's settings, and of the
//! selections of runs, which ask what was recorded.

use crate::Extent;
use crate::keys::key::{Key, Kind};
use crate::keys::lookup::{self, KeyId};
use crate::keys::table::KEYS;
use crate::query::grammar::{Misread, Relation, Word};
use crate::resolve::in_force::CellKey;
use crate::text::parse;
use crate::text::source::Span;
use crate::text::tree::{Item, Value};
use crate::values::leaf::{Leaf, Typed};
use crate::values::value;
use std::cmp::Ordering;

/// A key compared with a value of its type.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyTest {
    key: KeyId,
    relation: Relation,
    operand: Operand,
}

/// The value that a key is compared with.
#[derive(Clone, Debug, PartialEq)]
struct Operand {
    text: String,
    /// `None` for free lists, which are compared by their text.
    typed: Option<Typed>,
}

impl KeyTest {
    /// Reads a comparison. `others` are the names that can be compared beside keys, for the error of one that is neither.
    ///
    /// # Errors
    /// Where the name is no key, or not the end of one key's path alone; where the value is none that the key takes; and
    /// where the relation orders values that have no order.
    pub fn read(name: &Word, relation: Relation, value: &Word, others: &[&str]) -> Result<Self, Misread> {
        let key = key_of(name, others)?;
        let operand = Operand::read(key, value)?;
        let test = Self { key: key.id, relation, operand };
        if relation.orders() && test.number().is_none() {
            return Err(unordered(relation, value));
        }
        Ok(test)
    }

    /// The key's path; a table with a `kind` is called by its own path.
    pub fn path(&self) -> &'static str {
        self.key.shown()
    }

    /// Whether the key is the `kind` of a table.
    pub fn is_kind(&self) -> bool {
        self.key.key().name() == "kind"
    }

    /// How the key's value is compared with the one here.
    pub fn relation(&self) -> Relation {
        self.relation
    }

    /// The value as a recipe writes it.
    pub fn text(&self) -> &str {
        &self.operand.text
    }

    /// The value in its base unit, where it is a number. A value that is a number equals none that is none.
    pub fn number(&self) -> Option<f64> {
        self.operand.typed.as_ref().and_then(Typed::number)
    }

    /// The word that stands in the text of every number that this one can be compared with: lengths in epochs are neither
    /// equal to lengths in steps, nor more or less.
    pub fn unit(&self) -> Option<&'static str> {
        match self.operand.typed.as_ref().and_then(Typed::extent)? {
            Extent::Epochs(_) => Some("epoch"),
            Extent::Steps(_) => Some("step"),
        }
    }

    /// Whether the value of the key fits; `None` where a cell has none, which differs from every value.
    pub(crate) fn holds(&self, leaf: Option<&Leaf>) -> bool {
        self.relation.holds(leaf.and_then(|leaf| self.operand.order(leaf)))
    }

    pub(crate) fn key(&self) -> &'static CellKey {
        CellKey::of(self.key).unwrap_or_else(|| unreachable!("{} was read as a key of cells", self.path()))
    }
}

impl Operand {
    fn read(key: &CellKey, word: &Word) -> Result<Self, Misread> {
        let text = word.text.clone();
        // Lists are compared by their text, as pages show it.
        let of_text = match key.id.key().kind {
            Kind::Layers | Kind::LayerRows | Kind::Slow | Kind::Faults => {
                return Ok(Self { text, typed: None });
            }
            // No bound of what a recipe may write is one of a comparison.
            Kind::Whole(..) | Kind::Number(_) | Kind::Share(_) => {
                if let Some(number) = text.parse().ok().filter(|number: &f64| number.is_finite()) {
                    return Ok(Self { text, typed: Some(Typed::Number(number)) });
                }
                false
            }
            Kind::Extents | Kind::TextList | Kind::ChoiceList(_) | Kind::Seeds => true,
            Kind::Table
            | Kind::Text
            | Kind::Path
            | Kind::Flag
            | Kind::Choice(_)
            | Kind::Duration
            | Kind::Extent(_)
            | Kind::Bandwidth
            | Kind::Size => false,
        };
        let span = Span { source: 0, start: 0, end: 0 };
        let literal = Item { span, value: Value::Text(text.clone()) };
        let candidates = [parse::value(&text, 0, 0), Some(literal)];
        let mut wrong = None;
        for item in candidates.iter().flatten() {
            match value::typed(key.id.key(), item) {
                Ok(typed) => return Ok(Self { text: item.value.plain(), typed: Some(typed) }),
                Err(finding) => wrong = Some(finding),
            }
        }
        match wrong.filter(|_| !of_text) {
            None => Ok(Self { text, typed: None }),
            Some(finding) => {
                let reason = match &finding.cure {
                    Some(cure) => format!("{}: {cure}", finding.title),
                    None => finding.title.into(),
                };
                Err(Misread { suggestion: finding.suggestion.map(Into::into), ..word.misread(reason) })
            }
        }
    }

    /// How a value is ordered beside this one; `None` where they are neither equal nor ordered.
    fn order(&self, leaf: &Leaf) -> Option<Ordering> {
        match (&leaf.typed, &self.typed) {
            (Typed::Extent(Extent::Epochs(_)), Some(Typed::Extent(Extent::Steps(_))))
            | (Typed::Extent(Extent::Steps(_)), Some(Typed::Extent(Extent::Epochs(_)))) => None,
            (left, Some(right)) => match (left.number(), right.number()) {
                (Some(left), Some(right)) => left.partial_cmp(&right),
                (None, _) | (_, None) => (left == right || leaf.text == self.text).then_some(Ordering::Equal),
            },
            (_, None) => (leaf.text == self.text).then_some(Ordering::Equal),
        }
    }
}

/// An order was asked for where there is none.
pub(crate) fn unordered(relation: Relation, value: &Word) -> Misread {
    value.misread(format!("`{}` orders numbers, and `{}` is none", relation.sign(), value.text))
}

/// A key by its path, a table with a `kind` by its own path, and either by its end where that is unique, or unique among
/// the keys of `train`.
fn key_of(token: &Word, others: &[&str]) -> Result<&'static CellKey, Misread> {
    let word = token.text.as_str();
    if let Some(later) = lookup::later(word) {
        return Err(token.misread(format!("`{}` is not in this version", later.path)));
    }
    let kind = lookup::join(word, "kind");
    let exact = [kind.as_str(), word].into_iter().find_map(|path| CellKey::of(KeyId::of(path)?));
    if let Some(key) = exact {
        return Ok(key);
    }
    let ends = |path: &str| {
        [word, &kind].iter().any(|end| path.strip_suffix(end).is_some_and(|rest| rest.ends_with('.')))
    };
    let found = || CellKey::all().iter().filter(|key| ends(key.id.key().path));
    // A strategy's own `lr` takes nothing from that of the training, which most conditions are about.
    let mut of_training = found().filter(|key| key.id.key().path.starts_with("train."));
    if let (Some(key), None) = (of_training.next(), of_training.next()) {
        return Ok(key);
    }
    let mut found = found();
    match (found.next(), found.next()) {
        (Some(key), None) => Ok(key),
        (Some(one), Some(other)) => Err(token.misread(format!(
            "`{word}` may be {} or {}: write the whole path",
            one.id.key().path,
            other.id.key().path
        ))),
        (None, _) => Err(unknown(token, others)),
    }
}

fn unknown(token: &Word, others: &[&str]) -> Misread {
    let word = token.text.as_str();
    let keys = CellKey::all().iter().flat_map(|key| [key.id.key().path, key.id.key().name()]);
    let near = lookup::nearest(word, others.iter().copied().chain(keys));
    let is_meant =
        |key: &&Key| key.path == word || key.path.strip_suffix(word).is_some_and(|rest| rest.ends_with('.'));
    let reason = match KEYS.iter().find(is_meant) {
        Some(Key { kind: Kind::Table, path, .. }) => format!("`{path}` is a table: compare one of its keys"),
        Some(Key { path, .. }) => {
            format!("`{path}` concerns the sweep as a whole: its runs do not differ by it")
        }
        None => {
            let reason = format!("`{word}` is no key of a recipe, and none of {}", others.join(", "));
            return Misread { suggestion: near.map(str::to_owned), ..token.misread(reason) };
        }
    };
    token.misread(reason)
}

/// A key of one strategy, as an axis over it is called: `strategy.pipe.depth` is `strategy.depth` of the strategy `pipe`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnKey {
    /// The strategy's name.
    pub strategy: String,
    /// The key, as every strategy has it.
    pub key: Word,
}

impl OwnKey {
    /// Takes a name apart; `None` for one that is a key itself, or of no strategy.
    pub fn of(name: &Word) -> Option<Self> {
        let rest = name.text.strip_prefix("strategy.")?;
        if KeyId::of(&name.text).is_some() {
            return None;
        }
        // A strategy's name may have dots.
        rest.match_indices('.').find_map(|(end, _)| {
            let path = lookup::join("strategy", &rest[end + 1..]);
            let is_key = [path.clone(), lookup::join(&path, "kind")]
                .iter()
                .any(|path| KeyId::of(path).and_then(CellKey::of).is_some());
            is_key
                .then(|| Self { strategy: rest[..end].to_owned(), key: Word { text: path, ..name.clone() } })
        })
    }
}
