//! Mistyped command lines.

use crate::row::{Row, hold};

pub(crate) const COMMAND_LINES: &[Row] = &[
    ("an unknown verb", |_| (), &["rum", "recipe.toml"], 2, &["'rum'", "'run'"]),
    ("an unknown option", |_| (), &["run", "recipe.toml", "--fast"], 2, &["--fast"]),
    (
        "an override of nothing",
        |_| (),
        &["plan", "recipe.toml", "--set", "train.stepps=3"],
        2,
        &["train.stepps=3", "did you mean `steps`"],
    ),
    ("an override without a value", |_| (), &["plan", "recipe.toml", "--set", "steps"], 2, &["error[R004]"]),
    ("a condition", |_| (), &["plan", "recipe.toml", "--only", "strategy.name =="], 2, &["error[R040]"]),
    ("a selection", |_| (), &["list", "colour=red"], 2, &["colour"]),
    ("a run that is not there", |_| (), &["show", "ZZZZZZZZ"], 3, &["no run ZZZZZZZZ"]),
    (
        "a place without room",
        |_| (),
        &["export", "last", "--format", "csv", "--what", "steps", "-o", "/dev/full"],
        1,
        &["the output cannot be written: /dev/full: No space left", "cure: write it to another place"],
    ),
    (
        "a page in a file",
        |desk| desk.write("file", "").unwrap(),
        &["run", "recipe.toml", "--fresh", "--report", "file/page.html"],
        4,
        &["file/page.html cannot be written", "cure: name another file"],
    ),
];

#[test]
fn broken_command_lines() {
    hold(COMMAND_LINES);
}
