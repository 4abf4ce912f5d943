//! No rows, however odd, break a page.

use crate::checks::checked_with;
use proptest::prelude::*;
use reports::sample::{Sample, timelines};
use store::RunState;

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(0.0),
        Just(-1.0),
        Just(1e300),
        Just(5e-324),
        0.0..1.0_f64
    ]
}

fn nanos() -> impl Strategy<Value = record::Nanos> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), 0..10_000_000_000_u64].prop_map(record::Nanos)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn makes_a_page(
        states in prop::collection::vec(0..RunState::ALL.len(), 6),
        values in prop::collection::vec(number(), 6),
        times in prop::collection::vec(nanos(), 8),
        counts in prop::collection::vec(0..4_u64, 4),
        target in prop::option::of(number()),
    ) {
        let mut rows = Sample { repeats: 3, workers: vec![2], epochs: (1, 2), target, ..Sample::duel() }.rows();
        let mut spans = timelines(&rows);
        for course in spans.values_mut().filter_map(|traced| traced.course.as_mut()) {
            (course.from, course.to) = (times[0], times[1]);
            for (place, worker) in course.workers.iter_mut().enumerate() {
                worker.stretches.truncate(counts[place % 4] as usize * 40);
                worker.stretches.iter_mut().for_each(|own| *own = (counts[place % 4] > 1).then_some(times[place + 2]));
                (worker.longest.own, worker.longest.begin) = (times[place], times[place + 1]);
            }
        }
        for (place, span) in spans.values_mut().flat_map(|traced| &mut traced.spans).enumerate() {
            span.length = times[place % 8];
            span.begin = times[(place / 3) % 8];
            span.step = counts[place % 4];
        }
        for (place, run) in rows.runs.iter_mut().enumerate() {
            run.state = RunState::ALL[states[place]];
            let Some(attempt) = &mut run.attempt else { continue };
            attempt.step_time = Some(times[place]);
            attempt.training = (counts[place % 4] > 0).then_some(times[place + 1]);
            (attempt.steps, attempt.samples) = (counts[place % 4], counts[(place + 1) % 4]);
            for (at, row) in attempt.metrics.iter_mut().enumerate() {
                (row.value, row.epoch, row.at) = (values[at % 6], values[(at + 1) % 6], times[at % 8]);
            }
            for (at, row) in attempt.losses.iter_mut().enumerate() {
                (row.loss, row.at) = (values[at % 6], times[at % 8]);
            }
            for rank in &mut attempt.ranks {
                rank.steady = store::Steady { time: times[place], steps: counts[place % 4] };
                rank.phases.iter_mut().for_each(|row| row.total = times[place % 8]);
                rank.bytes_out = times[place].0;
            }
            attempt.links.iter_mut().for_each(|link| link.bytes = times[place % 8].0);
        }
        checked_with(&rows, &spans);
    }
}
