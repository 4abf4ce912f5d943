//! The verdicts of a sweep as a table, from the same comparisons as its page.

use super::none_fits;
use super::table::{self, Lines};
use crate::exit::Failure;
use crate::output;
use reports::{Options, VerdictRow};
use std::io::{self, Write};
use store::{Selection, Store, Value};

pub(crate) const COLUMNS: [&str; 16] = [
    "arm",
    "baseline",
    "condition",
    "measure",
    "decides",
    "ratio",
    "difference",
    "low",
    "high",
    "confidence",
    "grade",
    "verdict",
    "n",
    "p",
    "sure",
    "note",
];

/// Those of the newest sweep of which a run fits, on the runs that fit.
pub(crate) async fn of_selection(store: &Store, selection: &Selection) -> Result<Vec<VerdictRow>, Failure> {
    let rows = store.sweep_rows(selection).await?;
    if rows.runs.is_empty() {
        return Err(none_fits(selection));
    }
    Ok(reports::verdict_rows(&rows, &Options::default())?)
}

/// Writes them.
pub(crate) fn write(rows: Vec<VerdictRow>, lines: Lines, out: &mut dyn Write) -> io::Result<()> {
    let columns = COLUMNS.map(str::to_owned);
    if lines == Lines::Csv {
        out.write_all(output::csv_line(COLUMNS).as_bytes())?;
    }
    rows.into_iter().try_for_each(|row| out.write_all(table::line(values(row), &columns, lines).as_bytes()))
}

/// The columns of a row.
pub(crate) fn values(row: VerdictRow) -> Vec<Value> {
    let real = |value: Option<f64>| value.filter(|value| value.is_finite()).map_or(Value::Null, Value::Real);
    vec![
        Value::Text(row.arm),
        Value::Text(row.baseline),
        Value::Text(row.condition),
        Value::Text(row.measure),
        Value::Integer(row.decides.into()),
        real(row.ratio),
        real(row.difference),
        real(row.low),
        real(row.high),
        Value::Real(row.confidence),
        Value::Text(row.grade),
        Value::Text(row.verdict),
        Value::Integer(row.n as i64),
        real(row.p),
        real(row.sure),
        Value::Text(row.note),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use reports::sample::Sample;
    use reports::{Options, verdict_rows};

    fn written(lines: Lines) -> String {
        let rows = verdict_rows(&Sample::duel().rows(), &Options::default()).unwrap();
        let mut out = Vec::new();
        write(rows, lines, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn both_forms_hold_the_same_rows() {
        let csv = written(Lines::Csv);
        let (head, rest) = csv.split_once('\n').unwrap();
        assert_eq!(head, COLUMNS.join(","));
        let objects: Vec<serde_json::Value> =
            written(Lines::Json).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(rest.lines().count(), objects.len());
        for (line, object) in rest.lines().zip(&objects) {
            let fields: Vec<&str> = line.split(',').collect();
            for place in [0, 1, 3, 10, 11] {
                assert_eq!(object[COLUMNS[place]], fields[place], "{line}");
            }
            for place in [4, 5, 12, 13] {
                let number = fields[place].parse::<f64>().ok();
                assert_eq!(object[COLUMNS[place]].as_f64(), number, "{line}");
            }
        }
        assert_eq!(objects.iter().filter(|row| row["decides"] == 1).count(), 1);
        assert!(objects.iter().all(|row| row["verdict"] == "faster"), "{objects:?}");
    }
}
