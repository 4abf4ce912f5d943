//! Strategies and codecs of other crates, by name.

use crate::StepError;
use crate::all_reduce::CommQueue;
use crate::blueprint::Blueprint;
use crate::compress::Compressor;
use crate::runtime::Runtime;
use crate::strategy::Roles;
use recipe::CustomCodec;
use record::Rank;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The settings of a custom strategy or codec, as the recipe states them.
pub type CustomSettings = BTreeMap<String, f64>;

/// A strategy of another crate.
pub trait CustomStrategy: Send + Sync {
    /// The roles of one rank; an error names the setting that is missing or wrong.
    fn roles(&self, rank: &CustomRank<'_>) -> Result<Roles, StepError>;

    /// The most vectors as long as the weights that a worker holds for the strategy, whatever its settings, beside those that every
    /// rank has: the weights, the gradient, the optimizer's, a vector that is sent, one that is received, and a snapshot. They count in
    /// the memory check before a run. 0 unless the strategy says otherwise.
    fn own_vectors(&self) -> u64 {
        0
    }

    /// Number of the set of workers that must end with the same weights as this one, bit for bit: their weights are compared, and the
    /// page says whether they agree. `None`, which nothing is compared for, unless the strategy says otherwise.
    fn replica_group(&self, _rank: Rank, _workers: usize) -> Option<u32> {
        None
    }
}

/// A rank that a custom strategy builds the roles of.
pub struct CustomRank<'a> {
    /// Workers come first, then servers.
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
        setting(self.settings, name).map_err(|missing| missing.of("strategy"))
    }
}

/// Builds a codec of another crate from its settings; an error names the setting that is missing or wrong.
pub type NewCodec = fn(&CustomSettings) -> Result<Box<dyn Compressor>, StepError>;

/// A setting that a custom codec needs.
pub fn codec_setting(settings: &CustomSettings, name: &str) -> Result<f64, StepError> {
    setting(settings, name).map_err(|missing| missing.of("compression"))
}

/// A setting that a recipe does not have.
struct Missing<'a>(&'a str);

impl Missing<'_> {
    /// The error for what stands in this table of the recipe.
    fn of(self, table: &str) -> StepError {
        StepError::Environment(format!(
            "`{table}.settings` has no `{}`; add it as `{} = number`",
            self.0, self.0
        ))
    }
}

fn setting<'a>(settings: &CustomSettings, name: &'a str) -> Result<f64, Missing<'a>> {
    settings.get(name).copied().ok_or(Missing(name))
}

/// The custom strategies and codecs that a `bakeoff-worker` knows.
#[derive(Clone, Default)]
pub struct Registry {
    strategies: BTreeMap<String, Arc<dyn CustomStrategy>>,
    codecs: BTreeMap<String, NewCodec>,
}

impl Registry {
    /// The same with one more strategy; one of the same name is replaced.
    #[must_use]
    pub fn with(mut self, name: &str, strategy: impl CustomStrategy + 'static) -> Self {
        self.strategies.insert(name.to_owned(), Arc::new(strategy));
        self
    }

    /// The same with one more codec; one of the same name is replaced. Each lane of each rank has its own.
    #[must_use]
    pub fn with_codec(mut self, name: &str, codec: NewCodec) -> Self {
        self.codecs.insert(name.to_owned(), codec);
        self
    }

    /// The strategies by name.
    pub fn strategies(&self) -> impl Iterator<Item = (&str, &dyn CustomStrategy)> {
        self.strategies.iter().map(|(name, strategy)| (name.as_str(), &**strategy))
    }

    /// The names of the codecs.
    pub fn codecs(&self) -> impl Iterator<Item = &str> {
        self.codecs.keys().map(String::as_str)
    }

    /// The strategy of that name; the error lists the known ones.
    pub(crate) fn get(&self, name: &str) -> Result<&Arc<dyn CustomStrategy>, StepError> {
        self.strategies.get(name).ok_or_else(|| unknown("strategy", name, self.strategies.keys()))
    }

    /// A codec as the recipe describes it; the error lists the known ones.
    pub(crate) fn codec(&self, described: Option<&CustomCodec>) -> Result<Box<dyn Compressor>, StepError> {
        let Some(CustomCodec { name, settings }) = described else {
            return Err(StepError::Environment("the run names no codec of another crate".to_owned()));
        };
        let new = self.codecs.get(name).ok_or_else(|| unknown("codec", name, self.codecs.keys()))?;
        new(settings)
    }
}

fn unknown<'a>(noun: &str, name: &str, known: impl Iterator<Item = &'a String>) -> StepError {
    let known: Vec<&str> = known.map(String::as_str).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    StepError::Environment(format!(
        "this bakeoff-worker has no {noun} `{name}` (it has: {known}); build one that registers it"
    ))
}
