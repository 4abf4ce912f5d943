//! Rules of the repository that no compiler checks: dependencies between crates, the form of files, the parts of a
//! strategy.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

mod circles;
mod comments;
mod families;
mod literals;
mod rooms;
mod text;

use e2e::strategy_kinds as kinds;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The longest a file may be: lines that are not blank, before its tests.
const LONGEST: usize = 450;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Standard output of a program that is run in the repository's root.
fn printed(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(root()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Every file that is, or would be, in the repository.
fn files() -> Vec<String> {
    let listed = printed("git", &["ls-files", "--cached", "--others", "--exclude-standard"]);
    let mut files: Vec<String> = listed.lines().map(str::to_owned).collect();
    files.retain(|file| root().join(file).is_file());
    assert!(files.len() > 100, "git lists {} files", files.len());
    files
}

fn with_extension(extension: &str) -> Vec<String> {
    let fits = |file: &String| Path::new(file).extension().is_some_and(|own| own == extension);
    files().into_iter().filter(fits).collect()
}

fn sources() -> Vec<String> {
    with_extension("rs")
}

/// Fails with one line per offence.
fn none(offences: impl IntoIterator<Item = String>) {
    let offences: Vec<String> = offences.into_iter().collect();
    assert!(offences.is_empty(), "\n{}\n", offences.join("\n"));
}

/// The crates of the workspace, each with its dependencies: name and kind.
fn crates() -> BTreeMap<String, Vec<(String, String)>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let metadata = printed(&cargo, &["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or("normal").to_owned();
    let packages = metadata["packages"].as_array().unwrap().iter().map(|package| {
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        (
            text(&package["name"]),
            dependencies.map(|other| (text(&other["name"]), text(&other["kind"]))).collect(),
        )
    });
    packages.collect()
}

/// The words between backticks in a cell of a table.
fn names(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// For each crate, what it may use by `ARCHITECTURE.md`; one that may use all but some may also use less.
fn allowed() -> BTreeMap<String, String> {
    let page = read("ARCHITECTURE.md");
    let table = page.split("## Crates and folders").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `")).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, _, _, uses] = cells[..] else { panic!("not four cells: {line}") };
        (name.trim_matches('`').to_owned(), uses.to_owned())
    });
    rows.collect()
}

#[test]
fn crates_use_what_the_architecture_lets_them() {
    let crates = crates();
    let allowed = allowed();
    let listed: Vec<&String> = allowed.keys().collect();
    assert_eq!(crates.keys().collect::<Vec<_>>(), listed, "ARCHITECTURE.md lists every crate");
    none(crates.iter().filter_map(|(name, dependencies)| {
        let normal =
            dependencies.iter().filter(|(other, kind)| kind == "normal" && crates.contains_key(other));
        let uses: BTreeSet<String> = normal.map(|(other, _)| other.clone()).collect();
        let may = names(&allowed[name]);
        let fits = if allowed[name].starts_with("all but") { uses.is_disjoint(&may) } else { uses == may };
        (!fits).then(|| format!("{name} uses {uses:?}; ARCHITECTURE.md says: {}", allowed[name]))
    }));
}

#[test]
fn each_library_has_one_crate_that_knows_it() {
    let few: [(&str, &[&str]); 12] = [
        ("zeromq", &["mesh"]),
        ("png", &["pictures"]),
        ("zune-jpeg", &["pictures"]),
        ("sqlx", &["store"]),
        ("ureq", &["datasets"]),
        ("minijinja", &["reports"]),
        ("parquet", &["cli"]),
        ("roxmltree", &["reports"]),
        ("simplecss", &["reports"]),
        ("svg2pdf", &["cli"]),
        // The second is a part of the binding.
        ("tch", &["worker", "torch-native"]),
        ("torch-sys", &["worker", "torch-native"]),
    ];
    for (library, only) in few {
        let users = crates().into_iter().filter(|(_, all)| all.iter().any(|(other, _)| other == library));
        let users: Vec<String> = users.map(|(name, _)| name).collect();
        // A library may be a dependency of another library only; then no crate names it.
        let known = users.iter().all(|user| only.contains(&user.as_str()));
        assert!(known, "{library} is for {only:?}, and is used by {users:?}");
    }
}

/// Everything that a crate is linked with.
fn linked(name: &str) -> BTreeSet<String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let arguments = ["tree", "--offline", "--package", name, "--edges", "normal", "--prefix", "none"];
    let tree = printed(&cargo, &arguments);
    tree.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// Its lock file is that of its manifest and of the crates here, so that it builds from the packages that the workspace has.
#[test]
fn the_example_of_another_crate_builds_as_it_is_locked() {
    const MANIFEST: &str = "examples/own-strategy/Cargo.toml";
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let locked = ["--locked", "--offline", "--all-features", "--format-version", "1"];
    let asked =
        [&["metadata", "--manifest-path", MANIFEST, "--filter-platform", &platform], &locked[..]].concat();
    let metadata: Value = serde_json::from_str(&printed(&cargo, &asked)).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(
        packages.iter().any(|package| package["name"] == "worker"),
        "its program is built with the worker"
    );
}

#[test]
fn the_driver_links_no_libtorch_and_the_worker_no_database() {
    let driver = linked("cli");
    let worker = linked("worker");
    assert!(driver.contains("sqlx") && worker.contains("tch"), "the trees are not what they seem");
    none(["tch", "torch-sys", "worker"].into_iter().filter(|name| driver.contains(*name)).map(str::to_owned));
    none(
        ["sqlx", "store", "reports", "ureq"]
            .into_iter()
            .filter(|name| worker.contains(*name))
            .map(str::to_owned),
    );
}

#[test]
fn files_say_what_they_are_for() {
    none(sources().into_iter().filter(|file| file.contains("src/")).filter_map(|file| {
        let text = read(&file);
        (!text.starts_with("//! ")).then(|| format!("{file} does not begin with `//!`"))
    }));
}

#[test]
fn files_are_named_after_what_is_in_them() {
    let empty = ["util", "utils", "common", "helper", "helpers", "base", "misc"];
    none(
        sources()
            .into_iter()
            .filter(|file| file.trim_end_matches(".rs").split('/').any(|part| empty.contains(&part))),
    );
}

#[test]
fn files_are_short() {
    let code = sources().into_iter().filter(|file| file.contains("src/") && !file.ends_with("/tests.rs"));
    none(code.filter_map(|file| {
        let text = read(&file);
        let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap();
        let lines = code.lines().filter(|line| !line.trim().is_empty()).count();
        (lines > LONGEST).then(|| format!("{file} has {lines} lines without its tests; {LONGEST} are many"))
    }));
}

#[test]
fn nothing_is_left_undone() {
    // In pieces, so that this file keeps its own rule.
    let marks = [
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
        concat!("#[", "ignore"),
        concat!("FIX", "ME"),
    ];
    none(sources().into_iter().flat_map(|file| {
        let text = read(&file);
        let found = marks.into_iter().filter(move |mark| text.contains(mark));
        found.map(|mark| format!("{file} has `{mark}`")).collect::<Vec<_>>()
    }));
}

#[test]
fn nothing_points_out_of_the_repository() {
    let places = [concat!("/wo", "rk/"), concat!("../sha", "red")];
    none(files().into_iter().filter(|file| file != ".ci/run").flat_map(|file| {
        let bytes = fs::read(root().join(&file)).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let found = places.into_iter().filter(move |place| text.contains(place));
        found.map(|place| format!("{file} names `{place}`")).collect::<Vec<_>>()
    }));
}

#[test]
fn every_strategy_has_all_that_contributing_asks_for() {
    assert!(kinds().len() >= 2);
    let index = read("strategies/README.md");
    let tests = files().into_iter().filter(|file| file.starts_with("strategies/tests/"));
    let tests: String = tests.map(|file| read(&file)).collect();
    let mut offences = Vec::new();
    for kind in kinds() {
        let stem = kind.replace('-', "_");
        let variant: String = kind.split('-').map(|word| word[..1].to_uppercase() + &word[1..]).collect();
        let path = format!("strategies/src/algorithm/{stem}.rs");
        match fs::read_to_string(root().join(&path)) {
            Ok(text) => offences.extend(head_offence(&text).map(|what| format!("{path}: {what}"))),
            Err(_) => offences.push(format!("{path} is missing")),
        }
        let row = format!("| `{kind}` |");
        if !index
            .lines()
            .any(|line| line.starts_with(&row) && line.contains(&format!("src/algorithm/{stem}.rs")))
        {
            offences.push(format!("strategies/README.md has no row for {kind}"));
        }
        if !tests.contains(&format!("Strategy::{variant}")) && !tests.contains(&format!("\"{kind}\"")) {
            offences.push(format!("no test in strategies/tests mentions {kind}"));
        }
        let shown = format!("recipes/strategies/{kind}.toml");
        let shows = e2e::plan_file(&root().join(&shown))
            .is_ok_and(|plan| plan.arms.iter().any(|arm| arm.kind == kind));
        if !shows {
            offences.push(format!("{shown} does not show {kind}"));
        }
    }
    none(offences);
}

#[test]
fn every_algorithm_is_a_strategy() {
    let kinds: BTreeSet<String> = kinds().into_iter().map(|kind| kind.replace('-', "_")).collect();
    none(files().into_iter().filter(|file| {
        let stem = file.strip_prefix("strategies/src/algorithm/").map(|name| name.trim_end_matches(".rs"));
        stem.is_some_and(|stem| stem != "mod" && !kinds.contains(stem))
    }));
}

/// The parts of an algorithm's head, in their order.
fn head_offence(text: &str) -> Option<String> {
    let head: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim).collect();
    let title = head.first().is_some_and(|line| line.contains(": ") && line.ends_with('.'));
    if !title {
        return Some("its head does not begin with `NAME: what it is.`".to_owned());
    }
    let mut from = 1;
    for part in ["Source: ", "|---|---|", "Sent per step: ", "Departures: "] {
        let Some(at) = head[from..].iter().position(|line| line.starts_with(part)) else {
            return Some(format!("its head has no `{}` in its place", part.trim()));
        };
        from += at + 1;
    }
    None
}

#[test]
fn heads_of_algorithms_are_checked_part_by_part() {
    let parts =
        ["X: a method.", "Source: a paper.", "|---|---|", "Sent per step: little.", "Departures: none."];
    let head = |parts: &[&str]| parts.iter().flat_map(|part| ["//! ", part, "\n//!\n"]).collect::<String>();
    assert_eq!(head_offence(&head(&parts)), None);
    for missing in 0..parts.len() {
        let mut left = parts.to_vec();
        left.remove(missing);
        assert!(head_offence(&head(&left)).is_some(), "{left:?}");
    }
    let swapped = [parts[0], parts[2], parts[1], parts[3], parts[4]];
    assert!(head_offence(&head(&swapped)).is_some());
}

#[test]
fn every_recipe_plans_and_asks_something() {
    let recipes: Vec<String> =
        with_extension("toml").into_iter().filter(|file| file.starts_with("recipes/")).collect();
    assert!(recipes.len() >= 3, "{recipes:?}");
    none(recipes.into_iter().filter_map(|file| match e2e::plan_file(&root().join(&file)) {
        Err(error) => Some(format!("{file}: {error}")),
        Ok(plan) if plan.runs.is_empty() => Some(format!("{file} plans no run")),
        Ok(plan) if !plan.question.ends_with('?') => Some(format!("{file} asks nothing")),
        Ok(_) => None,
    }));
}

#[test]
fn the_commands_of_the_readme_exist() {
    let source = read("runner/xtask/src/main.rs");
    let usage = source.split("Commands:").nth(1).unwrap().split("Environment:").next().unwrap();
    let chores: BTreeSet<&str> = usage.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let page = read("README.md");
    let named = page
        .split("cargo xtask ")
        .skip(1)
        .map(|rest| rest.split(|letter: char| !letter.is_ascii_alphanumeric()).next().unwrap_or_default());
    let named: BTreeSet<&str> = named.collect();
    assert!(named.is_superset(&["demo", "test"].into()), "README.md names {named:?}");
    none(named.difference(&chores).map(|name| format!("there is no `cargo xtask {name}`")));
}
