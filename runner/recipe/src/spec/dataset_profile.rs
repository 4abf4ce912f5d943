//! Properties of a data set that a model depends on: shape, classes and targets.

use crate::Shape;

/// Properties of a data set that a model depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DatasetProfile {
    /// The shape of an example.
    pub input: Shape,
    /// Number of classes; labels are below it.
    pub classes: usize,
    /// The targets of an example.
    pub targets: Targets,
}

/// The targets of an example, which a model predicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Targets {
    /// One number below [`DatasetProfile::classes`].
    Class,
    /// The next token at each of its positions.
    NextTokens,
}

impl DatasetProfile {
    /// Examples of this shape, each of one of `classes` classes.
    pub const fn of_classes(input: Shape, classes: usize) -> Self {
        Self { input, classes, targets: Targets::Class }
    }

    /// The shape of the scores that a model gives for an example.
    pub fn scores(self) -> Shape {
        match self.targets {
            Targets::Class => Shape::Flat(self.classes),
            Targets::NextTokens => Shape::Sequence(self.input.size(), self.classes),
        }
    }
}
