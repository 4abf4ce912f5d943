//! The parts of a run's events that do not depend on the clock.

use record::{Event, RankEnd};

/// Whether these are the events of a run whose ranks all reached its end.
pub fn is_whole(events: &[Event]) -> bool {
    let mut ends = events.iter().filter_map(|event| match event {
        Event::Ended(ended) => Some(ended.end == RankEnd::Finished),
        _ => None,
    });
    ends.next().is_some_and(|first| first && ends.all(|finished| finished))
}

/// Steps, digests, measured values and totals of compression: each event once, in words that are equal where the bits are.
pub fn numbers(events: &[Event]) -> Vec<String> {
    let mut numbers: Vec<String> = events.iter().filter_map(number).collect();
    numbers.sort();
    numbers
}

fn number(event: &Event) -> Option<String> {
    match event {
        Event::Step(step) => {
            let loss = step.loss.map(f32::to_bits);
            let place = format!("{} {} {} {}", step.rank, step.lane, step.step, step.samples);
            Some(format!("step {place} {loss:?} {}", step.bytes_out))
        }
        Event::WeightHash(hash) => Some(format!("weights {} {} {}", hash.rank, hash.step, hash.sha256)),
        Event::Metric(metric) => {
            let value = metric.value.to_bits();
            Some(format!("metric {:?} {} {} {value}", metric.metric, metric.model, metric.samples))
        }
        Event::Coding(coding) => {
            Some(format!("coding {} {} {}", coding.rank, coding.bytes, coding.squared_error))
        }
        _ => None,
    }
}
