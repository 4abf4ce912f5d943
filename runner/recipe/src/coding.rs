//! Settings of `compression` to its description, and what cannot work about them.

use crate::all_reduce::{KIND as COLLECTIVE, REDUCE_ORDER};
use crate::arm_keys::ELASTIC;
use crate::key::{KeyId, id};
use crate::method::SEGMENTS;
use crate::problem::Finding;
use crate::resolve::STRATEGY_KIND;
use crate::setting::Settings;
use crate::{Codec, Compression, Model, Parameter, Route, range};

pub(crate) const COMPRESSION_KIND: KeyId = id("compression.kind");
pub(crate) const PARAMETERS: KeyId = id("compression.parameters");
const ERROR_FEEDBACK: KeyId = id("compression.error-feedback");
const RATIO: KeyId = id("compression.ratio");
const BUCKET: KeyId = id("compression.bucket");
const LEVELS: KeyId = id("compression.levels");
const RANK: KeyId = id("compression.rank");

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
        "local-sgd" | "d-psgd" | "ad-psgd" | "sgp" => Travels::Weights,
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
    let Some(codec) = codec(settings) else { return Compression::None };
    // An axis over kinds may bring a code to weights that was never meant for them.
    let may = codec.route() == Route::EveryHop && !sends_no_weights(settings.choice(STRATEGY_KIND));
    let parameters = settings.flag(PARAMETERS) && may;
    Compression::Coded { codec, parameters, error_feedback: settings.flag(ERROR_FEEDBACK) }
}

fn codec(settings: &Settings) -> Option<Codec> {
    let ratio = settings.number(RATIO).unwrap_or(1.0);
    let whole = |key| settings.whole(key).unwrap_or(1) as u32;
    Some(match settings.choice(COMPRESSION_KIND) {
        "truncate16" => Codec::Truncate16,
        "quantize8" => range::codec(settings),
        "fp16" => Codec::Fp16,
        "bf16" => Codec::Bf16,
        "top-k" => Codec::TopK { ratio },
        "random-k" => Codec::RandomK { ratio },
        "sign" => Codec::Sign,
        "terngrad" => Codec::Terngrad { bucket: whole(BUCKET) },
        "qsgd" => Codec::Qsgd { levels: whole(LEVELS), bucket: whole(BUCKET) },
        "powersgd" => Codec::Powersgd { rank: whole(RANK) },
        _ => return None,
    })
}

/// What cannot work about a compression, and what is worth knowing about it.
pub(crate) fn findings(settings: &Settings) -> Vec<Finding> {
    let Compression::Coded { codec, parameters, error_feedback } = compression(settings) else {
        return Vec::new();
    };
    if travels(settings.choice(STRATEGY_KIND)) == Travels::Weights {
        return nothing_to_code(settings, codec, parameters, error_feedback).into_iter().collect();
    }
    let mut findings = Vec::new();
    match codec.route() {
        Route::EveryHop => {}
        Route::Once => findings.extend(coded_on_every_hop(settings, codec)),
        Route::Projected => findings.extend(projected_before_nothing(settings, codec)),
    }
    if error_feedback {
        findings.extend(memory_that_grows(settings, codec));
    } else if codec.is_biased() {
        findings.push(bias(settings, codec));
    }
    findings
}

fn nothing_to_code(
    settings: &Settings,
    codec: Codec,
    parameters: bool,
    error_feedback: bool,
) -> Option<Finding> {
    let (strategy, name) = (settings.choice(STRATEGY_KIND), codec.name());
    if !parameters {
        let finding =
            Finding::new("R130", format!("`{name}` has nothing to code: `{strategy}` sends weights only"))
                .at_option(settings.span(COMPRESSION_KIND), "codes gradients")
                .at_option(settings.span(STRATEGY_KIND), "sends none")
                .note("weights are far less tolerant of what a code loses than gradients are");
        return Some(if codec.route() == Route::EveryHop {
            finding.cure(
                "take `kind = \"none\"`, or code weights on purpose with `compression.parameters = true`",
            )
        } else {
            finding.cure("take `kind = \"none\"`")
        });
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

/// A code that must not be used on partial sums, in an all-reduce that sends these.
fn coded_on_every_hop(settings: &Settings, codec: Codec) -> Option<Finding> {
    if travels(settings.choice(STRATEGY_KIND)) != Travels::Gradients {
        return None;
    }
    let collective = settings.choice(COLLECTIVE);
    let once = match collective {
        "star" | "all-gather" => true,
        "ring" => settings.choice(REDUCE_ORDER) == "rank",
        _ => false,
    };
    if once {
        return None;
    }
    let name = codec.name();
    Some(
        Finding::new("R151", format!("the collective `{collective}` would code partial sums by `{name}`"))
            .at_option(settings.span(COMPRESSION_KIND), "loses much, and is not linear")
            .at_option(settings.span(COLLECTIVE), "codes a sum anew on every hop")
            .note("what is lost on each hop adds up, and no memory of a gradient could make it good")
            .cure(
                "take `communication.collective = \"all-gather\"`, which codes each gradient once, or `star`, or \
                 `ring` with `reduce-order = \"rank\"`, which code the sum once more",
            ),
    )
}

/// A projection without an all-reduce behind it, or of a gradient in pieces.
fn projected_before_nothing(settings: &Settings, codec: Codec) -> Option<Finding> {
    let (strategy, name) = (settings.choice(STRATEGY_KIND), codec.name());
    if travels(strategy) != Travels::Gradients {
        return Some(
            Finding::new(
                "R152",
                format!("`{name}` needs an all-reduce of gradients, and `{strategy}` has none"),
            )
            .at_option(settings.span(COMPRESSION_KIND), "all ranks add what they have projected alike")
            .at_option(settings.span(STRATEGY_KIND), "sends gradients to a server")
            .cure("take `d-sync` or `pipe-sgd`, or a code like `top-k` or `sign`"),
        );
    }
    let pieces = settings.whole(SEGMENTS).filter(|_| strategy == "pipe-sgd").unwrap_or(1);
    (pieces > 1 && matches!(codec, Codec::Powersgd { .. })).then(|| {
        Finding::new(
            "R154",
            format!("`{name}` factors whole matrices, and gradients travel in {pieces} pieces"),
        )
        .at_option(settings.span(SEGMENTS), "pieces end inside matrices")
        .at_option(settings.span(COMPRESSION_KIND), "needs them whole")
        .cure("leave `gradient-segments` out")
    })
}

/// Factors that are no smaller than what they stand for.
pub(crate) fn nothing_to_factor(settings: &Settings, model: &Model) -> Option<Finding> {
    let Compression::Coded { codec: Codec::Powersgd { rank }, .. } = compression(settings) else {
        return None;
    };
    let shapes = || model.layers.iter().flat_map(|layer| &layer.parameters).filter_map(Parameter::matrix);
    // The largest rank at which a matrix is smaller in factors.
    let most = shapes().map(|(m, n)| (m * n).saturating_sub(1) / (m + n).max(1)).max().unwrap_or(0);
    (rank as usize > most).then(|| {
        Finding::new("R155", format!("at rank {rank}, `powersgd` factors no matrix of the model"))
            .at_option(
                settings.span(RANK).or(settings.span(COMPRESSION_KIND)),
                "factors as large as what they stand for",
            )
            .cure(match most {
                0 => "take another code: the matrices are too small for any rank".to_owned(),
                _ => format!("take a rank of at most {most}, or another code"),
            })
    })
}

/// Error feedback needs a code that loses less than there is.
fn memory_that_grows(settings: &Settings, codec: Codec) -> Option<Finding> {
    let variance = codec.variance().filter(|variance| *variance >= 1.0)?;
    let name = codec.name();
    Some(
        Finding::new("R153", format!("under `{name}`, what error feedback remembers can grow without end"))
            .at_option(settings.span(ERROR_FEEDBACK), "adds to the next gradient what was lost")
            .at_option(settings.span(BUCKET).or(settings.span(COMPRESSION_KIND)), "more noise than gradient")
            .note(format!("the squared error can be {variance:.1} times the squared length; below 1 is needed"))
            .cure("leave `error-feedback` out, as the code is right on average, or take smaller buckets or more levels"),
    )
}

fn bias(settings: &Settings, codec: Codec) -> Finding {
    let name = codec.name();
    Finding::new("R251", format!("`{name}` without error feedback loses the same again and again"))
        .at_option(settings.span(COMPRESSION_KIND), "biased")
        .cure("write `error-feedback = true`, or keep it so to see what that does")
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
        let refused = |strategy, code, flags: &[KeyId]| {
            findings(&settings(strategy, code, flags)).iter().any(Finding::is_error)
        };
        assert!(refused("local-sgd", "quantize8", &[]));
        assert!(!refused("local-sgd", "quantize8", &[PARAMETERS]));
        assert!(refused("local-sgd", "quantize8", &[PARAMETERS, ERROR_FEEDBACK]));
        assert!(["d-psgd", "ad-psgd", "sgp"].into_iter().all(|gossip| refused(gossip, "fp16", &[])));
        assert!(!refused("local-sgd", "none", &[ERROR_FEEDBACK]));
        assert!(
            ELASTIC.iter().all(|kind| refused(kind, "fp16", &[]) && !refused(kind, "fp16", &[PARAMETERS]))
        );
        assert!(!refused("ps-sync", "quantize8", &[ERROR_FEEDBACK]));
        assert!(!refused("d-sync", "quantize8", &[]));
    }

    #[test]
    fn codes_go_only_where_they_make_sense() {
        let codes = |strategy, code, collective, flags: &[KeyId]| {
            let mut settings = settings(strategy, code, flags);
            let typed = Typed::Choice(collective);
            let leaf = Leaf { typed, text: String::new(), toml: String::new(), span: None };
            settings.put(COLLECTIVE, Arc::new(leaf));
            findings(&settings).iter().map(|finding| finding.code).collect::<Vec<_>>()
        };
        for code in ["top-k", "sign", "terngrad", "qsgd"] {
            for collective in ["ring", "pipelined-ring", "tree", "recursive-doubling", "hierarchical"] {
                assert!(codes("d-sync", code, collective, &[]).contains(&"R151"), "{code} in {collective}");
                assert!(!codes("ps-sync", code, collective, &[]).contains(&"R151"));
            }
            for collective in ["star", "all-gather"] {
                assert!(
                    !codes("pipe-sgd", code, collective, &[]).contains(&"R151"),
                    "{code} in {collective}"
                );
            }
            assert_eq!(codes("local-sgd", code, "star", &[]), ["R130"]);
        }
        for code in ["random-k", "powersgd"] {
            assert_eq!(codes("d-sync", code, "tree", &[ERROR_FEEDBACK]), [] as [&str; 0]);
            assert_eq!(codes("async-sgd", code, "ring", &[ERROR_FEEDBACK]), ["R152"]);
        }
        assert_eq!(codes("d-sync", "qsgd", "star", &[ERROR_FEEDBACK]), ["R153"]);
        assert_eq!(codes("ps-sync", "terngrad", "star", &[ERROR_FEEDBACK]), ["R153"]);
        assert_eq!(codes("ps-sync", "top-k", "star", &[]), ["R251"]);
        assert_eq!(codes("ps-sync", "top-k", "star", &[ERROR_FEEDBACK]), [] as [&str; 0]);
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
