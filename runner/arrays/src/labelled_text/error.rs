//! Why labelled texts cannot be used: the file, the line in it, and what to do.

use super::records::{LONGEST_CSV, LONGEST_RECORD, MOST_COLUMNS};
use super::tokens::LONGEST_LABEL;
use super::vocabulary::MOST_TOKENS;
use crate::values::MOST_CLASSES;
use recipe::ArrayProblem;
use std::io;
use std::path::PathBuf;

/// Why labelled texts cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{} {fault}", .file.display())]
pub struct LabelledTextError {
    /// Where the file is, or should be.
    pub file: PathBuf,
    /// A sentence whose subject is the file.
    pub fault: LabelledTextFault,
}

/// A problem with a file. Lines are counted from 1; that of a record is the one in which it begins.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum LabelledTextFault {
    #[error("is missing")]
    Missing,
    /// A folder or a device has the name.
    #[error("is no file")]
    NoFile,
    /// The system could not read it.
    #[error("cannot be read: {source}")]
    Read { source: io::Error },
    #[error("has {bytes} bytes; at most {LONGEST_CSV} are read")]
    TooLong { bytes: u64 },
    /// The process may not have that much memory.
    #[error("needs {bytes} bytes of memory, which cannot be had")]
    Memory { bytes: u64 },
    #[error("has no record with a label and a text")]
    NoRecords,
    #[error("has a NUL byte in line {line}, which no text has")]
    Nul { line: u64 },
    #[error("is not UTF-8 in line {line}")]
    NotUtf8 { line: u64 },
    #[error("has more than {LONGEST_RECORD} bytes in the record of line {line}")]
    LongRecord { line: u64 },
    #[error("has more than {MOST_COLUMNS} columns in line {line}")]
    ManyColumns { line: u64 },
    #[error("ends inside of quotes that are opened in the record of line {line}")]
    OpenQuote { line: u64 },
    #[error("has one column in line {line}, where a label and a text are needed")]
    NoText { line: u64 },
    #[error("has {got} columns in line {line}, and {expected} in its first")]
    Columns { line: u64, got: usize, expected: usize },
    #[error("has no label in line {line}")]
    NoLabel { line: u64 },
    #[error("has a label of {bytes} bytes in line {line}; the longest has {LONGEST_LABEL}")]
    LongLabel { line: u64, bytes: u64 },
    #[error("has more than {MOST_CLASSES} different labels: the one in line {line} is one more")]
    Classes { line: u64 },
    #[error("has more than {MOST_TOKENS} different tokens: one in the text of line {line} is one more")]
    Tokens { line: u64 },
    #[error("has the label {label:?} only: there is nothing to tell apart")]
    OneClass { label: String },
    #[error("has the label {label:?} in line {line}, which train.csv does not have")]
    UnknownLabel { line: u64, label: String },
}

impl LabelledTextError {
    /// Advice in the imperative, without a full stop.
    pub fn cure(&self) -> &'static str {
        match self.fault {
            LabelledTextFault::Missing | LabelledTextFault::NoFile => {
                "put train.csv and test.csv into one folder, and name the folder: `path = \"FOLDER\"` in [dataset]"
            }
            LabelledTextFault::Read { .. } => "check the file's owner and permissions",
            LabelledTextFault::TooLong { .. } | LabelledTextFault::Memory { .. } => "take a part of the file",
            LabelledTextFault::NoRecords => {
                "write lines like `label,text`; with `dataset.header = true` the first line is none of them"
            }
            LabelledTextFault::Nul { .. } => {
                "convert the file to UTF-8 if it is UTF-16, else take the byte out"
            }
            LabelledTextFault::NotUtf8 { .. } => {
                "convert the file to UTF-8, or take `dataset.tokens = \"bytes\"` if it is in a text"
            }
            LabelledTextFault::LongRecord { .. } => {
                "close the quotes of the field, or shorten the text: only its first `dataset.context` tokens count"
            }
            LabelledTextFault::OpenQuote { .. } => {
                "close the quotes; a quote inside of a quoted field is written twice"
            }
            LabelledTextFault::ManyColumns { .. } | LabelledTextFault::Columns { .. } => {
                "write texts with commas in double quotes"
            }
            LabelledTextFault::NoText { .. } => "write the label, a comma and the text",
            LabelledTextFault::NoLabel { .. } => "give the record its label, or take it out",
            LabelledTextFault::LongLabel { .. } => "write the label in the first column, the text behind it",
            LabelledTextFault::Classes { .. } => "join labels: each is a class",
            LabelledTextFault::Tokens { .. } => {
                "take `dataset.tokens = \"characters\"`, or a part of the file"
            }
            LabelledTextFault::OneClass { .. } => "give records of at least two labels",
            LabelledTextFault::UnknownLabel { .. } => {
                "mend or take out the record, or add some of that label to train.csv; a first line that names the columns needs \
                 `dataset.header = true`"
            }
        }
    }
}

impl From<LabelledTextError> for ArrayProblem {
    fn from(error: LabelledTextError) -> Self {
        Self { reason: error.to_string(), cure: error.cure().to_owned() }
    }
}
