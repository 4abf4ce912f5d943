//! Reasons why the rows of a sweep cannot be compared.

/// The plan has no arm with the name of the requested baseline.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no arm is called `{name}`; the sweep has {}", .known.join(", "))]
pub struct UnknownBaseline {
    /// The requested baseline.
    pub name: String,
    /// The arms of the plan.
    pub known: Vec<String>,
}
