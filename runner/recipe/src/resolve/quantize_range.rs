//! One range of `quantize8` for a whole gradient: strategies that have none, and numbers of workers that leave it no steps.

use crate::resolve::shared_keys::{
    COMPRESSION_KIND, GRADIENT_SEGMENTS, RANGE, STRATEGY_KIND, USED_NODES, WORKERS,
};
use crate::resolve::{collective, compression};
use crate::spec::strategy_kind::Sends;
use crate::text::finding::Finding;
use crate::values::settings::Settings;
use crate::{Codec, Compression, StrategyKind};

/// Steps on each side of zero: each worker takes one of them for its rounding error.
const STEPS: u32 = 127;

/// Why one range for a whole gradient cannot work with this number of workers.
pub(crate) fn findings(kind: StrategyKind, settings: &Settings, workers: u32) -> Option<Finding> {
    let Compression::Coded { codec: Codec::Quantize8Gradient, error_feedback, .. } =
        compression::read(kind, settings)
    else {
        return None;
    };
    if kind.profile().sends != Sends::Gradients {
        return Some(no_all_reduce(settings, kind));
    }
    let pieces = compression::pieces(settings);
    if pieces > 1 {
        return Some(in_pieces(settings, pieces));
    }
    let fits = |workers| workers < STEPS && (!error_feedback || settles(settings, workers));
    (workers > 1 && !fits(workers)).then(|| no_steps_left(settings, workers, error_feedback, fits))
}

fn no_all_reduce(settings: &Settings, kind: StrategyKind) -> Finding {
    Finding::new("R156", format!("one range for a gradient needs an all-reduce, and `{kind}` has none"))
        .at_option(settings.span(RANGE), "all ranks agree on it before they add")
        .at_option(settings.span(STRATEGY_KIND), "all-reduces no gradients")
        .cure("leave `range` out: with `chunk`, each vector that travels has its own; or take `d-sync` or `pipe-sgd`")
}

fn in_pieces(settings: &Settings, pieces: u64) -> Finding {
    Finding::new("R157", format!("a gradient in {pieces} pieces leaves before its largest element is known"))
        .at_option(settings.span(GRADIENT_SEGMENTS), "the first piece leaves during the backward pass")
        .at_option(settings.span(RANGE), "of the whole gradient")
        .cure("leave `gradient-segments` out, or take `range = \"chunk\"`")
}

/// Whether what error feedback remembers widens the next range by less than what it was: each memory is up to half a
/// step, and there are 127 - p of these.
fn settles(settings: &Settings, workers: u32) -> bool {
    collective::of(settings).memories(workers) < 2 * (STEPS - workers)
}

fn no_steps_left(
    settings: &Settings,
    workers: u32,
    error_feedback: bool,
    fits: impl Fn(u32) -> bool,
) -> Finding {
    let most = (1..STEPS).take_while(|workers| fits(*workers)).last().unwrap_or(1);
    let reason = if error_feedback && workers < STEPS {
        "the remembered error widens the range, and the range the remembered error"
    } else {
        "each worker takes one of the 127 steps for rounding on the way"
    };
    Finding::new("R158", format!("one range for a gradient is not enough for {workers} workers"))
        .at_option(settings.span(RANGE), "holds every partial sum")
        .at_option(settings.span(WORKERS).or(settings.span(USED_NODES)), "the workers")
        .at_option(settings.span(COMPRESSION_KIND), "8 bits")
        .note(reason)
        .cure(if error_feedback && workers < STEPS {
            format!(
                "take at most {most} workers, which still leaves few steps, leave `error-feedback` out, or take \
                 `range = \"chunk\"`"
            )
        } else {
            format!("take at most {most} workers, which still leaves few steps, or take `range = \"chunk\"`")
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::compression::ERROR_FEEDBACK;
    use crate::resolve::shared_keys::{CODED_PARAMETERS, COLLECTIVE_KIND};
    use crate::values::leaf::{Leaf, Typed};
    use crate::values::typed_key::Defaulted;
    use crate::{CollectiveKind, CompressionKind, QuantizeRange};
    use std::sync::Arc;

    fn settings(collective: CollectiveKind, flags: &[Defaulted<bool>]) -> Settings {
        let mut settings = Settings::new();
        settings.put(COMPRESSION_KIND, Leaf::name(CompressionKind::Quantize8.name()));
        settings.put(RANGE, Leaf::name(QuantizeRange::Gradient.name()));
        settings.put(COLLECTIVE_KIND, Leaf::name(collective.name()));
        for flag in flags {
            let typed = Typed::Flag(true);
            settings
                .put(*flag, Arc::new(Leaf { typed, text: String::new(), toml: String::new(), span: None }));
        }
        settings
    }

    fn code(
        strategy: StrategyKind,
        collective: CollectiveKind,
        flags: &[Defaulted<bool>],
        workers: u32,
    ) -> &'static str {
        findings(strategy, &settings(collective, flags), workers).map_or("", |finding| finding.code)
    }

    #[test]
    fn only_sums_of_gradients_have_one_range() {
        for kind in StrategyKind::ALL.iter().copied() {
            let code = |flags: &[Defaulted<bool>]| code(kind, CollectiveKind::Ring, flags, 4);
            if kind.profile().sends == Sends::Gradients {
                assert_eq!(code(&[ERROR_FEEDBACK]), "", "{kind}");
            } else {
                assert_eq!(code(&[]), "R156", "{kind}");
                assert_eq!(code(&[CODED_PARAMETERS]), "R156", "{kind}");
            }
        }
    }

    #[test]
    fn each_worker_takes_a_step() {
        let most = |collective, flags: &[Defaulted<bool>]| {
            let d_sync = |workers| code(StrategyKind::DSync, collective, flags, workers);
            let last = (1..=200).rfind(|workers| d_sync(*workers).is_empty());
            // Every number above the first that is refused is refused, too.
            let first = (1..=200).find(|workers| d_sync(*workers) == "R158");
            assert_eq!(last.map(|last| last + 1), first);
            last
        };
        for collective in CollectiveKind::ALL {
            assert_eq!(most(*collective, &[]), Some(126), "{collective}");
        }
        // No cure is refused in turn.
        let cure = |workers: u32| {
            let settings = settings(CollectiveKind::Ring, &[ERROR_FEEDBACK]);
            format!("{:?}", findings(StrategyKind::DSync, &settings, workers).map(|finding| finding.cure))
        };
        assert!(cure(126).contains("leave `error-feedback` out"), "{}", cure(126));
        assert!(!cure(127).contains("leave `error-feedback` out"), "{}", cure(127));
        assert_eq!(most(CollectiveKind::Ring, &[ERROR_FEEDBACK]), Some(84));
        assert_eq!(most(CollectiveKind::RecursiveDoubling, &[ERROR_FEEDBACK]), Some(32));
    }
}
