//! The little language that selects runs: `strategy=d-sync and workers>=4 and state=failed`, `last`, part of an id.
//!
//! ```text
//! either = both ("or" both)*
//! both   = one ("and" one)*
//! one    = "not" one | "(" either ")" | field op value | "last" | part of an id
//! op     = "=" | "!=" | "<" | "<=" | ">" | ">="
//! ```
//! `!=` is the opposite of `=`, so a run without the axis in question fits. Nothing at all selects every run.

use crate::{RunId, RunState, SweepId};
use std::fmt;

/// Which runs are meant.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    text: String,
    pub(crate) test: Test,
}

/// What a run must fulfil.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Test {
    /// Nothing.
    Any,
    /// To belong to the newest sweep.
    Last,
    /// That its id, or its sweep's, begins or ends so. Upper case.
    Id(String),
    /// To have such a value.
    Field(Field, Comparison, Operand),
    /// Not to fulfil this.
    Not(Box<Test>),
    /// To fulfil all of these.
    All(Vec<Test>),
    /// To fulfil one of these.
    Either(Vec<Test>),
}

/// What a run can be asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Field {
    /// The kind of its strategy.
    Strategy,
    /// The name of its arm.
    Arm,
    /// The name of its recipe.
    Recipe,
    /// Its condition.
    Condition,
    /// How it stands.
    State,
    /// Its seed.
    Seed,
    /// The number of workers.
    Workers,
    /// Which repeat, from 0.
    Repeat,
    /// The value of an axis: any path with a dot in it, such as `train.optimizer.lr`.
    Axis(String),
}

impl Field {
    const NAMED: [(&'static str, Self); 8] = [
        ("strategy", Self::Strategy),
        ("arm", Self::Arm),
        ("recipe", Self::Recipe),
        ("condition", Self::Condition),
        ("state", Self::State),
        ("seed", Self::Seed),
        ("workers", Self::Workers),
        ("repeat", Self::Repeat),
    ];

    fn is_number(&self) -> bool {
        matches!(self, Self::Workers | Self::Repeat)
    }
}

/// How values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    Unequal,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Comparison {
    const SPELLED: [(&'static str, Self); 6] = [
        ("!=", Self::Unequal),
        ("<=", Self::AtMost),
        (">=", Self::AtLeast),
        ("=", Self::Equal),
        ("<", Self::Less),
        (">", Self::Greater),
    ];

    /// The operator in SQL, which is the one of this language.
    pub(crate) fn operator(self) -> &'static str {
        Self::SPELLED.iter().find(|(_, comparison)| *comparison == self).map_or("=", |(text, _)| text)
    }

    fn orders(self) -> bool {
        !matches!(self, Self::Equal | Self::Unequal)
    }
}

/// What a value is compared with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operand {
    Text(String),
    Number(f64),
}

/// A selection that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("in the selection {text:?}, character {}: {problem}", .text.get(..*.at).map_or(1, |before| before.chars().count() + 1))]
pub struct SelectionError {
    /// As the user wrote it.
    pub text: String,
    /// Where, as an offset in bytes.
    pub at: usize,
    /// What is wrong and what to write instead.
    pub problem: String,
}

impl Selection {
    /// Every run.
    pub fn all() -> Self {
        Self { text: String::new(), test: Test::Any }
    }

    /// The runs of the newest sweep.
    pub fn last() -> Self {
        Self { text: "last".to_owned(), test: Test::Last }
    }

    /// The runs of this sweep.
    pub fn sweep(sweep: &SweepId) -> Self {
        Self { text: sweep.to_string(), test: Test::Id(sweep.to_string()) }
    }

    /// This run.
    pub fn run(run: &RunId) -> Self {
        Self { text: run.to_string(), test: Test::Id(run.to_string()) }
    }

    /// Reads a selection.
    pub fn parse(text: &str) -> Result<Self, SelectionError> {
        let mut parser = Parser { text, at: 0, depth: 0, tests: 0 };
        parser.skip_space();
        if parser.rest().is_empty() {
            return Ok(Self { text: text.to_owned(), test: Test::Any });
        }
        let test = parser.either()?;
        if parser.rest().is_empty() {
            return Ok(Self { text: text.to_owned(), test });
        }
        Err(parser.error("expected \"and\", \"or\" or the end; quote a value with spaces in it".to_owned()))
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: u32,
    tests: u32,
}

type Parsed<T> = Result<T, SelectionError>;

/// Parentheses and `not`s inside each other, and tests in all: far beyond use, well below SQLite's limits.
const DEEPEST: u32 = 50;
const MOST: u32 = 200;

impl<'a> Parser<'a> {
    fn either(&mut self) -> Parsed<Test> {
        self.list("or", Self::both, Test::Either)
    }

    fn both(&mut self) -> Parsed<Test> {
        self.list("and", Self::one, Test::All)
    }

    fn list(
        &mut self,
        word: &str,
        part: impl Fn(&mut Self) -> Parsed<Test>,
        join: impl Fn(Vec<Test>) -> Test,
    ) -> Parsed<Test> {
        let first = part(self)?;
        let mut parts = vec![first];
        while self.take_word(word) {
            parts.push(part(self)?);
        }
        Ok(if parts.len() == 1 { parts.swap_remove(0) } else { join(parts) })
    }

    fn one(&mut self) -> Parsed<Test> {
        self.depth += 1;
        self.tests += 1;
        if self.depth > DEEPEST || self.tests > MOST {
            return Err(self.error(format!("more than {DEEPEST} levels or {MOST} tests")));
        }
        let test = if self.take_word("not") {
            Test::Not(Box::new(self.one()?))
        } else if self.take("(") {
            let inner = self.either()?;
            if !self.take(")") {
                return Err(self.error("expected \")\"".to_owned()));
            }
            inner
        } else {
            self.field_or_id()?
        };
        self.depth -= 1;
        Ok(test)
    }

    fn field_or_id(&mut self) -> Parsed<Test> {
        let begin = self.at;
        let word = self.word();
        if word.is_empty() {
            return Err(self.error(format!("expected a test: {}", known())));
        }
        let Some(comparison) = self.comparison() else { return self.bare(begin, word) };
        let field = self.field(begin, word)?;
        let at = self.at;
        let value = self.value()?;
        let operand = operand(&field, comparison, value).map_err(|problem| self.error_at(at, problem))?;
        Ok(Test::Field(field, comparison, operand))
    }

    /// `last`, or part of an id: Crockford's letters, which leave out i, l, o and u.
    fn bare(&self, at: usize, word: &str) -> Parsed<Test> {
        if word == "last" {
            return Ok(Test::Last);
        }
        let id = word.to_ascii_uppercase();
        let letter = |letter: char| letter.is_ascii_alphanumeric() && !"ILOU".contains(letter);
        if (4..=26).contains(&id.len()) && id.chars().all(letter) {
            return Ok(Test::Id(id));
        }
        let names = Field::NAMED.iter().map(|(name, _)| *name).chain(["last"]);
        let hint = nearest(word, names).map_or_else(String::new, |name| format!("; did you mean {name:?}?"));
        Err(self.error_at(at, format!("{word:?} is neither a test nor 4 to 26 characters of an id{hint}")))
    }

    fn field(&self, at: usize, word: &str) -> Parsed<Field> {
        if let Some((_, field)) = Field::NAMED.iter().find(|(name, _)| *name == word) {
            return Ok(field.clone());
        }
        if word.contains('.') {
            return Ok(Field::Axis(word.to_owned()));
        }
        let hint = nearest(word, Field::NAMED.iter().map(|(name, _)| *name))
            .map_or_else(String::new, |name| format!("; did you mean {name:?}?"));
        Err(self.error_at(at, format!("runs have no {word:?}{hint} Known are {}", known())))
    }

    fn comparison(&mut self) -> Option<Comparison> {
        Comparison::SPELLED.into_iter().find(|(text, _)| self.take(text)).map(|(_, comparison)| comparison)
    }

    fn value(&mut self) -> Parsed<&'a str> {
        if let Some(quoted) = self.rest().strip_prefix('"') {
            let end = quoted.find('"').ok_or_else(|| self.error("the quote is never closed".to_owned()))?;
            self.at += end + 2;
            self.skip_space();
            return Ok(&quoted[..end]);
        }
        match self.word() {
            "" => Err(self.error("expected a value".to_owned())),
            word => Ok(word),
        }
    }

    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let ends = |letter: char| letter.is_whitespace() || "()=!<>\"".contains(letter);
        let word = &rest[..rest.find(ends).unwrap_or(rest.len())];
        self.at += word.len();
        self.skip_space();
        word
    }

    /// Takes a keyword, unless it only begins a longer word or is a field.
    fn take_word(&mut self, word: &str) -> bool {
        let before = self.at;
        let taken = self.word() == word && !self.rest().starts_with(['=', '!', '<', '>']);
        if !taken {
            self.at = before;
        }
        taken
    }

    fn take(&mut self, text: &str) -> bool {
        let taken = self.rest().starts_with(text);
        if taken {
            self.at += text.len();
            self.skip_space();
        }
        taken
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn error(&self, problem: String) -> SelectionError {
        self.error_at(self.at, problem)
    }

    fn error_at(&self, at: usize, problem: String) -> SelectionError {
        SelectionError { text: self.text.to_owned(), at, problem }
    }
}

fn operand(field: &Field, comparison: Comparison, value: &str) -> Result<Operand, String> {
    let number = value.parse().ok().filter(|number: &f64| number.is_finite());
    match (field, number) {
        (Field::State, _) if RunState::named(value).is_none() => {
            let states = RunState::ALL.map(RunState::name);
            let hint =
                nearest(value, states).map_or_else(String::new, |name| format!("; did you mean {name:?}?"));
            Err(format!("no run's state is {value:?}{hint} Known are {}", states.join(", ")))
        }
        (Field::Axis(_), Some(number)) => Ok(Operand::Number(number)),
        (Field::Axis(_), None) if comparison.orders() => Err(format!("{value:?} is not a number")),
        (field, Some(number)) if field.is_number() => Ok(Operand::Number(number)),
        (field, None) if field.is_number() => Err(format!("{value:?} is not a number")),
        (field, _) if comparison.orders() && !matches!(field, Field::Axis(_)) => {
            Err("only numbers have an order: write = or !=".to_owned())
        }
        _ => Ok(Operand::Text(value.to_owned())),
    }
}

fn known() -> String {
    let names = Field::NAMED.map(|(name, _)| name).join(", ");
    format!("{names}, the path of an axis (train.optimizer.lr), \"last\", and ids")
}

fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    names
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(word, name), name))
        .filter(|(distance, name)| *distance <= name.len() / 3 + 1)
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn field(field: Field, comparison: Comparison, operand: Operand) -> Test {
        Test::Field(field, comparison, operand)
    }

    fn text(value: &str) -> Operand {
        Operand::Text(value.to_owned())
    }

    #[test]
    fn and_binds_closer_than_or_and_not_closest() {
        let parsed = Selection::parse("strategy=d-sync and not workers>=4 or(state = failed)").unwrap();
        let strategy = field(Field::Strategy, Comparison::Equal, text("d-sync"));
        let workers = field(Field::Workers, Comparison::AtLeast, Operand::Number(4.0));
        let state = field(Field::State, Comparison::Equal, text("failed"));
        let both = Test::All(vec![strategy, Test::Not(Box::new(workers))]);
        assert_eq!(parsed.test, Test::Either(vec![both, state]));
        assert_eq!(parsed.to_string(), "strategy=d-sync and not workers>=4 or(state = failed)");
    }

    #[test]
    fn words_that_stand_alone() {
        let test = |text: &str| Selection::parse(text).unwrap().test;
        assert_eq!(test("  "), Test::Any);
        assert_eq!(test("last"), Test::Last);
        assert_eq!(test(" 01k9zz "), Test::Id("01K9ZZ".to_owned()));
        let quoted = field(Field::Condition, Comparison::Unequal, text("workers=4 lr=0.1"));
        assert_eq!(test("condition != \"workers=4 lr=0.1\""), quoted);
        let axis = Field::Axis("train.optimizer.lr".to_owned());
        assert_eq!(test("train.optimizer.lr<1e-1"), field(axis, Comparison::Less, Operand::Number(0.1)));
    }

    #[test]
    fn errors_say_where_and_what_instead() {
        let cases = [
            ("stategy=d-sync", 0, "did you mean \"strategy\"?"),
            ("workers>=four", 9, "\"four\" is not a number"),
            ("state=fialed", 6, "did you mean \"failed\"?"),
            ("arm<d", 4, "write = or !="),
            ("workers=4 repeat=0", 10, "expected \"and\""),
            ("(workers=4", 10, "expected \")\""),
            ("workers=", 8, "expected a value"),
            ("recipe=\"a", 7, "never closed"),
            ("workers=4 and", 13, "expected a test"),
            ("lats", 0, "did you mean \"last\"?"),
        ];
        for (selection, at, words) in cases {
            let error = Selection::parse(selection).unwrap_err();
            assert_eq!(error.at, at, "{error}");
            assert!(error.problem.contains(words), "{error}");
        }
        assert!(Selection::parse(&"(".repeat(10_000)).is_err());
        assert!(Selection::parse(&vec!["last"; 10_000].join(" or ")).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_a_selection_or_an_error_inside_it(text in "\\PC*") {
            if let Err(error) = Selection::parse(&text) {
                prop_assert!(text.get(error.at..).is_some());
                let _ = error.to_string();
            }
        }

        #[test]
        fn text_made_of_the_languages_words_too(
            words in prop::collection::vec(
                prop::sample::select(vec![
                    "and", "or", "not", "(", ")", "=", "!=", "<", "workers", "state", "a.b", "4", "failed", "last", "\"", "é", " ",
                ]),
                0..20,
            )
        ) {
            let text = words.join(" ");
            if let Err(error) = Selection::parse(&text) {
                prop_assert!(text.get(error.at..).is_some());
            }
        }
    }
}
