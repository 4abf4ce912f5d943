//! Measurements of a run, for predictions of arms that did not run: its computing, and the costs of its messages.
//!
//! A plan of `merged` or `merged-exact` holds a + b M of the run's own messages and the time of each layer. Each row of MG-WFBP
//! Table II is A alpha + B beta M with A and B of the collective and the number of workers, so that alpha = a / A and beta = b / B are
//! those of a link, and predict another number of workers or another strategy. They hold what a rank does with a message beside sending it
//! (adding, and the work per message), so that they fit the same collective best.
//!
//! Nothing is taken where messages follow no such line: a ring passes parts of a chunk above [`RING_SEGMENT`] on before the rest has come,
//! and a codec's own work would count as bytes.

use super::messages::message_cost;
use super::{Computing, NoModel, Passes};
use crate::{number_format, phase_shares};
use predict::all_reduce::RING_SEGMENT;
use predict::network::LinkRates;
use recipe::{Compression, ExchangeThrough, ModelShare, Profile, RunSpec, Schedule, Sends, StrategyKind};
use record::{HeldCost, Phase, ScheduleCost};
use std::num::NonZeroU32;
use store::AttemptRow;

/// Measurements of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The mean over workers and steady steps. If the run made a plan, the layers' parts of the backward pass are those of the few
    /// steps that the plan is from. The reason where it is not that of other arms.
    pub computing: Result<Computing, NoModel>,
    /// Rates of a link, from the costs of messages; the reason where they are not known.
    pub rates: Result<LinkRates, NoModel>,
}

/// Measurements of a run; `None` if it has no steady steps.
pub fn measured(spec: &RunSpec, attempt: &AttemptRow) -> Option<Measured> {
    let shares = phase_shares::workers(attempt)?;
    let [forward, backward, update] =
        [Phase::Forward, Phase::Backward, Phase::Update].map(|phase| shares.of(phase));
    let step = forward + backward + update;
    if step <= 0.0 {
        return None;
    }
    let schedule = attempt.schedule.as_ref();
    let layers = schedule.iter().flat_map(|schedule| &schedule.layers).map(|time| time.seconds());
    let passes = Passes { forward, backward, update, layers: layers.collect() };
    let cost = schedule.and_then(|schedule| schedule.cost);
    let rates = cost.map_or_else(|| Err(NoModel(no_messages(spec).to_owned())), |cost| rates(spec, cost));
    let computing = if spec.cluster.with_gpus().is_some() {
        Err(NoModel("no equation has the copies between the host and a GPU".to_owned()))
    } else if spec.strategy.kind().profile().share == ModelShare::Part {
        Err(NoModel(format!(
            "workers of `{}` compute parts of the model that others do not",
            spec.strategy.kind()
        )))
    } else if spec.strategy.kind().profile().sends == Sends::Both {
        Err(NoModel("its servers made the updates, so that its workers' computing has none".to_owned()))
    } else if !spec.emulation.slow.is_empty() {
        Err(NoModel("some of its ranks were slowed down".to_owned()))
    } else if !spec.faults.is_empty() {
        Err(NoModel("something happened to some of its ranks".to_owned()))
    } else {
        Ok(Computing { step, passes: Some(passes) })
    };
    Some(Measured { computing, rates })
}

/// Why a run has no cost of messages.
fn no_messages(spec: &RunSpec) -> &'static str {
    match spec.communication.schedule {
        Schedule::Merged | Schedule::MergedExact if spec.model.weighted_layers().len() < 2 => {
            "the run measured no messages: a model of one layer needs no plan"
        }
        Schedule::Merged | Schedule::MergedExact => "the run measured no messages: it ended before its plan",
        Schedule::Single | Schedule::PerLayer | Schedule::Fixed { .. } => {
            "the run measured no messages: `merged` and `merged-exact` do"
        }
    }
}

/// The link whose all-reduces cost what was measured.
fn rates(spec: &RunSpec, cost: ScheduleCost) -> Result<LinkRates, NoModel> {
    let wrong = |error: &dyn std::fmt::Display| NoModel(error.to_string());
    if !averages_all_of_the_gradient(spec.strategy.kind()) {
        return Err(NoModel(format!(
            "messages of `{}` tell nothing of a link: take a run of `d-sync` or `pipe-sgd`",
            spec.strategy.kind()
        )));
    }
    follows_a_line(spec, cost)?;
    let workers = NonZeroU32::new(spec.cluster.workers()).filter(|workers| workers.get() > 1);
    let workers = workers.ok_or_else(|| NoModel("one worker sends no messages".to_owned()))?;
    let unit = |alpha, beta| LinkRates::new(alpha, beta, 0.0).map_err(|error| wrong(&error));
    let start_ups = message_cost(spec, unit(1.0, 0.0)?, workers)?.start_up();
    let per_byte = message_cost(spec, unit(0.0, 1.0)?, workers)?.per_byte();
    LinkRates::new(cost.start_up / start_ups, cost.per_byte / per_byte, 0.0).map_err(|error| wrong(&error))
}

/// Whether each measured message is an all-reduce of a part of the gradient among all workers.
fn averages_all_of_the_gradient(kind: StrategyKind) -> bool {
    let Profile { exchange, share, .. } = kind.profile();
    kind.takes_schedule() && exchange == ExchangeThrough::AllReduce && share == ModelShare::Whole
}

/// The largest distance of a measured message from the line.
const FARTHEST: f64 = 0.2;

/// Refuses runs whose messages tell nothing of other messages.
fn follows_a_line(spec: &RunSpec, cost: ScheduleCost) -> Result<(), NoModel> {
    let refused = |reason: String| Err(NoModel(format!("its messages tell nothing of a link: {reason}")));
    if spec.compression != Compression::None {
        return refused("they are coded, and coding takes time too".to_owned());
    }
    let chunk = 4 * spec.model.parameter_count() as u64 / u64::from(spec.cluster.workers().max(1));
    if spec.communication.adds_around_a_ring() && chunk > RING_SEGMENT as u64 {
        let part = RING_SEGMENT >> 10;
        return refused(format!(
            "a ring passes parts of chunks above {part} KiB on before the rest has come"
        ));
    }
    match cost.held {
        Some(HeldCost::StartUp) => return refused("no start-up time could be told apart".to_owned()),
        Some(HeldCost::PerByte) => return refused("no time per byte could be told apart".to_owned()),
        None => {}
    }
    if cost.worst > FARTHEST {
        return refused(format!("they are up to {} off the line", number_format::percent(cost.worst)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::forecast;
    use super::*;
    use crate::sample::Sample;
    use recipe::{Collective, ReduceOrder, Strategy};
    use record::{Nanos, Rank, ScheduleRecord};

    /// A plan whose messages took what a link with these rates makes of the run's own collective.
    fn with_plan(spec: &RunSpec, link: LinkRates, layers: &[u64]) -> ScheduleRecord {
        let workers = NonZeroU32::new(spec.cluster.workers()).unwrap();
        let cost = message_cost(spec, link, workers).unwrap();
        ScheduleRecord {
            rank: Rank(0),
            at: Nanos(0),
            from_step: 9,
            steps: 1,
            cost: Some(ScheduleCost {
                start_up: cost.start_up(),
                per_byte: cost.per_byte(),
                worst: 0.0,
                held: None,
                computed: Nanos(0),
            }),
            layers: layers.iter().map(|micros| Nanos(micros * 1_000)).collect(),
            buckets: Vec::new(),
        }
    }

    /// The specification and the attempt of a `d-sync` run.
    fn run(collective: Collective, order: ReduceOrder) -> (RunSpec, AttemptRow) {
        let rows = Sample::duel().rows();
        let run = rows.runs.iter().find(|run| rows.plan.cells[run.cell].arm == 1).unwrap();
        let mut spec = rows.plan.cells[run.cell].spec.clone();
        (spec.strategy, spec.model) = (Strategy::DSync, super::super::tests::model());
        (spec.communication.collective, spec.communication.reduce_order) = (collective, order);
        (spec, run.attempt.clone().unwrap())
    }

    #[test]
    fn a_link_is_found_again_through_any_row_of_the_table() {
        let link = LinkRates::new(3e-4, 7e-9, 0.0).unwrap();
        for collective in
            [Collective::Ring, Collective::Tree, Collective::RecursiveDoubling, Collective::HalvingDoubling]
        {
            for order in [ReduceOrder::Ring, ReduceOrder::Rank] {
                let (spec, mut attempt) = run(collective, order);
                attempt.schedule = Some(with_plan(&spec, link, &[]));
                let found = measured(&spec, &attempt).unwrap().rates.unwrap();
                assert!((found.alpha() / link.alpha() - 1.0).abs() < 1e-12, "{collective:?} {found:?}");
                assert!((found.beta() / link.beta() - 1.0).abs() < 1e-12, "{collective:?} {found:?}");
            }
        }
    }

    #[test]
    fn messages_that_follow_no_line_tell_nothing() {
        let link = LinkRates::new(1e-3, 1e-8, 0.0).unwrap();
        let why = |change: &dyn Fn(&mut RunSpec, &mut ScheduleCost)| {
            let (mut spec, mut attempt) = run(Collective::Ring, ReduceOrder::Ring);
            let mut schedule = with_plan(&spec, link, &[]);
            change(&mut spec, schedule.cost.as_mut().unwrap());
            attempt.schedule = Some(schedule);
            measured(&spec, &attempt).unwrap().rates.err().map(|NoModel(reason)| reason)
        };
        assert_eq!(why(&|_, _| ()), None);
        let held = why(&|_, cost| cost.held = Some(HeldCost::StartUp)).unwrap();
        assert!(held.contains("no start-up time"), "{held}");
        assert!(why(&|_, cost| cost.worst = 0.3).unwrap().contains("30.0\u{a0}% off the line"));
        let halves =
            Compression::Coded { codec: recipe::Codec::Fp16, error_feedback: false, parameters: false };
        assert!(why(&|spec, _| spec.compression = halves).unwrap().contains("coded"));
        // 110,100 weights among four workers are chunks of 107 KiB; twice as many of one are more than a segment.
        let large = why(&|spec, _| {
            spec.cluster.placements.truncate(1);
            spec.model = super::super::tests::of_widths(&[2000, 100, 100, 1]);
        });
        assert!(large.unwrap().contains("512 KiB"));
    }

    #[test]
    fn layers_take_what_was_measured_and_not_what_their_arithmetic_says() {
        let link = LinkRates::new(1e-3, 1e-8, 0.0).unwrap();
        let (mut spec, mut attempt) = run(Collective::Ring, ReduceOrder::Ring);
        spec.communication.schedule = Schedule::PerLayer;
        let sizes: Vec<u64> =
            spec.model.weighted_layers().iter().map(|layer| 4 * layer.size() as u64).collect();
        // The first layers take the longest, whatever they hold.
        let times: Vec<u64> = (0..sizes.len() as u64).map(|place| 1_000 >> place).collect();
        attempt.schedule = Some(with_plan(&spec, link, &times));
        let found = measured(&spec, &attempt).unwrap();
        let computing = found.computing.unwrap();
        let passes = computing.passes.clone().unwrap();
        let workers = NonZeroU32::new(spec.cluster.workers()).unwrap();
        let message = message_cost(&spec, link, workers).unwrap();
        let mut finished = passes.forward;
        let mut free = 0.0_f64;
        for (bytes, time) in sizes.iter().zip(&times).rev() {
            finished += passes.backward * *time as f64 / times.iter().sum::<u64>() as f64;
            free = free.max(finished) + message.time(*bytes);
        }
        let predicted = forecast(&spec, link, &computing).unwrap();
        assert!((predicted.step - (free + passes.update)).abs() < 1e-12, "{predicted:?} {free}");
        assert!((predicted.compute() - computing.step).abs() < 1e-15);
    }

    #[test]
    fn workers_whose_servers_update_tell_no_computing() {
        let (mut spec, attempt) = run(Collective::Ring, ReduceOrder::Ring);
        spec.strategy = Strategy::PsSync;
        assert!(measured(&spec, &attempt).unwrap().computing.unwrap_err().0.contains("servers"));
        spec.strategy = Strategy::LocalSgd { period: 4 };
        assert!(measured(&spec, &attempt).unwrap().computing.is_ok());
    }

    #[test]
    fn a_run_without_a_plan_tells_its_computing_alone() {
        let (spec, mut attempt) = run(Collective::Ring, ReduceOrder::Ring);
        attempt.schedule = None;
        let found = measured(&spec, &attempt).unwrap();
        let passes = found.computing.unwrap().passes.unwrap();
        assert!(passes.layers.is_empty() && passes.backward > 0.0);
        assert!(found.rates.unwrap_err().0.contains("`merged`"));
    }
}
