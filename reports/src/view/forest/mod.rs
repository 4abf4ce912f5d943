//! The ratios of all arms under all conditions on one axis.

mod chart;

use crate::chart::Sheet;
use crate::findings::Findings;
use crate::number_format;
use crate::verdict::whole_percent;
use chart::ForestChart;
use comparison::Comparison;
use serde::Serialize;

/// Rows up to which all are in front.
const MOST_IN_FRONT: usize = 60;

/// Rows up to which the chart behind is drawn; the CSV files hold all.
const MOST_ROWS: usize = 400;

#[derive(Debug, Serialize)]
pub(crate) struct Forest {
    pub(crate) reading: String,
    pub(crate) finding: String,
    pub(crate) front: ForestChart,
    /// All rows, if the front has not all of them.
    pub(crate) all: Option<ForestChart>,
    pub(crate) summary: String,
}

/// An arm under a condition.
struct Found<'s> {
    arm: usize,
    condition: &'s str,
    comparison: &'s Comparison,
}

impl Found<'_> {
    /// The logarithm of the ratio, or of its bound.
    fn size(&self) -> Option<f64> {
        let speed = self.comparison.speed();
        let ratio = speed.ratio.map(|ratio| ratio.value).or(speed.bound())?;
        (self.comparison.grade.compares() && ratio > 0.0).then(|| ratio.ln()).filter(|size| size.is_finite())
    }

    fn interval(&self) -> Option<[f64; 2]> {
        let (low, high) = self.comparison.speed().ratio?.interval?;
        (low > 0.0 && high.is_finite()).then(|| [low.ln(), high.ln()])
    }
}

impl Forest {
    /// `None` if nothing is compared, or on the page if it has one condition.
    pub(crate) fn of(findings: &Findings) -> Option<Self> {
        let mut found: Vec<Found> = Vec::new();
        for (condition, comparisons) in findings.conditions() {
            found.extend(comparisons.iter().map(|comparison| Found {
                arm: comparison.arm,
                condition: condition.name,
                comparison,
            }));
        }
        let told_elsewhere = findings.sheet == Sheet::Page && !findings.has_conditions();
        if told_elsewhere || found.iter().all(|row| row.size().is_none()) {
            return None;
        }
        found.sort_by_key(|row| row.arm);
        let finding = finding(findings, &found);
        let all = found.len();
        // A figure has nothing behind it: the most extreme rows alone would mislead.
        let is_cut = findings.sheet == Sheet::Page && all > MOST_IN_FRONT;
        let behind = (is_cut && all <= MOST_ROWS).then(|| {
            let words = ["forest-all", "Speed-up of every arm under every condition"];
            ForestChart::of(findings, &found, words, finding.clone())
        });
        let mut front = found;
        if is_cut {
            let size = |row: &Found| row.size().map_or(-1.0, f64::abs);
            front.sort_by(|left, right| size(right).total_cmp(&size(left)));
            front.truncate(MOST_IN_FRONT);
            let order = |row: &Found| row.size().unwrap_or(f64::NEG_INFINITY);
            front.sort_by(|left, right| left.arm.cmp(&right.arm).then(order(right).total_cmp(&order(left))));
        }
        let base = findings.study.arm_name(findings.study.baseline);
        let effect = whole_percent(findings.thresholds.min_effect);
        let most = if is_cut {
            format!(" Of {all} rows, the {MOST_IN_FRONT} with the largest ratios either way are shown.")
        } else {
            String::new()
        };
        Some(Self {
            reading: format!(
                "One row per arm and condition: the bar is the {} interval of the time of {base} divided by that of the arm, \
                 logarithmic, so that right of the line is faster. The grey band is {effect} either way. A filled mark is \
                 beyond it, a hollow one is open, a small one is known to differ by less, and an interval with the head of an arrow reaches further.{most}",
                whole_percent(findings.thresholds.confidence)
            ),
            front: ForestChart::of(
                findings,
                &front,
                ["forest", "Speed-up of all arms under all conditions"],
                finding.clone(),
            ),
            finding,
            summary: if behind.is_some() {
                format!("All {all} rows, in the order of the plan")
            } else {
                String::new()
            },
            all: behind,
        })
    }
}

/// Of each arm the extremes: `d-sync: from 0.52× at workers=2 to 3.10× at workers=16.`
fn finding(findings: &Findings, found: &[Found]) -> String {
    const NAMED: usize = 6;
    let mut said = Vec::new();
    for rows in found.chunk_by(|left, right| left.arm == right.arm).take(NAMED) {
        let mut known: Vec<(f64, &str)> =
            rows.iter().filter_map(|row| Some((row.size()?, row.condition))).collect();
        known.sort_by(|left, right| left.0.total_cmp(&right.0));
        let name = findings.study.arm_name(rows[0].arm);
        let words = |size: &(f64, &str)| {
            let at = if size.1.is_empty() { String::new() } else { format!(" at {}", size.1) };
            format!("{}{at}", number_format::times(size.0.exp()))
        };
        match known.as_slice() {
            [] => {}
            [only] => said.push(format!("{name}: {}.", words(only))),
            [least, .., most] => said.push(format!("{name}: from {} to {}.", words(least), words(most))),
        }
    }
    said.join(" ")
}

#[cfg(test)]
mod tests {
    use super::chart::ForestRow;
    use super::*;
    use crate::Options;
    use crate::sample::{GridAxis, Sample, on_grid};
    use store::SweepRows;

    /// The second arm is as many times as fast as the axis says.
    fn rows(factors: &[f64]) -> SweepRows {
        let one = Sample { repeats: 3, epochs: (1, 1), target: None, ..Sample::duel() }.rows();
        on_grid(
            &one,
            &[GridAxis::new("train.factor", factors)],
            |arm, at| {
                if arm == 0 { 1e-2 } else { 1e-2 / at[0] }
            },
        )
    }

    fn middle(row: &ForestRow) -> f64 {
        row.mark.trim_start_matches('M').split([' ', 'l', 'L']).next().unwrap().parse().unwrap()
    }

    #[test]
    fn rows_show_the_ratios_of_the_verdicts_in_their_order() {
        let rows = rows(&[0.25, 0.5, 1.0, 2.0, 4.0]);
        let forest = Forest::of(&Findings::of(&rows, &Options::default()).unwrap()).unwrap();
        assert!(forest.all.is_none() && forest.front.heads.len() == 1);
        let verdicts = crate::verdict_rows(&rows, &Options::default()).unwrap();
        let decisive: Vec<_> = verdicts.iter().filter(|row| row.decides).collect();
        assert_eq!(forest.front.rows.len(), decisive.len());
        for (row, verdict) in forest.front.rows.iter().zip(&decisive) {
            assert_eq!(row.label, verdict.condition);
            let ratio = number_format::times(verdict.ratio.unwrap());
            assert!(row.words.starts_with(&ratio), "{} {ratio}", row.words);
        }
        let places: Vec<f64> = forest.front.rows.iter().map(middle).collect();
        assert!(places.is_sorted(), "{places:?}");
        // Equal ratios are equally long.
        let steps: Vec<f64> = places.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps.iter().all(|step| (step / steps[0] - 1.0).abs() < 0.1), "{steps:?}");
        let kinds: Vec<&str> = forest.front.rows.iter().map(|row| row.kind).collect();
        assert_eq!(kinds, ["dot"; 5]);
    }

    #[test]
    fn of_many_rows_the_most_extreme_are_in_front() {
        let factors: Vec<f64> = (0..70).map(|place| 1.03_f64.powi(place)).collect();
        let rows = rows(&factors);
        let forest = Forest::of(&Findings::of(&rows, &Options::default()).unwrap()).unwrap();
        assert_eq!(forest.front.rows.len(), MOST_IN_FRONT);
        assert_eq!(forest.all.as_ref().unwrap().rows.len(), 70);
        assert!(forest.front.rows[0].label.starts_with("factor=7.6"), "{}", forest.front.rows[0].label);
        assert!(!forest.front.rows.iter().any(|row| row.label == "factor=1"));
        assert!(forest.reading.contains("Of 70 rows, the 60"));
    }

    #[test]
    fn one_condition_has_none() {
        let rows = Sample::duel().rows();
        assert!(Forest::of(&Findings::of(&rows, &Options::default()).unwrap()).is_none());
    }
}
