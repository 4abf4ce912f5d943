//! Flat vectors of 32-bit floats, and which slice of one belongs to which layer.

use sha2::{Digest, Sha256};
use std::ops::{Deref, DerefMut, Range};

/// Weights, gradients, or anything else of their length, layer after layer in one piece of memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vector(Vec<f32>);

impl Vector {
    /// A vector of `len` zeros.
    pub fn zeros(len: usize) -> Self {
        Self(vec![0.0; len])
    }

    /// Adds `x` element by element. Both must have the same length.
    pub fn add(&mut self, x: &[f32]) {
        add(&mut self.0, x);
    }

    /// Multiplies each element by `factor`.
    pub fn scale(&mut self, factor: f32) {
        crate::arithmetic::scale(&mut self.0, factor);
    }

    /// SHA-256 over the elements as little-endian bytes, in hexadecimal: equal digests are the report's
    /// word for equal weights.
    pub fn sha256(&self) -> String {
        let mut hasher = Sha256::new();
        let mut bytes = [0_u8; 4096];
        for piece in self.0.chunks(bytes.len() / 4) {
            for (four, value) in bytes.chunks_exact_mut(4).zip(piece) {
                four.copy_from_slice(&value.to_le_bytes());
            }
            hasher.update(&bytes[..piece.len() * 4]);
        }
        recipe::hex(&hasher.finalize())
    }

    /// The elements, in a plain vector.
    pub fn into_inner(self) -> Vec<f32> {
        self.0
    }
}

impl From<Vec<f32>> for Vector {
    fn from(values: Vec<f32>) -> Self {
        Self(values)
    }
}

impl Deref for Vector {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        &self.0
    }
}

impl DerefMut for Vector {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.0
    }
}

/// `into[i] += x[i]`, in the order of the index.
pub fn add(into: &mut [f32], x: &[f32]) {
    debug_assert_eq!(into.len(), x.len(), "vectors of one length");
    crate::arithmetic::add(into, x);
}

/// The `k`-th of `p` nearly equal pieces of `0..n`: the first `n mod p` pieces are one element longer.
/// Pieces may be empty.
pub fn piece(n: usize, p: usize, k: usize) -> Range<usize> {
    let length = n / p;
    let longer = n % p;
    let begin = k * length + k.min(longer);
    begin..begin + length + usize::from(k < longer)
}

/// Activations or their gradients on the host, one row per example.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// Number of values per row.
    pub width: usize,
    /// Values of all rows, one row after the other.
    pub values: Vec<f32>,
}

impl Block {
    /// `rows` rows of `width` values, all 0.
    pub fn zeros(rows: usize, width: usize) -> Self {
        Self { width, values: vec![0.0; rows * width] }
    }

    /// One for each example; 0 where rows have no values.
    pub fn rows(&self) -> usize {
        self.values.len() / self.width.max(1)
    }

    /// The values of some rows.
    pub fn rows_of(&self, rows: Range<usize>) -> &[f32] {
        &self.values[rows.start * self.width..rows.end * self.width]
    }

    /// The same, to change them.
    pub fn rows_of_mut(&mut self, rows: Range<usize>) -> &mut [f32] {
        &mut self.values[rows.start * self.width..rows.end * self.width]
    }

    /// Some columns of all rows.
    #[must_use]
    pub fn columns(&self, columns: Range<usize>) -> Self {
        let rows = self.values.chunks(self.width.max(1));
        let mut values = Vec::with_capacity(self.rows() * columns.len());
        rows.for_each(|row| values.extend_from_slice(&row[columns.clone()]));
        Self { width: columns.len(), values }
    }
}

/// One layer of a [`Layout`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutLayer {
    /// Name of the layer in its model, such as `linear1`.
    pub name: String,
    /// Its weights within the flat vector.
    pub span: Range<usize>,
}

/// Which slice of a flat vector belongs to which layer; the layers tile the vector in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    layers: Vec<LayoutLayer>,
}

impl Layout {
    /// Lays layers of the given names and sizes side by side.
    pub fn new(sizes: impl IntoIterator<Item = (String, usize)>) -> Self {
        let mut at = 0;
        let layers = sizes
            .into_iter()
            .map(|(name, size)| {
                let span = at..at + size;
                at = span.end;
                LayoutLayer { name, span }
            })
            .collect();
        Self { layers }
    }

    /// The layers, from the input to the output.
    pub fn layers(&self) -> &[LayoutLayer] {
        &self.layers
    }

    /// Number of weights of all layers.
    pub fn size(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.span.end)
    }

    /// The weights of some neighbouring layers.
    pub fn span(&self, layers: Range<usize>) -> Range<usize> {
        if layers.is_empty() {
            return 0..0;
        }
        self.layers[layers.start].span.start..self.layers[layers.end - 1].span.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_tile_and_the_first_are_longer() {
        for p in 1..9 {
            for n in 0..3 * p {
                let mut at = 0;
                let mut longest = usize::MAX;
                for k in 0..p {
                    let piece = piece(n, p, k);
                    assert_eq!(piece.start, at);
                    assert!(piece.len() <= longest && piece.len() + 1 >= n.div_ceil(p));
                    (at, longest) = (piece.end, piece.len());
                }
                assert_eq!(at, n);
            }
        }
    }

    #[test]
    fn the_digest_is_over_little_endian_bytes() {
        let vector = Vector::from(vec![1.0; 2000]);
        let bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(vector.sha256(), recipe::hex(&Sha256::digest(&bytes)));
    }

    #[test]
    fn spans_of_neighbours_are_one_slice() {
        let layout = Layout::new([("a".into(), 3), ("b".into(), 0), ("c".into(), 2)]);
        assert_eq!(layout.size(), 5);
        assert_eq!((layout.span(0..3), layout.span(1..3), layout.span(2..2)), (0..5, 3..5, 0..0));
    }
}
