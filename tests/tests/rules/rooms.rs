//! The rooms of a crate, which are its top-level modules, use each other one way: a room can be read, moved and tested with those that it
//! stands on, and no others.

use super::{none, read, sources};
use std::collections::{BTreeMap, BTreeSet};

/// Rooms that others name and that name others: an error has the object that it is about.
const EITHER_WAY: [&str; 1] = ["error"];

/// For each room those that it uses, each with a file that does.
type Uses = BTreeMap<String, BTreeMap<String, String>>;

/// A text without comments and without the tests at its end.
pub(super) fn code(text: &str) -> String {
    let is_tests = |at: &usize| {
        let declared = text[*at..].lines().nth(2).unwrap_or_default();
        declared.contains("mod ") && declared.ends_with('{')
    };
    let tests = text.match_indices("\n#[cfg(test)]\n").map(|(at, _)| at).find(is_tests);
    let before_tests = &text[..tests.unwrap_or(text.len())];
    let lines = before_tests.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The modules that only tests have, by the text that declares them.
pub(super) fn test_modules(text: &str) -> BTreeSet<String> {
    let declared = text.split("#[cfg(test)]\n").skip(1).filter_map(|rest| {
        let line = rest.lines().next()?;
        line.rsplit_once("mod ")?.1.strip_suffix(';')
    });
    declared.map(str::to_owned).collect()
}

/// The first names of a list of paths, up to its closing brace: `a` and `b` of `{a::C, b::{D, E}}`.
fn first_names(list: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut depth = 0;
    let mut name = String::new();
    let mut is_first = true;
    for letter in list.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => {
                names.push(std::mem::take(&mut name));
                is_first = true;
            }
            letter if depth == 1 && is_first && (letter.is_alphanumeric() || letter == '_') => {
                name.push(letter);
            }
            // The rest is in the module, or another name for it.
            ':' | ' ' if !name.is_empty() => is_first = false,
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names.push(name);
    names.retain(|name| !name.is_empty());
    names
}

/// The first names behind each `crate::`.
fn named_in_crate(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, word) in code.match_indices("crate::") {
        let rest = &code[at + word.len()..];
        if rest.starts_with('{') {
            names.extend(first_names(rest));
        } else {
            let own = |letter: char| letter.is_alphanumeric() || letter == '_';
            names.push(rest.chars().take_while(|letter| own(*letter)).collect());
        }
    }
    names
}

/// The room of each name that a crate's root passes on: `Plan` of `pub use spec::plan::{Plan, Run};`.
fn passed_on(root: &str) -> BTreeMap<String, String> {
    let mut rooms = BTreeMap::new();
    for statement in code(root).split(';') {
        let Some((_, path)) = statement.rsplit_once("use ") else { continue };
        let room = path.split("::").next().unwrap_or_default().trim().to_owned();
        for name in path.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')) {
            rooms.insert(name.to_owned(), room.clone());
        }
    }
    rooms
}

/// Which rooms of the crate at `folder` use which.
fn uses(folder: &str, files: &[String]) -> Uses {
    let own: Vec<(&str, String)> = files
        .iter()
        .filter_map(|file| Some((file.strip_prefix(folder)?, read(file))))
        .filter(|(file, _)| !file.contains("tests/") && !file.ends_with("tests.rs"))
        .collect();
    let is_root = |file: &str| ["lib.rs", "main.rs"].contains(&file);
    let room = |file: &str| file.split(['/', '.']).next().unwrap_or_default().to_owned();
    let rooms: BTreeSet<String> =
        own.iter().filter(|(file, _)| !is_root(file)).map(|(file, _)| room(file)).collect();
    let tests: BTreeSet<String> = own.iter().flat_map(|(_, text)| test_modules(text)).collect();
    let roots = own.iter().filter(|(file, _)| is_root(file));
    let passed_on: BTreeMap<String, String> = roots.flat_map(|(_, text)| passed_on(text)).collect();
    let mut found = Uses::new();
    for (file, text) in own.iter().filter(|(file, _)| !is_root(file)) {
        let stem = file.trim_end_matches(".rs").rsplit('/').next().unwrap_or_default();
        let from = room(file);
        if tests.contains(stem) || EITHER_WAY.contains(&from.as_str()) {
            continue;
        }
        for name in named_in_crate(&code(text)) {
            let to = if rooms.contains(&name) { Some(&name) } else { passed_on.get(&name) };
            let to =
                to.filter(|to| **to != from && rooms.contains(*to) && !EITHER_WAY.contains(&to.as_str()));
            if let Some(to) = to {
                found
                    .entry(from.clone())
                    .or_default()
                    .entry(to.clone())
                    .or_insert_with(|| (*file).to_owned());
            }
        }
    }
    found
}

/// A way from a room back to itself.
fn circle(uses: &Uses) -> Option<Vec<String>> {
    let mut left = BTreeSet::new();
    uses.keys().find_map(|room| walk(uses, room, &mut Vec::new(), &mut left))
}

fn walk(uses: &Uses, room: &str, way: &mut Vec<String>, left: &mut BTreeSet<String>) -> Option<Vec<String>> {
    if let Some(begin) = way.iter().position(|passed| passed == room) {
        return Some(way[begin..].to_vec());
    }
    if left.contains(room) {
        return None;
    }
    way.push(room.to_owned());
    let next = uses.get(room).into_iter().flatten();
    let found = next.map(|(other, _)| other).find_map(|other| walk(uses, other, way, left));
    way.pop();
    left.insert(room.to_owned());
    found
}

#[test]
fn rooms_of_a_crate_use_each_other_one_way() {
    let files = sources();
    let folder = |file: &String| Some(format!("{}/src/", file.split_once("/src/")?.0));
    let crates: BTreeSet<String> =
        files.iter().filter_map(folder).filter(|folder| !folder.contains("/tests/")).collect();
    assert!(crates.len() > 10, "{crates:?}");
    none(crates.iter().filter_map(|folder| {
        let uses = uses(folder, &files);
        let way = circle(&uses)?;
        let next = way.iter().cycle().skip(1);
        let steps = way.iter().zip(next).map(|(from, to)| format!("{from} uses {to} in {}", uses[from][to]));
        Some(format!("{folder}: {}", steps.collect::<Vec<_>>().join(", ")))
    }));
}

#[test]
fn uses_are_read_as_the_compiler_reads_them() {
    let text = "use crate::spec::Plan;\nuse crate::{Arm, text::{a, b}, values::Leaf as Own};\nlet x = crate::query::new(); // crate::not\n\
                #[cfg(test)]\nmod tests {\n    use crate::neither;\n}\n";
    assert_eq!(named_in_crate(&code(text)), ["spec", "Arm", "text", "values", "query"]);
    let rooms = passed_on("mod spec;\npub use spec::plan::{Arm, Plan};\npub use text::Source;\n");
    assert_eq!((&*rooms["Arm"], &*rooms["Source"]), ("spec", "text"));
    assert_eq!(test_modules("mod a;\n#[cfg(test)]\nmod made_up;\n"), BTreeSet::from(["made_up".to_owned()]));
    let uses = |ways: &[(&str, &str)]| -> Uses {
        let mut uses = Uses::new();
        for (from, to) in ways {
            uses.entry((*from).to_owned()).or_default().insert((*to).to_owned(), "a.rs".to_owned());
        }
        uses
    };
    assert_eq!(circle(&uses(&[("a", "b"), ("a", "c"), ("b", "c")])), None);
    assert_eq!(
        circle(&uses(&[("a", "b"), ("b", "c"), ("c", "b")])),
        Some(vec!["b".to_owned(), "c".to_owned()])
    );
}
