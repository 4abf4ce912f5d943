//! How domain values stand in columns: unsigned integers, floats, lanes, phases, and names of closed sets.

use crate::{RunState, StoreError};
use recipe::{Metric, Role};
use record::{LaneId, Nanos, Phase, PhaseTimes};
use std::collections::BTreeMap;

/// SQLite's integers are signed; larger values (292 years of nanoseconds) are capped.
pub(crate) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The inverse of [`int`], which never writes a negative value.
pub(crate) fn uint(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// The compute lane's code, as it stands in queries.
pub(crate) const COMPUTE: i64 = 0;
/// The code of `LaneId::Service(0)`; no lane has such a code any more, but earlier databases have them.
const SERVICE: i64 = 1;
const COMMUNICATION: i64 = 100_000;
const CLIENTS: i64 = 100_001;
const ANNOUNCER: i64 = 100_002;
const SNAPSHOT: i64 = 100_003;
const RECEIVING: i64 = 100_004;
/// The code of `LaneId::Client(0)`.
const CLIENT: i64 = 200_000;
/// The code of `LaneId::Count(0)`.
const COUNT: i64 = 300_000;

/// A lane's number in the database.
pub(crate) fn lane_code(lane: LaneId) -> i64 {
    match lane {
        LaneId::Compute => COMPUTE,
        LaneId::Communication => COMMUNICATION,
        LaneId::Clients => CLIENTS,
        LaneId::Announcer => ANNOUNCER,
        LaneId::Snapshot => SNAPSHOT,
        LaneId::Receiving => RECEIVING,
        LaneId::Client(rank) => CLIENT + i64::from(rank),
        LaneId::Count(rank) => COUNT + i64::from(rank),
        LaneId::Service(number) => SERVICE + i64::from(number),
    }
}

/// The lane of a code.
pub(crate) fn lane_of(code: i64) -> Result<LaneId, StoreError> {
    let numbered = |first: i64| u16::try_from(code - first).ok();
    let lane = match code {
        COMPUTE => Some(LaneId::Compute),
        COMMUNICATION => Some(LaneId::Communication),
        CLIENTS => Some(LaneId::Clients),
        ANNOUNCER => Some(LaneId::Announcer),
        SNAPSHOT => Some(LaneId::Snapshot),
        RECEIVING => Some(LaneId::Receiving),
        COUNT.. => numbered(COUNT).map(LaneId::Count),
        CLIENT.. => numbered(CLIENT).map(LaneId::Client),
        SERVICE.. => numbered(SERVICE).map(LaneId::Service),
        _ => None,
    };
    lane.ok_or_else(|| StoreError::Value { what: "lane", value: code.to_string() })
}

/// The purpose of a server's lane. Before lanes named it, a server's first lanes each served a worker, and the one after
/// them took snapshots.
pub(crate) fn lane_of_server(lane: LaneId, workers: usize) -> LaneId {
    match lane {
        LaneId::Service(number) if usize::from(number) >= workers.max(1) => LaneId::Snapshot,
        lane => lane,
    }
}

/// The phase of a row of the table `phase`.
pub(crate) fn phase_of(code: i64) -> Result<Phase, StoreError> {
    usize::try_from(code)
        .ok()
        .and_then(|place| Phase::ALL.get(place).copied())
        .ok_or_else(|| StoreError::Value { what: "phase", value: code.to_string() })
}

/// A float, and whether it is finite. SQLite stores infinities but no NaN, which becomes NULL.
pub(crate) fn float_columns(value: f64) -> (Option<f64>, bool) {
    ((!value.is_nan()).then_some(value), value.is_finite())
}

/// The inverse of [`float_columns`].
pub(crate) fn float_of(value: Option<f64>) -> f64 {
    value.unwrap_or(f64::NAN)
}

/// The times of a step as LEB128 numbers in the order of [`Phase::ALL`]; a typical step takes some 30 bytes.
pub(crate) fn encode_phases(times: &PhaseTimes) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(48);
    for (_, Nanos(time)) in times.iter() {
        push_number(&mut bytes, time);
    }
    bytes
}

/// Appends a number as LEB128.
fn push_number(bytes: &mut Vec<u8>, mut rest: u64) {
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

/// A LEB128 number that is too long, or whose end is missing.
struct Torn;

/// The next LEB128 number; `None` at the end.
fn next_number(rest: &mut std::slice::Iter<'_, u8>) -> Option<Result<u64, Torn>> {
    let mut byte = rest.next()?;
    let mut value = u64::from(byte & 0x7f);
    let mut shift = 7;
    while byte & 0x80 != 0 {
        let Some(next) = rest.next().filter(|_| shift < 64) else { return Some(Err(Torn)) };
        byte = next;
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
    }
    Some(Ok(value))
}

/// A histogram: for each cell, in order, its distance from the last one and its count, as LEB128 numbers.
pub(crate) fn encode_counts(counts: &BTreeMap<u32, u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut last = 0;
    for (cell, count) in counts {
        push_number(&mut bytes, u64::from(cell - last));
        push_number(&mut bytes, *count);
        last = *cell;
    }
    bytes
}

/// The inverse of [`encode_counts`].
pub(crate) fn decode_counts(bytes: &[u8]) -> Result<BTreeMap<u32, u64>, StoreError> {
    let wrong = || StoreError::Value { what: "histogram", value: recipe::hex(bytes) };
    let mut counts = BTreeMap::new();
    let mut cell = 0_u32;
    let mut rest = bytes.iter();
    while let Some(distance) = next_number(&mut rest) {
        let distance = distance.ok().and_then(|distance| u32::try_from(distance).ok()).ok_or_else(wrong)?;
        cell = cell.checked_add(distance).ok_or_else(wrong)?;
        counts.insert(cell, next_number(&mut rest).and_then(Result::ok).ok_or_else(wrong)?);
    }
    Ok(counts)
}

/// The inverse of [`encode_phases`]. Phases that a later version appends are missing in old rows and read as zero.
pub(crate) fn decode_phases(bytes: &[u8]) -> Result<PhaseTimes, StoreError> {
    let wrong = || StoreError::Value { what: "phase times", value: recipe::hex(bytes) };
    let mut times = PhaseTimes::default();
    let mut rest = bytes.iter();
    for phase in Phase::ALL {
        let Some(value) = next_number(&mut rest) else { return Ok(times) };
        times[phase] = Nanos(value.map_err(|Torn| wrong())?);
    }
    if rest.next().is_some() { Err(wrong()) } else { Ok(times) }
}

/// A seed's decimal digits: SQLite has no unsigned integers.
pub(crate) fn seed_of(text: &str) -> Result<u64, StoreError> {
    text.parse().map_err(|_| StoreError::Value { what: "seed", value: text.to_owned() })
}

pub(crate) fn state_named(name: &str) -> Result<RunState, StoreError> {
    RunState::named(name).ok_or_else(|| StoreError::Value { what: "state", value: name.to_owned() })
}

pub(crate) fn metric_named(name: &str) -> Result<Metric, StoreError> {
    Metric::ALL
        .into_iter()
        .find(|metric| metric.name() == name)
        .ok_or_else(|| StoreError::Value { what: "metric", value: name.to_owned() })
}

pub(crate) fn role_named(name: &str) -> Result<Role, StoreError> {
    [Role::Worker, Role::Server]
        .into_iter()
        .find(|role| role.name() == name)
        .ok_or_else(|| StoreError::Value { what: "role", value: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn phase_times_come_back(values in prop::array::uniform14(prop_oneof![Just(0), Just(u64::MAX), any::<u64>(), 0..5_000_u64])) {
            let mut times = PhaseTimes::default();
            for (phase, value) in Phase::ALL.into_iter().zip(values) {
                times[phase] = Nanos(value);
            }
            prop_assert_eq!(decode_phases(&encode_phases(&times)).unwrap(), times);
        }

        #[test]
        fn histograms_come_back(counts in prop::collection::btree_map(any::<u32>(), any::<u64>(), 0..9)) {
            prop_assert_eq!(decode_counts(&encode_counts(&counts)).unwrap(), counts);
        }

        #[test]
        fn any_bytes_are_times_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode_phases(&bytes);
            let _ = decode_counts(&bytes);
        }
    }

    #[test]
    fn lanes_come_back_and_others_are_refused() {
        let alone = [
            LaneId::Compute,
            LaneId::Communication,
            LaneId::Clients,
            LaneId::Announcer,
            LaneId::Snapshot,
            LaneId::Receiving,
        ];
        let numbered = [LaneId::Client, LaneId::Count, LaneId::Service].map(|lane| [lane(0), lane(u16::MAX)]);
        for lane in alone.into_iter().chain(numbered.into_iter().flatten()) {
            assert_eq!(lane_of(lane_code(lane)).unwrap(), lane);
        }
        for code in [-1, 65_537, 100_005, 200_000 + 65_536, 1 << 20] {
            assert!(lane_of(code).is_err(), "{code}");
        }
    }

    #[test]
    fn lanes_of_earlier_databases_keep_their_meaning() {
        assert_eq!(lane_of(3).unwrap(), LaneId::Service(2));
        assert_eq!(lane_of_server(LaneId::Service(3), 4), LaneId::Service(3));
        assert_eq!(lane_of_server(LaneId::Service(4), 4), LaneId::Snapshot);
        assert_eq!(lane_of_server(LaneId::Service(0), 1), LaneId::Service(0));
        assert!(phase_of(14).is_err() && phase_of(-1).is_err());
    }

    #[test]
    fn infinities_stay_and_nan_becomes_null() {
        assert_eq!(float_columns(f64::INFINITY), (Some(f64::INFINITY), false));
        assert_eq!(float_columns(f64::NAN), (None, false));
        assert_eq!(float_columns(0.5), (Some(0.5), true));
        assert!(float_of(None).is_nan());
    }
}
