//! No bare `true` or `false` as an argument of our own functions: a reader of the call cannot see what it means.

use super::{none, read, sources};
use std::collections::BTreeSet;

/// A function with a flag among its parameters, as calls name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Flagged {
    /// Called as `receiver.name(...)`.
    Method(String),
    /// Called as `Owner::name(...)`.
    Associated { owner: String, name: String },
    /// Called as `name(...)` or `module::name(...)`.
    Free(String),
}

/// The part of a file that is no test; empty for a file of tests or examples.
fn code(file: &str) -> String {
    let apart = ["/tests/", "/examples/", "/benches/"].iter().any(|folder| file.contains(folder));
    if apart || file.starts_with("tests/") {
        return String::new();
    }
    let text = read(file);
    let end = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
    text[..end].to_owned()
}

/// The text between the bracket that opens at `open` and the one that closes it, cut at its commas.
fn arguments(text: &str, open: usize) -> Vec<&str> {
    let mut depth = 0_usize;
    let mut begin = open + 1;
    let mut found = Vec::new();
    for (at, letter) in text[open..].char_indices().map(|(at, letter)| (open + at, letter)) {
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 1 => {
                found.push(text[begin..at].trim());
                return found;
            }
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ',' if depth == 1 => {
                found.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    Vec::new()
}

fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The name at the end of a text.
fn last_name(text: &str) -> &str {
    &text[text.trim_end_matches(is_name).len()..]
}

/// The type whose `impl` block holds the place; `None` outside of one.
fn owner(text: &str, place: usize) -> Option<String> {
    let before = &text[..place];
    let begin = before.rfind("\nimpl").map(|at| at + 1)?;
    if before[begin..].contains("\n}\n") {
        return None;
    }
    let head = before[begin..].lines().next()?.trim_end_matches('{').trim();
    let of = head.rsplit(" for ").next().unwrap_or(head);
    let of = of.strip_prefix("impl").unwrap_or(of).trim();
    let of = if of.starts_with('<') { of.split_once("> ").map_or(of, |(_, rest)| rest) } else { of };
    Some(of.chars().take_while(|letter| is_name(*letter)).collect())
}

fn flagged(text: &str) -> BTreeSet<Flagged> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices("fn ") {
        let rest = &text[at + 3..];
        let name: String = rest.chars().take_while(|letter| is_name(*letter)).collect();
        let Some(open) = rest.find('(').filter(|_| !name.is_empty()) else { continue };
        let parameters = arguments(text, at + 3 + open);
        if !parameters.iter().any(|parameter| parameter.ends_with(": bool")) {
            continue;
        }
        let method = parameters.first().is_some_and(|first| last_name(first) == "self");
        found.insert(match owner(text, at) {
            _ if method => Flagged::Method(name),
            Some(owner) => Flagged::Associated { owner, name },
            None => Flagged::Free(name),
        });
    }
    found
}

/// The lines with a call of one of the functions whose argument is a bare literal.
fn calls(text: &str, functions: &BTreeSet<Flagged>) -> Vec<usize> {
    let mut lines = Vec::new();
    for (open, _) in text.match_indices('(') {
        let name = last_name(&text[..open]);
        let before = &text[..open - name.len()];
        if name.is_empty() || before.ends_with("fn ") {
            continue;
        }
        let own = |owner: String| Flagged::Associated { owner, name: name.to_owned() };
        let free = Flagged::Free(name.to_owned());
        let function = match before.strip_suffix("::") {
            Some(path) if last_name(path) == "Self" => owner(text, open).map_or(free, own),
            Some(path) if last_name(path).starts_with(char::is_uppercase) => own(last_name(path).to_owned()),
            None if before.ends_with('.') => Flagged::Method(name.to_owned()),
            Some(_) | None => free,
        };
        let bare = |argument: &&str| ["true", "false"].contains(argument);
        if functions.contains(&function) && arguments(text, open).iter().any(bare) {
            lines.push(text[..open].lines().count());
        }
    }
    lines
}

#[test]
fn no_call_passes_a_bare_literal_flag() {
    let codes: Vec<(String, String)> = sources().into_iter().map(|file| (code(&file), file)).collect();
    let functions: BTreeSet<Flagged> = codes.iter().flat_map(|(code, _)| flagged(code)).collect();
    assert!(functions.len() > 10, "{functions:?}");
    none(codes.iter().flat_map(|(code, file)| {
        let lines = calls(code, &functions).into_iter();
        lines
            .map(move |line| format!("{file}:{line}: a bare `true` or `false` as an argument; write an enum"))
    }));
}

#[test]
fn bare_literals_are_found_in_calls_of_our_own_functions() {
    let ours = "struct A;\nimpl A {\n    fn new(on: bool) -> Self {\n        Self::new(true)\n    }\n    fn set(&mut self, \
                size: u8, on: bool) {}\n}\n\nfn free(on: bool) {}\n";
    let functions = flagged(ours);
    assert_eq!(functions.len(), 3, "{functions:?}");
    assert_eq!(calls(ours, &functions), [4]);
    let text = "free(x);\nfree(false);\nA::new(true);\nB::new(true);\na.set(1, true);\nm::free(!true);\nother(true);\nset(1, f(true));";
    assert_eq!(calls(text, &functions), [2, 3, 5]);
}
