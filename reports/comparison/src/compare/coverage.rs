//! How often intervals hold the true ratio, and how often something false is said of final accuracies: made-up sweeps through
//! the real comparison, as for the error rates of speed.

use super::made_up::{Draws, PLAIN, SWEEPS, Structure, Tail, Uneven};
use super::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

const THRESHOLDS: Thresholds = Thresholds { min_effect: 0.05, min_quality: 0.01, confidence: 0.95, looks: 1 };

/// The error of a share of 5 % of 2,000, twice.
const ERROR: f64 = 2.0 * 0.0049;

/// The share of intervals that hold the true ratio, of those that there are.
fn coverage(structure: Structure, ratio: f64) -> f64 {
    let mut rows = structure.template();
    let mut draws = Draws(ChaCha8Rng::seed_from_u64(20_261_127));
    let mut held = 0;
    let mut seen = 0;
    for _ in 0..structure.sweeps() {
        structure.fill(&mut rows, ratio, &mut draws);
        for found in compare(&Study::new(&rows, None).unwrap(), THRESHOLDS).into_iter().flatten() {
            let Some((low, high)) = found.speed().ratio.and_then(|ratio| ratio.interval) else { continue };
            seen += 1;
            held += usize::from(low <= ratio && ratio <= high);
        }
    }
    assert!(seen > 1_000, "{seen} intervals: {structure:?}");
    let share = f64::from(held as u32) / f64::from(seen);
    println!("{:5.2} % of {seen} intervals hold {ratio}: {structure:?}", share * 100.0);
    share
}

#[test]
fn intervals_hold_the_true_ratio() {
    for repeats in [3, 5, 10] {
        let structures = [
            Structure { runs: 0.01, ..PLAIN },
            Structure { runs: 0.1, ..PLAIN },
            Structure { runs: 0.03, seeds: 0.1, ..PLAIN },
            Structure { runs: 0.03, arms: 4, conditions: 4, ..PLAIN },
            Structure { runs: 0.03, tail: Tail::Heavy, ..PLAIN },
            Structure { runs: 0.02, uneven: Uneven::Arms, arms: 5, ..PLAIN },
            Structure { runs: 0.03, evaluations: 10, ..PLAIN },
            Structure { runs: 0.03, evaluations: 50, ..PLAIN },
            Structure { misses: 0.1, ..PLAIN },
        ];
        for structure in structures {
            for ratio in [1.2, 1.0 / 1.2] {
                let share = coverage(Structure { repeats, ..structure }, ratio);
                assert!(share >= 0.95 - ERROR, "{share}: {structure:?}");
            }
        }
        // Of sweeps whose slow runs are not seen to the end, those without a miss had fast runs of the slower arm: their ratios are too
        // small, and nothing in them shows it.
        let share = coverage(Structure { runs: 0.1, watched: 1.1, repeats, ..PLAIN }, 1.2);
        assert!(share >= 0.93 - ERROR, "{share} with {repeats} repeats");
    }
}

/// How final accuracies spread.
#[derive(Clone, Copy, Debug)]
struct Accuracies {
    arms: usize,
    repeats: u32,
    /// Deviation that a seed causes in all arms.
    seeds: f64,
    /// Deviation of each run.
    runs: f64,
}

impl Accuracies {
    /// The share of sweeps in which an arm, whose accuracy is higher than the baseline's by `gap`, has one of the grades.
    fn graded(self, gap: f64, is_meant: impl Fn(Quality) -> bool) -> f64 {
        let structure = Structure { arms: self.arms, repeats: self.repeats, ..PLAIN };
        let mut rows = structure.template();
        let mut draws = Draws(ChaCha8Rng::seed_from_u64(20_261_128));
        let mut meant = 0;
        for _ in 0..SWEEPS {
            structure.fill(&mut rows, 1.2, &mut draws);
            let of_seeds: Vec<f64> = (0..self.repeats).map(|_| self.seeds * draws.normal()).collect();
            for run in &mut rows.runs {
                let level = 0.9 + if run.cell == 0 { 0.0 } else { gap };
                let value = level + of_seeds[run.repeat as usize] + self.runs * draws.normal();
                // A share of 10,000 samples.
                run.attempt.as_mut().unwrap().metrics[1].value = (value * 1e4).round() / 1e4;
            }
            rows.plan.cells.iter_mut().for_each(|cell| cell.spec.train.target = None);
            let found = compare(&Study::new(&rows, None).unwrap(), THRESHOLDS);
            let grade = |found: &Comparison| found.quality.as_ref().unwrap().grade;
            meant += usize::from(found[0].iter().map(grade).any(&is_meant));
        }
        let share = meant as f64 / SWEEPS as f64;
        println!("{:5.2} % at {gap} for {self:?}", share * 100.0);
        share
    }
}

/// Whether the grade makes a false claim of an accuracy that is higher by `gap`.
fn is_false(grade: Quality, gap: f64) -> bool {
    let margin = THRESHOLDS.min_quality;
    match grade {
        Quality::Worse => gap >= -margin,
        Quality::WorseSmall => gap >= 0.0 || gap <= -margin,
        Quality::WorseOpen => gap >= 0.0,
        Quality::NotWorse => gap <= -margin,
        Quality::Better => gap <= margin,
        Quality::Open | Quality::SameWeights => false,
    }
}

#[test]
fn what_is_said_of_accuracies_holds() {
    for (arms, repeats) in [(2, 3), (2, 5), (4, 3), (10, 5)] {
        for (seeds, runs) in [(0.0, 0.002), (0.0, 0.01), (0.02, 0.004)] {
            let accuracies = Accuracies { arms, repeats, seeds, runs };
            for gap in [0.0, -0.01, 0.01] {
                let share = accuracies.graded(gap, |grade| is_false(grade, gap));
                assert!(share <= 0.05 + ERROR, "{share} at {gap}: {accuracies:?}");
            }
        }
    }
}

#[test]
fn what_accuracies_differ_by_is_found() {
    for seeds in [0.0, 0.02] {
        let accuracies = Accuracies { arms: 2, repeats: 3, seeds, runs: 0.002 };
        for (gap, grade) in [
            (0.03, Quality::Better),
            (-0.03, Quality::Worse),
            (0.0, Quality::NotWorse),
            (-0.006, Quality::WorseOpen),
        ] {
            let share = accuracies.graded(gap, |found| found == grade);
            let least = if grade == Quality::WorseOpen { 0.2 } else { 0.8 };
            assert!(share > least, "{share} at {gap}: {accuracies:?}");
        }
    }
}
