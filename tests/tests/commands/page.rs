//! The page of a real sweep in a real browser: it is complete, reports no error and makes no request. Its figures for print.
//!
//! The browser, and what happens without one, are described in `reports/tests/browser.rs`.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "in a test, a failure is a panic; and it says when it did not run"
)]

#[path = "../../../reports/tests/visit/mod.rs"]
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

#[test]
fn figures_of_a_real_sweep_are_written_for_print() {
    let desk = Desk::new().unwrap();
    desk.run(["run", SMOKE]).unwrap().with_code(0).unwrap();
    let listed = desk.run(["figure"]).unwrap().with_code(0).unwrap().stdout;
    for name in ["accuracy", "loss", "phases", "scoreboard"] {
        assert!(listed.contains(name), "{listed}");
    }
    let files = ["-o", "fig.svg", "-o", "fig.tex", "-o", "fig.csv"];
    let written = desk.run([&["figure", "loss", "--width", "3.35in"], &files[..]].concat()).unwrap();
    let written = written.with_code(0).unwrap();
    assert!(written.stdout.contains("fig.svg") && written.stderr.contains("caption:"), "{written:?}");
    let read = |name: &str| std::fs::read_to_string(desk.at(name)).unwrap();
    assert!(read("fig.svg").contains("width=\"85.09mm\""));
    assert!(read("fig.tex").contains("\\begin{tabular}") && read("fig.csv").starts_with("arm,"));
    // Without a font there is no PDF, which is said.
    let pdf = desk.run(["figure", "loss", "-o", "fig.pdf"]).unwrap();
    match pdf.code {
        Some(0) => assert!(std::fs::read(desk.at("fig.pdf")).unwrap().starts_with(b"%PDF-1.")),
        _ => assert!(pdf.stderr.contains("no font of") && !desk.at("fig.pdf").exists(), "{pdf:?}"),
    }
    for (words, said) in [
        (&["figure", "los", "-o", "fig.svg"][..], "loss"),
        (&["figure", "loss"], "-o fig.pdf"),
        (&["figure", "loss", "-o", "fig.png"], ".svg, .pdf, .tex or .csv"),
        (&["figure", "scoreboard", "-o", "fig2.svg"], "a table"),
        (&["figure", "loss", "-o", "fig2.svg", "--width", "85"], "85mm"),
        (&["figure", "-o", "fig2.svg"], "bakeoff figure accuracy"),
        (&["figure", "loss", "-o", "fig2.svg", "--by", "epochs"], "wall time, samples"),
    ] {
        let refused = desk.run(words).unwrap().with_code(2).unwrap();
        assert!(
            refused.stderr.contains(said) && !desk.at("fig2.svg").exists(),
            "{words:?}: {}",
            refused.stderr
        );
    }
}
