//! Checks one written value against what its key takes: one function for each kind of value.

use crate::Extent;
use crate::keys::key::{Key, Kind, Least, Range};
use crate::keys::lookup;
use crate::spec::family::{Availability, Choice};
use crate::spec::quantity;
use crate::text::finding::Finding;
use crate::text::tree::{Item, NONE, Table, Value, quote};
use crate::values::leaf::{Seeds, Typed};
use std::ops::RangeInclusive;

/// Checks a value that stands for itself, wherever it is written.
pub(crate) fn typed(key: &'static Key, item: &Item) -> Result<Typed, Finding> {
    match (&key.kind, &item.value) {
        (Kind::Text | Kind::Path, Value::Text(text)) => Ok(Typed::Text(text.clone())),
        (Kind::Flag, Value::Flag(flag)) => Ok(Typed::Flag(*flag)),
        (Kind::Whole(least, most), Value::Integer(number)) => whole(key, item, *number, *least..=*most),
        (Kind::Number(range) | Kind::Share(range), Value::Integer(number)) => {
            number_in(key, item, *number as f64, *range)
        }
        (Kind::Number(range) | Kind::Share(range), Value::Float(number)) => {
            number_in(key, item, *number, *range)
        }
        (Kind::Share(range), Value::Text(text)) => match quantity::share(text) {
            Some(share) => number_in(key, item, share, *range),
            None => Err(malformed(key, item, "a share is a number or a percentage: `0.05`, `\"5%\"`")),
        },
        (Kind::Choice(choices), Value::Text(text)) => choose(key, choices, item, text).map(Typed::Choice),
        (Kind::Duration, Value::Text(text)) => {
            quantity::duration(text).map(Typed::Duration).ok_or_else(|| {
                malformed(key, item, "a time is a number above zero and one of ns, us, ms, s, min, h, d, and less than a century: `\"15min\"`")
            })
        }
        (Kind::Bandwidth, Value::Text(text)) => {
            quantity::bandwidth(text).map(Typed::Bandwidth).ok_or_else(|| {
                malformed(
                    key,
                    item,
                    "a bandwidth is a number and one of bit/s, kbit/s, Mbit/s, Gbit/s, B/s, kB/s, MB/s, GB/s, from 8bit/s to \
                     8000Gbit/s: `\"1Gbit/s\"`",
                )
            })
        }
        (Kind::Size, Value::Text(text)) => quantity::size(text).map(Typed::Size).ok_or_else(|| {
            malformed(key, item, "a size is a number and one of B, kB, MB, GB, KiB, MiB, GiB, from 1B to 1000GB: `\"25MiB\"`")
        }),
        (Kind::Extent(least), Value::Text(text)) => extent(key, item, text, *least).map(Typed::Extent),
        (Kind::Extents, Value::List(items)) => extents(key, item, items).map(Typed::Extents),
        (Kind::TextList, Value::List(items)) => texts(key, items).map(Typed::List),
        (Kind::TextList, Value::Text(text)) => Ok(Typed::List(vec![text.clone()])),
        (Kind::ChoiceList(choices), Value::List(items)) => chosen(key, choices, items),
        // As an empty list is shown.
        (Kind::ChoiceList(_), Value::Text(text)) if text == NONE => Ok(Typed::List(Vec::new())),
        (Kind::ChoiceList(choices), Value::Text(_)) => chosen(key, choices, std::slice::from_ref(item)),
        (Kind::Seeds, Value::List(items)) => seed_list(key, items),
        (Kind::Seeds, Value::Table(table)) => seeds_from(key, item, table),
        (kind, _) => Err(wrong_type(key, item, expected(kind))),
    }
}

/// Form of a kind of value, for people.
pub(crate) fn expected(kind: &Kind) -> &'static str {
    match kind {
        Kind::Table => "a table",
        Kind::Text | Kind::Choice(_) => "a string in quotes",
        Kind::Path => "a path in quotes",
        Kind::Flag => "true or false",
        Kind::Whole(..) => "a whole number",
        Kind::Number(_) => "a number",
        Kind::Share(_) => "a number or a percentage",
        Kind::Duration => "a time in quotes, as \"15min\"",
        Kind::Extent(_) => "a length in quotes, as \"2 epochs\" or \"100 steps\"",
        Kind::Extents => "a list of lengths, as [\"10 epochs\", \"20 epochs\"]",
        Kind::TextList => "a list of strings",
        Kind::ChoiceList(_) => "a list of names, as [\"a\", \"b\"]",
        Kind::Seeds => "{ from = 42 } or a list of whole numbers",
        Kind::Layers | Kind::Slow | Kind::Faults => "a list of tables",
        Kind::LayerRows => "a list of lists of tables",
        Kind::Bandwidth => "a bandwidth in quotes, as \"1Gbit/s\"",
        Kind::Size => "a size in quotes, as \"25MiB\"",
    }
}

/// A value of the wrong type.
pub(crate) fn wrong_type(key: &Key, item: &Item, expected: &str) -> Finding {
    Finding::new("R011", format!("`{}` takes {expected}, not {}", key.path, item.value.describe()))
        .at(item.span, format!("expected {expected}"))
        .note(more(key.path))
}

/// Where a reader finds more about a key.
pub(crate) fn more(path: &str) -> String {
    format!("more: bakeoff explain {path}")
}

fn malformed(key: &Key, item: &Item, how: &str) -> Finding {
    Finding::new("R015", format!("`{}` is no value for `{}`", item.value.plain().escape_debug(), key.path))
        .at(item.span, "not understood")
        .cure(how)
}

fn whole(key: &Key, item: &Item, number: i64, range: RangeInclusive<u64>) -> Result<Typed, Finding> {
    let inside = u64::try_from(number).ok().filter(|number| range.contains(number));
    if let Some(number) = inside {
        return Ok(Typed::Whole(number));
    }
    if key.path == "schema" {
        return Err(Finding::new("R017", format!("this version reads `schema = 1`, not {number}"))
            .at(item.span, "unknown version of the format")
            .cure("use the version of bakeoff that the recipe was written for"));
    }
    Err(Finding::new("R014", format!("`{}` cannot be {number}", key.path))
        .at(item.span, format!("must be from {} to {}", range.start(), range.end())))
}

fn number_in(key: &Key, item: &Item, number: f64, range: Range) -> Result<Typed, Finding> {
    // Most numbers reach a worker as 32-bit floats: they must be in range there, too.
    if number.is_finite() && range.contains(number) && range.contains(f64::from(number as f32)) {
        return Ok(Typed::Number(number));
    }
    let finding = Finding::new("R014", format!("`{}` cannot be {number}", key.path))
        .at(item.span, format!("must be {}{}", finite(number), range.describe()));
    let finding = match key.path {
        "nodes.price" => finding.cure("write what an hour of a machine costs: `price = 2.5`"),
        _ => finding,
    };
    // Written without its sign.
    let percent = matches!(key.kind, Kind::Share(_)) && range.contains(number / 100.0);
    Err(if percent && number > 1.0 {
        finding.note(format!("{number} per cent is written \"{number}%\""))
    } else {
        finding
    })
}

/// Words that ask for a finite number, in front of the range; empty where the number is finite.
fn finite(number: f64) -> &'static str {
    if number.is_finite() { "" } else { "a finite number " }
}

fn extent(key: &Key, item: &Item, text: &str, least: Least) -> Result<Extent, Finding> {
    let Some(extent) = quantity::extent(text) else {
        return Err(malformed(
            key,
            item,
            "a length is in epochs or whole steps: `\"2 epochs\"`, `\"100 steps\"`",
        ));
    };
    let nothing = match extent {
        Extent::Epochs(epochs) => epochs <= 0.0,
        Extent::Steps(steps) => steps == 0,
    };
    if nothing && least == Least::Something {
        return Err(Finding::new("R014", format!("`{}` cannot be nothing", key.path))
            .at(item.span, "must be above zero"));
    }
    Ok(extent)
}

fn extents(key: &Key, item: &Item, items: &[Item]) -> Result<Vec<Extent>, Finding> {
    if items.is_empty() {
        return Err(
            Finding::new("R014", format!("`{}` has no entry", key.path)).at(item.span, "at least one length")
        );
    }
    let one = |item: &Item| match &item.value {
        Value::Text(text) => extent(key, item, text, Least::Something),
        _ => Err(wrong_type(key, item, expected(&Kind::Extents))),
    };
    items.iter().map(one).collect()
}

/// The choice of this name, or why it cannot be chosen.
pub(crate) fn choose(
    key: &Key,
    choices: &'static [Choice],
    item: &Item,
    text: &str,
) -> Result<&'static str, Finding> {
    let what = subject(key.path);
    let Some(choice) = choices.iter().find(|choice| choice.name == text) else {
        let suggestion = lookup::nearest(text, choices.iter().map(|choice| choice.name));
        let label = suggestion.map_or("unknown".to_owned(), |name| format!("did you mean `{name}`?"));
        return Err(Finding::new("R013", format!("unknown {what} `{}`", text.escape_debug()))
            .at(item.span, label)
            .note(format!("known: {}", available(choices)))
            .note(more(key.path))
            .suggest(suggestion));
    };
    match choice.availability {
        Availability::Now => Ok(choice.name),
        Availability::Later => Err(Finding::new("R020", format!("{what} `{text}` is not in this version"))
            .at(item.span, "a later version brings it")
            .note(format!("in this version: {}", available(choices)))
            .cure("choose one of these, or leave it out")),
        Availability::Setting(setting) => {
            Err(Finding::new("R019", format!("`{text}` is not a {what} of its own here, but a setting"))
                .at(item.span, "known by this name from a paper")
                .note(choice.doc)
                .cure(format!("write {setting}")))
        }
    }
}

/// The names that can be chosen in this version.
fn available(choices: &[Choice]) -> String {
    lookup::available(choices).collect::<Vec<_>>().join(", ")
}

/// Noun for the names that a key takes: `strategy kind`, `partition kind`, `collective`.
pub(crate) fn subject(path: &str) -> String {
    let mut parts = path.rsplit('.');
    match (parts.next(), parts.next()) {
        (Some("kind"), Some("layers")) => "layer".to_owned(),
        (Some("kind"), Some("faults")) => "fault".to_owned(),
        (Some("kind"), Some(parent)) => format!("{} kind", parent.replace('-', " ")),
        (Some(name), _) => name.replace('-', " "),
        _ => path.to_owned(),
    }
}

fn texts(key: &Key, items: &[Item]) -> Result<Vec<String>, Finding> {
    let text = |item: &Item| match &item.value {
        Value::Text(text) => Ok(text.clone()),
        _ => Err(wrong_type(key, item, "strings in the list")),
    };
    items.iter().map(text).collect()
}

fn chosen(key: &Key, choices: &'static [Choice], items: &[Item]) -> Result<Typed, Finding> {
    let texts = texts(key, items)?;
    for (index, (item, text)) in items.iter().zip(&texts).enumerate() {
        choose(key, choices, item, text).map_err(|finding| one_of_several(text, finding))?;
        if texts[..index].contains(text) {
            return Err(Finding::new("R014", format!("`{}` has `{text}` twice", key.path))
                .at(item.span, "again here")
                .cure("drop one of them"));
        }
    }
    Ok(Typed::List(texts))
}

/// A list that is written as one string, as a shell invites to.
fn one_of_several(text: &str, finding: Finding) -> Finding {
    if !text.contains([',', '[']) {
        return finding;
    }
    let names: Vec<String> =
        text.trim_matches(['[', ']']).split(',').map(|name| quote(name.trim())).collect();
    finding.cure(format!("several names are a list: '[{}]', in quotes in a shell", names.join(", ")))
}

/// Beyond this, not every reader of JSON tells two numbers apart.
const LARGEST_SEED: i64 = 1 << 53;

fn seed(key: &Key, item: &Item) -> Result<u64, Finding> {
    match item.value {
        Value::Integer(number) if (0..LARGEST_SEED).contains(&number) => Ok(number as u64),
        _ => Err(wrong_type(key, item, "seeds that are whole numbers from 0 and below 2^53")),
    }
}

fn seed_list(key: &Key, items: &[Item]) -> Result<Typed, Finding> {
    let seeds: Result<Vec<u64>, Finding> = items.iter().map(|item| seed(key, item)).collect();
    Ok(Typed::Seeds(Seeds::List(seeds?)))
}

fn seeds_from(key: &Key, item: &Item, table: &Table) -> Result<Typed, Finding> {
    match table.entries.as_slice() {
        [entry] if entry.name == "from" => Ok(Typed::Seeds(Seeds::From(seed(key, &entry.item)?))),
        _ => Err(wrong_type(key, item, expected(&key.kind))),
    }
}
