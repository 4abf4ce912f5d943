//! The rule that turns gradients into updates, as a description. The `strategies` crate has the arithmetic.

use crate::spec::family::family;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

family! {
    /// The rules that turn gradients into updates.
    pub enum OptimizerKind {
        Sgd = "sgd": "Stochastic gradient descent: g += decay w; v = momentum v + g; w -= rate v. With `nesterov`, \
            w -= rate (g + momentum v).",
        Adamw = "adamw": "Adam with decoupled weight decay (Loshchilov & Hutter, ICLR 2019, Algorithm 2): m and v \
            are moving means of g and g^2, each divided by 1 - beta^t; w -= rate (m / (sqrt(v) + epsilon) + decay w).",
        Lars = "lars": "Layer-wise adaptive rate scaling (You, Gitman & Ginsburg, 2017, Algorithm 1): each matrix of \
            weights has the rate r = trust |w| / (|g| + decay |w|) beside the common one; v = momentum v + rate r (g + \
            decay w); w -= v. Biases have r = 1 and no decay.",
    }
}

/// How gradients become updates: the numbers that the rules share, and the rule.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OptimizerSettings {
    /// The initial learning rate.
    pub lr: f32,
    /// Momentum; 0 keeps no velocity. 0 for AdamW, whose first moment has a factor of its own.
    pub momentum: f32,
    /// The factor of the weights in the update; 0 for none.
    pub weight_decay: f32,
    /// Longest gradient, as a Euclidean norm over all weights.
    pub clip: Option<f32>,
    /// The rule that applies them.
    // Absent for plain SGD, so that earlier runs keep their identity.
    #[serde(default, skip_serializing_if = "UpdateRule::is_sgd")]
    pub rule: UpdateRule,
}

/// How a gradient changes the weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum UpdateRule {
    /// Plain SGD, with or without momentum.
    #[default]
    Sgd,
    /// SGD with Nesterov's momentum.
    Nesterov,
    /// Adam with decoupled weight decay.
    // In double precision: 1 - 0.999 in single precision is off by 1e-5 of itself.
    Adamw {
        /// Factor of the old moving mean of gradients, below 1.
        beta1: f64,
        /// Factor of the old moving mean of their squares, below 1.
        beta2: f64,
        /// Added to the root of the second mean.
        epsilon: f64,
    },
    /// Layer-wise adaptive rate scaling.
    Lars {
        /// Length of a matrix's step at rate 1, as a share of the length of the matrix.
        trust: f64,
    },
}

impl UpdateRule {
    fn is_sgd(&self) -> bool {
        *self == Self::Sgd
    }
}

impl OptimizerSettings {
    /// SGD at a rate, and nothing more.
    pub fn sgd(lr: f32) -> Self {
        Self { lr, momentum: 0.0, weight_decay: 0.0, clip: None, rule: UpdateRule::Sgd }
    }

    /// Kind of the optimizer; SGD with Nesterov's momentum counts as SGD.
    pub fn kind(&self) -> OptimizerKind {
        match self.rule {
            UpdateRule::Sgd | UpdateRule::Nesterov => OptimizerKind::Sgd,
            UpdateRule::Adamw { .. } => OptimizerKind::Adamw,
            UpdateRule::Lars { .. } => OptimizerKind::Lars,
        }
    }

    /// Vectors as long as the weights that the rule remembers from step to step.
    pub fn vectors(&self) -> u64 {
        match self.rule {
            UpdateRule::Sgd | UpdateRule::Nesterov | UpdateRule::Lars { .. } => {
                u64::from(self.momentum > 0.0)
            }
            UpdateRule::Adamw { .. } => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITTEN: [(&str, UpdateRule); 3] = [
        (r#","rule":{"kind":"nesterov"}"#, UpdateRule::Nesterov),
        (
            r#","rule":{"kind":"adamw","beta1":0.9,"beta2":0.999,"epsilon":1e-8}"#,
            UpdateRule::Adamw { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 },
        ),
        (r#","rule":{"kind":"lars","trust":0.001}"#, UpdateRule::Lars { trust: 0.001 }),
    ];

    /// The text is that of stores from before there were other rules: the identity of a run is a digest of it.
    #[test]
    fn plain_sgd_is_stored_as_before_there_were_other_rules() {
        let momentum =
            OptimizerSettings { momentum: 0.5, weight_decay: 0.25, ..OptimizerSettings::sgd(0.125) };
        let clipped = OptimizerSettings { clip: Some(2.0), ..OptimizerSettings::sgd(0.5) };
        for (stored, settings) in [
            (r#"{"lr":0.125,"momentum":0.5,"weight_decay":0.25,"clip":null}"#, momentum),
            (r#"{"lr":0.5,"momentum":0.0,"weight_decay":0.0,"clip":2.0}"#, clipped),
        ] {
            assert_eq!(serde_json::to_string(&settings).expect("it is plain data"), stored);
            assert_eq!(
                serde_json::from_str::<OptimizerSettings>(stored).expect("it was written so"),
                settings
            );
        }
    }

    #[test]
    fn other_rules_are_read_as_they_are_written() {
        for (text, rule) in WRITTEN {
            let stored = format!(r#"{{"lr":0.5,"momentum":0.0,"weight_decay":0.0,"clip":null{text}}}"#);
            let settings = OptimizerSettings { rule, ..OptimizerSettings::sgd(0.5) };
            assert_eq!(serde_json::to_string(&settings).expect("it is plain data"), stored);
            assert_eq!(
                serde_json::from_str::<OptimizerSettings>(&stored).expect("it was written so"),
                settings
            );
        }
    }

    #[test]
    fn a_rule_remembers_what_it_needs() {
        let vectors =
            |momentum, rule| OptimizerSettings { momentum, rule, ..OptimizerSettings::sgd(0.1) }.vectors();
        let [nesterov, adamw, lars] = WRITTEN.map(|(_, rule)| rule);
        assert_eq!([UpdateRule::Sgd, lars].map(|rule| vectors(0.0, rule)), [0, 0]);
        assert_eq!([UpdateRule::Sgd, nesterov, lars].map(|rule| vectors(0.9, rule)), [1, 1, 1]);
        assert_eq!(vectors(0.0, adamw), 2);
    }
}
