//! Sweeps that travel: real runs, exported as a bundle, imported into the store of another user, compared, reported, and never taken for
//! runs of that user's own machine.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::{Desk, Ended, Sketch};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const SMOKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../recipes/smoke.toml");
const PATIENCE: Duration = Duration::from_mins(2);

fn run(desk: &Desk, arguments: &[&str]) -> Ended {
    desk.run(arguments).unwrap()
}

/// Standard output of `bakeoff` with these arguments, which must end with exit code 0.
fn done(desk: &Desk, arguments: &[&str]) -> String {
    run(desk, arguments).with_code(0).unwrap().stdout
}

fn listed(desk: &Desk, selection: &str) -> Vec<Value> {
    serde_json::from_str(&done(desk, &["list", selection, "--format", "json"])).unwrap()
}

fn page(desk: &Desk, selection: &str) -> String {
    done(desk, &["report", selection, "-o", "page.html"]);
    fs::read_to_string(desk.at("page.html")).unwrap()
}

/// A desk with two sweeps of which the second reuses the first, tagged and noted, and their bundle.
fn colleague() -> (Desk, PathBuf) {
    let desk = Desk::new().unwrap();
    run(&desk, &["run", SMOKE]).with_code(0).unwrap();
    run(&desk, &["run", SMOKE, "--repeats", "2"]).with_code(0).unwrap();
    done(&desk, &["tag", "last", "paper-v2"]);
    done(&desk, &["note", "last", "quiet <b>machine</b>, as ada@lab7 left it"]);
    let made = done(&desk, &["export", "last", "--format", "bundle", "-o", "b.tar.gz"]);
    assert!(made.contains("because results of it are in") && made.contains("SHA-256"), "{made}");
    let bundle = desk.at("b.tar.gz");
    (desk, bundle)
}

#[test]
fn an_imported_sweep_is_reported_as_where_it_was_made_and_run_measures_anew() {
    let (there, bundle) = colleague();
    let bundle = bundle.to_str().unwrap();
    let here = Desk::new().unwrap();
    let dry = run(&here, &["import", bundle, "--dry-run"]).with_code(0).unwrap();
    assert_eq!(dry.stdout.matches("would be imported: sweep").count(), 2, "{}", dry.stdout);
    assert!(!here.at(".bakeoff").exists());
    let said = done(&here, &["import", bundle]);
    assert_eq!(said.matches("imported: sweep").count(), 2, "{said}");
    assert!(said.contains("tags: paper-v2") && said.contains("as ada@lab7 left it"), "{said}");
    assert!(done(&here, &["db", "check"]).starts_with("ok"));
    assert_eq!(page(&here, "last"), page(&there, "last"), "the page is the same, byte for byte");
    let shown = page(&here, "tag=paper-v2");
    assert!(
        shown.contains("tagged paper-v2") && shown.contains("quiet &lt;b&gt;machine"),
        "escaped, as every text of a user"
    );
    for table in ["runs", "metrics", "steps", "phases"] {
        let rows = |desk: &Desk| done(desk, &["export", "", "--format", "csv", "--what", table]);
        assert_eq!(rows(&here), rows(&there), "{table}");
    }
    done(&here, &["publish", "site", "--redact", "hosts,users,paths"]);
    let index = fs::read_to_string(here.at("site/index.html")).unwrap();
    assert!(index.contains("Note: quiet &lt;b&gt;machine") && index.contains("tagged paper-v2"));
    assert!(!index.contains("ada@lab7"), "a note is redacted as other texts are");

    let again = done(&here, &["import", bundle]);
    assert_eq!(again.matches("already here: sweep").count(), 2, "{again}");
    assert_eq!(listed(&here, "origin=imported").len(), 6);
    let why = done(&here, &["plan", SMOKE, "--why"]);
    assert_eq!(why.matches("measured elsewhere as").count(), 2, "{why}");
    let own = run(&here, &["-v", "run", SMOKE]).with_code(0).unwrap();
    assert_eq!(
        own.stderr.matches("rank 0 is process").count(),
        2,
        "both arms are trained here: {}",
        own.stderr
    );
    assert!(listed(&here, "last").iter().all(|line| line["imported"] == false));
    let alike = done(&here, &["import", bundle]);
    assert!(alike.contains("the same settings as sweep") && alike.contains("compare ratios"), "{alike}");
    let compared = run(&here, &["compare", "last", "tag=paper-v2"]);
    assert!(compared.stdout.contains("d-sync"), "{}{}", compared.stdout, compared.stderr);

    let before = (listed(&here, ""), page(&here, "tag=paper-v2"));
    done(&here, &["db", "rebuild"]);
    assert_eq!((listed(&here, ""), page(&here, "tag=paper-v2")), before, "a rebuild keeps what was imported");
    done(&here, &["db", "prune", "origin=imported"]);
    assert_eq!(listed(&here, "").len(), 2);
    assert_eq!(done(&here, &["import", bundle]).matches("imported: sweep").count(), 2);
}

#[test]
fn an_importer_that_is_killed_leaves_a_sound_store_and_the_next_one_finishes() {
    let (there, bundle) = colleague();
    let bundle = bundle.to_str().unwrap();
    let expected = listed(&there, "").len();
    for milliseconds in [0, 5, 10, 20, 40, 80, 160, 320] {
        let here = Desk::new().unwrap();
        let importer = here.start(["import", bundle]).unwrap();
        // It is killed at some moment of its work, whichever that is on this machine.
        std::thread::sleep(Duration::from_millis(milliseconds));
        // It may have ended.
        let _ = importer.signal(Signal::KILL);
        importer.end(PATIENCE).unwrap();
        if here.at(".bakeoff/bakeoff.db").exists() {
            let check = run(&here, &["db", "check"]);
            // The tables of a new store may not all be there yet, as after any command that is killed in its first moment.
            let said = check.stdout + &check.stderr;
            let words = ["no store in", "has schema version", "was not applied"];
            let begun = words.iter().any(|words| said.contains(words));
            assert!(check.code == Some(0) || begun, "{said}");
        }
        done(&here, &["import", bundle]);
        assert_eq!(listed(&here, "").len(), expected);
        assert!(done(&here, &["db", "check"]).starts_with("ok"));
        assert_eq!(page(&here, "last"), page(&there, "last"), "killed after {milliseconds} ms");
        done(&here, &["db", "rebuild"]);
        assert!(!here.at(".bakeoff/import").exists());
    }
}

/// An import that must fail, and make no store; returns what it says.
fn refused(bundle: &Path) -> String {
    let here = Desk::new().unwrap();
    let ended = run(&here, &["import", bundle.to_str().unwrap()]).with_code(4).unwrap();
    assert!(!here.at(".bakeoff").exists(), "{}", ended.stderr);
    ended.stderr
}

#[test]
fn what_is_no_bundle_or_no_whole_one_is_refused_with_the_reason() {
    let (there, bundle) = colleague();
    let whole = fs::read(&bundle).unwrap();
    let other = there.at("other.tar.gz");
    fs::write(&other, &whole[..whole.len() / 2]).unwrap();
    assert!(refused(&other).contains("is damaged, or was tampered with"));
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    fs::write(&other, &flipped).unwrap();
    assert!(refused(&other).contains("is damaged, or was tampered with"));
    assert!(refused(Path::new(SMOKE)).contains("is no bundle"));
    assert!(refused(&there.at("absent.tar.gz")).contains("cannot be read"));
}

#[test]
fn a_bundle_has_sweeps_that_have_ended_and_says_what_it_lacks() {
    let desk = Desk::new().unwrap();
    desk.write("long.toml", &Sketch::perceptron("long", "d-sync", 1_000_000).to_string()).unwrap();
    let mut driver = desk.start(["-v", "run", "long.toml"]).unwrap();
    driver.worker(1).unwrap();
    let export = ["export", "last", "--format", "bundle", "-o", "b.tar.gz"];
    let refused = run(&desk, &export).with_code(7).unwrap();
    assert!(refused.stderr.contains("is under way"), "{}", refused.stderr);
    // A sweep may be tagged while it runs, and `status` shows it.
    done(&desk, &["tag", "last", "overnight"]);
    assert!(done(&desk, &["status"]).contains("tags: overnight"));
    driver.signal(Signal::KILL).unwrap();
    driver.end(PATIENCE).unwrap();
    let made = run(&desk, &export).with_code(0).unwrap();
    assert!(made.stderr.contains("left out:"), "{}", made.stderr);
    let here = Desk::new().unwrap();
    done(&here, &["import", desk.at("b.tar.gz").to_str().unwrap()]);
    let lines = listed(&here, "tag=overnight");
    assert_eq!((lines.len(), &lines[0]["state"]), (1, &Value::from("interrupted")));
    let usage = run(&desk, &["export", "last", "--format", "bundle"]).with_code(2).unwrap();
    assert!(usage.stderr.contains("-o FILE.tar.gz"), "{}", usage.stderr);
    let usage = run(&desk, &["tag", "last", "two words"]).with_code(2).unwrap();
    assert!(usage.stderr.contains("is no tag"), "{}", usage.stderr);
}
