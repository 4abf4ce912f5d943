//! How often the rule makes a false claim, and how often it finds a true difference: thousands of made-up sweeps through the real
//! comparison. Seeds are fixed, so that each rate is a number and not a chance.

use super::made_up::{Draws, PLAIN, SWEEPS, Structure, Tail, Uneven};
use super::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// The largest share of sweeps with a false claim, with the error of a share of 5 % of that number of sweeps, twice.
pub(super) const MOST_FALSE: f64 = 0.05 + 2.0 * 0.0049;

const THRESHOLDS: Thresholds = Thresholds { min_effect: 0.05, min_quality: 0.01, confidence: 0.95, looks: 1 };

impl Structure {
    /// The shares of sweeps with a false claim, and of comparisons that are graded as `wanted`.
    fn rates(&self, ratio: f64, wanted: Grade) -> Rates {
        let mut rows = self.template();
        let mut draws = Draws(ChaCha8Rng::seed_from_u64(20_261_123));
        let mut rates = Rates { wrong: 0.0, found: 0.0 };
        let mut compared = 0;
        for _ in 0..self.sweeps() {
            self.fill(&mut rows, ratio, &mut draws);
            let found = compare(&Study::new(&rows, None).unwrap(), THRESHOLDS);
            let odd = if matches!(self.uneven, Uneven::LastCondition(_)) { self.conditions - 1 } else { 0 };
            for comparisons in found.into_iter().skip(odd) {
                let wrong = comparisons.iter().any(|found| is_false(found.grade, ratio));
                rates.wrong += f64::from(u8::from(wrong));
                rates.found += comparisons.iter().filter(|found| found.grade == wanted).count() as f64;
                compared += comparisons.len();
            }
        }
        let judged = if matches!(self.uneven, Uneven::LastCondition(_)) { 1 } else { self.conditions };
        rates.wrong /= (self.sweeps() * judged) as f64;
        rates.found /= compared as f64;
        rates
    }
}

#[derive(Clone, Copy, Debug)]
struct Rates {
    wrong: f64,
    found: f64,
}

/// Whether the grade makes a false claim of arms that are `ratio` times as fast.
pub(super) fn is_false(grade: Grade, ratio: f64) -> bool {
    let edge = 1.05;
    match grade {
        Grade::Faster => ratio <= edge,
        Grade::Slower => ratio >= 1.0 / edge,
        Grade::FasterOpen => ratio <= 1.0,
        Grade::SlowerOpen => ratio >= 1.0,
        Grade::FasterSmall => ratio <= 1.0 || ratio >= edge,
        Grade::SlowerSmall => ratio >= 1.0 || ratio <= 1.0 / edge,
        Grade::NoDifference => ratio >= edge || ratio <= 1.0 / edge,
        Grade::Open | Grade::DidNotReach | Grade::Diverged => false,
    }
}

/// Equal arms, and arms just at the edge of what matters.
fn honest(structures: &[Structure]) {
    for structure in structures {
        for ratio in [1.0, 1.05] {
            let rates = structure.rates(ratio, Grade::Faster);
            println!("{:5.2} % false at {ratio} for {structure:?}", rates.wrong * 100.0);
            assert!(rates.wrong <= MOST_FALSE, "{rates:?} at {ratio} for {structure:?}");
        }
    }
}

#[test]
fn claims_hold_for_any_spread_and_number_of_runs() {
    for runs in [0.01, 0.02, 0.05, 0.1, 0.2] {
        honest(&[3, 5, 7, 10].map(|repeats| Structure { repeats, runs, ..PLAIN }));
    }
}

#[test]
fn claims_hold_with_shared_seeds() {
    for repeats in [3, 5, 10] {
        honest(&[0.01, 0.03].map(|runs| Structure { seeds: 0.1, runs, repeats, ..PLAIN }));
    }
}

#[test]
fn claims_hold_for_several_arms() {
    for repeats in [3, 5, 7] {
        honest(&[4, 10].map(|arms| Structure { arms, runs: 0.05, repeats, ..PLAIN }));
    }
}

#[test]
fn claims_hold_for_arms_that_spread_unequally() {
    for repeats in [3, 5] {
        honest(&[3, 5, 10].map(|arms| Structure {
            arms,
            runs: 0.02,
            uneven: Uneven::Arms,
            repeats,
            ..PLAIN
        }));
    }
}

#[test]
fn claims_hold_for_several_conditions() {
    for repeats in [3, 5] {
        honest(&[4, 12].map(|conditions| Structure { conditions, runs: 0.03, repeats, ..PLAIN }));
        honest(&[3, 4, 8].map(|conditions| Structure {
            conditions,
            uneven: Uneven::Conditions,
            runs: 0.02,
            repeats,
            ..PLAIN
        }));
        honest(&[Structure { conditions: 4, arms: 4, uneven: Uneven::Arms, runs: 0.02, repeats, ..PLAIN }]);
    }
}

#[test]
fn claims_hold_for_one_odd_condition() {
    for (conditions, times) in [(4, 2.0), (4, 3.0), (12, 1.5), (12, 2.0), (12, 3.0), (24, 2.0)] {
        let uneven = Uneven::LastCondition(times);
        honest(&[Structure { conditions, uneven, runs: 0.02, repeats: 3, ..PLAIN }]);
    }
    honest(&[Structure { conditions: 12, uneven: Uneven::LastCondition(2.0), runs: 0.02, ..PLAIN }]);
    for (arms, conditions, times) in [(4, 4, 3.0), (10, 2, 3.0), (10, 4, 2.0), (10, 4, 3.0)] {
        let uneven = Uneven::LastCondition(times);
        honest(&[Structure { arms, conditions, uneven, runs: 0.02, repeats: 3, ..PLAIN }]);
    }
}

#[test]
fn claims_hold_for_one_odd_arm() {
    for (arms, times) in [(5, 2.0), (5, 3.0), (10, 1.5), (10, 2.0), (10, 3.0), (10, 8.0)] {
        let uneven = Uneven::LastArm(times);
        honest(&[1, 4].map(|conditions| Structure {
            conditions,
            arms,
            uneven,
            runs: 0.02,
            repeats: 3,
            ..PLAIN
        }));
    }
    for times in [0.3, 0.5, 2.0, 4.0] {
        let uneven = Uneven::Baseline(times);
        honest(&[3, 5].map(|repeats| Structure { arms: 10, uneven, runs: 0.02, repeats, ..PLAIN }));
    }
}

#[test]
fn claims_hold_for_heavy_tails() {
    for repeats in [3, 5, 10] {
        honest(&[Tail::Contaminated, Tail::Heavy].map(|tail| Structure {
            tail,
            runs: 0.03,
            repeats,
            ..PLAIN
        }));
    }
}

#[test]
fn claims_hold_on_a_machine_that_slows_down() {
    for repeats in [3, 5, 10] {
        honest(&[Structure { drift: 0.2, runs: 0.03, repeats, ..PLAIN }]);
    }
}

#[test]
fn claims_hold_where_runs_miss() {
    for repeats in [3, 5, 10] {
        honest(&[0.05, 0.1, 0.3].map(|misses| Structure { misses, runs: 0.05, repeats, ..PLAIN }));
        // Runs are watched until one in two, and one in six, are too late.
        honest(&[1.0, 1.1].map(|watched| Structure { watched, runs: 0.1, repeats, ..PLAIN }));
        honest(&[Structure { watched: 1.1, misses: 0.1, seeds: 0.05, runs: 0.05, repeats, ..PLAIN }]);
        honest(&[0.3, 3.0].map(|times| Structure {
            watched: 1.1,
            uneven: Uneven::Baseline(times),
            runs: 0.1,
            repeats,
            ..PLAIN
        }));
        honest(&[0.3, 3.0].map(|times| Structure {
            misses: 0.2,
            uneven: Uneven::Baseline(times),
            repeats,
            ..PLAIN
        }));
    }
}

#[test]
fn claims_hold_on_a_coarse_grid() {
    for repeats in [3, 5, 10] {
        for evaluations in [10, 20, 50] {
            honest(&[0.005, 0.03, 0.1].map(|runs| Structure { repeats, runs, evaluations, ..PLAIN }));
        }
    }
}

/// Deviation of the seeds and of the runs, the true ratio, and the power in per cent that a paired t test against the edge
/// has with three runs, where the rule of before, which asked an exact test as well, had none.
const POWER_OF_THREE: [(f64, f64, f64, f64); 12] = [
    (0.0, 0.01, 1.10, 78.0),
    (0.0, 0.01, 3.0, 100.0),
    (0.0, 0.03, 1.10, 19.0),
    (0.0, 0.03, 1.2, 77.0),
    (0.0, 0.05, 1.2, 42.0),
    (0.0, 0.1, 1.2, 14.0),
    (0.0, 0.1, 1.5, 61.0),
    (0.0, 0.1, 3.0, 99.0),
    (0.1, 0.01, 1.10, 78.0),
    (0.1, 0.01, 1.2, 100.0),
    (0.1, 0.03, 1.2, 75.0),
    (0.1, 0.03, 1.3, 95.0),
];

#[test]
fn three_runs_find_what_they_can() {
    for (seeds, runs, ratio, wanted) in POWER_OF_THREE {
        let rates = Structure { seeds, runs, repeats: 3, ..PLAIN }.rates(ratio, Grade::Faster);
        println!("{:5.1} % of {ratio} at seeds {seeds}, runs {runs}", rates.found * 100.0);
        assert!(rates.found * 100.0 >= wanted, "{rates:?}: {ratio} at seeds {seeds}, runs {runs}");
        assert!(rates.wrong <= MOST_FALSE);
    }
}

#[test]
fn pairs_see_through_seeds() {
    for (runs, repeats, ratio) in [(0.01, 5, 1.10), (0.01, 5, 1.2), (0.03, 5, 1.2), (0.03, 7, 1.3)] {
        let rates = Structure { seeds: 0.1, runs, repeats, ..PLAIN }.rates(ratio, Grade::Faster);
        assert!(rates.found > 0.97, "{rates:?}: {ratio} with {repeats} repeats");
    }
}

#[test]
fn arms_lend_each_other_power() {
    let of = |arms, conditions| {
        Structure { arms, conditions, repeats: 3, runs: 0.03, ..PLAIN }.rates(1.15, Grade::Faster).found
    };
    let powers = [(2, 1), (4, 1), (10, 1), (4, 6), (10, 6)].map(|(arms, conditions)| of(arms, conditions));
    println!("power with 1, 3, 9 arms, and with 3 and 9 under 6 conditions: {powers:.3?}");
    // Without sharing between arms: 51, 28 and 9 %, and under 6 conditions 44 and 29 %.
    assert!(
        powers.iter().zip([0.5, 0.25, 0.25, 0.44, 0.34]).all(|(power, least)| *power > least),
        "{powers:?}"
    );
}

/// Three arms and one with the baseline's weights are four comparisons, of which three share nothing with the one.
#[test]
fn equal_weights_share_among_themselves() {
    let structure = Structure { arms: 5, repeats: 3, ..PLAIN };
    let mut rows = structure.template();
    structure.fill(&mut rows, 1.1, &mut Draws(ChaCha8Rng::seed_from_u64(20_261_126)));
    let borrowed = |rows: &store::SweepRows| {
        let found = compare(&Study::new(rows, None).unwrap(), THRESHOLDS);
        let times = found.into_iter().flatten().filter_map(|found| found.time_to_target);
        times.filter(|time| time.mean.unwrap().freedom > 2.0).count()
    };
    assert!(borrowed(&rows) > 0);
    for run in rows.runs.iter_mut().filter(|run| run.cell < 2) {
        let attempt = run.attempt.as_mut().unwrap();
        attempt.weights = Some(Ok(format!("of seed {}", run.repeat)));
        // They reach the target at the same evaluation, in other times.
        (1..).zip(&mut attempt.metrics).for_each(|(number, row)| row.samples = 1000 * number);
    }
    assert_eq!(borrowed(&rows), 0);
}

#[test]
fn conditions_lend_each_other_power() {
    let of = |conditions| {
        Structure { conditions, repeats: 3, runs: 0.03, ..PLAIN }.rates(1.15, Grade::Faster).found
    };
    let one = of(1);
    let four = of(4);
    let twelve = of(12);
    println!("power with 1, 4, 12 conditions: {one:.3} {four:.3} {twelve:.3}");
    assert!(four > one + 0.04 && twelve > four, "{one} {four} {twelve}");
}

/// Certainty and grade are two words for one test: beyond 97.5 % exactly where the arm is called faster or slower.
#[test]
fn what_is_sure_is_what_is_graded() {
    for (repeats, misses) in [(3, 0.0), (3, 0.1), (5, 0.1)] {
        let structure = Structure { arms: 5, repeats, misses, ..PLAIN };
        let mut rows = structure.template();
        let mut draws = Draws(ChaCha8Rng::seed_from_u64(20_261_125));
        let mut seen = [0, 0];
        for _ in 0..200 {
            structure.fill(&mut rows, 1.3, &mut draws);
            for found in compare(&Study::new(&rows, None).unwrap(), THRESHOLDS).into_iter().flatten() {
                if found.grade == Grade::DidNotReach {
                    continue;
                }
                let graded = matches!(found.grade, Grade::Faster | Grade::Slower);
                assert_eq!(found.speed().sure.is_some_and(|sure| sure > 0.975), graded, "{found:?}");
                seen[usize::from(graded)] += 1;
            }
        }
        assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
    }
}

/// Equal arms: none of them is first.
#[test]
fn who_is_first_is_claimed_of_few_sweeps_of_equal_arms() {
    for (arms, repeats) in [(2, 3), (3, 5), (6, 3), (6, 10)] {
        let structure = Structure { arms, repeats, ..PLAIN };
        let mut rows = structure.template();
        let mut draws = Draws(ChaCha8Rng::seed_from_u64(20_261_124));
        let mut claimed = 0;
        for _ in 0..SWEEPS {
            structure.fill(&mut rows, 1.0, &mut draws);
            let study = Study::new(&rows, None).unwrap();
            let condition = &study.conditions[0];
            let time = |cell: &&ArmCell| {
                statistics::typical(&cell.values(SpeedMeasure::TimeToTarget), 0.95)
                    .map_or(f64::INFINITY, |time| time.value)
            };
            let leader =
                condition.cells.iter().min_by(|left, right| time(left).total_cmp(&time(right))).unwrap();
            let ahead = beside(condition, leader, THRESHOLDS).iter().all(|rival| rival.grade.is_faster());
            claimed += usize::from(ahead);
        }
        println!("{claimed} of {SWEEPS} claim a first of {arms} equal arms with {repeats} repeats");
        assert!(claimed as f64 <= MOST_FALSE * SWEEPS as f64, "{claimed}: {structure:?}");
    }
}

/// The arms that reach a target near the end of the watched time are those that were fast.
#[test]
fn claims_hold_for_several_arms_of_which_some_miss() {
    let late = |arms, repeats, uneven| Structure { arms, repeats, uneven, watched: 1.0, ..PLAIN };
    for (arms, repeats) in [(4, 3), (4, 5), (10, 5)] {
        honest(
            &[Uneven::Nothing, Uneven::Arms, Uneven::Baseline(0.3), Uneven::Baseline(3.0)]
                .map(|uneven| late(arms, repeats, uneven)),
        );
    }
    let four = Structure { watched: 1.1, runs: 0.1, ..late(4, 3, Uneven::Baseline(3.0)) };
    honest(&[four, Structure { conditions: 4, ..four }]);
    honest(&[0.1, 0.3].map(|misses| Structure { misses, arms: 4, repeats: 3, ..PLAIN }));
}

/// All arms are measured against the same few runs of a baseline that spreads much more than they do, of which the slow ones are
/// not seen to the end.
#[test]
fn claims_hold_beside_a_baseline_that_spreads_far_and_is_cut_short() {
    let beside = |arms, repeats, times, watched| {
        let uneven = Uneven::Baseline(times);
        Structure { arms, repeats, watched, uneven, runs: 0.1, ..PLAIN }
    };
    honest(&[
        beside(4, 4, 5.0, 1.2),
        beside(4, 5, 3.0, 1.2),
        beside(10, 5, 3.0, 1.2),
        beside(10, 6, 5.0, 1.2),
        beside(20, 4, 5.0, 1.2),
        beside(20, 5, 5.0, 1.1),
        Structure { runs: 0.03, ..beside(10, 3, 5.0, f64::INFINITY) },
    ]);
}

/// Two of three arms never reach the target: the third is tested as one of three.
#[test]
fn arms_that_missed_are_part_of_the_family() {
    let structure = Structure { arms: 4, ..PLAIN };
    let mut rows = structure.template();
    structure.fill(&mut rows, 1.2, &mut Draws(ChaCha8Rng::seed_from_u64(20_261_129)));
    for run in rows.runs.iter_mut().filter(|run| run.cell > 1) {
        run.attempt.as_mut().unwrap().metrics[1].value = 0.5;
    }
    let found = compare(&Study::new(&rows, None).unwrap(), THRESHOLDS).remove(0);
    let grades: Vec<Grade> = found.iter().map(|found| found.grade).collect();
    assert_eq!(grades[1..], [Grade::DidNotReach; 2]);
    let time = found[0].time_to_target.as_ref().unwrap();
    let alone = time.p_beyond.unwrap();
    let corrected = time.p_holm.unwrap();
    assert!(alone < 0.3 && (corrected - 3.0 * alone).abs() < 1e-12, "{corrected} is not 3 x {alone}");
    let doubt = 1.0 - time.sure.unwrap();
    assert!((doubt - 1.5 * alone).abs() < 1e-12, "{doubt} is not half of 3 x {alone}");
    // Of the steps' time nothing is missed.
    let step = &found[0].step_time;
    assert!(step.p_beyond.is_none_or(|alone| step.p_holm.unwrap() >= alone));
}

/// One run in twenty misses: a quarter of the sweeps of three repeats have a miss.
#[test]
fn a_miss_of_three_repeats_does_not_lose_the_verdict() {
    for (runs, ratio, wanted) in [(0.01, 3.0, 0.96), (0.03, 3.0, 0.9), (0.05, 3.0, 0.83), (0.01, 1.5, 0.9)] {
        let rates = Structure { misses: 0.05, runs, repeats: 3, ..PLAIN }.rates(ratio, Grade::Faster);
        println!("{:5.1} % of {ratio}x found with three repeats and spread {runs}", rates.found * 100.0);
        assert!(rates.found > wanted, "{rates:?} with spread {runs}");
    }
}

#[test]
fn a_miss_in_ten_does_not_lose_the_verdict() {
    for repeats in [5, 7, 10] {
        let rates = Structure { misses: 0.1, runs: 0.1, repeats, ..PLAIN }.rates(3.0, Grade::Faster);
        println!(
            "{:5.1} % of 3x found with {repeats} repeats of which one in ten misses",
            rates.found * 100.0
        );
        assert!(rates.found > 0.9, "{rates:?} with {repeats} repeats");
    }
}
