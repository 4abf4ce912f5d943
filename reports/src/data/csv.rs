//! CSV text.

use std::fmt::Write;

/// Lines of RFC 4180, with bare line feeds.
pub(super) struct Csv {
    pub(super) text: String,
}

impl Csv {
    pub(super) fn new(columns: &[&str]) -> Self {
        let mut csv = Self { text: String::new() };
        csv.line(columns);
        csv
    }

    pub(super) fn line(&mut self, fields: &[&str]) {
        for (place, field) in fields.iter().enumerate() {
            if place > 0 {
                self.text.push(',');
            }
            if field.contains([',', '"', '\n', '\r']) {
                let _ = write!(self.text, "\"{}\"", field.replace('"', "\"\""));
            } else {
                self.text.push_str(field);
            }
        }
        self.text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_quotes_and_lines_are_quoted() {
        let mut csv = Csv::new(&["a", "b"]);
        csv.line(&["x,y", "say \"no\"\nnow"]);
        assert_eq!(csv.text, "a,b\n\"x,y\",\"say \"\"no\"\"\nnow\"\n");
    }
}
