//! The members' logs: where they are, and their last lines for people.

use mesh::Member;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The end of a log that is read, in bytes.
pub(crate) const TAIL: u64 = 64 << 10;
/// Longer lines are cut here, in characters.
const WIDTH: usize = 400;

/// The file in an attempt's directory that holds what a member wrote to its standard error.
pub fn log_file(directory: &Path, member: Member) -> PathBuf {
    directory.join(match member {
        Member::Rank(rank) => format!("rank-{rank}.log"),
        Member::Evaluator => "evaluator.log".into(),
    })
}

/// The last lines of a log, at most `count`, fit for a terminal: structured lines as `LEVEL message key=value`,
/// without control characters, long ones cut. Empty if there is no log.
pub fn last_lines(log: &Path, count: usize) -> Vec<String> {
    tail(log, TAIL).map_or_else(|_| Vec::new(), |end| last_lines_of(&end, count))
}

/// The same of the end of a log.
pub(crate) fn last_lines_of(end: &[u8], count: usize) -> Vec<String> {
    let text = String::from_utf8_lossy(end);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].iter().map(|line| readable(line)).collect()
}

/// The last `bytes` bytes of a file.
pub(crate) fn tail(log: &Path, bytes: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(bytes)))?;
    let mut end = Vec::new();
    file.take(bytes).read_to_end(&mut end)?;
    Ok(end)
}

/// A line of a log, fit for a terminal: a structured one as `LEVEL message key=value`, without control characters,
/// cut where it is too long.
pub fn readable(line: &str) -> String {
    let told = structured(line).unwrap_or_else(|| line.to_owned());
    told.chars().map(|character| if character.is_control() { ' ' } else { character }).take(WIDTH).collect()
}

/// A line as the worker's logger writes it: a JSON object with `level` and `fields`.
fn structured(line: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(line).ok()?;
    let fields = value.get("fields")?.as_object()?;
    let mut told = value.get("level")?.as_str()?.to_owned();
    if let Some(message) = fields.get("message") {
        told.push(' ');
        told.push_str(&plain(message));
    }
    for (key, value) in fields.iter().filter(|(key, _)| *key != "message") {
        told.extend([" ", key, "=", &plain(value)]);
    }
    Some(told)
}

fn plain(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Rank;
    use std::fs;

    fn lines_of(bytes: &[u8], count: usize) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        let log = log_file(directory.path(), Member::Rank(Rank(3)));
        fs::write(&log, bytes).unwrap();
        last_lines(&log, count)
    }

    #[test]
    fn structured_lines_become_words_and_others_stay() {
        let log =
            br#"{"timestamp":"t","level":"ERROR","fields":{"message":"no batch","step":3},"target":"worker"}
thread panicked
"#;
        assert_eq!(lines_of(log, 20), ["ERROR no batch step=3", "thread panicked"]);
        assert_eq!(lines_of(log, 1), ["thread panicked"]);
    }

    #[test]
    fn garbage_cannot_harm_a_terminal() {
        let lines = lines_of(b"\x1b[2J\xff\xfe\x07 ok\n\n{\"level\": 3}\n", 20);
        assert_eq!(lines, [" [2J\u{fffd}\u{fffd}  ok", "{\"level\": 3}"]);
        assert!(lines_of(&vec![b'x'; 200_000], 20)[0].len() == WIDTH);
    }

    #[test]
    fn no_log_has_no_lines() {
        assert!(last_lines(Path::new("/nowhere/rank-0.log"), 20).is_empty());
    }
}
