//! The counters of the driver's own machine, from `/proc` and `/sys` (proc(5), Documentation/accounting/psi.rst,
//! Documentation/admin-guide/pm/cpufreq.rst).

use super::processes::Processes;
use record::{HostRecord, Nanos};
use rustix::thread::{CpuSet, sched_getaffinity};
use std::fs;

/// Fields of `/proc/stat` after a core's name: user, nice, system, idle, iowait, irq, softirq, steal. Guest time is part
/// of user time.
const BUSY: [usize; 5] = [0, 1, 2, 5, 6];
const STEAL: usize = 7;

/// Fields of `/proc/PID/stat` after the program's name in brackets: utime, stime, cutime, cstime.
const PROCESSOR_TIME: std::ops::Range<usize> = 11..15;

/// Reads the counters of this machine.
pub(crate) struct HostReader {
    /// The cores that this process and those it starts may use.
    cores: Vec<usize>,
    /// Nanoseconds in a tick of the kernel's counters.
    tick: u64,
}

impl HostReader {
    pub(crate) fn new() -> Self {
        let allowed = sched_getaffinity(None).unwrap_or_default();
        let cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
        Self { cores, tick: 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1) }
    }

    /// The counters now; `None` if the kernel does not show those of its cores.
    pub(crate) fn read(&self, at: Nanos, processes: &Processes) -> Option<HostRecord> {
        let (own, stat) = processes.while_unreaped(|pids| {
            let files = pids.iter().map(|pid| format!("/proc/{pid}/stat"));
            let files = files.chain(["/proc/self/stat".to_owned()]);
            let own: u64 = files.filter_map(|path| process_ticks(&text(&path)?)).sum();
            (own, text("/proc/stat"))
        });
        let used = core_ticks(&stat?, &self.cores)?;
        Some(HostRecord {
            node: 0,
            at,
            cores: used.cores,
            busy: self.time(used.busy),
            steal: self.time(used.steal),
            own: self.time(own),
            cpu_pressure: text("/proc/pressure/cpu").and_then(|text| stalled(&text)),
            memory_pressure: text("/proc/pressure/memory").and_then(|text| stalled(&text)),
            load: text("/proc/loadavg").and_then(|text| text.split_whitespace().next()?.parse().ok()),
            frequency: self.frequency(),
            governor: self.governor(),
            memory_available: text("/proc/meminfo").and_then(|text| available(&text)),
            clock_error: None,
        })
    }

    fn time(&self, ticks: u64) -> Nanos {
        Nanos(ticks.saturating_mul(self.tick))
    }

    /// Mean over the cores; `None` unless all report it.
    fn frequency(&self) -> Option<u32> {
        let each: Option<Vec<u64>> = self
            .cores
            .iter()
            .map(|core| text(&format!("{}/scaling_cur_freq", cpufreq(*core)))?.trim().parse().ok())
            .collect();
        let each = each.filter(|each| !each.is_empty())?;
        u32::try_from(each.iter().sum::<u64>() / each.len() as u64).ok()
    }

    fn governor(&self) -> Option<String> {
        let mut names = self.cores.iter().map(|core| text(&format!("{}/scaling_governor", cpufreq(*core))));
        let first = names.next()??;
        let same = names.all(|name| name.as_ref() == Some(&first));
        Some(if same { first.trim().to_owned() } else { "mixed".to_owned() })
    }
}

fn cpufreq(core: usize) -> String {
    format!("/sys/devices/system/cpu/cpu{core}/cpufreq")
}

fn text(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Ticks of some cores.
#[derive(Debug, Default, PartialEq)]
struct CoreTicks {
    cores: u32,
    busy: u64,
    steal: u64,
}

/// The ticks of these cores in the text of `/proc/stat`; `None` if it shows none of them.
fn core_ticks(stat: &str, cores: &[usize]) -> Option<CoreTicks> {
    let mut sum = CoreTicks::default();
    for line in stat.lines() {
        let Some((name, fields)) = line.split_once(' ') else { continue };
        let Some(core) = name.strip_prefix("cpu").and_then(|number| number.parse::<usize>().ok()) else {
            continue;
        };
        if !cores.contains(&core) {
            continue;
        }
        let ticks: Vec<u64> = fields.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let field = |place: usize| ticks.get(place).copied().unwrap_or(0);
        sum.cores += 1;
        sum.busy += BUSY.into_iter().map(field).sum::<u64>();
        sum.steal += field(STEAL);
    }
    (sum.cores > 0).then_some(sum)
}

/// Ticks of a process and of its children that were waited for, in the text of `/proc/PID/stat`. The program's name may
/// contain blanks and brackets.
fn process_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    fields.get(PROCESSOR_TIME)?.iter().map(|field| field.parse::<u64>().ok()).sum()
}

/// `some avg10=0.12 avg60=0.05 avg300=0.01 total=115141925`: microseconds.
fn stalled(pressure: &str) -> Option<Nanos> {
    let some = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = some.split_whitespace().find_map(|word| word.strip_prefix("total="))?;
    Some(Nanos(total.parse::<u64>().ok()?.saturating_mul(1_000)))
}

/// `MemAvailable:   23967736 kB`.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;

    const STAT: &str = "cpu  202941 20 27922 66304 2590 0 276 1807 0 0\n\
                        cpu0 100491 6 12745 35804 890 3 23 953 0 0\n\
                        cpu1 102449 14 15177 30500 1700 0 253 854 0 0\n\
                        intr 4721\n";

    #[test]
    fn only_the_cores_that_may_be_used_count() {
        let second = CoreTicks { cores: 1, busy: 102_449 + 14 + 15_177 + 253, steal: 854 };
        assert_eq!(core_ticks(STAT, &[1]), Some(second));
        let both = CoreTicks {
            cores: 2,
            busy: 102_449 + 14 + 15_177 + 253 + 100_491 + 6 + 12_745 + 3 + 23,
            steal: 854 + 953,
        };
        assert_eq!(core_ticks(STAT, &[0, 1, 7]), Some(both));
        assert_eq!(core_ticks(STAT, &[7]), None);
        assert_eq!(core_ticks("", &[0]), None);
    }

    #[test]
    fn a_process_is_charged_with_its_children_whatever_its_name() {
        let stat = "8060 (a (b) c) R 8048 8048 17934 0 -1 4194304 100 0 0 0 31 7 500 60 20 0 1 0 151404";
        assert_eq!(process_ticks(stat), Some(31 + 7 + 500 + 60));
        assert_eq!(process_ticks("8060 (a) R 1 2"), None);
        assert_eq!(process_ticks(""), None);
    }

    #[test]
    fn pressure_and_memory_have_units() {
        let pressure = "some avg10=31.73 avg60=24.18 avg300=13.10 total=115141925\nfull avg10=0.00 total=0\n";
        assert_eq!(stalled(pressure), Some(Nanos(115_141_925_000)));
        assert_eq!(stalled("full avg10=0.00 total=5\n"), None);
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:   23967736 kB\n"), Some(23_967_736 << 10));
        assert_eq!(available("MemTotal: 9 kB\n"), None);
    }

    #[test]
    fn work_of_this_process_is_its_own() {
        let (exits, _kept) = mpsc::unbounded_channel();
        let processes = Processes::new(exits, None).unwrap();
        let reader = HostReader::new();
        let before = reader.read(Nanos(0), &processes).unwrap();
        // Until the kernel has counted some ticks of it.
        let mut sum = 1_u64;
        let mut after = reader.read(Nanos(1), &processes).unwrap();
        while after.own.since(before.own) < Nanos(50_000_000) {
            sum = (0..1_000_000_u64).fold(sum, |sum, step| sum.wrapping_mul(31).wrapping_add(step));
            after = reader.read(Nanos(1), &processes).unwrap();
        }
        assert!(sum != 0 && after.busy > before.busy);
        // A quota of the control group may allow less than the affinity mask.
        assert!(after.cores as usize >= std::thread::available_parallelism().unwrap().get());
        assert!(after.memory_available.is_some_and(|bytes| bytes > 0));
    }
}
