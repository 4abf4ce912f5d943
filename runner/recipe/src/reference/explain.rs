//! `bakeoff explain`: a page for every key, every name that a key takes, and every code.

use crate::keys::key::{Key, Kind, Range, Reach};
use crate::keys::lookup;
use crate::keys::table::KEYS;
use crate::reference::codes::{self, Code};
use crate::spec::family::{Availability, Choice};
use crate::values::value;
use std::fmt::Write;

/// There is no page of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no key, name or code `{topic}`")]
pub struct Unexplained {
    /// Topic that was asked for.
    pub topic: String,
    /// Topic that was probably meant; `None` where none is near.
    pub suggestion: Option<String>,
}

/// The page of a key (`train.optimizer.lr`, or the end of its path: `lr`), of a name that a key takes (`strategy.d-sync`), or of a code
/// (`R012`). Where several keys have that end, the page lists them.
///
/// # Errors
/// Where there is no such page; with the nearest that there is.
pub fn explain(topic: &str) -> Result<String, Unexplained> {
    let topic = topic.trim();
    if let Some(page) = codes::find(&topic.to_uppercase()) {
        return Ok(code_page(page));
    }
    if let Some(key) = lookup::find(topic) {
        return Ok(key_page(key));
    }
    if let Some((key, choice)) = choice(topic) {
        return Ok(choice_page(topic, key, choice));
    }
    let ends: Vec<&Key> = lookup::ending_in(topic).collect();
    match ends.as_slice() {
        [] => {}
        [only] => return Ok(key_page(only)),
        several => return Ok(several_page(topic, several)),
    }
    let topics = topics();
    // `drop-link` where nothing but a fault has that name.
    let end = format!(".{topic}");
    let mut same = topics.iter().filter(|whole| whole.ends_with(&end));
    if let (Some(whole), None) = (same.next(), same.next())
        && let Some((key, choice)) = choice(whole)
    {
        return Ok(choice_page(whole, key, choice));
    }
    let full = lookup::nearest(topic, topics.iter().map(String::as_str));
    let by_end = || {
        let ends = topics.iter().map(|topic| topic.rsplit('.').next().unwrap_or(topic));
        let end = lookup::nearest(topic, ends)?;
        topics.iter().find(|topic| topic.ends_with(end)).map(String::as_str)
    };
    let suggestion = full.or_else(by_end).map(str::to_owned);
    Err(Unexplained { topic: topic.to_owned(), suggestion })
}

/// Everything that has a page: keys, then the names that keys take, then codes.
pub fn topics() -> Vec<String> {
    let keys = KEYS.iter().map(|key| key.path.to_owned());
    let names = KEYS.iter().flat_map(|key| {
        let parent = choice_parent(key);
        choices(key).iter().map(move |choice| format!("{parent}.{}", choice.name))
    });
    let codes = codes::all().map(|page| page.id.to_owned());
    keys.chain(names).chain(codes).collect()
}

fn choices(key: &Key) -> &'static [Choice] {
    match key.kind {
        Kind::Choice(choices) | Kind::ChoiceList(choices) => choices,
        _ => &[],
    }
}

/// Where the pages of a key's names are: those of `strategy.kind` are `strategy.<name>`.
fn choice_parent(key: &Key) -> &'static str {
    if key.name() == "kind" { key.parent() } else { key.path }
}

fn choice(topic: &str) -> Option<(&'static Key, &'static Choice)> {
    let (parent, name) = topic.rsplit_once('.')?;
    let mut keys = KEYS.iter().filter(|key| choice_parent(key) == parent);
    keys.find_map(|key| choices(key).iter().find(|choice| choice.name == name).map(|choice| (key, choice)))
}

fn code_page(page: &Code) -> String {
    let severity = if page.id >= "R200" { "warning" } else { "error" };
    format!("{severity} {}: {}\n\n{}\n", page.id, page.title, page.text)
}

fn key_page(key: &Key) -> String {
    let mut page = format!("{}\n\n{}\n\n", key.path, key.doc);
    if key.later {
        page.push_str("Not in this version.\n");
        return page;
    }
    if matches!(key.kind, Kind::Table) {
        table_page(&mut page, key);
        return page;
    }
    let _ = writeln!(page, "  takes    {}", takes(&key.kind));
    if !key.of.is_empty() {
        let _ = writeln!(page, "  only     where the kind is {}", key.of.join(", "));
    }
    let usual = key.usual.iter().map(|usual| format!("; {} where the kind is {}", usual.toml, usual.kind));
    let usual: String = usual.collect();
    let _ = writeln!(page, "  default  {}{usual}", key.default.unwrap_or("none"));
    if !key.example.is_empty() {
        let _ = writeln!(page, "  example  {} = {}", key.name(), key.example);
    }
    let _ = writeln!(page, "  axis     {}", reach(key.reach));
    choice_list(&mut page, key);
    page
}

/// The keys that one end of a path may mean.
fn several_page(end: &str, keys: &[&'static Key]) -> String {
    let mut page = format!("{end} is the end of {} keys:\n\n", keys.len());
    list(&mut page, keys.iter().map(|key| Entry { name: key.path, doc: first_sentence(key.doc) }));
    page
}

fn table_page(page: &mut String, table: &Key) {
    if !table.example.is_empty() {
        let _ = writeln!(page, "  example  {} = {}\n", table.name(), table.example);
    }
    let keys: Vec<&Key> = lookup::children(table.path).filter(|key| !key.later).collect();
    if !keys.is_empty() {
        page.push_str("Keys:\n");
    }
    list(page, keys.into_iter().map(Entry::of_key));
    if let Some(kind) = lookup::find(&lookup::join(table.path, "kind")) {
        choice_list(page, kind);
    }
}

fn choice_page(topic: &str, key: &Key, choice: &Choice) -> String {
    let mut page = format!("{topic}\n\n{}\n\n", choice.doc);
    match choice.availability {
        Availability::Later => page.push_str("Not in this version.\n"),
        Availability::Setting(setting) => {
            let _ = writeln!(page, "A setting here: write {setting}.");
        }
        Availability::Now => {
            let path = if key.parent() == "strategy" { "[[strategy]] kind" } else { key.path };
            let _ = writeln!(page, "  written  {path} = \"{}\"", choice.name);
            let keys: Vec<&Key> = lookup::children(key.parent())
                .filter(|other| {
                    key.name() == "kind" && !other.later && other.path != key.path && other.is_of(choice.name)
                })
                .collect();
            if !keys.is_empty() {
                page.push_str("\nKeys:\n");
            }
            list(&mut page, keys.into_iter().map(Entry::of_key));
        }
    }
    page
}

fn choice_list(page: &mut String, key: &Key) {
    let choices = choices(key);
    if choices.is_empty() {
        return;
    }
    let _ = writeln!(page, "\nNames of `{}`:", key.path);
    list(
        page,
        (choices.iter()).filter(|choice| choice.availability == Availability::Now).map(Entry::of_choice),
    );
    let later: Vec<&str> = (choices.iter())
        .filter(|choice| choice.availability == Availability::Later)
        .map(|choice| choice.name)
        .collect();
    if !later.is_empty() {
        let _ = writeln!(page, "\nNot in this version: {}.", later.join(", "));
    }
}

/// A line of a list: a name, and words about it.
struct Entry<'a> {
    name: &'a str,
    doc: &'a str,
}

impl<'a> Entry<'a> {
    fn of_key(key: &'a Key) -> Self {
        Self { name: key.name(), doc: first_sentence(key.doc) }
    }

    fn of_choice(choice: &'a Choice) -> Self {
        Self { name: choice.name, doc: choice.doc }
    }
}

fn list<'a>(page: &mut String, entries: impl Iterator<Item = Entry<'a>> + Clone) {
    let width = entries.clone().map(|entry| entry.name.len()).max().unwrap_or(0);
    for Entry { name, doc } in entries {
        let _ = writeln!(page, "  {name:width$}  {doc}");
    }
}

fn first_sentence(text: &str) -> &str {
    text.find(". ").map_or(text, |end| &text[..=end])
}

fn reach(reach: Reach) -> &'static str {
    match reach {
        Reach::Sweep => "no: it concerns the sweep as a whole",
        Reach::Arm => "yes; its values are arms",
        Reach::Condition => "yes; its values are conditions",
    }
}

/// Values that a kind of key takes, in words.
pub(crate) fn takes(kind: &Kind) -> String {
    match kind {
        Kind::Whole(least, most) if least == most => format!("{least}"),
        Kind::Whole(least, most) => format!("a whole number from {least} to {most}"),
        Kind::Number(range) => format!("a number{}", bounds(*range)),
        Kind::Share(range) => format!("a number or a percentage{}", bounds(*range)),
        Kind::Choice(_) => "one of the names below".to_owned(),
        Kind::ChoiceList(_) => "one of the names below, or a list of them".to_owned(),
        other => value::expected(other).to_owned(),
    }
}

fn bounds(range: Range) -> String {
    format!(", {}", range.describe())
}
