//! A table of words with aligned columns.

use std::fmt;

use super::median;

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

/// The median of the turns with their range: `15.93 ms (15.10 to 18.20)`.
pub(super) fn times(turns: &[f64]) -> String {
    let Some(middle) = median(turns) else { return "not measured".to_owned() };
    let (least, most) = range(turns);
    let factor = if middle < 1e3 { 1.0 } else { 1e-3 };
    let digits = if middle < 1e3 { 1 } else { 2 };
    format!("{} ({:.digits$} to {:.digits$})", time(middle), least * factor, most * factor)
}

/// A peer's median time, and how many times as fast as the peer we are: of the medians, and over the turns, of which each is
/// compared with the peer's right after it.
pub(super) fn beside(peer: &[f64], ours: &[f64]) -> String {
    let (Some(middle), Some(own)) = (median(peer), median(ours)) else { return "not installed".to_owned() };
    let (least, most) = range(&peer.iter().zip(ours).map(|(peer, own)| peer / own).collect::<Vec<_>>());
    format!("{} ({:.2}x, {least:.2} to {most:.2})", time(middle), middle / own)
}

fn range(values: &[f64]) -> (f64, f64) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    (least, values.iter().copied().fold(f64::NEG_INFINITY, f64::max))
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
        assert_eq!(times(&[4.0, 3.0, 5.0]), "4.0 us (3.0 to 5.0)");
        assert_eq!(times(&[4_000.0, 3_000.0, 5_500.0]), "4.00 ms (3.00 to 5.50)");
        assert_eq!(beside(&[50.0, 40.0, 60.0], &[20.0, 20.0, 20.0]), "50.0 us (2.50x, 2.00 to 3.00)");
        assert_eq!((beside(&[], &[1.0]), times(&[])), ("not installed".into(), "not measured".into()));
    }
}
