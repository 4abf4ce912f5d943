//! Where two arms are equally fast, between the conditions of a sweep over two axes.
//!
//! The ratio of their times is known at the conditions. Between neighbours its logarithm is taken to be straight over the
//! axis's own measure, so that the place at which it is zero is a share of the way from one to the other. Through the squares of
//! four neighbours the line runs as in Lorensen, W. E. and Cline, H. E. (1987), "Marching cubes", in two dimensions.

/// Logarithms of the ratio of two arms, row by row; `None` where it is not known.
#[derive(Clone, Debug)]
pub(crate) struct RatioGrid {
    pub(crate) columns: usize,
    pub(crate) values: Vec<Option<f64>>,
}

/// A place in units of cells: (0, 0) is the condition in the first column and row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct GridPlace {
    pub(crate) column: f64,
    pub(crate) row: f64,
}

impl RatioGrid {
    fn rows(&self) -> usize {
        self.values.len() / self.columns.max(1)
    }

    fn at(&self, column: usize, row: usize) -> Option<f64> {
        let inside = column < self.columns;
        self.values.get(row * self.columns + column).copied().flatten().filter(|_| inside)
    }

    /// The places in a row at which the ratio is one, from left to right.
    pub(crate) fn in_row(&self, row: usize) -> Vec<f64> {
        let between = |column: usize| {
            let share = zero(self.at(column, row)?, self.at(column + 1, row)?)?;
            Some(column as f64 + share)
        };
        (0..self.columns.saturating_sub(1)).filter_map(between).collect()
    }

    /// The strokes of the line on which the ratio is one.
    pub(crate) fn strokes(&self) -> Vec<[GridPlace; 2]> {
        let mut strokes = Vec::new();
        for row in 0..self.rows().saturating_sub(1) {
            for column in 0..self.columns.saturating_sub(1) {
                strokes.extend(self.through(column, row));
            }
        }
        strokes
    }

    /// The strokes through the square whose first corner is this condition.
    fn through(&self, column: usize, row: usize) -> Vec<[GridPlace; 2]> {
        let corner = |right: usize, down: usize| self.at(column + right, row + down);
        let (Some(a), Some(b), Some(c), Some(d)) = (corner(0, 0), corner(1, 0), corner(1, 1), corner(0, 1))
        else {
            return Vec::new();
        };
        let x = column as f64;
        let y = row as f64;
        let place = |column: f64, row: f64| GridPlace { column: x + column, row: y + row };
        let top = zero(a, b).map(|share| place(share, 0.0));
        let right = zero(b, c).map(|share| place(1.0, share));
        let bottom = zero(d, c).map(|share| place(share, 1.0));
        let left = zero(a, d).map(|share| place(0.0, share));
        if let (Some(top), Some(right), Some(bottom), Some(left)) = (top, right, bottom, left) {
            // A saddle: the middle belongs to the corners of its own sign.
            let joined = (a + b + c + d >= 0.0) == (a >= 0.0);
            return if joined {
                vec![[top, right], [left, bottom]]
            } else {
                vec![[left, top], [bottom, right]]
            };
        }
        match [top, right, bottom, left].into_iter().flatten().collect::<Vec<_>>().as_slice() {
            [from, to] => vec![[*from, *to]],
            _ => Vec::new(),
        }
    }
}

/// The share of the way from one value to the next at which zero lies; `None` if both lie on one side.
pub(crate) fn zero(from: f64, to: f64) -> Option<f64> {
    ((from >= 0.0) != (to >= 0.0)).then(|| from / (from - to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plane_is_cut_along_its_line() {
        // column + row - 1.75 over 3 x 3: not halfway between neighbours.
        let value = |place: usize| Some((place % 3 + place / 3) as f64 - 1.75);
        let grid = RatioGrid { columns: 3, values: (0..9).map(value).collect() };
        assert_eq!(grid.in_row(0), [1.75]);
        assert_eq!(grid.in_row(1), [0.75]);
        assert_eq!(grid.in_row(2), [0.0; 0]);
        let strokes = grid.strokes();
        assert_eq!(strokes.len(), 3);
        for place in strokes.into_iter().flatten() {
            assert!((place.column + place.row - 1.75).abs() < 1e-12, "{place:?}");
        }
    }

    #[test]
    fn a_saddle_is_cut_twice_and_what_is_not_known_not_at_all() {
        let grid = |values: [f64; 4]| RatioGrid { columns: 2, values: values.map(Some).to_vec() };
        assert_eq!(grid([1.0, -1.0, -1.0, 1.0]).strokes().len(), 2);
        // The first corner is alone: the stroke around it joins left and top.
        let alone = grid([1.0, -3.0, -3.0, 1.0]).strokes();
        assert!(alone[0].iter().all(|place| place.column + place.row < 1.0), "{alone:?}");
        let hole = RatioGrid { columns: 2, values: vec![Some(1.0), None, Some(-1.0), Some(-1.0)] };
        assert!(hole.strokes().is_empty() && hole.in_row(0).is_empty());
    }
}
