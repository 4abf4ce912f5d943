//! A user's own texts with labels: train.csv and test.csv of a folder, as tokens and classes.
//!
//! Each file is read once from its beginning to its end. The training file decides what the classes and the vocabulary are, so its
//! tokens get numbers in the order in which they are met, and those that they keep once all were counted. Numbers stay below 2^23,
//! so that a 32-bit float holds each of them, as models take them.

mod error;
mod records;
mod tokens;
mod vocabulary;

pub use error::{LabelledTextError, LabelledTextFault};
pub use records::{LONGEST_CSV, LONGEST_RECORD};
pub use tokens::LONGEST_LABEL;
pub use vocabulary::MOST_TOKENS;

use crate::values::MOST_CLASSES;
use recipe::{ArrayProblem, LabelledTextForm, LabelledTextSize, PADDING};
use records::{Record, Records};
use std::collections::BTreeMap;
use std::path::Path;
use vocabulary::{Counting, Vocabulary};

const TRAIN: &str = "train.csv";
const TEST: &str = "test.csv";

/// Texts as tokens, with the class of each.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelledTokens {
    /// As many tokens for each text as the context has, one text after the other.
    pub tokens: Vec<f32>,
    /// One class for each text.
    pub labels: Vec<u32>,
}

/// The texts of a folder.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelledTexts {
    /// The same counts that [`labelled_text_size`] returns.
    pub size: LabelledTextSize,
    /// Texts of `train.csv`, in their order.
    pub train: LabelledTokens,
    /// Texts of `test.csv`, in their order.
    pub test: LabelledTokens,
}

/// Statistics of the texts of a folder, for the person who writes a recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelledTextSurvey {
    /// Counts that become part of a run's specification.
    pub size: LabelledTextSize,
    /// The labels of the classes, in their order.
    pub labels: Vec<String>,
    /// Different tokens of the training file.
    pub different: u32,
    /// Tokens of each training text before it is cut, ascending.
    pub lengths: Vec<u32>,
}

/// How many tokens of each text are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    /// Nothing; they are counted.
    Counts,
    /// This many; shorter texts are padded.
    Tokens(usize),
}

/// How much there is in the texts of a folder, as a recipe asks for it.
///
/// # Errors
/// The first thing that is wrong with them, and what to do.
pub fn labelled_text_size(folder: &Path, form: LabelledTextForm) -> Result<LabelledTextSize, ArrayProblem> {
    Ok(survey_labelled_texts(folder, form).map_err(ArrayProblem::from)?.size)
}

/// Looks at the texts of a folder without keeping them.
///
/// # Errors
/// The first thing that is wrong with them.
pub fn survey_labelled_texts(
    folder: &Path,
    form: LabelledTextForm,
) -> Result<LabelledTextSurvey, LabelledTextError> {
    let train = Training::read(folder, form, Keep::Counts, &mut |_| ())?;
    let Training { read, mut lengths, counting, classes } = train;
    let different = counting.different();
    let known = Known { vocabulary: counting.ranked(form.most), classes };
    let test = read_test(folder, form, Keep::Counts, &known, &mut |_| ())?;
    lengths.sort_unstable();
    let size = known.size(&read, &test);
    Ok(LabelledTextSurvey { size, labels: known.classes.into_keys().collect(), different, lengths })
}

/// Reads the texts of a folder, `context` tokens of each. `watch` sees what a digest of them is made of: for each file the length of
/// its name (64 bits, little-endian), its name, its own length in the same form, and all of its bytes.
///
/// # Errors
/// The first thing that is wrong with them.
pub fn load_labelled_texts(
    folder: &Path,
    form: LabelledTextForm,
    context: u32,
    watch: &mut dyn FnMut(&[u8]),
) -> Result<LabelledTexts, LabelledTextError> {
    let keep = Keep::Tokens(context as usize);
    let Training { read: mut train, counting, classes, .. } = Training::read(folder, form, keep, watch)?;
    let known = Known { vocabulary: counting.ranked(form.most), classes };
    for token in &mut train.tokens {
        *token = known.vocabulary.renumbered(*token as u32) as f32;
    }
    let test = read_test(folder, form, keep, &known, watch)?;
    Ok(LabelledTexts { size: known.size(&train, &test), train, test })
}

/// Vocabulary and classes, which the training file decides for the test file, too.
struct Known {
    vocabulary: Vocabulary,
    /// Number of each class, by its label.
    classes: BTreeMap<String, u32>,
}

impl Known {
    fn size(&self, train: &LabelledTokens, test: &LabelledTokens) -> LabelledTextSize {
        LabelledTextSize {
            // A file of 2 GiB has fewer records than 32 bits can number.
            train: train.labels.len() as u32,
            test: test.labels.len() as u32,
            classes: self.classes.len() as u32,
            vocabulary: self.vocabulary.size(),
        }
    }
}

/// The training file while it is read.
struct Training {
    read: LabelledTokens,
    lengths: Vec<u32>,
    counting: Counting,
    /// Classes by label: numbered in the order in which they are met, at the end in that of the labels.
    classes: BTreeMap<String, u32>,
}

impl Training {
    fn read(
        folder: &Path,
        form: LabelledTextForm,
        keep: Keep,
        watch: &mut dyn FnMut(&[u8]),
    ) -> Result<Self, LabelledTextError> {
        let mut all = Self {
            read: LabelledTokens { tokens: Vec::new(), labels: Vec::new() },
            lengths: Vec::new(),
            counting: Counting::default(),
            classes: BTreeMap::new(),
        };
        let path = folder.join(TRAIN);
        each_record(&path, form, watch, &mut |record| all.take(record, form, keep))
            .and_then(|()| all.judge())
            .map_err(|fault| LabelledTextError { file: path, fault })?;
        all.number_classes();
        Ok(all)
    }

    fn take(
        &mut self,
        record: &Record<'_>,
        form: LabelledTextForm,
        keep: Keep,
    ) -> Result<(), LabelledTextFault> {
        let label = tokens::label(record)?;
        let next = self.classes.len() as u32;
        let class = match self.classes.get(label) {
            Some(class) => *class,
            None if i128::from(next) == MOST_CLASSES => {
                return Err(LabelledTextFault::Classes { line: record.line });
            }
            None => *self.classes.entry(label.to_owned()).or_insert(next),
        };
        push(&mut self.read.labels, class)?;
        let mut row = Row::begin(&mut self.read.tokens, keep)?;
        let mut length = 0_u32;
        tokens::each(record, form.unit, &mut |token| {
            let number = self.counting.count(token, record.line)?;
            length = length.saturating_add(1);
            row.push(number);
            Ok(())
        })?;
        row.end();
        if keep == Keep::Counts {
            push(&mut self.lengths, length)?;
        }
        Ok(())
    }

    fn judge(&self) -> Result<(), LabelledTextFault> {
        match self.classes.len() {
            0 => Err(LabelledTextFault::NoRecords),
            1 => Err(LabelledTextFault::OneClass {
                label: self.classes.keys().next().cloned().unwrap_or_default(),
            }),
            _ => Ok(()),
        }
    }

    /// Gives classes the order of their labels.
    fn number_classes(&mut self) {
        let mut places = vec![0; self.classes.len()];
        for (place, class) in (0..).zip(self.classes.values_mut()) {
            places[*class as usize] = place;
            *class = place;
        }
        for label in &mut self.read.labels {
            *label = places[*label as usize];
        }
    }
}

fn read_test(
    folder: &Path,
    form: LabelledTextForm,
    keep: Keep,
    known: &Known,
    watch: &mut dyn FnMut(&[u8]),
) -> Result<LabelledTokens, LabelledTextError> {
    let mut read = LabelledTokens { tokens: Vec::new(), labels: Vec::new() };
    let path = folder.join(TEST);
    let mut take = |record: &Record<'_>| {
        let label = tokens::label(record)?;
        let unknown = || LabelledTextFault::UnknownLabel { line: record.line, label: label.to_owned() };
        push(&mut read.labels, *known.classes.get(label).ok_or_else(unknown)?)?;
        let mut row = Row::begin(&mut read.tokens, keep)?;
        tokens::each(record, form.unit, &mut |token| {
            row.push(known.vocabulary.of(token));
            Ok(())
        })?;
        row.end();
        Ok(())
    };
    match each_record(&path, form, watch, &mut take) {
        Ok(()) if read.labels.is_empty() => {
            Err(LabelledTextError { file: path, fault: LabelledTextFault::NoRecords })
        }
        Ok(()) => Ok(read),
        Err(fault) => Err(LabelledTextError { file: path, fault }),
    }
}

/// Hands the records of a file to `take`, but not the one that names the columns.
fn each_record(
    path: &Path,
    form: LabelledTextForm,
    watch: &mut dyn FnMut(&[u8]),
    take: &mut dyn FnMut(&Record<'_>) -> Result<(), LabelledTextFault>,
) -> Result<(), LabelledTextFault> {
    let mut records = Records::open(path, watch)?;
    let mut columns = None;
    let mut named = !form.header;
    while let Some(record) = records.next()? {
        let got = record.columns();
        let expected = *columns.get_or_insert(got);
        if got < 2 {
            return Err(LabelledTextFault::NoText { line: record.line });
        }
        if got != expected {
            return Err(LabelledTextFault::Columns { line: record.line, got, expected });
        }
        if std::mem::replace(&mut named, true) {
            take(&record)?;
        }
    }
    Ok(())
}

/// The tokens of one text, as they are put behind those of the texts before it.
struct Row<'a> {
    all: &'a mut Vec<f32>,
    end: usize,
}

impl<'a> Row<'a> {
    fn begin(all: &'a mut Vec<f32>, keep: Keep) -> Result<Self, LabelledTextFault> {
        let context = match keep {
            Keep::Counts => 0,
            Keep::Tokens(context) => context,
        };
        let end = all.len() + context;
        all.try_reserve(context).map_err(|_| LabelledTextFault::Memory { bytes: 4 * end as u64 })?;
        Ok(Self { all, end })
    }

    /// One more, unless the row is full.
    fn push(&mut self, token: u32) {
        if self.all.len() < self.end {
            self.all.push(token as f32);
        }
    }

    fn end(self) {
        self.all.resize(self.end, PADDING as f32);
    }
}

fn push<T>(list: &mut Vec<T>, value: T) -> Result<(), LabelledTextFault> {
    let bytes = size_of::<T>() as u64 * (list.len() as u64 + 1);
    list.try_reserve(1).map_err(|_| LabelledTextFault::Memory { bytes })?;
    list.push(value);
    Ok(())
}

#[cfg(test)]
mod tests;
