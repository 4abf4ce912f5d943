//! A table of words with aligned columns.

use std::fmt;

/// Rows under a head; the first column and the last are aligned to the left, all others to the right.
pub(super) struct Table {
    title: String,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(title: &str, head: &[&str]) -> Self {
        Self { title: title.to_owned(), rows: vec![head.iter().map(|&cell| cell.to_owned()).collect()] }
    }

    pub(super) fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut widths = vec![0; columns];
        for (column, cell) in self.rows.iter().flat_map(|row| row.iter().enumerate()) {
            widths[column] = widths[column].max(cell.chars().count());
        }
        writeln!(out, "{}", self.title)?;
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = widths[column];
                let cell = if column == 0 || column + 1 == columns {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                };
                line.push_str(&cell);
                line.push_str("   ");
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A time in the unit that suits it.
pub(super) fn time(us: f64) -> String {
    if us < 1e3 { format!("{us:.1} us") } else { format!("{:.2} ms", us / 1e3) }
}

/// A peer's time, and how many times as fast as the peer we are.
pub(super) fn beside(peer: Option<f64>, ours: f64) -> String {
    peer.map_or_else(|| "not installed".to_owned(), |peer| format!("{} ({:.2}x)", time(peer), peer / ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new("Title", &["size", "time", "why"]);
        table.push(vec!["4 KiB".into(), time(41.26), "latency".into()]);
        table.push(vec!["100 MiB".into(), time(57_536.0), "copying".into()]);
        let expected = "Title\n\
                        size          time   why\n\
                        4 KiB      41.3 us   latency\n\
                        100 MiB   57.54 ms   copying\n";
        assert_eq!(table.to_string(), expected);
        assert_eq!(
            (beside(Some(50.0), 20.0), beside(None, 1.0)),
            ("50.0 us (2.50x)".into(), "not installed".into())
        );
    }
}
