//! The verdicts of a sweep as a table, from the same comparisons as its page.

use super::none_fits;
use super::table::{self, Lines};
use crate::exit::Failure;
use crate::output;
use recipe::AxisValue;
use reports::{Options, VerdictRow};
use std::io::{self, Write};
use store::{Selection, Store, Value};

const COLUMNS: [&str; 16] = [
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

/// A table of values with its head.
pub(crate) struct Whole {
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<Value>>,
}

/// The verdicts with, where arms chose settings, columns for what an arm chose of each axis, and what its baseline chose:
/// `chosen.train.optimizer.lr`, `baseline-chosen.train.optimizer.lr`.
pub(crate) fn whole(verdicts: Vec<VerdictRow>) -> Whole {
    let mut axes: Vec<String> = Vec::new();
    for value in verdicts.iter().flat_map(|row| row.chosen.iter().chain(&row.baseline_chosen)) {
        if !axes.contains(&value.path) {
            axes.push(value.path.clone());
        }
    }
    let fixed = COLUMNS.map(str::to_owned).into_iter();
    let chosen = |side: &'static str| axes.iter().map(move |axis| format!("{side}.{axis}"));
    Whole {
        columns: fixed.chain(chosen("chosen")).chain(chosen("baseline-chosen")).collect(),
        rows: verdicts.into_iter().map(|row| values(row, &axes)).collect(),
    }
}

/// Writes a line for each verdict; CSV begins with the columns' names.
pub(crate) fn write(verdicts: Vec<VerdictRow>, lines: Lines, out: &mut dyn Write) -> io::Result<()> {
    let Whole { columns, rows } = whole(verdicts);
    if lines == Lines::Csv {
        out.write_all(output::csv_line(columns.iter().map(String::as_str)).as_bytes())?;
    }
    rows.into_iter().try_for_each(|row| out.write_all(table::line(row, &columns, lines).as_bytes()))
}

/// The columns of a row.
fn values(row: VerdictRow, axes: &[String]) -> Vec<Value> {
    let real = |value: Option<f64>| value.filter(|value| value.is_finite()).map_or(Value::Null, Value::Real);
    let chosen = |setting: &[AxisValue], axis: &String| {
        let found = setting.iter().find(|value| value.path == *axis);
        found.map_or(Value::Null, |value| {
            value.number.map_or_else(|| Value::Text(value.text.clone()), Value::Real)
        })
    };
    let sides = [&row.chosen, &row.baseline_chosen];
    let settings: Vec<Value> =
        sides.iter().flat_map(|setting| axes.iter().map(|axis| chosen(setting, axis))).collect();
    let mut values = vec![
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
    ];
    values.extend(settings);
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use reports::sample::{Sample, decided};
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

    /// The second arm does best at a smaller rate.
    #[test]
    fn what_an_arm_chose_has_columns() {
        let rows = decided(&[0.1, 0.2, 0.4], 2, |arm, rate, _| {
            let best = if arm == 0 { 0.2 } else { 0.1 };
            0.9 - (rate - best).abs()
        });
        let mut out = Vec::new();
        write(verdict_rows(&rows, &Options::default()).unwrap(), Lines::Csv, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let mut lines = text.lines();
        let head = lines.next().unwrap();
        assert!(
            head.ends_with(",note,chosen.train.optimizer.lr,baseline-chosen.train.optimizer.lr"),
            "{head}"
        );
        let of_arm: Vec<&str> = lines.filter(|line| line.starts_with("d-sync,ps-sync,")).collect();
        assert!(!of_arm.is_empty() && of_arm.iter().all(|line| line.ends_with(",0.1,0.2")), "{text}");
    }
}
