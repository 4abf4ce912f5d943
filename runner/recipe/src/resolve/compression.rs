//! Settings of `compression` to its description, and what cannot work about them.

use crate::resolve::shared_keys::{
    AVERAGED_BY, CODED_PARAMETERS, COLLECTIVE_KIND, COMPRESSION_KIND, GRADIENT_SEGMENTS, RANGE, STRATEGY_KIND,
};
use crate::resolve::{collective, custom};
use crate::spec::compression::NeedsWhole;
use crate::spec::strategy_kind::{ExchangeThrough, Sends};
use crate::text::finding::Finding;
use crate::values::settings::Settings;
use crate::values::typed_key::Defaulted;
use crate::{
    AveragedBy, Codec, CodedSum, Compression, CompressionKind, CustomCodec, MatrixShape, Model, Parameter,
    QuantizeRange, ReduceOrder, StrategyKind,
};

pub(crate) const ERROR_FEEDBACK: Defaulted<bool> = Defaulted::flag("compression.error-feedback");
const RATIO: Defaulted<f64> = Defaulted::number("compression.ratio");
const BUCKET: Defaulted<u64> = Defaulted::whole("compression.bucket");
const LEVELS: Defaulted<u64> = Defaulted::whole("compression.levels");
const RANK: Defaulted<u64> = Defaulted::whole("compression.rank");

/// The compression that the settings describe. What would make no difference is left out, so that equal runs are
/// equal.
pub(crate) fn read(kind: StrategyKind, settings: &Settings) -> Compression {
    let Some(codec) = codec(settings) else { return Compression::None };
    // An axis over kinds may bring a codec to weights that was never meant for them.
    let may = codec.route() == CodedSum::EveryHop && kind.profile().sends != Sends::Gradients;
    let parameters = CODED_PARAMETERS.of(settings) && may;
    Compression::Coded { codec, parameters, error_feedback: ERROR_FEEDBACK.of(settings) }
}

fn codec(settings: &Settings) -> Option<Codec> {
    let ratio = RATIO.of(settings);
    let bucket = BUCKET.of(settings) as u32;
    Some(match COMPRESSION_KIND.of(settings) {
        CompressionKind::None => return None,
        CompressionKind::Truncate16 => Codec::Truncate16,
        CompressionKind::Quantize8 => match RANGE.of(settings) {
            QuantizeRange::Chunk => Codec::Quantize8,
            QuantizeRange::Gradient => Codec::Quantize8Gradient,
        },
        CompressionKind::Fp16 => Codec::Fp16,
        CompressionKind::Bf16 => Codec::Bf16,
        CompressionKind::TopK => Codec::TopK { ratio },
        CompressionKind::RandomK => Codec::RandomK { ratio },
        CompressionKind::Sign => Codec::Sign,
        CompressionKind::Terngrad => Codec::Terngrad { bucket },
        CompressionKind::Qsgd => Codec::Qsgd { levels: LEVELS.of(settings) as u32, bucket },
        CompressionKind::Powersgd => Codec::Powersgd { rank: RANK.of(settings) as u32 },
        CompressionKind::Custom => Codec::Custom,
    })
}

/// The codec of another crate, where the compression is of that kind.
pub(crate) fn custom_codec(compression: Compression, settings: &Settings) -> Option<CustomCodec> {
    match compression {
        Compression::Coded { codec: Codec::Custom, .. } => Some(custom::codec(settings)),
        Compression::None | Compression::Coded { .. } => None,
    }
}

/// Pieces in which a gradient travels: one by default, and where the strategy has no such key.
pub(crate) fn pieces(settings: &Settings) -> u64 {
    GRADIENT_SEGMENTS.of(settings)
}

/// Errors and warnings about a compression.
pub(crate) fn findings(kind: StrategyKind, settings: &Settings) -> Vec<Finding> {
    let Compression::Coded { codec, parameters, error_feedback } = read(kind, settings) else {
        return Vec::new();
    };
    if kind.profile().sends == Sends::Weights {
        let nothing = if !parameters {
            Some(no_gradients(kind, settings, codec))
        } else if error_feedback {
            Some(nothing_to_remember(kind, settings))
        } else {
            None
        };
        return nothing.into_iter().collect();
    }
    let mut findings = Vec::new();
    if codec == Codec::Custom {
        findings.extend(custom::CODEC.findings(settings, settings.span(COMPRESSION_KIND)));
    }
    match codec.route() {
        CodedSum::EveryHop => {}
        CodedSum::Once => findings.extend(coded_on_every_hop(kind, settings, codec)),
        CodedSum::Projected => findings.extend(projected_before_nothing(kind, settings, codec)),
    }
    if error_feedback {
        findings.extend(memory_that_grows(settings, codec));
    } else if codec.is_biased() {
        findings.push(bias(settings, codec));
    }
    findings
}

fn no_gradients(kind: StrategyKind, settings: &Settings, codec: Codec) -> Finding {
    let name = codec.name();
    let finding =
        Finding::new("R130", format!("`{name}` has nothing to encode: `{kind}` sends weights only"))
            .at_option(settings.span(COMPRESSION_KIND), "encodes gradients")
            .at_option(settings.span(STRATEGY_KIND), "sends none")
            .note("weights tolerate the error of a codec far less than gradients do");
    match codec.route() {
        CodedSum::EveryHop => finding.cure(
            "take `kind = \"none\"`, or encode weights on purpose with `compression.parameters = true`",
        ),
        CodedSum::Once | CodedSum::Projected => finding.cure("take `kind = \"none\"`"),
    }
}

fn nothing_to_remember(kind: StrategyKind, settings: &Settings) -> Finding {
    Finding::new("R130", format!("`error-feedback` has nothing to remember: `{kind}` sends no gradients"))
        .at_option(settings.span(ERROR_FEEDBACK), "adds the error to the next gradient")
        .at_option(settings.span(STRATEGY_KIND), "sends none")
        .cure("leave `error-feedback` out")
}

/// A codec that must not encode partial sums, in an all-reduce that sends these. A server that adds sends whole sums, as they are.
fn coded_on_every_hop(kind: StrategyKind, settings: &Settings, codec: Codec) -> Option<Finding> {
    let served = AVERAGED_BY.of(settings) == AveragedBy::Servers;
    if kind.profile().exchange != ExchangeThrough::AllReduce
        || served
        || collective::order(settings) == ReduceOrder::Rank
    {
        return None;
    }
    let collective = COLLECTIVE_KIND.of(settings);
    let name = codec.name();
    Some(
        Finding::new("R151", format!("the collective `{collective}` would encode partial sums with `{name}`"))
            .at_option(settings.span(COMPRESSION_KIND), "loses much, and is not linear")
            .at_option(settings.span(COLLECTIVE_KIND), "encodes a sum anew on every hop")
            .note("the errors of all hops add up, and error feedback remembers those of gradients only")
            .cure(
                "take `communication.collective = \"all-gather\"`, which encodes each gradient once, or `star`, or \
                 `ring` with `reduce-order = \"rank\"`, which encode the sum once more",
            ),
    )
}

/// A projection without an all-reduce behind it, or of a gradient in pieces.
fn projected_before_nothing(kind: StrategyKind, settings: &Settings, codec: Codec) -> Option<Finding> {
    let name = codec.name();
    if kind.profile().exchange != ExchangeThrough::AllReduce {
        return Some(
            Finding::new("R152", format!("`{name}` needs an all-reduce of gradients, and `{kind}` has none"))
                .at_option(settings.span(COMPRESSION_KIND), "all ranks add what they have projected alike")
                .at_option(settings.span(STRATEGY_KIND), "sends gradients to a server")
                .cure("take `d-sync` or `pipe-sgd`, or a codec like `top-k` or `sign`"),
        );
    }
    let pieces = pieces(settings);
    match codec.needs_whole() {
        NeedsWhole::Factors if pieces > 1 => Some(
            Finding::new(
                "R154",
                format!("`{name}` factors whole matrices, and gradients travel in {pieces} pieces"),
            )
            .at_option(settings.span(GRADIENT_SEGMENTS), "pieces end inside matrices")
            .at_option(settings.span(COMPRESSION_KIND), "needs them whole")
            .cure("leave `gradient-segments` out"),
        ),
        NeedsWhole::Factors | NeedsWhole::Nothing | NeedsWhole::Range | NeedsWhole::Projection => None,
    }
}

/// Factors that are no smaller than the matrices they replace.
pub(crate) fn nothing_to_factor(
    settings: &Settings,
    compression: Compression,
    model: &Model,
) -> Option<Finding> {
    let Compression::Coded { codec: Codec::Powersgd { rank }, .. } = compression else { return None };
    let most = model.tensors().filter_map(Parameter::matrix).map(most_factored).max().unwrap_or(0);
    (rank as usize > most).then(|| {
        Finding::new("R155", format!("at rank {rank}, `powersgd` factors no matrix of the model"))
            .at_option(
                settings.span(RANK).or(settings.span(COMPRESSION_KIND)),
                "factors as large as the matrices",
            )
            .cure(match most {
                0 => "take another codec: the matrices are too small for any rank".to_owned(),
                _ => format!("take a rank of at most {most}, or another codec"),
            })
    })
}

/// The largest rank at which the factors of a matrix are smaller than itself.
fn most_factored(MatrixShape { rows, columns }: MatrixShape) -> usize {
    (rows * columns).saturating_sub(1) / (rows + columns).max(1)
}

/// Error feedback needs a codec whose error is smaller than the vector.
fn memory_that_grows(settings: &Settings, codec: Codec) -> Option<Finding> {
    let variance = codec.variance().filter(|variance| *variance >= 1.0)?;
    let name = codec.name();
    Some(
        Finding::new("R153", format!("under `{name}`, the memory of error feedback can grow without bound"))
            .at_option(settings.span(ERROR_FEEDBACK), "adds the error to the next gradient")
            .at_option(settings.span(BUCKET).or(settings.span(COMPRESSION_KIND)), "more noise than gradient")
            .note(format!("the squared error can be {variance:.1} times the squared length; below 1 is needed"))
            .cure("leave `error-feedback` out, as the codec is right on average, or take smaller buckets or more levels"),
    )
}

fn bias(settings: &Settings, codec: Codec) -> Finding {
    let name = codec.name();
    Finding::new(
        "R251",
        format!("`{name}` without error feedback has an error of the same direction in every step"),
    )
    .at_option(settings.span(COMPRESSION_KIND), "biased")
    .cure("write `error-feedback = true`, or keep it as it is to measure the effect")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CollectiveKind;
    use crate::keys::arm_keys::{DENSE, LOSSY};
    use crate::values::leaf::{Leaf, Typed};
    use crate::values::typed_key::Defaulted;
    use std::sync::Arc;

    fn settings(compression: CompressionKind, flags: &[Defaulted<bool>]) -> Settings {
        let mut settings = Settings::new();
        settings.put(COMPRESSION_KIND, Leaf::name(compression.name()));
        for flag in flags {
            let typed = Typed::Flag(true);
            settings
                .put(*flag, Arc::new(Leaf { typed, text: String::new(), toml: String::new(), span: None }));
        }
        settings
    }

    fn kinds(exchange: ExchangeThrough) -> impl Iterator<Item = StrategyKind> {
        StrategyKind::ALL.iter().copied().filter(move |kind| kind.profile().exchange == exchange)
    }

    #[test]
    fn the_tables_of_keys_name_the_codecs_that_have_them() {
        let compressions = |fits: &dyn Fn(Codec) -> bool| {
            let fitting = Codec::ALL.into_iter().filter(|codec| fits(*codec));
            fitting.map(|codec| codec.kind().name()).collect::<Vec<_>>()
        };
        assert_eq!([compressions(&|_| true), vec!["custom"]].concat(), LOSSY);
        assert_eq!(compressions(&|codec| codec.route() == CodedSum::EveryHop), DENSE);
    }

    #[test]
    fn a_strategy_that_sends_only_weights_encodes_them_on_purpose_and_remembers_nothing() {
        let refused = |kind, compression, flags: &[Defaulted<bool>]| {
            findings(kind, &settings(compression, flags)).iter().any(Finding::is_error)
        };
        let quantize8 = CompressionKind::Quantize8;
        assert!(refused(StrategyKind::LocalSgd, quantize8, &[]));
        assert!(!refused(StrategyKind::LocalSgd, quantize8, &[CODED_PARAMETERS]));
        assert!(refused(StrategyKind::LocalSgd, quantize8, &[CODED_PARAMETERS, ERROR_FEEDBACK]));
        assert!(!refused(StrategyKind::LocalSgd, CompressionKind::None, &[ERROR_FEEDBACK]));
        for kind in kinds(ExchangeThrough::Neighbours).chain(kinds(ExchangeThrough::Centre)) {
            assert!(refused(kind, CompressionKind::Fp16, &[]), "{kind}");
            assert!(!refused(kind, CompressionKind::Fp16, &[CODED_PARAMETERS]), "{kind}");
        }
        assert!(!refused(StrategyKind::PsSync, quantize8, &[ERROR_FEEDBACK]));
        assert!(!refused(StrategyKind::DSync, quantize8, &[]));
    }

    fn codes(
        kind: StrategyKind,
        compression: CompressionKind,
        collective: CollectiveKind,
        flags: &[Defaulted<bool>],
    ) -> Vec<&'static str> {
        let mut settings = settings(compression, flags);
        settings.put(COLLECTIVE_KIND, Leaf::name(collective.name()));
        findings(kind, &settings).iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn codecs_that_lose_much_encode_no_partial_sums() {
        use StrategyKind::{DSync, LocalSgd, PipeSgd, PsSync};
        for codec in Codec::ALL.into_iter().filter(|codec| codec.route() == CodedSum::Once) {
            for collective in CollectiveKind::ALL.iter().copied() {
                let in_rank_order = matches!(collective, CollectiveKind::Star | CollectiveKind::AllGather);
                let refused = codes(PipeSgd, codec.kind(), collective, &[]).contains(&"R151");
                assert_eq!(refused, !in_rank_order, "{codec:?} in {collective}");
                assert!(!codes(PsSync, codec.kind(), collective, &[]).contains(&"R151"));
                assert_eq!(codes(DSync, codec.kind(), collective, &[]).contains(&"R151"), refused);
            }
            assert_eq!(codes(LocalSgd, codec.kind(), CollectiveKind::Star, &[]), ["R130"]);
        }
    }

    #[test]
    fn codecs_go_only_where_they_make_sense() {
        use CompressionKind::{Powersgd, Qsgd, RandomK, Terngrad, TopK};
        use StrategyKind::{AsyncSgd, DSync, PsSync};
        let nothing: [&str; 0] = [];
        for projection in [RandomK, Powersgd] {
            assert_eq!(codes(DSync, projection, CollectiveKind::Tree, &[ERROR_FEEDBACK]), nothing);
            assert_eq!(codes(AsyncSgd, projection, CollectiveKind::Ring, &[ERROR_FEEDBACK]), ["R152"]);
        }
        assert_eq!(codes(DSync, Qsgd, CollectiveKind::Star, &[ERROR_FEEDBACK]), ["R153"]);
        assert_eq!(codes(PsSync, Terngrad, CollectiveKind::Star, &[ERROR_FEEDBACK]), ["R153"]);
        assert_eq!(codes(PsSync, TopK, CollectiveKind::Star, &[]), ["R251"]);
        assert_eq!(codes(PsSync, TopK, CollectiveKind::Star, &[ERROR_FEEDBACK]), nothing);
    }

    #[test]
    fn settings_that_make_no_difference_are_left_out() {
        use StrategyKind::{DSync, LocalSgd, PipeSgd, PsSync};
        let fp16 = settings(CompressionKind::Fp16, &[CODED_PARAMETERS]);
        let parameters = |kind| match read(kind, &fp16) {
            Compression::Coded { codec: Codec::Fp16, parameters, error_feedback: false } => parameters,
            other => panic!("{other:?}"),
        };
        assert_eq!([DSync, PipeSgd, PsSync, LocalSgd].map(parameters), [false, false, true, true]);
        assert_eq!(read(PsSync, &settings(CompressionKind::None, &[CODED_PARAMETERS])), Compression::None);
    }
}
