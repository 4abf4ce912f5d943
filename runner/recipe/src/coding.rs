//! Settings of `compression` to its description, and what cannot work about them.

use crate::arm_keys::ELASTIC;
use crate::key::{KeyId, id};
use crate::problem::Finding;
use crate::resolve::STRATEGY_KIND;
use crate::setting::Settings;
use crate::{Codec, Compression};

const COMPRESSION_KIND: KeyId = id("compression.kind");
pub(crate) const PARAMETERS: KeyId = id("compression.parameters");
const ERROR_FEEDBACK: KeyId = id("compression.error-feedback");

/// What a strategy sends while it trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Travels {
    Gradients,
    Weights,
    Both,
}

fn travels(strategy: &str) -> Travels {
    match strategy {
        "d-sync" | "pipe-sgd" => Travels::Gradients,
        "local-sgd" => Travels::Weights,
        elastic if ELASTIC.contains(&elastic) => Travels::Weights,
        // With a server, gradients go up and weights come down.
        _ => Travels::Both,
    }
}

/// Whether a strategy sends no weights that could be coded.
pub(crate) fn sends_no_weights(strategy: &str) -> bool {
    travels(strategy) == Travels::Gradients
}

/// The compression that the settings describe. What would make no difference is left out, so that equal runs are
/// equal.
pub(crate) fn compression(settings: &Settings) -> Compression {
    let kind = settings.choice(COMPRESSION_KIND);
    let Some(codec) = Codec::ALL.into_iter().find(|codec| codec.name() == kind) else {
        return Compression::None;
    };
    let parameters = settings.flag(PARAMETERS) && !sends_no_weights(settings.choice(STRATEGY_KIND));
    Compression::Coded { codec, parameters, error_feedback: settings.flag(ERROR_FEEDBACK) }
}

/// What cannot work about a compression.
pub(crate) fn findings(settings: &Settings) -> Option<Finding> {
    let Compression::Coded { codec, parameters, error_feedback } = compression(settings) else { return None };
    let (strategy, codec) = (settings.choice(STRATEGY_KIND), codec.name());
    if travels(strategy) != Travels::Weights {
        return None;
    }
    if !parameters {
        return Some(
            Finding::new("R130", format!("`{codec}` has nothing to code: `{strategy}` sends weights only"))
                .at_option(settings.span(COMPRESSION_KIND), "codes gradients")
                .at_option(settings.span(STRATEGY_KIND), "sends none")
                .note("weights are far less tolerant of what a code loses than gradients are")
                .cure(
                    "take `kind = \"none\"`, or code weights on purpose with `compression.parameters = true`",
                ),
        );
    }
    error_feedback.then(|| {
        Finding::new(
            "R130",
            format!("`error-feedback` has nothing to remember: `{strategy}` sends no gradients"),
        )
        .at_option(settings.span(ERROR_FEEDBACK), "adds what was lost to the next gradient")
        .at_option(settings.span(STRATEGY_KIND), "sends none")
        .cure("leave `error-feedback` out")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::{Leaf, Typed};
    use std::sync::Arc;

    fn settings(strategy: &'static str, code: &'static str, flags: &[KeyId]) -> Settings {
        let leaf =
            |typed: Typed| Arc::new(Leaf { typed, text: String::new(), toml: String::new(), span: None });
        let mut settings = Settings::new();
        settings.put(STRATEGY_KIND, leaf(Typed::Choice(strategy)));
        settings.put(COMPRESSION_KIND, leaf(Typed::Choice(code)));
        for flag in flags {
            settings.put(*flag, leaf(Typed::Flag(true)));
        }
        settings
    }

    #[test]
    fn who_sends_only_weights_codes_them_on_purpose_and_remembers_nothing() {
        let refused = |strategy, code, flags: &[KeyId]| findings(&settings(strategy, code, flags)).is_some();
        assert!(refused("local-sgd", "quantize8", &[]));
        assert!(!refused("local-sgd", "quantize8", &[PARAMETERS]));
        assert!(refused("local-sgd", "quantize8", &[PARAMETERS, ERROR_FEEDBACK]));
        assert!(!refused("local-sgd", "none", &[ERROR_FEEDBACK]));
        assert!(
            ELASTIC.iter().all(|kind| refused(kind, "fp16", &[]) && !refused(kind, "fp16", &[PARAMETERS]))
        );
        assert!(!refused("ps-sync", "quantize8", &[ERROR_FEEDBACK]));
        assert!(!refused("d-sync", "quantize8", &[]));
    }

    #[test]
    fn what_makes_no_difference_is_left_out() {
        let parameters = |strategy| match compression(&settings(strategy, "fp16", &[PARAMETERS])) {
            Compression::Coded { codec: Codec::Fp16, parameters, error_feedback: false } => parameters,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            ["d-sync", "pipe-sgd", "ps-sync", "local-sgd"].map(parameters),
            [false, false, true, true]
        );
        assert_eq!(compression(&settings("ps-sync", "none", &[PARAMETERS])), Compression::None);
    }
}
