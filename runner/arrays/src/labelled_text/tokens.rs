//! The label of a record, and its text in tokens.

use super::LabelledTextFault;
use super::records::Record;
use recipe::TextTokens;

/// The longest label, in bytes; a longer one is a text in the wrong column.
pub const LONGEST_LABEL: usize = 256;

/// The label of a record.
pub(super) fn label<'a>(record: &'a Record<'_>) -> Result<&'a str, LabelledTextFault> {
    let line = record.line;
    match record.field(0) {
        [] => Err(LabelledTextFault::NoLabel { line }),
        label if label.len() > LONGEST_LABEL => {
            Err(LabelledTextFault::LongLabel { line, bytes: label.len() as u64 })
        }
        label => str::from_utf8(label).map_err(|_| LabelledTextFault::NotUtf8 { line }),
    }
}

/// Hands the tokens of a record's text to `take`, one after the other. Its columns are as if a space lay between them.
pub(super) fn each(
    record: &Record<'_>,
    unit: TextTokens,
    take: &mut dyn FnMut(&[u8]) -> Result<(), LabelledTextFault>,
) -> Result<(), LabelledTextFault> {
    for column in 1..record.columns() {
        match unit {
            TextTokens::Words => words(characters(record, column)?, take)?,
            TextTokens::Characters | TextTokens::Bytes => {
                if column > 1 {
                    take(b" ")?;
                }
                units(record, column, unit, take)?;
            }
        }
    }
    Ok(())
}

fn units(
    record: &Record<'_>,
    column: usize,
    unit: TextTokens,
    take: &mut dyn FnMut(&[u8]) -> Result<(), LabelledTextFault>,
) -> Result<(), LabelledTextFault> {
    if unit == TextTokens::Bytes {
        return record.field(column).chunks(1).try_for_each(take);
    }
    let mut place = [0; 4];
    characters(record, column)?
        .chars()
        .try_for_each(|character| take(character.encode_utf8(&mut place).as_bytes()))
}

/// A column as UTF-8.
fn characters<'a>(record: &'a Record<'_>, column: usize) -> Result<&'a str, LabelledTextFault> {
    str::from_utf8(record.field(column))
        .map_err(|error| LabelledTextFault::NotUtf8 { line: record.line_of(column, error.valid_up_to()) })
}

/// Runs of letters and digits, each letter in lower case by itself, so that a word does not depend on what stands beside it.
fn words(
    text: &str,
    take: &mut dyn FnMut(&[u8]) -> Result<(), LabelledTextFault>,
) -> Result<(), LabelledTextFault> {
    let mut word = String::new();
    for run in text.split(|character: char| !character.is_alphanumeric()).filter(|run| !run.is_empty()) {
        word.clear();
        word.extend(run.chars().flat_map(char::to_lowercase));
        take(word.as_bytes())?;
    }
    Ok(())
}
