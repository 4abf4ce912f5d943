//! Reasons why a page cannot be made.

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The plan has no arm with the name of the requested baseline.
    #[error(transparent)]
    UnknownBaseline(#[from] comparison::UnknownBaseline),
    /// A template does not fit the view: a bug of this program.
    #[error("template cannot be rendered: {0}")]
    Template(#[from] minijinja::Error),
    /// The rows cannot be embedded as data.
    #[error("data of the page cannot be written: {0}")]
    Data(#[from] serde_json::Error),
    /// The page is too large to be useful.
    #[error(
        "page has {bytes} bytes, more than {limit}; select fewer runs, or make it with `bakeoff report --allow-large`"
    )]
    TooLarge {
        /// Size of the page.
        bytes: usize,
        /// The largest size without [`crate::Options::allow_large`].
        limit: usize,
    },
}
