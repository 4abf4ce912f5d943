//! Nothing that a file or a command line says makes planning panic.

use crate::desk::{Desk, MACHINE};
use crate::pages;
use proptest::prelude::*;
use recipe::PlanRequest;
use std::path::Path;

/// Plans, draws the problems, and forgets them.
fn survive(text: &str, overrides: &[String], sweeps: &[String], only: Option<&str>) {
    let desk = Desk::with(text).and("base.toml", "[train]\nsteps = 3\n");
    let request = PlanRequest { overrides, sweeps, only, ..PlanRequest::new(Path::new("recipe.toml")) };
    match recipe::plan(&desk, &request, &MACHINE) {
        Ok(plan) => {
            let again = Desk::with(&plan.expanded).plan();
            let again = again.unwrap_or_else(|problems| {
                panic!("{text}\n--\n{}\n--\n{}", plan.expanded, problems.render(recipe::Colours::None, 100))
            });
            let hashes = |plan: &recipe::Plan| {
                plan.cells.iter().map(|cell| cell.config_hash.clone()).collect::<Vec<_>>()
            };
            assert_eq!(hashes(&again), hashes(&plan), "{text}\n--\n{}", plan.expanded);
        }
        Err(problems) => {
            assert!(problems.errors() > 0);
            let _ = (
                problems.render(recipe::Colours::Ansi, 80),
                problems.render(recipe::Colours::None, 0),
                problems.to_json(),
            );
        }
    }
}

/// Words that recipes are made of.
fn word() -> impl Strategy<Value = String> {
    let words = recipe::topics().into_iter().flat_map(|topic| {
        let end = topic.rsplit('.').next().unwrap_or_default().to_owned();
        [topic, end]
    });
    let more = [
        "local*2",
        "1 epoch",
        "5%",
        "15min",
        "d-sync",
        "base.toml",
        "rank",
        "ü€",
        "",
        "[",
        "'",
        "and",
        "not (",
    ];
    let words: Vec<String> = words.chain(more.map(str::to_owned)).collect();
    prop::sample::select(words)
}

/// A TOML value of limited depth.
fn value() -> impl Strategy<Value = toml::Value> {
    let leaf = prop_oneof![
        word().prop_map(toml::Value::String),
        (-3_i64..200).prop_map(toml::Value::Integer),
        any::<i64>().prop_map(toml::Value::Integer),
        (-1.0..2.0).prop_map(toml::Value::Float),
        any::<f64>().prop_map(toml::Value::Float),
        any::<bool>().prop_map(toml::Value::Boolean),
    ];
    leaf.prop_recursive(4, 24, 6, |inner| {
        let name = word().prop_map(|word| word.rsplit('.').next().unwrap_or_default().to_owned());
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(toml::Value::Array),
            prop::collection::vec((name, inner), 0..4)
                .prop_map(|entries| toml::Value::Table(entries.into_iter().collect())),
        ]
    })
}

/// One of the repository's recipes with a few pieces cut out, doubled or replaced.
fn mutated() -> impl Strategy<Value = String> {
    let texts: Vec<String> = pages::recipes().into_iter().map(|(_, text)| text).collect();
    let cut = (any::<prop::sample::Index>(), 0_usize..20, prop_oneof![word(), ".{0,3}", Just(String::new())]);
    (prop::sample::select(texts), prop::collection::vec(cut, 1..4)).prop_map(|(text, cuts)| {
        let mut letters: Vec<char> = text.chars().collect();
        for (start, length, with) in cuts {
            let start = start.index(letters.len() + 1).min(letters.len());
            let end = (start + length).min(letters.len());
            letters.splice(start..end, with.chars());
        }
        letters.into_iter().collect()
    })
}

/// Settings that are right by themselves, and mostly together.
const SETTINGS: [&str; 24] = [
    "model.kind=softmax",
    "model=lenet",
    "dataset.train=4000",
    "dataset.partition=sharded",
    "dataset.partition={ kind = \"dirichlet\", alpha = 0.5 }",
    "dataset={ kind = \"mnist\", path = \"data\" }",
    "dataset.validation=10%",
    "train.global-batch=64",
    "train.epochs=0.5",
    "train.optimizer={ lr = 0.2, momentum = 0.9 }",
    "train.lr-schedule={ kind = \"step\", every = \"1 epoch\" }",
    "train.lr-schedule.warmup=5 steps",
    "train.target={ at-least = 0.9, after = \"90s\" }",
    "train.target.at-least=0.8",
    "nodes.workers=2",
    "nodes.use=[\"local\"]",
    "communication.collective=star",
    "communication.reduce-order=rank",
    "strategy.d-sync.name=a 'quoted' name",
    "strategy.ps-sync.baseline=true",
    "repeats={ count = 2, seeds = [5, 6] }",
    "repeats.order=shuffle",
    "measure.weight-hash=step",
    "limits.run-timeout=1.5min",
];

/// Axes that are right by themselves, and mostly together.
const SWEEPS: [&str; 7] = [
    "train.optimizer.lr=0.1,0.2",
    "nodes.workers=1,2,4",
    "dataset.partition=shared,{ kind = \"dirichlet\", alpha = 0.1 }",
    "dataset.partition.kind=shared,sharded",
    "strategy.d-sync.communication.collective=ring,star",
    "communication.reduce-order=ring,rank",
    "model.kind=softmax,lenet",
];

fn some(of: &'static [&'static str], most: usize) -> impl Strategy<Value = Vec<String>> {
    prop::sample::subsequence(of, 0..=most).prop_map(|some| some.into_iter().map(str::to_owned).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text(text in "\\PC{0,80}|[\\[\\]{}=\"'a-z0-9.,\n# -]{0,200}") {
        survive(&text, &[], &[], None);
    }

    #[test]
    fn any_mutation(text in mutated()) {
        survive(&text, &[], &[], None);
    }

    #[test]
    fn any_value_anywhere(at in word(), value in value(), swept in value()) {
        let arguments = [format!("{at}={value}")];
        let text = crate::problems::recipe(&[]);
        survive(&text, &arguments, &[], None);
        survive(&text, &[], &arguments, None);
        survive(&text, &[], &[format!("{at}={value},{swept}")], None);
    }

    #[test]
    fn any_tree(entries in prop::collection::vec((word(), value()), 0..6)) {
        let mut table: toml::Table = toml::from_str(&crate::problems::recipe(&[])).expect("the base");
        for (name, value) in entries {
            table.insert(name.split('.').next().unwrap_or_default().to_owned(), value);
        }
        survive(&table.to_string(), &[], &[], None);
    }

    #[test]
    fn any_combination(settings in some(&SETTINGS, 8), sweeps in some(&SWEEPS, 3), all in any::<bool>()) {
        let only = (!all).then_some("strategy.kind == 'd-sync' and workers != 3");
        survive(&crate::problems::recipe(&[]), &settings, &sweeps, only);
    }

    #[test]
    fn any_condition(text in "[()a-z'\"=<>!0-9. -]{0,40}|((not )?[(]?(workers|strategy|lr|collective) (==|<|>=|!=) ('ring'|2|0.1|d-sync)[)]?( and | or )?){1,4}") {
        survive(&crate::problems::recipe(&[]), &[], &[], Some(&text));
    }

    #[test]
    fn any_topic(topic in "\\PC{0,12}") {
        let _ = recipe::explain(&topic);
    }
}
