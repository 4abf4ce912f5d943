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
    aside: Option<Box<Aside>>,
}

/// Facts about a problem that few problems have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Aside {
    affected: Option<Affected>,
    /// Path of the key that a table misses.
    missing: Option<&'static str>,
    /// Path of the key that a misspelt one was probably meant to be.
    meant: Option<String>,
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
            aside: None,
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

    /// The part of the plan that it is about.
    pub(crate) fn affecting(mut self, affected: Affected) -> Self {
        self.aside.get_or_insert_default().affected = Some(affected);
        self
    }

    /// It is about the recipe as a whole.
    pub(crate) fn affecting_all(mut self) -> Self {
        let rest = self.aside.take().map(|aside| Box::new(Aside { affected: None, ..*aside }));
        self.aside = rest.filter(|aside| **aside != Aside::default());
        self
    }

    /// A table misses the key of this path.
    pub(crate) fn missing(mut self, path: &'static str) -> Self {
        self.aside.get_or_insert_default().missing = Some(path);
        self
    }

    /// A key is misspelt that was probably meant to be the one of this path.
    pub(crate) fn meaning(mut self, path: Option<String>) -> Self {
        self.aside.get_or_insert_default().meant = path;
        self
    }

    /// Path of the key that a misspelt one was probably meant to be.
    pub(crate) fn meant(&self) -> Option<&str> {
        self.aside.as_ref()?.meant.as_deref()
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
            affected: self.aside.and_then(|aside| aside.affected),
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
    let meant: Vec<String> =
        findings.iter().filter_map(|finding| finding.meant().map(str::to_owned)).collect();
    findings.retain(|finding| {
        let missing = finding.aside.as_ref().and_then(|aside| aside.missing);
        missing.is_none_or(|path| !meant.iter().any(|meant| meant == path))
    });
    findings
}
