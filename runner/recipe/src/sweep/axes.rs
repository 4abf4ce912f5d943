//! Axes: what a sweep varies, and whether it multiplies arms or conditions.

use crate::StrategyKind;
use crate::keys::key::Key;
use crate::keys::key::{Kind, Reach};
use crate::keys::lookup::{self, KeyId};
use crate::keys::table::KEYS;
use crate::resolve::communication;
use crate::spec::axis_value::short_name;
use crate::text::finding::Finding;
use crate::text::source::{Sources, Span};
use crate::text::tree::{Item, NamedItem, Table, Value};
use crate::values::check::{self, Checker};
use crate::values::leaf::Leaf;
use crate::values::settings::Settings;
use crate::values::value;
use crate::values::{read, unknown};
use std::sync::Arc;

/// Axes that move together; a lone axis is a dimension of its own.
#[derive(Debug)]
pub(crate) struct Dimension {
    pub(crate) axes: Vec<Axis>,
    pub(crate) scope: Scope,
}

impl Dimension {
    /// Number of its points.
    pub(crate) fn length(&self) -> usize {
        self.axes.first().map_or(0, |axis| axis.points.len())
    }
}

/// Arms or conditions that a dimension multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The arms of one strategy.
    Strategy(usize),
    /// The arms of every strategy.
    Arms,
    Conditions,
}

#[derive(Debug)]
pub(crate) struct Axis {
    /// As the recipe writes it: `strategy.pipe.depth`.
    pub(crate) path: String,
    /// The path's parts: a strategy's name may have dots.
    pub(crate) segments: Vec<String>,
    /// Name in labels: `depth`.
    pub(crate) short: String,
    pub(crate) span: Span,
    pub(crate) points: Vec<Point>,
    scope: Scope,
    key: KeyId,
}

/// One value of an axis.
#[derive(Debug)]
pub(crate) struct Point {
    pub(crate) text: String,
    pub(crate) number: Option<f64>,
    span: Span,
    /// As the recipe writes it.
    pub(crate) toml: String,
    clear: Vec<KeyId>,
    set: Vec<(KeyId, Arc<Leaf>)>,
}

impl Point {
    /// Gives a cell this value.
    pub(crate) fn apply(&self, settings: &mut Settings) {
        for id in &self.clear {
            settings.clear(*id);
        }
        for (id, leaf) in &self.set {
            settings.set(*id, Arc::clone(leaf));
        }
    }

    /// The keys that it sets.
    pub(crate) fn sets(&self) -> impl Iterator<Item = (KeyId, &Leaf)> {
        self.set.iter().map(|(id, leaf)| (*id, leaf.as_ref()))
    }
}

impl Axis {
    /// Whether it has no effect on a strategy: the strategy has its own value, or no use for any.
    pub(crate) fn has_no_effect_on(&self, kind: StrategyKind, own: &Settings) -> bool {
        let sets = || self.points.iter().flat_map(Point::sets).map(|(id, _)| id);
        sets().all(|id| communication::has_no_effect(kind, id) || own.given(id).is_some())
    }
}

/// Reader of the axes of `[sweep]`, which collects the problems that it finds.
pub(crate) struct AxisReader<'a> {
    pub(crate) sources: &'a Sources,
    pub(crate) findings: &'a mut Vec<Finding>,
    /// The strategies' names, in order.
    pub(crate) strategies: &'a [String],
}

impl AxisReader<'_> {
    /// The dimensions of `sweep.axes`, `sweep.zip` and `sweep.random`.
    pub(crate) fn dimensions(&mut self, sweep: &Table) -> Vec<Dimension> {
        let mut dimensions = Vec::new();
        if let Some(entry) = sweep.get("axes") {
            let axes = self.axes(entry);
            for axis in &axes {
                self.refuse_equal_values(axis);
            }
            dimensions.extend(axes.into_iter().map(|axis| Dimension { scope: axis.scope, axes: vec![axis] }));
        }
        if let Some(entry) = sweep.get("zip") {
            let groups = tables(entry, "sweep.zip", self.findings);
            dimensions.extend(groups.into_iter().filter_map(|(table, _)| self.zip(table)));
        }
        if let Some(entry) = sweep.get("random") {
            let groups = tables(entry, "sweep.random", self.findings);
            dimensions.extend(groups.into_iter().filter_map(|(table, span)| self.random(table, span)));
        }
        self.refuse_twice(&dimensions);
        relabel(&mut dimensions);
        dimensions
    }

    fn axes(&mut self, entry: &NamedItem) -> Vec<Axis> {
        let mut axes = Vec::new();
        match &entry.item.value {
            Value::Table(table) => self.walk(table, &mut Vec::new(), &mut axes),
            other => self.findings.push(
                Finding::new("R011", format!("`sweep.axes` takes a table, not {}", other.describe()))
                    .at(entry.item.span, "expected a table")
                    .note(value::more("sweep.axes")),
            ),
        }
        axes
    }

    pub(super) fn zip(&mut self, table: &Table) -> Option<Dimension> {
        let mut axes = Vec::new();
        self.walk(table, &mut Vec::new(), &mut axes);
        let first = axes.first()?;
        let length = first.points.len();
        let scope = first.scope;
        for axis in &axes {
            if axis.points.len() != length {
                self.findings.push(
                    Finding::new("R032", "axes that move in lockstep must be equally long")
                        .at(axis.span, format!("{} values", axis.points.len()))
                        .at(first.span, format!("{length} values")),
                );
                return None;
            }
            if axis.scope != scope {
                self.findings.push(
                    Finding::new("R033", "axes of arms and of conditions cannot move in lockstep")
                        .at(axis.span, describe(axis.scope))
                        .at(first.span, describe(scope))
                        .note("verdicts compare arms within a condition, so each axis is one or the other"),
                );
                return None;
            }
        }
        Some(Dimension { axes, scope })
    }

    fn walk(&mut self, table: &Table, path: &mut Vec<String>, axes: &mut Vec<Axis>) {
        for entry in &table.entries {
            path.push(entry.name.clone());
            match &entry.item.value {
                Value::Table(inner) => self.walk(inner, path, axes),
                Value::List(items) => axes.extend(self.axis(path, entry, items)),
                other => self.findings.push(
                    Finding::new("R030", format!("the axis `{}` is no list", path.join(".")))
                        .at(
                            entry.item.span,
                            format!("{}, where a list of values is expected", other.describe()),
                        )
                        .cure(format!("write `[{}, ...]`, or set the key itself", other.toml())),
                ),
            }
            path.pop();
        }
    }

    fn axis(&mut self, path: &[String], entry: &NamedItem, items: &[Item]) -> Option<Axis> {
        let shown = path.join(".");
        if items.len() < 2 {
            let count = if items.is_empty() { "no value" } else { "one value" };
            self.findings.push(
                Finding::new("R031", format!("the axis `{shown}` has {count}: nothing varies"))
                    .at(entry.item.span, "an axis has at least two values")
                    .cure("add a value, or set the key itself"),
            );
            return None;
        }
        let segments = path.to_vec();
        let (path, strategy) = self.target(path, entry)?;
        let id = self.key(&path, &shown, entry)?;
        let scope = match (strategy, id.key().reach) {
            (Some(index), _) => Scope::Strategy(index),
            (None, Reach::Arm) => Scope::Arms,
            (None, _) => Scope::Conditions,
        };
        let points: Vec<Point> = items.iter().filter_map(|item| self.point(id, &path, item)).collect();
        let short = short_name(&path).to_owned();
        (points.len() == items.len()).then_some(Axis {
            path: shown,
            segments,
            short,
            span: entry.name_span,
            points,
            scope,
            key: id,
        })
    }

    /// The key's path, and the strategy it is about where it names one.
    fn target(&mut self, path: &[String], entry: &NamedItem) -> Option<(String, Option<usize>)> {
        let [first, name, rest @ ..] = path else { return Some((path.join("."), None)) };
        if first != "strategy" {
            return Some((path.join("."), None));
        }
        let Some(index) = self.strategies.iter().position(|strategy| strategy == name) else {
            let names = self.strategies.iter().map(String::as_str);
            let suggestion = lookup::nearest(name, names.clone());
            let label = suggestion.map_or("unknown".to_owned(), |name| format!("did you mean `{name}`?"));
            self.findings.push(
                Finding::new("R012", format!("no strategy is called `{}`", name.escape_debug()))
                    .at(entry.name_span, label)
                    .note(format!("strategies: {}", self.strategies.join(", ")))
                    .note("an axis of one strategy is written strategy.<name>.<key>")
                    .suggest(suggestion),
            );
            return None;
        };
        Some((lookup::join("strategy", &rest.join(".")), Some(index)))
    }

    fn key(&mut self, path: &str, shown: &str, entry: &NamedItem) -> Option<KeyId> {
        if let Some(later) = lookup::later(path) {
            self.findings.push(
                Finding::new("R020", format!("`{}` is not in this version", later.path))
                    .at(entry.name_span, "a later version brings it")
                    .cure("leave the axis out"),
            );
            return None;
        }
        let Some(id) = KeyId::of(path) else {
            let parent = path.rsplit_once('.').map_or("", |(parent, _)| parent);
            let known: Vec<&str> = lookup::children(parent)
                .filter(|key| key.reach != Reach::Sweep && !key.later)
                .map(Key::name)
                .collect();
            let known = if known.is_empty() { lookup::children("").map(Key::name).collect() } else { known };
            self.findings.push(unknown::key(entry, " in an axis", &known, parent));
            return None;
        };
        let key = id.key();
        let table = matches!(key.kind, Kind::Table) && !lookup::is_union(path);
        if key.reach == Reach::Sweep || table {
            let why = if table { "it is a table: vary its keys" } else { "it concerns the sweep as a whole" };
            self.findings.push(
                Finding::new("R034", format!("`{shown}` cannot be an axis: {why}"))
                    .at(entry.name_span, "no axis"),
            );
            return None;
        }
        Some(id)
    }

    /// The same axis with this value alone.
    pub(super) fn with_one_point(&mut self, axis: &Axis, item: &Item, span: Span) -> Option<Axis> {
        let point = self.point(axis.key, axis.key.key().path, item)?;
        let Axis { path, segments, short, scope, key, .. } = axis;
        let path = path.clone();
        let segments = segments.clone();
        let short = short.clone();
        Some(Axis { path, segments, short, span, points: vec![point], scope: *scope, key: *key })
    }

    fn point(&mut self, id: KeyId, path: &str, item: &Item) -> Option<Point> {
        let key = id.key();
        let text = item.value.plain();
        let toml = item.value.toml();
        if !matches!(key.kind, Kind::Table) {
            return match read::leaf(key, item, self.sources) {
                Ok(leaf) => {
                    let number = leaf.number();
                    let toml = leaf.toml.clone();
                    Some(Point {
                        text: leaf.text.clone(),
                        number,
                        span: item.span,
                        toml,
                        clear: Vec::new(),
                        set: vec![(id, Arc::new(leaf))],
                    })
                }
                Err(findings) => {
                    self.findings.extend(findings);
                    None
                }
            };
        }
        let before = self.findings.len();
        let mut checker = Checker::new(self.sources, self.findings);
        let entry = NamedItem { name: String::new(), name_span: item.span, item: item.clone() };
        checker.value(id, path, &entry);
        let (settings, broken) = checker.finish();
        let findings = check::misplaced(&settings, &broken, &|_| Vec::new());
        self.findings.extend(findings);
        let below = format!("{}.", key.path);
        let clear = (0..KEYS.len()).map(KeyId).filter(|id| id.key().path.starts_with(&below)).collect();
        let set = (0..KEYS.len())
            .map(KeyId)
            .filter_map(|id| settings.given(id).map(|leaf| (id, Arc::clone(leaf))))
            .collect();
        (self.findings.len() == before).then_some(Point {
            text,
            number: None,
            span: item.span,
            toml,
            clear,
            set,
        })
    }

    /// In lockstep a value may come again; alone it would make equal cells.
    fn refuse_equal_values(&mut self, axis: &Axis) {
        for (index, point) in axis.points.iter().enumerate() {
            let same = |other: &&Point| match (point.number, other.number) {
                (Some(one), Some(other)) => one.total_cmp(&other).is_eq(),
                _ => point.toml == other.toml,
            };
            if let Some(other) = axis.points[..index].iter().find(same) {
                self.findings.push(
                    Finding::new("R104", format!("the axis `{}` has {} twice", axis.path, point.text))
                        .at(point.span, "again here")
                        .at(other.span, "first here")
                        .cure("drop one of them: equal settings give equal numbers, and are run once"),
                );
            }
        }
    }

    fn refuse_twice(&mut self, dimensions: &[Dimension]) {
        let axes: Vec<&Axis> = dimensions.iter().flat_map(|dimension| &dimension.axes).collect();
        for (index, axis) in axes.iter().enumerate() {
            if let Some(other) =
                axes[..index].iter().find(|other| other.key == axis.key && other.scope == axis.scope)
            {
                self.findings.push(
                    Finding::new("R035", format!("`{}` is varied twice", axis.path))
                        .at(axis.span, "again here")
                        .at(other.span, "already an axis"),
                );
            }
        }
    }
}

fn describe(scope: Scope) -> &'static str {
    match scope {
        Scope::Strategy(_) => "multiplies one strategy",
        Scope::Arms => "multiplies all arms",
        Scope::Conditions => "a condition",
    }
}

/// Two axes with the same short name are shown by their paths.
fn relabel(dimensions: &mut [Dimension]) {
    let shorts: Vec<(String, Scope)> = dimensions
        .iter()
        .flat_map(|dimension| &dimension.axes)
        .map(|axis| (axis.short.clone(), axis.scope))
        .collect();
    for axis in dimensions.iter_mut().flat_map(|dimension| &mut dimension.axes) {
        let same = |(short, scope): &&(String, Scope)| {
            let apart = matches!((scope, axis.scope), (Scope::Strategy(one), Scope::Strategy(other)) if *one != other);
            *short == axis.short && !apart
        };
        if shorts.iter().filter(same).count() > 1 {
            axis.short.clone_from(&axis.path);
        }
    }
}

/// The tables of an array of tables, each with its place; a lone table counts as one.
pub(crate) fn tables<'a>(
    entry: &'a NamedItem,
    path: &str,
    findings: &mut Vec<Finding>,
) -> Vec<(&'a Table, Span)> {
    let items = match &entry.item.value {
        Value::List(items) => items.as_slice(),
        _ => std::slice::from_ref(&entry.item),
    };
    let mut tables = Vec::new();
    for item in items {
        match &item.value {
            Value::Table(table) => tables.push((table, item.span)),
            other => findings.push(
                Finding::new("R011", format!("`{path}` takes tables, not {}", other.describe()))
                    .at(item.span, format!("write [[{path}]]")),
            ),
        }
    }
    tables
}
