//! How often repeats until decided make a false claim, and how many runs they save: made-up sweeps through the real looks.

use super::error_rates::{MOST_FALSE, is_false};
use super::made_up::{Draws, PLAIN, Structure, Uneven};
use crate::{Compared, Grade};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::collections::BTreeSet;
use store::{AttemptRow, RunState, SweepRows};

const SWEEPS: usize = 2_000;

const LOOKS: [u32; 4] = [3, 6, 12, 24];

/// Results of sweeps that ran until they were decided.
#[derive(Debug, Default)]
struct Outcome {
    /// Share of sweeps with a false claim.
    wrong: f64,
    /// Share of comparisons graded faster.
    faster: f64,
    /// Share of comparisons that stayed open.
    open: f64,
    /// Runs of an arm that is not the baseline, on average.
    repeats: f64,
}

impl Structure {
    fn until_decided(&self, ratio: f64) -> Outcome {
        let structure = Structure { repeats: LOOKS[3], ..*self };
        let mut all = structure.template();
        all.plan.looks = LOOKS.to_vec();
        let mut draws = Draws(ChaCha8Rng::seed_from_u64(20_261_126));
        let mut outcome = Outcome::default();
        for _ in 0..SWEEPS {
            structure.fill(&mut all, ratio, &mut draws);
            let (rows, made) = made(&all);
            let compared = Compared::of(&rows, None).unwrap();
            let grades: Vec<Grade> = compared.comparisons[0].iter().map(|found| found.grade).collect();
            let share = |of: &dyn Fn(Grade) -> bool| {
                grades.iter().filter(|grade| of(**grade)).count() as f64 / grades.len() as f64
            };
            outcome.wrong += f64::from(u8::from(share(&|grade| is_false(grade, ratio)) > 0.0));
            outcome.faster += share(&|grade| grade == Grade::Faster);
            outcome.open += share(&Grade::is_open);
            outcome.repeats += made as f64 / grades.len() as f64;
        }
        let sweeps = SWEEPS as f64;
        Outcome {
            wrong: outcome.wrong / sweeps,
            faster: outcome.faster / sweeps,
            open: outcome.open / sweeps,
            repeats: outcome.repeats / sweeps,
        }
    }
}

/// The rows that the looks ask for, one round after the other, and the number of runs of the arms.
fn made(all: &SweepRows) -> (SweepRows, usize) {
    let mut rows = all.clone();
    let mut hidden: Vec<Option<AttemptRow>> = rows.runs.iter_mut().map(|run| run.attempt.take()).collect();
    rows.runs.iter_mut().for_each(|run| run.state = RunState::Pending);
    let mut needed: BTreeSet<usize> = (0..rows.plan.cells.len()).collect();
    for look in LOOKS {
        for (run, attempt) in rows.runs.iter_mut().zip(&mut hidden) {
            if run.repeat < look && needed.contains(&run.cell) && attempt.is_some() {
                (run.attempt, run.state) = (attempt.take(), RunState::Done);
            }
        }
        needed = crate::look(&rows, None).unwrap().needed;
        if needed.is_empty() {
            break;
        }
    }
    let made = rows.runs.iter().filter(|run| run.cell > 0 && run.attempt.is_some()).count();
    (rows, made)
}

#[test]
fn claims_hold_over_all_looks() {
    let structures = [
        PLAIN,
        Structure { seeds: 0.1, runs: 0.02, ..PLAIN },
        Structure { arms: 6, runs: 0.02, uneven: Uneven::Baseline(3.0), ..PLAIN },
        Structure { arms: 3, runs: 0.02, uneven: Uneven::Arms, ..PLAIN },
        Structure { misses: 0.1, runs: 0.1, ..PLAIN },
    ];
    for structure in structures {
        for ratio in [1.0, 1.05] {
            let found = structure.until_decided(ratio);
            println!(
                "{:5.2} % false, {:5.1} repeats, {:5.1} % open at {ratio} for {structure:?}",
                found.wrong * 100.0,
                found.repeats,
                found.open * 100.0
            );
            assert!(found.wrong <= MOST_FALSE, "{found:?} at {ratio} for {structure:?}");
        }
    }
}

/// With the same claims, large differences take few runs, and small ones as many as they need.
#[test]
fn repeats_are_made_where_they_tell_something() {
    for (runs, ratio, faster, repeats) in
        [(0.02, 1.3, 1.0, 3.6), (0.05, 1.3, 0.99, 7.0), (0.05, 1.15, 0.99, 13.0), (0.1, 1.3, 0.99, 12.0)]
    {
        let found = Structure { runs, ..PLAIN }.until_decided(ratio);
        println!(
            "{:5.1} % faster, {:5.2} repeats at {ratio} with spread {runs}",
            found.faster * 100.0,
            found.repeats
        );
        assert!(
            found.faster >= faster && found.repeats <= repeats,
            "{found:?} at {ratio} with spread {runs}"
        );
    }
    let equal = Structure { runs: 0.02, ..PLAIN }.until_decided(1.0);
    println!("{:5.2} repeats, {:5.1} % open of equal arms", equal.repeats, equal.open * 100.0);
    assert!(equal.open < 0.01 && equal.repeats < 10.0, "{equal:?}");
}
