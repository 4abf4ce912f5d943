//! Arms that trained the same weights, bit for bit.

use crate::study::{ArmCell, JudgedRun};
use std::collections::BTreeMap;
use store::RunState;

/// The number of seeds for which both arms ended with equal weights; `None` if a common seed differs, reached the target
/// at another evaluation, or has no digest, and without a common seed.
pub fn same_weights(left: &ArmCell, right: &ArmCell) -> Option<usize> {
    let others: BTreeMap<u64, &JudgedRun> =
        right.runs.iter().map(|judged| (judged.run.seed, judged)).collect();
    let mut seeds = 0;
    for judged in &left.runs {
        let Some(other) = others.get(&judged.run.seed) else { continue };
        let samples = |judged: &JudgedRun| judged.hit.map(|row| row.samples);
        let equal = digest(judged).is_some_and(|own| Some(own) == digest(other));
        if !equal || samples(judged) != samples(other) {
            return None;
        }
        seeds += 1;
    }
    (seeds > 0).then_some(seeds)
}

/// The digest of the weights that a run ended with.
pub(super) fn digest<'a>(judged: &JudgedRun<'a>) -> Option<&'a str> {
    let done = judged.run.state == RunState::Done;
    match &judged.attempt.weights {
        Some(Ok(digest)) if done => Some(digest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;
    use crate::study::Study;
    use store::SweepRows;

    fn found(change: impl Fn(&mut SweepRows)) -> Option<usize> {
        let mut rows = Sample::duel().rows();
        change(&mut rows);
        let study = Study::new(&rows, None).unwrap();
        let cells = &study.conditions[0].cells;
        same_weights(&cells[1], &cells[0])
    }

    fn weights(rows: &mut SweepRows, run: usize) -> &mut Option<Result<String, Vec<String>>> {
        &mut rows.runs[run].attempt.as_mut().unwrap().weights
    }

    #[test]
    fn all_common_seeds_must_agree() {
        let equal = |rows: &mut SweepRows| {
            for pair in 0..5 {
                let metrics = rows.runs[2 * pair].attempt.as_ref().unwrap().metrics.clone();
                rows.runs[2 * pair + 1].attempt.as_mut().unwrap().metrics = metrics;
            }
        };
        assert_eq!(found(equal), Some(5));
        assert_eq!(
            found(|rows| {
                equal(rows);
                *weights(rows, 3) = Some(Ok("other".to_owned()));
            }),
            None
        );
        assert_eq!(
            found(|rows| {
                equal(rows);
                *weights(rows, 3) = None;
            }),
            None
        );
        // A run that failed is no common seed.
        assert_eq!(
            found(|rows| {
                equal(rows);
                rows.runs[3].state = RunState::Failed;
            }),
            Some(4)
        );
        // Equal weights at the end, but another evaluation was the first at the target.
        assert_eq!(
            found(|rows| {
                equal(rows);
                rows.runs[3].attempt.as_mut().unwrap().metrics.retain(|row| row.step % 240 == 0);
            }),
            None
        );
    }
}
