//! A page on paper.

use super::visit::{alone, wait};
use std::path::Path;
use std::process::Stdio;

/// The number of sheets that a browser prints a page on.
pub(crate) fn sheets(browser: &Path, html: &str) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("page.html"), html).unwrap();
    let child = alone(browser, folder.path())
        .arg("--no-pdf-header-footer")
        .arg(format!("--print-to-pdf={}", at("page.pdf").display()))
        .arg(format!("file://{}", at("page.html").display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait(child);
    let printed = std::fs::read(at("page.pdf")).unwrap();
    // The browser compresses streams alone, so that the objects of pages are plain text.
    let pages = printed.split(|byte| *byte == b'\n').filter(|line| line.ends_with(b"/Type /Page")).count();
    assert!(pages > 0, "no page object in {} bytes of PDF", printed.len());
    pages
}
