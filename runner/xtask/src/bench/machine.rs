//! The machine that a measurement ran on, and what others did on it meanwhile.

use std::fmt;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// Bytes that are copied to measure the memory: more than any cache holds.
const COPIED: usize = 256 << 20;

/// How often; the fastest counts, because others only slow a copy down.
const COPIES: usize = 5;

/// Processor, cores, and the speed of its memory.
pub(super) struct Machine {
    processor: String,
    cores: usize,
    /// GB per second that one core copies: each byte is read once and written once.
    copy: f64,
}

impl Machine {
    pub(super) fn look() -> Result<Self> {
        let processors = std::fs::read_to_string("/proc/cpuinfo").context("cannot read /proc/cpuinfo")?;
        let cores = std::thread::available_parallelism()?.get();
        Ok(Self { processor: model(&processors), cores, copy: copy() })
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "processor": self.processor, "cores": self.cores, "copy_gb_per_s": self.copy })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}, {} cores; one core copies {:.1} GB/s", self.processor, self.cores, self.copy)
    }
}

fn model(processors: &str) -> String {
    let line = processors.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim());
    name.filter(|name| !name.is_empty()).unwrap_or("an unnamed processor").to_owned()
}

fn copy() -> f64 {
    let source = vec![1_u8; COPIED];
    let mut target = vec![0_u8; COPIED];
    let mut fastest = f64::INFINITY;
    for _ in 0..COPIES {
        let begin = Instant::now();
        target.copy_from_slice(std::hint::black_box(&source));
        std::hint::black_box(&mut target);
        fastest = fastest.min(begin.elapsed().as_secs_f64());
    }
    COPIED as f64 / fastest / 1e9
}

/// Processor time since the machine started, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Ticks {
    /// Of all cores, idle or not.
    all: u64,
    /// Of any process, and of other guests of the same host (steal).
    busy: u64,
    /// Of this process and of the children that it has waited for.
    own: u64,
}

/// The load by others from a moment on.
pub(super) struct Watch(Ticks);

impl Watch {
    pub(super) fn start() -> Result<Self> {
        Ticks::now().map(Self)
    }

    /// The share of the machine's processor time since the start that went to programs that are not measured.
    pub(super) fn others(&self) -> Result<f64> {
        Ok(Ticks::now()?.others_since(self.0))
    }
}

impl Ticks {
    fn now() -> Result<Self> {
        let machine = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        let own = std::fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
        Self::of(&machine, &own).context("/proc/stat has no line of all cores")
    }

    fn of(machine: &str, own: &str) -> Option<Self> {
        let line = machine.lines().find(|line| line.starts_with("cpu "))?;
        // user, nice, system, idle, iowait, irq, softirq, steal; what follows is part of user and nice.
        let parts: Vec<u64> =
            line.split_whitespace().skip(1).take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
        let idle = parts.get(3)? + parts.get(4)?;
        let all: u64 = parts.iter().sum();
        // The name may hold anything up to the last parenthesis; after it, the state is field 3.
        let fields: Vec<&str> = own.rsplit_once(')')?.1.split_whitespace().collect();
        let own: u64 =
            fields.get(11..15)?.iter().map(|field| field.parse::<u64>()).sum::<Result<_, _>>().ok()?;
        Some(Self { all, busy: all - idle, own })
    }

    fn others_since(self, begin: Self) -> f64 {
        let all = self.all.saturating_sub(begin.all).max(1) as f64;
        let busy = self.busy.saturating_sub(begin.busy) as f64;
        let own = self.own.saturating_sub(begin.own) as f64;
        ((busy - own) / all).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_used_is_what_neither_idled_nor_was_ours() {
        let machine = |user: u64, idle: u64, steal: u64| {
            format!("cpu  {user} 0 0 {idle} 0 0 0 {steal} 7 7\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
        };
        let own = |own: u64, children: u64| {
            format!("12 (a ) name) S 1 12 12 0 -1 0 0 0 0 0 {own} 0 {children} 0 20 0 1 0 0")
        };
        let begin = Ticks::of(&machine(100, 100, 0), &own(10, 20)).expect("a line of all cores");
        assert_eq!(begin, Ticks { all: 200, busy: 100, own: 30 });
        let end = Ticks::of(&machine(150, 140, 10), &own(15, 45)).expect("a line of all cores");
        // 100 ticks, of which 60 were busy, 10 of these stolen; 30 were ours.
        assert!((end.others_since(begin) - 0.3).abs() < 1e-12);
        assert_eq!(Ticks::of("intr 1", &own(0, 0)), None);
        let watch = Watch::start().expect("a Linux machine");
        assert!((0.0..=1.0).contains(&watch.others().expect("a Linux machine")));
    }

    #[test]
    fn a_processor_without_a_name_is_said_to_have_none() {
        assert_eq!(model("processor : 0\nmodel name\t: Fast CPU @ 3 GHz\n"), "Fast CPU @ 3 GHz");
        assert_eq!(model("Processor : 0"), "an unnamed processor");
    }
}
