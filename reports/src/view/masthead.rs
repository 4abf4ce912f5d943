//! The head of the page: question, verdict, and facts that support or weaken it.

use super::trust_mark::TrustMark;
use super::trust_marks;
use crate::Options;
use crate::blame;
use crate::calendar;
use crate::findings::Findings;
use crate::headline;
use crate::next_look;
use crate::number_format;
use crate::verdict::Verdict;
use serde::Serialize;
use store::Annotations;

#[derive(Debug, Serialize)]
pub(crate) struct Masthead {
    pub(crate) question: String,
    pub(crate) verdict: String,
    pub(crate) subtitle: String,
    /// Note of the user on the sweep, and other differences between the sides of a comparison, a sentence each.
    pub(crate) remarks: Vec<String>,
    pub(crate) marks: Vec<TrustMark>,
}

impl Masthead {
    pub(crate) fn of(findings: &Findings, verdicts: &[Verdict], options: &Options) -> Self {
        let rows = findings.rows();
        let name = &rows.plan.name;
        let question = if rows.plan.question.is_empty() { name.clone() } else { rows.plan.question.clone() };
        let parts = [
            if rows.plan.question.is_empty() { String::new() } else { name.clone() },
            number_format::plural(rows.plan.arms.len(), "arm"),
            number_format::plural(next_look::made(rows) + trust_marks::absent(rows), "run"),
            calendar::moment(rows.started),
            tagged(&rows.annotations),
            options.generated_by.clone(),
        ];
        let subtitle: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Self {
            question,
            verdict: [headline::headline(findings, verdicts)]
                .into_iter()
                .chain(blame::summary(findings))
                .collect::<Vec<_>>()
                .join(" "),
            subtitle: subtitle.join(" · "),
            remarks: noted(&rows.annotations).into_iter().chain(options.remarks.iter().cloned()).collect(),
            marks: trust_marks::marks(findings),
        }
    }
}

/// The tags of a sweep, in words.
pub(crate) fn tagged(annotations: &Annotations) -> String {
    let tags = &annotations.tags;
    if tags.is_empty() { String::new() } else { format!("tagged {}", tags.join(", ")) }
}

/// Note of the user on a sweep; `None` without one.
pub(crate) fn noted(annotations: &Annotations) -> Option<String> {
    (!annotations.note.is_empty()).then(|| format!("Note: {}", annotations.note))
}
