//! A real browser without a screen: what it has to say about a page. Tests of other crates use this file too.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Records of a browser that opened a page.
#[derive(Debug, Default)]
pub(crate) struct Visit {
    /// Lines of the console, whatever their level: a page has no reason to write any.
    pub(crate) console: Vec<String>,
    /// Addresses that the page asked for.
    pub(crate) requests: Vec<String>,
    /// The document after its scripts ran.
    pub(crate) document: String,
}

const DEADLINE: Duration = Duration::from_mins(4);

/// The browser to use; none where there is none, and that may be.
pub(crate) fn browser() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("BAKEOFF_CHROMIUM") {
        return Some(PathBuf::from(path));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found =
        names.iter().flat_map(|name| std::env::split_paths(&path).map(move |folder| folder.join(name)));
    let browser = found.into_iter().find(|candidate| candidate.is_file());
    if browser.is_none() {
        let required = std::env::var("BAKEOFF_REQUIRE_ALL").is_ok_and(|value| value == "1");
        assert!(!required, "no Chromium: install one, or name it in BAKEOFF_CHROMIUM");
        println!("not run: no Chromium on the path and none in BAKEOFF_CHROMIUM");
    }
    browser
}

/// Opens a page and looks around.
pub(crate) fn visit(browser: &Path, html: &str) -> Visit {
    visit_at(browser, html, "")
}

/// Opens a page at an address within it, such as `#scoreboard`.
pub(crate) fn visit_at(browser: &Path, html: &str, address: &str) -> Visit {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("page.html"), html).unwrap();
    let child = alone(browser, folder.path())
        .args(["--enable-logging=stderr", "--v=0", "--virtual-time-budget=3000"])
        .arg(format!("--log-net-log={}", at("net.json").display()))
        .arg("--dump-dom")
        .arg(format!("file://{}{address}", at("page.html").display()))
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(at("document")).unwrap())
        .stderr(std::fs::File::create(at("log")).unwrap())
        .spawn()
        .unwrap();
    wait(child);
    let read = |name: &str| String::from_utf8_lossy(&std::fs::read(at(name)).unwrap()).into_owned();
    let console = read("log").lines().filter(|line| line.contains(":CONSOLE")).map(str::to_owned).collect();
    Visit { console, requests: requests(&read("net.json")), document: read("document") }
}

/// The browser without a screen, with a profile in the folder; its own errands stay on this machine.
pub(crate) fn alone(browser: &Path, folder: &Path) -> Command {
    let mut command = Command::new(browser);
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-default-apps"])
        .args(["--disable-extensions", "--no-pings"])
        .arg("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
        .arg(format!("--user-data-dir={}", folder.join("profile").display()));
    command
}

pub(crate) fn wait(mut child: Child) {
    let begin = Instant::now();
    loop {
        match child.try_wait().unwrap() {
            Some(_) => return,
            None if begin.elapsed() > DEADLINE => {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("the browser did not end within {DEADLINE:?}");
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// The requests that a page began; what the browser does on its own account has no origin.
fn requests(log: &str) -> Vec<String> {
    let log: Value =
        serde_json::from_str(log).unwrap_or_else(|error| panic!("the network log is broken: {error}"));
    let start = &log["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"];
    assert!(start.is_number(), "the network log knows no requests");
    log["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["type"] == *start && event["params"]["initiator"] != "not an origin")
        .filter_map(|event| event["params"]["url"].as_str())
        .map(str::to_owned)
        .collect()
}
