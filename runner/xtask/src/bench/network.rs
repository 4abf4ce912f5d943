//! `cargo xtask bench network`: the emulated network beside the kernel's token bucket filter between network namespaces.
//!
//! Needs root, `ip` and `tc`. Nothing of it is left behind, whatever happens.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::thread;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use super::namespaces::{BANDWIDTH, BURST, Namespaces, address, frame_rate, inside};
use crate::child::Child;
use crate::workspace::Workspace;

/// One way, in the measurements of small messages.
const LATENCY_NANOS: u64 = 500_000;
const PORT: &str = "7700";

/// Measures and prints the table.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    println!("building");
    let arguments = ["build", "--quiet", "--release", "--workspace", "--example", "network"];
    workspace.child("cargo").arguments(&arguments).run()?;
    let program = workspace.target_folder()?.join("release/examples/network");
    let program = program.to_str().context("the path of the program is not text")?.to_owned();
    let _spaces = Namespaces::make()?;
    let private = Permissions::from_mode(0o700);
    let folder = tempfile::Builder::new().permissions(private).tempdir().context("a folder for sockets")?;
    let bench = Bench { program, folder };
    println!(
        "1 Gbit/s of payload per rank and direction; tbf at {} bit/s of frames, burst {BURST}; medians of milliseconds\n",
        frame_rate()
    );
    println!("{:<34}{:>10}{:>10}{:>10}{:>12}", "", "model", "tbf", "emulated", "difference");
    for mebibytes in [4, 16, 64] {
        bench.pair(&format!("{mebibytes} MiB, one sender"), 2, &format!("one-way:{}:7", mebibytes << 20))?;
    }
    for mebibytes in [4, 16] {
        bench.pair(
            &format!("{mebibytes} MiB, four ranks at once"),
            4,
            &format!("ring:{}:9", mebibytes << 20),
        )?;
    }
    for (ranks, weights) in [(2, 1_000_000), (4, 1_000_000), (2, 4_000_000), (4, 4_000_000)] {
        bench.pair(
            &format!("D-Sync, {weights} weights, {ranks} ranks"),
            ranks,
            &format!("d-sync:{weights}:15"),
        )?;
    }
    println!("\nemulated alone, latency {} us: beside latency + bytes / bandwidth", LATENCY_NANOS / 1000);
    for bytes in [64_u64, 4 << 10, 64 << 10, 1 << 20] {
        let way = format!("emulated:{BANDWIDTH}:{LATENCY_NANOS}");
        let got = bench.median(2, &way, &format!("one-way:{bytes}:201"))?;
        let model = LATENCY_NANOS as f64 / 1e6 + bytes as f64 * 1e3 / BANDWIDTH as f64;
        println!(
            "{:<34}{model:>10.3}{:>10}{got:>10.3}{:>9.0} us",
            format!("{bytes} B"),
            "",
            (got - model) * 1e3
        );
    }
    Ok(())
}

struct Bench {
    program: String,
    /// For sockets: only this user may enter it.
    folder: TempDir,
}

impl Bench {
    /// Measures a job both ways, and prints a line.
    fn pair(&self, title: &str, ranks: u32, job: &str) -> Result<()> {
        let kernel = self.median(ranks, &format!("tcp:{}:{PORT}", address(0)), job)?;
        let emulated = self.median(ranks, &format!("emulated:{BANDWIDTH}:0"), job)?;
        let difference = (emulated / kernel - 1.0) * 100.0;
        let model = model(job, ranks);
        println!("{title:<34}{model:>10.2}{kernel:>10.2}{emulated:>10.2}{difference:>10.1} %");
        Ok(())
    }

    /// The median over all numbers that the ranks print, in milliseconds; the first two of each warm up.
    fn median(&self, ranks: u32, way: &str, job: &str) -> Result<f64> {
        let run = |rank: u32| {
            let me = rank.to_string();
            let all = ranks.to_string();
            let program =
                if way.starts_with("tcp") { inside(rank, &self.program) } else { Child::new(&self.program) };
            let folder = self.folder.path().to_string_lossy();
            program.arguments(&[&me, &all, &folder, way, job]).read()
        };
        let texts: Vec<Result<String>> = thread::scope(|scope| {
            let run = &run;
            let ranks: Vec<_> = (0..ranks).map(|rank| scope.spawn(move || run(rank))).collect();
            let join = |rank: thread::ScopedJoinHandle<'_, Result<String>>| {
                rank.join().unwrap_or_else(|_| bail!("a rank's thread panicked"))
            };
            ranks.into_iter().map(join).collect()
        });
        let mut numbers: Vec<f64> = Vec::new();
        for text in texts {
            let of_rank: Result<Vec<f64>, _> = text?.lines().map(str::parse).collect();
            numbers.extend(of_rank.context("a rank printed no numbers")?.into_iter().skip(2));
        }
        numbers.sort_by(f64::total_cmp);
        let middle = numbers.get(numbers.len() / 2).context("no rank measured anything")?;
        Ok(middle / 1e6)
    }
}

/// A job's time by the card model in milliseconds, without computing.
fn model(job: &str, ranks: u32) -> f64 {
    let parts: Vec<f64> = job.split(':').skip(1).filter_map(|part| part.parse().ok()).collect();
    let size = parts.first().copied().unwrap_or(0.0);
    // A ring sends and receives 2 (p - 1) / p of a vector of 4 bytes per weight.
    let bytes =
        if job.starts_with("d-sync") { size * 8.0 * f64::from(ranks - 1) / f64::from(ranks) } else { size };
    bytes * 1e3 / BANDWIDTH as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_of_each_job() {
        assert!((model("one-way:125000:7", 2) - 1.0).abs() < 1e-9);
        assert!((model("ring:125000:7", 4) - 1.0).abs() < 1e-9);
        assert!((model("d-sync:125000:7", 4) - 6.0).abs() < 1e-9);
    }
}
