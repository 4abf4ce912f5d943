//! Repeats until decided: what looking at a sweep several times costs.
//!
//! A sweep that is looked at k times, and stops where a comparison is settled, has k chances to make a false claim. Each look
//! tests at a k-th of the level (Bonferroni): p values and doubts count k times, and intervals are as wide as that takes, whichever look
//! an arm stopped at. For tests that know of the arm and the look alone that holds for any dependence between looks; what shared
//! variances add, which know of the other arms, is simulated.

use recipe::Plan;
use store::{RunState, SweepRows};

/// Number of runs that were planned for a comparison that was settled without them.
pub fn not_needed(rows: &SweepRows) -> usize {
    rows.runs.iter().filter(|run| run.state == RunState::NotNeeded).count()
}

/// The number of repeats that a sweep has come to: those up to the look that it ended at, or is on the way to. Of later ones it is not known
/// whether they are needed. Of a fixed number of repeats no run is later.
pub fn under_way(rows: &SweepRows) -> u32 {
    let begun =
        rows.runs.iter().filter(|run| run.attempt.is_some()).map(|run| run.repeat + 1).max().unwrap_or(0);
    rows.plan.looks.iter().copied().find(|look| *look >= begun).unwrap_or(u32::MAX)
}

/// The number of looks that a plan has.
pub fn number(plan: &Plan) -> u32 {
    plan.looks.len().max(1) as u32
}

/// The level of one of `looks` looks, so that all together have `confidence`.
pub fn level_of_each(confidence: f64, looks: u32) -> f64 {
    (1.0 - confidence) / f64::from(looks)
}

/// `3, 6, 12 and 24 repeats`.
pub fn listed(looks: &[u32]) -> String {
    let words: Vec<String> = looks.iter().map(u32::to_string).collect();
    match words.as_slice() {
        [] => "no repeat".to_owned(),
        [one] => format!("{one} repeats"),
        [first @ .., last] => format!("{} and {last} repeats", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    #[test]
    fn each_look_has_its_part_of_the_level() {
        let plan = |looks: &[u32]| Sample { looks: looks.to_vec(), ..Sample::duel() }.rows().plan;
        for (looks, level) in [(&[][..], 0.05), (&[3, 6], 0.025), (&[3, 6, 12, 24], 0.0125)] {
            let found = level_of_each(0.95, number(&plan(looks)));
            assert!((found - level).abs() < 1e-12, "{found} is not {level}");
        }
        assert_eq!(listed(&[3, 6, 12, 24]), "3, 6, 12 and 24 repeats");
        assert_eq!(listed(&[3, 4]), "3 and 4 repeats");
        assert_eq!(listed(&[3]), "3 repeats");
    }
}
