//! Examples with their classes, as they are stored.

use super::SampleStore;
use arrays::Features;
use recipe::Shape;

/// Examples of one shape, and the class of each; of a text windows of tokens, and the token behind each of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    /// A flat vector, or channels, rows, columns.
    pub shape: Shape,
    /// Example after example; of an image channel by channel, row by row.
    pub features: SampleStore,
    /// One class for each example, or the same number of targets for each.
    pub labels: Vec<u32>,
}

/// The values of one example.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Example<'a> {
    /// 0 dark, 255 bright.
    Bytes(&'a [u8]),
    /// Values as a model takes them; all are finite.
    Floats(&'a [f32]),
}

impl Samples {
    /// Number of examples; 0 where they have no values.
    pub fn len(&self) -> usize {
        let values = match &self.features {
            SampleStore::Memory(Features::Bytes(bytes)) => bytes.len(),
            SampleStore::Memory(Features::Floats(floats)) => floats.len(),
            SampleStore::Pictures(_) => return self.labels.len(),
        };
        values.checked_div(self.shape.size()).unwrap_or(0)
    }

    /// Targets of an example: one class, or a token for each position.
    pub fn targets(&self) -> usize {
        self.labels.len().checked_div(self.len()).unwrap_or(1)
    }

    /// The targets of the example at a position; `None` behind the last.
    pub fn targets_of(&self, position: usize) -> Option<&[u32]> {
        let targets = self.targets();
        let begin = position.checked_mul(targets)?;
        self.labels.get(begin..begin.checked_add(targets)?)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values at a position; `None` behind the last, and for all pictures in files.
    pub fn example(&self, position: usize) -> Option<Example<'_>> {
        let size = self.shape.size();
        let begin = position.checked_mul(size)?;
        let span = begin..begin.checked_add(size)?;
        match &self.features {
            SampleStore::Memory(Features::Bytes(bytes)) => bytes.get(span).map(Example::Bytes),
            SampleStore::Memory(Features::Floats(floats)) => floats.get(span).map(Example::Floats),
            SampleStore::Pictures(_) => None,
        }
    }

    /// Number of channels; of a flat vector or a text one.
    pub fn channels(&self) -> usize {
        match self.shape {
            Shape::Flat(_) | Shape::Tokens(..) | Shape::Sequence(..) => 1,
            Shape::Image(channels, _, _) => channels,
        }
    }
}
