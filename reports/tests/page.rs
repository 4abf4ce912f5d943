//! Pages of ordinary and of broken sweeps: complete, escaped, self-contained, well-formed, small, repeatable.

#![expect(clippy::unwrap_used, reason = "a test may stop where it stands")]

use record::Rank;
use reports::sample::{Sample, timelines};
use reports::{Options, Timelines, arm_tables, page, verdicts};
use std::collections::BTreeSet;
use store::{AveragingRow, RunState, StalenessRow, SweepRows};

const SECTIONS: [&str; 9] = [
    "verdicts",
    "scoreboard",
    "accuracy",
    "phases",
    "timeline",
    "communication",
    "failures",
    "method",
    "reproduce",
];

fn html(rows: &SweepRows) -> String {
    page(rows, &timelines(rows), &Options::default()).unwrap().html
}

/// Checks what holds for every page, and hands it on.
fn checked(rows: &SweepRows) -> String {
    checked_with(rows, &timelines(rows))
}

fn checked_with(rows: &SweepRows, spans: &Timelines) -> String {
    let html = page(rows, spans, &Options::default()).unwrap().html;
    for section in SECTIONS {
        assert!(html.contains(&format!("<section id=\"{section}\">")), "no section {section}");
    }
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

fn attributes<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
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

#[test]
fn a_duel_says_all_there_is() {
    let page = checked(&Sample::duel().rows());
    for words in [
        "Is an all-reduce faster than a parameter server on one host?",
        "sooner than ps-sync",
        "all ranks end with the same bits",
        "ps-sync and d-sync ended with the same weights, bit for bit, for each of 5 seeds",
        "waiting for a peer that has not begun to send",
        "bakeoff run recipes",
        "The longest step (step 300",
        "exposed communication",
    ] {
        assert!(page.contains(words), "the page does not say: {words}");
    }
}

#[test]
fn every_chart_has_words_and_a_table() {
    let page = checked(&Sample::duel().rows());
    let charts = page.matches("role=\"img\"").count() - page.matches("role=\"img\" aria-label=").count();
    assert!(charts >= 10, "{charts}");
    assert_eq!(page.matches("<desc id=").count(), charts);
    // The three axes of the metric share one table, so do the two of the loss; the tests behind the grades have one.
    assert_eq!(page.matches("class=\"numbers\"").count(), charts - 2 - 1 + 1);
}

#[test]
fn the_same_rows_give_the_same_bytes() {
    let rows = Sample::duel().rows();
    assert_eq!(html(&rows), html(&rows));
}

#[test]
fn user_text_is_always_text() {
    let attack = "<script>alert('x')</script><img src=x onerror=\"alert(1)\">&amp;{{ 7 * 7 }}";
    let mut rows = Sample::duel().rows();
    rows.plan.name = attack.to_owned();
    rows.plan.question = attack.to_owned();
    rows.plan.source = attack.to_owned();
    rows.plan.expanded = attack.to_owned();
    rows.plan.arms[1].name = attack.to_owned();
    rows.plan.cells[1].label = attack.to_owned();
    rows.plan.cells.iter_mut().for_each(|cell| cell.condition = attack.to_owned());
    rows.argv = vec![attack.to_owned()];
    rows.recipe_path = attack.to_owned();
    rows.commit = Some((attack.to_owned(), true));
    rows.nodes[0].host = attack.to_owned();
    rows.runs[0].id = attack.to_owned();
    rows.runs[1].state = RunState::Failed;
    let attempt = rows.runs[1].attempt.as_mut().unwrap();
    attempt.detail = attack.to_owned();
    attempt.last_lines = vec![attack.to_owned(), "</pre></style></script>".to_owned()];
    rows.runs[2].attempt.as_mut().unwrap().weights = Some(Err(vec![attack.to_owned()]));
    let page = checked(&rows);
    assert_eq!(page.matches("<script>").count(), 1);
    assert!(
        !page.contains("<img") && page.contains("{{ 7 * 7 }}"),
        "markup or an expression of a user came to life"
    );
    assert!(page.contains("&lt;script&gt;alert"));
}

/// Changes the rows of a duel and checks the page.
fn changed(change: impl FnOnce(&mut SweepRows)) -> String {
    let mut rows = Sample::duel().rows();
    change(&mut rows);
    checked(&rows)
}

fn without_runs(rows: &mut SweepRows) {
    rows.runs.clear();
    rows.plan.runs.clear();
}

#[test]
fn sweeps_without_results() {
    let page = changed(without_runs);
    assert!(page.contains("No run has finished yet"));
    changed(|rows| {
        without_runs(rows);
        rows.plan.cells.clear();
        rows.plan.arms.clear();
        rows.nodes.clear();
    });
    let page = changed(|rows| {
        for (place, run) in rows.runs.iter_mut().enumerate() {
            run.state = if place == 0 { RunState::Running } else { RunState::Pending };
            run.attempt = None;
        }
    });
    assert!(page.contains("9 runs are not begun yet, 1 marked as under way."));
    assert!(page.contains("10 runs not finished"));
}

#[test]
fn small_sweeps() {
    let one =
        Sample { arms: Sample::duel().arms[..1].to_vec(), repeats: 1, workers: vec![1], ..Sample::duel() };
    let page = checked(&one.rows());
    assert!(page.contains("one arm at a time"));
    let arm = Sample { arms: Sample::duel().arms[1..].to_vec(), ..Sample::duel() };
    checked(&arm.rows());
    let pair = Sample { repeats: 3, ..Sample::duel() };
    assert!(
        !verdicts(&pair.rows(), &Options::default())
            .unwrap()
            .iter()
            .any(|v| v.grade == Some(reports::Grade::Clear))
    );
    checked(&pair.rows());
}

#[test]
fn diverged_and_nan() {
    let page = changed(|rows| {
        for run in &mut rows.runs {
            run.state = RunState::Diverged;
            let attempt = run.attempt.as_mut().unwrap();
            attempt.detail = "loss became NaN in step 17".to_owned();
            attempt.metrics.iter_mut().for_each(|row| row.value = f64::NAN);
            attempt.losses.iter_mut().for_each(|row| row.loss = f64::INFINITY);
        }
    });
    assert!(page.contains("10 diverged") && page.contains("loss became NaN in step 17"));
    changed(|rows| rows.runs[3].attempt.as_mut().unwrap().metrics[4].value = f64::NAN);
    changed(|rows| rows.runs.iter_mut().for_each(|run| run.attempt.as_mut().unwrap().losses.clear()));
    changed(|rows| rows.runs.iter_mut().for_each(|run| run.attempt.as_mut().unwrap().metrics.clear()));
}

#[test]
fn attempts_that_recorded_little() {
    changed(|rows| {
        for run in &mut rows.runs {
            let attempt = run.attempt.as_mut().unwrap();
            (attempt.training, attempt.step_time, attempt.wall, attempt.weights) = (None, None, None, None);
            (attempt.steps, attempt.samples) = (0, 0);
            attempt.ranks.clear();
            attempt.links.clear();
        }
    });
    let rows = Sample::duel().rows();
    let page = page(&rows, &Timelines::new(), &Options::default()).unwrap().html;
    assert!(page.contains("2 runs kept no spans"));
}

#[test]
fn failures_are_listed_with_rank_and_log() {
    let page = changed(|rows| {
        let run = &mut rows.runs[1];
        run.state = RunState::Failed;
        let attempt = run.attempt.as_mut().unwrap();
        attempt.detail = "rank 2 ended without a word in step 31".to_owned();
        attempt.culprit = Some(Rank(2));
        attempt.last_lines = vec!["step 30".to_owned(), "killed by signal 9".to_owned()];
        rows.plan.cells[0].excluded = Some("too slow to wait for".to_owned());
    });
    for words in [
        "rank 2 ended without a word",
        "killed by signal 9",
        "left out of all statistics",
        "too slow to wait for",
    ] {
        assert!(page.contains(words), "the page does not say: {words}");
    }
}

#[test]
fn a_degraded_run_is_marked_listed_and_left_out() {
    let whole = Sample::duel().rows();
    let mut rows = whole.clone();
    let run = &mut rows.runs[1];
    run.state = RunState::Degraded;
    let attempt = run.attempt.as_mut().unwrap();
    attempt.detail = "rank 2 was ended by signal 9; the run went on without it".to_owned();
    attempt.culprit = Some(record::Rank(2));
    attempt.last_lines = vec!["step 30".to_owned()];
    let reason = "rank 2 was ended by signal 9".to_owned();
    attempt.lost = vec![store::LostRow { rank: record::Rank(2), step: 31, at: record::Nanos(1), reason }];
    let page = checked(&rows);
    for words in [
        "<b>degraded</b> 1 run went on without a lost rank, and left out",
        "<span class=\"grade degraded\">degraded</span>",
        "rank 2 was ended by signal 9; the run went on without it",
        "<dt>rank</dt><dd>2</dd>",
        "<pre>step 30</pre>",
        "left out of all statistics: without that rank it was a run of fewer workers",
        "So is a degraded one, which lost a worker and went on",
    ] {
        assert!(page.contains(words), "the page does not say: {words}");
    }
    assert!(!checked(&whole).contains("<b>degraded</b>"));
    // Its numbers, however wild, move nothing.
    let judged = |rows: &SweepRows| verdicts(rows, &Options::default()).unwrap();
    let before = judged(&rows);
    rows.runs[1].attempt.as_mut().unwrap().metrics.iter_mut().for_each(|row| row.at = record::Nanos(1));
    assert_eq!(judged(&rows), before);
    assert_ne!(judged(&rows), judged(&whole));
}

#[test]
fn sixty_four_workers() {
    let page = checked(&Sample { workers: vec![64], repeats: 2, ..Sample::duel() }.rows());
    assert!(page.contains("the first 16 of 64 lanes"));
    assert!(page.len() < 1 << 20, "{} bytes", page.len());
}

#[test]
fn several_conditions_and_no_target() {
    let page = checked(&Sample { workers: vec![2, 4], ..Sample::duel() }.rows());
    assert!(page.contains("workers=2") && page.contains("clearly faster than ps-sync in 2 of 2 conditions"));
    let page = checked(&Sample { target: None, ..Sample::duel() }.rows());
    assert!(page.contains("faster than ps-sync") && page.contains("The recipe names no target"));
}

/// The duel with a server that takes gradients as they come, and workers that ask each other for averages.
fn at_their_own_pace(rows: &mut SweepRows) {
    for cell in rows.plan.cells.iter_mut().filter(|cell| cell.arm == 0) {
        cell.spec.strategy = recipe::Strategy::AsyncSgd { staleness_bound: None };
    }
    for run in &mut rows.runs {
        let attempt = run.attempt.as_mut().unwrap();
        if run.cell == 0 {
            let (server, counts) = (Rank(4), [5, 10, 60, 20, 4, 0, 0, 0, 0, 0, 0, 1]);
            attempt.staleness = (0..4)
                .flat_map(|worker| {
                    (0..).zip(counts).map(move |(staleness, count)| (worker, staleness, count))
                })
                .filter(|(.., count)| *count > 0)
                .map(|(worker, staleness, count)| StalenessRow {
                    server,
                    worker: Rank(worker),
                    staleness,
                    count,
                })
                .collect();
            attempt.weights = Some(Err(vec!["0: a".to_owned(), "4: b".to_owned()]));
        } else {
            let asked = |rank| AveragingRow { rank: Rank(rank), peer: Rank((rank + 1) % 4), count: 7 };
            attempt.averagings = (0..4).map(asked).collect();
        }
    }
}

#[test]
fn staleness_and_pairs_are_shown_where_there_are_any() {
    let plain = checked(&Sample::duel().rows());
    for words in ["id=\"staleness\"", "#staleness", "Staleness", "staleness.csv"] {
        assert!(!plain.contains(words), "{words}");
    }
    let page = changed(at_their_own_pace);
    for words in [
        "2000 gradients of 5 runs: mean 2.17, 95 % at most 3, largest 11.",
        "ps-sync, staleness 2: 1200 gradients, 60.0\u{a0}%",
        "ps-sync, staleness 5 or more: 20 gradients, 1.00\u{a0}%",
        "<td>rank 3</td><td>rank 4</td><td>500</td><td>25.0\u{a0}%</td><td>2.17</td><td>2</td><td>3</td><td>11</td>",
        "rank 3 asked rank 0: 7 averagings",
        "all ranks end with the same bits; not applicable to ps-sync",
        "<td>not applicable</td>",
        "-staleness.csv",
        "-averagings.csv",
    ] {
        assert!(page.contains(words), "the page does not say: {words}");
    }
    assert!(!page.contains("different weights"));
}

#[test]
fn ranks_that_must_agree_and_do_not_are_a_reason_for_doubt() {
    let apart = |rows: &mut SweepRows| {
        rows.runs[1].attempt.as_mut().unwrap().weights =
            Some(Err(vec!["0: a".to_owned(), "1: b".to_owned()]));
    };
    assert!(changed(apart).contains("ranks end with different weights in 1 run"));
    let diverged = |rows: &mut SweepRows| {
        apart(rows);
        rows.runs[1].state = RunState::Diverged;
    };
    assert!(changed(diverged).contains("all ranks end with the same bits"));
}

#[test]
fn hidden_communication_stands_beside_what_is_exposed() {
    let page = changed(|rows| {
        for rank in rows.runs.iter_mut().filter_map(|run| run.attempt.as_mut()).flat_map(|run| &mut run.ranks)
        {
            let (length, steps) = rank.steady;
            (rank.exposed, rank.hidden) =
                (record::Nanos(steps * 1_000_000), record::Nanos(steps * 3_000_000));
            assert!(rank.role == recipe::Role::Server || length.0 > steps * 4_000_000);
        }
    });
    for words in [
        "ps-sync, exposed communication: 1.00\u{a0}ms",
        "ps-sync, hidden communication: 3.00\u{a0}ms",
        "<td class=\"number\">1.00\u{a0}ms</td><td class=\"number\">3.00\u{a0}ms</td><td class=\"number\">75.0\u{a0}%</td>",
        "url(#hatch-hidden)",
    ] {
        assert!(page.contains(words), "the page does not say: {words}");
    }
}

#[test]
fn many_arms_share_styles() {
    let mut sample = Sample::duel();
    for copy in 0..10 {
        let mut arm = sample.arms[1].clone();
        arm.name = format!("copy-{copy}");
        sample.arms.push(arm);
    }
    checked(&sample.rows());
}

#[test]
fn forty_runs_of_four_ranks_stay_below_a_megabyte() {
    let sample = Sample { workers: vec![4, 3], repeats: 10, epochs: (5, 8), ..Sample::duel() };
    let rows = sample.rows();
    assert_eq!(rows.runs.len(), 40);
    let spans = timelines(&rows);
    let begin = std::time::Instant::now();
    let page = page(&rows, &spans, &Options::default()).unwrap();
    println!("40 runs x 4 ranks: {} bytes in {:?}", page.html.len(), begin.elapsed());
    assert!(page.html.len() <= 1_000_000, "{} bytes", page.html.len());
    assert_eq!(page.warnings, Vec::<String>::new());
}

#[test]
fn the_terminal_gets_the_same_numbers() {
    let rows = Sample::duel().rows();
    let tables = arm_tables(&rows, &Options::default()).unwrap();
    let page = html(&rows);
    assert_eq!(tables.len(), 1);
    for row in &tables[0].rows {
        assert_eq!(row.len(), tables[0].columns.len());
        for cell in row {
            let escaped = cell.replace('/', "&#x2f;");
            assert!(page.contains(&escaped), "{cell}");
        }
    }
    assert_eq!(tables[0].columns.first().map(String::as_str), Some("arm"));
    assert_eq!(tables[0].rows[1].last().map(String::as_str), Some("clear"));
}

#[test]
fn another_baseline_turns_the_comparison_round() {
    let options = Options { baseline: Some("d-sync".to_owned()), ..Options::default() };
    let verdicts = verdicts(&Sample::duel().rows(), &options).unwrap();
    assert!(verdicts[0].sentence.contains("later than d-sync"), "{}", verdicts[0].sentence);
    assert!(verdicts[1].baseline);
}

#[test]
fn embedded_data_reads_back() {
    let rows = Sample::duel().rows();
    let page = html(&rows);
    let runs =
        attributes(&page, "href").into_iter().find(|href| href.starts_with("data:text&#x2f;csv")).unwrap();
    let text = runs.split_once(',').unwrap().1.replace("%0A", "\n");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), rows.runs.len() + 1);
    assert!(lines[0].starts_with("run,id,arm,condition,repeat,seed,state"));
    assert!(lines[1].contains(",ps-sync,") && lines[2].contains(",d-sync,"));
    let columns = lines[0].split(',').count();
    assert!(lines.iter().all(|line| line.split(',').count() == columns));
}

mod anything {
    //! No rows, however odd, break a page.

    use super::checked_with;
    use proptest::prelude::*;
    use reports::sample::{Sample, timelines};
    use store::RunState;

    fn number() -> impl Strategy<Value = f64> {
        prop_oneof![
            Just(f64::NAN),
            Just(f64::INFINITY),
            Just(0.0),
            Just(-1.0),
            Just(1e300),
            Just(5e-324),
            0.0..1.0_f64
        ]
    }

    fn nanos() -> impl Strategy<Value = record::Nanos> {
        prop_oneof![Just(0), Just(1), Just(u64::MAX), 0..10_000_000_000_u64].prop_map(record::Nanos)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
        #[test]
        fn makes_a_page(
            states in prop::collection::vec(0..RunState::ALL.len(), 6),
            values in prop::collection::vec(number(), 6),
            times in prop::collection::vec(nanos(), 8),
            counts in prop::collection::vec(0..4_u64, 4),
            target in prop::option::of(number()),
        ) {
            let mut rows = Sample { repeats: 3, workers: vec![2], epochs: (1, 2), target, ..Sample::duel() }.rows();
            let mut spans = timelines(&rows);
            for (place, span) in spans.values_mut().flatten().enumerate() {
                span.length = times[place % 8];
                span.begin = times[(place / 3) % 8];
                span.step = counts[place % 4];
            }
            for (place, run) in rows.runs.iter_mut().enumerate() {
                run.state = RunState::ALL[states[place]];
                let Some(attempt) = &mut run.attempt else { continue };
                attempt.step_time = Some(times[place]);
                attempt.training = (counts[place % 4] > 0).then_some(times[place + 1]);
                (attempt.steps, attempt.samples) = (counts[place % 4], counts[(place + 1) % 4]);
                for (at, row) in attempt.metrics.iter_mut().enumerate() {
                    (row.value, row.epoch, row.at) = (values[at % 6], values[(at + 1) % 6], times[at % 8]);
                }
                for (at, row) in attempt.losses.iter_mut().enumerate() {
                    (row.loss, row.at) = (values[at % 6], times[at % 8]);
                }
                for rank in &mut attempt.ranks {
                    rank.steady = (times[place], counts[place % 4]);
                    rank.phases.iter_mut().for_each(|row| row.total = times[place % 8]);
                    rank.bytes_out = times[place].0;
                }
                attempt.links.iter_mut().for_each(|link| link.bytes = times[place % 8].0);
            }
            checked_with(&rows, &spans);
        }
    }
}
