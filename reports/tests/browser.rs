//! Opens pages in a real browser: nothing on the console, no request.
//!
//! The browser is `$BAKEOFF_CHROMIUM`, else the first of some names on the path. Where there is none the tests
//! say that they did not run; with `BAKEOFF_REQUIRE_ALL=1` they fail instead.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may stop where it stands, and says when it did not run"
)]

#[path = "visit/access.rs"]
mod access;
#[path = "visit/arms_and_address.rs"]
mod arms_and_address;
#[path = "visit/print.rs"]
mod print;
mod visit;

use print::sheets;
use reports::sample::{Sample, timelines};
use reports::{Options, page};
use store::RunState;
use visit::{browser, visit};

fn assert_silent(html: &str) {
    let Some(browser) = browser() else { return };
    let visit = visit(&browser, html);
    assert_eq!(visit.console, Vec::<String>::new());
    assert_eq!(visit.requests, Vec::<String>::new());
    assert!(visit.document.contains("<section id=\"reproduce\">"), "the page was not opened");
    assert!(visit.document.contains("aria-pressed=\"true\""), "the page's script did not run");
}

#[test]
fn a_full_page_is_silent() {
    let rows = Sample { workers: vec![2, 4], ..Sample::duel() }.rows();
    assert_silent(&page(&rows, &timelines(&rows), &Options::default()).unwrap().html);
}

#[test]
fn a_page_is_no_wider_than_its_window() {
    let Some(browser) = browser() else { return };
    let rows = Sample { workers: vec![2, 4], ..Sample::held_up() }.rows();
    let html = page(&rows, &timelines(&rows), &Options::default()).unwrap().html;
    let measure = "<script>{const all = document.documentElement; \
                   all.dataset.beyond = all.scrollWidth - all.clientWidth;}</script></body>";
    let visit = visit(&browser, &html.replace("</body>", measure));
    assert!(
        visit.document.contains("data-beyond=\"0\""),
        "{}",
        visit.document.chars().take(300).collect::<String>()
    );
}

#[test]
fn a_page_of_two_arms_is_printed_on_four_sheets() {
    let Some(browser) = browser() else { return };
    let rows = Sample::duel().rows();
    let html = page(&rows, &timelines(&rows), &Options::default()).unwrap().html;
    let printed = sheets(&browser, &html);
    assert!(printed <= 4, "{printed} sheets");
    // Sheets are counted: a page and a forced break take one more.
    let broken = html.replace("</body>", "<p style=\"break-before: page\">one more</p></body>");
    assert_eq!(sheets(&browser, &broken), printed + 1);
}

#[test]
fn a_hostile_page_is_silent() {
    let attack = "<img src=\"http://127.0.0.1:9/x.png\"><script>console.error('x')</script>";
    let mut rows = Sample::duel().rows();
    rows.plan.question = attack.to_owned();
    rows.plan.arms[0].name = attack.to_owned();
    rows.runs[0].state = RunState::Failed;
    rows.runs[0].attempt.as_mut().unwrap().last_lines = vec![format!("</pre>{attack}")];
    assert_silent(&page(&rows, &timelines(&rows), &Options::default()).unwrap().html);
}

#[test]
fn the_browser_reports_errors_and_requests() {
    let Some(browser) = browser() else { return };
    let loud = visit(&browser, "<!doctype html><title>x</title><script>throw new Error('thrown')</script>");
    assert!(loud.console.iter().any(|line| line.contains("thrown")), "{loud:?}");
    let asking = visit(&browser, "<!doctype html><title>x</title><img src=\"http://127.0.0.1:9/x.png\">");
    assert_eq!(asking.requests, ["http://127.0.0.1:9/x.png"]);
}

#[test]
fn the_policy_stops_what_a_page_should_not_hold() {
    let Some(browser) = browser() else { return };
    let rows = Sample::duel().rows();
    let html = page(&rows, &timelines(&rows), &Options::default()).unwrap().html;
    let spoiled = html.replace("</main>", "<img src=\"http://127.0.0.1:9/x.png\"></main>");
    assert_ne!(spoiled, html);
    let visit = visit(&browser, &spoiled);
    assert_eq!(visit.requests, Vec::<String>::new());
    assert!(visit.console.iter().any(|line| line.contains("Content Security Policy")), "{visit:?}");
}

#[test]
fn a_table_is_shown_as_csv_where_the_clipboard_is_out_of_reach() {
    let Some(browser) = browser() else { return };
    let rows = Sample { repeats: 2, ..Sample::duel() }.rows();
    let html = page(&rows, &timelines(&rows), &Options::default()).unwrap().html;
    let press = "<script>Object.defineProperty(navigator, 'clipboard', { value: undefined }); \
                 document.querySelector('#reproduce .copy button').click();</script></body>";
    let visit = visit(&browser, &html.replace("</body>", press));
    assert!(
        visit.document.contains(
            "<pre>node,host,system,processor,cores,memory\nlocal,workbench,Linux 6.8.0,AMD EPYC 7763,64,64.0 GiB\n</pre>"
        ),
        "no CSV in the document"
    );
    assert_eq!(visit.console, Vec::<String>::new());
}

#[test]
fn a_table_is_copied_with_the_rules_of_booktabs() {
    let Some(browser) = browser() else { return };
    let mut rows = Sample { repeats: 2, ..Sample::duel() }.rows();
    rows.nodes[0].host = "a_b & 5% ~1".to_owned();
    let html = page(&rows, &timelines(&rows), &Options::default()).unwrap().html;
    let press = "<script>Object.defineProperty(navigator, 'clipboard', { value: undefined }); \
                 document.querySelectorAll('#reproduce .copy button')[1].click();</script></body>";
    let visit = visit(&browser, &html.replace("</body>", press));
    let wanted = "<pre>\\begin{tabular}{llllll}\n\\toprule\nnode &amp; host &amp; system &amp; processor &amp; cores &amp; memory \\\\\n\
                  \\midrule\nlocal &amp; a\\_b \\&amp; 5\\% \\textasciitilde{}1 &amp; Linux 6.8.0 &amp; AMD EPYC 7763 &amp; 64 &amp; 64.0 GiB \\\\\n\
                  \\bottomrule\n\\end{tabular}\n</pre>";
    assert!(visit.document.contains(wanted), "no LaTeX in the document");
    assert_eq!(visit.console, Vec::<String>::new());
}

/// Each chart, saved and opened by itself in a browser that prefers dark colours, has no rule of the page left to take from it.
#[test]
fn a_chart_is_saved_with_everything_that_it_takes_from_the_page() {
    let Some(browser) = browser() else { return };
    let rows = Sample { workers: vec![2, 4], repeats: 3, ..Sample::duel() }.rows();
    let html = page(&rows, &timelines(&rows), &Options::default()).unwrap().html;
    let save = "<script>const place = document.createElement('pre'); place.id = 'saved'; \
                place.textContent = [...document.querySelectorAll('svg.chart, svg.map, svg.matrix')].map(drawing).join('\\n----\\n'); \
                document.body.append(place); \
                place.dataset.buttons = document.querySelectorAll('.copy button').length;</script></body>";
    let visit = visit(&browser, &html.replace("</body>", save));
    assert_eq!(visit.console, Vec::<String>::new());
    let (_, saved) = visit.document.split_once("<pre id=\"saved\"").unwrap();
    let saved = saved.split_once('>').unwrap().1.split("</pre>").next().unwrap();
    let saved = saved.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let charts: Vec<&str> = saved.split("\n----\n").collect();
    assert!(charts.len() >= 8, "{}", charts.len());
    for chart in charts {
        let head = chart.split('>').next().unwrap();
        assert!(
            head.starts_with("<svg ") && head.matches("xmlns=\"http://www.w3.org/2000/svg\"").count() == 1,
            "{head}"
        );
        assert!(
            !chart.contains("class=\"") && !chart.contains("var(") && !chart.contains("light-dark"),
            "{chart}"
        );
        let ids: Vec<&str> =
            chart.split("id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        for used in chart.split("href=\"#").skip(1).chain(chart.split("url(#").skip(1)) {
            let name = used.split(['"', ')']).next().unwrap();
            assert!(ids.contains(&name), "`{name}` is not in the file");
        }
    }
}
