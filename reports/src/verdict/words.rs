//! Ratios, certainties, margins and targets in words.

use crate::number_format::{self, Unit};
use comparison::statistics::{CHANCE, Estimate};
use comparison::{Advice, Quality, QualityGap};
use recipe::{Metric, Target};

/// A ratio above one, and its word.
pub(super) fn sided<'w>(ratio: Estimate, faster: &'w str, slower: &'w str) -> (String, &'w str) {
    if ratio.value >= 1.0 {
        (ratio_number(ratio), faster)
    } else {
        (ratio_number(ratio.map(f64::recip)), slower)
    }
}

fn ratio_decimals(ratio: Estimate) -> usize {
    number_format::decimals_for(ratio.uncertainty().unwrap_or(0.02)).clamp(2, 3)
}

pub(crate) fn ratio_number(ratio: Estimate) -> String {
    format!("{}×", number_format::fixed(ratio.value, ratio_decimals(ratio)))
}

/// `0.83× (0.80–0.87)`, on whichever side of one it lies.
pub(crate) fn ratio_words(ratio: Estimate) -> String {
    ratio_number(ratio) + &raw_interval(ratio)
}

/// ` (1.31–1.72)`, on the side of one on which the ratio is shown.
pub(super) fn interval_words(ratio: Estimate) -> String {
    raw_interval(if ratio.value >= 1.0 { ratio } else { ratio.map(f64::recip) })
}

/// Interval of a ratio, with a space before it: ` (0.89–1.41)`; empty without one.
pub(crate) fn raw_interval(ratio: Estimate) -> String {
    let decimals = ratio_decimals(ratio);
    ratio.interval.map_or(String::new(), |(low, high)| format!(" ({})", range(low, high, 1.0, decimals)))
}

/// `99.7 %`; never all, and nothing below one half: that is what a coin knows.
pub(crate) fn sure_words(sure: f64) -> String {
    match sure * 100.0 {
        percent if percent > 99.9 => ">\u{a0}99.9\u{a0}%".to_owned(),
        percent if percent < 50.0 => "<\u{a0}50\u{a0}%".to_owned(),
        percent if percent >= 99.0 => format!("{}\u{a0}%", number_format::fixed(percent, 1)),
        percent => format!("{}\u{a0}%", number_format::fixed(percent, 0)),
    }
}

/// `more than 99.9 %`, `98 %`, `less than 50 %`.
pub(super) fn sure_in_text(sure: f64) -> String {
    sure_words(sure).replace(">\u{a0}", "more than ").replace("<\u{a0}", "less than ")
}

/// `97.3 %`, `0.241 nats`.
pub(crate) fn value_words(metric: Metric, value: f64) -> String {
    Unit::of_metric(metric).short(value)
}

/// `With 9 repeats in all, the chance to settle it is 80 %; with 6, it is even.`
pub(crate) fn advice_words(advice: Advice) -> String {
    let chance = whole_percent(CHANCE);
    let Advice::Repeats { likely, even } = advice else {
        return "More repeats will not settle it, more evaluations will (train.evaluate).".to_owned();
    };
    match (likely, even) {
        (Some(likely), Some(even)) if even < likely => format!(
            "With {likely} repeats in all, the chance to settle it is {chance}; with {even}, it is even."
        ),
        (Some(likely), _) => format!("With {likely} repeats in all, the chance to settle it is {chance}."),
        (None, Some(even)) => format!(
            "With {even} repeats in all, the chance to settle it is even; for {chance}, more than {} are needed.",
            Advice::MOST
        ),
        (None, None) => format!("More than {} repeats would be needed to settle it.", Advice::MOST),
    }
}

/// `final test accuracy is 0.1 pp lower than that of ps-sync (−0.3 … +0.1): not worse by 1 pp.`; `None` if the weights are the
/// same.
pub(super) fn quality_words(found: &QualityGap, base: &str) -> Option<String> {
    let (factor, unit) = difference_unit(found.metric);
    let gap = found.gap;
    let wide = gap.uncertainty().map(|wide| wide * factor);
    let decimals = wide.filter(|wide| *wide > 0.0).map_or(2, |wide| number_format::decimals_for(wide).min(4));
    let size = number_format::fixed((gap.value * factor).abs(), decimals);
    let nothing = !size.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    let side = if nothing {
        format!("equal to that of {base}")
    } else {
        let side = if gap.value < 0.0 { "lower" } else { "higher" };
        format!("{} {side} than that of {base}", with_unit(&size, unit))
    };
    let interval = gap
        .interval
        .map_or(String::new(), |(low, high)| format!(" ({})", signed_range(low, high, factor, decimals)));
    let margin = margin_words(found.metric, found.margin);
    let claim = match found.grade {
        Quality::SameWeights => return None,
        Quality::Better => format!("better by more than {margin}"),
        Quality::NotWorse => format!("not worse by {margin}"),
        Quality::WorseSmall => format!("worse, but by less than {margin}"),
        Quality::WorseOpen => format!("worse; whether by more than {margin} is open"),
        Quality::Worse => format!("worse by more than {margin}"),
        Quality::Open => format!("open whether it is worse by {margin}"),
    };
    let pairs = found.pairs;
    let survivors = if pairs.part < pairs.whole {
        format!(", in the {} of {} runs that ended as planned on both sides", pairs.part, pairs.whole)
    } else {
        String::new()
    };
    Some(format!("final {} is {side}{interval}{survivors}: {claim}.", metric_words(found.metric)))
}

/// The factor and the unit of a difference of two values; a perplexity has no unit, nor has a distance between weights.
fn difference_unit(metric: Metric) -> (f64, &'static str) {
    match metric {
        Metric::TestAccuracy
        | Metric::ValidationAccuracy
        | Metric::TestTop5Accuracy
        | Metric::ValidationTop5Accuracy => (100.0, "pp"),
        Metric::TestLoss | Metric::ValidationLoss => (1.0, "nats"),
        Metric::TestPerplexity | Metric::ValidationPerplexity | Metric::ConsensusDistance => (1.0, ""),
    }
}

fn with_unit(number: &str, unit: &str) -> String {
    if unit.is_empty() { number.to_owned() } else { format!("{number}\u{a0}{unit}") }
}

/// `1 pp`, `0.02 nats`.
pub(crate) fn margin_words(metric: Metric, margin: f64) -> String {
    let (factor, unit) = difference_unit(metric);
    let text = number_format::short(margin * factor);
    let trimmed = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    with_unit(trimmed, unit)
}

/// `97.0 % test accuracy`.
pub(crate) fn target_words(target: Target) -> String {
    format!("{} {}", threshold_words(target), metric_words(target.metric))
}

pub(crate) fn threshold_words(target: Target) -> String {
    let unit = Unit::of_metric(target.metric);
    let value = target.threshold * unit.factor;
    let mut decimals = 1;
    while decimals < 4 && (value - digits_rounded(value, decimals)).abs() > 1e-9 {
        decimals += 1;
    }
    unit.with(number_format::fixed(value, decimals))
}

fn digits_rounded(value: f64, decimals: usize) -> f64 {
    let scale = 10_f64.powi(decimals as i32);
    (value * scale).round() / scale
}

/// Name of a metric on the page: `test accuracy`.
pub(crate) fn metric_words(metric: Metric) -> String {
    metric.words()
}

/// `95 %`, `2.5 %`.
pub(crate) fn whole_percent(confidence: f64) -> String {
    format!(
        "{}\u{a0}%",
        number_format::fixed(confidence * 100.0, usize::from((confidence * 100.0).fract() > 1e-9))
    )
}

pub(super) fn range(low: f64, high: f64, factor: f64, decimals: usize) -> String {
    format!(
        "{}–{}",
        number_format::bound(low * factor, decimals),
        number_format::bound(high * factor, decimals)
    )
}

fn signed_range(low: f64, high: f64, factor: f64, decimals: usize) -> String {
    format!(
        "{}\u{a0}…\u{a0}{}",
        number_format::signed(low * factor, decimals),
        number_format::signed(high * factor, decimals)
    )
}

/// The text with a capital at its beginning.
pub(crate) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}", first.to_uppercase(), letters.as_str()))
}
