//! Records of a CSV file (RFC 4180), read line by line: no more than one record is held, and its length is bounded.
//!
//! `csv-core` decides what a field is. It is fed whole lines, so that the line in which a record begins is known, and what the file
//! ends inside of: only within quotes can a line leave a record unfinished.

use super::LabelledTextFault;
use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

/// The longest file, in bytes.
pub const LONGEST_CSV: u64 = 2 << 30;
/// The longest record, and the longest line, in bytes.
pub const LONGEST_RECORD: usize = 1 << 20;
/// The most columns that a record may have.
pub(super) const MOST_COLUMNS: usize = 64;

/// A file of which some records were read.
pub(super) struct Records<'w> {
    input: BufReader<File>,
    watch: &'w mut dyn FnMut(&[u8]),
    core: Reader,
    /// The line that is being read, with its end, and how much of it was.
    text: Vec<u8>,
    at: usize,
    /// Its number, from 1 on; 0 before the first.
    line: u64,
    /// Bytes of all lines so far.
    bytes: u64,
    fields: Box<[u8]>,
    ends: Box<[usize]>,
}

/// A record, as long as the next one is not read.
pub(super) struct Record<'a> {
    /// The line in which it begins, from 1 on.
    pub(super) line: u64,
    fields: &'a [u8],
    ends: &'a [usize],
}

impl Record<'_> {
    pub(super) fn columns(&self) -> usize {
        self.ends.len()
    }

    /// A field without its quotes; empty behind the last.
    pub(super) fn field(&self, column: usize) -> &[u8] {
        &self.fields[self.begin(column)..self.ends.get(column).copied().unwrap_or(self.fields.len())]
    }

    fn begin(&self, column: usize) -> usize {
        let before = column.checked_sub(1).map(|before| self.ends.get(before));
        before.map_or(0, |end| end.copied().unwrap_or(self.fields.len()))
    }

    /// The line of a byte of a field.
    pub(super) fn line_of(&self, column: usize, offset: usize) -> u64 {
        let before = self.fields.iter().take(self.begin(column) + offset);
        self.line + before.filter(|byte| **byte == b'\n').count() as u64
    }
}

impl<'w> Records<'w> {
    /// Opens a file; `watch` sees its name, its length and its bytes as they are read.
    pub(super) fn open(path: &Path, watch: &'w mut dyn FnMut(&[u8])) -> Result<Self, LabelledTextFault> {
        let unreadable = |source: std::io::Error| match source.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => LabelledTextFault::Missing,
            _ => LabelledTextFault::Read { source },
        };
        // Opening a pipe would wait for its writer.
        let about = fs::metadata(path).map_err(unreadable)?;
        if !about.is_file() {
            return Err(LabelledTextFault::NoFile);
        }
        if about.len() > LONGEST_CSV {
            return Err(LabelledTextFault::TooLong { bytes: about.len() });
        }
        let input = BufReader::with_capacity(1 << 16, File::open(path).map_err(unreadable)?);
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        watch(&(name.len() as u64).to_le_bytes());
        watch(name);
        watch(&about.len().to_le_bytes());
        Ok(Self {
            input,
            watch,
            core: ReaderBuilder::new().build(),
            text: Vec::new(),
            at: 0,
            line: 0,
            bytes: 0,
            fields: vec![0; LONGEST_RECORD].into(),
            ends: vec![0; MOST_COLUMNS].into(),
        })
    }

    /// The next record; lines with nothing in them are none.
    pub(super) fn next(&mut self) -> Result<Option<Record<'_>>, LabelledTextFault> {
        let mut filled = 0;
        let mut columns = 0;
        let mut line = self.line;
        loop {
            let between = filled == 0 && columns == 0;
            if self.at == self.text.len() {
                if !self.next_line()? {
                    return if between { Ok(None) } else { Err(LabelledTextFault::OpenQuote { line }) };
                }
                line = if between { self.line } else { line };
            }
            let (result, taken, written, ended) = self.core.read_record(
                &self.text[self.at..],
                &mut self.fields[filled..],
                &mut self.ends[columns..],
            );
            self.at += taken;
            filled += written;
            columns += ended;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => return Err(LabelledTextFault::LongRecord { line }),
                ReadRecordResult::OutputEndsFull => return Err(LabelledTextFault::ManyColumns { line }),
                ReadRecordResult::Record => {
                    let fields = &self.fields[..filled];
                    let ends = &self.ends[..columns];
                    return Ok(Some(Record { line, fields, ends }));
                }
                // Of input without a byte only, which it is never given.
                ReadRecordResult::End => return Ok(None),
            }
        }
    }

    /// Reads the next line; `false` where there is none.
    fn next_line(&mut self) -> Result<bool, LabelledTextFault> {
        let line = self.line + 1;
        self.text.clear();
        self.at = 0;
        let mut part = self.input.by_ref().take(LONGEST_RECORD as u64 + 1);
        part.read_until(b'\n', &mut self.text).map_err(|source| LabelledTextFault::Read { source })?;
        (self.watch)(&self.text);
        self.bytes += self.text.len() as u64;
        // It may have grown since its length was asked for.
        if self.bytes > LONGEST_CSV {
            return Err(LabelledTextFault::TooLong { bytes: self.bytes });
        }
        if self.text.len() > LONGEST_RECORD {
            return Err(LabelledTextFault::LongRecord { line });
        }
        if self.text.contains(&0) {
            return Err(LabelledTextFault::Nul { line });
        }
        let Some(last) = self.text.last() else { return Ok(false) };
        if *last != b'\n' {
            self.text.push(b'\n');
        }
        self.line = line;
        Ok(true)
    }
}
