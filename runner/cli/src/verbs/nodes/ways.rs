//! The ways between machines: what a message costs as a line a + b M, and what all-reduces would cost by the slowest of these lines.

use super::machines::time;
use crate::output::human;
use crate::output::paint::BAD;
use crate::output::table::{Cell, Sheet};
use launch::{Way, WayState};
use predict::all_reduce;
use predict::linear::{Fit, Linear, Probe};
use predict::network::LinkRates;
use serde::Serialize;
use std::num::NonZeroU32;
use std::time::Duration;

/// The messages of a benchmark, in bytes.
pub(super) const SIZES: [u64; 5] = [16 << 10, 256 << 10, 2 << 20, 16 << 20, 64 << 20];
/// The vectors whose all-reduce is predicted, in bytes.
const VECTORS: [u64; 3] = [1 << 20, 10 << 20, 100 << 20];

/// A way in numbers, for the record.
#[derive(Clone, Debug, Serialize)]
pub(super) struct MeasuredWay {
    from: String,
    to: String,
    /// The shortest measured time of a byte there and back, in seconds.
    round_trip: f64,
    /// Bytes, and the seconds in which they went there and came back at once.
    messages: Vec<(u64, f64)>,
    /// Seconds of a message of no bytes, and per byte; `None` without messages.
    line: Option<Line>,
}

/// A cost of a + b M seconds for M bytes.
#[derive(Clone, Copy, Debug, Serialize)]
struct Line {
    a: f64,
    b: f64,
    /// The largest distance of a message from the line, relative to its time.
    off: f64,
}

impl MeasuredWay {
    /// Measurements of a way; `None` unless it is open.
    pub(super) fn of(state: &WayState) -> Option<Self> {
        let WayState { from, to, outcome: Ok(Way { round_trip, sent }) } = state else { return None };
        let messages: Vec<(u64, f64)> =
            sent.iter().map(|sent| (sent.bytes, sent.time.as_secs_f64())).collect();
        let from = from.clone();
        let to = to.clone();
        Some(Self { from, to, round_trip: round_trip.as_secs_f64(), line: line(&messages), messages })
    }
}

/// The line with the least relative distances: small messages tell a, large ones b.
fn line(messages: &[(u64, f64)]) -> Option<Line> {
    let probes: Vec<Probe> =
        messages.iter().map(|(bytes, seconds)| Probe { bytes: *bytes, seconds: *seconds }).collect();
    let fit = Fit::relative(&probes).ok()?;
    let off = |(residual, probe): (&f64, &Probe)| residual.abs() / probe.seconds.max(1e-12);
    let off = fit.residuals.iter().zip(&probes).map(off).fold(0.0, f64::max);
    Some(Line { a: fit.cost.start_up(), b: fit.cost.per_byte(), off })
}

/// A row for each way.
pub(super) fn sheet(ways: &[WayState]) -> Sheet {
    let measured = ways.iter().any(|way| way.outcome.as_ref().is_ok_and(|way| !way.sent.is_empty()));
    let head = ["from", "to", "round trip", "a", "1 / b", "off the line"];
    let mut sheet = Sheet::new(if measured { &head } else { &head[..3] }).right(&[2, 3, 4, 5]);
    for state in ways {
        let mut row: Vec<Cell> = vec![state.from.as_str().into(), state.to.as_str().into()];
        let found = MeasuredWay::of(state);
        row.push(
            found.as_ref().map_or_else(|| Cell::styled(BAD, "closed"), |way| seconds(way.round_trip).into()),
        );
        if measured {
            let line = found.and_then(|way| way.line);
            let cell = |words: &dyn Fn(Line) -> String| line.map_or_else(|| "–".to_owned(), words);
            row.push(cell(&|line| seconds(line.a)).into());
            row.push(cell(&|line| format!("{}/s", human::bytes((1.0 / line.b.max(1e-18)) as u64))).into());
            row.push(cell(&|line| human::percent(line.off)).into());
        }
        sheet.row(row);
    }
    sheet
}

/// Predicted costs of all-reduces between one rank on each machine, by the slowest line of the ways: MG-WFBP Table II,
/// without the sums. `None` where nothing was measured.
pub(super) fn all_reduces(ways: &[MeasuredWay], machines: usize) -> Option<Sheet> {
    let machines = NonZeroU32::new(u32::try_from(machines).ok()?).filter(|machines| machines.get() > 1)?;
    let slowest =
        |of: fn(&Line) -> f64| ways.iter().filter_map(|way| way.line.as_ref().map(of)).reduce(f64::max);
    let rates = LinkRates::new(slowest(|line| line.a)?, slowest(|line| line.b)?, 0.0).ok()?;
    let rows: [(&str, Linear); 4] = [
        ("ring", all_reduce::ring(rates, machines)),
        ("ring, in rank order", all_reduce::in_rank_order(rates, machines)),
        ("halving and doubling", all_reduce::halving_doubling(rates, machines)),
        ("recursive doubling", all_reduce::recursive_doubling(rates, machines)),
    ];
    let sizes = VECTORS.map(human::bytes);
    let head: Vec<&str> =
        ["all-reduce", "a", "b per MiB"].into_iter().chain(sizes.iter().map(String::as_str)).collect();
    let mut sheet = Sheet::new(&head).right(&[1, 2, 3, 4, 5]).whole(&[0]);
    for (name, cost) in rows {
        let mut row: Vec<Cell> = vec![name.into(), seconds(cost.start_up()).into()];
        row.push(seconds(cost.per_byte() * f64::from(1 << 20)).into());
        row.extend(VECTORS.map(|bytes| seconds(cost.time(bytes)).into()));
        sheet.row(row);
    }
    Some(sheet)
}

fn seconds(seconds: f64) -> String {
    time(Duration::from_secs_f64(seconds.clamp(0.0, 1e9)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use launch::Sent;

    /// A way on which M bytes take 2 ms and 10 ns each.
    fn way(from: &str, to: &str) -> WayState {
        let time = |bytes: u64| Duration::from_secs_f64(2e-3 + 1e-8 * bytes as f64);
        let sent = SIZES.map(|bytes| Sent { bytes, time: time(bytes) }).to_vec();
        let round_trip = Duration::from_millis(1);
        WayState { from: from.to_owned(), to: to.to_owned(), outcome: Ok(Way { round_trip, sent }) }
    }

    #[test]
    fn a_line_is_found_and_all_reduces_follow_from_it() {
        let states = [way("a", "b"), way("b", "a")];
        let shown = sheet(&states).render(100);
        assert!(shown.contains("2.00 ms") && shown.contains("95.4 MiB/s"), "{shown}");
        let ways: Vec<MeasuredWay> = states.iter().filter_map(MeasuredWay::of).collect();
        let line = ways[0].line.unwrap();
        assert!((line.a - 2e-3).abs() < 1e-9 && (line.b - 1e-8).abs() < 1e-14 && line.off < 1e-6, "{line:?}");
        // Two ranks: a ring sends half of the vector twice.
        let shown = all_reduces(&ways, 2).unwrap().render(100);
        let ring = shown.lines().find(|line| line.starts_with("ring  ")).unwrap();
        assert!(ring.contains("4.00 ms") && ring.contains("10.5 ms") && ring.contains("14.5 ms"), "{ring}");
        assert!(all_reduces(&ways, 1).is_none() && all_reduces(&[], 2).is_none());
    }

    #[test]
    fn without_messages_there_are_round_trips_alone() {
        let mut state = way("a", "b");
        state.outcome.as_mut().unwrap().sent.clear();
        assert!(MeasuredWay::of(&state).unwrap().line.is_none());
        assert!(!sheet(&[state]).render(100).contains("1 / b"));
    }
}
