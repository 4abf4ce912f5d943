//! Use of a machine while a run trained on it: its counters at some moments, and the shares between two of them.
//!
//! The counters grow from the machine's start and mean something only as differences. A machine that does not report one of
//! them, as virtual machines report no frequency, says nothing of it.

use crate::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Cores times seconds below which shares say more about the kernel's ticks, 10 ms each, than about the machine.
const LEAST_CORE_SECONDS: f64 = 1.0;

/// The counters of one machine at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostRecord {
    /// The machine's position in the cluster of the run.
    pub node: u32,
    /// When it was read, on the clock of the run.
    pub at: Nanos,
    /// Number of cores that the run may use; `busy`, `steal` and `frequency` are about these.
    pub cores: u32,
    /// Processor time of all processes and of the kernel, over these cores.
    pub busy: Nanos,
    /// Time in which a core was ready to compute and the hypervisor let another machine use it, over these cores.
    pub steal: Nanos,
    /// Processor time of the run: its processes on this machine, and the driver if it is on this machine.
    pub own: Nanos,
    /// Time in which at least one task of the machine waited for a core: pressure-stall information, `some`.
    pub cpu_pressure: Option<Nanos>,
    /// Time in which at least one task of the machine waited for memory: the same.
    pub memory_pressure: Option<Nanos>,
    /// Load average over a minute.
    pub load: Option<f64>,
    /// Mean frequency of the cores in kHz.
    pub frequency: Option<u32>,
    /// The cores' frequency governor; `mixed` if they have several.
    pub governor: Option<String>,
    /// Memory that could still be given to processes, in bytes.
    pub memory_available: Option<u64>,
    /// By how much at most the clock of its ranks may differ from the driver's; `None` for the driver's own machine, and in records of
    /// earlier versions.
    pub clock_error: Option<Nanos>,
}

/// By how much at most the clocks of two of a run's machines may differ: the sum of the two largest errors among their readings, as each
/// clock was compared with the driver's. `None` where all ranks keep one clock, or none was compared.
pub fn clocks_apart(readings: &[HostRecord]) -> Option<Nanos> {
    let mut worst: BTreeMap<u32, Nanos> = BTreeMap::new();
    for reading in readings {
        let error = reading.clock_error.unwrap_or_default();
        let known = worst.entry(reading.node).or_default();
        *known = error.max(*known);
    }
    let mut errors: Vec<Nanos> = worst.into_values().collect();
    errors.sort_unstable();
    let [.., second, first] = errors[..] else { return None };
    (first > Nanos(0)).then(|| first + second)
}

/// Use of a machine between two readings, as shares of the time of its cores or of the elapsed time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostUse {
    /// Of the cores' time: processes that do not belong to the run, and the kernel on their behalf.
    pub others: f64,
    /// Of the cores' time: the hypervisor.
    pub steal: f64,
    /// Of the time: some task waited for a core, those of the run included.
    pub cpu_pressure: Option<f64>,
    /// Of the time: some task waited for memory, those of the run included.
    pub memory_pressure: Option<f64>,
    /// Mean of the frequencies at the readings, in kHz.
    pub frequency: Option<f64>,
    /// Mean of the load averages at the readings.
    pub load: Option<f64>,
}

impl HostUse {
    /// Between the first and the last of one machine's readings, which are in order of time. `None` if less than one second
    /// of the time of one core lies between them, or if the machine's counters stand still.
    pub fn between(readings: &[&HostRecord]) -> Option<Self> {
        let first = readings.first()?;
        let last = readings.last()?;
        let seconds = last.at.since(first.at).seconds();
        let core_seconds = seconds * f64::from(last.cores);
        let busy = last.busy.since(first.busy).seconds();
        if core_seconds < LEAST_CORE_SECONDS || busy <= 0.0 {
            return None;
        }
        let own = last.own.since(first.own).seconds();
        let pressure = |of: fn(&HostRecord) -> Option<Nanos>| {
            let stalled = of(last)?.since(of(first)?).seconds();
            Some((stalled / seconds).min(1.0))
        };
        Some(Self {
            // Both are counted in ticks, so that the difference may be slightly negative on a quiet machine.
            others: ((busy - own) / core_seconds).clamp(0.0, 1.0),
            steal: (last.steal.since(first.steal).seconds() / core_seconds).min(1.0),
            cpu_pressure: pressure(|reading| reading.cpu_pressure),
            memory_pressure: pressure(|reading| reading.memory_pressure),
            frequency: mean(readings.iter().map(|reading| reading.frequency.map(f64::from))),
            load: mean(readings.iter().map(|reading| reading.load)),
        })
    }
}

fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let known: Vec<f64> = values.flatten().collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at: f64, busy: f64, own: f64) -> HostRecord {
        let nanos = |seconds: f64| Nanos((seconds * 1e9) as u64);
        HostRecord {
            node: 0,
            at: nanos(at),
            cores: 2,
            busy: nanos(1_000.0 + busy),
            steal: nanos(7.0 + at * 0.1),
            own: nanos(3.0 + own),
            cpu_pressure: Some(nanos(50.0 + at * 0.25)),
            memory_pressure: None,
            load: Some(at),
            frequency: Some(2_000_000 + (at * 1000.0) as u32),
            governor: None,
            memory_available: None,
            clock_error: None,
        }
    }

    #[test]
    fn clocks_are_apart_by_the_errors_of_two_machines() {
        let of = |node, error: Option<u64>| HostRecord {
            node,
            clock_error: error.map(Nanos),
            ..reading(0.0, 0.0, 0.0)
        };
        // The driver's own machine, and two others, of which one drifts.
        let [own, first, second] = [of(0, None), of(1, Some(70)), of(2, Some(30))];
        let later = of(2, Some(90));
        assert_eq!(clocks_apart(&[]), None);
        assert_eq!(clocks_apart(std::slice::from_ref(&first)), None, "one clock");
        assert_eq!(clocks_apart(&[own.clone(), of(1, None)]), None, "not compared");
        assert_eq!(clocks_apart(&[own.clone(), first.clone()]), Some(Nanos(70)));
        assert_eq!(clocks_apart(&[own, first, second, later]), Some(Nanos(160)));
    }

    #[test]
    fn shares_are_of_the_time_of_all_cores() {
        // Ten seconds of two cores: 15 s busy, of which 11 s were the run's, and 1 s stolen.
        let [first, between, last] =
            [reading(0.0, 0.0, 0.0), reading(4.0, 9.0, 2.0), reading(10.0, 15.0, 11.0)];
        let used = HostUse::between(&[&first, &between, &last]).unwrap();
        assert!((used.others - 0.2).abs() < 1e-9 && (used.steal - 0.05).abs() < 1e-9, "{used:?}");
        assert!((used.cpu_pressure.unwrap() - 0.25).abs() < 1e-9);
        assert_eq!((used.memory_pressure, used.load), (None, Some(14.0 / 3.0)));
        assert!((used.frequency.unwrap() - 2_004_666.0).abs() < 1.0);
    }

    #[test]
    fn what_cannot_be_told_is_not_told() {
        let [first, soon, later] = [reading(0.0, 0.0, 0.0), reading(0.4, 0.8, 0.8), reading(5.0, 0.0, 5.0)];
        assert_eq!(HostUse::between(&[]), None);
        assert_eq!(HostUse::between(&[&first]), None);
        assert_eq!(HostUse::between(&[&first, &soon]), None, "too short");
        assert_eq!(HostUse::between(&[&first, &later]), None, "a counter that stands still");
        let own_beyond_all = reading(5.0, 8.0, 8.1);
        assert!(HostUse::between(&[&first, &own_beyond_all]).unwrap().others < 1e-12);
    }
}
