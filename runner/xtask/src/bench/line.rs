//! The output lines of the measured programs: `all-reduce gloo ranks=2 bytes=4096 us=314.0`.

use std::collections::BTreeMap;

/// One line of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Line {
    /// The benchmark and the program.
    pub(super) words: Vec<String>,
    /// Measured values by their names.
    pub(super) values: BTreeMap<String, f64>,
}

impl Line {
    /// A value by its name; nothing where the program does not know it.
    pub(super) fn value(&self, name: &str) -> Option<f64> {
        self.values.get(name).copied()
    }
}

/// All lines of an output that are about `subject`; other lines are warnings of libraries.
pub(super) fn lines(output: &str, subject: &str) -> Vec<Line> {
    let about = output.lines().filter(|line| line.split(' ').next() == Some(subject));
    about.map(line).collect()
}

fn line(text: &str) -> Line {
    let mut line = Line::default();
    for word in text.split_whitespace() {
        match word.split_once('=').map(|(name, value)| (name, value.parse())) {
            Some((name, Ok(value))) => drop(line.values.insert(name.to_owned(), value)),
            _ => line.words.push(word.to_owned()),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_meant_is_read() {
        let output = "warning: x=1\nall-reduce gloo ranks=2 us=3.5\ntraining ddp model=a us=1\n";
        let found = lines(output, "all-reduce");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].words, ["all-reduce", "gloo"]);
        assert_eq!((found[0].value("us"), found[0].value("bytes")), (Some(3.5), None));
        assert_eq!(lines(output, "training")[0].words, ["training", "ddp", "model=a"]);
    }
}
