//! TOML text to a spanned [`Table`]; the only module that knows the TOML reader.

use crate::text::finding::Finding;
use crate::text::source::{Sources, Span};
use crate::text::tree::{Item, NamedItem, Table, Value};
use std::ops::Range;
use toml::de::{DeTable, DeValue, Error};

/// The table of a whole text; syntax errors go to `findings`, as many as the reader can tell apart.
pub(crate) fn document(sources: &Sources, source: u32, findings: &mut Vec<Finding>) -> Option<Table> {
    let (table, errors) = DeTable::parse_recoverable(sources.text(source));
    if errors.is_empty() {
        return Some(convert_table(table.into_inner(), source, 0));
    }
    findings.extend(roots(&errors, sources.text(source)).into_iter().map(|error| syntax(error, source)));
    None
}

/// An error makes the reader stumble on: what follows on the same line, or far behind many others, is left out.
const MOST_ERRORS: usize = 4;

fn roots<'a>(errors: &'a [Error], text: &str) -> Vec<&'a Error> {
    let line = |error: &Error| {
        let start = error.span().map_or(0, |span| span.start.min(text.len()));
        text.get(..start).map_or(0, |before| before.matches('\n').count())
    };
    let mut errors: Vec<(usize, &Error)> = errors.iter().map(|error| (line(error), error)).collect();
    errors.sort_by_key(|(line, _)| *line);
    errors.dedup_by_key(|(line, _)| *line);
    errors.into_iter().take(MOST_ERRORS).map(|(_, error)| error).collect()
}

/// A single value that stands at byte `offset` of a source; `None` where it is not TOML.
pub(crate) fn value(text: &str, source: u32, offset: usize) -> Option<Item> {
    let value = DeValue::parse(text).ok()?;
    let span = span(source, offset, value.span());
    Some(Item { span, value: convert(value.into_inner(), source, offset) })
}

fn syntax(error: &Error, source: u32) -> Finding {
    let span = error.span().map(|range| span(source, 0, range));
    let message = error.message().trim().replace('\n', "; ");
    Finding::new("R001", format!("this is not TOML: {message}")).at_option(span, "here")
}

fn span(source: u32, offset: usize, range: Range<usize>) -> Span {
    Span { source, start: (range.start + offset) as u32, end: (range.end + offset) as u32 }
}

fn convert_table(table: DeTable<'_>, source: u32, offset: usize) -> Table {
    let mut entries: Vec<NamedItem> = table
        .into_iter()
        .map(|(name, item)| NamedItem {
            name_span: span(source, offset, name.span()),
            name: name.into_inner().into_owned(),
            item: Item {
                span: span(source, offset, item.span()),
                value: convert(item.into_inner(), source, offset),
            },
        })
        .collect();
    entries.sort_by_key(|entry| entry.name_span.start);
    Table { entries }
}

fn convert(value: DeValue<'_>, source: u32, offset: usize) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(Value::Foreign("a number beyond 64 bits"), Value::Integer),
        DeValue::Float(number) => {
            number.as_str().parse().map_or(Value::Foreign("a number beyond 64 bits"), Value::Float)
        }
        DeValue::Boolean(flag) => Value::Flag(flag),
        DeValue::Datetime(_) => Value::Foreign("a date or time"),
        DeValue::Array(items) => Value::List(
            items
                .into_iter()
                .map(|item| Item {
                    span: span(source, offset, item.span()),
                    value: convert(item.into_inner(), source, offset),
                })
                .collect(),
        ),
        DeValue::Table(table) => Value::Table(convert_table(table, source, offset)),
    }
}
