//! `list`, `show`, `logs`, `report`, `export` and `db`, on a store with failed runs.

use crate::kitchen::{HAPLESS, Kitchen};
use std::fs;

/// A store with one failed run and five that were never begun.
fn kitchen() -> Kitchen {
    let kitchen = Kitchen::new().with_worker(HAPLESS);
    kitchen.run(&["run", "small.toml", "--max-fail", "1"]).code(5);
    kitchen
}

/// The id of the failed run, as the list shows it.
fn failed(kitchen: &Kitchen) -> String {
    let list = kitchen.run(&["list", "state=failed"]).code(0).out;
    list.lines().nth(2).unwrap().split(' ').next().unwrap().to_owned()
}

#[test]
fn without_a_store_there_is_nothing_to_look_at() {
    let kitchen = Kitchen::new();
    let verbs: [&[&str]; 7] = [
        &["list"],
        &["show", "X"],
        &["logs", "X"],
        &["report", "-o", "page.html"],
        &["export", "last", "--format", "csv"],
        &["db", "info"],
        &["db", "check"],
    ];
    for arguments in verbs {
        let told = kitchen.run(arguments).code(7);
        assert!(told.err.contains("no store in .bakeoff"), "{arguments:?}: {}", told.err);
    }
    assert!(!kitchen.path(".bakeoff").exists());
}

#[test]
fn the_store_is_where_option_or_environment_say() {
    let kitchen = Kitchen::new().with_worker(HAPLESS);
    kitchen.run(&["run", "small.toml", "--max-fail", "1", "--store", "here"]).code(5);
    assert!(kitchen.path("here/bakeoff.db").exists() && !kitchen.path(".bakeoff").exists());
    let listed = kitchen.command(&["list"]).env("BAKEOFF_STORE", "here").output().unwrap();
    assert!(listed.status.success());
}

#[test]
fn runs_are_listed_by_what_they_are() {
    let kitchen = kitchen();
    let all = kitchen.run(&["list"]).code(0).out;
    assert_eq!(all.lines().count(), 8, "{all}");
    assert!(all.lines().all(|line| line.chars().count() <= 80 && !line.ends_with(' ')), "{all}");
    let count = |selection: &str| {
        kitchen.run(&["list", selection, "--format", "json"]).code(0).json().as_array().unwrap().len()
    };
    assert_eq!(
        (count("strategy=d-sync"), count("last and not state=failed"), count("train.optimizer.lr=0.1")),
        (4, 5, 2)
    );
    assert!(kitchen.run(&["list", "strategy=easgd"]).code(3).err.contains("strategy=easgd"));
    assert!(kitchen.run(&["list", "strategy="]).code(2).err.contains("strategy="));
}

#[test]
fn a_run_is_shown_with_its_attempts() {
    let kitchen = kitchen();
    let id = failed(&kitchen);
    let shown = kitchen.run(&["show", &id]).code(0).out;
    for part in [id.as_str(), "failed", "ps-sync  lr=0.05", "exited with code 3", ".bakeoff/runs/"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let json = kitchen.run(&["show", &id, "--format", "json"]).code(0).json();
    assert_eq!((&json["line"]["state"], &json["attempts"][0]["number"]), (&"failed".into(), &1.into()));
    assert!(json["identity"].as_str().unwrap().len() == 64);
    assert!(kitchen.run(&["show", "0"]).code(2).err.contains("fits several runs"));
    kitchen.run(&["show", "NOSUCHRUN"]).code(3);
}

#[test]
fn logs_are_shown_for_people_by_rank() {
    let kitchen = kitchen();
    let id = failed(&kitchen);
    let all = kitchen.run(&["logs", &id]).code(0).out;
    assert!(all.contains("ERROR no luck today\n") && all.starts_with("rank "), "{all}");
    let followed = kitchen.run(&["logs", &id, "-f"]).code(0).out;
    assert_eq!(followed, all);
    let rank: &str = all.split([' ', ':']).nth(1).unwrap();
    assert_eq!(kitchen.run(&["logs", &id, "-w", rank]).code(0).out, "ERROR no luck today\n");
    assert!(kitchen.run(&["logs", &id, "-w", "9"]).code(2).err.contains("its ranks are 0 to 2"));
    let list = kitchen.run(&["list", "state=pending"]).out;
    let pending = list.lines().nth(2).unwrap().split(' ').next().unwrap();
    assert!(kitchen.run(&["logs", pending]).code(3).err.contains("never begun"));
}

#[test]
fn the_same_runs_give_the_same_page() {
    let kitchen = kitchen();
    let page = |file: &str| {
        let told = kitchen.run(&["report", "-o", file]).code(0);
        assert_eq!(told.out, format!("report: {file}\n"));
        fs::read_to_string(kitchen.path(file)).unwrap()
    };
    let first = page("one.html");
    assert!(first.contains("Which of two is faster?"));
    assert_eq!(page("deep/two.html"), first);
    let told = kitchen.run(&["report", "last", "-o", "x.html", "--baseline", "no-arm"]).code(2);
    assert!(told.err.contains("no-arm") && told.err.contains("d-sync"), "{}", told.err);
    kitchen.run(&["report", "strategy=easgd", "-o", "x.html"]).code(3);
    assert!(!kitchen.path("x.html").exists());
}

#[test]
fn measurements_are_exported() {
    let kitchen = kitchen();
    let csv = kitchen.run(&["export", "last", "--format", "csv"]).code(0).out;
    assert!(csv.starts_with("run,sweep,recipe,") && csv.lines().count() == 7, "{csv}");
    let told = kitchen.run(&["export", "state=failed", "--format", "jsonl", "-o", "runs.jsonl"]).code(0);
    assert_eq!(told.out, "");
    let lines = fs::read_to_string(kitchen.path("runs.jsonl")).unwrap();
    let row: serde_json::Value = serde_json::from_str(lines.trim_end()).unwrap();
    assert_eq!(
        (&row["state"], &row["workers"], &row["training_s"]),
        (&"failed".into(), &2.into(), &serde_json::Value::Null)
    );
    for table in ["metrics", "steps", "phases"] {
        let csv = kitchen.run(&["export", "last", "--format", "csv", "--what", table]).code(0).out;
        assert!(csv.starts_with("run,") && csv.lines().count() == 1, "{table}: {csv}");
    }
    for table in ["runs", "metrics", "steps", "phases", "hosts", "histograms", "verdicts"] {
        let parquet = ["export", "last", "--format", "parquet", "--what", table, "-o", "table.parquet"];
        kitchen.run(&parquet).code(0);
        let bytes = fs::read(kitchen.path("table.parquet")).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{table}");
    }
    let told = kitchen.run(&["export", "last", "--format", "parquet"]).code(2);
    assert!(told.err.contains("-o FILE"), "{}", told.err);
    let told = kitchen.run(&["export", "last", "--format", "parquet", "--what", "events", "-o", "x"]).code(2);
    assert!(told.err.contains("jsonl"), "{}", told.err);
    kitchen.run(&["export", "strategy=easgd", "--format", "csv"]).code(3);
    kitchen.run(&["export", "last"]).code(2);
}

#[test]
fn the_database_is_looked_after() {
    let kitchen = kitchen();
    let info = kitchen.run(&["db", "info"]).code(0).out;
    assert!(info.contains(".bakeoff/bakeoff.db") && info.contains("schema version"), "{info}");
    assert_eq!(kitchen.run(&["db", "check"]).code(0).out, "ok  .bakeoff/bakeoff.db\n");
}

#[test]
fn runs_are_removed_after_a_look_at_what_would_go() {
    let kitchen = kitchen();
    let would = kitchen.run(&["db", "prune", "state=failed", "--dry-run"]).code(0).out;
    assert!(would.contains("1 of 6 runs; a report of it will lack them"), "{would}");
    assert!(would.contains("would remove 1 run: "), "{would}");
    kitchen.run(&["list", "state=failed"]).code(0);
    let removed = kitchen.run(&["db", "prune", "state=failed"]).code(0).out;
    assert_eq!(removed, would.replace("would remove", "removed"));
    kitchen.run(&["list", "state=failed"]).code(3);
    // It reads as one that was never begun, as long as others of its sweep are there.
    let left = kitchen.run(&["list", "state=pending", "--format", "json"]).code(0).json();
    assert_eq!(left.as_array().map(Vec::len), Some(6));
    assert_eq!(kitchen.run(&["db", "prune", "--older", "90d"]).code(0).out, "nothing to remove\n");
    let out = kitchen.run(&["db", "prune", "last"]).code(0).out;
    assert!(out.contains("6 runs, which are all, and the sweep itself"), "{out}");
    assert_eq!(kitchen.run(&["db", "check"]).code(0).out, "ok  .bakeoff/bakeoff.db\n");
    for wrong in [&["db", "prune"][..], &["db", "prune", "--older", "soon"], &["db", "prune", "arm="]] {
        kitchen.run(wrong).code(2);
    }
}
