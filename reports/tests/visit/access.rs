//! Pages without barriers: axe-core finds nothing serious in any kind of page, in light and dark colours, wide and narrow.
//!
//! axe-core is the file that `$BAKEOFF_AXE` names; `cargo xtask test` brings it. Without it the tests say that they did not run, and with
//! `BAKEOFF_REQUIRE_ALL=1` they fail.

use super::visit::{alone, browser, wait};
use reports::sample::{GridAxis, Sample, SampleArm, Straggler, decided, on_grid, timelines};
use reports::{Card, Options, SiteLinks, page, site_index};
use std::path::Path;
use std::process::Stdio;
use store::{Commit, RunState, SweepRows};

/// The text of axe-core; none where there is none, and that may be.
fn axe() -> Option<String> {
    let Some(path) = std::env::var_os("BAKEOFF_AXE") else {
        let required = std::env::var("BAKEOFF_REQUIRE_ALL").is_ok_and(|value| value == "1");
        assert!(
            !required,
            "no axe-core: name its file in BAKEOFF_AXE, or run `cargo xtask test`, which brings it"
        );
        println!("not run: no axe-core in BAKEOFF_AXE");
        return None;
    };
    Some(
        std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}", Path::new(&path).display())),
    )
}

/// How a page is looked at.
#[derive(Clone, Copy)]
struct Look {
    /// Fragment that follows the page's name in the address.
    address: &'static str,
    /// Width of the page's frame, in pixels.
    width: u32,
    /// Whether everything is unfolded.
    unfolded: bool,
}

/// Both colours and both widths, with everything unfolded.
const LOOKS: [Look; 2] = [
    Look { address: "#theme=light", width: 1280, unfolded: true },
    Look { address: "#theme=dark", width: 400, unfolded: true },
];

/// Leaves twenty rows of each kind in a table, which are more than it shows at once: the other thousands differ in their numbers only. Hidden rows do not count.
const FEW_ROWS: &str = "[...document.querySelectorAll('tbody')].map((body) => [...body.rows].filter((row) => row.checkVisibility())) \
                        .forEach((rows) => { const seen = {}; rows.forEach((row) => { \
                        const parts = [row, ...row.querySelectorAll('*')]; \
                        const kind = parts.map((part) => [part.tagName, part.getAttribute('class'), part.getAttribute('style')].join()).join(); \
                        seen[kind] = (seen[kind] ?? 0) + 1; if (seen[kind] > 20) row.remove(); }); });";

/// Leaves twenty marks of each kind in all figures of a page: the others differ in their positions only. A kind is the names, attributes and looks of a mark
/// and of all that it is in, and the names of its own parts. What a figure is called stays.
const FEW_MARKS: &str = "const kinds = new Map(); const kindOf = (part) => { if (!part) return ''; if (!kinds.has(part)) \
                         kinds.set(part, kindOf(part.parentElement) + part.tagName + part.getAttributeNames().join() + \
                         ['class', 'style', 'fill', 'role'].map((name) => part.getAttribute(name)).join()); return kinds.get(part); }; \
                         const drawn = {}; [...document.querySelectorAll('svg :not(defs, defs *, svg > title, svg > desc)')] \
                         .map((mark) => [mark, kindOf(mark) + [...mark.children].map((part) => part.tagName).join()]).reverse() \
                         .forEach(([mark, kind]) => { drawn[kind] = (drawn[kind] ?? 0) + 1; \
                         if (drawn[kind] > 20 && !mark.childElementCount) mark.remove(); });";

/// Twenty visible texts of each colour, size and weight on each background. Their contrast takes axe-core three milliseconds each, and there are tens of
/// thousands.
const FEW_TEXTS: &str = "const grounds = new Map(); const groundOf = (part) => { if (!part) return ''; if (!grounds.has(part)) { \
                         const { backgroundColor, backgroundImage, opacity } = getComputedStyle(part); \
                         const own = [backgroundColor, backgroundImage, opacity].join(); \
                         grounds.set(part, groundOf(part.parentElement) + (own === 'rgba(0, 0, 0, 0),none,1' ? '' : own)); } \
                         return grounds.get(part); }; \
                         const written = {}; const texts = [...document.body.querySelectorAll(':not(script, style)')] \
                         .filter((part) => [...part.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim())) \
                         .filter((part) => part.checkVisibility()).filter((part) => { \
                         const { color, fill, fontSize, fontWeight } = getComputedStyle(part); \
                         const kind = [groundOf(part), color, fill, fontSize, fontWeight].join(); \
                         written[kind] = (written[kind] ?? 0) + 1; return written[kind] <= 20; });";

/// Looks for everything, and for contrast among these texts only.
const RUN: &str = "setTimeout(async () => { try { const resultTypes = ['violations']; \
                   const most = await axe.run(document, { resultTypes, rules: { 'color-contrast': { enabled: false } } }); \
                   const contrast = await axe.run({ include: texts }, { resultTypes, runOnly: ['color-contrast'] }); \
                   const found = [...most.violations, ...contrast.violations] \
                   .filter(({ impact }) => impact === 'serious' || impact === 'critical') \
                   .flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.target.join(' ')}: ${node.failureSummary}`)); \
                   parent.postMessage(found, '*'); } catch (error) { parent.postMessage([String(error)], '*'); } }, 200);";

/// Serious and critical findings of axe-core. A window has at least 500 pixels, so that the page is in a frame of the
/// look's width.
fn findings(browser: &Path, axe: &str, html: &str, look: Look) -> Vec<String> {
    let Look { address, width, unfolded } = look;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let unfold = if unfolded {
        "document.querySelectorAll('details').forEach((fold) => { fold.open = true; });"
    } else {
        ""
    };
    let inside = html.replace(
        "</body>",
        &format!("<script>{axe}</script><script>{{ {unfold}{FEW_ROWS}{FEW_MARKS}{FEW_TEXTS}{RUN} }}</script></body>"),
    );
    let outside = format!(
        "<!doctype html><title>x</title><iframe src=\"page.html{address}\" style=\"width: {width}px; height: 900px\"></iframe> \
         <script>addEventListener('message', ({{ data }}) => {{ const place = document.createElement('pre'); \
         place.id = 'found'; place.textContent = JSON.stringify(data); document.body.append(place); }});</script>"
    );
    std::fs::write(at("page.html"), inside).unwrap();
    std::fs::write(at("frame.html"), outside).unwrap();
    let child = alone(browser, folder.path())
        .args(["--window-size=1400,1000", "--virtual-time-budget=20000", "--dump-dom"])
        .arg(format!("file://{}", at("frame.html").display()))
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(at("document")).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait(child);
    let document = std::fs::read_to_string(at("document")).unwrap();
    let found = document.split_once("<pre id=\"found\">").unwrap_or_else(|| panic!("axe-core did not end"));
    let found = found.1.split("</pre>").next().unwrap();
    serde_json::from_str(&found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")).unwrap()
}

fn assert_open(html: &str) {
    let Some((browser, axe)) = browser().zip(axe()) else { return };
    for look in LOOKS {
        let found = findings(&browser, &axe, html, look);
        assert!(
            found.is_empty(),
            "{}, {} px, {} findings:\n{}",
            look.address,
            look.width,
            found.len(),
            found.join("\n")
        );
    }
}

fn assert_page_open(rows: &SweepRows) {
    assert_open(&page(rows, &timelines(rows), &Options::default()).unwrap().html);
}

#[test]
fn what_is_a_barrier_is_found() {
    let Some((browser, axe)) = browser().zip(axe()) else { return };
    let found = |body: &str| {
        let html = format!(
            "<!doctype html><html lang=\"en\"><head><title>x</title></head><body><main>{body}</main></body></html>"
        );
        findings(&browser, &axe, &html, LOOKS[0])
    };
    assert_eq!(found("<h1>x</h1>"), Vec::<String>::new());
    for (body, rule) in [
        ("<p style=\"color: #aaa; background: #fff\">pale</p>", "color-contrast"),
        ("<input type=\"text\">", "label"),
        (
            "<div style=\"width: 90px; overflow-x: scroll\"><p style=\"white-space: nowrap\">wider than there is room for</p></div>",
            "scrollable-region-focusable",
        ),
    ] {
        let found = found(body);
        assert!(found.len() == 1 && found[0].starts_with(rule), "{rule}: {found:?}");
    }
    let row = |style: &str| format!("<tr><td style=\"{style}\">0.5</td></tr>");
    let pale = row("color: #aaa; background: #fff");
    let table = format!("<table>{}{pale}</table>", row("").repeat(50));
    assert_eq!(found(&table).len(), 1, "the last row of a long table is of another kind");
    assert_eq!(found(&format!("<table>{}</table>", pale.repeat(50))).len(), 20);
    let pale =
        |hidden: &str| format!("<p style=\"color: #aaa; background: #fff\"{hidden}>pale</p>").repeat(50);
    assert_eq!(found(&format!("{}{}", pale(" hidden"), pale(""))).len(), 20);
    let by_place = "<style>#pale { color: #aaa }</style><div id=\"pale\"><p>pale</p></div>";
    assert_eq!(found(&format!("{by_place}{}", "<p>dark</p>".repeat(50))).len(), 1);
    let link = |name: &str| format!("<g><a href=\"#x\"><rect width=\"30\" height=\"30\"/>{name}</a></g>");
    let nameless = |marks: &str| {
        let found = found(&format!("<svg>{marks}<title>x</title></svg>"));
        assert!(found.iter().all(|found| found.starts_with("link-name")), "{found:?}");
        found.len()
    };
    assert_eq!(nameless(&link("").repeat(50)), 20);
    assert_eq!(nameless(&format!("{}{}", link(""), link("<title>y</title>").repeat(50))), 1);
}

#[test]
fn a_page_of_two_arms_has_no_barriers() {
    assert_page_open(&Sample { repeats: 3, ..Sample::duel() }.rows());
}

#[test]
fn a_page_of_which_a_part_is_hidden_has_no_barriers() {
    let Some((browser, axe)) = browser().zip(axe()) else { return };
    let rows = Sample { repeats: 2, ..Sample::duel() }.rows();
    let html = page(&rows, &timelines(&rows), &Options::default()).unwrap().html;
    for address in ["#arms=-d-sync&theme=light", "#arms=-d-sync&theme=dark"] {
        let look = Look { address, width: 1280, unfolded: false };
        assert_eq!(findings(&browser, &axe, &html, look), Vec::<String>::new(), "{address}");
    }
}

#[test]
fn a_page_of_trouble_has_no_barriers() {
    let mut sample = Sample { repeats: 5, ..Sample::held_up() };
    sample.arms.push(SampleArm { name: "third".to_owned(), ceiling: 0.962, ..sample.arms[1].clone() });
    sample.straggler = Straggler { rank: record::Rank(1), compute: 3.0, link: 10.0 };
    let mut rows = sample.rows();
    rows.commit = Some(Commit { hash: "3618d28f0c1e2a4b5968".to_owned(), is_changed: true });
    for (place, state) in
        [(3, RunState::Failed), (9, RunState::Diverged), (11, RunState::TimedOut), (14, RunState::Pending)]
    {
        let run = &mut rows.runs[place];
        run.state = state;
        if let Some(attempt) = &mut run.attempt {
            attempt.detail.push_str("rank 2 ended without a word");
            attempt.last_lines.extend(["INFO step 30", "killed by signal 9"].map(str::to_owned));
        }
    }
    assert_page_open(&rows);
}

#[test]
fn a_page_of_many_conditions_has_no_barriers() {
    let axes = [
        GridAxis::new("nodes.workers", &[2.0, 8.0]),
        GridAxis::new("model.parameters", &[1e4, 1e7]),
        GridAxis::new("network.latency", &[0.0, 0.01]),
    ];
    let one = Sample { repeats: 2, epochs: (2, 2), workers: vec![2], ..Sample::duel() }.rows();
    assert_page_open(&on_grid(&one, &axes, |arm, at| 5e-3 + at[1] * 1e-9 + arm as f64 * at[2]));
}

#[test]
fn a_page_of_one_axis_has_no_barriers() {
    let one = Sample { repeats: 2, epochs: (2, 2), workers: vec![2], ..Sample::duel() }.rows();
    let workers = [GridAxis::new("nodes.workers", &[2.0, 4.0, 8.0])];
    assert_page_open(&on_grid(&one, &workers, |arm, at| 5e-3 + at[0] * 1e-3 * (1.0 + arm as f64)));
}

#[test]
fn a_page_of_many_arms_has_no_barriers() {
    let mut sample = Sample { repeats: 2, workers: vec![4], epochs: (2, 2), ..Sample::duel() };
    for number in 2..12 {
        let name = format!("d-sync compression.kind=top-k density=0.{number:02} feedback=on");
        sample.arms.push(SampleArm { name, ..sample.arms[1].clone() });
    }
    assert_page_open(&sample.rows());
}

#[test]
fn a_page_of_a_search_has_no_barriers() {
    let score = |arm: usize, rate: f64, rung: u32| {
        0.9 - (rate - 0.2 - arm as f64).abs() / 50.0 + f64::from(rung) / 50.0
    };
    assert_page_open(&decided(&[0.1, 0.2, 0.4, 0.8], 2, score));
}

#[test]
fn the_index_of_a_site_has_no_barriers() {
    let card = |name: &str| {
        let mut rows = Sample { repeats: 2, ..Sample::duel() }.rows();
        rows.id = format!("{name:0>26}");
        let at = |end: &str| format!("{name}{end}");
        let links = SiteLinks { page: at(".html"), runs: at("-runs.csv"), verdicts: at("-verdicts.csv") };
        Card::of(&rows, links).unwrap()
    };
    assert_open(&site_index(&["one", "two"].map(card), "bakeoff 0.1.0").unwrap());
}
