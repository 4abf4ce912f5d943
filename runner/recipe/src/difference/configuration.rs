//! Compares what two runs were configured with.

use crate::difference::field_names::{self, FieldName};
use crate::difference::fields::{self, FieldDifference};
use crate::keys::lookup::KeyId;
use crate::{KeyValue, Plan, RunSpec, SharedValues};

/// Of a value longer than this, the part is shown in which the two differ.
const LONGEST: usize = 60;
/// Characters on each side of that part.
const AROUND: usize = 15;

/// The absent value of a key, in words.
const NOT_SET: &str = "not set";

/// The values of a recipe's keys in a cell, and the specification that follows from them.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// One of each key that has one in the cell; empty for plans of earlier versions, which have none recorded.
    pub values: Vec<KeyValue>,
    /// The specification of the cell's runs.
    pub spec: RunSpec,
}

/// The configurations of a plan's cells.
#[derive(Debug)]
pub struct Configurations<'a> {
    plan: &'a Plan,
    values: SharedValues<'a>,
}

impl<'a> Configurations<'a> {
    /// Those of this plan.
    pub fn of(plan: &'a Plan) -> Self {
        Self { plan, values: SharedValues::of(&plan.values) }
    }

    /// That of a cell, by its index; `None` where the plan has no such cell.
    pub fn of_cell(&self, cell: usize) -> Option<Configuration> {
        let described = self.plan.cells.get(cell)?;
        Some(Configuration { values: self.values.of_cell(described.arm, cell), spec: described.spec.clone() })
    }
}

/// A setting with different values in two configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedSetting {
    /// The recipe's key, or words for a fact that no key sets.
    pub key: String,
    /// The value in the first configuration, in words.
    pub before: String,
    /// The value in the second one.
    pub now: String,
}

impl ChangedSetting {
    /// `train.epochs is 2.5, was 3`; of long values the part in which they differ.
    pub fn words(&self) -> String {
        let Self { key, before, now } = self.shortened();
        format!("{key} is {now}, was {before}")
    }

    /// With the part in which the values differ, where they are long.
    #[must_use]
    pub fn shortened(&self) -> Self {
        let Self { key, before, now } = self;
        if before.chars().count().max(now.chars().count()) <= LONGEST {
            return self.clone();
        }
        let same = |one: &mut dyn Iterator<Item = char>, other: &mut dyn Iterator<Item = char>| {
            one.zip(other).take_while(|(before, now)| before == now).count()
        };
        let first = same(&mut before.chars(), &mut now.chars());
        let last = same(&mut before.chars().rev(), &mut now.chars().rev());
        let [before, now] = [before, now].map(|text| part(text, first, last));
        Self { key: key.clone(), before, now }
    }
}

/// The settings in which two configurations differ: keys in the order of their table, then the facts of the specifications that do
/// not follow from those keys. Empty for equal specifications, however they were written.
pub fn changed_settings(before: &Configuration, now: &Configuration) -> Vec<ChangedSetting> {
    if before.spec == now.spec {
        return Vec::new();
    }
    let is_known = !before.values.is_empty() && !now.values.is_empty();
    let mut found = if is_known { of_keys(&before.values, &now.values) } else { Vec::new() };
    found.sort_by_key(|changed| KeyId::of_value(&changed.key));
    let keys: Vec<String> = found.iter().map(|difference| difference.key.clone()).collect();
    for field in fields::of_specs(&before.spec, &now.spec) {
        let name = field_names::of(&field.path);
        if !keys.iter().any(|key| name.follows_from(key)) {
            found.push(of_field(name, &field));
        }
    }
    found
}

/// The keys with different values.
fn of_keys(before: &[KeyValue], now: &[KeyValue]) -> Vec<ChangedSetting> {
    fn of<'v>(values: &'v [KeyValue], path: &str) -> Option<&'v KeyValue> {
        values.iter().find(|value| value.path == path)
    }
    let added = now.iter().filter(|value| of(before, &value.path).is_none());
    let paths = before.iter().chain(added).map(|value| &value.path);
    let differing = paths.filter_map(|path| {
        let [before, now] = [of(before, path), of(now, path)];
        let is_same = before.zip(now).is_some_and(|(before, now)| before.is_same(now));
        (!is_same).then(|| {
            let [before, now] =
                [before, now].map(|value| value.map_or(NOT_SET, |value| &value.text).to_owned());
            ChangedSetting { key: path.clone(), before, now }
        })
    });
    differing.collect()
}

fn of_field(name: FieldName, field: &FieldDifference) -> ChangedSetting {
    let [before, now] = [&field.before, &field.now].map(fields::words);
    ChangedSetting { key: name.shown, before, now }
}

/// A text without its `first` and `last` characters, but for a few around the rest.
fn part(text: &str, first: usize, last: usize) -> String {
    let length = text.chars().count();
    let begin = first.min(length).saturating_sub(AROUND);
    let end = (length.saturating_sub(last) + AROUND).clamp(begin, length);
    let lead = if begin > 0 { "…" } else { "" };
    let tail = if end < length { "…" } else { "" };
    let middle: String = text.chars().skip(begin).take(end - begin).collect();
    format!("{lead}{middle}{tail}")
}
