//! `publish`: a site of two sweeps, published again, with names left out, and onto a branch.

use crate::kitchen::{HAPLESS, Kitchen};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

/// A store with two sweeps, of which the second has a hostile question, an arm with a name of its own, and paths.
fn kitchen() -> Kitchen {
    let kitchen = Kitchen::new().with_worker(HAPLESS);
    kitchen.run(&["run", "small.toml", "--max-fail", "1"]).code(5);
    let recipe = fs::read_to_string(kitchen.path("small.toml")).unwrap();
    let recipe = recipe
        .replace(
            "Which of two is faster?",
            "</title><script>alert(1)</script> in /srv/secret/ada of bob@barn?",
        )
        .replace("\"small\"", "\"hostile\"")
        .replace("kind = \"d-sync\"", "kind = \"d-sync\"\nname = \"moonshot\"");
    kitchen.write("hostile.toml", &recipe);
    kitchen.run(&["run", "hostile.toml", "--max-fail", "1"]).code(5);
    kitchen
}

/// Every file below a folder but git's own: content, and when and as which it was written.
fn files(folder: &Path) -> BTreeMap<String, (Vec<u8>, i64, u64)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let about = fs::metadata(&path).unwrap();
            let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
            found.insert(name, (fs::read(&path).unwrap(), about.mtime_nsec(), about.ino()));
        }
    }
    found
}

fn text(kitchen: &Kitchen, file: &str) -> String {
    fs::read_to_string(kitchen.path(file)).unwrap()
}

fn git(kitchen: &Kitchen, arguments: &[&str]) -> String {
    let who = ["-c", "user.name=t", "-c", "user.email=t@t"];
    let output =
        Command::new("git").args(who).args(arguments).current_dir(kitchen.path("")).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_site_has_a_page_for_each_sweep_and_is_written_once() {
    let kitchen = kitchen();
    let told = kitchen.run(&["publish", "site"]).code(0);
    assert!(told.out.contains("2 sweeps: 9 files new, 0 changed, 0 unchanged"), "{told:?}");
    let first = files(&kitchen.path("site"));
    assert_eq!(first.len(), 10, "{:?}", first.keys());
    let index = text(&kitchen, "site/index.html");
    assert!(index.find("hostile").unwrap() < index.find("Which of two is faster?").unwrap());
    assert!(!index.contains("<script>alert") && index.contains("&lt;script&gt;alert"));
    for link in index.split("href=\"sweeps/").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert!(first.contains_key(&format!("sweeps/{link}")), "{link}");
    }
    let feed = text(&kitchen, "site/feed.xml");
    assert_eq!(feed.matches("<entry>").count(), 2);
    let runs: Vec<&String> = first.keys().filter(|name| name.ends_with("-runs.csv")).collect();
    let exported = kitchen.run(&["export", "recipe=small", "--format", "csv"]).code(0).out;
    assert_eq!(text(&kitchen, &format!("site/{}", runs[0])), exported);

    // The same input: nothing is touched, and another folder has the same bytes.
    let told = kitchen.run(&["publish", "site"]).code(0);
    assert!(told.out.contains("0 files new, 0 changed, 9 unchanged"), "{told:?}");
    assert_eq!(files(&kitchen.path("site")), first);
    kitchen.run(&["publish", "deep/site"]).code(0);
    let bytes = |files: BTreeMap<String, (Vec<u8>, i64, u64)>| -> BTreeMap<String, Vec<u8>> {
        files.into_iter().map(|(name, (content, _, _))| (name, content)).collect()
    };
    assert_eq!(bytes(files(&kitchen.path("deep/site"))), bytes(first));
}

#[test]
fn what_is_not_published_any_more_stays_until_it_is_pruned() {
    let kitchen = kitchen();
    kitchen.run(&["publish", "site"]).code(0);
    kitchen.write("site/notes.txt", "mine");
    kitchen.write("site/sweeps/notes.csv", "mine");
    let told = kitchen.run(&["publish", "site", "recipe=hostile"]).code(0);
    assert!(told.err.contains("warning: 3 files of earlier publications stay, sweeps/"), "{told:?}");
    let redacted = kitchen.run(&["publish", "site", "recipe=hostile", "--redact", "hosts"]).code(0);
    assert!(redacted.err.contains("with the names that `--redact` leaves out now"), "{redacted:?}");
    kitchen.run(&["publish", "site", "recipe=hostile"]).code(0);
    assert_eq!(files(&kitchen.path("site")).len(), 12);
    let changed =
        files(&kitchen.path("site")).into_keys().find(|name| name.ends_with("-verdicts.csv")).unwrap();
    kitchen.write(&format!("site/{changed}"), "changed by hand");
    let told = kitchen.run(&["publish", "site", "recipe=hostile", "--prune"]).code(0);
    assert!(told.out.contains("2 removed"), "{told:?}");
    let left = files(&kitchen.path("site"));
    assert_eq!(left.len(), 10, "{:?}", left.keys());
    assert!(
        left.contains_key("notes.txt")
            && left.contains_key("sweeps/notes.csv")
            && left.contains_key(&changed)
    );
}

#[test]
fn a_site_is_no_part_of_the_store() {
    let kitchen = kitchen();
    for folder in [".bakeoff", ".bakeoff/runs", ".bakeoff/not/there/yet", "/"] {
        let told = kitchen.run(&["publish", folder]).code(2);
        assert!(
            told.err.contains("is in the store") || told.err.contains("root of the file system"),
            "{told:?}"
        );
    }
    assert!(!kitchen.path(".bakeoff/index.html").exists());
}

#[test]
fn files_of_others_are_not_replaced() {
    let kitchen = kitchen();
    fs::create_dir(kitchen.path("site")).unwrap();
    kitchen.write("site/index.html", "mine");
    let told = kitchen.run(&["publish", "site"]).code(2);
    assert!(told.err.contains("site/index.html was not written by `bakeoff publish`"), "{told:?}");
    assert_eq!(files(&kitchen.path("site")).len(), 1);
    let told = kitchen.run(&["publish", "small.toml"]).code(2);
    assert!(told.err.contains("small.toml is a file"), "{told:?}");
    kitchen.run(&["publish", "new", "strategy=easgd"]).code(3);
    kitchen.run(&["publish", "new", "strategy="]).code(2);
    let told = kitchen.run(&["publish", "new", "--dry-run"]).code(0);
    assert!(told.out.lines().all(|line| line.chars().count() <= 80), "{}", told.out);
    assert_eq!(told.out.matches(" new").count(), 9, "{}", told.out);
    assert!(!kitchen.path("new").exists());
}

#[test]
fn names_are_left_out_of_every_file() {
    let kitchen = kitchen();
    let redact = ["publish", "site", "--redact", "hosts,users,paths,arms"];
    let told = kitchen.run(&redact).code(0);
    assert!(told.err.contains("left out: moonshot, shown as arm-"), "{told:?}");
    let folder = kitchen.path("").to_string_lossy().trim_end_matches('/').to_owned();
    let secrets = ["moonshot", "secret", "bob@", folder.as_str()];
    for (name, (content, _, _)) in files(&kitchen.path("site")) {
        let content = String::from_utf8_lossy(&content);
        for secret in secrets {
            assert!(!content.contains(secret), "{name} has {secret}");
        }
    }
    // Without it they are there: the test can fail.
    kitchen.run(&["publish", "open"]).code(0);
    let open: String = files(&kitchen.path("open"))
        .into_values()
        .map(|(content, _, _)| String::from_utf8(content).unwrap())
        .collect();
    assert!(["moonshot", "secret", "bob@"].iter().all(|secret| open.contains(secret)));
}

#[test]
fn a_branch_gets_the_site_and_nothing_else_changes() {
    let kitchen = kitchen();
    let told = kitchen.run(&["publish", "site", "--gh-pages"]).code(4);
    assert!(told.err.contains("no git repository contains"), "{told:?}");
    assert!(!kitchen.path("site").exists());
    git(&kitchen, &["init", "-q", "-b", "main"]);
    git(&kitchen, &["config", "user.name", "t"]);
    git(&kitchen, &["config", "user.email", "t@t"]);
    git(&kitchen, &["add", "small.toml"]);
    git(&kitchen, &["commit", "-qm", "recipe"]);
    kitchen.write("staged.txt", "staged");
    git(&kitchen, &["add", "staged.txt"]);
    kitchen.run(&["publish", "site"]).code(0);
    let state = || {
        let index = fs::read(kitchen.path(".git/index")).unwrap();
        (git(&kitchen, &["rev-parse", "HEAD"]), git(&kitchen, &["status", "--porcelain"]), index)
    };
    let before = state();
    let told = kitchen.run(&["publish", "site", "--gh-pages"]).code(0);
    assert!(told.out.contains("git push REMOTE gh-pages"), "{told:?}");
    assert_eq!(state(), before);
    let listed = git(&kitchen, &["ls-tree", "-r", "--name-only", "gh-pages"]);
    let names: Vec<String> = files(&kitchen.path("site")).into_keys().collect();
    assert_eq!(listed.lines().collect::<Vec<_>>(), names);
    assert_eq!(git(&kitchen, &["show", "gh-pages:index.html"]), text(&kitchen, "site/index.html"));
    // The same files make no commit, fewer make one on top.
    let first = git(&kitchen, &["rev-parse", "gh-pages"]);
    assert!(
        kitchen.run(&["publish", "site", "--gh-pages"]).code(0).out.contains("has the same files already")
    );
    assert_eq!(git(&kitchen, &["rev-parse", "gh-pages"]), first);
    kitchen.run(&["publish", "site", "recipe=hostile", "--prune", "--gh-pages"]).code(0);
    assert_eq!(git(&kitchen, &["rev-parse", "gh-pages^"]), first);
    assert_eq!(git(&kitchen, &["ls-tree", "-r", "--name-only", "gh-pages"]).lines().count(), 7);
    assert_eq!(state(), before);
    let told = kitchen.run(&["publish", "site", "--gh-pages=main"]).code(2);
    assert!(told.err.contains("branch main is checked out"), "{told:?}");
    assert!(
        fs::read_dir(kitchen.path(".git"))
            .unwrap()
            .all(|entry| { !entry.unwrap().file_name().to_string_lossy().contains("bakeoff") })
    );
}
