//! Texts that a recipe is made of, and places in them.

use crate::spec::problem::Place;
use std::path::PathBuf;

/// A place in one of the [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    /// Number of the text among the [`Sources`].
    pub(crate) source: u32,
    /// Offset of the first byte in the text.
    pub(crate) start: u32,
    /// Offset one past the last byte.
    pub(crate) end: u32,
}

/// One text: a file, or an argument of the command line.
#[derive(Debug)]
struct Source {
    name: String,
    text: String,
    folder: PathBuf,
}

/// Every text that was read for one recipe.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    list: Vec<Source>,
}

/// Excerpts show at most this many lines of a place.
const LONGEST_EXCERPT: usize = 3;

impl Sources {
    /// Adds a text; paths in it are relative to `folder`.
    pub(crate) fn add(&mut self, name: String, text: String, folder: PathBuf) -> u32 {
        self.list.push(Source { name, text, folder });
        (self.list.len() - 1) as u32
    }

    /// The text of a source.
    pub(crate) fn text(&self, source: u32) -> &str {
        self.list.get(source as usize).map_or("", |source| &source.text)
    }

    /// Folder that relative paths in a source start from.
    pub(crate) fn folder(&self, source: u32) -> PathBuf {
        self.list.get(source as usize).map(|source| source.folder.clone()).unwrap_or_default()
    }

    /// The place of a span, with the lines it is on.
    pub(crate) fn place(&self, span: Span, label: &str) -> Option<Place> {
        let source = self.list.get(span.source as usize)?;
        let text = source.text.as_str();
        let start = boundary(text, span.start as usize);
        let end = boundary(text, span.end as usize).max(start);
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let mut line_end = text[start..].find('\n').map_or(text.len(), |newline| start + newline);
        for _ in 1..LONGEST_EXCERPT {
            if line_end < end {
                line_end =
                    text[line_end + 1..].find('\n').map_or(text.len(), |newline| line_end + 1 + newline);
            }
        }
        let end = end.min(line_end).max(start);
        Some(Place {
            file: source.name.clone(),
            line: text[..start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            length: text[start..end].chars().count(),
            excerpt: text[line_start..line_end].trim_end_matches('\r').to_owned(),
            label: label.to_owned(),
        })
    }
}

/// The nearest character boundary at or before `index`.
fn boundary(text: &str, index: usize) -> usize {
    let index = index.min(text.len());
    (0..=index).rev().find(|&index| text.is_char_boundary(index)).unwrap_or(0)
}
