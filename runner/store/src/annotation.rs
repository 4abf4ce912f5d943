//! Tags and notes that a user gives to a sweep: words with a limit, fit for a terminal, a page and a query.

use recipe::turns_text;
use serde::Serialize;

/// Characters of the longest tag: a column of a list.
const LONGEST_TAG: usize = 40;
/// Characters of the longest note: a paragraph above a page.
const LONGEST_NOTE: usize = 1_000;
/// Tags of one sweep: what a list can show.
pub(crate) const MOST_TAGS: u32 = 20;

/// A word that sweeps are selected by: `tag=paper-v2`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SweepTag(String);

/// A user's note on a sweep, one paragraph; empty for no note.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SweepNote(String);

/// Tags, note and origin of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Annotations {
    /// Tags in alphabetical order.
    pub tags: Vec<String>,
    /// Empty where nothing was said.
    pub note: String,
    /// When it was imported, in seconds since 1970; nothing for a sweep that was made in this store.
    pub imported: Option<i64>,
}

/// A tag or note that cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnnotationError {
    /// A tag that a query could not name.
    #[error(
        "{tag:?} is no tag: write up to {LONGEST_TAG} letters, digits, `-`, `_` and `.`, the first a letter or digit, as in `paper-v2`"
    )]
    Tag {
        /// As the user wrote it.
        tag: String,
    },
    /// A note of too many characters.
    #[error(
        "the note has {length} characters, and {LONGEST_NOTE} are the most: shorten it, or name a file in it"
    )]
    LongNote {
        /// Its number of characters.
        length: usize,
    },
    /// A note with a character that a terminal would obey, or that lets a text read as another one.
    #[error(
        "the note has the character {character:?}, which changes how the text around it is shown: leave it out"
    )]
    Control {
        /// The first such character.
        character: char,
    },
}

impl SweepTag {
    /// Reads a tag of letters, digits, `-`, `_` and `.`, of which the first is a letter or a digit.
    pub fn parse(text: &str) -> Result<Self, AnnotationError> {
        let fits = |letter: char| letter.is_alphanumeric() || "-_.".contains(letter);
        let length = text.chars().count();
        let begins = text.chars().next().is_some_and(char::is_alphanumeric);
        if begins && length <= LONGEST_TAG && text.chars().all(fits) {
            return Ok(Self(text.to_owned()));
        }
        Err(AnnotationError::Tag { tag: text.chars().take(2 * LONGEST_TAG).collect() })
    }

    /// Text of the tag, as the user wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl SweepNote {
    /// Reads a note. It is one paragraph: runs of blanks and line ends are one space.
    pub fn parse(text: &str) -> Result<Self, AnnotationError> {
        let note = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let length = note.chars().count();
        if length > LONGEST_NOTE {
            return Err(AnnotationError::LongNote { length });
        }
        match note.chars().find(|letter| turns_text(*letter)) {
            Some(character) => Err(AnnotationError::Control { character }),
            None => Ok(Self(note)),
        }
    }

    /// Text of the note, in a single line.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_words_that_a_query_can_name() {
        for good in ["paper-v2", "v1.0", "7", "über_alles", &"a".repeat(40)] {
            assert_eq!(SweepTag::parse(good).unwrap().as_str(), good);
        }
        for bad in
            ["", "-v", ".x", "two words", "a=b", "a(b", "x'y", "a,b", "tab\t", "\u{1b}[31m", &"a".repeat(41)]
        {
            let said = SweepTag::parse(bad).unwrap_err().to_string();
            assert!(said.contains("as in `paper-v2`") && !said.contains('\u{1b}'), "{said}");
        }
    }

    #[test]
    fn notes_are_one_paragraph_without_what_a_terminal_obeys() {
        let note = |text: &str| SweepNote::parse(text).map(|note| note.0);
        assert_eq!(note("  after the\n\tfix  of #7 ").unwrap(), "after the fix of #7");
        assert_eq!(note(" \n ").unwrap(), "");
        assert_eq!(note(&"ä".repeat(1_000)).unwrap().chars().count(), 1_000);
        assert_eq!(note(&"a".repeat(1_001)).unwrap_err(), AnnotationError::LongNote { length: 1_001 });
        assert_eq!(note("a\u{1b}[2Jb").unwrap_err(), AnnotationError::Control { character: '\u{1b}' });
        for letter in ['\0', '\u{9b}', '\u{61c}', '\u{200f}', '\u{2066}'] {
            let said = note(&format!("a{letter}b")).unwrap_err();
            assert_eq!(said, AnnotationError::Control { character: letter });
            assert!(!said.to_string().contains(letter), "{said}");
        }
        // Separators of lines are blanks, as ends of lines are.
        assert_eq!(note("a\u{2028}b\u{2029}c").unwrap(), "a b c");
        assert_eq!(note("a\u{202e}b").unwrap_err(), AnnotationError::Control { character: '\u{202e}' });
    }
}
