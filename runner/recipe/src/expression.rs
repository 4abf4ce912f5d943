//! Conditions on cells: `strategy.name == 'pipe' and nodes.workers > 4`.

use crate::Extent;
use crate::key::{self, KeyId, Kind, Reach};
use crate::parse;
use crate::problem::Finding;
use crate::setting::{Leaf, Settings, Typed};
use crate::source::Span;
use crate::table::KEYS;
use crate::tree::{Item, Value};
use crate::value;
use std::cmp::Ordering;
use std::ops::Range;

/// A condition, ready to be asked of cells.
#[derive(Debug)]
pub(crate) enum Expression {
    All(Vec<Expression>),
    Any(Vec<Expression>),
    Not(Box<Expression>),
    Compare { subject: Subject, relation: Relation, operand: Operand },
}

/// What is compared.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject {
    /// The name of the cell's strategy.
    StrategyName,
    /// A key's value.
    Key(KeyId),
}

/// How.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    Different,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

/// With what.
#[derive(Debug)]
pub(crate) struct Operand {
    text: String,
    typed: Option<Typed>,
}

impl Operand {
    /// How a value stands to this one; `None` where they are neither equal nor ordered.
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

/// What a condition is asked about.
pub(crate) struct Subjects<'a> {
    pub(crate) strategy: &'a str,
    pub(crate) settings: &'a Settings,
}

/// Why a text is no condition: a sentence, where in the text, and a name that was perhaps meant.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misread {
    pub(crate) reason: String,
    pub(crate) at: Range<usize>,
    pub(crate) suggestion: Option<String>,
}

impl Misread {
    /// The problem, where the condition's first letter stands at the start of `start`.
    pub(crate) fn finding(self, start: Option<Span>) -> Finding {
        let label = match &self.suggestion {
            Some(name) => format!("did you mean `{name}`?"),
            None => "not understood".to_owned(),
        };
        let span = start.map(|first| Span {
            start: first.start + self.at.start as u32,
            end: first.start + self.at.end as u32,
            ..first
        });
        Finding::new("R040", format!("this is no condition: {}", self.reason))
            .at_option(span, label)
            .suggest(self.suggestion.as_deref())
            .note("a condition compares keys with values: `strategy.name == 'd-sync'`, for example")
            .note(value::more("sweep.exclude.when"))
    }
}

/// Parentheses and `not` nest at most this deep.
const DEEPEST: usize = 32;

impl Expression {
    /// Reads a condition.
    pub(crate) fn read(text: &str) -> Result<Self, Misread> {
        let tokens = tokens(text)?;
        let mut reader = Reader { tokens: &tokens, at: 0, depth: 0, end: text.trim_end().len() };
        let expression = reader.any()?;
        match reader.peek() {
            None => Ok(expression),
            Some(token) => Err(token.misread(format!("`{}` does not belong here", token.text))),
        }
    }

    /// Whether a cell meets it.
    pub(crate) fn holds(&self, of: &Subjects<'_>) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.holds(of)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(of)),
            Self::Not(part) => !part.holds(of),
            Self::Compare { subject: Subject::StrategyName, relation, operand } => {
                relation.holds((of.strategy == operand.text).then_some(Ordering::Equal))
            }
            Self::Compare { subject: Subject::Key(key), relation, operand } => match of.settings.get(*key) {
                Some(leaf) => relation.holds(operand.order(leaf)),
                // A key without a value differs from every value.
                None => *relation == Relation::Different,
            },
        }
    }
}

impl Relation {
    fn holds(self, order: Option<Ordering>) -> bool {
        match self {
            Self::Equal => order.is_some_and(Ordering::is_eq),
            Self::Different => !order.is_some_and(Ordering::is_eq),
            Self::Less => order.is_some_and(Ordering::is_lt),
            Self::AtMost => order.is_some_and(Ordering::is_le),
            Self::Greater => order.is_some_and(Ordering::is_gt),
            Self::AtLeast => order.is_some_and(Ordering::is_ge),
        }
    }

    fn of(token: &str) -> Option<Self> {
        Some(match token {
            "==" | "=" => Self::Equal,
            "!=" => Self::Different,
            "<" => Self::Less,
            "<=" => Self::AtMost,
            ">" => Self::Greater,
            ">=" => Self::AtLeast,
            _ => return None,
        })
    }
}

#[derive(Debug)]
struct Token {
    text: String,
    quoted: bool,
    at: Range<usize>,
}

impl Token {
    fn misread(&self, reason: impl Into<String>) -> Misread {
        Misread { reason: reason.into(), at: self.at.clone(), suggestion: None }
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, Misread> {
    let mut tokens = Vec::new();
    let mut start = 0;
    while let Some(first) = text[start..].chars().next() {
        let rest = &text[start..];
        let quoted = matches!(first, '\'' | '"');
        let length = match first {
            _ if first.is_whitespace() => {
                start += first.len_utf8();
                continue;
            }
            _ if quoted => rest[1..].find(first).map(|end| end + 2).ok_or_else(|| {
                let reason = format!("the quotation mark {first} is not closed");
                Misread { reason, at: start..text.len(), suggestion: None }
            })?,
            '(' | ')' => 1,
            '=' | '!' | '<' | '>' => 1 + usize::from(rest[1..].starts_with('=')),
            _ => rest
                .find(|letter: char| letter.is_whitespace() || "'\"()=!<>".contains(letter))
                .unwrap_or(rest.len()),
        };
        let inner = if quoted { &rest[1..length - 1] } else { &rest[..length] };
        tokens.push(Token { text: inner.to_owned(), quoted, at: start..start + length });
        start += length;
    }
    Ok(tokens)
}

struct Reader<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
    /// Where the text ends.
    end: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self, wanted: &str) -> Result<&'a Token, Misread> {
        let token = self.peek().ok_or_else(|| self.here(format!("it ends where {wanted} is expected")))?;
        self.at += 1;
        Ok(token)
    }

    /// Something is wrong at the next token, or at the end.
    fn here(&self, reason: impl Into<String>) -> Misread {
        let at = self.peek().map_or(self.end..self.end, |token| token.at.clone());
        Misread { reason: reason.into(), at, suggestion: None }
    }

    /// Takes a word or sign where it comes next.
    fn takes(&mut self, text: &str) -> bool {
        let found = self.peek().is_some_and(|token| !token.quoted && token.text == text);
        self.at += usize::from(found);
        found
    }

    fn any(&mut self) -> Result<Expression, Misread> {
        let mut parts = vec![self.all()?];
        while self.takes("or") {
            parts.push(self.all()?);
        }
        Ok(Expression::Any(parts))
    }

    fn all(&mut self) -> Result<Expression, Misread> {
        let mut parts = vec![self.one()?];
        while self.takes("and") {
            parts.push(self.one()?);
        }
        Ok(Expression::All(parts))
    }

    fn one(&mut self) -> Result<Expression, Misread> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.here(format!("it nests deeper than {DEEPEST}")));
        }
        let expression = if self.takes("not") {
            Expression::Not(Box::new(self.one()?))
        } else if self.takes("(") {
            let inner = self.any()?;
            if !self.takes(")") {
                return Err(self.here("a closing parenthesis is missing"));
            }
            inner
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(expression)
    }

    fn comparison(&mut self) -> Result<Expression, Misread> {
        let subject = subject(self.next("a key")?)?;
        let sign = self.next("a comparison (==, !=, <, <=, >, >=)")?;
        let relation = Relation::of(&sign.text).filter(|_| !sign.quoted).ok_or_else(|| {
            sign.misread(format!("`{}` is no comparison: write ==, !=, <, <=, > or >=", sign.text))
        })?;
        let operand = operand(subject, self.next("a value")?)?;
        let ordered = !matches!(relation, Relation::Equal | Relation::Different);
        if ordered && operand.typed.as_ref().and_then(Typed::number).is_none() {
            return Err(
                sign.misread(format!("`{}` orders numbers, and `{}` is none", sign.text, operand.text))
            );
        }
        Ok(Expression::Compare { subject, relation, operand })
    }
}

/// A key by its path, a table with a `kind` by its own path, and either by its end where that is unique, or unique among
/// the keys that are no strategy's.
fn subject(token: &Token) -> Result<Subject, Misread> {
    let word = token.text.as_str();
    if token.quoted {
        return Err(token.misread(format!("the key comes first, then the value: '{word}' is a value")));
    }
    if matches!(word, "strategy" | "strategy.name") {
        return Ok(Subject::StrategyName);
    }
    if let Some(later) = key::later(word) {
        return Err(token.misread(format!("`{}` is not in this version", later.path)));
    }
    let kind = key::join(word, "kind");
    let exact = KeyId::of(&kind).or_else(|| KeyId::of(word)).filter(|id| comparable(*id));
    if let Some(id) = exact {
        return Ok(Subject::Key(id));
    }
    let ends = |path: &str| {
        [word, &kind].iter().any(|end| path.strip_suffix(end).is_some_and(|rest| rest.ends_with('.')))
    };
    let found = || (0..KEYS.len()).map(KeyId).filter(|id| comparable(*id) && ends(id.key().path));
    // A strategy's own `lr` takes nothing from the recipe's, which most conditions are about.
    let mut of_the_recipe = found().filter(|id| !id.key().path.starts_with("strategy."));
    if let (Some(id), None) = (of_the_recipe.next(), of_the_recipe.next()) {
        return Ok(Subject::Key(id));
    }
    let mut found = found();
    match (found.next(), found.next()) {
        (Some(id), None) => Ok(Subject::Key(id)),
        (Some(one), Some(other)) => Err(token.misread(format!(
            "`{word}` may be {} or {}: write the whole path",
            one.key().path,
            other.key().path
        ))),
        _ => {
            let known = KEYS.iter().enumerate().filter(|(index, _)| comparable(KeyId(*index)));
            let names = known.flat_map(|(_, key)| [key.path, key.name()]).chain(["strategy.name"]);
            let suggestion = key::nearest(word, names).map(str::to_owned);
            Err(Misread { suggestion, ..token.misread(format!("`{word}` is no key that cells have")) })
        }
    }
}

fn comparable(id: KeyId) -> bool {
    let key = id.key();
    let of_cells = key.reach != Reach::Sweep || key.path == "strategy.kind";
    of_cells && !key.later && !matches!(key.kind, Kind::Table | Kind::Layers | Kind::Slow)
}

fn operand(subject: Subject, token: &Token) -> Result<Operand, Misread> {
    let text = token.text.clone();
    let Subject::Key(id) = subject else { return Ok(Operand { text, typed: None }) };
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
