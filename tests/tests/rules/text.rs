//! Rules for names, signatures and words.

use super::{files, none, read, sources, with_extension};
use std::collections::{BTreeMap, BTreeSet};

/// Files that keep old words for a reason.
const OLD_WORDS: [&str; 2] = [
    // Released migrations never change.
    "runner/store/migrations/",
    // The list of the words itself.
    "tests/tests/rules/text.rs",
];

/// Phrases that a native engineer has to decode, each with what to write instead.
const PHRASES: [(&str, &str); 10] = [
    ("so many", "`n`, or the number's name"),
    ("whoever", "the caller, the writer, the process that ..."),
    ("somebody", "the thing itself"),
    ("nobody", "no worker, no process, nothing"),
    ("is told", "is reported, receives"),
    ("goes on", "continues"),
    ("put aside", "snapshot"),
    ("good-bye", "end message"),
    ("what is", "the noun: the bytes read, its problems, the arms compared"),
    ("answers", "returns; of a peer or server, replies"),
];

fn in_folders(file: &str, folders: &[&str]) -> bool {
    folders.iter().any(|folder| file.starts_with(folder))
}

/// A line without the names that files of earlier versions give to fields.
fn own_words(line: &str) -> String {
    let Some((before, named)) = line.split_once("rename = \"") else { return line.to_owned() };
    let after = named.split_once('"').map_or("", |(_, after)| after);
    format!("{before}{after}")
}

/// The phrase as a whole word, in any case.
fn has_phrase(text: &str, phrase: &str) -> bool {
    let text = text.to_lowercase();
    text.match_indices(phrase).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + phrase.len()..].chars().next();
        let ends = |letter: Option<char>| letter.is_none_or(|letter| !letter.is_alphanumeric());
        ends(before) && ends(after)
    })
}

#[test]
fn sentences_are_plain() {
    let written = [".rs", ".html", ".js", ".css", ".svg", ".toml", ".sql", ".md"];
    let all = files().into_iter().filter(|file| written.iter().any(|end| file.ends_with(end)));
    let mine = all.filter(|file| !in_folders(file, &OLD_WORDS));
    none(mine.flat_map(|file| {
        let text = read(&file);
        let mut found = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = own_words(line);
            for (phrase, instead) in PHRASES.iter().filter(|(phrase, _)| has_phrase(&line, phrase)) {
                found.push(format!("{file}:{}: `{phrase}`; write {instead}", number + 1));
            }
        }
        found
    }));
}

#[test]
fn phrases_are_found_as_words() {
    assert!(has_phrase("/// Whoever reads.", "whoever"));
    assert!(has_phrase("fn nobody_waits()", "nobody") && !has_phrase("nobodys", "nobody"));
    assert!(has_phrase("it goes on", "goes on") && !has_phrase("it goes once", "goes on"));
    assert_eq!(own_words(r#"#[serde(rename = "answers", default)]"#), "#[serde(, default)]");
    assert_eq!(own_words("pub answers: bool"), "pub answers: bool");
}

/// The lines of a text with a function parameter that is a tuple pattern.
fn tuple_parameters(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("): (") {
        let Some(open) = opening(&text[..=at]) else { continue };
        let before = text[..open].trim_end();
        // `let (a, b): (A, B)` and a closure's `|(a, b): (A, B)|` are no parameters of a function.
        let parameter = before.ends_with('(') || before.ends_with(',');
        if parameter && !in_closure(before) {
            found.push(text[..at].lines().count());
        }
    }
    found
}

/// Where the parenthesis opens that closes at the end of the text.
fn opening(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, letter) in text.char_indices().rev() {
        match letter {
            ')' => depth += 1,
            '(' if depth == 1 => return Some(at),
            '(' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Whether the text ends inside the parameters of a closure: after an odd number of bars on its line.
fn in_closure(text: &str) -> bool {
    let line = text.lines().next_back().unwrap_or_default();
    line.matches('|').count() % 2 == 1
}

#[test]
fn functions_take_no_tuple_patterns() {
    let mine = sources().into_iter().filter(|file| !in_folders(file, &OLD_WORDS));
    none(mine.flat_map(|file| {
        let lines = tuple_parameters(&read(&file)).into_iter();
        lines.map(|line| format!("{file}:{line}: a tuple as a parameter; write a struct")).collect::<Vec<_>>()
    }));
}

#[test]
fn tuple_patterns_are_found_in_functions_only() {
    assert_eq!(tuple_parameters("fn f(\n    a: A,\n    (b, c): (B, C),\n)"), [3]);
    assert_eq!(tuple_parameters("fn f((b, (c, d)): (B, (C, D))) {}"), [1]);
    assert_eq!(tuple_parameters("let (a, b): (A, B) = x;\nlet f = |a, (b, c): (B, C)| b;"), [0; 0]);
}

/// The public types that a crate defines, by name; those of its tests and of its modules for tests are left out.
fn public_types(folder: &str) -> BTreeSet<String> {
    definitions(folder).into_iter().map(|(name, _)| name).collect()
}

/// The same with the file of each.
fn definitions(folder: &str) -> Vec<(String, String)> {
    let mut types = Vec::new();
    for file in sources().into_iter().filter(|file| file.starts_with(folder)) {
        let text = read(&file);
        let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
        for line in code.lines() {
            for keyword in ["pub struct ", "pub enum ", "pub trait ", "pub type ", "pub union "] {
                if let Some(rest) = line.strip_prefix(keyword) {
                    let end = rest.find(|letter: char| !letter.is_alphanumeric()).unwrap_or(rest.len());
                    types.push((rest[..end].to_owned(), file.clone()));
                }
            }
        }
    }
    types
}

/// Each file there is a strategy, with a worker and a master or lock of its own.
const ALGORITHMS: &str = "strategies/src/algorithm/";

#[test]
fn a_crate_defines_a_public_type_name_once() {
    let mut defined: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for folder in crate_folders() {
        for (name, file) in definitions(&folder).into_iter().filter(|(_, file)| !file.starts_with(ALGORITHMS))
        {
            defined.entry((folder.clone(), name)).or_default().push(file);
        }
    }
    none(defined.into_iter().filter_map(|((_, name), files)| {
        (files.len() > 1).then(|| format!("`{name}` is defined in {}", files.join(" and ")))
    }));
}

/// The folders of the workspace's crates with their sources.
fn crate_folders() -> BTreeSet<String> {
    let folder = |file: &String| Some(format!("{}src/", file.strip_suffix("Cargo.toml")?));
    let apart = |folder: &String| folder.starts_with("examples/") || folder.contains("fuzz/");
    let manifests = with_extension("toml").into_iter().filter(|file| file.ends_with("/Cargo.toml"));
    manifests.filter_map(|file| folder(&file)).filter(|folder| !apart(folder)).collect()
}

#[test]
fn a_public_type_name_means_one_thing() {
    let folders = crate_folders();
    let mut crates: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    assert!(folders.len() > 10, "{folders:?}");
    for folder in &folders {
        for name in public_types(folder) {
            crates.entry(name).or_default().push(folder);
        }
    }
    assert!(crates.len() > 300, "{} public types", crates.len());
    none(crates.into_iter().filter_map(|(name, folders)| {
        (folders.len() > 1).then(|| format!("`{name}` is defined in {}", folders.join(" and ")))
    }));
}
