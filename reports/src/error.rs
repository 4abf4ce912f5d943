//! What can keep a page from being made.

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The arm that was asked for as baseline is not in the plan.
    #[error("no arm is called `{name}`; the sweep has {}", .known.join(", "))]
    UnknownBaseline {
        /// What was asked for.
        name: String,
        /// The plan's arms.
        known: Vec<String>,
    },
    /// A template does not fit the view: a fault of this program.
    #[error("template cannot be rendered: {0}")]
    Template(#[from] minijinja::Error),
    /// The rows cannot be embedded as data.
    #[error("data of the page cannot be written: {0}")]
    Data(#[from] serde_json::Error),
    /// The page is too large to be useful.
    #[error("page has {bytes} bytes, more than {limit}; choose fewer runs, or allow large pages")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The largest that is made without being asked to.
        limit: usize,
    },
}
