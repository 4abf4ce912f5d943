//! The shard layer: each member of a group computes some columns of a layer's outputs. With 2 members and 4 columns:
//!
//! ```text
//!              member 0         member 1
//!   has        c0 c1            c2 c3
//!   gather     c0 c1 -> 1       c2 c3 -> 0       both have c0 c1 c2 c3
//!   reduce     g2 g3 -> 1       g0 g1 -> 0       each adds both parts of the gradient of its own columns
//! ```
//!
//! Where the layer above is whole, each member has the whole gradient, and takes its own columns of it: nothing travels, and
//! nothing is added.
//!
//! Source: Lai, Kadav and Kruus, "SplitBrain", section 3.1, "Shard Layer".

use crate::vector::Block;
use crate::{StepError, Tag, Wire};
use record::{Phase, Work};
use std::ops::Range;

/// The columns of all members. `mine` are this one's, of which there is at least one; `columns` says which each has.
pub fn gather(
    mine: &Block,
    columns: &[Range<usize>],
    tag: Tag,
    wire: &mut Wire<'_>,
) -> Result<Block, StepError> {
    let group = wire.group();
    let packet = wire.encode(wire.slot(group.me(), tag, 0), &mine.values);
    for to in (1..group.size()).map(|steps| group.after(steps)) {
        wire.send_packet(to, tag, packet.clone())?;
    }
    let rows = mine.rows();
    let mut whole = Block::zeros(rows, columns.last().map_or(0, |last| last.end));
    for from in group.members() {
        let own = &columns[from.0];
        if from == group.me() {
            copy(wire, &mut whole, own, &mine.values);
        } else {
            let mut theirs = vec![0.0; rows * own.len()];
            wire.recv_into(from, tag, &mut theirs)?;
            copy(wire, &mut whole, own, &theirs);
        }
    }
    Ok(whole)
}

/// The sum of all members' parts of a gradient, of this member's columns, in the order of members.
pub fn reduce(
    part: &Block,
    columns: &[Range<usize>],
    tag: Tag,
    wire: &mut Wire<'_>,
) -> Result<Block, StepError> {
    let group = wire.group();
    for to in (1..group.size()).map(|steps| group.after(steps)) {
        let theirs = take(part, columns[to.0].clone(), wire);
        wire.send(to, tag, 0, &theirs.values)?;
    }
    let mine = take(part, columns[group.me().0].clone(), wire);
    let mut sum = Block::zeros(mine.rows(), mine.width);
    for from in group.members() {
        if from == group.me() {
            wire.reduce(&mut sum.values, &mine.values);
        } else {
            wire.recv_add(from, tag, &mut sum.values)?;
        }
    }
    Ok(sum)
}

/// Some columns of all rows.
pub fn take(whole: &Block, columns: Range<usize>, wire: &mut Wire<'_>) -> Block {
    let clock = &mut wire.lane().clock;
    clock.timed(Phase::Copy, Work::Snapshot(whole.rows() * columns.len()), || whole.columns(columns))
}

fn copy(wire: &mut Wire<'_>, into: &mut Block, columns: &Range<usize>, values: &[f32]) {
    let clock = &mut wire.lane().clock;
    clock.timed(Phase::Copy, Work::Snapshot(values.len()), || {
        let width = into.width;
        for (row, values) in into.values.chunks_mut(width).zip(values.chunks(columns.len())) {
            row[columns.clone()].copy_from_slice(values);
        }
    });
}
