//! A gradient in parts, each of which a lane can own.

use super::Buckets;
use crate::vector::Vector;
use std::ops::Range;

/// A part of a gradient, or of what came back for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Position of its first element in the whole.
    pub at: usize,
    /// Elements of the part, from position `at` on.
    pub values: Vector,
}

/// All parts of a gradient, those at its end first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GradientParts {
    parts: Vec<Part>,
}

impl Part {
    /// Its place in the whole.
    pub fn span(&self) -> Range<usize> {
        self.at..self.at + self.values.len()
    }

    /// The elements of a layer that lies in it; `None` if a part of the layer lies elsewhere.
    pub(crate) fn layer(&mut self, layer: &Range<usize>) -> Option<&mut [f32]> {
        let span = self.span();
        let inside = span.start <= layer.start && layer.end <= span.end;
        inside.then(|| &mut self.values[layer.start - span.start..layer.end - span.start])
    }

    /// Copies those elements of a layer that lie in it.
    pub(crate) fn copy_from(&mut self, layer: &Range<usize>, gradient: &[f32]) {
        let span = self.span();
        let both = span.start.max(layer.start)..span.end.min(layer.end);
        if !both.is_empty() {
            self.values[both.start - span.start..both.end - span.start]
                .copy_from_slice(&gradient[both.start - layer.start..both.end - layer.start]);
        }
    }
}

impl GradientParts {
    /// Memory for these buckets, with arbitrary content.
    pub fn of(buckets: &Buckets) -> Self {
        let part = |span: &Range<usize>| Part { at: span.start, values: Vector::zeros(span.len()) };
        Self { parts: buckets.spans().iter().map(part).collect() }
    }

    /// A gradient in one part.
    pub fn whole(gradient: Vector) -> Self {
        Self { parts: vec![Part { at: 0, values: gradient }] }
    }

    /// The parts, those at the end of the gradient first.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The same, to change their elements.
    pub fn parts_mut(&mut self) -> &mut [Part] {
        &mut self.parts
    }

    /// All elements from the first to the last.
    pub fn elements(&self) -> impl Iterator<Item = f32> {
        self.parts.iter().rev().flat_map(|part| part.values.iter().copied())
    }

    /// Its elements in one piece of memory.
    pub fn copy_into(&self, whole: &mut [f32]) {
        for part in &self.parts {
            whole[part.span()].copy_from_slice(&part.values);
        }
    }
}

impl FromIterator<Part> for GradientParts {
    fn from_iter<I: IntoIterator<Item = Part>>(parts: I) -> Self {
        Self { parts: parts.into_iter().collect() }
    }
}

impl IntoIterator for GradientParts {
    type Item = Part;
    type IntoIter = std::vec::IntoIter<Part>;

    fn into_iter(self) -> Self::IntoIter {
        self.parts.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_is_written_where_it_lies_and_one_between_parts_is_divided() {
        let mut gradient = GradientParts::of(&Buckets::pieces(6, 2));
        let [last, first] = gradient.parts_mut() else { panic!("two parts") };
        last.layer(&(4..6)).unwrap().copy_from_slice(&[5.0, 6.0]);
        assert!(last.layer(&(2..4)).is_none() && first.layer(&(2..4)).is_none());
        for part in [last, first] {
            part.copy_from(&(2..4), &[3.0, 4.0]);
        }
        gradient.parts_mut()[1].layer(&(0..2)).unwrap().copy_from_slice(&[1.0, 2.0]);
        let mut whole = [0.0; 6];
        gradient.copy_into(&mut whole);
        assert_eq!(whole.map(f32::to_bits), [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0].map(f32::to_bits));
        assert!(gradient.elements().eq(whole));
    }
}
