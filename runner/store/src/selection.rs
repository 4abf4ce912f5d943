//! Selections of runs: `strategy=d-sync and workers>=4 and state=failed`, `last`, part of an id. The grammar is that of
//! [`recipe::Query`], and keys of a recipe have the same names as there; this file says which other names runs have.
//!
//! `!=` is the opposite of `=`, so that a run without a value for the key in question fits. The empty selection is every run.

use crate::{RunId, RunState, SweepId};
use recipe::{Family, KeyTest, Misread, OwnKey, Query, Relation, StrategyKind, Word, nearest};
use std::fmt;

/// Which runs are meant.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    text: String,
    pub(crate) test: Test,
}

/// A condition on a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Test {
    /// Nothing: every run fits.
    Any,
    /// It belongs to the newest sweep that was made here, or to the one before that many others. In a store that holds imported sweeps
    /// only, these count.
    Last(u32),
    /// Its id, or its sweep's, begins or ends with this. Upper case.
    Id(String),
    /// The value of a field.
    Field(Field, Relation, Operand),
    /// The value of a recipe's key, as `--only` compares it.
    Key(KeyTest),
    /// It does not fulfil this.
    Not(Box<Test>),
    /// All of these.
    All(Vec<Test>),
    /// At least one of these.
    Either(Vec<Test>),
}

/// A property of a run that is no key of its recipe, or has a column of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// The name of its strategy, or its kind.
    Strategy,
    /// The kind of its strategy.
    StrategyKind,
    /// The name of its strategy.
    StrategyName,
    /// The name of its arm.
    Arm,
    /// The name of its recipe.
    Recipe,
    /// The values of the axes that are not part of its arm.
    Condition,
    State,
    Seed,
    /// The number of workers.
    Workers,
    /// Which repeat, from 1 as people count: columns and documents count from 0.
    Repeat,
    /// A tag of its sweep, of which there may be several.
    Tag,
    /// Whether its sweep was made in this store or imported.
    Origin,
}

impl Field {
    const NAMED: [(&'static str, Self); 13] = [
        ("strategy", Self::Strategy),
        ("strategy.kind", Self::StrategyKind),
        ("strategy.name", Self::StrategyName),
        ("arm", Self::Arm),
        ("recipe", Self::Recipe),
        ("condition", Self::Condition),
        ("state", Self::State),
        ("seed", Self::Seed),
        ("workers", Self::Workers),
        ("nodes.workers", Self::Workers),
        ("repeat", Self::Repeat),
        ("tag", Self::Tag),
        ("origin", Self::Origin),
    ];

    fn named(word: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(name, _)| *name == word).map(|(_, field)| *field)
    }

    fn words(self) -> &'static str {
        match self {
            Self::Strategy => "the name of its strategy, or its kind",
            Self::StrategyKind => "the kind of its strategy",
            Self::StrategyName => "the name of its strategy",
            Self::Arm => "the name of its arm",
            Self::Recipe => "the name of its recipe",
            Self::Condition => "the values of the axes that are not part of its arm, as `workers=4`",
            Self::State => "how it stands: done, failed, running, ...",
            Self::Seed => "its seed",
            Self::Workers => "its number of workers",
            Self::Repeat => "which repeat it is, from 1",
            Self::Tag => "a tag of its sweep, which `bakeoff tag` gives",
            Self::Origin => {
                "whether its sweep was made in this store (own) or by `bakeoff import` (imported)"
            }
        }
    }

    fn is_number(self) -> bool {
        match self {
            Self::Workers | Self::Repeat => true,
            Self::Strategy
            | Self::StrategyKind
            | Self::StrategyName
            | Self::Arm
            | Self::Recipe
            | Self::Condition
            | Self::State
            | Self::Seed
            | Self::Tag
            | Self::Origin => false,
        }
    }
}

/// The origin of a sweep that was made in this store.
const OWN: &str = "own";
/// That of one that was imported.
pub(crate) const IMPORTED: &str = "imported";

/// The right side of a comparison.
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
    /// The problem, and what to write instead.
    pub problem: String,
}

impl Selection {
    /// Selects every run of every sweep.
    pub fn all() -> Self {
        Self { text: String::new(), test: Test::Any }
    }

    /// The runs of the newest sweep that was made here.
    pub fn last() -> Self {
        Self { text: "last".to_owned(), test: Test::Last(0) }
    }

    /// The runs of this sweep.
    pub fn sweep(sweep: &SweepId) -> Self {
        Self { text: sweep.to_string(), test: Test::Id(sweep.to_string()) }
    }

    /// Selects one run.
    pub fn run(run: &RunId) -> Self {
        Self { text: run.to_string(), test: Test::Id(run.to_string()) }
    }

    /// The names that runs have beside the keys of their recipe, each with its meaning.
    pub fn fields() -> impl Iterator<Item = (&'static str, &'static str)> {
        Field::NAMED.iter().map(|(name, field)| (*name, field.words()))
    }

    /// Reads a selection.
    pub fn parse(text: &str) -> Result<Self, SelectionError> {
        if text.trim().is_empty() {
            return Ok(Self { text: text.to_owned(), test: Test::Any });
        }
        let read = Query::read(text).and_then(|query| Reader { tests: 0 }.test(&query));
        let test = read.map_err(|misread| SelectionError::new(text, misread))?;
        Ok(Self { text: text.to_owned(), test })
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl SelectionError {
    fn new(text: &str, misread: Misread) -> Self {
        let hint = misread.suggestion.map_or(String::new(), |name| format!("; did you mean `{name}`?"));
        let problem = format!("{}{hint}", misread.reason);
        Self { text: text.to_owned(), at: misread.at.start, problem }
    }
}

/// Tests in one selection: far beyond use, and well below SQLite's limits.
const MOST: u32 = 200;

/// From a query's words to what they mean of runs.
struct Reader {
    tests: u32,
}

impl Reader {
    fn test(&mut self, query: &Query) -> Result<Test, Misread> {
        Ok(match query {
            Query::All(parts) => Test::All(self.tests(parts)?),
            Query::Either(parts) => Test::Either(self.tests(parts)?),
            Query::Not(part) => Test::Not(Box::new(self.test(part)?)),
            Query::Word(word) => {
                self.count(word)?;
                bare(word)?
            }
            Query::Compare { name, relation, value } => {
                self.count(name)?;
                match Field::named(&name.text) {
                    Some(field) => Test::Field(field, *relation, operand(field, *relation, value)?),
                    None => key(name, *relation, value)?,
                }
            }
        })
    }

    fn tests(&mut self, parts: &[Query]) -> Result<Vec<Test>, Misread> {
        parts.iter().map(|part| self.test(part)).collect()
    }

    fn count(&mut self, word: &Word) -> Result<(), Misread> {
        self.tests += 1;
        if self.tests > MOST { Err(word.misread(format!("more than {MOST} tests"))) } else { Ok(()) }
    }
}

/// `last`, `last~1` for the sweep before it, or part of an id: Crockford's letters, which leave out i, l, o and u.
fn bare(word: &Word) -> Result<Test, Misread> {
    // A name alone is no test: `tag` means `tag=NAME`.
    let named = names().find(|name| *name == word.text);
    if let Some(name) = named {
        return Err(word.misread(format!("`{name}` needs a value, as in `{name}=VALUE`")));
    }
    if word.text == "last" {
        return Ok(Test::Last(0));
    }
    if let Some(count) = word.text.strip_prefix("last~") {
        let wrong =
            || word.misread(format!("`{count}` is no number of sweeps: `last~1` is the one before the last"));
        return count.parse().map(Test::Last).map_err(|_| wrong());
    }
    let id = word.text.to_ascii_uppercase();
    let letter = |letter: char| letter.is_ascii_alphanumeric() && !"ILOU".contains(letter);
    if (4..=26).contains(&id.len()) && id.chars().all(letter) {
        return Ok(Test::Id(id));
    }
    let suggestion = near(&word.text, names().chain(["last"]));
    let reason = format!("`{}` is neither a test nor 4 to 26 characters of an id", word.text);
    Err(Misread { suggestion, ..word.misread(reason) })
}

fn key(name: &Word, relation: Relation, value: &Word) -> Result<Test, Misread> {
    let names: Vec<&str> = names().collect();
    let read = |name: &Word| KeyTest::read(name, relation, value, &names).map(Test::Key);
    let Some(own) = OwnKey::of(name) else { return read(name) };
    let named = Test::Field(Field::Strategy, Relation::Equal, Operand::Text(own.strategy));
    Ok(Test::All(vec![named, read(&own.key)?]))
}

fn operand(field: Field, relation: Relation, value: &Word) -> Result<Operand, Misread> {
    let text = value.text.as_str();
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    match (field, number) {
        (Field::State, _) if RunState::named(text).is_none() => {
            let states = RunState::ALL.map(RunState::name);
            let reason = format!("no run's state is `{text}`; known are {}", states.join(", "));
            Err(Misread { suggestion: near(text, states), ..value.misread(reason) })
        }
        (Field::Origin, _) if ![OWN, IMPORTED].contains(&text) => {
            let reason = format!("an origin is `{OWN}` or `{IMPORTED}`, and not `{text}`");
            Err(Misread { suggestion: near(text, [OWN, IMPORTED]), ..value.misread(reason) })
        }
        (Field::StrategyKind, _) if StrategyKind::named(text).is_none() && !relation.orders() => {
            let kinds = || StrategyKind::ALL.iter().map(|kind| kind.name());
            let reason = format!(
                "no strategy is of kind `{text}`; known are {}",
                kinds().collect::<Vec<_>>().join(", ")
            );
            Err(Misread { suggestion: near(text, kinds()), ..value.misread(reason) })
        }
        (Field::Repeat, Some(number)) if number < 1.0 => {
            Err(value.misread("repeats count from 1: the first one is `repeat=1`".to_owned()))
        }
        (_, Some(number)) if field.is_number() => Ok(Operand::Number(number)),
        (_, None) if field.is_number() => Err(value.misread(format!("`{text}` is not a number"))),
        (_, _) if relation.orders() => {
            Err(value.misread("only numbers have an order: write = or != before it".to_owned()))
        }
        (_, _) => Ok(Operand::Text(text.to_owned())),
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    Field::NAMED.iter().map(|(name, _)| *name)
}

fn near<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(word, names).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use recipe::NAMES_OF_RUNS;

    fn field(field: Field, relation: Relation, operand: Operand) -> Test {
        Test::Field(field, relation, operand)
    }

    fn text(value: &str) -> Operand {
        Operand::Text(value.to_owned())
    }

    fn test(text: &str) -> Test {
        Selection::parse(text).unwrap().test
    }

    #[test]
    fn names_and_values_have_their_meaning() {
        let parsed = Selection::parse("strategy=d-sync and not workers>=4 or(state = failed)").unwrap();
        let strategy = field(Field::Strategy, Relation::Equal, text("d-sync"));
        let workers = field(Field::Workers, Relation::AtLeast, Operand::Number(4.0));
        let state = field(Field::State, Relation::Equal, text("failed"));
        let both = Test::All(vec![strategy, Test::Not(Box::new(workers))]);
        assert_eq!(parsed.test, Test::Either(vec![both, state]));
        assert_eq!(parsed.to_string(), "strategy=d-sync and not workers>=4 or(state = failed)");
    }

    #[test]
    fn words_that_stand_alone() {
        assert_eq!(test("  "), Test::Any);
        assert_eq!(test("last"), Test::Last(0));
        assert_eq!(test("last~2"), Test::Last(2));
        let wrong = Selection::parse("last~two").unwrap_err().to_string();
        assert!(wrong.contains("`last~1` is the one before the last"), "{wrong}");
        assert_eq!(test(" 01k9zz "), Test::Id("01K9ZZ".to_owned()));
    }

    #[test]
    fn keys_are_called_as_in_a_recipe() {
        let key = |text: &str| match test(text) {
            Test::Key(key) => key,
            other => panic!("{text}: {other:?}"),
        };
        for text in ["train.optimizer.lr<1e-1", "lr < 0.1"] {
            let below = key(text);
            assert_eq!((below.path(), below.relation()), ("train.optimizer.lr", Relation::Less));
            assert_eq!((below.number(), below.unit()), (Some(0.1), None));
        }
        let fast = key("network.bandwidth >= 1Gbit/s");
        assert_eq!((fast.path(), fast.number()), ("network.bandwidth", Some(1.25e8)));
        let long = key("train.evaluate = '2 epochs'");
        assert_eq!((long.number(), long.unit()), (Some(2.0), Some("epoch")));
        assert_eq!(test("nodes.workers == 4"), test("workers=4"));
        let kind = field(Field::StrategyKind, Relation::Equal, text("d-sync"));
        assert_eq!(test("strategy.kind == 'd-sync'"), kind);
        let name = field(Field::StrategyName, Relation::Different, text("two words"));
        assert_eq!(test("strategy.name != \"two words\""), name);
        let ring = key("collective = ring");
        assert_eq!((ring.path(), ring.number(), ring.text()), ("communication.collective", None, "ring"));
    }

    /// Names that cells do not have are those that a condition on cells refuses.
    #[test]
    fn the_names_of_runs_are_those_that_cells_do_not_have() {
        let of_cells =
            ["strategy", "strategy.kind", "strategy.name", "arm", "condition", "workers", "nodes.workers"];
        let mut of_runs: Vec<&str> = names().filter(|name| !of_cells.contains(name)).collect();
        of_runs.sort_unstable();
        let mut refused = NAMES_OF_RUNS.to_vec();
        refused.sort_unstable();
        assert_eq!(of_runs, refused);
    }

    #[test]
    fn errors_say_where_and_what_instead() {
        let cases = [
            ("stategy=d-sync", 0, "did you mean `strategy`?"),
            ("workers>=four", 9, "`four` is not a number"),
            ("state=fialed", 6, "did you mean `failed`?"),
            ("arm<d", 4, "write = or !="),
            ("workers=4 repeat=0", 10, "`and` or `or`"),
            ("(workers=4", 10, "a closing parenthesis is missing"),
            ("workers=", 8, "a value is expected"),
            ("recipe=\"a", 7, "not closed"),
            ("workers=4 and", 13, "a test is expected"),
            ("lats", 0, "did you mean `last`?"),
            ("repeat=0", 7, "the first one is `repeat=1`"),
            ("orign=own", 0, "did you mean `origin`?"),
            ("tag<a", 4, "write = or !="),
            ("origin=import", 7, "`own` or `imported`"),
            ("train.optimzer.lr=0.1", 0, "did you mean `train.optimizer.lr`?"),
            ("collective=rign", 11, "did you mean `ring`?"),
            ("lr=fast", 3, "a number"),
            ("collective<ring", 11, "orders numbers"),
            ("repeats.count=5", 0, "the sweep as a whole"),
            ("xyzzy=5", 0, "none of strategy, strategy.kind"),
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
        fn text_made_of_the_words_of_the_language_is_a_selection_or_an_error_inside_it(
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
                let _ = error.to_string();
            }
        }
    }
}
