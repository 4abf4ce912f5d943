//! From a file's name to one merged tree: `extends`, then what the command line sets.

use crate::files::Files;
use crate::paths::tidy;
use crate::repeat_count::RepeatCount;
use crate::text::finding::Finding;
use crate::text::parse;
use crate::text::source::{Sources, Span};
use crate::text::tree::{Item, NamedItem, Table, Value};
use std::path::{Path, PathBuf};

/// The most files that a recipe is made of; more is a mistake.
const MOST_FILES: usize = 64;

/// Name of the command line where other problems name a file.
const COMMAND_LINE: &str = "<command line>";

/// `key=value` of the command line.
struct Assignment {
    name: String,
    name_span: Span,
    value: String,
    value_span: Span,
}

/// Reads a recipe and everything it extends.
pub(crate) struct Loader<'a> {
    pub(crate) files: &'a dyn Files,
    pub(crate) sources: Sources,
    pub(crate) findings: Vec<Finding>,
    read: usize,
}

impl<'a> Loader<'a> {
    pub(crate) fn new(files: &'a dyn Files) -> Self {
        Self { files, sources: Sources::default(), findings: Vec::new(), read: 0 }
    }

    /// The recipe's own text and its tree with everything merged.
    pub(crate) fn recipe(&mut self, path: &Path) -> Option<(String, Table)> {
        let text = match self.files.read(path) {
            Ok(text) => text,
            Err(problem) => {
                let title = format!("cannot read the recipe {}: {problem}", path.display());
                self.findings.push(Finding::new("R002", title));
                return None;
            }
        };
        let mut chain = vec![self.absolute(path)];
        let table = self.file(path, text.clone(), &mut chain)?;
        Some((text, table))
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        tidy(&self.files.current_directory().join(path))
    }

    fn file(&mut self, path: &Path, text: String, chain: &mut Vec<PathBuf>) -> Option<Table> {
        self.read += 1;
        let folder = self.absolute(path).parent().map(Path::to_path_buf).unwrap_or_default();
        let source = self.sources.add(path.display().to_string(), text, folder);
        let mut own = parse::document(&self.sources, source, &mut self.findings)?;
        let Some(extends) = own.take("extends") else { return Some(own) };
        let mut merged = Table::default();
        for parent in self.parents(&extends) {
            if let Some(table) = self.parent(path, &parent, chain) {
                merged.merge(table, "");
            }
        }
        merged.merge(own, "");
        Some(merged)
    }

    fn parents(&mut self, extends: &NamedItem) -> Vec<(String, Span)> {
        let items = match &extends.item.value {
            Value::List(items) => items.as_slice(),
            _ => std::slice::from_ref(&extends.item),
        };
        let mut parents = Vec::new();
        for item in items {
            match &item.value {
                Value::Text(name) => parents.push((name.clone(), item.span)),
                other => self.findings.push(
                    Finding::new("R011", format!("`extends` takes names of files, not {}", other.describe()))
                        .at(item.span, "expected a string in quotes"),
                ),
            }
        }
        parents
    }

    fn parent(&mut self, child: &Path, parent: &(String, Span), chain: &mut Vec<PathBuf>) -> Option<Table> {
        let (name, span) = parent;
        let path = tidy(&child.parent().unwrap_or(Path::new("")).join(name));
        let absolute = self.absolute(&path);
        if let Some(start) = chain.iter().position(|link| *link == absolute) {
            let mut names: Vec<String> = chain[start..].iter().map(|link| file_name(link)).collect();
            names.push(file_name(&absolute));
            self.findings.push(
                Finding::new(
                    "R003",
                    format!("recipes extend each other in a circle: {}", names.join(" -> ")),
                )
                .at(*span, "closes the circle")
                .cure("put what they share into a file that extends none of them"),
            );
            return None;
        }
        if self.read >= MOST_FILES {
            self.findings.push(
                Finding::new("R003", format!("the recipe extends more than {MOST_FILES} files"))
                    .at(*span, "one too many"),
            );
            return None;
        }
        match self.files.read(&path) {
            Ok(text) => {
                chain.push(absolute);
                let table = self.file(&path, text, chain);
                chain.pop();
                table
            }
            Err(problem) => {
                self.findings.push(
                    Finding::new("R002", format!("cannot read {}: {problem}", path.display()))
                        .at(*span, "extended here")
                        .note("names are relative to the file that extends"),
                );
                None
            }
        }
    }

    /// Lays `--set key=value` over a recipe.
    pub(crate) fn set(&mut self, recipe: &mut Table, argument: &str) {
        let Some(Assignment { name, name_span, value, value_span }) =
            self.assignment("--set", argument, "KEY=VALUE")
        else {
            return;
        };
        let item = item(&value, value_span.source, value_span.start as usize);
        self.settle(recipe, &name, name_span);
        if let Some((rest, draws)) = name.strip_prefix("sweep.random.").zip(only_draws(recipe)) {
            lay_below(draws, "", rest, NamedItem { name: String::new(), name_span, item });
            return;
        }
        self.lay(recipe, &name, NamedItem { name: String::new(), name_span, item });
    }

    /// Lays `--sweep key=a,b` over a recipe.
    pub(crate) fn sweep(&mut self, recipe: &mut Table, argument: &str) {
        let Some(Assignment { name, name_span, value, value_span }) =
            self.assignment("--sweep", argument, "KEY=A,B")
        else {
            return;
        };
        let source = value_span.source;
        let offset = value_span.start as usize;
        let list = match parse::value(&value, source, offset) {
            Some(item) if matches!(item.value, Value::List(_)) => item,
            _ => {
                let items =
                    pieces(&value).into_iter().map(|(start, piece)| item(piece, source, offset + start));
                Item { span: value_span, value: Value::List(items.collect()) }
            }
        };
        self.settle(recipe, &name, name_span);
        let path = format!("sweep.axes.{name}");
        lay_at(recipe, &path, NamedItem { name: String::new(), name_span, item: list });
    }

    /// Lays `--repeats N` or `--repeats N..M` over a recipe.
    pub(crate) fn repeats(&mut self, recipe: &mut Table, repeats: RepeatCount) {
        let span = self.argument("--repeats", &repeats.to_string());
        if let Some(table) = table_at(recipe, &["repeats"]) {
            table.take("at-most");
        }
        let given = [("repeats.count", Some(repeats.count)), ("repeats.at-most", repeats.at_most)];
        for (path, number) in given.into_iter().filter_map(|(path, number)| Some((path, number?))) {
            let item = Item { span, value: Value::Integer(i64::from(number)) };
            lay_at(recipe, path, NamedItem { name: String::new(), name_span: span, item });
        }
    }

    /// Removes the axis or the draws of a key that the command line gives; a key in lockstep with others is a problem.
    fn settle(&mut self, recipe: &mut Table, name: &str, span: Span) {
        if let Some(axes) = table_at(recipe, &["sweep", "axes"]) {
            remove_axis(axes, name);
        }
        undraw(recipe, name);
        if let Some(zipped) = zipped(recipe, name) {
            self.findings.push(
                Finding::new("R035", format!("`{name}` is varied already, in lockstep with others"))
                    .at(span, "cannot be settled")
                    .at(zipped, "varied here")
                    .cure("take the key out of [[sweep.zip]]"),
            );
        }
    }

    /// Makes an argument a text that problems can point into; the place of what follows the option.
    pub(crate) fn argument(&mut self, option: &str, argument: &str) -> Span {
        let start = option.len() as u32 + 1;
        let text = format!("{option} {argument}");
        let end = text.len() as u32;
        let source = self.sources.add(COMMAND_LINE.to_owned(), text, self.files.current_directory());
        Span { source, start, end }
    }

    /// Splits an argument at its `=`.
    fn assignment(&mut self, option: &str, argument: &str, form: &str) -> Option<Assignment> {
        let whole = self.argument(option, argument);
        let parts =
            argument.split_once('=').filter(|(name, _)| name.split('.').all(|part| !part.trim().is_empty()));
        let Some((name, value)) = parts else {
            self.findings.push(
                Finding::new("R004", format!("`{option}` takes {form}"))
                    .at(whole, "not understood")
                    .cure(format!("write `{option} train.optimizer.lr=0.1`, for example")),
            );
            return None;
        };
        let end = whole.start + name.len() as u32;
        Some(Assignment {
            name: name.trim().to_owned(),
            name_span: Span { end, ..whole },
            value: value.to_owned(),
            value_span: Span { start: end + 1, ..whole },
        })
    }

    fn lay(&mut self, recipe: &mut Table, name: &str, entry: NamedItem) {
        let Some(rest) = name.strip_prefix("strategy.") else {
            lay_at(recipe, name, entry);
            return;
        };
        let Some(strategies) = recipe.get_mut("strategy") else {
            lay_at(recipe, name, entry);
            return;
        };
        match &mut strategies.item.value {
            Value::List(items) => match strategy(items, rest) {
                Some((table, key)) => lay_below(table, "strategy", &key, entry),
                None => self.findings.push(
                    Finding::new("R012", format!("no strategy is meant by `{name}`"))
                        .at(entry.name_span, "unknown")
                        .cure("write strategy.<name>.<key>, with the name of one of the recipe's strategies"),
                ),
            },
            Value::Table(table) => {
                let key = own_name(table).and_then(|own| rest.strip_prefix(&format!("{own}.")));
                let key = key.unwrap_or(rest).to_owned();
                lay_below(table, "strategy", &key, entry);
            }
            _ => {}
        }
    }
}

/// A value of the command line: TOML, else the text itself.
fn item(text: &str, source: u32, offset: usize) -> Item {
    parse::value(text, source, offset).unwrap_or_else(|| Item {
        span: Span { source, start: offset as u32, end: (offset + text.len()) as u32 },
        value: Value::Text(text.to_owned()),
    })
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// The name by which a strategy is addressed: its `name`, else its `kind`.
pub(crate) fn own_name(table: &Table) -> Option<String> {
    match &table.get("name").or_else(|| table.get("kind"))?.item.value {
        Value::Text(name) => Some(name.clone()),
        _ => None,
    }
}

fn strategy<'a>(items: &'a mut [Item], rest: &str) -> Option<(&'a mut Table, String)> {
    let single = items.len() == 1;
    for item in items {
        let Value::Table(table) = &mut item.value else { continue };
        let Some(own) = own_name(table) else { continue };
        if let Some(key) = rest.strip_prefix(&format!("{own}.")) {
            return Some((table, key.to_owned()));
        }
        if single {
            return Some((table, rest.to_owned()));
        }
    }
    None
}

/// Lays an entry over a recipe at a dotted path.
fn lay_at(recipe: &mut Table, path: &str, entry: NamedItem) {
    lay_below(recipe, "", path, entry);
}

fn lay_below(table: &mut Table, at: &str, path: &str, entry: NamedItem) {
    let NamedItem { name_span, item, .. } = entry;
    let mut parts: Vec<&str> = path.split('.').collect();
    // A longer path names nothing, and deep trees are walked by recursion.
    parts.truncate(12);
    let mut nested = item;
    while let Some(part) = parts.pop() {
        let entry = NamedItem { name: part.to_owned(), name_span, item: nested };
        nested = Item { span: name_span, value: Value::Table(Table { entries: vec![entry] }) };
    }
    if let Value::Table(over) = nested.value {
        table.merge(over, at);
    }
}

fn table_at<'a>(table: &'a mut Table, path: &[&str]) -> Option<&'a mut Table> {
    let (first, rest) = path.split_first()?;
    let Value::Table(inner) = &mut table.get_mut(first)?.item.value else { return None };
    if rest.is_empty() { Some(inner) } else { table_at(inner, rest) }
}

/// Takes away the axis over a key, and over whatever is below it: its value is settled now.
fn remove_axis(axes: &mut Table, name: &str) {
    let (first, rest) = name.split_once('.').map_or((name, None), |(first, rest)| (first, Some(rest)));
    let Some(entry) = axes.get_mut(first) else { return };
    if let (Some(rest), Value::Table(inner)) = (rest, &mut entry.item.value) {
        remove_axis(inner, rest);
        if !inner.entries.is_empty() {
            return;
        }
    }
    axes.take(first);
}

/// The table of `[[sweep.random]]`, if there is one alone.
fn only_draws(recipe: &mut Table) -> Option<&mut Table> {
    let Value::Table(sweep) = &mut recipe.get_mut("sweep")?.item.value else { return None };
    let Value::List(items) = &mut sweep.get_mut("random")?.item.value else { return None };
    let [Item { value: Value::Table(table), .. }] = items.as_mut_slice() else { return None };
    Some(table)
}

/// Takes away the draws of a key, and a table of draws that has no other.
fn undraw(recipe: &mut Table, name: &str) {
    let Some(Value::Table(sweep)) = recipe.get_mut("sweep").map(|entry| &mut entry.item.value) else {
        return;
    };
    let Some(entry) = sweep.get_mut("random") else { return };
    let settings = |entry: &NamedItem| ["draws", "seed"].contains(&entry.name.as_str());
    let mut remains = |item: &mut Item| match &mut item.value {
        Value::Table(table) => {
            let drawn = table.entries.iter().any(|entry| !settings(entry));
            remove_axis(table, name);
            !drawn || table.entries.iter().any(|entry| !settings(entry))
        }
        _ => true,
    };
    let is_left = match &mut entry.item.value {
        Value::List(items) => {
            items.retain_mut(&mut remains);
            !items.is_empty()
        }
        _ => remains(&mut entry.item),
    };
    if !is_left {
        sweep.take("random");
    }
}

/// Where a key, or something above or below it, is varied in lockstep with others.
fn zipped(recipe: &Table, name: &str) -> Option<Span> {
    let Value::Table(sweep) = &recipe.get("sweep")?.item.value else { return None };
    let Value::List(groups) = &sweep.get("zip")?.item.value else { return None };
    groups.iter().find_map(|group| varied(group, name))
}

fn varied(item: &Item, name: &str) -> Option<Span> {
    let Value::Table(table) = &item.value else { return None };
    let (first, rest) = name.split_once('.').map_or((name, None), |(first, rest)| (first, Some(rest)));
    let entry = table.get(first)?;
    match (rest, &entry.item.value) {
        (Some(rest), Value::Table(_)) => varied(&entry.item, rest),
        _ => Some(entry.name_span),
    }
}

/// The parts between the commas that are not inside brackets, braces or quotes, with their offsets.
fn pieces(text: &str) -> Vec<(usize, &str)> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut depth = 0_i32;
    let mut quote = None;
    for (index, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '"' | '\'') => quote = Some(letter),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth -= 1,
            (None, ',') if depth == 0 => {
                pieces.push((start, &text[start..index]));
                start = index + 1;
            }
            _ => {}
        }
    }
    pieces.push((start, &text[start..]));
    pieces
        .into_iter()
        .map(|(start, piece)| (start + piece.len() - piece.trim_start().len(), piece.trim()))
        .collect()
}
