//! The checked recipe: settings of the sweep, of each strategy, and the axes.

use crate::keys::key::Key;
use crate::keys::lookup::{self, KeyId, id};
use crate::query::condition::{self, Condition};
use crate::query::grammar::Misread;
use crate::resolve::shared_keys::{AVERAGED_BY, CODED_PARAMETERS, REDUCE_ORDER, STRATEGY_KIND};
use crate::resolve::{collective, communication};
use crate::spec::strategy_kind::ExchangeThrough;
use crate::sweep::axes::{self, AxisReader, Dimension};
use crate::text::finding::Finding;
use crate::text::load::{Loader, own_name};
use crate::text::source::{Sources, Span};
use crate::text::tree::{Item, NamedItem, Table, Value};
use crate::text::turning;
use crate::values::check::{self, Checker};
use crate::values::leaf::{Leaf, Typed};
use crate::values::settings::Settings;
use crate::values::typed_key::Defaulted;
use crate::values::unknown;
use crate::{AveragedBy, ReduceOrder, StrategyKind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const SCHEMA: KeyId = id("schema");
const NAME: KeyId = id("strategy.name");
const BASELINE: Defaulted<bool> = Defaulted::flag("strategy.baseline");

/// A recipe whose keys and values are known to be right, one by one.
#[derive(Debug)]
pub(crate) struct Recipe {
    /// Settings of the recipe's top level.
    pub(crate) settings: Settings,
    pub(crate) strategies: Vec<StrategySetting>,
    pub(crate) dimensions: Vec<Dimension>,
    /// Conditions beside the product of the dimensions, each of one point.
    pub(crate) includes: Vec<Dimension>,
    pub(crate) exclusions: Vec<Exclusion>,
    /// Where each table at the top level begins.
    pub(crate) sections: BTreeMap<String, Span>,
    /// Whether a value was wrong, so that there is no plan.
    pub(crate) broken: bool,
    /// Whether an axis could not be read, or no strategy could.
    pub(crate) cells_unknown: bool,
    /// Keys of the top level whose value is wrong.
    unreadable: BTreeSet<KeyId>,
}

impl Recipe {
    /// All keys whose value is wrong.
    pub(crate) fn unreadable(&self) -> impl Iterator<Item = KeyId> {
        let own = self.strategies.iter().flat_map(|strategy| &strategy.unreadable);
        self.unreadable.iter().chain(own).copied()
    }

    /// Gives all keys whose value is wrong another one, where there is one.
    pub(crate) fn fill_in(&mut self, value: impl Fn(KeyId) -> Option<Arc<Leaf>>) {
        let top = (&mut self.settings, &self.unreadable);
        let own = self.strategies.iter_mut().map(|strategy| (&mut strategy.settings, &strategy.unreadable));
        for (settings, unreadable) in [top].into_iter().chain(own) {
            for key in unreadable {
                if let Some(leaf) = value(*key) {
                    settings.put(*key, leaf);
                }
            }
        }
    }
}

/// A `[[strategy]]` of the recipe, with its own settings.
#[derive(Debug)]
pub(crate) struct StrategySetting {
    /// Its `name`, else its kind.
    pub(crate) name: String,
    pub(crate) kind: StrategyKind,
    /// Whether the recipe says that it is the baseline.
    pub(crate) baseline: Option<Span>,
    /// Its own keys, with its own communication and compression.
    pub(crate) settings: Settings,
    /// Those of them whose value is wrong.
    unreadable: BTreeSet<KeyId>,
}

/// A condition whose cells are left out: a `[[sweep.exclude]]`, or by `--only`.
#[derive(Debug)]
pub(crate) struct Exclusion {
    pub(crate) when: Condition,
    pub(crate) text: String,
    pub(crate) reason: String,
    /// `None` for what `--only` leaves out.
    pub(crate) span: Option<Span>,
}

/// Reads a merged tree; its problems go to the loader's findings.
pub(crate) fn read(loader: &mut Loader<'_>, table: &Table) -> Recipe {
    let Loader { sources, findings, .. } = loader;
    turning::refuse(table, findings);
    let mut checker = Checker::new(sources, findings);
    checker.table(table, "", &["strategy", "sweep"]);
    let (settings, broken) = checker.finish();
    let mut reader = Reader { sources, findings, broken: !broken.is_empty(), cells_unknown: false };
    reader.schema(&settings, &broken);
    let strategies = reader.strategies(table);
    reader.cells_unknown |= strategies.is_empty();
    let Varied { dimensions, includes, exclusions } = reader.sweep(table);
    let tops: Vec<(&Settings, &BTreeSet<KeyId>)> = vec![(&settings, &broken)];
    let all = tops.into_iter().chain(strategies.iter().map(|one| (&one.settings, &one.unreadable)));
    for (settings, broken) in all {
        let swept = |kind: KeyId| kinds(dimensions.iter().chain(&includes), kind);
        reader.findings.extend(check::misplaced(settings, broken, &swept));
    }
    let sections = table.entries.iter().map(|entry| (entry.name.clone(), entry.name_span)).collect();
    let Reader { broken: any_broken, cells_unknown, .. } = reader;
    Recipe {
        settings,
        strategies,
        dimensions,
        includes,
        exclusions,
        sections,
        broken: any_broken,
        cells_unknown,
        unreadable: broken,
    }
}

/// The kinds that axes give a table.
fn kinds<'a>(dimensions: impl Iterator<Item = &'a Dimension>, kind: KeyId) -> Vec<&'static str> {
    let axes = dimensions.flat_map(|dimension| &dimension.axes);
    let set = axes.flat_map(|axis| &axis.points).flat_map(axes::Point::sets);
    set.filter(|(id, _)| *id == kind)
        .filter_map(|(_, leaf)| match leaf.typed {
            Typed::Choice(name) => Some(name),
            _ => None,
        })
        .collect()
}

/// Parts of `[sweep]`, once they are read.
#[derive(Default)]
struct Varied {
    dimensions: Vec<Dimension>,
    includes: Vec<Dimension>,
    exclusions: Vec<Exclusion>,
}

struct Reader<'a> {
    sources: &'a Sources,
    findings: &'a mut Vec<Finding>,
    broken: bool,
    cells_unknown: bool,
}

impl Reader<'_> {
    fn schema(&mut self, settings: &Settings, broken: &BTreeSet<KeyId>) {
        if settings.given(SCHEMA).is_none() && !broken.contains(&SCHEMA) {
            let start = Span { source: 0, start: 0, end: 0 };
            self.findings.push(
                Finding::new("R010", "`schema` is missing")
                    .at(start, "the version of the format belongs here")
                    .cure("write `schema = 1` as the first key"),
            );
        }
    }

    fn strategies(&mut self, table: &Table) -> Vec<StrategySetting> {
        let none = |entry: &&NamedItem| matches!(&entry.item.value, Value::List(items) if items.is_empty());
        let Some(entry) = table.get("strategy").filter(|entry| !none(entry)) else {
            self.broken = true;
            self.findings.push(
                Finding::new("R117", "the recipe names no strategy")
                    .at(Span { source: 0, start: 0, end: 0 }, "nothing to run")
                    .cure("add `[[strategy]]` with `kind = \"d-sync\"`, one for each arm of the comparison"),
            );
            return Vec::new();
        };
        let tables = axes::tables(entry, "strategy", self.findings);
        self.broken |= tables.is_empty();
        let mut strategies = Vec::new();
        for (table, span) in tables {
            match self.strategy(table, span) {
                Some(strategy) => strategies.push(strategy),
                None => self.broken = true,
            }
        }
        self.refuse_equal_names(&strategies);
        self.refuse_without_effect(&strategies);
        self.refuse_weights_that_do_not_travel(&strategies);
        self.refuse_two_baselines(&strategies);
        strategies
    }

    fn strategy(&mut self, table: &Table, span: Span) -> Option<StrategySetting> {
        let before = self.findings.len();
        let mut checker = Checker::new(self.sources, self.findings);
        checker.table(table, "strategy", &[]);
        let (settings, broken) = checker.finish();
        if broken.contains(&STRATEGY_KIND.into()) {
            // Which keys a strategy has depends on its kind, and the kind is wrong.
            self.findings.retain({
                let mut index = 0;
                move |finding| {
                    index += 1;
                    index <= before || finding.code != "R012"
                }
            });
            return None;
        }
        self.broken |= !broken.is_empty();
        let Some(kind) = STRATEGY_KIND.of(&settings) else {
            let is_misspelt = |finding: &Finding| finding.meant() == Some("strategy.kind");
            if self.findings[before..].iter().any(is_misspelt) {
                return None;
            }
            self.findings.push(
                Finding::new("R010", "a strategy without a kind")
                    .at(span, "`kind` is missing")
                    .cure("write `kind = \"d-sync\"`, for example"),
            );
            return None;
        };
        let name = settings.given(NAME).map_or(kind.name(), |_| settings.text(NAME)).to_owned();
        if name.trim().is_empty() {
            self.findings.push(
                Finding::new("R014", "`strategy.name` cannot be empty")
                    .at_option(settings.span(NAME), "no name"),
            );
        }
        let baseline = BASELINE.of(&settings).then(|| settings.span(BASELINE)).flatten();
        Some(StrategySetting { name, kind, baseline, settings, unreadable: broken })
    }

    fn refuse_equal_names(&mut self, strategies: &[StrategySetting]) {
        for (index, strategy) in strategies.iter().enumerate() {
            let Some(other) = strategies[..index].iter().find(|other| other.name == strategy.name) else {
                continue;
            };
            let span = |one: &StrategySetting| one.settings.span(NAME).or(one.settings.span(STRATEGY_KIND));
            self.findings.push(
                Finding::new("R105", format!("two strategies are called `{}`", strategy.name.escape_debug()))
                    .at_option(span(strategy), "again here")
                    .at_option(span(other), "first here")
                    .cure("give one of them another `name`"),
            );
        }
    }

    fn refuse_without_effect(&mut self, strategies: &[StrategySetting]) {
        for strategy in strategies {
            for key in communication::keys() {
                let Some(leaf) = strategy.settings.given(key) else { continue };
                let kind = strategy.kind;
                let served = adds_by_servers(strategy) && collective::keys().contains(&key);
                let idle = served || communication::has_no_effect(kind, key);
                if idle && !true_anyway(strategy, key, leaf) {
                    let title = format!("`{}` has no effect on `{}`", key.shown(), strategy.kind);
                    let mut finding = Finding::new("R114", title).at_option(leaf.span, "without effect");
                    let why = if served {
                        Some("with `averaged-by = \"servers\"` its servers add, in rank order".to_owned())
                    } else if collective::keys().contains(&key) {
                        no_all_reduce(strategy.kind).map(str::to_owned)
                    } else {
                        Some(no_layers())
                    };
                    if let Some(why) = why {
                        finding = finding.note(why);
                    }
                    self.findings.push(finding.cure("leave it out"));
                }
            }
        }
    }

    fn refuse_weights_that_do_not_travel(&mut self, strategies: &[StrategySetting]) {
        for strategy in strategies {
            let asked =
                strategy.settings.given(CODED_PARAMETERS).filter(|leaf| leaf.typed == Typed::Flag(true));
            if let Some(leaf) = asked
                && communication::has_no_effect(strategy.kind, CODED_PARAMETERS.into())
            {
                let title = format!("`{}` encodes no weights", strategy.kind);
                self.findings.push(
                    Finding::new("R130", title)
                        .at_option(leaf.span, "without effect")
                        .note("codecs act on the gradients that travel between its workers")
                        .cure("leave it out"),
                );
            }
        }
    }

    fn refuse_two_baselines(&mut self, strategies: &[StrategySetting]) {
        let mut spans = strategies.iter().filter_map(|strategy| strategy.baseline);
        if let (Some(first), Some(second)) = (spans.next(), spans.next()) {
            self.findings.push(
                Finding::new("R102", "two strategies are the baseline")
                    .at(second, "the second")
                    .at(first, "the first")
                    .cure("keep `baseline = true` on the one that the others are compared with"),
            );
        }
    }

    fn sweep(&mut self, table: &Table) -> Varied {
        let Some(entry) = table.get("sweep") else { return Varied::default() };
        let Value::Table(sweep) = &entry.item.value else {
            self.findings.push(
                Finding::new("R011", format!("`sweep` takes a table, not {}", entry.item.value.describe()))
                    .at(entry.item.span, "expected a table"),
            );
            return Varied::default();
        };
        let known: Vec<&str> = lookup::children("sweep").map(Key::name).collect();
        for entry in sweep.entries.iter().filter(|entry| !known.contains(&entry.name.as_str())) {
            self.findings.push(unknown::key(entry, " in `sweep`", &known, "sweep"));
        }
        let names = names(table);
        let before = self.findings.len();
        let mut reader = AxisReader { sources: self.sources, findings: self.findings, strategies: &names };
        let dimensions = reader.dimensions(sweep);
        let includes = reader.includes(sweep, &dimensions);
        self.broken |= self.findings.len() > before;
        let strategies: Vec<&str> = names.iter().map(String::as_str).collect();
        let exclusions = match sweep.get("exclude") {
            Some(entry) => self.exclusions(entry, &strategies),
            None => Vec::new(),
        };
        self.cells_unknown |= self.findings.len() > before;
        Varied { dimensions, includes, exclusions }
    }

    fn exclusions(&mut self, entry: &NamedItem, strategies: &[&str]) -> Vec<Exclusion> {
        let tables = axes::tables(entry, "sweep.exclude", self.findings);
        tables.into_iter().filter_map(|(table, span)| self.exclusion(table, span, strategies)).collect()
    }

    fn exclusion(&mut self, table: &Table, span: Span, strategies: &[&str]) -> Option<Exclusion> {
        let mut checker = Checker::new(self.sources, self.findings);
        checker.table(table, "sweep.exclude", &[]);
        let (settings, broken) = checker.finish();
        let Some(leaf) = settings.given(id("sweep.exclude.when")) else {
            if broken.is_empty() {
                self.findings.push(
                    Finding::new("R010", "an exclusion without a condition").at(span, "`when` is missing"),
                );
            }
            self.broken = true;
            return None;
        };
        let text = leaf.text.clone();
        let reason = settings.text(id("sweep.exclude.reason")).to_owned();
        match Condition::read(&text, strategies) {
            Ok(when) => Some(Exclusion { when, text, reason, span: leaf.span }),
            Err(misread) => {
                self.broken = true;
                let finding = match leaf.span {
                    Some(span) if self.is_literal(span, &text) => {
                        condition::finding(misread, Some(Span { start: span.start + 1, ..span }))
                    }
                    Some(span) => {
                        let whole = 0..(span.end - span.start) as usize;
                        condition::finding(Misread { at: whole, ..misread }, Some(span))
                    }
                    None => condition::finding(misread, None),
                };
                self.findings.push(finding);
                None
            }
        }
    }

    /// Whether a string is written letter by letter, without escapes.
    fn is_literal(&self, span: Span, text: &str) -> bool {
        let start = span.start as usize + 1;
        let end = (span.end as usize).saturating_sub(1);
        self.sources.text(span.source).get(start..end) == Some(text)
    }
}

/// Whether a setting without effect says what the strategy does anyway: a synchronous server adds in rank order.
fn true_anyway(strategy: &StrategySetting, key: KeyId, leaf: &Leaf) -> bool {
    let exchange = strategy.kind.profile().exchange;
    let in_order = exchange == ExchangeThrough::SyncServer || adds_by_servers(strategy);
    in_order && key == REDUCE_ORDER.into() && leaf.text == ReduceOrder::Rank.name()
}

fn adds_by_servers(strategy: &StrategySetting) -> bool {
    AVERAGED_BY.of(&strategy.settings) == AveragedBy::Servers
}

/// Why a schedule has no effect on a strategy.
fn no_layers() -> String {
    let kinds = StrategyKind::ALL.iter().filter(|kind| kind.takes_schedule());
    let names: Vec<String> = kinds.map(|kind| format!("`{kind}`")).collect();
    format!("only what {} exchange in each step travels layer by layer", names.join(", "))
}

/// Why settings of an all-reduce have no effect on a strategy; `None` where it has one.
fn no_all_reduce(kind: StrategyKind) -> Option<&'static str> {
    match kind.profile().exchange {
        ExchangeThrough::AllReduce => None,
        ExchangeThrough::SyncServer => Some("a parameter server has no all-reduce, and adds in rank order"),
        ExchangeThrough::AsyncServer => {
            Some("a parameter server has no all-reduce, and this one adds gradients as they arrive")
        }
        ExchangeThrough::Centre => {
            Some("workers and centre exchange in their own way: there is no all-reduce")
        }
        ExchangeThrough::Neighbours => Some("neighbours average without an all-reduce"),
    }
}

/// The names of all strategies, of those too that are wrong: an axis over one of these is not wrong as well.
fn names(table: &Table) -> Vec<String> {
    let items = match table.get("strategy").map(|entry| &entry.item) {
        Some(Item { value: Value::List(items), .. }) => items.as_slice(),
        Some(item) => std::slice::from_ref(item),
        None => &[],
    };
    let name = |item: &Item| match &item.value {
        Value::Table(table) => own_name(table),
        _ => None,
    };
    items.iter().filter_map(name).collect()
}
