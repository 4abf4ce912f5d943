//! `cargo xtask fuzz`: one of the targets in `tests/fuzz`, beginning with inputs that make sense.
//!
//! It needs a nightly compiler and cargo-fuzz (`cargo install cargo-fuzz`); nothing else does.

use anyhow::{Context, Result, bail};

use crate::libtorch;
use crate::workspace::Workspace;

/// The targets, as files in `tests/fuzz/targets`.
pub(crate) const TARGETS: [&str; 5] = ["recipe", "frame", "control", "idx", "cifar"];

/// The fuzz target and the duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    target: String,
    minutes: u32,
}

impl Options {
    /// Reads the words after `fuzz`.
    pub(crate) fn parse(words: &[&str]) -> Result<Self> {
        let (target, minutes) = match words {
            [target] => (target, 10),
            [target, "--minutes", minutes] => {
                (target, minutes.parse().with_context(|| format!("`--minutes {minutes}`"))?)
            }
            _ => bail!("`fuzz` wants a target ({}), and perhaps --minutes N", TARGETS.join(", ")),
        };
        if !TARGETS.contains(target) {
            bail!("there is no target `{target}`; there are {}", TARGETS.join(", "));
        }
        Ok(Self { target: (*target).to_owned(), minutes })
    }
}

/// Fuzzes for the given time; a finding is an error.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    libtorch::ensure(workspace)?;
    // Coverage is what guides the search; a sanitizer would watch over unsafe code, of which the readers have none.
    let fuzz = |target: &str, limit: &str| {
        let words = ["+nightly", "fuzz", "run", "--fuzz-dir", "tests/fuzz", "--sanitizer", "none"];
        let limits = ["--", limit, "-max_len=8192", "-timeout=20", "-rss_limit_mb=4096"];
        workspace
            .child("cargo")
            .arguments(&words)
            .argument(target)
            .arguments(&limits)
            .variable("BAKEOFF_FUZZ_PEAKS", "1")
            .run()
    };
    fuzz("seeds", "-runs=0")?;
    fuzz(&options.target, &format!("-max_total_time={}", u64::from(options.minutes) * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_targets_are_the_files() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fuzz/targets");
        let names =
            std::fs::read_dir(folder).expect(folder).map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<String> = names.map(|name| name.to_string_lossy().replace(".rs", "")).collect();
        names.retain(|name| name != "seeds");
        names.sort_unstable();
        let mut targets = TARGETS;
        targets.sort_unstable();
        assert_eq!(names, targets);
    }
}
