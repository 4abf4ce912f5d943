//! Why pictures cannot be used: the file or folder, and what to do.

use super::container::{MOST_PIXELS, PictureFormat};
use super::decode::LONGEST_FILE;
use recipe::ArrayProblem;
use std::io;
use std::path::PathBuf;

/// Why pictures cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{} {fault}", .path.display())]
pub struct PictureError {
    /// The file or folder that it is about.
    pub path: PathBuf,
    /// A sentence whose subject is the path.
    pub fault: PictureFault,
}

/// A problem with a file or folder.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum PictureFault {
    /// There is nothing at the path.
    #[error("is missing")]
    Missing,
    /// Something else than a folder has its name.
    #[error("is no folder")]
    NoFolder,
    /// A device or pipe has the name of a picture.
    #[error("is no file")]
    NoFile,
    /// The system could not read it.
    #[error("cannot be read: {source}")]
    Read { source: io::Error },
    /// Either could be meant.
    #[error("has both test and val")]
    TwoTests,
    /// There is nothing to test with.
    #[error("has neither test nor val")]
    NoTest,
    /// No folder lies in the one of the training pictures.
    #[error("has no folders, which are the classes")]
    NoClasses,
    /// There is nothing to tell apart.
    #[error("has one class, {class}: there is nothing to tell apart")]
    OneClass { class: String },
    /// A class that nothing is learned of.
    #[error("has no pictures: no name in it ends with .jpg, .jpeg or .png")]
    NoPictures,
    /// A class that is not trained.
    #[error("is no class of the training pictures")]
    UnknownClass,
    /// More pictures than can be numbered.
    #[error("has {pictures} pictures; at most 4294967295 can be numbered")]
    TooMany { pictures: u64 },
    /// It begins otherwise than pictures do.
    #[error("{}", no_picture(.begins))]
    NoPicture { begins: Vec<u8> },
    /// The parts of a file, but no image among them.
    #[error("is a {} file without an image", .format.name())]
    NoImage { format: PictureFormat },
    /// Not Huffman-coded, not of 8 bits, or of two components.
    #[error("is a {} file of a kind that is not decoded", .format.name())]
    Unsupported { format: PictureFormat },
    /// It ends too early.
    #[error("is cut off: a {} file of {bytes} bytes without its end", .format.name())]
    Cut { format: PictureFormat, bytes: u64 },
    /// A side of 0.
    #[error("has {width} x {height} pixels")]
    NoPixels { width: u32, height: u32 },
    /// More than memory is given to.
    #[error("announces {width} x {height} pixels; at most {MOST_PIXELS} are decoded")]
    TooLarge { width: u32, height: u32 },
    /// Longer than any picture of [`MOST_PIXELS`].
    #[error("has {bytes} bytes; at most {LONGEST_FILE} are read")]
    TooLong { bytes: u64 },
    /// Its decoder refuses it.
    #[error("cannot be decoded: {reason}")]
    Damaged { reason: String },
}

fn no_picture(begins: &[u8]) -> String {
    if begins.is_empty() {
        return "is empty".to_owned();
    }
    let bytes: Vec<String> = begins.iter().map(|byte| format!("{byte:02X}")).collect();
    format!("is no JPEG or PNG file: it begins with the bytes {}", bytes.join(" "))
}

impl PictureError {
    /// Advice to the user, as an imperative.
    pub fn cure(&self) -> &'static str {
        match self.fault {
            PictureFault::Missing
            | PictureFault::NoFolder
            | PictureFault::NoTest
            | PictureFault::NoClasses => {
                "put the pictures into FOLDER/train/CLASS/ and FOLDER/test/CLASS/ (or val), and name the folder: \
                 `path = \"FOLDER\"` in [dataset]"
            }
            PictureFault::NoFile | PictureFault::Read { .. } => {
                "check the owner and permissions, or remove it; a link must lead to a file"
            }
            PictureFault::TwoTests => "remove or rename one of them",
            PictureFault::OneClass { .. } => "add a folder for each other class",
            PictureFault::NoPictures => "put JPEG or PNG pictures of this class there, or remove the folder",
            PictureFault::UnknownClass => "name it as the class is named in train, or remove it",
            PictureFault::TooMany { .. } => "leave some out",
            PictureFault::NoPicture { .. }
            | PictureFault::NoImage { .. }
            | PictureFault::Unsupported { .. }
            | PictureFault::Cut { .. }
            | PictureFault::NoPixels { .. }
            | PictureFault::Damaged { .. } => "replace or remove this file",
            PictureFault::TooLarge { .. } | PictureFault::TooLong { .. } => "make it smaller, or remove it",
        }
    }
}

impl From<PictureError> for ArrayProblem {
    fn from(error: PictureError) -> Self {
        Self { reason: error.to_string(), cure: error.cure().to_owned() }
    }
}
