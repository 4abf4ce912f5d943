//! Output of the programs of a benchmark, turn by turn.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::line::Line;
use super::machine::{Machine, Watch};

/// Every line of every turn, with the load by others meanwhile.
#[derive(Default)]
pub(super) struct Turns {
    lines: Vec<Value>,
    /// Shares of the machine's processor time.
    others: Vec<f64>,
}

impl Turns {
    /// One turn of one program: measures what others do while `program` runs, and keeps its lines.
    pub(super) fn turn(
        &mut self,
        number: usize,
        program: impl FnOnce() -> Result<Vec<Line>>,
    ) -> Result<Vec<Line>> {
        let watch = Watch::start()?;
        let lines = program()?;
        let others = watch.others()?;
        self.others.push(others);
        for line in &lines {
            if let Some(us) = line.value("us") {
                eprintln!("  {}: {us:.0} us", line.words.join(" "));
            }
            let values: BTreeMap<&String, f64> =
                line.values.iter().map(|(name, value)| (name, *value)).collect();
            self.lines
                .push(json!({ "turn": number, "words": line.words, "values": values, "others": others }));
        }
        Ok(lines)
    }

    /// `others used 3 to 12 % of the processor time in the turns`.
    pub(super) fn load(&self) -> String {
        let percent = |share: f64| format!("{:.0}", 100.0 * share);
        let least = self.others.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.others.iter().copied().fold(0.0, f64::max);
        if self.others.is_empty() {
            return "nothing was measured".to_owned();
        }
        format!("others used {} to {} % of the processor time in the turns", percent(least), percent(most))
    }

    /// Writes the machine and all lines into a new file of `folder`.
    #[expect(
        clippy::disallowed_methods,
        reason = "this program is a rim of its own: the file is named after the clock"
    )]
    pub(super) fn store(&self, folder: &Path, machine: &Machine) -> Result<PathBuf> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let path = folder.join(format!("bench-{}.json", now.as_secs()));
        let all = json!({ "unix_seconds": now.as_secs(), "machine": machine.to_json(), "turns": self.lines });
        let text = serde_json::to_string_pretty(&all)?;
        std::fs::write(&path, text + "\n").with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::line::lines;

    #[test]
    fn what_was_measured_is_stored_with_its_machine() {
        let mut turns = Turns::default();
        assert_eq!(turns.load(), "nothing was measured");
        let read = || Ok(lines("all-reduce gloo ranks=2 bytes=4096 us=3.5\n", "all-reduce"));
        assert_eq!(turns.turn(1, read).expect("a Linux machine").len(), 1);
        assert!(turns.load().ends_with(" % of the processor time in the turns"));
        let folder = tempfile::tempdir().expect("a folder");
        let machine = Machine::look().expect("a Linux machine");
        let path = turns.store(folder.path(), &machine).expect("a file");
        let stored: Value =
            serde_json::from_str(&std::fs::read_to_string(path).expect("text")).expect("JSON");
        assert_eq!(stored["turns"][0]["words"], json!(["all-reduce", "gloo"]));
        assert_eq!(stored["turns"][0]["values"]["us"], json!(3.5));
        assert!(stored["machine"]["copy_gb_per_s"].as_f64().expect("a number") > 0.0);
    }
}
