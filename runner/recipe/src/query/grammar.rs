//! The grammar of conditions: of `--only` and `sweep.exclude`, which choose cells, and of the selections of `list`, `report`
//! and `export`, which choose runs.
//!
//! ```text
//! either   = both ("or" both)*
//! both     = one ("and" one)*
//! one      = "not" one | "(" either ")" | word relation word | word
//! relation = "=" | "==" | "!=" | "<" | "<=" | ">" | ">="
//! ```
//! A word may stand in quotation marks of either kind, and must where it has spaces, parentheses or signs in it. Which
//! names there are, and what a word means that is compared with nothing, is up to the reader.

use std::cmp::Ordering;
use std::ops::Range;

/// A condition as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// All of these.
    All(Vec<Query>),
    /// At least one of these.
    Either(Vec<Query>),
    /// The opposite.
    Not(Box<Query>),
    /// A name compared with a value.
    Compare {
        /// The name; never in quotation marks.
        name: Word,
        /// The sign between the two.
        relation: Relation,
        /// The right side, unquoted.
        value: Word,
    },
    /// A word that is compared with nothing.
    Word(Word),
}

/// A word and its place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Without quotation marks.
    pub text: String,
    /// Whether it was written with them.
    pub quoted: bool,
    /// Its bytes in the text, with the quotation marks.
    pub at: Range<usize>,
}

/// How a name is compared with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `=` or `==`.
    Equal,
    /// `!=`.
    Different,
    /// `<`.
    Less,
    /// `<=`.
    AtMost,
    /// `>`.
    Greater,
    /// `>=`.
    AtLeast,
}

/// Why a text is no condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misread {
    /// A sentence without its full stop.
    pub reason: String,
    /// The bytes of the text that are wrong.
    pub at: Range<usize>,
    /// The name that was probably meant.
    pub suggestion: Option<String>,
}

/// Parentheses and `not` nest at most this deep.
const DEEPEST: usize = 50;

impl Query {
    /// Reads a condition.
    ///
    /// # Errors
    /// Where the text is none; with the place that is wrong.
    pub fn read(text: &str) -> Result<Self, Misread> {
        let tokens = tokens(text)?;
        let mut reader = Reader { tokens: &tokens, at: 0, depth: 0, end: text.trim_end().len() };
        let query = reader.either()?;
        match reader.peek() {
            None => Ok(query),
            Some(token) => Err(token
                .misread(format!("`{}` does not belong here: join tests with `and` or `or`", token.text))),
        }
    }
}

impl Relation {
    /// The sign, as SQL writes it, too.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::Different => "!=",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Greater => ">",
            Self::AtLeast => ">=",
        }
    }

    /// Whether it needs values that have an order.
    pub fn orders(self) -> bool {
        match self {
            Self::Equal | Self::Different => false,
            Self::Less | Self::AtMost | Self::Greater | Self::AtLeast => true,
        }
    }

    /// Whether two values fit that are ordered like this; `None` where they are neither equal nor ordered, which is different.
    pub(crate) fn holds(self, order: Option<Ordering>) -> bool {
        match self {
            Self::Equal => order.is_some_and(Ordering::is_eq),
            Self::Different => !order.is_some_and(Ordering::is_eq),
            Self::Less => order.is_some_and(Ordering::is_lt),
            Self::AtMost => order.is_some_and(Ordering::is_le),
            Self::Greater => order.is_some_and(Ordering::is_gt),
            Self::AtLeast => order.is_some_and(Ordering::is_ge),
        }
    }

    fn of(token: &Word) -> Option<Self> {
        if token.quoted {
            return None;
        }
        Some(match token.text.as_str() {
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

impl Word {
    /// A problem with this word.
    pub fn misread(&self, reason: impl Into<String>) -> Misread {
        Misread { reason: reason.into(), at: self.at.clone(), suggestion: None }
    }

    fn is(&self, text: &str) -> bool {
        !self.quoted && self.text == text
    }
}

fn tokens(text: &str) -> Result<Vec<Word>, Misread> {
    let mut tokens = Vec::new();
    let mut start = 0;
    while let Some(first) = text[start..].chars().next() {
        if first.is_whitespace() {
            start += first.len_utf8();
            continue;
        }
        let rest = &text[start..];
        let quoted = matches!(first, '\'' | '"');
        let length = match first {
            '\'' | '"' => rest[1..].find(first).map(|end| end + 2).ok_or_else(|| {
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
        tokens.push(Word { text: inner.to_owned(), quoted, at: start..start + length });
        start += length;
    }
    Ok(tokens)
}

struct Reader<'a> {
    tokens: &'a [Word],
    at: usize,
    depth: usize,
    /// Where the text ends.
    end: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a Word> {
        self.tokens.get(self.at)
    }

    fn next(&mut self, wanted: &str) -> Result<&'a Word, Misread> {
        let token = self.peek().ok_or_else(|| self.here(format!("it ends where {wanted} is expected")))?;
        self.at += 1;
        Ok(token)
    }

    /// A problem with the next token, or with the end.
    fn here(&self, reason: impl Into<String>) -> Misread {
        let at = self.peek().map_or(self.end..self.end, |token| token.at.clone());
        Misread { reason: reason.into(), at, suggestion: None }
    }

    /// Takes a word or sign where it comes next.
    fn takes(&mut self, text: &str) -> bool {
        let found = self.peek().is_some_and(|token| token.is(text));
        self.at += usize::from(found);
        found
    }

    fn either(&mut self) -> Result<Query, Misread> {
        let mut parts = vec![self.both()?];
        while self.takes("or") {
            parts.push(self.both()?);
        }
        Ok(only(parts).unwrap_or_else(Query::Either))
    }

    fn both(&mut self) -> Result<Query, Misread> {
        let mut parts = vec![self.one()?];
        while self.takes("and") {
            parts.push(self.one()?);
        }
        Ok(only(parts).unwrap_or_else(Query::All))
    }

    fn one(&mut self) -> Result<Query, Misread> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.here(format!("it nests deeper than {DEEPEST}")));
        }
        let query = if self.takes("not") {
            Query::Not(Box::new(self.one()?))
        } else if self.takes("(") {
            let inner = self.either()?;
            if !self.takes(")") {
                return Err(self.here("a closing parenthesis is missing"));
            }
            inner
        } else {
            self.test()?
        };
        self.depth -= 1;
        Ok(query)
    }

    fn test(&mut self) -> Result<Query, Misread> {
        let name = self.next("a test")?;
        if name.quoted {
            return Err(
                name.misread(format!("the name comes first, then the value: '{}' is a value", name.text))
            );
        }
        if matches!(name.text.as_str(), ")" | "!") || Relation::of(name).is_some() {
            return Err(name.misread(format!("`{}` stands where a test is expected", name.text)));
        }
        match self.peek() {
            None => Ok(Query::Word(name.clone())),
            Some(next) if next.is("and") || next.is("or") || next.is(")") => Ok(Query::Word(name.clone())),
            Some(sign) => {
                let relation = Relation::of(sign).ok_or_else(|| {
                    sign.misread(format!("`{}` is no comparison: write ==, !=, <, <=, > or >=", sign.text))
                })?;
                self.at += 1;
                let value = self.next("a value")?;
                if !value.quoted
                    && (matches!(value.text.as_str(), "(" | ")" | "!") || Relation::of(value).is_some())
                {
                    return Err(value.misread(format!("`{}` stands where a value is expected", value.text)));
                }
                Ok(Query::Compare { name: name.clone(), relation, value: value.clone() })
            }
        }
    }
}

/// The one part, or all of them.
fn only(mut parts: Vec<Query>) -> Result<Query, Vec<Query>> {
    match parts.pop() {
        Some(part) if parts.is_empty() => Ok(part),
        Some(part) => {
            parts.push(part);
            Err(parts)
        }
        None => Err(parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A query without places, in which every precedence has parentheses.
    fn shape(query: &Query) -> String {
        let join = |parts: &[Query], word: &str| {
            let parts: Vec<String> = parts.iter().map(shape).collect();
            format!("({})", parts.join(word))
        };
        match query {
            Query::All(parts) => join(parts, " and "),
            Query::Either(parts) => join(parts, " or "),
            Query::Not(part) => format!("not {}", shape(part)),
            Query::Compare { name, relation, value } => {
                format!("{}{}{}", name.text, relation.sign(), value.text)
            }
            Query::Word(word) => word.text.clone(),
        }
    }

    #[test]
    fn and_binds_closer_than_or_and_not_closest() {
        let check = |text: &str, expected: &str| assert_eq!(shape(&Query::read(text).unwrap()), expected);
        check(
            "strategy=d-sync and not workers>=4 or(state = failed)",
            "((strategy=d-sync and not workers>=4) or state=failed)",
        );
        check("a == 'x y' or a==\"z\"and b!=1", "(a=x y or (a=z and b!=1))");
        check("last and not 01k9zz", "(last and not 01k9zz)");
        check("((a<1))", "a<1");
    }

    #[test]
    fn errors_say_where() {
        let cases = [
            ("", 0, "it ends where a test is expected"),
            ("a=1 and", 7, "it ends where a test is expected"),
            ("a=", 2, "it ends where a value is expected"),
            ("a=1 b=2", 4, "join tests with `and` or `or`"),
            ("(a=1", 4, "a closing parenthesis is missing"),
            ("a='b", 2, "is not closed"),
            ("'b' = a", 0, "the name comes first"),
            ("a b", 2, "`b` is no comparison"),
            ("= 3", 0, "stands where a test is expected"),
            ("a = )", 4, "stands where a value is expected"),
        ];
        for (text, at, reason) in cases {
            let misread = Query::read(text).unwrap_err();
            assert!(misread.at.start == at && misread.reason.contains(reason), "{text}: {misread:?}");
        }
        assert!(Query::read(&"(".repeat(10_000)).is_err());
        assert!(Query::read(&"not ".repeat(10_000)).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_a_query_or_an_error_inside_it(text in "\\PC*") {
            if let Err(misread) = Query::read(&text) {
                prop_assert!(text.get(misread.at).is_some());
            }
        }

        #[test]
        fn text_made_of_the_words_of_the_language_too(
            words in prop::collection::vec(
                prop::sample::select(vec![
                    "and", "or", "not", "(", ")", "=", "==", "!=", "<", "workers", "a.b", "4", "last", "\"", "'", "é", " ",
                ]),
                0..20,
            )
        ) {
            let text = words.join(" ");
            if let Err(misread) = Query::read(&text) {
                prop_assert!(text.get(misread.at).is_some());
            }
        }
    }
}
