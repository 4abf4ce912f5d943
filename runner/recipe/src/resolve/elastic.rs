//! Settings of elastic strategies to their descriptions, and what cannot work about them.

use crate::resolve::optimizer::learning_rate;
use crate::resolve::shared_keys::{MOVING_RATE, RHO};
use crate::spec::strategy_kind::ExchangeThrough;
use crate::text::finding::Finding;
use crate::values::settings::Settings;
use crate::values::typed_key::Defaulted;
use crate::{MovingRate, StepPace, Strategy, SyncVariant, Training};

const VARIANT: Defaulted<u64> = Defaulted::whole("strategy.variant");

/// p * a as its authors take it: Zhang, Choromanska and `LeCun`, "Deep learning with Elastic Averaging SGD", NIPS 2015.
const ALL_TOGETHER: f32 = 0.9;

/// p * a may exceed 1 by this much, which is rounding.
const ROUNDING: f64 = 1e-6;

/// How far worker and centre move towards each other.
pub(crate) fn moving_rate(settings: &Settings) -> MovingRate {
    match (RHO.of(settings), MOVING_RATE.of(settings)) {
        (Some(rho), _) => MovingRate::Rho(rho as f32),
        (None, Some(a)) => MovingRate::Fixed(a as f32),
        (None, None) => MovingRate::Divided(ALL_TOGETHER),
    }
}

/// The variant of `easgd-sync`.
pub(crate) fn variant(settings: &Settings) -> SyncVariant {
    let number = VARIANT.of(settings);
    SyncVariant::of(number)
        .unwrap_or_else(|| unreachable!("the table takes the numbers of variants, not {number}"))
}

/// Problem of an elastic strategy's moving rate, if there is one.
pub(crate) fn findings(
    settings: &Settings,
    strategy: &Strategy,
    workers: u32,
    train: &Training,
) -> Option<Finding> {
    if strategy.kind().profile().exchange != ExchangeThrough::Centre {
        return None;
    }
    match (RHO.of(settings), MOVING_RATE.of(settings)) {
        (Some(_), Some(_)) => Some(
            Finding::new("R016", "`rho` and `moving-rate` both say how far worker and centre go")
                .at_option(settings.span(RHO), "times the learning rate")
                .at_option(settings.span(MOVING_RATE), "whatever the learning rate")
                .cure("keep one of them"),
        ),
        (None, _) | (_, None) => overshoot(settings, strategy, workers, train),
    }
}

fn overshoot(settings: &Settings, strategy: &Strategy, workers: u32, train: &Training) -> Option<Finding> {
    let lr = learning_rate(settings) * train.schedule.scale.factor(train.global_batch);
    let rho = RHO.of(settings);
    let a = rho.map_or_else(|| MOVING_RATE.of(settings), |rho| Some(lr * rho))?;
    let all = rounded(a * f64::from(workers));
    let a = rounded(a);
    let kind = strategy.kind();
    let (code, what) = if a > 1.0 + ROUNDING {
        ("R132", format!("the centre of `{kind}` overshoots a worker: its moving rate is {a} > 1"))
    } else if all <= 1.0 + ROUNDING {
        return None;
    } else if kind.profile().pace == StepPace::Common {
        ("R132", format!("the centre of `{kind}` overshoots: {workers} workers x {a} = {all} > 1"))
    } else {
        (
            "R206",
            format!(
                "the centre of `{kind}` overshoots in a round of all workers: {workers} x {a} = {all} > 1"
            ),
        )
    };
    let least = if rho.is_some() { "rho" } else { "moving-rate" };
    let most = 1.0 / f64::from(workers.max(1)) / rho.map_or(1.0, |_| lr);
    Some(
        Finding::new(code, what)
            .at_option(settings.span(RHO).or(settings.span(MOVING_RATE)), format!("a = {a}"))
            .cure(format!("take `{least}` up to {}", rounded_down(most))),
    )
}

/// To nine digits, which hides the error of binary fractions.
fn rounded(share: f64) -> f64 {
    (share * 1e9).round() / 1e9
}

/// To four digits, and never up.
fn rounded_down(most: f64) -> f64 {
    let digits = 10_f64.powf(3.0 - most.log10().floor());
    // A value that is exact but for its last bit stays as it is.
    (most * digits * (1.0 + 1e-12)).floor() / digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_advised_is_no_overshoot() {
        for workers in 1..=1000 {
            for rate in [1.0, 0.1, 0.037, 3e-5] {
                let most = 1.0 / f64::from(workers) / rate;
                let advised = rounded_down(most);
                assert!(
                    advised <= most * (1.0 + 1e-9) && advised > 0.998 * most,
                    "{workers} {rate}: {advised}"
                );
            }
        }
        assert_eq!(rounded_down(1.0 / 6.0).to_string(), "0.1666");
        assert_eq!(rounded_down(0.25).to_string(), "0.25");
        assert_eq!(rounded(0.1 * 12.0).to_string(), "1.2");
    }
}
