//! Reads the list of a sequential model's layers.

use crate::keys::key::{Key, Kind};
use crate::keys::lookup;
use crate::spec::family::Family;
use crate::text::finding::Finding;
use crate::text::parse;
use crate::text::tree::{Item, Table, Value};
use crate::values::leaf::{LayerSetting, Typed};
use crate::values::{unknown, value};
use crate::{Layer, LayerKind};

const TABLE: &str = "model.layers";

/// Reads the list of layers that `key` takes; the first problem is reported.
pub(crate) fn read(key: &Key, item: &Item) -> Result<Vec<LayerSetting>, Finding> {
    match &item.value {
        Value::List(items) => items.iter().map(layer).collect(),
        _ => Err(value::wrong_type(key, item, value::expected(&Kind::Layers))),
    }
}

/// Reads a list of lists of layers.
pub(crate) fn read_rows(key: &Key, item: &Item) -> Result<Vec<Vec<LayerSetting>>, Finding> {
    match &item.value {
        Value::List(items) => items.iter().map(|item| read(key, item)).collect(),
        _ => Err(value::wrong_type(key, item, value::expected(&Kind::LayerRows))),
    }
}

fn layer(item: &Item) -> Result<LayerSetting, Finding> {
    let layer = match &item.value {
        // A layer without settings may be written as its name.
        Value::Text(_) => build(kind(item)?, item, &Table::default())?,
        Value::Table(table) => match table.get("kind") {
            Some(entry) => build(kind(&entry.item)?, item, table)?,
            None => return Err(missing("kind", "layer", item)),
        },
        _ => {
            return Err(Finding::new("R011", format!("a layer is a table, not {}", item.value.describe()))
                .at(item.span, "expected a table")
                .note(value::more(TABLE)));
        }
    };
    Ok(LayerSetting { layer, span: item.span })
}

fn kind(item: &Item) -> Result<LayerKind, Finding> {
    let named = match lookup::find("model.layers.kind").map(|key| value::typed(key, item)).transpose()? {
        Some(Typed::Choice(name)) => LayerKind::named(name),
        _ => None,
    };
    named.ok_or_else(|| missing("kind", "layer", item))
}

fn missing(name: &str, kind: &str, item: &Item) -> Finding {
    Finding::new("R010", format!("a `{kind}` layer needs `{name}`"))
        .at(item.span, format!("`{name}` is missing"))
        .note(value::more(&lookup::join(TABLE, name)))
}

fn build(kind: LayerKind, item: &Item, table: &Table) -> Result<Layer, Finding> {
    refuse_unknown(kind, table)?;
    let fields = Fields { kind, item, table };
    Ok(match kind {
        LayerKind::Linear => Layer::Linear { outputs: fields.whole("outputs")? },
        LayerKind::Conv => Layer::Conv {
            outputs: fields.whole("outputs")?,
            kernel: fields.whole("kernel")?,
            stride: fields.whole_or("stride", 1)?,
            padding: fields.whole("padding")?,
            bias: fields.flag("bias")?,
            groups: fields.whole("groups")?,
        },
        LayerKind::MaxPool => {
            let kernel = fields.whole("kernel")?;
            let stride = fields.whole_or("stride", kernel)?;
            Layer::MaxPool { kernel, stride, padding: fields.whole("padding")?, ceil: fields.flag("ceil")? }
        }
        LayerKind::AvgPool => {
            let kernel = fields.whole("kernel")?;
            Layer::AvgPool {
                kernel,
                stride: fields.whole_or("stride", kernel)?,
                padding: fields.whole("padding")?,
                ceil: fields.flag("ceil")?,
            }
        }
        LayerKind::GlobalAvgPool => Layer::GlobalAvgPool,
        LayerKind::GlobalMaxPool => Layer::GlobalMaxPool,
        LayerKind::BatchNorm => Layer::BatchNorm,
        LayerKind::LocalResponseNorm => Layer::LocalResponseNorm {
            size: fields.whole("size")?,
            alpha: fields.number("alpha")? as f32,
            beta: fields.number("beta")? as f32,
            k: fields.number("k")? as f32,
        },
        LayerKind::Residual => Layer::Residual {
            branch: fields.layers("branch")?.ok_or_else(|| missing("branch", kind.name(), item))?,
            shortcut: fields.layers("shortcut")?.unwrap_or_default(),
        },
        LayerKind::Branches => Layer::Branches { branches: fields.rows("branches")? },
        LayerKind::Relu => Layer::Relu,
        LayerKind::Embedding => {
            Layer::Embedding { width: fields.whole("width")?, positions: fields.flag("positions")? }
        }
        LayerKind::TextConv => Layer::TextConv {
            outputs: fields.whole("outputs")?,
            kernel: fields.whole("kernel")?,
            stride: fields.whole_or("stride", 1)?,
            padding: fields.whole("padding")?,
        },
        LayerKind::LayerNorm => Layer::LayerNorm,
        LayerKind::Attention => Layer::Attention { heads: fields.whole("heads")? },
        LayerKind::Gelu => Layer::Gelu,
        LayerKind::Block => Layer::Block {
            layers: fields.layers("layers")?.ok_or_else(|| missing("layers", kind.name(), item))?,
        },
        LayerKind::Frozen => Layer::Frozen {
            layers: fields.layers("layers")?.ok_or_else(|| missing("layers", kind.name(), item))?,
        },
        LayerKind::AuxiliaryHead => Layer::AuxiliaryHead {
            layers: fields.layers("layers")?.ok_or_else(|| missing("layers", kind.name(), item))?,
            weight: fields.number("weight")? as f32,
        },
        LayerKind::TiedHead => Layer::TiedHead,
        LayerKind::Dropout => Layer::Dropout { rate: fields.number("rate")? as f32 },
        LayerKind::Flatten => Layer::Flatten,
    })
}

fn refuse_unknown(kind: LayerKind, table: &Table) -> Result<(), Finding> {
    let known: Vec<&str> =
        lookup::children(TABLE).filter(|key| key.is_of(kind.name())).map(Key::name).collect();
    match table.entries.iter().find(|entry| !known.contains(&entry.name.as_str())) {
        None => Ok(()),
        Some(entry) => Err(unknown::key(entry, &format!(" for layer `{kind}`"), &known, TABLE)),
    }
}

/// The keys of one layer.
struct Fields<'a> {
    kind: LayerKind,
    item: &'a Item,
    table: &'a Table,
}

impl Fields<'_> {
    /// The value that was written, else the table's default.
    fn typed(&self, name: &str) -> Result<Option<Typed>, Finding> {
        let Some(key) = lookup::find(&lookup::join(TABLE, name)) else { return Ok(None) };
        let default = || key.default.and_then(|toml| parse::value(toml, 0, 0));
        match self.table.get(name) {
            Some(entry) => value::typed(key, &entry.item).map(Some),
            None => default().map(|item| value::typed(key, &item)).transpose(),
        }
    }

    fn whole_or(&self, name: &str, default: usize) -> Result<usize, Finding> {
        Ok(self.typed(name)?.and_then(|typed| typed.whole()).map_or(default, |number| number as usize))
    }

    fn whole(&self, name: &str) -> Result<usize, Finding> {
        let number = self.typed(name)?.and_then(|typed| typed.whole());
        number.map(|number| number as usize).ok_or_else(|| missing(name, self.kind.name(), self.item))
    }

    fn flag(&self, name: &str) -> Result<bool, Finding> {
        let flag = self.typed(name)?.and_then(|typed| typed.flag());
        flag.ok_or_else(|| missing(name, self.kind.name(), self.item))
    }

    /// The layers of a list, if it is there. How deep lists can lie in each other is bounded by the parser of TOML.
    fn layers(&self, name: &str) -> Result<Option<Vec<Layer>>, Finding> {
        let key = lookup::find(&lookup::join(TABLE, name));
        let Some((key, entry)) = key.zip(self.table.get(name)) else { return Ok(None) };
        let settings = read(key, &entry.item)?;
        Ok(Some(settings.into_iter().map(|setting| setting.layer).collect()))
    }

    /// The rows of layers of a list, which must be there.
    fn rows(&self, name: &str) -> Result<Vec<Vec<Layer>>, Finding> {
        let key = lookup::find(&lookup::join(TABLE, name));
        let found = key.zip(self.table.get(name));
        let (key, entry) = found.ok_or_else(|| missing(name, self.kind.name(), self.item))?;
        let rows = read_rows(key, &entry.item)?;
        let row = |row: Vec<LayerSetting>| row.into_iter().map(|setting| setting.layer).collect();
        Ok(rows.into_iter().map(row).collect())
    }

    fn number(&self, name: &str) -> Result<f64, Finding> {
        let number = self.typed(name)?.and_then(|typed| typed.number());
        number.ok_or_else(|| missing(name, self.kind.name(), self.item))
    }
}
