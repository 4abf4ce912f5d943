//! Reasons why the rows of a sweep cannot be compared.

/// The plan has no arm with the name of the requested baseline.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no arm is called `{name}`; the sweep has {}", .known.join(", "))]
pub struct UnknownBaseline {
    /// Name of the requested baseline.
    pub name: String,
    /// Names of the arms of the plan.
    pub known: Vec<String>,
}
