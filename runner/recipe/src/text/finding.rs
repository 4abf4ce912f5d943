//! A problem while the recipe is being checked: its places are spans of the texts that were read.

use crate::spec::problem::{Affected, Problem, Severity};
use crate::text::source::{Sources, Span};

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
    let findings = without_misspelt(findings);
    findings.into_iter().map(|finding| finding.problem(sources)).collect()
}

/// Without keys that a table misses because they are misspelt there, which is said already.
fn without_misspelt(mut findings: Vec<Finding>) -> Vec<Finding> {
    let misspelt = findings.iter().filter(|finding| finding.code == "R012");
    let meant: Vec<String> =
        misspelt.filter_map(|finding| finding.suggestion.as_deref().map(belongs_here)).collect();
    findings.retain(|finding| {
        let label = finding.spans.first().map_or("", |(_, label)| label);
        finding.code != "R010" || !meant.iter().any(|name| label == name)
    });
    findings
}

/// The label of a table that misses a key of this name.
pub(crate) fn belongs_here(name: &str) -> String {
    format!("`{name}` belongs here")
}
