//! `[[sweep.random]]`: values drawn from ranges. Each draw is one point of all axes of its table, as in random search (Bergstra
//! and Bengio, "Random search for hyper-parameter optimization", 2012).
//!
//! A value depends on seed, key and number of the draw, and where all values of a draw are there already on the number of the trial: more
//! draws add points and leave the others as they are, so that their runs are reused.

use crate::keys::lookup::nearest;
use crate::sweep::axes::{AxisReader, Dimension};
use crate::text::finding::Finding;
use crate::text::source::Span;
use crate::text::tree::{Item, NamedItem, Table, Value};
use crate::values::value;
use sha2::{Digest, Sha256};

const PATH: &str = "sweep.random";
/// Draws of one table: far beyond use.
const MOST: i64 = 10_000;
/// Trials for a draw that is not there yet: of 200 values the last one is found nearly always.
const TRIES: u32 = 4_000;
const SEED: i64 = 1;

/// The values that one key is drawn from.
#[derive(Debug)]
enum Range {
    Uniform(f64, f64),
    LogUniform(f64, f64),
    Integers(i64, i64),
    Choice(Vec<Item>),
}

impl Range {
    const NAMES: [&str; 4] = ["uniform", "log-uniform", "integers", "choice"];

    fn value(&self, unit: f64) -> Value {
        match self {
            Self::Uniform(low, high) => Value::Float(rounded(low + unit * (high - low), *low, *high)),
            Self::LogUniform(low, high) => {
                Value::Float(log_rounded((low.ln() + unit * (high / low).ln()).exp(), *low, *high))
            }
            Self::Integers(low, high) => {
                let count = (high - low) as f64 + 1.0;
                Value::Integer(low.saturating_add((unit * count) as i64).min(*high))
            }
            Self::Choice(items) => {
                let place = ((unit * items.len() as f64) as usize).min(items.len().saturating_sub(1));
                items.get(place).map_or(Value::Flag(false), |item| item.value.clone())
            }
        }
    }
}

/// To a thousandth of the range, or a little finer: that tells any two settings apart that matter, and can be read.
fn rounded(value: f64, low: f64, high: f64) -> f64 {
    let decimals = 3 - (high - low).log10().floor() as i32;
    let rounded = match usize::try_from(decimals) {
        Ok(decimals) if decimals <= 17 => format!("{value:.decimals$}").parse().unwrap_or(value),
        Ok(_) => value,
        Err(_) => {
            let step = 10_f64.powi(-decimals);
            (value / step).round() * step
        }
    };
    rounded.clamp(low, high)
}

/// The same of a value whose logarithm is drawn: three digits, and more of a range within a factor of two.
fn log_rounded(value: f64, low: f64, high: f64) -> f64 {
    let finer = -(high / low - 1.0).log10().floor().min(0.0);
    significant(value, 3 + finer as usize).parse().unwrap_or(value).clamp(low, high)
}

fn significant(value: f64, digits: usize) -> String {
    format!("{value:.0$e}", digits.clamp(1, 17) - 1)
}

/// A number from 0 to 1, without 1.
fn unit(seed: i64, path: &str, draw: i64, trial: u32) -> f64 {
    let digest = Sha256::digest(format!("{seed}\n{path}\n{draw}\n{trial}"));
    let bytes = digest.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    (bytes >> 11) as f64 / (1_u64 << 53) as f64
}

/// A key that is drawn, and from what.
struct Drawn {
    /// The path's parts, with their places.
    path: Vec<(String, Span)>,
    span: Span,
    range: Range,
}

impl Drawn {
    fn shown(&self) -> String {
        self.path.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(".")
    }
}

impl AxisReader<'_> {
    /// The dimension of one table; its axes move together.
    pub(super) fn random(&mut self, table: &Table, span: Span) -> Option<Dimension> {
        let before = self.findings.len();
        let draws = self.number(table, "draws", 2..=MOST);
        let seed = self.number(table, "seed", 0..=i64::MAX).or(Some(SEED));
        if table.get("draws").is_none() {
            let finding =
                Finding::new("R010", "random values without their number").at(span, "`draws` is missing");
            self.findings.push(finding.cure("write `draws = 20`, for example"));
        }
        let mut drawn = Vec::new();
        self.ranges(table, &mut Vec::new(), &mut drawn);
        if drawn.is_empty() && self.findings.len() == before {
            let finding = Finding::new("R037", "random values of no key").at(span, "nothing is drawn");
            let cure = "name a key: `train.optimizer.lr = { log-uniform = [0.001, 1.0] }`";
            self.findings.push(finding.cure(cure).note(value::more(PATH)));
        }
        let (draws, seed) = draws.zip(seed).filter(|_| self.findings.len() == before)?;
        let points = self.points(&drawn, draws, seed, span)?;
        let before = self.findings.len();
        let dimension = self.zip(&lists(&drawn, &points));
        // A problem with one draw of a key is a problem with all of them.
        let mut said: Vec<(&'static str, Option<Span>)> = Vec::new();
        let new = self.findings.split_off(before);
        for finding in new {
            let place = (finding.code, finding.spans.first().map(|(span, _)| *span));
            if !said.contains(&place) {
                said.push(place);
                self.findings.push(finding);
            }
        }
        dimension
    }

    /// A whole number of the table; `None` if it is not there, or wrong.
    fn number(&mut self, table: &Table, name: &str, within: std::ops::RangeInclusive<i64>) -> Option<i64> {
        let entry = table.get(name)?;
        match entry.item.value {
            Value::Integer(number) if within.contains(&number) => Some(number),
            _ => {
                let least = within.start();
                let most = within.end();
                let range = if *most == i64::MAX {
                    format!("at least {least}")
                } else {
                    format!("{least} to {most}")
                };
                self.findings.push(
                    Finding::new("R011", format!("`{PATH}.{name}` takes a whole number, {range}"))
                        .at(entry.item.span, format!("this is {}", entry.item.value.plain())),
                );
                None
            }
        }
    }

    /// The ranges below a table.
    fn ranges(&mut self, table: &Table, path: &mut Vec<(String, Span)>, drawn: &mut Vec<Drawn>) {
        let own = |entry: &&NamedItem| !(path.is_empty() && ["draws", "seed"].contains(&entry.name.as_str()));
        for entry in table.entries.iter().filter(own).collect::<Vec<_>>() {
            path.push((entry.name.clone(), entry.name_span));
            match &entry.item.value {
                Value::Table(inner) if !is_range(inner) => self.ranges(inner, path, drawn),
                Value::Table(inner) => {
                    let range = self.range(inner, entry);
                    drawn.extend(range.map(|range| Drawn {
                        path: path.clone(),
                        span: entry.item.span,
                        range,
                    }));
                }
                _ if path.len() > 1 && nearest(&entry.name, Range::NAMES).is_some() => {
                    let name = nearest(&entry.name, Range::NAMES).unwrap_or_default();
                    let title = format!("there is no range called `{}`", entry.name.escape_debug());
                    let finding =
                        Finding::new("R037", title).at(entry.name_span, format!("did you mean `{name}`?"));
                    self.findings.push(finding.note(value::more(PATH)).suggest(Some(name)));
                }
                other => {
                    let names: Vec<&str> = path.iter().map(|(name, _)| name.as_str()).collect();
                    let title = format!("`{}` is drawn from nothing", names.join("."));
                    let cure = match other {
                        Value::List(_) => format!("write `{{ choice = {} }}`", other.toml()),
                        _ => format!("set the key itself, or write `{{ choice = [{}, ...] }}`", other.toml()),
                    };
                    self.findings.push(
                        Finding::new("R037", title)
                            .at(entry.item.span, format!("{}, where a range is expected", other.describe()))
                            .cure(cure)
                            .note(value::more(PATH)),
                    );
                }
            }
            path.pop();
        }
    }

    fn range(&mut self, table: &Table, entry: &NamedItem) -> Option<Range> {
        let wrong = |title: &str, label: &str| {
            let note = "ranges: { uniform = [low, high] }, { log-uniform = [low, high] }, { integers = [low, high] }, \
                        { choice = [...] }";
            Finding::new("R037", title.to_owned()).at(entry.item.span, label.to_owned()).note(note)
        };
        let [only] = table.entries.as_slice() else {
            self.findings.push(wrong("a range has one kind", "more than one"));
            return None;
        };
        let Value::List(items) = &only.item.value else {
            self.findings.push(wrong("a range is a list", only.item.value.describe()));
            return None;
        };
        if only.name == "choice" {
            if items.len() < 2 {
                self.findings.push(wrong("a choice has at least two values", "nothing to choose from"));
                return None;
            }
            return Some(Range::Choice(items.clone()));
        }
        let number = |item: &Item| match item.value {
            Value::Integer(number) => Some(number as f64),
            Value::Float(number) if number.is_finite() => Some(number),
            _ => None,
        };
        let ends = items.iter().map(number).collect::<Option<Vec<f64>>>();
        let Some([low, high]) = ends.as_deref() else {
            let cure = "values with units are drawn by `choice`";
            self.findings.push(wrong("a range has two numbers, its ends", "not two numbers").cure(cure));
            return None;
        };
        if low >= high {
            self.findings.push(wrong("a range goes from the smaller end to the larger one", "it is empty"));
            return None;
        }
        match (only.name.as_str(), &items[0].value, &items[1].value) {
            ("uniform", ..) => Some(Range::Uniform(*low, *high)),
            ("log-uniform", ..) if *low > 0.0 => Some(Range::LogUniform(*low, *high)),
            ("integers", Value::Integer(low), Value::Integer(high)) if high.checked_sub(*low).is_some() => {
                Some(Range::Integers(*low, *high))
            }
            ("log-uniform", ..) => {
                self.findings
                    .push(wrong("a logarithmic range has no zero and nothing below", "it begins too low"));
                None
            }
            _ => {
                self.findings
                    .push(wrong("`integers` goes from one whole number to another", "not two whole numbers"));
                None
            }
        }
    }

    /// For each draw the value of each key, no two alike.
    fn points(&mut self, drawn: &[Drawn], draws: i64, seed: i64, span: Span) -> Option<Vec<Vec<Value>>> {
        let mut points: Vec<Vec<Value>> = Vec::new();
        let mut known = std::collections::BTreeSet::new();
        for draw in 0..draws {
            let trial = |trial| -> Vec<Value> {
                drawn.iter().map(|key| key.range.value(unit(seed, &key.shown(), draw, trial))).collect()
            };
            let new = |point: &Vec<Value>| {
                known.insert(point.iter().map(Value::toml).collect::<Vec<_>>().join("\n"))
            };
            let Some(point) = (0..TRIES).map(trial).find(new) else {
                let title = format!("there are hardly more than {} different draws", points.len());
                self.findings.push(
                    Finding::new("R038", title)
                        .at(span, format!("{draws} are asked for"))
                        .note("numbers are rounded to about a thousandth of their range")
                        .cure("ask for fewer, or write the values down as `sweep.axes`"),
                );
                return None;
            };
            points.push(point);
        }
        Some(points)
    }
}

/// Whether a table is a range, and not the way to a key.
fn is_range(table: &Table) -> bool {
    table.entries.iter().any(|entry| Range::NAMES.contains(&entry.name.as_str()))
}

/// The table of lists that the draws would be if they were written down.
fn lists(drawn: &[Drawn], points: &[Vec<Value>]) -> Table {
    let mut table = Table::default();
    for (place, key) in drawn.iter().enumerate() {
        let items = points.iter().map(|point| Item { span: key.span, value: point[place].clone() });
        let item = Item { span: key.span, value: Value::List(items.collect()) };
        put(&mut table, &key.path, item);
    }
    table
}

fn put(table: &mut Table, path: &[(String, Span)], item: Item) {
    let [(name, span), rest @ ..] = path else { return };
    if rest.is_empty() {
        table.entries.push(NamedItem { name: name.clone(), name_span: *span, item });
        return;
    }
    if table.get(name).is_none() {
        let empty = Item { span: *span, value: Value::Table(Table::default()) };
        table.entries.push(NamedItem { name: name.clone(), name_span: *span, item: empty });
    }
    if let Some(NamedItem { item: Item { value: Value::Table(inner), .. }, .. }) = table.get_mut(name) {
        put(inner, rest, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_fill_their_range_evenly() {
        let ranges = [Range::Uniform(-2.0, 6.0), Range::LogUniform(1e-4, 1.0), Range::Integers(3, 10)];
        for range in ranges {
            let mut parts = [0_u32; 8];
            for draw in 0..8_000 {
                let place = match (&range, range.value(unit(1, "key", draw, 0))) {
                    (Range::Uniform(..), Value::Float(value)) => value + 2.0,
                    (Range::LogUniform(..), Value::Float(value)) => (value.log10() + 4.0) * 2.0,
                    (Range::Integers(..), Value::Integer(value)) => (value - 3) as f64,
                    (range, value) => panic!("{value:?} of {range:?}"),
                };
                parts[(place as usize).min(7)] += 1;
            }
            // Six standard deviations of a count of a thousand in eight thousand.
            assert!(parts.iter().all(|part| (823..1_178).contains(part)), "{range:?} {parts:?}");
        }
    }

    #[test]
    fn values_have_the_digits_that_their_range_needs() {
        let draw = |range: &Range, unit: f64| match range.value(unit) {
            Value::Float(value) => value.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(draw(&Range::Uniform(0.0, 0.9), 0.123_456_7), "0.1111");
        assert_eq!(draw(&Range::Uniform(0.999, 0.9999), 0.5), "0.99945");
        assert_eq!(draw(&Range::Uniform(-2e6, 3e6), 0.123_456_7), "-1383000");
        assert_eq!(draw(&Range::LogUniform(1e-3, 1.0), 0.123_456_7), "0.00235");
        assert_eq!(draw(&Range::LogUniform(0.99, 0.999), 0.5), "0.99449");
    }

    #[test]
    fn a_draw_depends_on_its_number_alone() {
        let of = |seed, path, draw| unit(seed, path, draw, 0);
        assert_eq!(of(1, "train.optimizer.lr", 7).to_bits(), of(1, "train.optimizer.lr", 7).to_bits());
        let others =
            [of(2, "train.optimizer.lr", 7), of(1, "train.global-batch", 7), of(1, "train.optimizer.lr", 8)];
        assert!(others.iter().all(|other| (other - of(1, "train.optimizer.lr", 7)).abs() > 1e-9));
    }
}
