//! A comment on an item says more than the item's name: a unit, a shape, a range, an error, a reason.

use super::{none, read, sources};
use std::collections::BTreeSet;

/// Words that add nothing to a name.
const EMPTY: [&str; 14] =
    ["the", "a", "an", "its", "of", "this", "that", "own", "in", "for", "to", "is", "are", "their"];

/// The words of a text or a name, in lower case and without the ending of a plural.
fn words(text: &str) -> BTreeSet<String> {
    let mut spaced = String::new();
    for letter in text.chars() {
        if letter.is_uppercase() {
            spaced.push(' ');
        }
        spaced.push(letter);
    }
    let pieces = spaced.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    let words = pieces.map(str::to_lowercase).filter(|word| !EMPTY.contains(&word.as_str()));
    words.map(|word| word.trim_end_matches('s').to_owned()).collect()
}

/// The name of the item that a line declares.
fn declared(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let visible = line.strip_prefix("pub").map_or(line, |rest| match rest.split_once(") ") {
        Some((scope, rest)) if scope.starts_with('(') && !scope.contains(' ') => rest,
        _ => rest.trim_start(),
    });
    let kinds = ["async", "const", "unsafe", "static", "fn", "struct", "enum", "type", "trait", "mod"];
    let mut rest = visible;
    while let Some((_, more)) = rest.split_once(' ').filter(|(kind, _)| kinds.contains(kind)) {
        rest = more;
    }
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
    Some(&rest[..end]).filter(|name| !name.is_empty())
}

/// The lines with a comment of one line and at most three words that are all in the name below it.
fn repetitions(text: &str) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let comment = |line: &str| line.trim_start().strip_prefix("/// ").map(str::to_owned);
    let mut found = Vec::new();
    for (place, line) in lines.iter().enumerate() {
        let Some(said) = comment(line).filter(|said| said.split_whitespace().count() <= 3) else { continue };
        let before = place.checked_sub(1).is_some_and(|before| lines[before].trim_start().starts_with("///"));
        let below = lines[place + 1..].iter().find(|line| !line.trim_start().starts_with("#["));
        let Some(below) = below.filter(|below| !before && !below.trim_start().starts_with("///")) else {
            continue;
        };
        let said = words(&said);
        if declared(below).is_some_and(|name| !said.is_empty() && said.is_subset(&words(name))) {
            found.push(place + 1);
        }
    }
    found
}

/// The lines with a comment that begins with a clause instead of the thing itself; questions and headings are not meant.
fn roundabout(text: &str) -> Vec<usize> {
    let lines = text.lines().enumerate();
    let begins = |line: &str| {
        let comment = line.trim_start().strip_prefix("//")?;
        let said = comment.trim_start_matches(['/', '!']).strip_prefix(" What ")?;
        (!said.contains(['?', ':'])).then_some(())
    };
    lines.filter(|(_, line)| begins(line).is_some()).map(|(place, _)| place + 1).collect()
}

#[test]
fn comments_begin_with_the_thing() {
    none(sources().into_iter().flat_map(|file| {
        let lines = roundabout(&read(&file)).into_iter();
        lines
            .map(|line| {
                format!(
                    "{file}:{line}: \"What ...\": begin with the noun: \"Bytes that ...\", not \"What ...\""
                )
            })
            .collect::<Vec<_>>()
    }));
}

#[test]
fn clauses_are_found_in_every_kind_of_comment() {
    let text = "/// What a rank sends.\n//! What this guards:\n    // What if it ends?\n//! What it costs.\n// What a\n/// A What.\n";
    assert_eq!(roundabout(text), [1, 4, 5]);
}

#[test]
fn comments_do_not_repeat_names() {
    // There, a comment is the help that the command line shows.
    let mine = sources().into_iter().filter(|file| !file.starts_with("runner/cli/src/"));
    none(mine.flat_map(|file| {
        let lines = repetitions(&read(&file)).into_iter();
        let instead = "say a unit, a shape, a range or an error, or nothing where it is private";
        lines
            .map(|line| format!("{file}:{line}: the comment repeats the name; {instead}"))
            .collect::<Vec<_>>()
    }));
}

#[test]
fn repetitions_are_found_whatever_the_item_is() {
    let text = "/// Its name.\n    pub name: String,\n/// The section.\n#[derive(Debug)]\npub(crate) struct Section {\n/// Wall time.\n\
                wall_times: u64,\n/// A p value.\npub(crate) fn p_value(p: f64) {}\n/// In seconds.\npub wall: u64,\n/// One.\n/// Two.\none: u8,\n\
                /// Three.\nThree,\n";
    assert_eq!(repetitions(text), [1, 3, 6, 8, 15]);
}
