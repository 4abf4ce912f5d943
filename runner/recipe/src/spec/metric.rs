//! The metrics of a model, and the target of a run.

use crate::spec::family::family;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// A metric of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Share of the test set that is classified right, 0 to 1.
    TestAccuracy,
    /// Mean loss over the test set, in nats per sample; of texts, per token.
    TestLoss,
    /// Share of the held-out samples that is classified right.
    ValidationAccuracy,
    /// Mean loss over the held-out samples, in nats per sample.
    ValidationLoss,
    /// exp of the test loss of a model of texts: as uncertain as a choice among this many tokens.
    TestPerplexity,
    /// exp of the validation loss of a model of texts.
    ValidationPerplexity,
    /// Share of the test set whose class is among the five with the highest scores, 0 to 1; of data with more than
    /// [`Metric::FEW_CLASSES`] classes.
    #[serde(rename = "test-top-5-accuracy")]
    TestTop5Accuracy,
    /// The same of the held-out samples.
    #[serde(rename = "validation-top-5-accuracy")]
    ValidationTop5Accuracy,
    /// How far the models of n ranks are apart: sqrt(1/n sum_i |x_i - m|^2) with their uniform mean m, in the unit of
    /// a weight; the root of what Lian et al., "Can Decentralized Algorithms Outperform Centralized Algorithms?",
    /// NIPS 2017, theorem 1 and corollary 3, bound: the mean square of the distances to the mean. No target: a run is
    /// judged by what its model can do.
    ConsensusDistance,
}

impl Metric {
    /// Of this number of classes five are half, and that a class is among them says little.
    pub const FEW_CLASSES: usize = 10;

    /// Every metric, in the order of the variants.
    pub const ALL: [Self; 9] = [
        Self::TestAccuracy,
        Self::TestLoss,
        Self::ValidationAccuracy,
        Self::ValidationLoss,
        Self::TestPerplexity,
        Self::ValidationPerplexity,
        Self::TestTop5Accuracy,
        Self::ValidationTop5Accuracy,
        Self::ConsensusDistance,
    ];

    /// The name in recipes, database and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::TestAccuracy => "test-accuracy",
            Self::TestLoss => "test-loss",
            Self::ValidationAccuracy => "validation-accuracy",
            Self::ValidationLoss => "validation-loss",
            Self::TestPerplexity => "test-perplexity",
            Self::ValidationPerplexity => "validation-perplexity",
            Self::TestTop5Accuracy => "test-top-5-accuracy",
            Self::ValidationTop5Accuracy => "validation-top-5-accuracy",
            Self::ConsensusDistance => "consensus-distance",
        }
    }

    /// The name for people: `test accuracy`, `test top-5 accuracy`.
    pub fn words(self) -> String {
        self.name().replace('-', " ").replace("top 5", "top-5")
    }

    /// The same of the samples that are held out; `None` of one that has no such.
    pub fn held_out(self) -> Option<Self> {
        match self {
            Self::TestAccuracy | Self::ValidationAccuracy => Some(Self::ValidationAccuracy),
            Self::TestTop5Accuracy | Self::ValidationTop5Accuracy => Some(Self::ValidationTop5Accuracy),
            Self::TestLoss | Self::ValidationLoss => Some(Self::ValidationLoss),
            Self::TestPerplexity | Self::ValidationPerplexity => Some(Self::ValidationPerplexity),
            Self::ConsensusDistance => None,
        }
    }

    /// The least value that it can have.
    pub fn least(self) -> f64 {
        if matches!(self, Self::TestPerplexity | Self::ValidationPerplexity) { 1.0 } else { 0.0 }
    }

    /// Whether more of it is better.
    pub fn higher_is_better(self) -> bool {
        match self {
            Self::TestAccuracy
            | Self::ValidationAccuracy
            | Self::TestTop5Accuracy
            | Self::ValidationTop5Accuracy => true,
            Self::TestLoss
            | Self::ValidationLoss
            | Self::TestPerplexity
            | Self::ValidationPerplexity
            | Self::ConsensusDistance => false,
        }
    }

    /// Whether it is measured on held-out training samples, which only exist where `dataset.validation` says so.
    pub fn needs_validation(self) -> bool {
        match self {
            Self::ValidationAccuracy
            | Self::ValidationLoss
            | Self::ValidationPerplexity
            | Self::ValidationTop5Accuracy => true,
            Self::TestAccuracy
            | Self::TestLoss
            | Self::TestPerplexity
            | Self::TestTop5Accuracy
            | Self::ConsensusDistance => false,
        }
    }

    /// The share of samples whose class is among the five with the highest scores, of the samples of this accuracy; `None` of
    /// other metrics.
    pub fn top_5(self) -> Option<Self> {
        match self {
            Self::TestAccuracy => Some(Self::TestTop5Accuracy),
            Self::ValidationAccuracy => Some(Self::ValidationTop5Accuracy),
            Self::TestLoss
            | Self::ValidationLoss
            | Self::TestPerplexity
            | Self::ValidationPerplexity
            | Self::TestTop5Accuracy
            | Self::ValidationTop5Accuracy
            | Self::ConsensusDistance => None,
        }
    }

    /// Whether it is measured of data with more than [`Metric::FEW_CLASSES`] classes only.
    pub fn needs_classes(self) -> bool {
        match self {
            Self::TestTop5Accuracy | Self::ValidationTop5Accuracy => true,
            Self::TestAccuracy
            | Self::TestLoss
            | Self::ValidationAccuracy
            | Self::ValidationLoss
            | Self::TestPerplexity
            | Self::ValidationPerplexity
            | Self::ConsensusDistance => false,
        }
    }

    /// Whether it is measured of models of texts only.
    pub fn needs_text(self) -> bool {
        match self {
            Self::TestPerplexity | Self::ValidationPerplexity => true,
            Self::TestAccuracy
            | Self::TestLoss
            | Self::ValidationAccuracy
            | Self::ValidationLoss
            | Self::TestTop5Accuracy
            | Self::ValidationTop5Accuracy
            | Self::ConsensusDistance => false,
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

family! {
    /// The metrics that a target can name.
    pub enum TargetMetric {
        TestAccuracy = "test-accuracy": "Share of the test set that is classified right.",
        TestLoss = "test-loss": "Mean loss over the test set, in nats per sample; of `text-lines`, per token.",
        ValidationAccuracy = "validation-accuracy": "Share of the held-out samples that is classified right.",
        ValidationLoss = "validation-loss": "Mean loss over the held-out samples, in nats per sample; of `text-lines`, per token.",
        TestPerplexity = "test-perplexity": "exp of the test loss of a model of texts, which is the mean over tokens.",
        ValidationPerplexity = "validation-perplexity": "exp of the validation loss of a model of texts.",
        TestTop5Accuracy = "test-top-5-accuracy": "Share of the test set whose class is among the five with the highest scores; \
            of data with more than ten classes.",
        ValidationTop5Accuracy = "validation-top-5-accuracy": "The same of the held-out samples.",
    }
}

impl TargetMetric {
    /// The metric as it is measured.
    pub fn metric(self) -> Metric {
        match self {
            Self::TestAccuracy => Metric::TestAccuracy,
            Self::TestLoss => Metric::TestLoss,
            Self::ValidationAccuracy => Metric::ValidationAccuracy,
            Self::ValidationLoss => Metric::ValidationLoss,
            Self::TestPerplexity => Metric::TestPerplexity,
            Self::ValidationPerplexity => Metric::ValidationPerplexity,
            Self::TestTop5Accuracy => Metric::TestTop5Accuracy,
            Self::ValidationTop5Accuracy => Metric::ValidationTop5Accuracy,
        }
    }
}

/// Value of a metric that a run is to reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Target {
    /// Its value is held against the threshold after each evaluation.
    pub metric: Metric,
    /// The value to reach: at least this for an accuracy, at most this for a loss or a perplexity.
    pub threshold: f64,
    /// Reached later than this on the clock of the run counts as missed.
    pub after: Option<Duration>,
    /// Whether the run ends when it is reached.
    pub stop: bool,
}

impl Target {
    /// Whether a value reaches the target.
    pub fn reached(&self, value: f64) -> bool {
        if self.metric.higher_is_better() { value >= self.threshold } else { value <= self.threshold }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_has_words_for_people() {
        let words = [Metric::TestAccuracy, Metric::ValidationTop5Accuracy].map(Metric::words);
        assert_eq!(words, ["test accuracy", "validation top-5 accuracy"]);
    }
}
