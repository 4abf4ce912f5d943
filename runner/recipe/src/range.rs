//! One range of `quantize8` for a whole gradient: where there is none, and where it has no steps left.

use crate::all_reduce::KIND as COLLECTIVE;
use crate::assign::{USE, WORKERS};
use crate::coding::{self, COMPRESSION_KIND};
use crate::key::{KeyId, id};
use crate::method::SEGMENTS;
use crate::problem::Finding;
use crate::resolve::STRATEGY_KIND;
use crate::setting::Settings;
use crate::{Codec, Compression};

const RANGE: KeyId = id("compression.range");

/// Steps on each side of zero: each worker takes one of them for what is rounded.
const STEPS: u32 = 127;

/// The code of the range that is asked for.
pub(crate) fn codec(settings: &Settings) -> Codec {
    match settings.choice(RANGE) {
        "gradient" => Codec::Quantize8Gradient,
        _ => Codec::Quantize8,
    }
}

/// Why one range for a whole gradient cannot work with this number of workers.
pub(crate) fn findings(settings: &Settings, workers: u32) -> Option<Finding> {
    let Compression::Coded { codec: Codec::Quantize8Gradient, error_feedback, .. } =
        coding::compression(settings)
    else {
        return None;
    };
    let strategy = settings.choice(STRATEGY_KIND);
    if !coding::sends_no_weights(strategy) {
        return Some(no_all_reduce(settings, strategy));
    }
    let pieces = settings.whole(SEGMENTS).filter(|_| strategy == "pipe-sgd").unwrap_or(1);
    if pieces > 1 {
        return Some(in_pieces(settings, pieces));
    }
    let fits = |workers| workers < STEPS && (!error_feedback || settles(settings, workers));
    (workers > 1 && !fits(workers)).then(|| no_steps_left(settings, workers, error_feedback, fits))
}

fn no_all_reduce(settings: &Settings, strategy: &str) -> Finding {
    Finding::new("R156", format!("one range for a gradient needs an all-reduce, and `{strategy}` has none"))
        .at_option(settings.span(RANGE), "all ranks agree on it before they add")
        .at_option(settings.span(STRATEGY_KIND), "all-reduces no gradients")
        .cure("leave `range` out: with `chunk`, each vector that travels has its own; or take `d-sync` or `pipe-sgd`")
}

fn in_pieces(settings: &Settings, pieces: u64) -> Finding {
    Finding::new("R157", format!("a gradient in {pieces} pieces leaves before its largest element is known"))
        .at_option(settings.span(SEGMENTS), "the first piece leaves during the backward pass")
        .at_option(settings.span(RANGE), "of the whole gradient")
        .cure("leave `gradient-segments` out, or take `range = \"chunk\"`")
}

/// Whether what error feedback remembers widens the next range by less than what it was: each memory is up to half a
/// step, and there are 127 - p of these.
fn settles(settings: &Settings, workers: u32) -> bool {
    let memories = match settings.choice(COLLECTIVE) {
        // One for each partner, and one more for what guests get.
        "recursive-doubling" => {
            let rounds = workers.ilog2();
            let hosts = 1 << rounds;
            let guests = workers - hosts;
            hosts * (rounds + u32::from(guests > 0)) + guests
        }
        _ => workers,
    };
    memories < 2 * (STEPS - workers)
}

fn no_steps_left(
    settings: &Settings,
    workers: u32,
    error_feedback: bool,
    fits: impl Fn(u32) -> bool,
) -> Finding {
    let most = (1..STEPS).take_while(|workers| fits(*workers)).last().unwrap_or(1);
    let reason = if error_feedback && workers < STEPS {
        "what is remembered widens the range, and the range what is remembered"
    } else {
        "each worker takes one of the 127 steps for what is rounded on the way"
    };
    Finding::new("R158", format!("one range for a gradient is not enough for {workers} workers"))
        .at_option(settings.span(RANGE), "holds every partial sum")
        .at_option(settings.span(WORKERS).or(settings.span(USE)), "the workers")
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
    use crate::setting::{Leaf, Typed};
    use std::sync::Arc;

    fn code(
        strategy: &'static str,
        collective: &'static str,
        flags: &[&'static str],
        workers: u32,
    ) -> &'static str {
        let leaf =
            |typed: Typed| Arc::new(Leaf { typed, text: String::new(), toml: String::new(), span: None });
        let mut settings = Settings::new();
        settings.put(STRATEGY_KIND, leaf(Typed::Choice(strategy)));
        settings.put(COMPRESSION_KIND, leaf(Typed::Choice("quantize8")));
        settings.put(RANGE, leaf(Typed::Choice("gradient")));
        settings.put(COLLECTIVE, leaf(Typed::Choice(collective)));
        for flag in flags {
            settings.put(id(flag), leaf(Typed::Flag(true)));
        }
        findings(&settings, workers).map_or("", |finding| finding.code)
    }

    #[test]
    fn only_sums_of_gradients_have_one_range() {
        for strategy in ["d-sync", "pipe-sgd"] {
            assert_eq!(code(strategy, "ring", &["compression.error-feedback"], 4), "");
        }
        for strategy in
            ["ps-sync", "async-sgd", "hogwild-sgd", "local-sgd", "d-psgd", "ad-psgd", "sgp", "easgd-sync"]
        {
            assert_eq!(code(strategy, "ring", &[], 4), "R156", "{strategy}");
            assert_eq!(code(strategy, "ring", &["compression.parameters"], 4), "R156", "{strategy}");
        }
    }

    #[test]
    fn each_worker_takes_a_step() {
        let most = |collective, flags: &[&'static str]| {
            let last = (1..=200).rfind(|workers| code("d-sync", collective, flags, *workers).is_empty());
            // None beyond the first that is refused.
            let first = (1..=200).find(|workers| code("d-sync", collective, flags, *workers) == "R158");
            assert_eq!(last.map(|last| last + 1), first);
            last
        };
        for collective in ["ring", "pipelined-ring", "tree", "star", "recursive-doubling", "all-gather"] {
            assert_eq!(most(collective, &[]), Some(126), "{collective}");
        }
        // The cure of a refusal is none that is refused again.
        let cures = |workers: u32| {
            let mut settings = Settings::new();
            let leaf = |typed| Arc::new(Leaf { typed, text: String::new(), toml: String::new(), span: None });
            settings.put(STRATEGY_KIND, leaf(Typed::Choice("d-sync")));
            settings.put(COMPRESSION_KIND, leaf(Typed::Choice("quantize8")));
            settings.put(RANGE, leaf(Typed::Choice("gradient")));
            settings.put(id("compression.error-feedback"), leaf(Typed::Flag(true)));
            format!("{:?}", findings(&settings, workers).map(|finding| finding.cure))
        };
        assert!(cures(126).contains("leave `error-feedback` out"), "{}", cures(126));
        assert!(!cures(127).contains("leave `error-feedback` out"), "{}", cures(127));
        assert_eq!(most("ring", &["compression.error-feedback"]), Some(84));
        assert_eq!(most("recursive-doubling", &["compression.error-feedback"]), Some(32));
    }
}
