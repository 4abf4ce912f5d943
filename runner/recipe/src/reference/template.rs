//! Recipes to start from: `bakeoff init`.

/// A commented recipe that runs as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Template {
    /// Two strategies side by side.
    Compare,
    /// The same strategies on one, two and more workers.
    Scaling,
    /// Batches and rates, each arm judged at its best rate.
    Batch,
}

impl Template {
    /// All of them, the usual one first.
    pub const ALL: [Self; 3] = [Self::Compare, Self::Scaling, Self::Batch];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compare => "compare",
            Self::Scaling => "scaling",
            Self::Batch => "batch",
        }
    }

    /// The template of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|template| template.name() == name)
    }

    /// Purpose of the template, in one line.
    pub fn about(self) -> &'static str {
        match self {
            Self::Compare => "which strategy trains faster",
            Self::Scaling => "how each strategy gains from more workers",
            Self::Batch => "how batch and learning rate change the picture",
        }
    }

    /// Text of the recipe, as TOML.
    pub fn text(self) -> &'static str {
        match self {
            Self::Compare => include_str!("../../templates/compare.toml"),
            Self::Scaling => include_str!("../../templates/scaling.toml"),
            Self::Batch => include_str!("../../templates/batch.toml"),
        }
    }
}
