//! Tables of machines: a row for each of what it has, and of its network, and remarks on what disturbs measurements.

use crate::machines::namesakes;
use crate::output::human;
use crate::output::paint::{BAD, ODD, PLAIN};
use crate::output::table::{Cell, Sheet};
use launch::{HostError, HostState, WallClock};
use recipe::Device;
use record::Nanos;
use std::time::Duration;

/// A one-minute load of as many tasks per core is more than the machine's own housekeeping.
const BUSY: f64 = 0.25;
/// Fewer bytes fill no fast link whose answer takes a millisecond.
const LEAST_BUFFER: u64 = 4 << 20;
/// A wall clock that is further off is not kept by anything.
const KEPT: u64 = 1_000_000_000;

/// A row for each machine.
pub(super) fn machines(states: &[HostState], errors: &[HostError]) -> Sheet {
    let all = ["machine", "state", "cores", "GPUs", "memory free", "disk free", "load", "clock", "governor"];
    // Of no interest where all train on processors.
    let with_gpus = states.iter().any(|state| state.node.device != Device::Cpu);
    let head: Vec<&str> = all.into_iter().filter(|name| with_gpus || *name != "GPUs").collect();
    let numbers: Vec<usize> = (2..head.len() - 1).collect();
    let mut sheet = Sheet::new(&head).right(&numbers).whole(&[0, 1]);
    for error in errors {
        let rest = head.iter().skip(2).map(|_| "–".into());
        let row = [error.host.as_str().into(), Cell::styled(BAD, "unreachable")].into_iter().chain(rest);
        sheet.row(row.collect());
    }
    for state in states {
        let load = load(state);
        let governor = state.counters.as_ref().and_then(|counters| counters.governor.clone());
        let word = match (fits(state), is_busy(state)) {
            (false, _) => Cell::styled(BAD, "cannot run"),
            (true, true) => Cell::styled(ODD, "busy"),
            (true, false) => Cell::styled(PLAIN, "ready"),
        };
        let gpus = state.free.gpus.map_or_else(|| "–".to_owned(), |gpus| gpus.to_string());
        let mut row = vec![state.node.name.as_str().into(), word, state.free.cores.to_string().into()];
        row.extend(with_gpus.then(|| gpus.into()));
        row.extend([
            human::bytes(state.free.memory).into(),
            human::bytes(state.free.disk).into(),
            load.map_or_else(|| "–".into(), |load| format!("{load:.2}")).into(),
            clock(state.clock_error).into(),
            governor.unwrap_or_else(|| "–".into()).into(),
        ]);
        sheet.row(row);
    }
    sheet
}

/// Whether a machine can run the recipe.
pub(super) fn fits(state: &HostState) -> bool {
    state.worker.is_ok() && state.data.is_ok() && state.door.is_ok()
}

fn load(state: &HostState) -> Option<f64> {
    state.counters.as_ref().and_then(|counters| counters.load)
}

fn is_busy(state: &HostState) -> bool {
    load(state).is_some_and(|load| load > BUSY * f64::from(state.free.cores))
}

/// A row for the network of each machine.
pub(super) fn networks(states: &[HostState]) -> Sheet {
    let head = ["machine", "door", "card", "speed", "mtu", "receives", "sends", "wall clock"];
    let mut sheet = Sheet::new(&head).right(&[3, 4, 5, 6, 7]).whole(&[0]);
    for state in states {
        let card = state.network.interface.as_ref();
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
        let buffer = |bytes: Option<u64>| or_dash(bytes.map(human::bytes));
        sheet.row(vec![
            state.node.name.as_str().into(),
            or_dash(state.door.as_ref().ok().map(|door| door.ip().to_string())).into(),
            or_dash(card.map(|card| card.name.clone())).into(),
            or_dash(card.and_then(|card| card.speed).map(speed)).into(),
            or_dash(card.and_then(|card| card.mtu).map(|mtu| mtu.to_string())).into(),
            buffer(state.network.receive_buffer).into(),
            buffer(state.network.send_buffer).into(),
            or_dash(state.wall_clock.map(ahead)).into(),
        ]);
    }
    sheet
}

/// Findings that keep no machine from running and disturb measurements there, each with its cure.
pub(super) fn remarks(states: &[HostState]) -> Vec<(String, String)> {
    let mut remarks = Vec::new();
    let hosts = states.iter().map(|state| (state.node.name.as_str(), state.facts.host.as_str()));
    if let Some(words) = namesakes(hosts) {
        let cure =
            "if they are one machine, name it once, with the number of its ranks: `use = [\"lab01*2\"]`";
        remarks.push((words, cure.to_owned()));
    }
    for state in states {
        let name = &state.node.name;
        if fits(state) && is_busy(state) {
            let load = load(state).unwrap_or_default();
            let cure = "let nothing else run there while it is measured";
            remarks.push((format!("{name} has a load of {load:.2} before anything runs"), cure.to_owned()));
        }
        let buffers = [state.network.receive_buffer, state.network.send_buffer].into_iter().flatten();
        if let Some(least) = buffers.min().filter(|least| *least < LEAST_BUFFER) {
            remarks.push((
                format!(
                    "the kernel of {name} buffers at most {} of a connection, which a fast link outruns",
                    human::bytes(least)
                ),
                "raise the third numbers of net.ipv4.tcp_rmem and net.ipv4.tcp_wmem there, as with sysctl -w \
                 'net.ipv4.tcp_rmem=4096 131072 16777216'"
                    .to_owned(),
            ));
        }
        let off = |clock: &WallClock| clock.ahead.unsigned_abs().saturating_sub(clock.error) > KEPT;
        if let Some(clock) = state.wall_clock.filter(off) {
            let cure = "let chrony or systemd-timesyncd keep it; measurements use monotonic clocks, logs the wall clock";
            remarks.push((format!("the wall clock of {name} is off by {}", ahead(clock)), cure.to_owned()));
        }
    }
    remarks
}

/// A bit rate in words: `1 Gbit/s`.
fn speed(bits: u64) -> String {
    if bits.is_multiple_of(1_000_000_000) {
        format!("{} Gbit/s", bits / 1_000_000_000)
    } else {
        format!("{} Mbit/s", bits / 1_000_000)
    }
}

/// The bound of what a clock's comparison with this machine's is wrong by.
fn clock(error: u64) -> String {
    if error == u64::MAX { "–".into() } else { format!("±{}", human::time(Nanos(error))) }
}

/// `+12 ms ±80 µs`, beside this machine's.
fn ahead(clock: WallClock) -> String {
    let sign = if clock.ahead < 0 { "−" } else { "+" };
    format!("{sign}{} ±{}", human::time(Nanos(clock.ahead.unsigned_abs())), human::time(Nanos(clock.error)))
}

pub(super) fn time(duration: Duration) -> String {
    human::time(Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_and_speeds_in_words() {
        let clock = WallClock { ahead: -2_500_000_000, error: 300_000 };
        assert_eq!(ahead(clock), "−2.50 s ±300 µs");
        assert_eq!((speed(1_000_000_000), speed(2_500_000_000)), ("1 Gbit/s".into(), "2500 Mbit/s".into()));
    }
}
