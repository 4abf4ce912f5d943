//! Many workers, conditions, arms and runs.

use crate::checks::checked;
use record::Nanos;
use reports::sample::{Noise, Sample, timelines, under_conditions};
use reports::{Options, page};
use store::{RunState, SweepRows};

#[test]
fn sixty_four_workers() {
    let page = checked(&Sample { workers: vec![64], repeats: 2, ..Sample::duel() }.rows());
    assert!(page.contains("the first 24 of 64 lanes"));
    assert!(page.len() < 1 << 20, "{} bytes", page.len());
}

#[test]
fn several_conditions_and_no_target() {
    let page = checked(&Sample { workers: vec![2, 4], ..Sample::duel() }.rows());
    assert!(page.contains("workers=2") && page.contains("of 2 conditions"));
    let page = checked(&Sample { target: None, ..Sample::duel() }.rows());
    assert!(page.contains("faster than ps-sync") && page.contains("The recipe names no target"));
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

/// Ten thousand cells with a run of two workers each, one after the other, that differ in their speed and quality.
fn ten_thousand_cells() -> SweepRows {
    let one = Sample { repeats: 1, epochs: (4, 1), workers: vec![2], ..Sample::duel() }.rows();
    let mut rows = under_conditions(&one, 5_000);
    let mut noise = Noise(11);
    for run in &mut rows.runs {
        let attempt = run.attempt.as_mut().unwrap();
        attempt.started += 9 * run.index as i64;
        let factor = 1.0 + 0.2 * noise.draw();
        let longer = |time: Nanos| Nanos((time.0 as f64 * factor) as u64);
        attempt.step_time = attempt.step_time.map(longer);
        attempt.mean_step_time = attempt.mean_step_time.map(longer);
        for row in &mut attempt.metrics {
            row.at = longer(row.at);
            row.value += 0.003 * noise.draw();
        }
    }
    rows
}

/// The first conditions are whole, the others have a line, and the page stays one that a browser opens.
#[test]
fn ten_thousand_cells_make_a_page_of_lines_and_some_details() {
    let rows = ten_thousand_cells();
    assert_eq!(rows.plan.cells.len(), 10_000);
    assert!(rows.runs.iter().all(|run| !run.attempt.as_ref().unwrap().links.is_empty()));
    let options = Options { data_folder: Some("data".to_owned()), ..Options::default() };
    let page = page(&rows, &timelines(&rows), &options).unwrap();
    // A third of the largest size is left for longer names and more arms.
    assert!(page.html.len() < (20 << 20) / 3 * 2, "{} bytes", page.html.len());
    assert_eq!(page.html.matches("<details class=\"condition\"").count(), 200);
    assert_eq!(page.html.matches("<p class=\"condition\"").count(), 4_800);
    for said in [
        "The first 200 of 5000 conditions have verdicts, tables and charts",
        "The first 200 of 5000 conditions have rows in the table of traffic",
        "The first 200 of 5000 conditions have sentences on who waited",
        "<code>bakeoff figure plane -o plane.svg</code> draws all",
        "<code>bakeoff figure front -o front.svg</code> draws all",
    ] {
        assert!(page.html.contains(said), "{said}");
    }
    for [section, mark] in [["drift", "<path class=\"dot\""], ["front", "<path class=\"beaten\""]] {
        let marks = part(&page.html, section).matches(mark).count();
        assert!((200..=1_000).contains(&marks), "{section}: {marks} marks");
    }
    let runs = page.data.iter().find(|file| file.name.ends_with("-runs.csv")).unwrap();
    assert_eq!(runs.text.lines().count(), 10_001);
}

#[test]
fn of_many_failures_under_many_conditions_some_are_listed() {
    let one = Sample { repeats: 1, epochs: (1, 1), workers: vec![2], ..Sample::duel() }.rows();
    let mut rows = under_conditions(&one, 300);
    for run in rows.runs.iter_mut().filter(|run| run.cell % 2 == 1) {
        run.state = RunState::Failed;
    }
    let page = checked(&rows);
    assert_eq!(page.matches("<article class=\"failure\"").count(), 200);
    assert!(page.contains("The first 200 of 300 such runs are listed; the CSV files hold all."));
}

/// The section of a page with this id.
fn part<'p>(html: &'p str, name: &str) -> &'p str {
    let after = html.split(&format!("<section id=\"{name}\">")).nth(1).unwrap_or_default();
    after.split("</section>").next().unwrap_or_default()
}

#[test]
fn a_large_page_is_made_only_if_it_is_allowed() {
    let mut rows = Sample::duel().rows();
    rows.plan.source = "x".repeat(21 << 20);
    let refused = page(&rows, &timelines(&rows), &Options::default()).unwrap_err().to_string();
    assert!(refused.contains("make it with `bakeoff report --allow-large`"), "{refused}");
    let options = Options { allow_large: true, ..Options::default() };
    let page = page(&rows, &timelines(&rows), &options).unwrap();
    assert!(page.html.len() > 20 << 20 && page.warnings.len() == 1, "{:?}", page.warnings);
}

#[test]
fn large_tables_lie_beside_the_page_if_it_has_a_folder() {
    let mut rows = Sample::duel().rows();
    rows.runs[0].attempt.as_mut().unwrap().detail = "x".repeat(5 << 20);
    let embedded = page(&rows, &timelines(&rows), &Options::default()).unwrap();
    assert!(embedded.data.is_empty() && embedded.html.len() > 5 << 20);
    let options = Options { data_folder: Some("page-data".to_owned()), ..Options::default() };
    let page = page(&rows, &timelines(&rows), &options).unwrap();
    assert!(page.html.len() < 1 << 20, "{} bytes", page.html.len());
    assert!(page.html.contains("are in the folder page-data beside it"));
    assert_eq!(page.data[0].name, "quickstart-runs.csv");
    assert!(page.data[0].text.len() > 5 << 20);
}

#[test]
fn three_hundred_and_fifty_runs_stay_small() {
    let mut sample =
        Sample { workers: vec![12, 11, 10, 9, 8], repeats: 10, epochs: (5, 8), ..Sample::duel() };
    for number in 3..=7 {
        let mut arm = sample.arms[1].clone();
        arm.name = format!("d-sync, {number} segments");
        sample.arms.push(arm);
    }
    let rows = sample.rows();
    assert_eq!(rows.runs.len(), 350);
    let options = Options { data_folder: Some("page-data".to_owned()), ..Options::default() };
    let page = page(&rows, &timelines(&rows), &options).unwrap();
    for name in [
        "verdicts",
        "scoreboard",
        "accuracy",
        "phases",
        "timeline",
        "heterogeneity",
        "communication",
        "reproduce",
    ] {
        println!("{name}: {} bytes", part(&page.html, name).len());
    }
    println!("350 runs x 8 to 12 ranks: {} bytes", page.html.len());
    assert!(page.html.len() <= 2_000_000, "{} bytes", page.html.len());
    assert_eq!(page.warnings, Vec::<String>::new());
    // Data that the page leaves to the files beside it is there in full.
    let metrics = page.data.iter().find(|file| file.name == "quickstart-metrics.csv").unwrap();
    let evaluations: usize = rows.runs.iter().map(|run| run.attempt.as_ref().unwrap().metrics.len()).sum();
    assert_eq!(metrics.text.lines().count(), evaluations + 1);
}
