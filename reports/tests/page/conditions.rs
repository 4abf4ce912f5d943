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
