//! Why a data set cannot be used, and what to do about it.

use pictures::PictureError;
use recipe::{ArrayProfile, ArrayValues, LabelledTextSize, PictureCounts, Shape, TextSize};
use std::io;
use std::path::PathBuf;

/// Why a data set cannot be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum DataError {
    /// A file is not there.
    #[error(
        "{folder} has neither {name} nor {name}.gz; `bakeoff data fetch {} --folder {folder}` brings the files of \
         {set}, or set `dataset.path` to their folder",
        set.to_lowercase(), folder = folder.display()
    )]
    Missing {
        /// Where it was looked for.
        folder: PathBuf,
        name: String,
        /// The data set it belongs to.
        set: &'static str,
    },
    /// The system could not read a file.
    #[error("{} cannot be read: {source}", file.display())]
    Read {
        file: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file is damaged gzip.
    #[error("{} is no intact gzip file: {source}; fetch it again", file.display())]
    Gzip {
        file: PathBuf,
        /// Error of the gzip decoder.
        source: io::Error,
    },
    /// A file is of another kind.
    #[error(
        "{} begins with {got} at offset 0 where {what} begin with {expected}; check that the file has its \
         right name",
        file.display()
    )]
    Magic {
        file: PathBuf,
        /// Kind of file that it should be, in the plural.
        what: &'static str,
        /// The number that such files begin with.
        expected: u32,
        /// The number it begins with.
        got: u32,
    },
    /// A file ends too early or too late.
    #[error(
        "{} has {got} bytes{} where {expected} were expected ({why}); fetch it again",
        file.display(), if *at_least { " or more" } else { "" }
    )]
    Length {
        file: PathBuf,
        /// The bytes it must have, after unpacking.
        expected: u64,
        /// The bytes it has, after unpacking; in a file that is too long the number at which reading ended.
        got: u64,
        /// Whether there may be more than `got`.
        at_least: bool,
        /// Where the expectation comes from.
        why: String,
    },
    /// Images and labels do not belong together.
    #[error(
        "{} has {images} images, but {} has {labels} labels; both must be of one set",
        image_file.display(), label_file.display()
    )]
    Counts {
        /// The file with the images.
        image_file: PathBuf,
        /// How many it has.
        images: u32,
        /// The file with the labels.
        label_file: PathBuf,
        /// How many it has.
        labels: u32,
    },
    /// The images have no rows or no columns.
    #[error("{} has images of {rows} x {columns}, which have no pixels; fetch it again", file.display())]
    NoPixels {
        file: PathBuf,
        /// Rows of its images.
        rows: u32,
        /// Columns of its images.
        columns: u32,
    },
    /// Training and test images differ in size.
    #[error(
        "{} has images of {} x {}, the training images have {} x {}; both must be of one set",
        file.display(), got.0, got.1, expected.0, expected.1
    )]
    Sides {
        /// The file with the test images.
        file: PathBuf,
        /// Rows and columns of the training images.
        expected: (u32, u32),
        /// Rows and columns of the test images.
        got: (u32, u32),
    },
    /// A label that names no class.
    #[error(
        "{} has label {label} at offset {offset} (after unpacking), but there are only {classes} classes; fetch \
         it again",
        file.display()
    )]
    Label {
        file: PathBuf,
        offset: u64,
        label: u8,
        /// How many classes there are.
        classes: usize,
    },
    /// An array of the user's own cannot be used.
    #[error("{error}; {}", error.cure())]
    Array { error: arrays::ArrayError },
    /// The user's arrays are others than when the recipe was checked.
    #[error(
        "the arrays in {} have changed since the recipe was checked: then {}, now {}; run the recipe again",
        folder.display(), words(expected), words(found)
    )]
    Changed { folder: PathBuf, expected: Box<ArrayProfile>, found: Box<ArrayProfile> },
    /// Pictures of the user's own cannot be used.
    #[error("{}", pictures_and_cure(.problems))]
    Pictures { problems: Vec<PictureError> },
    /// The user's pictures are others than when the recipe was checked.
    #[error(
        "the pictures in {} have changed since the recipe was checked: then {} and {} of {} classes, now {} and {} of {}; run the \
         recipe again",
        folder.display(), expected.train, expected.test, expected.classes, found.train, found.test, found.classes
    )]
    OtherPictures { folder: PathBuf, expected: PictureCounts, found: PictureCounts },
    /// The user's text cannot be used.
    #[error("{error}; {}", error.cure())]
    Text { error: arrays::TextError },
    /// The user's text is another than when the recipe was checked.
    #[error(
        "the text {} has changed since the recipe was checked: then {} tokens of a vocabulary of {}, now {} of {}; run the recipe \
         again",
        file.display(), expected.tokens, expected.vocabulary, found.tokens, found.vocabulary
    )]
    OtherText { file: PathBuf, expected: TextSize, found: TextSize },
    /// The user's labelled texts cannot be used.
    #[error("{error}; {}", error.cure())]
    LabelledText { error: arrays::LabelledTextError },
    /// The user's labelled texts are others than when the recipe was checked.
    #[error(
        "the texts in {} have changed since the recipe was checked: then {}, now {}; run the recipe again",
        folder.display(), of_texts(expected), of_texts(found)
    )]
    OtherLabelledTexts { folder: PathBuf, expected: LabelledTextSize, found: LabelledTextSize },
    /// There is nothing to train on, or nothing to test with.
    #[error(
        "{training} samples to train on and {test} to test with are too few; lower `dataset.validation` or give \
         more samples"
    )]
    Empty {
        /// Samples left to train on.
        training: usize,
        /// Samples to test with.
        test: usize,
    },
    /// A sample that does not exist.
    #[error("sample {position} was asked for, but there are only {samples}")]
    Position {
        position: u32,
        /// How many there are.
        samples: usize,
    },
    /// libtorch could not hold the batch.
    #[error("batch cannot become a tensor: {reason}")]
    Tensor { reason: String },
}

/// `60000 and 10000 texts of 4 classes and a vocabulary of 20002`.
fn of_texts(size: &LabelledTextSize) -> String {
    let LabelledTextSize { train, test, classes, vocabulary } = size;
    format!("{train} and {test} texts of {classes} classes and a vocabulary of {vocabulary}")
}

/// The first few problems, and what to do about the first.
fn pictures_and_cure(problems: &[PictureError]) -> String {
    let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let cure = problems.first().map_or("", PictureError::cure);
    format!("{}; {cure}", all.join("; "))
}

/// `60000 and 10000 samples of [1, 28, 28], bytes, 10 classes`.
fn words(arrays: &ArrayProfile) -> String {
    let ArrayProfile { train, test, classes, shape, values } = arrays;
    let shape = match shape {
        Shape::Flat(size) => format!("[{size}]"),
        Shape::Image(channels, rows, columns) => format!("[{channels}, {rows}, {columns}]"),
        // Of texts only, which are no arrays.
        Shape::Tokens(..) | Shape::Sequence(..) => shape.to_string(),
    };
    let values = match values {
        ArrayValues::Bytes => "bytes",
        ArrayValues::Floats => "floats",
    };
    format!("{train} and {test} samples of {shape}, {values}, {classes} classes")
}
