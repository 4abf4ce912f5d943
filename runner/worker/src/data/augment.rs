//! Random changes of training pictures.
//!
//! Draws are keyed by seed, pass and sample alone: whichever worker meets a sample in a pass, in whatever batch, sees the same, so
//! that several workers train what one process with the whole batch would. A sample that is drawn twice in a pass (with
//! replacement) looks the same both times. Each draw is made whether it is used or not: flips are the same with crops
//! and without.

use crate::stream;
use pictures::Offset;
use rand_chacha::rand_core::Rng;
use recipe::{Augmentation, Shape};

/// Pixels by which an image is padded on each side before it is cut back (He et al. 2016, section 4.2).
const PADDING: usize = 4;
/// By how much the padded image is wider and higher than the part cut out of it.
const ROOM: Offset = Offset { across: 2 * PADDING, down: 2 * PADDING };

/// How one picture is changed in one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    what: Augmentation,
    /// Uniform on 32 bits.
    across: u32,
    down: u32,
    flip: bool,
}

impl Change {
    /// A picture as it is.
    pub const NONE: Self = Self { what: Augmentation::NONE, across: 0, down: 0, flip: false };

    /// How a sample is changed in a pass.
    pub fn of(what: Augmentation, seed: u64, pass: u64, sample: u32) -> Self {
        if what == Augmentation::NONE {
            return Self::NONE;
        }
        let mut draws = stream::keyed(seed, "augment", &[pass, u64::from(sample)]);
        let across = draws.next_u32();
        let down = draws.next_u32();
        Self { what, across, down, flip: draws.next_u32() & 1 == 1 }
    }

    /// The left upper corner of the part cut out of a picture that is wider and higher by `room`; `None` where that is not random.
    pub fn corner(self, room: Offset) -> Option<Offset> {
        let corner = || Offset { across: place(self.across, room.across), down: place(self.down, room.down) };
        self.what.crop.then(corner)
    }

    /// Whether left and right are exchanged.
    pub fn is_flipped(self) -> bool {
        self.what.flip && self.flip
    }

    /// Changes the normalised values of an image in place: pixels that come from outside of it are 0, which is the mean of a
    /// channel that is normalised. Other examples stay as they are.
    pub fn apply(self, shape: Shape, values: &mut [f32]) {
        let Shape::Image(_, rows, columns) = shape else { return };
        if let Some(corner) = self.corner(ROOM) {
            for channel in values.chunks_exact_mut((rows * columns).max(1)) {
                shift(channel, columns, corner);
            }
        }
        if self.is_flipped() {
            values.chunks_exact_mut(columns.max(1)).for_each(<[f32]>::reverse);
        }
    }
}

/// One of the places 0 to `room`, by a draw that is uniform on 32 bits. The bias of the product is below 2^-18 for all sides of
/// pictures, where a loop that draws again would make the other draws depend on it.
fn place(draw: u32, room: usize) -> usize {
    ((u128::from(draw) * (room as u128 + 1)) >> 32) as usize
}

/// The part of a padded channel that begins at `corner` of the padding.
fn shift(channel: &mut [f32], columns: usize, corner: Offset) {
    let before = channel.to_vec();
    let rows = channel.len() / columns;
    let inside = |place: usize, corner: usize, side: usize| {
        (place + corner).checked_sub(PADDING).filter(|place| *place < side)
    };
    for y in 0..rows {
        for x in 0..columns {
            let from = inside(y, corner.down, rows).zip(inside(x, corner.across, columns));
            channel[y * columns + x] = from.map_or(0.0, |(y, x)| before[y * columns + x]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Augmentation = Augmentation { crop: true, flip: true };

    fn changed(change: Change) -> Vec<f32> {
        let mut values: Vec<f32> = (1..=12).map(|value| value as f32).collect();
        change.apply(Shape::Image(2, 2, 3), &mut values);
        values
    }

    #[test]
    fn an_image_is_padded_by_zeros_and_cut_back() {
        let at = |across, down, flip| {
            let draw = |place: u64| ((place << 32).div_ceil(9)) as u32;
            changed(Change { what: BOTH, across: draw(across), down: draw(down), flip })
        };
        assert_eq!(at(4, 4, false), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0]);
        assert_eq!(at(4, 4, true), [3.0, 2.0, 1.0, 6.0, 5.0, 4.0, 9.0, 8.0, 7.0, 12.0, 11.0, 10.0]);
        assert_eq!(at(5, 4, false), [2.0, 3.0, 0.0, 5.0, 6.0, 0.0, 8.0, 9.0, 0.0, 11.0, 12.0, 0.0]);
        assert_eq!(at(4, 3, false), [0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 7.0, 8.0, 9.0]);
        assert_eq!(at(3, 5, true), [5.0, 4.0, 0.0, 0.0, 0.0, 0.0, 11.0, 10.0, 0.0, 0.0, 0.0, 0.0]);
        assert!(at(0, 8, false).iter().all(|value| *value == 0.0));
    }

    #[test]
    fn draws_depend_on_seed_pass_and_sample_and_reach_every_place() {
        let all: Vec<Change> = (0..4000).map(|sample| Change::of(BOTH, 1, 0, sample)).collect();
        let corners: std::collections::BTreeSet<_> = all.iter().map(|change| change.corner(ROOM)).collect();
        assert_eq!(corners.len(), 81);
        let flipped = all.iter().filter(|change| change.is_flipped()).count();
        assert!((1850..2150).contains(&flipped), "{flipped}");
        assert_eq!(Change::of(BOTH, 1, 0, 7), all[7]);
        for other in [Change::of(BOTH, 2, 0, 7), Change::of(BOTH, 1, 1, 7), Change::of(BOTH, 1, 0, 8)] {
            assert_ne!(other, all[7]);
        }
    }

    #[test]
    fn one_change_does_not_depend_on_the_other() {
        for sample in 0..50 {
            let of = |crop, flip| Change::of(Augmentation { crop, flip }, 3, 2, sample);
            assert_eq!(of(true, false).corner(ROOM), of(true, true).corner(ROOM));
            assert_eq!(of(false, true).is_flipped(), of(true, true).is_flipped());
            assert_eq!((of(false, true).corner(ROOM), of(true, false).is_flipped()), (None, false));
        }
        assert_eq!(changed(Change::of(Augmentation::NONE, 3, 2, 1)), changed(Change::NONE));
    }
}
