//! The recipes of the repository, templates, `explain`, and the schema.

use crate::desk::Desk;
use recipe::{Plan, Template, explain, schema, topics};
use serde_json::Value;
use std::path::Path;

/// The recipes of the repository by name.
pub(crate) fn recipes() -> Vec<(String, String)> {
    recipes_in(".")
}

/// The recipes of a folder beside the schema.
fn recipes_in(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes").join(folder);
    let mut recipes: Vec<(String, String)> = std::fs::read_dir(folder)
        .expect("the recipes")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).expect("a recipe"))
        })
        .collect();
    recipes.sort();
    recipes
}

fn every_recipe() -> Vec<(String, String)> {
    let templates =
        Template::ALL.iter().map(|template| (template.name().to_owned(), template.text().to_owned()));
    recipes().into_iter().chain(recipes_in("strategies")).chain(templates).collect()
}

/// With those that take more workers than the machine has cores, which is worth a warning.
pub(crate) fn every_recipe_and_check() -> Vec<(String, String)> {
    every_recipe().into_iter().chain(recipes_in("checks")).collect()
}

fn plan(name: &str, text: &str) -> Plan {
    Desk::with(text)
        .plan()
        .unwrap_or_else(|problems| panic!("{name}:\n{}", problems.render(recipe::Colours::None, 100)))
}

#[test]
fn every_recipe_and_template_plans_without_a_word() {
    let names: Vec<String> = recipes().into_iter().map(|(name, _)| name).collect();
    assert!(
        ["quickstart.toml", "smoke.toml", "mnist.toml"]
            .iter()
            .all(|name| names.iter().any(|has| has == name))
    );
    for (name, text) in every_recipe() {
        assert_eq!(plan(&name, &text).warnings, [], "{name}");
        assert!(text.starts_with("#:schema "), "{name}: editors find the schema by the first line");
    }
}

#[test]
fn an_expanded_recipe_plans_to_itself() {
    for (name, text) in every_recipe_and_check() {
        let plan = plan(&name, &text);
        let again = self::plan("expanded", &plan.expanded);
        assert_eq!((&again.cells, &again.runs, &again.arms), (&plan.cells, &plan.runs, &plan.arms), "{name}");
        assert_eq!(
            (again.limits, &again.report, &again.name),
            (plan.limits, &plan.report, &plan.name),
            "{name}"
        );
        assert_eq!(again.expanded, plan.expanded, "{name}");
    }
}

#[test]
fn an_expanded_recipe_shows_what_is_usual_for_each_strategy() {
    for (strategy, usual) in [
        ("kind = \"easgd-sync\"\nmoving-rate = 0.1", "variant = 3"),
        ("kind = \"easgd-original\"\nmoving-rate = 0.1", "overlap = true"),
        ("kind = \"measgd-async\"\nmoving-rate = 0.1", "period = 1"),
        ("kind = \"local-sgd\"", "period = 8"),
        ("kind = \"slowmo\"", "period = 8\nslow-momentum = 0.5\nslow-lr = 1"),
        ("kind = \"d-psgd\"", "topology = \"ring\"\norder = \"mix-then-step\""),
        ("kind = \"pipe-sgd\"", "depth = 2\nwarmup-epochs = 0\ngradient-segments = 1"),
    ] {
        let text = format!(
            "schema = 1\nname = \"usual\"\n[model]\nkind = \"softmax\"\n[dataset]\nkind = \"synthetic\"\n\
             [train]\nglobal-batch = 60\nsteps = 60\n[nodes]\nuse = [\"local*2\"]\n[[strategy]]\n{strategy}\n"
        );
        let plan = plan("usual", &text);
        assert!(plan.expanded.contains(usual), "{usual}\n{}", plan.expanded);
        assert_eq!(self::plan("expanded", &plan.expanded).cells, plan.cells, "{strategy}");
    }
}

/// A default that depends on the kind of its table is written down where one kind is chosen.
#[test]
fn an_expanded_recipe_leaves_each_optimizer_its_usual_rate() {
    let text = |train: &str| {
        format!(
            "schema = 1\nname = \"usual\"\n[model]\nkind = \"softmax\"\n[dataset]\nkind = \"synthetic\"\n\
             [train]\nglobal-batch = 60\nsteps = 60\n{train}\n[[strategy]]\nkind = \"d-sync\"\n"
        )
    };
    let one = plan("one", &text("optimizer = \"adamw\""));
    assert!(one.expanded.contains("lr = 0.001\n") && one.expanded.contains("weight-decay = 0.01\n"));
    let axis = "[sweep.axes]\ntrain.optimizer = [\"sgd\", { kind = \"adamw\", beta1 = 0.8 }, \"adamw\"]";
    let several = plan("several", &text(axis));
    let rates: Vec<f32> = several.cells.iter().map(|cell| cell.spec.train.optimizer.lr).collect();
    assert_eq!(rates, [0.1, 0.001, 0.001]);
    for plan in [one, several] {
        let again = self::plan("expanded", &plan.expanded);
        assert_eq!((&again.cells, &again.expanded), (&plan.cells, &plan.expanded));
    }
}

#[test]
fn an_expanded_recipe_shows_every_default() {
    let plan = plan(
        "quickstart.toml",
        &recipes().into_iter().find(|(name, _)| name == "quickstart.toml").expect("it").1,
    );
    insta::assert_snapshot!("quickstart_expanded", plan.expanded);
}

#[test]
fn a_plan_survives_storage() {
    for (name, text) in every_recipe() {
        let plan = plan(&name, &text);
        let json = serde_json::to_string(&plan).expect("JSON");
        assert_eq!(serde_json::from_str::<Plan>(&json).expect("a plan"), plan, "{name}");
    }
}

#[test]
fn templates_are_found_by_name() {
    for template in Template::ALL {
        assert_eq!(Template::named(template.name()), Some(template));
        assert!(!template.about().is_empty());
    }
    assert_eq!(Template::named("compression"), None);
}

#[test]
fn everything_has_a_page() {
    for topic in topics() {
        let page = explain(&topic).unwrap_or_else(|error| panic!("{error}"));
        assert!(page.lines().count() >= 3, "{topic}: {page}");
    }
}

#[test]
fn pages_read_well() {
    let pages = [
        "train.optimizer.lr",
        "dataset.partition",
        "strategy",
        "strategy.d-sync",
        "strategy.pipe-sgd",
        "strategy.wfbp",
        "train.optimizer.weight-decay",
        "train.optimizer.adamw",
        "R107",
        "warmup",
        "dataset.mnist",
    ];
    let text: Vec<String> = pages.iter().map(|topic| explain(topic).expect("a page")).collect();
    insta::assert_snapshot!("pages", text.join("----\n"));
}

#[test]
fn what_has_no_page_is_answered_with_the_nearest_that_has() {
    let nearest = |topic: &str| explain(topic).expect_err("no page").suggestion;
    assert_eq!(nearest("train.optimiser.lr").as_deref(), Some("train.optimizer.lr"));
    assert_eq!(nearest("strategy.dsync").as_deref(), Some("strategy.d-sync"));
    assert_eq!(nearest("").as_deref(), None);
}

#[test]
fn an_end_of_a_path_is_explained() {
    let whole = explain("train.optimizer.lr").expect("a key");
    assert_eq!(explain("optimizer.lr").as_ref(), Ok(&whole));
    let several = explain("steps").expect("two keys");
    assert!(several.starts_with("steps is the end of 2 keys:\n\n  train.steps  "), "{several}");
    assert!(several.contains("\n  measure.steps  "), "{several}");
    assert!(explain("ptimizer.lr").is_err() && explain(".lr").is_err());
}

/// Every code that a snapshot shows has a page.
#[test]
fn every_code_that_is_shown_has_a_page() {
    let snapshots = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans/snapshots");
    let mut codes = Vec::new();
    for entry in std::fs::read_dir(snapshots).expect("snapshots") {
        let text = std::fs::read_to_string(entry.expect("an entry").path()).expect("a snapshot");
        for part in text.split("[R").skip(1) {
            if let Some(digits) = part.get(..3).filter(|_| part[3..].starts_with("]:")) {
                codes.push(format!("R{digits}"));
            }
        }
    }
    codes.sort();
    codes.dedup();
    for code in &codes {
        explain(code).unwrap_or_else(|error| panic!("{error}"));
    }
    let unseen: Vec<String> = topics()
        .into_iter()
        .filter(|topic| topic.starts_with('R') && topic.len() == 4 && !codes.contains(topic))
        .collect();
    assert_eq!(unseen, Vec::<String>::new(), "codes without a case in problems.rs");
}

/// As much of draft 07 as the schema uses.
fn accepts(schema: &Value, value: &Value) -> bool {
    let any = schema["anyOf"].as_array().is_none_or(|all| all.iter().any(|schema| accepts(schema, value)));
    let of_enum = schema["enum"].as_array().is_none_or(|all| all.contains(value));
    let of_type = match schema["type"].as_str() {
        None => true,
        Some("object") => object(schema, value),
        Some("array") => {
            value.as_array().is_some_and(|all| all.iter().all(|value| accepts(&schema["items"], value)))
        }
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() && in_range(schema, value),
        Some("number") => value.is_number() && in_range(schema, value),
        Some(other) => panic!("the schema uses `{other}`"),
    };
    any && of_enum && of_type
}

fn object(schema: &Value, value: &Value) -> bool {
    let Some(entries) = value.as_object() else { return false };
    let required = schema["required"]
        .as_array()
        .is_none_or(|names| names.iter().filter_map(Value::as_str).all(|name| entries.contains_key(name)));
    let open = schema["additionalProperties"] != Value::Bool(false);
    required
        && entries.iter().all(|(name, value)| match schema["properties"].get(name) {
            Some(schema) => accepts(schema, value),
            None => open,
        })
}

fn in_range(schema: &Value, value: &Value) -> bool {
    let number = value.as_f64().unwrap_or(f64::NAN);
    let bound = |name: &str| schema[name].as_f64();
    bound("minimum").is_none_or(|least| number >= least)
        && bound("maximum").is_none_or(|most| number <= most)
        && bound("exclusiveMinimum").is_none_or(|least| number > least)
        && bound("exclusiveMaximum").is_none_or(|most| number < most)
}

fn json(text: &str) -> Value {
    serde_json::to_value(toml::from_str::<toml::Value>(text).expect("TOML")).expect("JSON")
}

#[test]
fn the_schema_beside_the_recipes_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes/recipe.schema.json");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let stored: Option<Value> = serde_json::from_str(&text).ok();
    assert!(stored == Some(schema()), "write it again: bakeoff schema > recipes/recipe.schema.json");
}

#[test]
fn the_schema_accepts_every_recipe() {
    let schema = schema();
    for (name, text) in every_recipe_and_check() {
        assert!(accepts(&schema, &json(&text)), "{name}");
        assert!(accepts(&schema, &json(&plan(&name, &text).expanded)), "{name}, expanded");
    }
}

#[test]
fn the_schema_refuses_what_the_checker_refuses() {
    let schema = schema();
    let (_, right) = recipes().into_iter().find(|(name, _)| name == "quickstart.toml").expect("it");
    for (from, to) in [
        ("epochs  ", "epoch  "),
        ("epochs       = 2", "epochs       = 0"),
        ("\"ps-sync\"", "\"gpm\""),
        ("\"mnist-mlp\"", "\"alexnett\""),
        ("schema   = 1", "schema   = 2"),
        ("count = 5", "count = \"five\""),
    ] {
        let wrong = right.replacen(from, to, 1);
        if from != "epochs  " {
            assert_ne!(wrong, right, "{from}");
        }
        if wrong != right {
            assert!(!accepts(&schema, &json(&wrong)), "{to}");
            assert!(Desk::with(&wrong).plan().is_err(), "{to}");
        }
    }
}
