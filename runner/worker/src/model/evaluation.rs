//! How good a model is.

/// How good a model is on some samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluation {
    /// Share of the samples whose highest score is that of their class, 0 to 1; of a text the share of its tokens.
    pub accuracy: f64,
    /// Share of the samples whose class is among the five with the highest scores, of which equal ones are in the order of the
    /// classes; `None` where there are few classes ([`recipe::Metric::FEW_CLASSES`]), and of a text.
    pub top_5: Option<f64>,
    /// Mean cross-entropy in nats per sample; of a text per token.
    pub loss: f64,
    /// Samples that were scored.
    pub samples: usize,
}
