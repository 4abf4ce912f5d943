//! What is wrong with a recipe, in a form that can be drawn, printed as JSON, or stored.

use crate::source::{Sources, Span};
use serde::{Deserialize, Serialize};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Nothing is run.
    Error,
    /// It is run, and worth knowing.
    Warning,
}

/// A place in a text, with the lines it is on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The file as the user named it, or `<command line>`.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Characters, as far as the excerpt shows them.
    pub length: usize,
    /// The lines, at most three.
    pub excerpt: String,
    /// What is said about the place; may be empty.
    pub label: String,
}

/// How many of the planned runs a problem touches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Affected {
    /// Runs touched.
    pub runs: u64,
    /// Runs of the whole plan.
    pub of: u64,
    /// The axis values that all of them share: `nodes.workers = 8`; empty where there are none.
    pub because: String,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// `R012`; `bakeoff explain R012` says more.
    pub code: String,
    /// Error or warning.
    pub severity: Severity,
    /// The cause in one sentence.
    pub title: String,
    /// Where it is; the first place is the one to change.
    pub places: Vec<Place>,
    /// More that helps to understand it.
    pub notes: Vec<String>,
    /// Which runs it touches, where it depends on that.
    pub affected: Option<Affected>,
    /// What to do.
    pub cure: Option<String>,
    /// The name that was probably meant.
    pub suggestion: Option<String>,
}

/// Everything that is wrong with a recipe, in the order of the text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("the recipe has {} problem(s)", .list.len())]
pub struct Problems {
    /// The problems; errors and warnings.
    pub list: Vec<Problem>,
}

impl Problems {
    /// How many of them are errors.
    pub fn errors(&self) -> usize {
        self.list.iter().filter(|problem| problem.severity == Severity::Error).count()
    }

    /// All problems as JSON: `{"problems": [...]}`.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({ "problems": self.list })
    }
}

/// A problem under construction: its places are spans still. It is an `Err` often, so it is kept small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) code: &'static str,
    pub(crate) title: Box<str>,
    pub(crate) spans: Vec<(Span, String)>,
    pub(crate) notes: Vec<String>,
    pub(crate) cure: Option<Box<str>>,
    pub(crate) suggestion: Option<Box<str>>,
    pub(crate) affected: Option<Box<Affected>>,
}

impl Finding {
    pub(crate) fn new(code: &'static str, title: impl Into<String>) -> Self {
        Self {
            code,
            title: title.into().into(),
            spans: Vec::new(),
            notes: Vec::new(),
            cure: None,
            suggestion: None,
            affected: None,
        }
    }

    pub(crate) fn at(mut self, span: Span, label: impl Into<String>) -> Self {
        self.spans.push((span, label.into()));
        self
    }

    pub(crate) fn at_option(self, span: Option<Span>, label: impl Into<String>) -> Self {
        match span {
            Some(span) => self.at(span, label),
            None => self,
        }
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    pub(crate) fn cure(mut self, cure: impl Into<String>) -> Self {
        self.cure = Some(cure.into().into());
        self
    }

    pub(crate) fn suggest(mut self, name: Option<&str>) -> Self {
        self.suggestion = name.map(Into::into);
        self
    }

    /// Warnings have codes from R200.
    fn severity(&self) -> Severity {
        if self.code >= "R200" { Severity::Warning } else { Severity::Error }
    }

    pub(crate) fn is_error(&self) -> bool {
        self.severity() == Severity::Error
    }

    pub(crate) fn problem(self, sources: &Sources) -> Problem {
        Problem {
            code: self.code.to_owned(),
            severity: self.severity(),
            places: self.spans.iter().filter_map(|(span, label)| sources.place(*span, label)).collect(),
            title: self.title.into(),
            notes: self.notes,
            affected: self.affected.map(|affected| *affected),
            cure: self.cure.map(Into::into),
            suggestion: self.suggestion.map(Into::into),
        }
    }
}

/// Findings as problems, in the order of the texts.
pub(crate) fn report(mut findings: Vec<Finding>, sources: &Sources) -> Vec<Problem> {
    findings.sort_by_key(|finding| finding.spans.first().map(|(span, _)| *span));
    findings.dedup();
    findings.into_iter().map(|finding| finding.problem(sources)).collect()
}
