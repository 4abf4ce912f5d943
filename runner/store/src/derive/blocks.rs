//! The step time of an attempt block by block: how much it varies within the attempt.
//!
//! The steady steps, in their order, are divided into at most eight blocks of equal length, at least twenty steps each: on a
//! busy machine steps that follow one another are alike, and twenty steps apart no longer. If a strategy exchanges only
//! every few steps, a block holds whole periods. An attempt of fewer than eighty steady steps has no blocks. If workers step
//! independently, each worker's steps are divided, and the length of a block is the time in which all workers together use
//! one global batch at the mean pace that each has in its own block of that number.

use crate::BlockRow;
use crate::derive::lengths::{FEWEST, Lengths, MOST, Worker};
use record::Nanos;
use std::ops::Range;

/// The smallest number of steps of a block.
const STEPS: u64 = 20;

/// The blocks of one worker.
pub(crate) fn of(lengths: &Lengths) -> Vec<BlockRow> {
    let period = lengths.period();
    let blocks = number_of(lengths.count() / period, least_of(period));
    (0..blocks)
        .map(|number| {
            let steps = part(lengths.count() / period, blocks, number);
            let steps = steps.start * period..steps.end * period;
            BlockRow { steps: steps.end - steps.start, length: Nanos(lengths.mean_of(&steps).round() as u64) }
        })
        .collect()
}

/// The blocks of workers that step independently.
pub(crate) fn together(workers: &[Worker], batch: u32) -> Vec<BlockRow> {
    let Some(fewest) = workers.iter().map(|worker| worker.lengths.count()).min() else { return Vec::new() };
    let count = number_of(fewest, STEPS);
    let block = |number: u64| {
        let mut rate = 0.0;
        let mut steps = 0;
        for worker in workers {
            let own = part(worker.lengths.count(), count, number);
            let samples = worker.samples as f64 / worker.lengths.count() as f64;
            rate += samples / worker.lengths.mean_of(&own);
            steps += own.end - own.start;
        }
        let length = f64::from(batch) / rate;
        let steps = (steps as f64 / workers.len() as f64).round() as u64;
        (length.is_finite() && length >= 1.0)
            .then(|| BlockRow { steps, length: Nanos(length.round() as u64) })
    };
    (0..count).map(block).collect::<Option<_>>().unwrap_or_default()
}

/// The smallest number of periods of a block.
fn least_of(period: u64) -> u64 {
    STEPS.div_ceil(period)
}

/// The number of blocks of `count` things, each of at least `least`; none if there are too few.
fn number_of(count: u64, least: u64) -> u64 {
    let blocks = (count / least.max(1)).min(MOST);
    if blocks < FEWEST { 0 } else { blocks }
}

fn part(count: u64, blocks: u64, number: u64) -> Range<u64> {
    count * number / blocks..count * (number + 1) / blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::derive::step_time::tests::steady;

    fn lengths(blocks: &[BlockRow]) -> Vec<u64> {
        blocks.iter().map(|block| block.length.0).collect()
    }

    #[test]
    fn eight_blocks_hold_all_steps_in_order() {
        // Step n takes n nanoseconds: 400 steps in blocks of 50 with means 24.5, 74.5 and so on.
        let blocks = of(&steady(&(0..400).collect::<Vec<u64>>(), 1));
        assert_eq!(lengths(&blocks), [25, 75, 125, 175, 225, 275, 325, 375]);
        assert!(blocks.iter().all(|block| block.steps == 50));
        let uneven = of(&steady(&[7; 163], 1));
        assert_eq!(uneven.iter().map(|block| block.steps).sum::<u64>(), 163);
        assert!(uneven.iter().all(|block| [20, 21].contains(&block.steps)));
    }

    /// More steps than are kept: another pass adds them up.
    #[test]
    fn long_attempts_are_divided_as_exactly() {
        let lengths: Vec<u64> = (0..40_000).collect();
        let blocks = of(&steady(&lengths, 1));
        assert!(blocks.iter().all(|block| block.steps == 5_000));
        assert_eq!(blocks[7].length, Nanos(37_500));
    }

    #[test]
    fn short_attempts_have_fewer_blocks_or_none() {
        let count = |steps: usize| of(&steady(&vec![5; steps], 1)).len();
        assert_eq!([0, 1, 79, 80, 99, 100, 159, 160, 9_999].map(count), [0, 0, 0, 4, 4, 5, 7, 8, 8]);
    }

    #[test]
    fn a_block_holds_whole_periods() {
        // Two steps of 1 and an exchange of 4: the mean of each period is 2, whatever the number of periods in a block.
        let steps: Vec<u64> = [1, 1, 4].into_iter().cycle().take(100).collect();
        let blocks = of(&steady(&steps, 3));
        assert_eq!(lengths(&blocks), [2; 4]);
        assert!(blocks.iter().all(|block| block.steps % 3 == 0));
    }

    #[test]
    fn independent_workers_add_up_their_paces_block_by_block() {
        let slowing: Vec<u64> = (0..160).map(|step| if step < 80 { 1_000 } else { 3_000 }).collect();
        let slowing = steady(&slowing, 1);
        let even = steady(&[1_000; 320], 1);
        let none = steady(&[], 1);
        let worker = |lengths| Worker { lengths, samples: 10 * Lengths::count(lengths), steps: 0 };
        let blocks = together(&[worker(&slowing), worker(&even)], 20);
        // Two workers with 10 samples in 1000 ns each use 20 in 1000 ns; then one of them needs three times as long.
        assert_eq!(lengths(&blocks), [1_000, 1_000, 1_000, 1_000, 1_500, 1_500, 1_500, 1_500]);
        assert!(blocks.iter().all(|block| block.steps == 30));
        assert_eq!(together(&[worker(&slowing), worker(&none)], 20), []);
        assert_eq!(together(&[], 20), []);
    }
}
