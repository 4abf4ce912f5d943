//! Strokes on a grid of pixels.

/// Pixels on each side.
pub(super) const SIDE: usize = 28;

/// A place, x to the right and y downwards.
pub(super) type Point = (f64, f64);

/// How much of each pixel ink covers.
pub(super) struct Canvas {
    cover: [f64; SIDE * SIDE],
    /// Half the width of the pen, in pixels.
    pen: f64,
}

impl Canvas {
    /// An empty canvas for a pen that is `2 * pen` pixels wide.
    pub(super) fn new(pen: f64) -> Self {
        Self { cover: [0.0; SIDE * SIDE], pen }
    }

    /// Draws a line through the points, with round ends.
    pub(super) fn stroke(&mut self, points: &[Point]) {
        for ends in points.windows(2) {
            self.segment(ends[0], ends[1]);
        }
    }

    /// A pixel is covered wholly where its middle is half a pixel inside the line's edge, not at all where
    /// it is half a pixel outside, and linearly in between.
    fn segment(&mut self, from: Point, to: Point) {
        let reach = self.pen + 0.5;
        let columns = pixels(from.0, to.0, reach);
        let rows = pixels(from.1, to.1, reach);
        let along = (to.0 - from.0, to.1 - from.1);
        let square = along.0 * along.0 + along.1 * along.1;
        for row in rows {
            for column in columns.clone() {
                let middle = (column as f64 + 0.5 - from.0, row as f64 + 0.5 - from.1);
                let share = if square > 0.0 {
                    ((middle.0 * along.0 + middle.1 * along.1) / square).clamp(0.0, 1.0)
                } else {
                    0.0
                };
                let off = (middle.0 - share * along.0, middle.1 - share * along.1);
                let distance = (off.0 * off.0 + off.1 * off.1).sqrt();
                let cover = (reach - distance).clamp(0.0, 1.0);
                let pixel = &mut self.cover[row * SIDE + column];
                *pixel = pixel.max(cover);
            }
        }
    }

    /// Turns cover, 0 to 1, into bytes.
    pub(super) fn develop(&self, byte: impl Fn(usize, f64) -> u8) -> [u8; SIDE * SIDE] {
        std::array::from_fn(|place| byte(place, self.cover[place]))
    }
}

/// The pixels of one axis that a line from `a` to `b` can reach.
fn pixels(a: f64, b: f64, reach: f64) -> std::ops::Range<usize> {
    let clip = |value: f64| value.clamp(0.0, SIDE as f64);
    let low = clip(a.min(b) - reach);
    let high = clip(a.max(b) + reach);
    low as usize..(high as usize + 1).min(SIDE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_covers_its_width_and_nothing_else() {
        let mut canvas = Canvas::new(1.0);
        canvas.stroke(&[(5.0, 10.0), (15.0, 10.0)]);
        let bytes = canvas.develop(|_, cover| (cover * 100.0) as u8);
        assert_eq!(bytes[9 * SIDE + 10], 100);
        assert_eq!(bytes[10 * SIDE + 10], 100);
        assert_eq!((bytes[8 * SIDE + 10], bytes[11 * SIDE + 10]), (0, 0));
        assert_eq!((bytes[9 * SIDE + 2], bytes[9 * SIDE + 18]), (0, 0));
    }

    #[test]
    fn lines_may_leave_the_canvas() {
        let mut canvas = Canvas::new(1.5);
        canvas.stroke(&[(-50.0, -50.0), (90.0, 90.0), (90.0, 90.0)]);
        canvas.stroke(&[(-9.0, 3.0), (-5.0, 3.0)]);
        let bytes = canvas.develop(|_, cover| u8::from(cover > 0.5));
        assert_eq!((bytes[0], bytes[SIDE * SIDE - 1], bytes[SIDE - 1]), (1, 1, 0));
    }
}
