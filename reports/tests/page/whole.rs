//! Words and charts of the page of an ordinary sweep.

use crate::checks::{attributes, checked, html};
use reports::sample::Sample;
use reports::{Options, arm_tables, verdict_rows, verdicts};
use store::{Commit, RunState};

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
    // The six panels of the metric share one table, so do the four of the loss; the tests behind the grades have one.
    assert_eq!(page.matches("class=\"numbers\"").count(), charts - 5 - 3 + 1);
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
    rows.commit = Some(Commit { hash: attack.to_owned(), is_changed: true });
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
    assert_eq!(tables[0].rows[1].last().map(String::as_str), Some("faster"));
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

#[test]
fn exported_verdicts_are_those_of_the_page() {
    let rows = Sample { workers: vec![2, 4], ..Sample::held_up() }.rows();
    let page = html(&rows);
    let board = page.split("<section id=\"scoreboard\">").nth(1).unwrap().split("</section>").next().unwrap();
    let exported = verdict_rows(&rows, &Options::default()).unwrap();
    let said = verdicts(&rows, &Options::default()).unwrap();
    let fixed = |value: f64| format!("{value:.3}");
    let mut compared = 0;
    for row in exported.iter().filter(|row| row.difference.is_none()) {
        let measure = row.measure.replace('-', " ");
        let group = board.split(&format!("<h3>{}</h3>", row.condition)).nth(1).unwrap();
        let start = format!("<tr><th scope=\"row\">{}</th><td>{measure}</td>", row.arm);
        let line = group.split(&start).nth(1).unwrap().split("</tr>").next().unwrap();
        let cells: Vec<&str> =
            line.split("<td>").skip(1).filter_map(|cell| cell.split("</td>").next()).collect();
        assert_eq!(cells[1], row.n.to_string(), "{row:?}");
        assert_eq!(cells[3], row.ratio.map_or_else(|| "–".to_owned(), fixed), "{row:?}");
        if let Some((low, high)) = row.low.zip(row.high) {
            assert_eq!(cells[4], format!("{}–{}", fixed(low), fixed(high)), "{row:?}");
        }
        let verdict =
            said.iter().find(|found| found.arm == row.arm && found.condition == row.condition).unwrap();
        assert_eq!(row.verdict, verdict.class());
        if row.decides {
            assert_eq!(row.sure, verdict.sure);
            compared += 1;
        }
    }
    assert_eq!(compared, said.iter().filter(|verdict| !verdict.baseline).count());
    let metrics = exported.iter().filter(|row| row.measure == "test-accuracy").count();
    assert_eq!(metrics, compared);
}

#[test]
fn a_page_says_whose_spans_were_thinned() {
    let mut rows = Sample::duel().rows();
    let words = "Of the spans of 2 runs, those of the steps shown here were kept";
    assert!(!checked(&rows).contains(words));
    for run in &mut rows.runs {
        run.attempt.as_mut().unwrap().traced_steps = Some(30);
    }
    assert!(checked(&rows).contains(words));
}

/// Without a script nothing of it would work.
#[test]
fn what_hides_arms_is_out_of_sight_until_the_script_runs() {
    let page = checked(&Sample::duel().rows());
    assert_eq!(page.matches("<div class=\"wide filter\" id=\"arms\" hidden>").count(), 1);
    let mut one = Sample::duel();
    one.arms.truncate(1);
    assert!(!checked(&one.rows()).contains("id=\"arms\""));
}
