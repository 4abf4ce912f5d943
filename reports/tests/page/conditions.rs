//! Pages of sweeps with more conditions than a reader can scroll through.

use crate::checks::checked;
use reports::sample::{GridAxis, Sample, on_grid};
use store::SweepRows;

/// The second arm is twice as fast as the first one above 10 of the axis, half as fast below.
fn along(values: &[f64]) -> SweepRows {
    let one = Sample { repeats: 4, epochs: (1, 2), target: None, ..Sample::duel() }.rows();
    on_grid(&one, &[GridAxis::new("train.optimizer.lr", values)], |arm, at| match (arm, at[0] > 10.0) {
        (0, _) => 8e-3,
        (_, true) => 4e-3,
        (_, false) => 16e-3,
    })
}

#[test]
fn few_conditions_lie_open() {
    let page = checked(&along(&[1.0, 2.0, 20.0, 40.0]));
    assert_eq!(page.matches("<details class=\"condition\"").count(), 0);
    assert!(page.contains("<section id=\"scoreboard\">"));
}

#[test]
fn many_conditions_are_folded_behind_their_winners() {
    let page = checked(&along(&[1.0, 2.0, 4.0, 20.0, 40.0]));
    let lines: Vec<&str> = page.split("<details class=\"condition\"").skip(1).collect();
    assert_eq!(lines.len(), 5);
    for (place, line) in lines.iter().enumerate() {
        let (summary, rest) = line.split_once("</summary>").unwrap();
        let (winner, ratio) = if place < 3 {
            ("ps-sync", "2.00× as fast as d-sync")
        } else {
            ("d-sync", "2.00× as fast as ps-sync")
        };
        assert!(summary.contains(&format!("{winner}</span> <span>took")), "{summary}");
        let near = ["1.99×", "2.01×"].iter().any(|other| summary.contains(&ratio.replace("2.00×", other)));
        assert!(near || summary.contains(ratio), "{summary}");
        assert!(summary.contains("ahead, ") && summary.contains("sure"), "{summary}");
        assert!(rest.contains("class=\"board sortable\"") && rest.contains("class=\"verdicts\""));
        assert!(!summary.contains(" open"), "{summary}");
    }
    assert!(!page.contains("<section id=\"scoreboard\">") && page.contains("href=\"#conditions\""));
}

#[test]
fn one_condition_has_no_section_for_many() {
    let page = checked(&Sample::duel().rows());
    for section in ["overview", "forest", "scaling", "plane", "front", "conditions"] {
        assert!(!page.contains(&format!("<section id=\"{section}\">")), "{section}");
    }
    let page = checked(&Sample { workers: vec![2, 4], ..Sample::duel() }.rows());
    for section in ["overview", "forest", "scaling", "plane", "front"] {
        let own = page.split(&format!("<section id=\"{section}\">")).nth(1).unwrap();
        let own = own.split("</section>").next().unwrap();
        assert!(own.contains("<p class=\"reading\">"), "{section}");
        let charts = own.matches("role=\"img\"").count();
        assert!(charts > 0 && own.matches("<desc id=").count() == charts, "{section}");
        assert!(own.contains("class=\"numbers\""), "{section}");
    }
}

#[test]
fn arms_without_runs_and_arms_that_diverged_break_no_section() {
    let mut rows = along(&[1.0, 2.0, 4.0, 20.0, 40.0]);
    for run in &mut rows.runs {
        match run.cell {
            2 => run.attempt = None,
            5 => run.state = store::RunState::Diverged,
            6 | 7 => run.state = store::RunState::Failed,
            _ => {}
        }
    }
    let page = checked(&rows);
    assert!(page.contains("no winner") && page.contains("alone"));
}
