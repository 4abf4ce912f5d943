//! The numbers of a figure as LaTeX and as CSV.

use crate::chart::Table;
use std::fmt::Write as _;

/// A `tabular` with the rules of `booktabs`: columns of numbers on the right.
pub(super) fn latex(table: &Table) -> String {
    let columns: String = (0..table.columns.len()).map(|column| alignment(table, column)).collect();
    let line = |cells: &[String]| {
        let cells = cells.iter().map(|cell| escaped(cell)).collect::<Vec<_>>().join(" & ");
        // The end of the line before would take these for an argument of its own.
        let guard = if cells.starts_with(['[', '*']) { "{}" } else { "" };
        format!("{guard}{cells} \\\\\n")
    };
    let mut text = format!("% \\usepackage{{booktabs}}\n\\begin{{tabular}}{{{columns}}}\n\\toprule\n");
    text += &line(&table.columns);
    text += "\\midrule\n";
    for row in &table.rows {
        text += &line(row);
    }
    text += "\\bottomrule\n\\end{tabular}\n";
    if !table.note.is_empty() {
        let _ = writeln!(text, "% {}", table.note);
    }
    text
}

fn alignment(table: &Table, column: usize) -> char {
    let mut cells = table.rows.iter().filter_map(|row| row.get(column)).filter(|cell| !cell.is_empty());
    let is_number =
        |cell: &String| cell.starts_with(|sign: char| sign.is_ascii_digit() || "–−-+<>≈".contains(sign));
    if column > 0 && cells.all(is_number) { 'r' } else { 'l' }
}

/// Text as LaTeX prints it.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    let mut before = ' ';
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        let number_follows = signs.peek().is_some_and(char::is_ascii_digit);
        match sign {
            '\\' => out += "\\textbackslash{}",
            '~' => out += "\\textasciitilde{}",
            '^' => out += "\\textasciicircum{}",
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', sign]),
            '<' | '>' | '−' => {
                let _ = write!(out, "${}$", if sign == '−' { '-' } else { sign });
            }
            '-' if number_follows && (before == ' ' || before == '(') => out += "$-$",
            '×' => out += "$\\times$",
            '±' => out += "$\\pm$",
            '≤' => out += "$\\le$",
            '≥' => out += "$\\ge$",
            '≈' => out += "$\\approx$",
            'µ' | 'μ' => out += "\\textmu{}",
            '–' => out += "--",
            '…' => out += "\\dots{}",
            // The page's narrow space between groups of digits.
            '\u{202f}' => out += "\\,",
            _ if sign.is_control() => out.push(' '),
            _ => out.push(sign),
        }
        before = sign;
    }
    out
}

/// CSV as RFC 4180 has it, with line feeds.
pub(super) fn csv(table: &Table) -> String {
    let field = |cell: &String| {
        // Readers of numbers know neither narrow spaces nor the typographic minus.
        let plain = cell.replace('\u{202f}', "").replace('−', "-");
        if plain.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", plain.replace('"', "\"\""))
        } else {
            plain
        }
    };
    let line = |cells: &Vec<String>| cells.iter().map(field).collect::<Vec<_>>().join(",") + "\n";
    [&table.columns].into_iter().chain(&table.rows).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_survive_whatever_names_are_made_of() {
        let mut table = Table::new(["arm", "time (µs)", "note"]);
        table.rows.push(["a_b & 5% #1", "1\u{202f}200", "\"x\", {y}"].map(str::to_owned).to_vec());
        table.rows.push(["d-sync", "−3.5", "2.0×"].map(str::to_owned).to_vec());
        table.rows.push(["[2] ring", "1", "*"].map(str::to_owned).to_vec());
        let latex = latex(&table);
        assert!(latex.contains("\\begin{tabular}{lrl}"), "{latex}");
        assert!(latex.contains("a\\_b \\& 5\\% \\#1 & 1\\,200 & \"x\", \\{y\\} \\\\"), "{latex}");
        assert!(latex.contains("\n{}[2] ring & 1"), "{latex}");
        assert!(latex.contains("d-sync & $-$3.5 & 2.0$\\times$ \\\\"), "{latex}");
        assert_eq!(
            csv(&table),
            "arm,time (µs),note\na_b & 5% #1,1200,\"\"\"x\"\", {y}\"\nd-sync,-3.5,2.0×\n[2] ring,1,*\n"
        );
    }
}
