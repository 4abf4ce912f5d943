//! The files of a crate use each other one way: a file can be read, moved and tested with those that it stands on. A module and its
//! parts name each other, and an error has the object that it is about.

use super::rooms::{code, test_modules};
use super::{none, read, sources};
use std::collections::{BTreeMap, BTreeSet};

/// Modules that others name and that name others.
const EITHER_WAY: &str = "error";

/// The names of a module from the crate's root on; the root itself has none.
type ModulePath = Vec<String>;

/// The modules that each module of a crate names.
type Uses = BTreeMap<ModulePath, BTreeSet<ModulePath>>;

fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// The paths that a text of `a::{b, c::D}` stands for, each behind `before`; and the text after it.
fn expanded<'t>(text: &'t str, before: &[String], paths: &mut Vec<ModulePath>) -> &'t str {
    let text = text.trim_start();
    if let Some(mut list) = text.strip_prefix('{') {
        loop {
            list = expanded(list, before, paths).trim_start();
            match list.strip_prefix(',') {
                Some(rest) => list = rest,
                None => return list.strip_prefix('}').unwrap_or(list),
            }
        }
    }
    let end = text.find(|letter| !is_name(letter)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let mut path = before.to_vec();
    path.extend((!name.is_empty()).then(|| name.to_owned()));
    if let Some(rest) = rest.strip_prefix("::") {
        return expanded(rest, &path, paths);
    }
    paths.push(path);
    // Another name for it, or a star.
    let is_over = |letter: char| [',', '}', ';', ')', '('].contains(&letter);
    rest.find(is_over).map_or("", |at| &rest[at..])
}

/// The paths behind each `crate::` and each `super::` of a module's text.
fn named(text: &str, module: &[String]) -> Vec<ModulePath> {
    let mut paths = Vec::new();
    for word in ["crate::", "super::"] {
        for (at, _) in text.match_indices(word) {
            if text[..at].ends_with(is_name) || text[..at].ends_with("super::") {
                continue;
            }
            let mut rest = &text[at..];
            let mut base = module.to_vec();
            if let Some(behind) = rest.strip_prefix("crate::") {
                rest = behind;
                base.clear();
            }
            while let Some(behind) = rest.strip_prefix("super::") {
                rest = behind;
                base.pop();
            }
            expanded(rest, &base, &mut paths);
        }
    }
    paths
}

/// The path of each name that a crate's root passes on: `spec::plan::Plan` of `Plan`.
fn passed_on(root: &str) -> BTreeMap<String, ModulePath> {
    let mut paths = Vec::new();
    for statement in root.split(';') {
        if let Some((_, path)) = statement.rsplit_once("use ") {
            expanded(path, &[], &mut paths);
        }
    }
    paths.into_iter().filter_map(|path| Some((path.last()?.clone(), path))).collect()
}

/// For each module the paths of the names that it passes on from its parts.
fn passed_on_by_modules(
    modules: &BTreeMap<ModulePath, String>,
) -> BTreeMap<ModulePath, BTreeMap<String, ModulePath>> {
    let below = |module: &ModulePath, text: &str| {
        let own = passed_on(text).into_iter().filter_map(|(name, path)| {
            let whole = [module.as_slice(), path.as_slice()].concat();
            let part = whole.get(..=module.len())?;
            modules.contains_key(part).then_some((name, whole))
        });
        own.collect()
    };
    modules.iter().map(|(module, text)| (module.clone(), below(module, text))).collect()
}

/// Whether one of the two is part of the other.
fn are_related(one: &[String], other: &[String]) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// The modules of the crate at `folder` by their paths, with their texts; those that only tests have are left out.
fn modules(folder: &str, files: &[String]) -> BTreeMap<ModulePath, String> {
    let own = files.iter().filter_map(|file| Some((file.strip_prefix(folder)?, read(file))));
    let own: Vec<(&str, String)> =
        own.filter(|(file, _)| !file.contains("tests/") && !file.ends_with("tests.rs")).collect();
    let tests: BTreeSet<String> = own.iter().flat_map(|(_, text)| test_modules(text)).collect();
    let path = |file: &str| -> ModulePath {
        let module = file.trim_end_matches(".rs").trim_end_matches("/mod");
        let names = module.split('/').filter(|name| !["lib", "main"].contains(name));
        names.map(str::to_owned).collect()
    };
    let modules = own.into_iter().map(|(file, text)| (path(file), code(&text)));
    modules.filter(|(path, _)| path.last().is_none_or(|name| !tests.contains(name))).collect()
}

fn uses(modules: &BTreeMap<ModulePath, String>) -> Uses {
    let passed_on = passed_on_by_modules(modules);
    let module_of = |path: &ModulePath| -> Option<ModulePath> {
        let mut path = path.clone();
        loop {
            let lengths = (0..=path.len()).rev();
            let module =
                lengths.map(|length| path[..length].to_vec()).find(|module| modules.contains_key(module))?;
            let next = path.get(module.len()).and_then(|name| passed_on[&module].get(name));
            match next {
                Some(next) if *next != path => path.clone_from(next),
                _ => return Some(module).filter(|module| !module.is_empty()),
            }
        }
    };
    let is_open = |path: &ModulePath| path.last().is_some_and(|name| name != EITHER_WAY);
    let mut uses = Uses::new();
    for (module, text) in modules.iter().filter(|(module, _)| is_open(module)) {
        let others = named(text, module).into_iter().filter_map(|path| module_of(&path));
        let others = others.filter(|other| is_open(other) && !are_related(module, other));
        uses.insert(module.clone(), others.collect());
    }
    uses
}

/// The modules that `from` leads to.
fn reached(uses: &Uses, from: &ModulePath) -> BTreeSet<ModulePath> {
    let mut found = BTreeSet::new();
    let mut next = vec![from];
    while let Some(module) = next.pop() {
        for other in uses.get(module).into_iter().flatten() {
            if found.insert(other.clone()) {
                next.push(other);
            }
        }
    }
    found
}

#[test]
fn files_of_a_crate_use_each_other_one_way() {
    let files = sources();
    let folder = |file: &String| Some(format!("{}/src/", file.split_once("/src/")?.0));
    let crates: BTreeSet<String> =
        files.iter().filter_map(folder).filter(|folder| !folder.contains("/tests/")).collect();
    let mut seen = 0;
    none(crates.iter().flat_map(|folder| {
        let uses = uses(&modules(folder, &files));
        seen += uses.values().map(BTreeSet::len).sum::<usize>();
        let in_circle = uses.keys().filter(|module| reached(&uses, module).contains(*module));
        in_circle
            .map(|module| format!("{folder}: {} leads back to itself", module.join("::")))
            .collect::<Vec<_>>()
    }));
    assert!(seen > 1000, "{seen} uses");
}

#[test]
fn paths_are_read_as_the_compiler_reads_them() {
    let names = |path: &str| -> ModulePath { path.split("::").map(str::to_owned).collect() };
    let text = "use crate::a::{B, c::{D, e}, f::*};\nuse super::g::H as I;\nfn j() -> crate::k::L { super::super::m::n(crate::o) }";
    let paths: BTreeSet<ModulePath> = named(text, &names("x::y")).into_iter().collect();
    let expected = ["a::B", "a::c::D", "a::c::e", "a::f", "x::g::H", "k::L", "m::n", "o"];
    assert_eq!(paths, expected.map(names).into_iter().collect());
    let circle = BTreeMap::from([
        (names("a"), "use crate::b::B;".to_owned()),
        (names("b"), "use crate::c::d::D;".to_owned()),
        (names("c"), "mod d;".to_owned()),
        (names("c::d"), "use crate::A;".to_owned()),
        (Vec::new(), "pub use a::A;".to_owned()),
    ]);
    let uses = uses(&circle);
    let own: Vec<bool> =
        ["a", "b", "c", "c::d"].map(|path| reached(&uses, &names(path)).contains(&names(path))).to_vec();
    assert_eq!(own, [true, true, false, true]);
}
