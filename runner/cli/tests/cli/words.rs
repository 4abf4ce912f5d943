//! Help, version, colours, and the verbs that only talk.

use crate::kitchen::{Kitchen, told};
use std::fs;
use std::process::Stdio;

const VERBS: [&str; 22] = [
    "init",
    "publish",
    "check",
    "plan",
    "predict",
    "run",
    "noise",
    "status",
    "stop",
    "list",
    "show",
    "logs",
    "report",
    "data",
    "export",
    "import",
    "tag",
    "note",
    "explain",
    "schema",
    "db",
    "completions",
];

#[test]
fn the_help_teaches() {
    let help = Kitchen::new().run(&["--help"]).code(0);
    insta::assert_snapshot!("help", help.out);
    for verb in VERBS {
        assert!(help.out.contains(&format!("\n  {verb} ")), "{verb}");
    }
}

#[test]
fn the_help_of_each_verb_has_examples_and_fits_a_terminal() {
    let kitchen = Kitchen::new();
    for verb in VERBS {
        let help = kitchen.run(&[verb, "-h"]).code(0).out;
        assert!(help.contains("\nExamples:\n  bakeoff "), "{verb}: {help}");
        // Where there is room nothing is broken, so that this is how wide the examples were written.
        let wide = told(kitchen.command(&[verb, "-h"]).env("COLUMNS", "100")).out;
        let examples = wide.split("\nExamples:\n").nth(1).unwrap();
        let widest = examples.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 80, "{verb}: {widest} columns");
    }
    insta::assert_snapshot!("help_run", kitchen.run(&["run", "-h"]).out);
}

/// Whatever an argument quotes, a terminal gets it spelled out.
#[test]
fn no_error_hands_a_terminal_what_it_would_obey() {
    let kitchen = Kitchen::new();
    let arguments: [&[&str]; 6] = [
        &["fo\u{1b}[2Jo"],
        &["check", "\u{1b}[2J.toml"],
        &["plan", "small.toml", "--set", "name=\u{1b}[2J"],
        &["plan", "small.toml", "--only", "strategy.name == '\u{1b}[2J'"],
        &["explain", "\u{1b}[2J"],
        &["list", "--store", "\u{1b}[2J"],
    ];
    for arguments in arguments {
        let told = told(kitchen.command(arguments).env("CLICOLOR_FORCE", "1"));
        assert_ne!(told.code, 0, "{told:?}");
        assert!(!told.err.contains("\u{1b}[2J"), "{told:?}");
        let is_spelled_out = told.err.contains("\\u{1b}");
        assert!(is_spelled_out || told.err.contains('\u{fffd}'), "{told:?}");
    }
}

#[test]
fn the_version_comes_from_a_program_without_a_tensor_library() {
    let kitchen = Kitchen::new();
    let version = kitchen.run(&["--version"]).code(0);
    assert_eq!(version.out, format!("bakeoff {}\n", env!("CARGO_PKG_VERSION")));
    let program = fs::read(assert_cmd::cargo::cargo_bin!("bakeoff")).unwrap();
    let libraries = ["libtorch.so", "libtorch_cpu.so", "libc10.so"].map(str::as_bytes);
    // Each name of a library begins behind a zero in the table of those that are loaded; a version may follow it.
    let is_linked = |word: &&[u8]| libraries.iter().any(|library| word.starts_with(library));
    let linked = program.split(|byte| *byte == 0).find(is_linked);
    assert_eq!(linked.map(String::from_utf8_lossy), None, "the driver links it");
}

#[test]
fn wrong_usage_is_2_and_suggests() {
    let kitchen = Kitchen::new();
    assert!(kitchen.run(&[]).code(2).err.contains("Usage: bakeoff"));
    assert!(kitchen.run(&["plam", "small.toml"]).code(2).err.contains("'plan'"));
    assert!(kitchen.run(&["run"]).code(2).err.contains("RECIPE"));
    kitchen.run(&["run", "small.toml", "--max-fail", "0"]).code(2);
    kitchen.run(&["-q", "-v", "schema"]).code(2);
}

#[test]
fn colours_are_for_terminals_and_for_those_who_ask() {
    let kitchen = Kitchen::new();
    let plan = ["plan", "small.toml"];
    assert!(!kitchen.run(&plan).out.contains('\x1b'));
    let always = kitchen.run(&["--color", "always", "plan", "small.toml"]).out;
    assert!(always.contains('\x1b'));
    assert!(!kitchen.run(&["plan", "small.toml", "--color", "never"]).out.contains('\x1b'));
    assert!(!told(kitchen.command(&plan).env("NO_COLOR", "1")).out.contains('\x1b'));
    assert!(kitchen.run(&["--color", "always", "check", "broken.toml"]).err.contains('\x1b'));
}

#[test]
fn explain_has_pages_for_keys_kinds_and_codes() {
    let kitchen = Kitchen::new();
    insta::assert_snapshot!("explain_lr", kitchen.run(&["explain", "train.optimizer.lr"]).code(0).out);
    insta::assert_snapshot!("explain_r012", kitchen.run(&["explain", "R012"]).code(0).out);
    let selection = kitchen.run(&["explain", "selection"]).code(0).out;
    for word in ["tag", "origin", "last~1", "state"] {
        assert!(selection.contains(word), "{selection}");
    }
    assert!(kitchen.run(&["explain", "origin"]).code(0).out.contains("bakeoff import"));
    let all = kitchen.run(&["explain"]).code(0).out;
    assert!(all.lines().any(|line| line == "train.target"), "{all}");
    for topic in all.lines() {
        let page = kitchen.run(&["explain", topic]).code(0).out;
        assert!(!page.trim().is_empty(), "{topic}");
        let widest = page.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 80, "{topic}: {widest} columns");
    }
    let unknown = kitchen.run(&["explain", "train.epoch"]).code(2).err;
    assert!(unknown.contains("did you mean `train.epochs`?"), "{unknown}");
}

#[test]
fn the_schema_is_a_json_schema() {
    let schema = Kitchen::new().run(&["schema"]).code(0).json();
    assert!(schema["$schema"].as_str().unwrap().contains("json-schema.org"));
    assert!(schema["properties"]["train"].is_object());
}

#[test]
fn each_shell_gets_its_completions() {
    let kitchen = Kitchen::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = kitchen.run(&["completions", shell]).code(0).out;
        assert!(VERBS.iter().all(|verb| script.contains(verb)), "{shell}");
    }
    kitchen.run(&["completions", "perl"]).code(2);
}

#[test]
fn a_reader_who_leaves_early_is_no_fault() {
    let kitchen = Kitchen::new();
    let mut child =
        kitchen.command(&["schema"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn init_writes_recipes_that_plan_and_never_overwrites() {
    let kitchen = Kitchen::new();
    for template in ["compare", "scaling", "batch"] {
        let file = format!("new/{template}.toml");
        kitchen.run(&["init", &file, "--template", template]).code(0);
        kitchen.run(&["plan", &file]).code(0);
    }
    let first = kitchen.run(&["init"]).code(0);
    assert!(first.out.starts_with("recipe.toml: ") && first.err.contains("next: bakeoff plan recipe.toml"));
    let again = kitchen.run(&["init"]).code(2).err;
    assert!(again.contains("recipe.toml is there already") && again.contains("--force"), "{again}");
    kitchen.write("recipe.toml", "mine");
    kitchen.run(&["init", "--force"]).code(0);
    assert_ne!(fs::read_to_string(kitchen.path("recipe.toml")).unwrap(), "mine");
    kitchen.run(&["init", "--template", "nothing"]).code(2);
}
