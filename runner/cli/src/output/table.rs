//! Tables: a bold head, a thin rule, two spaces between columns, never wider than the terminal.

use super::paint::{FAINT, PLAIN, STRONG, paint};
use anstyle::Style;
use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, ContentLineStyle, LineStyle, Table, TableStyle,
    Width,
};
use recipe::turns_text;

/// Stands between the columns until they are painted; no text has it.
const SEAM: char = '\u{1f}';
/// Fills the lines between rows until they are taken out.
const EDGE: char = '\u{1e}';
/// Columns that a breakable text needs to be readable.
const LEAST: usize = 10;
/// Replaces characters of foreign texts that a terminal would obey.
const NO_CONTROL: char = ' ';
const LINES: ContentLineStyle = ContentLineStyle::none().junction(SEAM);
const BETWEEN: LineStyle = LineStyle::none().fill(EDGE);
const STYLE: TableStyle = TableStyle::new()
    .header_lines(LINES)
    .header_separator(BETWEEN)
    .content_lines(LINES)
    .row_separator(BETWEEN);

/// A table under construction.
pub(crate) struct Sheet {
    head: Vec<String>,
    rows: Vec<Vec<Cell>>,
    right: Vec<usize>,
    whole: Vec<usize>,
}

/// A cell: text and style.
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A cell in a style.
    pub(crate) fn styled(style: Style, text: impl Into<String>) -> Self {
        Self { text: text.into().replace(turns_text, &NO_CONTROL.to_string()), style }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(PLAIN, text)
    }
}

impl Sheet {
    /// A table with these columns.
    pub(crate) fn new(head: &[&str]) -> Self {
        let head = head.iter().map(|name| (*name).to_owned()).collect();
        Self { head, rows: Vec::new(), right: Vec::new(), whole: Vec::new() }
    }

    /// Aligns columns to the right: numbers.
    pub(crate) fn right(mut self, columns: &[usize]) -> Self {
        self.right = columns.to_vec();
        self
    }

    /// Never breaks the text of these columns.
    pub(crate) fn whole(mut self, columns: &[usize]) -> Self {
        self.whole = columns.to_vec();
        self
    }

    /// How wide the table is where nothing is broken.
    pub(crate) fn natural_width(&self) -> usize {
        let columns = (0..self.head.len()).map(|column| self.longest(column));
        columns.sum::<usize>() + 2 * self.head.len().saturating_sub(1)
    }

    /// Whether a table of that width breaks nothing that must stay whole, and leaves the rest readable.
    pub(crate) fn fits(&self, width: usize) -> bool {
        let rigid: usize = self.whole.iter().map(|place| self.longest(*place) + 2).sum();
        rigid + LEAST * (self.head.len() - self.whole.len().min(self.head.len())) <= width
    }

    /// Whether a table of that width breaks texts between words only.
    fn words_fit(&self, width: usize) -> bool {
        let columns = (0..self.head.len()).map(|column| {
            if self.whole.contains(&column) { self.longest(column) } else { self.longest_word(column) }
        });
        columns.sum::<usize>() + 2 * self.head.len().saturating_sub(1) <= width
    }

    /// The letters of a column's longest word.
    fn longest_word(&self, column: usize) -> usize {
        let cells =
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| longest_word_of(&cell.text));
        cells.fold(longest_word_of(&self.head[column]), usize::max)
    }

    /// The letters of a column's longest text.
    fn longest(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.text.chars().count());
        cells.chain(self.head.get(column).map(|name| name.chars().count())).max().unwrap_or(0)
    }

    /// Adds a row, its cells in the order of the head.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// The table as text with an end of line, at most `width` columns wide.
    pub(crate) fn render(&self, width: usize) -> String {
        let mut table = Table::new();
        table.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
        table.set_header(self.head.clone());
        for row in &self.rows {
            table.add_row(row.iter().map(|cell| cell.text.clone()).collect::<Vec<_>>());
        }
        let last = self.head.len().saturating_sub(1);
        let widest = table.column_max_content_widths();
        // Where what must stay whole leaves no room for the rest, everything gives way.
        let whole = self.fits(width);
        let words_fit = self.words_fit(width);
        for (place, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, u16::from(place < last)));
            if self.right.contains(&place) {
                column.set_cell_alignment(CellAlignment::Right);
            }
            if whole && self.whole.contains(&place) {
                let content = widest.get(place).copied().unwrap_or(0) + u16::from(place < last);
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(content)));
            } else if whole {
                let least =
                    if words_fit { self.longest_word(place) } else { longest_word_of(&self.head[place]) };
                let least = u16::try_from(least).unwrap_or(u16::MAX).saturating_add(u16::from(place < last));
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
            }
        }
        self.painted(&table)
    }

    /// Lines of the table with their styles; the lines between rows tell one row from the next, and go.
    fn painted(&self, table: &Table) -> String {
        let mut out = String::new();
        let mut row = None;
        let lines: Vec<String> = table.lines().collect();
        let reach = |line: &String| line.trim_end().chars().count();
        let rule = lines.iter().filter(|line| !line.starts_with(EDGE)).map(reach).max().unwrap_or(0);
        for line in &lines {
            if !line.starts_with(EDGE) {
                out.push_str(&self.line(row, line));
            } else if row.is_none() {
                out.push_str(&paint(FAINT, "─".repeat(rule)));
                row = Some(0);
            } else {
                row = row.map(|row| row + 1);
                continue;
            }
            out.push('\n');
        }
        out
    }

    fn line(&self, row: Option<usize>, line: &str) -> String {
        let style = |column: usize| match row {
            None => STRONG,
            Some(row) => self.rows[row].get(column).map_or(PLAIN, |cell| cell.style),
        };
        let pieces = line.trim_end().split(SEAM).enumerate();
        // Spaces have no colour, so that none are left at the end of a line.
        let painted = pieces.map(|(column, piece)| {
            let (left, text) = piece.split_at(piece.len() - piece.trim_start().len());
            let (text, right) = text.split_at(text.trim_end().len());
            let text = if text.is_empty() { String::new() } else { paint(style(column), text) };
            format!("{left}{text}{right}")
        });
        painted.collect::<Vec<_>>().join(" ").trim_end().to_owned()
    }
}

fn longest_word_of(text: &str) -> usize {
    text.split(' ').map(|word| word.chars().count()).fold(0, usize::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::paint::GOOD;

    fn sheet() -> Sheet {
        let mut sheet = Sheet::new(&["arm", "time", "verdict"]).right(&[1]).whole(&[0, 1]);
        sheet.row(vec!["d-sync".into(), "1.2 s".into(), Cell::styled(GOOD, "clear")]);
        sheet.row(vec!["ps-sync".into(), "12.4 s".into(), "not enough evidence to tell".into()]);
        sheet
    }

    #[test]
    fn columns_line_up_and_colours_do_not_count() {
        let plain = anstream::adapter::strip_str(&sheet().render(80)).to_string();
        assert_eq!(
            plain,
            "arm        time  verdict\n────────────────────────────────────────────\nd-sync    1.2 s  clear\n\
             ps-sync  12.4 s  not enough evidence to tell\n"
        );
    }

    #[test]
    fn words_are_broken_only_where_they_do_not_fit() {
        let mut sheet = Sheet::new(&["arm", "condition", "state"]).whole(&[2]);
        sheet.row(vec![
            "pipe depth=2".into(),
            "lr-schedule=constant bandwidth=500Mbit/s".into(),
            "done".into(),
        ]);
        let plain = |width| anstream::adapter::strip_str(&sheet.render(width)).to_string();
        assert!(plain(36).contains("depth=2  bandwidth=500Mbit/s"), "{}", plain(36));
        assert!(plain(30).lines().all(|line| line.chars().count() <= 30), "{}", plain(30));
    }

    #[test]
    fn a_narrow_terminal_breaks_text_but_not_what_must_stay_whole() {
        let rendered = sheet().render(28);
        let plain = anstream::adapter::strip_str(&rendered).to_string();
        assert!(plain.lines().all(|line| line.chars().count() <= 28), "{plain}");
        assert!(plain.contains("ps-sync  12.4 s  not enough"), "{plain}");
        assert_eq!(rendered.matches(&format!("{GOOD}")).count(), 1, "{rendered:?}");
    }
}
