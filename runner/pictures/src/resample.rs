//! A square out of a scaled picture, of which nothing else is computed.
//!
//! Scaling is Pillow's `resize` with the bilinear filter, bit for bit: a triangle as wide as the scale, so that all pixels count
//! where a picture shrinks; first along rows, then along columns, in integers with 22 bits behind the point, rounded to bytes
//! after each. So torchvision's `Resize` and a crop of the same place make the same bytes, on every machine. (Of pictures several
//! times as high as wide, Pillow 13 scales columns first, which rounds otherwise.)

use super::decode::Picture;

/// Bits behind the point (Pillow's `PRECISION_BITS`: 32 less those of a byte and two for sums above it).
const PRECISION: u32 = 32 - 8 - 2;

/// A place in a picture, or how far it can be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Offset {
    /// Pixels from the left.
    pub across: usize,
    /// Pixels from the top.
    pub down: usize,
}

/// Width and height of a picture whose shorter side becomes `shorter`; the longer is rounded down, as torchvision does.
pub fn scaled_sides(width: usize, height: usize, shorter: usize) -> (usize, usize) {
    let longer = |long: usize, short: usize| (shorter as u128 * long as u128 / short.max(1) as u128) as usize;
    if width <= height { (shorter, longer(height, width)) } else { (longer(width, height), shorter) }
}

impl Picture {
    /// The square of `side` pixels whose left upper corner is at `corner` of the picture scaled so that its shorter side is
    /// `shorter`: `[3, side, side]`, channel by channel. A square that leaves the scaled picture is black there.
    pub fn window(&self, shorter: usize, side: usize, corner: Offset) -> Vec<u8> {
        let (width, height) = scaled_sides(self.width, self.height, shorter);
        let columns = Weights::of(self.width, width, corner.across, side);
        let rows = Weights::of(self.height, height, corner.down, side);
        let (first, last) = rows.span();
        let narrow: Vec<u8> = (first..last).flat_map(|row| self.along_row(row, &columns)).collect();
        let mut square = vec![0; 3 * side * side];
        for (y, taps) in rows.taps.iter().enumerate() {
            for x in 0..columns.taps.len() {
                for channel in 0..3 {
                    let value = |row: usize| narrow[((row - first) * columns.taps.len() + x) * 3 + channel];
                    square[(channel * side + y) * side + x] = taps.sum(value);
                }
            }
        }
        square
    }

    /// Of a row, the pixels that columns of the window are sums of.
    fn along_row<'a>(&'a self, row: usize, columns: &'a Weights) -> impl Iterator<Item = u8> + 'a {
        let pixels = &self.pixels[row * self.width * 3..];
        columns
            .taps
            .iter()
            .flat_map(move |taps| (0..3).map(move |channel| taps.sum(|column| pixels[column * 3 + channel])))
    }
}

/// For each place of a stretch of the scaled side, the weighted sum that it is.
struct Weights {
    taps: Vec<Taps>,
}

/// Neighbouring places of the unscaled side with their weights.
struct Taps {
    first: usize,
    weights: Vec<i32>,
}

impl Weights {
    /// The places `begin..begin + count` of a side of `to`, scaled from one of `from`; those behind its end are left out.
    fn of(from: usize, to: usize, begin: usize, count: usize) -> Self {
        let end = begin.saturating_add(count).min(to);
        Self { taps: (begin.min(end)..end).map(|place| Taps::of(from, to, place)).collect() }
    }

    /// All places of the unscaled side that count.
    fn span(&self) -> (usize, usize) {
        let first = self.taps.iter().map(|taps| taps.first).min().unwrap_or_default();
        let last = self.taps.iter().map(|taps| taps.first + taps.weights.len()).max().unwrap_or_default();
        (first, last)
    }
}

impl Taps {
    /// `precompute_coeffs` and `normalize_coeffs_8bpc` of Pillow's Resample.c, of one place.
    fn of(from: usize, to: usize, place: usize) -> Self {
        let scale = from as f64 / to as f64;
        let reach = scale.max(1.0);
        let center = (place as f64 + 0.5) * scale;
        let first = (center - reach + 0.5).max(0.0) as usize;
        let last = ((center + reach + 0.5) as usize).min(from);
        let height = |column: usize| {
            let distance = (column as f64 - center + 0.5) * (1.0 / reach);
            (1.0 - distance.abs()).max(0.0)
        };
        let heights: Vec<f64> = (first..last).map(height).collect();
        let sum: f64 = heights.iter().sum();
        let fixed = |height: &f64| (0.5 + height / sum * f64::from(1 << PRECISION)) as i32;
        Self { first, weights: heights.iter().map(fixed).collect() }
    }

    /// The weighted mean of the values at its places, rounded.
    fn sum(&self, value: impl Fn(usize) -> u8) -> u8 {
        let half = 1_i32 << (PRECISION - 1);
        let places = self.first..;
        let sum = self.weights.iter().zip(places).fold(half, |sum, (weight, place)| {
            sum.wrapping_add(weight.wrapping_mul(i32::from(value(place))))
        });
        (sum >> PRECISION).clamp(0, 255) as u8
    }
}
