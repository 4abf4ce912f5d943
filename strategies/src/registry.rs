//! Strategies of other crates, by name.

use crate::StepError;
use crate::all_reduce::CommQueue;
use crate::blueprint::Blueprint;
use crate::runtime::Runtime;
use crate::strategy::Roles;
use record::Rank;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The settings of a custom strategy, as the recipe states them.
pub type CustomSettings = BTreeMap<String, f64>;

/// A strategy of another crate.
pub trait CustomStrategy: Send + Sync {
    /// The roles of one rank; an error names the setting that is missing or wrong.
    fn roles(&self, rank: &CustomRank<'_>) -> Result<Roles, StepError>;
}

/// A rank that a custom strategy builds the roles of.
pub struct CustomRank<'a> {
    /// The rank itself.
    pub rank: Rank,
    /// Workers, sizes, the training plan and the all-reduce of the run.
    pub blueprint: &'a Blueprint,
    /// The settings of the recipe.
    pub settings: &'a CustomSettings,
    /// Bells for lanes that share state.
    pub runtime: &'a dyn Runtime,
    /// The queue between the compute lane and a [`CommLane`](crate::CommLane).
    pub comm: &'a CommQueue,
}

impl CustomRank<'_> {
    /// A setting that the strategy needs.
    pub fn setting(&self, name: &str) -> Result<f64, StepError> {
        self.settings.get(name).copied().ok_or_else(|| {
            StepError::Environment(format!(
                "the strategy needs a setting `{name}`; add it to `strategy.settings`"
            ))
        })
    }
}

/// The custom strategies that a `bakeoff-worker` knows.
#[derive(Clone, Default)]
pub struct Registry {
    strategies: BTreeMap<String, Arc<dyn CustomStrategy>>,
}

impl Registry {
    /// The same with one more strategy; one of the same name is replaced.
    #[must_use]
    pub fn with(mut self, name: &str, strategy: impl CustomStrategy + 'static) -> Self {
        self.strategies.insert(name.to_owned(), Arc::new(strategy));
        self
    }

    /// The strategy of that name; the error lists the known ones.
    pub(crate) fn get(&self, name: &str) -> Result<&Arc<dyn CustomStrategy>, StepError> {
        self.strategies.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.strategies.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            StepError::Environment(format!(
                "this bakeoff-worker has no strategy `{name}` (it has: {known}); build one that registers it"
            ))
        })
    }
}
