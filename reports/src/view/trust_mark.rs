//! A mark of the first screen: a fact that supports the numbers of the page or weakens them.

use serde::Serialize;

/// A fact that supports the numbers or weakens them.
#[derive(Debug, Serialize)]
pub(crate) struct TrustMark {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) good: bool,
}

impl TrustMark {
    /// `good` tells whether it supports the numbers.
    pub(crate) fn new(name: &str, good: bool, text: impl Into<String>) -> Self {
        Self { name: name.to_owned(), text: text.into(), good }
    }

    pub(super) fn supports(name: &str, text: impl Into<String>) -> Self {
        Self { name: name.to_owned(), text: text.into(), good: true }
    }

    pub(super) fn warns(name: &str, text: impl Into<String>) -> Self {
        Self { name: name.to_owned(), text: text.into(), good: false }
    }
}
