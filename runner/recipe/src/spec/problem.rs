//! A problem of a recipe, in a form that can be drawn, printed as JSON, or stored.

use serde::{Deserialize, Serialize};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The recipe is refused, and nothing runs.
    Error,
    /// The recipe runs, and the problem is worth knowing.
    Warning,
}

/// A place in a text, with the lines it is on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The file as the user named it, or `<command line>`.
    pub file: String,
    /// Line where it begins, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Characters, as far as the excerpt shows them.
    pub length: usize,
    /// The lines, at most three.
    pub excerpt: String,
    /// A remark on the place; may be empty.
    pub label: String,
}

/// How many of the planned runs a problem touches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Affected {
    /// Number of runs that the problem touches.
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
    /// Whether it keeps the recipe from running.
    pub severity: Severity,
    /// The cause in one sentence.
    pub title: String,
    /// Where it is; the first place is the one to change.
    pub places: Vec<Place>,
    /// More that helps to understand it.
    pub notes: Vec<String>,
    /// Which runs it touches, where it depends on that.
    pub affected: Option<Affected>,
    /// Advice on how to mend it; `None` where there is none.
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
