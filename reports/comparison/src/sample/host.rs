//! The machine of a made-up run: quiet, with what the run leaves of its cores.

use super::noise::Noise;
use record::{HostRecord, Nanos};
use store::BlockRow;

/// Cores of the made-up machine.
const CORES: u32 = 64;

/// Two readings, at the beginning and after `seconds`, the end of a run: other processes use half a percent of the cores.
pub(super) fn readings(seconds: f64) -> Vec<HostRecord> {
    let reading = |at: f64| {
        let own = 3.6 * at;
        let others = 0.005 * f64::from(CORES) * at;
        HostRecord {
            node: 0,
            at: milliseconds(at * 1e3),
            cores: CORES,
            busy: milliseconds((9_000.0 + own + others) * 1e3),
            steal: Nanos(0),
            own: milliseconds(own * 1e3),
            cpu_pressure: Some(milliseconds(at * 2.0)),
            memory_pressure: Some(Nanos(0)),
            load: Some(4.2),
            frequency: Some(3_240_000),
            governor: Some("performance".to_owned()),
            memory_available: Some(48 << 30),
            clock_error: None,
        }
    };
    vec![reading(0.0), reading(seconds)]
}

/// Eight blocks whose means differ by about a percent.
pub(super) fn blocks(step: f64, steps: u64, mut noise: Noise) -> Vec<BlockRow> {
    let steady = steps.saturating_sub(steps / 10);
    let block = |_| BlockRow { steps: steady / 8, length: milliseconds(step * (1.0 + 0.02 * noise.draw())) };
    if steady < 160 { Vec::new() } else { (0..8).map(block).collect() }
}

pub(super) fn milliseconds(value: f64) -> Nanos {
    Nanos((value.max(0.0) * 1e6) as u64)
}
