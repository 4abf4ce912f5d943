//! Differences between two configurations: by keys, and of facts that no key sets.

use crate::desk::Desk;
use crate::pages::every_recipe_and_check;
use recipe::{ChangedSetting, Configurations, Plan, changed_settings, schema};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Values of every form that a key takes; each key refuses most of them.
const VALUES: [&str; 13] = [
    "true",
    "false",
    "0.25",
    "3",
    "\"10ms\"",
    "\"2 epochs\"",
    "\"3 steps\"",
    "[\"3 steps\"]",
    "\"1Gbit/s\"",
    "\"3MiB\"",
    "\"local*2\"",
    "\"written\"",
    "\"cuda\"",
];

/// Facts that follow from many keys and from the machine.
const DIVISION_OF_CORES: [&str; 3] =
    ["threads of a worker", "threads of the evaluator", "evaluation beside the run"];

/// Files of the data sets that have no place of their own.
const FILES: [(&str, &str); 2] = [("\"text-lines\"", "\"long.txt\""), ("\"image-folder\"", "\"photos\"")];

/// A recipe of these keys with one strategy.
fn text(keys: &[(&str, &str)], strategy: &str) -> String {
    let usual = [
        ("nodes.use", "[\"local*4\"]"),
        ("dataset.kind", "\"synthetic\""),
        ("train.global-batch", "24"),
        ("train.steps", "60"),
        ("model.kind", "\"softmax\""),
    ];
    let replaced = |key: &str| {
        keys.iter().any(|(given, _)| *given == key || *given == "train.epochs" && key == "train.steps")
    };
    let of_kind = |(kind, _): &&(&str, &str)| keys.contains(&("dataset.kind", kind));
    let path = FILES.iter().find(of_kind).filter(|_| !replaced("dataset.path"));
    let kept = usual.into_iter().filter(|(key, _)| !replaced(key));
    let lines: Vec<String> = kept
        .chain(path.map(|(_, path)| ("dataset.path", *path)))
        .chain(keys.iter().copied())
        .map(|(key, value)| format!("{key} = {value}"))
        .collect();
    let lines = lines.join("\n");
    format!("schema = 1\nname = \"usual\"\n{lines}\n[[strategy]]\n{strategy}\n")
}

fn planned(text: &str) -> Option<Plan> {
    Desk::with(text).plan().ok()
}

fn plan(keys: &[(&str, &str)], strategy: &str) -> Option<Plan> {
    planned(&text(keys, strategy))
}

/// The names that each key takes, by its path.
fn keys() -> BTreeMap<String, Vec<String>> {
    let mut keys = BTreeMap::new();
    collect("", &schema(), &mut keys);
    keys
}

fn collect(path: &str, described: &Value, keys: &mut BTreeMap<String, Vec<String>>) {
    let forms = described["anyOf"].as_array().into_iter().flatten();
    for form in std::iter::once(described).chain(forms) {
        let names = form["enum"].as_array().into_iter().flatten().map(ToString::to_string);
        keys.entry(path.to_owned()).or_default().extend(names);
        for (name, child) in form["properties"].as_object().into_iter().flatten() {
            let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            collect(&below, child, keys);
        }
    }
}

/// The path as values are recorded: a strategy's own settings of communication and compression are those of the recipe.
fn recorded(path: &str) -> &str {
    let path = path.strip_suffix(".kind").unwrap_or(path);
    match path.strip_prefix("strategy.") {
        Some(rest) if rest.starts_with("communication") || rest.starts_with("compression") => rest,
        _ => path,
    }
}

fn of_cells(before: (&Plan, usize), now: (&Plan, usize)) -> Vec<ChangedSetting> {
    let [before, now] = [before, now].map(|(plan, cell)| Configurations::of(plan).of_cell(cell));
    changed_settings(&before.expect("a cell of the plan"), &now.expect("a cell of the plan"))
}

fn words(found: &[ChangedSetting]) -> Vec<String> {
    found.iter().map(ChangedSetting::words).collect()
}

/// The keys that were found to change a specification when they alone are written.
#[derive(Default)]
struct Named(BTreeSet<String>);

impl Named {
    /// Checks that a recipe with one more key differs by keys alone, this one among them.
    fn check(&mut self, key: &str, before: &Plan, now: &Plan) {
        let found = of_cells((before, 0), (now, 0));
        if found.is_empty() {
            assert_eq!(before.cells[0].spec, now.cells[0].spec, "{key}");
            return;
        }
        let paths: BTreeSet<&str> =
            before.values.iter().chain(&now.values).map(|value| value.path.as_str()).collect();
        let is_fact = |key: &str| !paths.contains(key) && !DIVISION_OF_CORES.contains(&key);
        let facts: Vec<&ChangedSetting> = found.iter().filter(|changed| is_fact(&changed.key)).collect();
        assert!(facts.is_empty(), "{key} is set, and not keys alone differ: {facts:?}");
        let value = |plan: &Plan, path: &str| {
            plan.values_of(0).into_iter().find(|value| value.path == path).map(|value| value.text)
        };
        let unchanged = |key: &str| paths.contains(key) && value(before, key) == value(now, key);
        let repeated: Vec<&ChangedSetting> = found.iter().filter(|changed| unchanged(&changed.key)).collect();
        assert!(repeated.is_empty(), "{key} is set, and keys that did not change are named: {repeated:?}");
        let is_named = found.iter().any(|difference| recorded(key).starts_with(&difference.key));
        assert!(is_named, "{key} is set, and said is {:?}", words(&found));
        self.0.insert(key.to_owned());
    }
}

/// Of every key that a recipe may have, with every name and values of every form; of every kind of a table, with all of its keys.
#[test]
fn a_key_that_changes_a_run_is_named_and_nothing_else_is() {
    let keys = keys();
    let mut named = Named::default();
    let values = |names: &'_ [String]| -> Vec<String> {
        names.iter().cloned().chain(VALUES.iter().map(|value| (*value).to_owned())).collect()
    };
    let strategy = "kind = \"d-sync\"";
    let usual = plan(&[], strategy).expect("the usual recipe");
    let of_recipe =
        |path: &&String| !["strategy", "sweep", "model.layers"].iter().any(|head| path.starts_with(head));
    for (key, names) in keys.iter().filter(|(key, _)| of_recipe(key)) {
        for value in values(names) {
            let Some(now) = plan(&[(key, &value)], strategy) else { continue };
            named.check(key, &usual, &now);
            let Some(table) = key.strip_suffix("kind") else { continue };
            for (other, names) in keys.iter().filter(|(other, _)| other.starts_with(table) && *other != key) {
                for second in values(names) {
                    if let Some(third) = plan(&[(key, &value), (other, &second)], strategy) {
                        named.check(other, &now, &third);
                    }
                }
            }
        }
    }
    for kind in &keys["strategy.kind"] {
        let strategy = format!("kind = {kind}");
        let with_rate = format!("{strategy}\nmoving-rate = 0.1");
        let Some(own) = plan(&[], &strategy).or_else(|| plan(&[], &with_rate)) else { continue };
        named.check("strategy.kind", &usual, &own);
        for (key, names) in keys.iter().filter(|(key, _)| key.starts_with("strategy.")) {
            let name = &key["strategy.".len()..];
            for value in values(names) {
                if let Some(now) = plan(&[], &format!("{strategy}\n{name} = {value}")) {
                    named.check(key, &own, &now);
                }
            }
        }
    }
    assert!(named.0.len() >= 85, "only {} keys changed a run: {:?}", named.0.len(), named.0);
}

#[test]
fn cells_of_a_sweep_differ_by_keys_alone() {
    let mut compared = 0;
    for (name, text) in every_recipe_and_check() {
        let plan = planned(&text).expect("a recipe of the repository");
        let paths: BTreeSet<&str> = plan.values.iter().map(|value| value.path.as_str()).collect();
        for cell in 1..plan.cells.len() {
            let found = of_cells((&plan, cell - 1), (&plan, cell));
            let is_fact = |key: &str| !paths.contains(key) && !DIVISION_OF_CORES.contains(&key);
            let facts: Vec<&ChangedSetting> = found.iter().filter(|changed| is_fact(&changed.key)).collect();
            assert!(facts.is_empty(), "{name}, {}: {facts:?}", plan.cells[cell].label);
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared}");
}

#[test]
fn values_are_those_of_the_recipe() {
    let usual = plan(&[], "kind = \"d-sync\"").expect("the usual recipe");
    let said = |keys: &[(&str, &str)]| {
        let now = plan(keys, "kind = \"d-sync\"").expect("a recipe");
        words(&of_cells((&usual, 0), (&now, 0)))
    };
    assert_eq!(said(&[("train.evaluate", "\"2 epochs\"")]), ["train.evaluate is 2 epochs, was 1 epoch"]);
    assert_eq!(
        said(&[("network.bandwidth", "\"1Gbit/s\"")]),
        ["network.bandwidth is 1Gbit/s, was not set", "network.share is rank, was not set"]
    );
    assert_eq!(
        said(&[("train.epochs", "60")]),
        ["train.epochs is 60, was not set", "train.steps is not set, was 60"]
    );
}

/// Two ways to write one bandwidth are one; two epochs are not two steps.
#[test]
fn a_value_is_compared_in_its_base_unit() {
    let plan = |keys: &[(&str, &str)]| plan(keys, "kind = \"d-sync\"").expect("a recipe");
    let of = |one: &str, other: &str, key: &str| {
        let latency = ("network.latency", "\"1ms\"");
        let [one, other] = [plan(&[(key, one)]), plan(&[(key, other), latency])];
        let found = of_cells((&one, 0), (&other, 0));
        found.into_iter().map(|difference| difference.key).collect::<Vec<_>>()
    };
    assert_eq!(of("\"1Gbit/s\"", "\"1000Mbit/s\"", "network.bandwidth"), ["network.latency"]);
}

/// Facts that no key sets stand beside the keys, and alone where a plan has no recorded values.
#[test]
fn facts_of_a_specification_are_kept() {
    let mut before = plan(&[], "kind = \"d-sync\"").expect("the usual recipe");
    let mut now = plan(&[("train.optimizer.lr", "0.5")], "kind = \"d-sync\"").expect("a recipe");
    now.cells[0].spec.threads.worker = 7;
    let one = before.cells[0].spec.threads.worker;
    let threads = format!("threads of a worker is 7, was {one}");
    assert_eq!(
        words(&of_cells((&before, 0), (&now, 0))),
        ["train.optimizer.lr is 0.5, was 0.1", threads.as_str()]
    );
    before.values.clear();
    assert_eq!(
        words(&of_cells((&before, 0), (&now, 0))),
        [threads.as_str(), "train.optimizer.lr is 0.5, was 0.1"]
    );
}
