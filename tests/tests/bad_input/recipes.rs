//! Recipes with a problem.

use crate::row::{CHECK, Row, hold, recipe};
use std::fs;
use std::os::unix::fs::symlink;

pub(crate) const RECIPES: &[Row] = &[
    (
        "no TOML",
        |desk| recipe(desk, "name = \"small\"", "name = "),
        CHECK,
        2,
        &["error[R001]", "recipe.toml:2:"],
    ),
    (
        "an unknown key",
        |desk| recipe(desk, "steps = 10", "stepps = 10"),
        CHECK,
        2,
        &["error[R012]", "recipe.toml:11:1", "did you mean `steps`"],
    ),
    (
        "a name that a terminal would obey",
        |desk| recipe(desk, "name = \"small\"", "name = \"sm\\u001b[2Jall\""),
        CHECK,
        2,
        &["error[R024]", "recipe.toml:2:"],
    ),
    (
        "a number in words",
        |desk| recipe(desk, "lr = 0.05", "lr = \"fast\""),
        CHECK,
        2,
        &["error[R011]", "recipe.toml:12:"],
    ),
    (
        "out of range",
        |desk| recipe(desk, "lr = 0.05", "lr = -1.0"),
        CHECK,
        2,
        &["error[R014]", "recipe.toml:12:"],
    ),
    (
        "not together",
        |desk| recipe(desk, "steps = 10", "steps = 10\nepochs = 1"),
        CHECK,
        2,
        &["error[R016]", "recipe.toml:1"],
    ),
    (
        "a quantity",
        |desk| recipe(desk, "\"10 steps\"", "\"ten steps\""),
        CHECK,
        2,
        &["error[R015]", "recipe.toml:13:"],
    ),
    (
        "more workers than samples",
        |desk| recipe(desk, "global-batch = 20", "global-batch = 1"),
        CHECK,
        2,
        &["error[R101]"],
    ),
    (
        "a format of the future",
        |desk| recipe(desk, "schema = 1", "schema = 9"),
        CHECK,
        2,
        &["error[R017]", "schema = 1"],
    ),
    (
        "a name of nothing",
        |desk| recipe(desk, "\"d-sync\"", "\"d-sink\""),
        CHECK,
        2,
        &["error[R013]", "did you mean `d-sync`"],
    ),
    (
        "too many workers",
        |desk| recipe(desk, "use = [\"local*2\"]", "use = [\"local*2\"]\nworkers = 9"),
        CHECK,
        2,
        &["error[R107]", "9 workers"],
    ),
    (
        "a machine that is not there",
        |desk| recipe(desk, "local*2", "-gpu*2"),
        CHECK,
        2,
        &["error[R021]", "-gpu", "ssh"],
    ),
    (
        "bytes that are no text",
        |desk| fs::write(desk.at("recipe.toml"), [0xff, 0xfe, 0x00, 0x41]).unwrap(),
        CHECK,
        2,
        &["error[R002]", "recipe.toml", "not UTF-8"],
    ),
    ("an empty file", |desk| desk.write("recipe.toml", "").unwrap(), CHECK, 2, &["error[R010]", "schema"]),
    ("a folder", |_| (), &["check", "."], 2, &["error[R002]", "it is a folder"]),
    ("no file", |_| (), &["check", "nowhere.toml"], 2, &["error[R002]", "nowhere.toml", "no such file"]),
    (
        "a dangling link",
        |desk| symlink("nowhere", desk.at("link.toml")).unwrap(),
        &["run", "link.toml"],
        2,
        &["link.toml", "no such file"],
    ),
    ("a device without an end", |_| (), &["check", "/dev/zero"], 2, &["/dev/zero", "larger than 8.0 MiB"]),
    (
        "a giant",
        |desk| desk.write("recipe.toml", &"# more\n".repeat(2 << 20)).unwrap(),
        CHECK,
        2,
        &["larger than 8.0 MiB"],
    ),
    (
        "a well without a bottom",
        |desk| desk.write("recipe.toml", &format!("x = {}", "[".repeat(100_000))).unwrap(),
        CHECK,
        2,
        &["error[R001]", "recipe.toml:1:"],
    ),
    (
        "a circle",
        |desk| desk.write("recipe.toml", "extends = [\"recipe.toml\"]\nschema = 1\n").unwrap(),
        CHECK,
        2,
        &["error[R003]", "recipe.toml"],
    ),
];

#[test]
fn broken_recipes() {
    hold(RECIPES);
}
