//! A table for programs: numbers alone in the cells, their unit in the head of the column, and whatever else a cell says in columns
//! of its own.

use crate::chart::Table;

/// A unit with its size in the base unit of its dimension. The longer of two that end alike comes first.
struct Unit {
    name: &'static str,
    dimension: &'static str,
    size: f64,
}

const fn unit(name: &'static str, dimension: &'static str, size: f64) -> Unit {
    Unit { name, dimension, size }
}

/// Units that the page writes behind numbers.
const UNITS: [Unit; 14] = [
    unit("/s", "rate", 1.0),
    unit("µs", "time", 1e-6),
    unit("ms", "time", 1e-3),
    unit("s", "time", 1.0),
    unit("h", "time", 3600.0),
    unit("KiB", "bytes", 1024.0),
    unit("MiB", "bytes", 1_048_576.0),
    unit("GiB", "bytes", 1_073_741_824.0),
    unit("B", "bytes", 1.0),
    unit("%", "share", 1.0),
    unit("pp", "points", 1.0),
    unit("×", "ratio", 1.0),
    unit("nats", "nats", 1.0),
    unit("", "", 1.0),
];

/// A cell taken apart.
struct Quantity {
    number: String,
    unit: &'static Unit,
    /// Lower and upper end of the interval, in the unit of the number.
    interval: Option<[String; 2]>,
    /// Signs and words around the number: `>`, `slower`.
    remark: String,
}

/// Columns with the ends of an interval or a range, which have the unit of the value that stands before them.
const ENDS: [&str; 4] = ["low", "high", "lowest", "highest"];

/// The table with its columns of numbers taken apart. The first column names the row.
pub(super) fn apart(table: &Table) -> Table {
    let mut out = Table { note: table.note.clone(), ..Table::default() };
    out.rows.resize(table.rows.len(), Vec::new());
    let mut before: Option<&'static Unit> = None;
    for (place, name) in table.columns.iter().enumerate() {
        let cells: Vec<&str> =
            table.rows.iter().map(|row| row.get(place).map_or("", String::as_str)).collect();
        if let Some(mut column) = quantities(&cells).filter(|_| place > 0) {
            let shared = before.filter(|before| before.dimension == column.unit.dimension);
            column.unit = shared.filter(|_| ENDS.contains(&name.as_str())).unwrap_or(column.unit);
            before = Some(column.unit);
            column.lay(name, &mut out);
            continue;
        }
        out.columns.push(name.clone());
        for (row, cell) in out.rows.iter_mut().zip(cells) {
            row.push(cell.to_owned());
        }
    }
    out
}

/// A column of numbers in one unit; `None` for a cell without one.
struct Column {
    unit: &'static Unit,
    cells: Vec<Option<Quantity>>,
}

/// The cells as numbers. Beside numbers with a unit, words may stand, as `missed`; beside bare numbers, only that there is none.
fn quantities(cells: &[&str]) -> Option<Column> {
    let read: Vec<Option<Quantity>> = cells.iter().map(|cell| quantity(cell)).collect();
    let unit = read.iter().flatten().map(|quantity| quantity.unit).max_by(|one, other| {
        // A bare nothing is of any unit.
        let named = |unit: &Unit| !unit.name.is_empty();
        named(one).cmp(&named(other)).then(one.size.total_cmp(&other.size))
    })?;
    let fits = |quantity: &Quantity| quantity.unit.dimension == unit.dimension;
    if !read.iter().flatten().all(fits) {
        return None;
    }
    let words =
        |cell: &str| Quantity { number: String::new(), unit, interval: None, remark: cell.to_owned() };
    let cell = |(cell, read): (&&str, Option<Quantity>)| match read {
        None if !["", "–"].contains(cell) => Some(words(cell)),
        read => read,
    };
    let cells: Vec<Option<Quantity>> = cells.iter().zip(read).map(cell).collect();
    let has_words = cells.iter().flatten().any(|cell| cell.number.is_empty());
    (!has_words || !unit.name.is_empty()).then_some(Column { unit, cells })
}

impl Column {
    fn lay(&self, name: &str, out: &mut Table) {
        let head =
            if self.unit.name.is_empty() { name.to_owned() } else { format!("{name} ({})", self.unit.name) };
        let mut push = |head: String, text: &dyn Fn(&Quantity) -> String| {
            out.columns.push(head);
            for (row, cell) in out.rows.iter_mut().zip(&self.cells) {
                row.push(cell.as_ref().map_or_else(String::new, text));
            }
        };
        push(head.clone(), &|cell| self.in_unit(cell, &cell.number));
        if self.cells.iter().flatten().any(|cell| cell.interval.is_some()) {
            for (end, words) in ["from", "to"].into_iter().enumerate() {
                push(format!("{head}, {words}"), &|cell| {
                    cell.interval.as_ref().map_or_else(String::new, |ends| self.in_unit(cell, &ends[end]))
                });
            }
        }
        if self.cells.iter().flatten().any(|cell| !cell.remark.is_empty()) {
            push(format!("{name}, remark"), &|cell| cell.remark.clone());
        }
    }

    fn in_unit(&self, cell: &Quantity, number: &str) -> String {
        let Ok(value) = number.parse::<f64>() else { return number.to_owned() };
        if cell.unit.name == self.unit.name {
            return number.to_owned();
        }
        // Ten digits, so that a quotient of powers of ten is written as short as it is.
        let scaled = format!("{:.9e}", value * cell.unit.size / self.unit.size);
        scaled.parse::<f64>().map_or(scaled, |value| value.to_string())
    }
}

/// `0.77× (0.33–1.79)`, `> 99.9 %`, `90 % slower`, `436 µs`, `12 345`.
fn quantity(cell: &str) -> Option<Quantity> {
    let spaced = cell.replace('\u{a0}', " ");
    let (before, rest) = match spaced.split_once(' ') {
        Some((sign @ ("<" | ">" | "≈"), rest)) => (sign, rest),
        _ => ("", spaced.as_str()),
    };
    let (number, rest) = number(rest)?;
    let (behind, is_apart) = rest.strip_prefix(' ').map_or((rest, false), |behind| (behind, true));
    let (unit, rest) = UNITS.iter().find_map(|unit| {
        let rest = behind.strip_prefix(unit.name)?;
        (rest.is_empty() || rest.starts_with(' ')).then_some((unit, rest))
    })?;
    if is_apart && unit.name.is_empty() {
        return None;
    }
    let (interval, after) = match rest.strip_prefix(" (").and_then(interval) {
        Some((ends, after)) => (Some(ends), after),
        None => (None, rest),
    };
    // A bare number with words behind it is a name: `2 workers`.
    if !after.is_empty() && unit.name.is_empty() {
        return None;
    }
    let remark = [before, after.trim()].join(" ").trim().to_owned();
    Some(Quantity { number, unit, interval, remark })
}

/// The number that a text begins with, as other programs read it, and what follows.
fn number(text: &str) -> Option<(String, &str)> {
    let of_number = |letter: char| letter.is_ascii_digit() || ".−-+\u{202f}∞".contains(letter);
    let end = text.find(|letter| !of_number(letter)).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    // `1.2e30`: what exploded.
    let power = rest.strip_prefix('e').map(|rest| {
        let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        rest.split_at(end)
    });
    let (power, rest) = power.filter(|(power, _)| !power.is_empty()).unwrap_or(("", rest));
    let plain = digits.replace('\u{202f}', "").replace('−', "-").replace('∞', "inf");
    let plain = plain.strip_prefix('+').unwrap_or(&plain);
    let number = if power.is_empty() { plain.to_owned() } else { format!("{plain}e{power}") };
    number.parse::<f64>().is_ok().then_some((number, rest))
}

/// `0.33–1.79)` or `−15 … +6)`, and what follows.
fn interval(text: &str) -> Option<([String; 2], &str)> {
    let (inside, after) = text.split_once(')')?;
    let (low, high) = inside.split_once(" … ").or_else(|| inside.split_once('–'))?;
    let whole = |text: &str| number(text).filter(|(_, rest)| rest.is_empty()).map(|(number, _)| number);
    Some(([whole(low)?, whole(high)?], after))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The columns that one column of these cells becomes, each with its head.
    fn columns(cells: &[&str]) -> Vec<Vec<String>> {
        let mut table = Table::new(["arm", "x"]);
        table.rows.extend(cells.iter().map(|cell| vec!["1 s".to_owned(), (*cell).to_owned()]));
        let apart = apart(&table);
        let column = |place: usize| apart.rows.iter().map(move |row| row[place].clone());
        assert!(column(0).all(|name| name == "1 s"));
        (1..apart.columns.len())
            .map(|place| [apart.columns[place].clone()].into_iter().chain(column(place)).collect())
            .collect()
    }

    #[test]
    fn units_go_into_the_head_and_numbers_stay() {
        let same = |cells: &[&str]| vec![cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>()];
        assert_eq!(columns(&["1.20\u{a0}s", "–", "436\u{a0}µs"]), same(&["x (s)", "1.20", "", "0.000436"]));
        assert_eq!(columns(&["61.3\u{a0}%", "0.0 %"]), same(&["x (%)", "61.3", "0.0"]));
        assert_eq!(columns(&["2493/s"]), same(&["x (/s)", "2493"]));
        assert_eq!(columns(&["1.00×", "0.50×"]), same(&["x (×)", "1.00", "0.50"]));
        assert_eq!(columns(&["1\u{202f}234", "−1.2e30"]), same(&["x", "1234", "-1.2e30"]));
        assert_eq!(columns(&["1.50\u{a0}MiB", "512\u{a0}KiB"]), same(&["x (MiB)", "1.50", "0.5"]));
    }

    /// Each column would choose its own unit, and the ends of a range would not be those of its value.
    #[test]
    fn the_ends_of_a_range_have_the_unit_of_its_value() {
        let mut table = Table::new(["arm", "time", "low", "high", "runs"]);
        table.rows.push(["a", "1.08\u{a0}s", "361\u{a0}ms", "3.25\u{a0}s", "2"].map(str::to_owned).to_vec());
        let apart = apart(&table);
        assert_eq!(apart.columns, ["arm", "time (s)", "low (s)", "high (s)", "runs"]);
        assert_eq!(apart.rows[0], ["a", "1.08", "0.361", "3.25", "2"]);
    }

    #[test]
    fn intervals_and_words_have_columns_of_their_own() {
        let told = columns(&["0.77× (0.33–1.79)", "> 2.0×", "–"]);
        let wanted = [
            ["x (×)", "0.77", "2.0", ""],
            ["x (×), from", "0.33", "", ""],
            ["x (×), to", "1.79", "", ""],
            ["x, remark", "", ">", ""],
        ];
        assert_eq!(told, wanted);
        assert_eq!(columns(&["2\u{a0}s", "missed"]), [["x (s)", "2", ""], ["x, remark", "", "missed"]]);
        assert_eq!(columns(&["90\u{a0}% slower"]), [["x (%)", "90"], ["x, remark", "slower"]]);
        let points = columns(&["−5 pp (−15 … +6)"]);
        assert_eq!(points, [["x (pp)", "-5"], ["x (pp), from", "-15"], ["x (pp), to", "6"]]);
    }

    #[test]
    fn names_stay_what_they_are() {
        for cells in
            [["2 workers", "4 workers"], ["4 of 5", "5 of 5"], ["1Gbit/s", "10Gbit/s"], ["1", "none"]]
        {
            assert_eq!(columns(&cells), [["x", cells[0], cells[1]]]);
        }
        assert_eq!(columns(&["–", ""]), [["x", "–", ""]]);
        assert_eq!(columns(&["1 s", "2 %"]), [["x", "1 s", "2 %"]]);
    }
}
