//! The problems of wrong recipes: one snapshot for each group of rules.

use crate::desk::{Desk, MACHINE};
use ::recipe::PlanRequest;
use std::fmt::Write;
use std::path::Path;

/// The sections of a recipe that is right.
const RIGHT: [&str; 6] = [
    "schema = 1\nname = \"test\"\n",
    "[dataset]\nkind = \"synthetic\"\n",
    "[train]\nglobal-batch = 100\nepochs = 2\n",
    "[nodes]\nuse = [\"local*4\"]\n",
    "[[strategy]]\nkind = \"ps-sync\"\n",
    "[[strategy]]\nkind = \"d-sync\"\n",
];

/// The right recipe with some sections replaced (by their first line) and others added.
pub(crate) fn recipe(changes: &[&str]) -> String {
    let head = |section: &str| section.lines().next().unwrap_or_default().to_owned();
    let mut sections: Vec<String> = RIGHT.iter().map(|&section| section.to_owned()).collect();
    if changes.iter().any(|change| change.starts_with("[[strategy]]") || change.starts_with("[strategy]")) {
        sections.retain(|section| !section.starts_with("[[strategy]]"));
    }
    for change in changes {
        let change = format!("{}\n", change.trim_end());
        let same = |section: &&mut String| head(section) == head(&change) && !change.starts_with("[[");
        let first = !change.starts_with('[');
        match sections.iter_mut().find(same) {
            Some(section) => *section = change,
            None if first => sections[0] = change,
            None => sections.push(change),
        }
    }
    sections.join("\n")
}

fn rendered(desk: &Desk) -> String {
    match desk.plan() {
        Err(problems) => problems.render(recipe::Colours::None, 100),
        Ok(plan) if plan.warnings.is_empty() => "no problems".to_owned(),
        Ok(plan) => recipe::render(&plan.warnings, recipe::Colours::None, 100),
    }
}

/// One text for a group of cases, in which every case must have a problem.
pub(crate) fn check(group: &str, cases: &[(&str, &[&str])]) {
    let mut all = String::new();
    for (title, changes) in cases {
        let text = rendered(&Desk::with(&recipe(changes)));
        assert_ne!(text, "no problems", "{title}");
        let _ = writeln!(all, "## {title}\n{text}\n");
    }
    insta::assert_snapshot!(group, all);
}

#[test]
fn the_base_of_the_cases_is_right() {
    assert_eq!(rendered(&Desk::with(&recipe(&[]))), "no problems");
}

#[test]
fn syntax() {
    check(
        "syntax",
        &[
            ("several at once", &["schema = 1\nname = \nquestion = \"open\nx = [1,"]),
            ("a key twice", &["[train]\nepochs = 2\nepochs = 3"]),
            ("no version", &["name = \"test\""]),
            ("another version", &["schema = 2"]),
        ],
    );
}

/// Texts become names and labels: no terminal may obey them, and none may read as another one.
#[test]
fn characters_that_change_how_text_is_shown() {
    check(
        "characters",
        &[
            ("in the name", &["schema = 1\nname = \"a\\u001b[2J\""]),
            ("in an arm's name", &["[[strategy]]\nkind = \"d-sync\"\nname = \"d\\u202esync\""]),
            ("in a host's name", &["[nodes]\nuse = [\"lab1\", \"lab\\u200e2\"]"]),
            ("in a group's name", &["[nodes]\nuse = [\"group:\\u0007\"]"]),
            (
                "in values of an axis",
                &[
                    "[sweep.axes]\ndataset.kind = [\"synthetic\", \"mnist\"]\ndataset.path = [\"a\", \"a\\u2028b\"]",
                ],
            ),
            ("raw in a value", &["schema = 1\nname = \"a\u{9b}2J\u{2066}\u{200f}\" # \u{202e}"]),
            ("in a key", &["[train]\nglobal-batch = 100\nepochs = 2\n\"a\\u009bm\" = 1"]),
            ("a carriage return in a question", &["schema = 1\nname = \"test\"\nquestion = \"a\\rb\""]),
        ],
    );
    let several_lines = "schema = 1\nname = \"test\"\nquestion = \"\"\"Which?\r\n\tThis one?\"\"\"";
    assert_eq!(rendered(&Desk::with(&recipe(&[several_lines]))), "no problems");
    let set = Desk::with(&recipe(&[])).plan_with(&["name=a\u{1b}[2J"]).unwrap_err();
    let said = set.render(recipe::Colours::None, 100);
    assert!(said.contains("R024") && !said.contains('\u{1b}'), "{said}");
}

/// The file's name is the sweep's, where the recipe gives none.
#[test]
fn a_file_whose_name_changes_how_text_is_shown() {
    let named = |head: &str| {
        let desk = Desk::default().and("a\u{1b}[2J.toml", &recipe(&[head]));
        let request = PlanRequest::new(Path::new("a\u{1b}[2J.toml"));
        recipe::plan(&desk, &request, &MACHINE)
    };
    for head in ["schema = 1", "schema = 1\nname = \"test\"\n"] {
        let said = named(head).unwrap_err().render(recipe::Colours::None, 100);
        assert!(said.contains("R024") && said.contains("give the file or the folder another name"), "{said}");
        assert!(!said.contains('\u{1b}'), "{said}");
    }
}

#[test]
fn keys_and_values() {
    check(
        "keys_and_values",
        &[
            ("unknown table", &["[trian]\nepochs = 1"]),
            ("unknown key", &["[train]\nglobal-batch = 100\nepoch = 2\nepochs = 2"]),
            ("a key of another table", &["[report]\nbaseline = \"d-sync\""]),
            ("a percentage without its sign", &["[report]\nmin-effect = 5\nconfidence = 95"]),
            ("a confidence that is none", &["[report]\nconfidence = 0.3"]),
            ("unknown key of a strategy", &["[[strategy]]\nkind = \"d-sync\"\nbasline = true"]),
            ("key of another kind", &["[dataset]\nkind = \"synthetic\"\npath = \"data\""]),
            ("key of another kind, by default", &["[dataset]\npartition = { alpha = 0.3 }"]),
            ("wrong type", &["[train]\nglobal-batch = \"many\"\nepochs = true"]),
            ("table wanted", &["[nodes]\nuse = [\"local\"]", "[measure]\ntrace = 5"]),
            ("unknown name", &["[model]\nkind = \"mnist-mpl\""]),
            (
                "milestones that are not there",
                &["[train]\nglobal-batch = 100\nepochs = 2\nlr-schedule = { kind = \"milestones\" }"],
            ),
            (
                "no milestones",
                &[
                    "[train]\nglobal-batch = 100\nepochs = 2\nlr-schedule = { kind = \"milestones\", at = [] }",
                ],
            ),
            (
                "milestones that are none",
                &[
                    "[train]\nglobal-batch = 100\nepochs = 2\nlr-schedule = { kind = \"milestones\", at = [\"0 epochs\", 3] }",
                ],
            ),
            (
                "nothing to accumulate",
                &["[train]\nglobal-batch = 100\nepochs = 2\naccumulate = 0\noptimizer.clip = 0"],
            ),
            (
                "out of range",
                &["[train]\nglobal-batch = 0\nepochs = -1\noptimizer.momentum = 1.0\noptimizer.lr = nan"],
            ),
            (
                "a quantity",
                &[
                    "[train]\nglobal-batch = 100\nepochs = 2\nevaluate = \"often\"\ntarget = { at-least = \"97 %\", after = \"15\" }",
                ],
            ),
            ("missing", &["[train]\noptimizer = \"sgd\""]),
            ("said twice", &["[train]\nglobal-batch = 100\nper-worker-batch = 25\nepochs = 1\nsteps = 10"]),
            ("a date", &["[train]\nglobal-batch = 100\nepochs = 2020-01-01"]),
            ("too large a number", &["[train]\nglobal-batch = 99999999999999999999\nepochs = 1"]),
            (
                "a layer's key",
                &["[model]\nkind = \"sequential\"\nlayers = [{ kind = \"conv\", outputs = 3, kernle = 3 }]"],
            ),
            (
                "a layer without its width",
                &["[model]\nkind = \"sequential\"\nlayers = [\"flatten\", { kind = \"linear\" }]"],
            ),
            ("tables without a value", &["[network]\n[compute]\n[train.target]"]),
            ("no layers", &["[model]\nkind = \"sequential\""]),
            ("no kind", &["[[strategy]]\nname = \"fast\""]),
            ("no strategy", &["[[strategy]]"]),
            ("slots", &["[nodes]\nuse = [\"local*many\"]"]),
        ],
    );
}

/// The codes of a recipe's problems.
fn codes(changes: &[&str]) -> Vec<String> {
    let problems = Desk::with(&recipe(changes)).plan().expect_err("it is wrong");
    problems.list.into_iter().map(|problem| problem.code).collect()
}

/// A value that cannot be read hides nothing that is wrong whatever it was meant to be, and causes no problem by itself.
#[test]
fn what_is_wrong_anyway_is_told_beside_what_cannot_be_read() {
    let too_small = "[train]\nglobal-batch = 3\nepochs = true";
    assert_eq!(codes(&[too_small]), ["R101", "R011"]);
    assert_eq!(
        codes(&[too_small, "[model]\nkind = \"mnist-mpl\"\nlayer = 3"]),
        ["R101", "R011", "R013", "R012"]
    );
    // Of one worker it would be right.
    assert_eq!(codes(&[too_small, "[nodes]\nuse = [\"local*4\"]\nworkers = \"four\""]), ["R011", "R011"]);
    let elastic = "[[strategy]]\nkind = \"easgd-sync\"\nmoving-rate = 0.3";
    assert_eq!(codes(&[elastic, "[train]\nglobal-batch = 100\nepochs = true"]), ["R011", "R132"]);
    // So it is with a strategy that is no strategy, and with a key of one.
    assert_eq!(codes(&[elastic, "[[strategy]]\nkind = \"d-snyc\""]), ["R132", "R013"]);
    assert_eq!(
        codes(&["[[strategy]]\nkind = \"easgd-sync\"\nmoving-rate = 0.3\nvariant = 4"]),
        ["R132", "R014"]
    );
    assert_eq!(
        codes(&["[[strategy]]\nkind = \"easgd-sync\"\nmoving-rate = true\nvariant = 4"]),
        ["R011", "R014"]
    );
    // A batch that is missing is reported once, and a length that is missing makes no period too long.
    assert_eq!(codes(&["[train]\nepochs = 2\nlr-schedule = { scale = \"linear\" }"]), ["R010"]);
    assert_eq!(
        codes(&["[[strategy]]\nkind = \"eamsgd\"\nperiod = 4", "[train]\nglobal-batch = 100"]),
        ["R010"]
    );
    // A value that is refused makes no two cells equal.
    assert_eq!(
        codes(&["[nodes]\nuse = [\"local*2\"]", "[sweep.axes]\nnodes.workers = [1, 4, 8]"]),
        ["R107", "R107"]
    );
    // An unreadable key is not reported as missing, too.
    assert_eq!(codes(&["[train]\nepochs = true"]), ["R010", "R011"]);
    assert_eq!(codes(&["[train]\nglobal-batch = true\nepochs = 2"]), ["R011"]);
    // Where it is not known which cells there are, nothing is known about them.
    assert_eq!(codes(&[too_small, "[sweep.axes]\ntrain.epochs = [1, \"two\"]"]), ["R011", "R011"]);
}

#[test]
fn not_in_this_version() {
    check(
        "not_in_this_version",
        &[
            (
                "a setting by its paper's name",
                &["[[strategy]]\nkind = \"mg-wfbp\"", "[[strategy]]\nkind = \"sync-easgd3\""],
            ),
            ("a data set", &["[dataset]\nkind = \"text\"\npath = \"x\""]),
            ("predictions", &["[measure]\npredict = true"]),
        ],
    );
}

#[test]
fn codecs() {
    check(
        "codecs",
        &[
            ("an unknown one", &["[compression]\nkind = \"truncate8\""]),
            ("error feedback where nothing is lost", &["[compression]\nerror-feedback = true"]),
            ("weights that nothing codes", &["[compression]\nkind = \"none\"\nparameters = true"]),
            (
                "weights that do not travel",
                &[
                    "[[strategy]]\nkind = \"d-sync\"\ncompression = { kind = \"fp16\", parameters = true }",
                    "[[strategy]]\nkind = \"ps-sync\"\ncompression = { kind = \"fp16\", parameters = true }",
                ],
            ),
            (
                "nothing but weights",
                &[
                    "[[strategy]]\nkind = \"local-sgd\"\ncompression = \"fp16\"",
                    "[[strategy]]\nname = \"remembering\"\nkind = \"local-sgd\"\n\
                     compression = { kind = \"fp16\", parameters = true, error-feedback = true }",
                ],
            ),
            ("a flag that is none", &["[compression]\nkind = \"bf16\"\nerror-feedback = \"yes\""]),
        ],
    );
}

/// The whole format, later parts included: nothing in it is unknown.
const EVERYTHING: &str = r#"
schema   = 1
name     = "everything"
question = "Is every key known?"
[model]
kind = "mnist-mlp"
[dataset]
kind = "mnist"
path = "data/mnist"
partition  = { kind = "shared" }
validation = 0.1
[train]
global-batch = 100
epochs       = 5
optimizer    = { kind = "sgd", lr = 0.1, momentum = 0.0, weight-decay = 0.0 }
lr-schedule  = { kind = "step", every = "25 epochs", factor = 0.5, warmup = "5 epochs", scale = "none" }
evaluate     = "1 epoch"
target       = { metric = "test-accuracy", at-least = 0.97, after = "15min", stop = false }
[nodes]
use       = ["local*4"]
workers   = 4
inventory = "nodes.toml"
server    = "local"
slow      = [{ rank = 3, compute = 4.0 }, { rank = 0, link = 10.0 }]
[[faults]]
kind = "kill"
rank = 2
step = 500
[network]
bandwidth = "1Gbit/s"
latency   = "50us"
share     = "rank"
[compute]
step-time = "20ms"
[[strategy]]
kind = "ps-sync"
baseline = true
[[strategy]]
kind = "d-sync"
[[strategy]]
name  = "pipe"
kind  = "pipe-sgd"
depth = 2
warmup-epochs = 0
compression = { kind = "quantize8" }
[communication]
collective   = "ring"
schedule     = { kind = "single" }
reduce-order = "ring"
[compression]
kind = "none"
[sweep.axes]
strategy.pipe.compression.kind = ["none", "truncate16", "quantize8"]
network.bandwidth  = ["1Gbit/s", "10Gbit/s"]
train.optimizer.lr = [0.05, 0.1]
[[sweep.zip]]
train.global-batch = [100, 200]
train.epochs       = [5, 10]
[[sweep.exclude]]
when   = "strategy.name == 'pipe' and compression.kind == 'truncate16' and network.bandwidth == '10Gbit/s'"
reason = "truncation is for slow links"
[repeats]
count = 5
seeds = { from = 42 }
order = "interleave"
[limits]
run-timeout = "20min"
retries     = 1
max-runs    = 400
[measure]
trace   = { first-steps = 20, every = 500 }
predict = true
samples = false
[report]
min-effect = "5%"
confidence = 0.95
redact     = ["hosts"]
"#;

#[test]
fn the_whole_format_is_known() {
    insta::assert_snapshot!("the_whole_format", rendered(&Desk::with(EVERYTHING)));
}

#[test]
fn what_is_off_may_be_written_as_off() {
    assert_eq!(
        rendered(&Desk::with(&recipe(&["[measure]\nsamples = false\npredict = false"]))),
        "no problems"
    );
}

#[test]
fn files() {
    let mut all = String::new();
    let mut check = |title: &str, desk: Desk| {
        let _ = writeln!(all, "## {title}\n{}\n", rendered(&desk));
    };
    let extends = |name: &str| format!("extends = [\"{name}\"]\n{}", recipe(&[]));
    check("no recipe", Desk::default());
    check("no such file", Desk::with(&extends("base.toml")));
    check("itself", Desk::with(&extends("recipe.toml")));
    check(
        "a circle",
        Desk::with(&extends("sub/a.toml"))
            .and("sub/a.toml", "extends = \"b.toml\"")
            .and("sub/b.toml", "extends = \"../sub/a.toml\""),
    );
    check(
        "a problem in the other file",
        Desk::with(&extends("base.toml")).and("base.toml", "[train]\nepoch = 3\n"),
    );
    check("no strategy", Desk::with("schema = 1\n[train]\nglobal-batch = 10\nepochs = 1\n"));
    check("not a name", Desk::with(&recipe(&["schema = 1\nextends = [1]"])));
    insta::assert_snapshot!("files", all);
}

#[test]
fn the_command_line() {
    let mut all = String::new();
    for argument in [
        "train.epochs",
        "=3",
        "train.epoch=3",
        "train.epochs=many",
        "strategy.fast.name=x",
        "network.bandwidth=1",
        "a.b.c.d=1",
    ] {
        let problems = Desk::with(&recipe(&[])).plan_with(&[argument]).expect_err("a wrong override");
        let _ = writeln!(all, "## {argument}\n{}\n", problems.render(recipe::Colours::None, 100));
    }
    insta::assert_snapshot!("the_command_line", all);
}

#[test]
fn problems_as_json() {
    let text = recipe(&[
        "[train]\nglobal-batch = 100\nepoch = 2\nepochs = 2",
        "[sweep.axes]\nnodes.workers = [2, 8]",
    ]);
    let problems = Desk::with(&text).plan().expect_err("two problems");
    // Another crate of the workspace may decide in which order JSON objects are written.
    insta::with_settings!({ sort_maps => true }, {
        insta::assert_json_snapshot!("problems_as_json", problems.to_json());
    });
}

#[test]
fn colour_is_only_decoration() {
    let problems = Desk::with(&recipe(&["[trian]\nx = 1"])).plan().expect_err("a problem");
    let coloured = problems.render(recipe::Colours::Ansi, 100);
    assert!(coloured.contains('\u{1b}') && !problems.render(recipe::Colours::None, 100).contains('\u{1b}'));
}

/// A key that is misspelt is not missing besides, but one that is misspelt elsewhere is.
#[test]
fn a_misspelt_key_is_said_once() {
    let codes = |train: &str, model: &str| {
        let text = format!(
            "schema = 1\n[model]\nkind = \"softmax\"\n{model}\n[dataset]\nkind = \"synthetic\"\n[train]\nsteps = 9\n{train}\n\
             [[strategy]]\nkind = \"d-sync\"\n"
        );
        let problems = Desk::with(&text).plan().expect_err("a problem");
        problems.list.into_iter().map(|problem| problem.code).collect::<Vec<_>>()
    };
    assert_eq!(codes("global-bacth = 32", ""), ["R012"]);
    assert_eq!(codes("", ""), ["R010"]);
    assert_eq!(codes("", "colour = 1"), ["R012", "R010"]);
}
