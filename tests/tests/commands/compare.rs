//! `compare`, `diff` and `predict --from` on sweeps of real runs, whose steps take what the recipe states.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::Desk;
use serde_json::Value;

/// Two arms whose step takes `step`, on a network whose messages take long beside what a busy machine adds to them.
fn recipe(step: &str) -> String {
    format!(
        r#"
schema = 1
name = "watched"
[model]
kind = "mnist-mlp"
[dataset]
kind = "synthetic"
train = 400
test = 100
[train]
global-batch = 40
steps = 30
evaluate = "30 steps"
[nodes]
use = ["local*2"]
[network]
bandwidth = "500Mbit/s"
latency = "5ms"
[compute]
step-time = "{step}"
[[strategy]]
kind = "d-sync"
[[strategy]]
kind = "d-sync"
name = "merged"
communication.schedule = "merged"
communication.collective = "halving-doubling"
[repeats]
count = 3
[report]
min-effect = "10%"
"#
    )
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap()
}

/// A verdict on speed, by the condition.
fn speed<'a>(document: &'a Value, condition: &str) -> &'a Value {
    let rows = document["verdicts"].as_array().unwrap();
    rows.iter()
        .find(|row| text(row, "condition") == condition && text(row, "measure") == "step-time")
        .unwrap()
}

#[test]
fn a_sweep_that_became_slower_is_found_and_what_it_differs_in_is_named() {
    let folder = Desk::new().unwrap();
    for (name, step) in [("before.toml", "40ms"), ("after.toml", "100ms")] {
        folder.write(name, &recipe(step)).unwrap();
        folder.run(["run", name, "--progress", "none"]).unwrap().with_code(0).unwrap();
    }
    // Both arms wait for computing, and 60 ms more of it make each of them slower by far more than a tenth, on a busy machine as well.
    let arguments = ["compare", "last~1", "last", "--format", "json", "--fail-if", "slower"];
    let ended = folder.run(arguments).unwrap().with_code(6).unwrap();
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    for arm in ["d-sync", "merged"] {
        let row = speed(&document, arm);
        assert_eq!(
            (text(row, "grade"), text(row, "arm"), text(row, "baseline")),
            ("slower", "last", "last~1")
        );
        let ratio = row["ratio"].as_f64().unwrap();
        assert!((0.3..0.8).contains(&ratio), "{row}");
    }
    let settings = document["settings"].as_array().unwrap();
    assert_eq!(settings.len(), 1, "{settings:?}");
    assert_eq!(text(&settings[0], "key"), "compute.step-time");
    assert!(ended.stderr.contains("slower: d-sync, merged"), "{}", ended.stderr);
    // The other way round it is faster, and nothing to fail at; a fault that is not asked for does not fail either.
    folder
        .run(["compare", "last", "last~1", "--fail-if", "slower,uncertain,worse"])
        .unwrap()
        .with_code(0)
        .unwrap();
    folder.run(["compare", "last~1", "last"]).unwrap().with_code(0).unwrap();
    // A difference of a half is none for those who look for a threefold one.
    let wide = ["compare", "last~1", "last", "--min-effect", "90%", "--fail-if", "slower"];
    folder.run(wide).unwrap().with_code(0).unwrap();
    // Two arms of one sweep, and a page of both.
    several_sweeps_on_one_page(&folder);
    let arms = ["compare", "last and arm=d-sync", "last and arm=merged", "-o", "page.html"];
    let said = folder.said(arms).unwrap();
    assert!(said.contains("merged") && said.contains("page: page.html"), "{said}");
    assert!(
        std::fs::read_to_string(folder.at("page.html")).unwrap().contains("Is merged faster than d-sync?")
    );
    // The same runs on both sides are no evidence.
    folder.run(["run", "after.toml", "--progress", "none"]).unwrap().with_code(0).unwrap();
    let ended = folder.run(["compare", "last~1", "last"]).unwrap().with_code(2).unwrap();
    assert!(
        ended.stderr.contains("was measured once and is on both sides") && ended.stderr.contains("--fresh"),
        "{}",
        ended.stderr
    );
    let ended = folder.run(["compare", "last", "last and arm=merged", "--metric", "time-to-target"]).unwrap();
    assert!(ended.with_code(2).is_ok());
    differences_of_two_runs(&folder);
    predictions_from_a_run(&folder);
}

/// The runs of the arm with a plan, of both sweeps.
fn runs(folder: &Desk, sweep: &str) -> Vec<String> {
    let listed = folder.json(["list", &format!("{sweep} and arm=merged"), "--format", "json"]).unwrap();
    listed.as_array().unwrap().iter().map(|run| text(run, "id").to_owned()).collect()
}

fn differences_of_two_runs(folder: &Desk) {
    let before = runs(folder, "last~2");
    let after = runs(folder, "last~1");
    let document = folder.json(["diff", &before[0], &after[0], "--format", "json"]).unwrap();
    let keys = |part: &str| -> Vec<String> {
        document[part].as_array().unwrap().iter().map(|row| text(row, "key").to_owned()).collect()
    };
    assert_eq!(keys("settings"), ["compute.step-time"]);
    assert!(keys("results").contains(&"mean step".to_owned()), "{document}");
    // The stated time changes no number: both end with the same weights.
    assert!(!keys("results").contains(&"weights".to_owned()), "{document}");
    assert!(keys("phases").contains(&"backward".to_owned()), "{document}");
    let seeds = folder.json(["diff", &before[0], &before[1], "--format", "json"]).unwrap();
    assert_eq!(text(&seeds["settings"][0], "key"), "seed");
    let ended = folder.run(["diff", &before[0], &before[0]]).unwrap().with_code(2).unwrap();
    assert!(ended.stderr.contains("both are run"), "{}", ended.stderr);
}

/// The run's measurements of the emulated card predict the same steps as the card's own numbers do.
fn predictions_from_a_run(folder: &Desk) {
    let stated = recipe("40ms");
    let (network, rest) = stated.split_once("[network]").unwrap();
    let (_, rest) = rest.split_once("[[strategy]]").unwrap();
    folder.write("bare.toml", &format!("{network}[[strategy]]{rest}")).unwrap();
    let steps = |arguments: &[&str]| -> Vec<f64> {
        let document = folder.json(arguments.iter().copied()).unwrap();
        document["cells"].as_array().unwrap().iter().map(|cell| cell["step"].as_f64().unwrap()).collect()
    };
    let exact = steps(&["predict", "before.toml", "--format", "json"]);
    // Where another program takes the cores during the few messages of a probe, that run tells nothing of its network.
    let tells =
        |run: &String| folder.run(["predict", "bare.toml", "--from", run]).unwrap().with_code(0).is_ok();
    let run = runs(folder, "last~2").into_iter().find(tells).unwrap();
    let measured = steps(&["predict", "bare.toml", "--from", &run, "--format", "json"]);
    for (exact, measured) in exact.iter().zip(&measured) {
        assert!((measured / exact - 1.0).abs() < 0.25, "{exact} {measured}");
    }
    let ended = folder.run(["predict", "bare.toml"]).unwrap().with_code(2).unwrap();
    assert!(ended.stderr.contains("--from RUN"), "{}", ended.stderr);
    let listed = folder.json(["list", "last~2 and arm=d-sync", "--format", "json"]).unwrap();
    let plain = text(&listed[0], "id").to_owned();
    let ended = folder.run(["predict", "bare.toml", "--from", &plain]).unwrap().with_code(2).unwrap();
    assert!(ended.stderr.contains("measured no messages"), "{}", ended.stderr);
}

/// The page of both sweeps, made from each side of the question: which arm is faster, and what became of each arm.
fn several_sweeps_on_one_page(folder: &Desk) {
    let read = |name: &str| std::fs::read_to_string(folder.at(name)).unwrap();
    folder.run(["tag", "last", "after"]).unwrap().with_code(0).unwrap();
    folder.run(["report", "last", "last~1", "-o", "both.html"]).unwrap().with_code(0).unwrap();
    let both = read("both.html");
    assert!(both.contains("Became slower: d-sync (in after, 0."), "the change is not named");
    assert!(both.contains("<h2>Who wins where</h2>") && both.contains("sweep=after"), "no axis of sweeps");
    let every = ["report", "recipe=watched", "--every-sweep", "-o", "every.html"];
    folder.run(every).unwrap().with_code(0).unwrap();
    let named = |page: &str| page.matches("sweep=after").count();
    assert_eq!(named(&read("every.html")), named(&both));
    // Arms of different sweeps stand side by side.
    let apart = ["report", "last~1 and arm=d-sync", "last and arm=merged", "-o", "apart.html"];
    folder.run(apart).unwrap().with_code(0).unwrap();
    assert!(!read("apart.html").contains("id=\"changes\""));
    for (selections, said) in
        [(["last and arm=d-sync", "last"], "by `or`"), (["last", "and"], "in quotation marks")]
    {
        let [one, other] = selections;
        let ended = folder.run(["report", one, other, "-o", "refused.html"]).unwrap().with_code(2).unwrap();
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
    }
}
