//! Checks that hold for every page.

use reports::sample::{Sample, timelines};
use reports::{Options, Timelines, page};
use std::collections::BTreeSet;
use store::SweepRows;

const SECTIONS: [&str; 6] = ["phases", "timeline", "communication", "failures", "method", "reproduce"];

pub(crate) fn html(rows: &SweepRows) -> String {
    page(rows, &timelines(rows), &Options::default()).unwrap().html
}

/// Sections of a page on its conditions: one for each kind, or one for all of them.
const OF_CONDITIONS: [&[&str]; 2] = [&["verdicts", "scoreboard", "accuracy"], &["conditions"]];

/// Checks what holds for every page, and hands it on.
pub(crate) fn checked(rows: &SweepRows) -> String {
    checked_with(rows, &timelines(rows))
}

pub(crate) fn checked_with(rows: &SweepRows, spans: &Timelines) -> String {
    let html = page(rows, spans, &Options::default()).unwrap().html;
    let has = |section: &str| html.contains(&format!("<section id=\"{section}\">"));
    for section in SECTIONS {
        assert!(has(section), "no section {section}");
    }
    let found = OF_CONDITIONS.map(|sections| sections.iter().filter(|section| has(section)).count());
    assert!(found == [3, 0] || found == [0, 1], "{found:?}");
    assert_well_formed(&html);
    assert_unique_ids(&html);
    assert_loads_nothing(&html);
    for word in ["undefined", "null", "Some(", "inf<", "NaN,"] {
        assert!(!visible(&html).contains(word), "{word} in the page");
    }
    html
}

/// The text outside of tags, scripts and styles.
fn visible(html: &str) -> String {
    let mut text = String::new();
    let mut skip = false;
    for piece in html.split('<').skip(1) {
        let (tag, rest) = piece.split_once('>').unwrap_or((piece, ""));
        skip = match tag.split_whitespace().next() {
            Some("script" | "style") => true,
            Some("/script" | "/style") => false,
            _ => skip,
        };
        if !skip {
            text.push_str(rest);
        }
    }
    text
}

/// Every tag that is opened is closed, in order; void elements and closed ones aside.
fn assert_well_formed(html: &str) {
    const VOID: [&str; 4] = ["meta", "link", "input", "br"];
    let mut open: Vec<String> = Vec::new();
    let mut raw: Option<&str> = None;
    for piece in html.split('<').skip(1) {
        let (tag, _) = piece.split_once('>').unwrap_or_else(|| panic!("a tag without an end: {piece}"));
        let name = tag.trim_end_matches('/').split_whitespace().next().unwrap_or_default().to_owned();
        if let Some(element) = raw {
            if name != format!("/{element}") {
                continue;
            }
            raw = None;
        }
        if let Some(closed) = name.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(closed), "closed out of order near <{tag}>");
        } else if !name.starts_with('!') && !tag.ends_with('/') && !VOID.contains(&name.as_str()) {
            raw = ["script", "style"].into_iter().find(|element| *element == name);
            open.push(name);
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "odd quotes in <{tag}>");
    }
    assert_eq!(open, Vec::<String>::new(), "left open");
}

pub(crate) fn attributes<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!(" {name}=\"");
    html.split(&start).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

fn assert_unique_ids(html: &str) {
    let ids = attributes(html, "id");
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), unique.len(), "an id occurs twice");
    for reference in attributes(html, "aria-labelledby").iter().flat_map(|ids| ids.split(' ')) {
        assert!(unique.contains(reference), "nothing has the id {reference}");
    }
    for reference in attributes(html, "href").iter().filter_map(|href| href.strip_prefix('#')) {
        assert!(unique.contains(reference), "nothing has the id {reference}");
    }
}

/// No attribute, style or script of the page can load anything.
fn assert_loads_nothing(html: &str) {
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";
    assert!(html.contains(&format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">")));
    for name in ["src", "srcset", "poster", "action", "formaction", "background", "xlink:href", "ping"] {
        assert_eq!(attributes(html, name), Vec::<&str>::new(), "attribute {name}");
    }
    for href in attributes(html, "href") {
        assert!(href.starts_with('#') || href.starts_with("data:"), "a link to {href}");
    }
    for url in html.split("url(").skip(1) {
        assert!(url.starts_with('#'), "url({}", &url[..20.min(url.len())]);
    }
    for word in [
        "@import",
        "fetch(",
        "XMLHttpRequest",
        "import(",
        "WebSocket",
        "<iframe",
        "<object",
        "<embed",
        "<base",
    ] {
        assert!(!html.contains(word), "{word}");
    }
}

/// Changes the rows of a duel and checks the page.
pub(crate) fn changed(change: impl FnOnce(&mut SweepRows)) -> String {
    let mut rows = Sample::duel().rows();
    change(&mut rows);
    checked(&rows)
}
