//! Settings of elastic strategies to their descriptions, and what cannot work about them.

use crate::Training;
use crate::arm_keys::ELASTIC;
use crate::key::{KeyId, id};
use crate::method::{PERIOD, momentum, serve, usual_period};
use crate::problem::Finding;
use crate::resolve::{LR, OWN_LR, STRATEGY_KIND};
use crate::setting::Settings;
use crate::strategy::{MovingRate, Strategy, SyncVariant};

pub(crate) const RHO: KeyId = id("strategy.rho");
pub(crate) const MOVING_RATE: KeyId = id("strategy.moving-rate");
const OVERLAP: KeyId = id("strategy.overlap");
const VARIANT: KeyId = id("strategy.variant");
const LOOK_AHEAD: KeyId = id("strategy.look-ahead");

/// p * a as its authors take it: Zhang, Choromanska and `LeCun`, "Deep learning with Elastic Averaging SGD", NIPS 2015.
const ALL_TOGETHER: f32 = 0.9;

/// What rounding of p * a is no overshoot.
const ROUNDING: f64 = 1e-6;

/// The elastic strategy of that kind that the settings describe.
pub(crate) fn strategy(settings: &Settings, kind: &str) -> Option<Strategy> {
    let moving_rate = moving_rate(settings);
    let period = settings.whole(PERIOD).unwrap_or(usual_period(kind));
    let (momentum, serve) = (|| momentum(settings) as f32, serve(settings));
    match kind {
        "easgd-original" => Some(Strategy::EasgdOriginal { moving_rate, overlap: settings.flag(OVERLAP) }),
        "easgd-async" => Some(Strategy::EasgdAsync { moving_rate, period, serve }),
        "measgd-async" => Some(Strategy::MeasgdAsync { moving_rate, momentum: momentum(), period, serve }),
        "easgd-hogwild" => Some(Strategy::EasgdHogwild { moving_rate, period }),
        "easgd-sync" => {
            let variant = match settings.whole(VARIANT) {
                Some(1) => SyncVariant::Master,
                Some(2) => SyncVariant::FirstWorker,
                _ => SyncVariant::Overlapped,
            };
            Some(Strategy::EasgdSync { moving_rate, variant })
        }
        "eamsgd" => {
            let look_ahead = settings.flag(LOOK_AHEAD);
            Some(Strategy::Eamsgd { moving_rate, momentum: momentum(), period, serve, look_ahead })
        }
        _ => None,
    }
}

fn moving_rate(settings: &Settings) -> MovingRate {
    match (settings.number(RHO), settings.number(MOVING_RATE)) {
        (Some(rho), _) => MovingRate::Rho(rho as f32),
        (None, Some(a)) => MovingRate::Fixed(a as f32),
        (None, None) => MovingRate::Divided(ALL_TOGETHER),
    }
}

/// What cannot work about an elastic strategy's moving rate among so many workers.
pub(crate) fn findings(
    settings: &Settings,
    (strategy, workers): (&Strategy, u32),
    train: &Training,
) -> Option<Finding> {
    let kind = settings.choice(STRATEGY_KIND);
    if !ELASTIC.contains(&kind) {
        return None;
    }
    match (settings.number(RHO), settings.number(MOVING_RATE)) {
        (Some(_), Some(_)) => Some(
            Finding::new("R016", "`rho` and `moving-rate` both say how far worker and centre go")
                .at_option(settings.span(RHO), "times the learning rate")
                .at_option(settings.span(MOVING_RATE), "whatever the learning rate")
                .cure("keep one of them"),
        ),
        _ => overshoot(settings, (strategy, workers), train),
    }
}

/// A training in which workers meet the centre once or twice: of `batches` steps where their number is known before the
/// data is read.
pub(crate) fn long_period(settings: &Settings, strategy: &Strategy, batches: Option<u64>) -> Option<Finding> {
    let (period, batches) = (strategy.period(), batches?);
    if !ELASTIC.contains(&strategy.kind()) || period == 1 || period.saturating_mul(2) < batches {
        return None;
    }
    let (code, what) = if period >= batches {
        ("R133", format!("in {batches} steps no worker comes back to the centre after {period}"))
    } else {
        ("R207", format!("in {batches} steps each worker comes back to the centre once, after {period}"))
    };
    Some(
        Finding::new(code, what)
            .at_option(settings.span(PERIOD), "steps between two exchanges")
            .note("what a worker does after its last exchange never reaches the centre, which the run is judged by")
            .cure(format!("take a period of up to {}, or train for longer", (batches / 10).max(1))),
    )
}

fn overshoot(
    settings: &Settings,
    (strategy, workers): (&Strategy, u32),
    train: &Training,
) -> Option<Finding> {
    let lr = settings.number(OWN_LR).or(settings.number(LR)).unwrap_or(0.0);
    let lr = lr * train.schedule.scale.factor(train.global_batch);
    let rho = settings.number(RHO);
    let a = rho.map_or_else(|| settings.number(MOVING_RATE), |rho| Some(lr * rho))?;
    let (all, kind) = (rounded(a * f64::from(workers)), strategy.kind());
    let a = rounded(a);
    let together = matches!(strategy, Strategy::EasgdSync { .. });
    let (code, what) = match () {
        () if a > 1.0 + ROUNDING => {
            ("R132", format!("the centre of `{kind}` goes {a} of the way to a worker"))
        }
        () if all <= 1.0 + ROUNDING => return None,
        () if together => {
            ("R132", format!("the centre of `{kind}` goes {all} of the way to its {workers} workers"))
        }
        () => ("R206", format!("the centre of `{kind}` goes {workers} times {a} of the way in one round")),
    };
    let least = if rho.is_some() { "rho" } else { "moving-rate" };
    let most = 1.0 / f64::from(workers.max(1)) / rho.map_or(1.0, |_| lr);
    Some(
        Finding::new(code, what)
            .at_option(settings.span(RHO).or(settings.span(MOVING_RATE)), format!("a = {a}"))
            .cure(format!("take `{least}` up to {}", rounded_down(most))),
    )
}

/// Without what binary fractions add.
fn rounded(share: f64) -> f64 {
    (share * 1e9).round() / 1e9
}

/// With four digits, and never more than it is.
fn rounded_down(most: f64) -> f64 {
    let digits = 10_f64.powf(3.0 - most.log10().floor());
    // What is exact but for the last bit stays what it is.
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
