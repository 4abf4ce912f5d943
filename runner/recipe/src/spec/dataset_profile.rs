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
    /// Source of its shape.
    pub shaped_by: ShapedBy,
}

/// The targets of an example, which a model predicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Targets {
    /// One number below [`DatasetProfile::classes`].
    Class,
    /// The next token at each of its positions.
    NextTokens,
}

/// Source of the shape of an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ShapedBy {
    /// The kind of the data set: all sets of the kind have one shape.
    Kind,
    /// The user's own arrays.
    Arrays,
    /// `dataset.crop`, of the user's own pictures.
    Crop,
    /// `dataset.context` and the vocabulary of the user's own texts.
    Context,
}

impl ShapedBy {
    /// Whether a part of it is in files of the user, and unknown until these have been looked at.
    pub const fn is_in_files(self) -> bool {
        match self {
            Self::Kind => false,
            Self::Arrays | Self::Crop | Self::Context => true,
        }
    }
}

impl DatasetProfile {
    /// Examples of this shape, as all data sets of their kind have it, each of one of `classes` classes.
    pub const fn of_classes(input: Shape, classes: usize) -> Self {
        Self { input, classes, targets: Targets::Class, shaped_by: ShapedBy::Kind }
    }

    /// The shape of the scores that a model gives for an example.
    pub fn scores(self) -> Shape {
        match self.targets {
            Targets::Class => Shape::Flat(self.classes),
            Targets::NextTokens => Shape::Sequence(self.input.size(), self.classes),
        }
    }
}
