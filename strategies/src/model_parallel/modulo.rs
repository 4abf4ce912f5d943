//! The modulo layer: in each round the group works on some rows of each member's batch. With 2 members of 4 rows and scheme B/K:
//!
//! ```text
//!              member 0 has a0 a1 a2 a3      member 1 has b0 b1 b2 b3
//!   round 0    a0 a1 -> 1                    b0 b1 -> 0                    both compute a0 a1 b0 b1
//!   round 1    a2 a3 -> 1                    b2 b3 -> 0                    both compute a2 a3 b2 b3
//! ```
//!
//! Backwards, each member has a part of the gradient of every row; a row's parts are added at its owner, in the order of
//! members.
//!
//! Source: Lai, Kadav and Kruus, "SplitBrain", section 3.1, "Modulo Layer"; the schemes are those of Krizhevsky, "One weird trick
//! for parallelizing convolutional neural networks", 2014, section 3.1.

use crate::vector::{Block, piece};
use crate::{Batch, GroupRank, StepError, Tag, Wire};
use recipe::ModuloScheme;
use record::{Phase, Work};
use std::ops::Range;

/// The rows of one round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// Of each member, the rows of its own batch.
    of_member: Vec<Range<usize>>,
}

impl Round {
    /// Round `number` of a step in which the members have batches of these sizes.
    pub fn new(scheme: ModuloScheme, batches: &[usize], number: usize) -> Self {
        let members = batches.len();
        let of_member = batches.iter().enumerate().map(|(member, rows)| match scheme {
            ModuloScheme::All => 0..*rows,
            ModuloScheme::Turns if member == number => 0..*rows,
            ModuloScheme::Turns => 0..0,
            ModuloScheme::Shares => piece(*rows, members, number),
        });
        Self { of_member: of_member.collect() }
    }

    /// Rows of all members.
    pub fn rows(&self) -> usize {
        self.of_member.iter().map(ExactSizeIterator::len).sum()
    }

    /// The rows of a member's own batch.
    pub fn of(&self, member: GroupRank) -> Range<usize> {
        self.of_member[member.0].clone()
    }

    /// The place of a member's rows among those of all.
    fn place(&self, member: GroupRank) -> Range<usize> {
        let before = self.of_member[..member.0].iter().map(ExactSizeIterator::len).sum();
        before..before + self.of(member).len()
    }

    /// The examples of the round, in the order of its rows. `batches` are those of the members.
    pub fn batch(&self, batches: &[Batch]) -> Batch {
        let own = self.of_member.iter().zip(batches);
        let examples = own.flat_map(|(rows, batch)| batch.examples[rows.clone()].iter().copied());
        Batch { epoch: batches.first().map_or(0, |batch| batch.epoch), examples: examples.collect() }
    }
}

/// The rows of a round from all members. `own` are this member's activations, of its whole batch.
pub fn gather(own: &Block, round: &Round, tag: Tag, wire: &mut Wire<'_>) -> Result<Block, StepError> {
    let group = wire.group();
    let mine = own.rows_of(round.of(group.me()));
    if !mine.is_empty() {
        let packet = wire.encode(wire.slot(group.me(), tag, 0), mine);
        for to in (1..group.size()).map(|steps| group.after(steps)) {
            wire.send_packet(to, tag, packet.clone())?;
        }
    }
    let mut all = Block::zeros(round.rows(), own.width);
    for from in group.members() {
        let into = all.rows_of_mut(round.place(from));
        if from == group.me() {
            let clock = &mut wire.lane().clock;
            clock.timed(Phase::Copy, Work::Snapshot(mine.len()), || into.copy_from_slice(mine));
        } else if !into.is_empty() {
            wire.recv_into(from, tag, into)?;
        }
    }
    Ok(all)
}

/// Adds the parts of this member's rows of the gradient, and writes the sums over its rows of `into`. `part` is this member's part
/// of the gradient of all rows of the round.
pub fn return_gradient(
    part: &Block,
    round: &Round,
    into: &mut Block,
    tag: Tag,
    wire: &mut Wire<'_>,
) -> Result<(), StepError> {
    let group = wire.group();
    for to in (1..group.size()).map(|steps| group.after(steps)) {
        let theirs = part.rows_of(round.place(to));
        if !theirs.is_empty() {
            wire.send(to, tag, 0, theirs)?;
        }
    }
    let mine = round.of(group.me());
    if mine.is_empty() {
        return Ok(());
    }
    let sum = into.rows_of_mut(mine);
    sum.fill(0.0);
    for from in group.members() {
        if from == group.me() {
            wire.reduce(sum, part.rows_of(round.place(from)));
        } else {
            wire.recv_add(from, tag, sum)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(scheme: ModuloScheme, batches: &[usize], number: usize) -> Vec<Range<usize>> {
        let round = Round::new(scheme, batches, number);
        (0..batches.len()).map(|member| round.of(GroupRank(member))).collect()
    }

    #[test]
    fn the_rounds_of_a_step_are_all_rows_once() {
        for scheme in ModuloScheme::ALL.iter().copied() {
            for batches in [[4, 4, 4], [5, 4, 4], [2, 1, 1], [1, 1, 0]] {
                let mut met = batches.map(|rows| vec![0; rows]);
                for number in 0..scheme.rounds(3) {
                    for (member, rows) in rows(scheme, &batches, number).into_iter().enumerate() {
                        rows.for_each(|row| met[member][row] += 1);
                    }
                }
                assert!(met.iter().flatten().all(|times| *times == 1), "{scheme} {batches:?}");
            }
        }
    }

    #[test]
    fn schemes_differ_in_whose_rows_come_together() {
        assert_eq!(rows(ModuloScheme::Shares, &[4, 4], 1), [2..4, 2..4]);
        assert_eq!(rows(ModuloScheme::Turns, &[4, 4], 1), [0..0, 0..4]);
        assert_eq!(rows(ModuloScheme::All, &[4, 4], 0), [0..4, 0..4]);
        let round = Round::new(ModuloScheme::Shares, &[4, 4], 1);
        let batch = |first: u32| Batch { epoch: 3, examples: (first..first + 4).collect() };
        let expected = Batch { epoch: 3, examples: vec![12, 13, 22, 23] };
        assert_eq!(round.batch(&[batch(10), batch(20)]), expected);
    }
}
