//! Why an array cannot be used: the file, the place in it, and what to do.

use super::element::Element;
use super::header::HeaderFault;
use super::values::MOST_CLASSES;
use recipe::ArrayProblem;
use std::io;
use std::path::PathBuf;

/// Why an array cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}{} {fault}", .file.display(), .home.words())]
pub struct ArrayError {
    /// Where the array is, or should be.
    pub file: PathBuf,
    /// Which part of the file it is.
    pub home: ArrayHome,
    /// A sentence whose subject is the file.
    pub fault: ArrayFault,
}

/// Which part of a file an array is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayHome {
    /// The whole NPY file.
    Npy,
    /// A safetensors file, as a whole.
    Safetensors,
    /// The samples, within a safetensors file.
    TensorX,
    /// The labels of these, within the same file.
    TensorY,
}

impl ArrayHome {
    const fn words(self) -> &'static str {
        match self {
            Self::Npy | Self::Safetensors => "",
            Self::TensorX => ", tensor `x`,",
            Self::TensorY => ", tensor `y`,",
        }
    }
}

/// Purpose of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayRole {
    /// The values of samples: `[n, d]`, or `[n, channels, rows, columns]`.
    Features,
    /// The class of each sample: `[n]`.
    Labels,
}

/// A problem with an array. Positions are NumPy's indices, from 0.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum ArrayFault {
    /// There is no such file.
    #[error("is missing")]
    Missing,
    /// A folder or a device has the name.
    #[error("is no file")]
    NoFile,
    /// The system could not read it.
    #[error("cannot be read: {source}")]
    Read { source: io::Error },
    /// It begins otherwise than NPY files do.
    #[error("is no NPY file: these begin with the bytes 93 4E 55 4D 50 59 at offset 0")]
    Magic,
    /// A version that is not known.
    #[error("has version {major}.{minor} of the NPY format, at byte 6; 1.0, 2.0 and 3.0 can be read")]
    Version { major: u8, minor: u8 },
    /// The header is longer than that of any plain array.
    #[error("has a header of {bytes} bytes, at byte 8; at most {most} are read")]
    HeaderLength { bytes: u64, most: u64 },
    /// The dictionary is malformed, or its end is missing.
    #[error("has a header that cannot be read: {0}")]
    Header(#[from] HeaderFault),
    /// The head of a safetensors file does not fit it.
    #[error("announces a header of {bytes} bytes at byte 0; at most {most} can be read")]
    TensorHeaderLength { bytes: u64, most: u64 },
    /// Its header is malformed.
    #[error("is no safetensors file: {reason}")]
    NoTensors { reason: String },
    /// It ends early or late.
    #[error("has {got} bytes where its header and its tensors need {expected}")]
    TensorsLength { expected: u64, got: u64 },
    /// A tensor is not there.
    #[error("has no tensor `{name}`; its tensors: {others}")]
    MissingTensor { name: &'static str, others: String },
    /// The file has a tensor without a meaning.
    #[error("has a tensor `{name}` beside `x` and `y`")]
    OtherTensor { name: String },
    /// Elements of a type that is not read, or not for this purpose.
    #[error("has elements of type `{element}`; {role_words} are {known}", role_words = .role.words(), known = .role.elements())]
    ElementType { element: String, role: ArrayRole },
    /// The first index varies fastest.
    #[error("has its elements in Fortran's order")]
    FortranOrder { role: ArrayRole },
    /// A number of dimensions that means nothing here.
    #[error("has shape {}; {} have {}", tuple(.shape), .role.words(), .role.shapes())]
    Dimensions { shape: Vec<u64>, role: ArrayRole },
    /// There is not a single element.
    #[error("has shape {}: nothing is in it", tuple(.shape))]
    Nothing { shape: Vec<u64> },
    /// More samples than can be numbered.
    #[error("has {samples} samples; at most 4294967295 can be numbered")]
    TooMany { samples: u64 },
    /// The shape does not fit the file.
    #[error("has {got} bytes where {} of `{element}` need {}, the {offset} of the header included", tuple(.shape), needed(*.expected))]
    FileLength { expected: Option<u128>, got: u64, shape: Vec<u64>, element: Element, offset: u64 },
    /// The process may not have that much memory.
    #[error("needs {bytes} bytes of memory, which cannot be had")]
    Memory { bytes: u64 },
    /// A value that nothing can be learned from.
    #[error("has {value:?} at {}, which is no finite 32-bit number", index(.at))]
    NotFinite { value: f64, at: Vec<u64> },
    /// A label that names no class.
    #[error("has label {label} at [{at}]; classes are numbered from 0 to at most {}", MOST_CLASSES - 1)]
    Label { label: i128, at: u64 },
    /// All labels are 0.
    #[error("has no label but 0, nor have the others: there is nothing to tell apart")]
    OneClass,
    /// A class that nothing is learned of.
    #[error(
        "has the label {label}, and the training labels end with {highest}: nothing could be learned of it"
    )]
    Untrained { label: u32, highest: u32 },
    /// Features and labels do not belong together.
    #[error("has {labels} labels, and {other} has {samples} samples: there must be one label for each")]
    Counts { labels: u64, other: &'static str, samples: u64 },
    /// Training and test samples differ in shape.
    #[error("has samples of shape {}, but {other} has samples of {}", tuple(.got), tuple(.expected))]
    Example { got: Vec<u64>, other: &'static str, expected: Vec<u64> },
    /// Bytes are normalised and floats are not.
    #[error(
        "has elements of type `{got}`, but {other} has `{expected}`: bytes are normalised, floats are taken as they are"
    )]
    Mixed { got: Element, other: &'static str, expected: Element },
}

impl ArrayRole {
    const fn words(self) -> &'static str {
        match self {
            Self::Features => "features",
            Self::Labels => "labels",
        }
    }

    /// The name of the array in an example.
    const fn name(self) -> &'static str {
        match self {
            Self::Features => "x",
            Self::Labels => "y",
        }
    }

    const fn elements(self) -> &'static str {
        match self {
            Self::Features => "`<f4`, `<f8` or `|u1`",
            Self::Labels => "integers: `|u1`, `|i1`, `<u2`, `<i2`, `<u4`, `<i4`, `<u8` or `<i8`",
        }
    }

    const fn shapes(self) -> &'static str {
        match self {
            Self::Features => "(samples, values), or (samples, channels, rows, columns)",
            Self::Labels => "(samples,)",
        }
    }

    const fn conversion(self) -> &'static str {
        match self {
            Self::Features => "convert it: `x.astype(np.float32)`",
            Self::Labels => {
                "convert it: `y.astype(np.int64)`, or where classes have names `np.unique(y, return_inverse=True)[1]`"
            }
        }
    }
}

impl From<ArrayError> for ArrayProblem {
    fn from(error: ArrayError) -> Self {
        Self { reason: error.to_string(), cure: error.cure() }
    }
}

impl ArrayError {
    /// Advice in the imperative, in NumPy's words where the array is to be written again.
    pub fn cure(&self) -> String {
        match &self.fault {
            ArrayFault::Missing | ArrayFault::NoFile if self.home != ArrayHome::Npy => {
                "write train.safetensors and test.safetensors into one folder with `safetensors.numpy.save_file({\"x\": x, \"y\": y}, \
                 FILE)`, and name the folder: `path = \"FOLDER\"` in [dataset]"
                    .into()
            }
            ArrayFault::TensorHeaderLength { .. }
            | ArrayFault::NoTensors { .. }
            | ArrayFault::TensorsLength { .. }
            | ArrayFault::MissingTensor { .. }
            | ArrayFault::OtherTensor { .. } => {
                "write the file again: `safetensors.numpy.save_file({\"x\": x, \"y\": y}, FILE)`, and nothing else in it".into()
            }
            ArrayFault::Missing | ArrayFault::NoFile => {
                "write train_x.npy, train_y.npy, test_x.npy and test_y.npy into one folder with `np.save`, and name the \
                 folder: `path = \"FOLDER\"` in [dataset]"
                    .into()
            }
            ArrayFault::Read { .. } => "check the file's owner and permissions".into(),
            ArrayFault::Magic
            | ArrayFault::Version { .. }
            | ArrayFault::HeaderLength { .. }
            | ArrayFault::Header(_)
            | ArrayFault::FileLength { .. } => {
                "write the file again: `np.save(FILE, ARRAY)`, of a plain array".into()
            }
            ArrayFault::ElementType { role, .. } => role.conversion().into(),
            ArrayFault::FortranOrder { role } => {
                format!("store it row by row: `np.ascontiguousarray({})`", role.name())
            }
            ArrayFault::Dimensions { shape, role } => reshaping(shape, *role).into(),
            ArrayFault::Nothing { .. } => "store at least one sample of at least one value".into(),
            ArrayFault::TooMany { .. } => "store fewer samples".into(),
            ArrayFault::Memory { .. } => "store fewer samples, or take a machine with more memory".into(),
            ArrayFault::NotFinite { value, .. } if value.is_finite() => {
                "scale the values, which 32 bits hold up to 3.4e38: `x / np.abs(x).max()`".into()
            }
            ArrayFault::NotFinite { .. } => {
                "leave out such samples, or give them values: `np.nan_to_num(x, posinf=0, neginf=0)`".into()
            }
            ArrayFault::Label { .. } => {
                "number the classes from 0: `np.unique(y, return_inverse=True)[1]`, of training and test labels together"
                    .into()
            }
            ArrayFault::Untrained { .. } => "remove these samples, or train on some of their class".into(),
            ArrayFault::OneClass => "store samples of at least two classes".into(),
            ArrayFault::Counts { .. } | ArrayFault::Example { .. } => {
                "store the features and the labels of the same samples".into()
            }
            ArrayFault::Mixed { .. } => "store both with the same type of elements".into(),
        }
    }
}

/// How NumPy makes the shape that is wanted.
fn reshaping(shape: &[u64], role: ArrayRole) -> &'static str {
    match (role, shape.len()) {
        (ArrayRole::Features, 1) => "give each sample its one value: `x.reshape(-1, 1)`",
        (ArrayRole::Features, 3) => "give grey pictures their one channel: `x[:, None, :, :]`",
        (ArrayRole::Features, _) => "make each sample a vector: `x.reshape(len(x), -1)`",
        (ArrayRole::Labels, 2) if shape.last().is_some_and(|columns| *columns > 1) => {
            "store the number of the class: `y.argmax(axis=1)`, if each row has a one at its class"
        }
        (ArrayRole::Labels, _) => "store one number for each sample: `y.reshape(-1)`",
    }
}

fn needed(bytes: Option<u128>) -> String {
    bytes.map_or_else(|| "more than any file has".to_owned(), |bytes| bytes.to_string())
}

/// A shape as Python writes it.
fn tuple(shape: &[u64]) -> String {
    match shape {
        [size] => format!("({size},)"),
        _ => format!("({})", list(shape)),
    }
}

fn index(at: &[u64]) -> String {
    format!("[{}]", list(at))
}

fn list(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}
