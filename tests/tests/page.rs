//! The page of a real sweep in a real browser: it is complete, reports no error and makes no request.
//!
//! The browser, and what happens without one, are described in `reports/tests/browser.rs`.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "in a test, a failure is a panic; and it says when it did not run"
)]

#[path = "../../reports/tests/visit/mod.rs"]
mod visit;

use e2e::Desk;
use visit::{browser, visit};

const SMOKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../recipes/smoke.toml");

#[test]
fn the_page_of_a_real_sweep_opens_in_silence() {
    let Some(browser) = browser() else { return };
    let desk = Desk::new().unwrap();
    desk.run(["run", SMOKE, "--report", "page.html"]).unwrap().with_code(0).unwrap();
    let html = std::fs::read_to_string(desk.at("page.html")).unwrap();
    let visit = visit(&browser, &html);
    assert_eq!(visit.console, Vec::<String>::new());
    assert_eq!(visit.requests, Vec::<String>::new());
    let page = visit.document;
    assert!(page.contains("aria-pressed=\"true\""), "the page's script did not run");
    for section in ["scoreboard", "phases", "timeline", "communication", "method", "reproduce"] {
        assert!(page.contains(&format!("id=\"{section}\"")), "there is no section {section}");
    }
    let verdict = "per step on 2 workers";
    let weights = "ps-sync and d-sync ended with the same weights, bit for bit";
    for words in [
        "Does everything work?",
        verdict,
        "exposed communication",
        "all ranks end with the same bits",
        weights,
    ] {
        assert!(page.contains(words), "the page does not say `{words}`");
    }
}
