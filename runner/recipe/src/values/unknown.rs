//! The problem of a key that no table has.

use crate::keys::lookup;
use crate::text::finding::Finding;
use crate::text::tree::NamedItem;
use crate::values::value;

/// An unknown key, with the nearest known one.
pub(crate) fn key(entry: &NamedItem, whose: &str, known: &[&str], table: &str) -> Finding {
    let mut known: Vec<&str> = known.to_vec();
    known.sort_unstable();
    let suggestion = lookup::nearest(&entry.name, known.iter().copied());
    let label = suggestion.map_or("unknown".to_owned(), |name| format!("did you mean `{name}`?"));
    let finding = Finding::new("R012", format!("unknown key `{}`{whose}", entry.name.escape_debug()))
        .at(entry.name_span, label)
        .note(format!("known keys: {}", known.join(", ")))
        .suggest(suggestion)
        .meaning(suggestion.map(|name| lookup::join(table, name)));
    let elsewhere: Vec<&str> = lookup::elsewhere(&entry.name, table).map(|key| key.path).take(2).collect();
    let finding = match elsewhere.as_slice() {
        [top] if suggestion.is_none() && !top.contains('.') => {
            finding.note(format!("`{top}` stands by itself, outside of every table"))
        }
        [only] if suggestion.is_none() => finding.note(format!("the key is `{only}`")),
        _ => finding,
    };
    if table.is_empty() { finding } else { finding.note(value::more(table)) }
}
