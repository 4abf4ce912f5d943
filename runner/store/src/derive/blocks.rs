//! The step time of an attempt block by block: how much it varies within the attempt.
//!
//! The steady steps, in their order, are divided into at most eight blocks of equal length, at least twenty steps each: on a
//! busy machine steps that follow one another are alike, and twenty steps apart no longer. If a strategy exchanges only
//! every few steps, a block holds whole periods. An attempt of fewer than eighty steady steps has no blocks. If workers step
//! independently, each worker's steps are divided, and the length of a block is the time in which all workers together use
//! one global batch at the mean pace that each has in its own block of that number.

use crate::BlockRow;
use crate::derive::step_time::Worker;
use record::Nanos;
use std::ops::Range;

/// The largest number of blocks.
const MOST: usize = 8;
/// The smallest number of blocks.
const FEWEST: usize = 4;
/// The smallest number of steps of a block.
const STEPS: usize = 20;

/// The blocks of one worker with steps of these lengths, in nanoseconds and in order.
pub(crate) fn of(lengths: &[u64], period: u64) -> Vec<BlockRow> {
    let period = usize::try_from(period).unwrap_or(usize::MAX).clamp(1, lengths.len().max(1));
    divided(lengths.len() / period, STEPS.div_ceil(period))
        .into_iter()
        .map(|part| &lengths[part.start * period..part.end * period])
        .map(|steps| BlockRow { steps: steps.len() as u64, length: Nanos(mean(steps).round() as u64) })
        .collect()
}

/// The blocks of workers that step independently.
pub(crate) fn together(workers: &[Worker], batch: u32) -> Vec<BlockRow> {
    let Some(fewest) = workers.iter().map(|worker| worker.lengths.len()).min() else { return Vec::new() };
    let count = divided(fewest, STEPS).len();
    let block = |number: usize| {
        let mut rate = 0.0;
        let mut steps = 0;
        for worker in workers {
            let own = &worker.lengths[part(worker.lengths.len(), count, number)];
            let samples = worker.samples as f64 / worker.lengths.len() as f64;
            rate += samples / mean(own);
            steps += own.len();
        }
        let length = f64::from(batch) / rate;
        let steps = (steps as f64 / workers.len() as f64).round() as u64;
        (length.is_finite() && length >= 1.0)
            .then(|| BlockRow { steps, length: Nanos(length.round() as u64) })
    };
    (0..count).map(block).collect::<Option<_>>().unwrap_or_default()
}

/// The parts of `count` things in blocks of at least `least`; none if there are too few.
fn divided(count: usize, least: usize) -> Vec<Range<usize>> {
    let blocks = (count / least.max(1)).min(MOST);
    if blocks < FEWEST { Vec::new() } else { (0..blocks).map(|number| part(count, blocks, number)).collect() }
}

fn part(count: usize, blocks: usize, number: usize) -> Range<usize> {
    count * number / blocks..count * (number + 1) / blocks
}

fn mean(lengths: &[u64]) -> f64 {
    lengths.iter().map(|length| *length as f64).sum::<f64>() / lengths.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(blocks: &[BlockRow]) -> Vec<u64> {
        blocks.iter().map(|block| block.length.0).collect()
    }

    #[test]
    fn eight_blocks_hold_all_steps_in_order() {
        // Step n takes n nanoseconds: 400 steps in blocks of 50 with means 24.5, 74.5 and so on.
        let blocks = of(&(0..400).collect::<Vec<u64>>(), 1);
        assert_eq!(lengths(&blocks), [25, 75, 125, 175, 225, 275, 325, 375]);
        assert!(blocks.iter().all(|block| block.steps == 50));
        let uneven = of(&[7; 163], 1);
        assert_eq!(uneven.iter().map(|block| block.steps).sum::<u64>(), 163);
        assert!(uneven.iter().all(|block| [20, 21].contains(&block.steps)));
    }

    #[test]
    fn short_attempts_have_fewer_blocks_or_none() {
        let count = |steps: usize| of(&vec![5; steps], 1).len();
        assert_eq!([0, 1, 79, 80, 99, 100, 159, 160, 9_999].map(count), [0, 0, 0, 4, 4, 5, 7, 8, 8]);
    }

    #[test]
    fn a_block_holds_whole_periods() {
        // Two steps of 1 and an exchange of 4: the mean of each period is 2, whatever the number of periods in a block.
        let steps: Vec<u64> = [1, 1, 4].into_iter().cycle().take(100).collect();
        let blocks = of(&steps, 3);
        assert_eq!(lengths(&blocks), [2; 4]);
        assert!(blocks.iter().all(|block| block.steps % 3 == 0));
    }

    #[test]
    fn independent_workers_add_up_their_paces_block_by_block() {
        let slowing: Vec<u64> = (0..160).map(|step| if step < 80 { 1_000 } else { 3_000 }).collect();
        let steady = [1_000; 320];
        let worker = |lengths| Worker { lengths, samples: 10 * lengths.len() as u64, steps: 0 };
        let blocks = together(&[worker(&slowing), worker(&steady)], 20);
        // Two workers with 10 samples in 1000 ns each use 20 in 1000 ns; then one of them needs three times as long.
        assert_eq!(lengths(&blocks), [1_000, 1_000, 1_000, 1_000, 1_500, 1_500, 1_500, 1_500]);
        assert!(blocks.iter().all(|block| block.steps == 30));
        assert_eq!(together(&[worker(&slowing), worker(&[])], 20), []);
        assert_eq!(together(&[], 20), []);
    }
}
