//! The layers of a sequential model, as a recipe lists them.

use crate::Layer;
use crate::key::{self, Kind};
use crate::problem::Finding;
use crate::setting::Typed;
use crate::source::Span;
use crate::tree::{Item, Table, Value};
use crate::value;

/// A layer and where it is written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LayerSetting {
    pub(crate) layer: Layer,
    pub(crate) span: Span,
}

const TABLE: &str = "model.layers";

/// Reads a list of layers; the first problem is reported.
pub(crate) fn read(item: &Item) -> Result<Vec<LayerSetting>, Finding> {
    let items = match (&item.value, key::find(TABLE)) {
        (Value::List(items), _) => items,
        (_, Some(key)) => return Err(value::wrong_type(key, item, value::expected(&Kind::Layers))),
        _ => return Ok(Vec::new()),
    };
    items.iter().map(layer).collect()
}

fn layer(item: &Item) -> Result<LayerSetting, Finding> {
    let layer = match &item.value {
        // A layer without settings may be written as its name.
        Value::Text(_) => build(&kind(item)?, item, &Table::default())?,
        Value::Table(table) => match table.get("kind") {
            Some(entry) => build(&kind(&entry.item)?, item, table)?,
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

fn kind(item: &Item) -> Result<String, Finding> {
    let Some(key) = key::find("model.layers.kind") else { return Ok(String::new()) };
    match value::typed(key, item)? {
        Typed::Choice(name) => Ok(name.to_owned()),
        _ => Ok(String::new()),
    }
}

fn missing(name: &str, kind: &str, item: &Item) -> Finding {
    Finding::new("R010", format!("a `{kind}` layer needs `{name}`"))
        .at(item.span, format!("`{name}` is missing"))
        .note(value::more(&key::join(TABLE, name)))
}

fn build(kind: &str, item: &Item, table: &Table) -> Result<Layer, Finding> {
    refuse_unknown(kind, table)?;
    let fields = Fields { kind, item, table };
    Ok(match kind {
        "linear" => Layer::Linear { outputs: fields.required("outputs")? },
        "conv" => Layer::Conv {
            outputs: fields.required("outputs")?,
            kernel: fields.required("kernel")?,
            stride: fields.whole("stride")?.unwrap_or(1),
            padding: fields.whole("padding")?.unwrap_or(0),
        },
        "max-pool" => {
            let kernel = fields.required("kernel")?;
            Layer::MaxPool { kernel, stride: fields.whole("stride")?.unwrap_or(kernel) }
        }
        "avg-pool" => {
            let kernel = fields.required("kernel")?;
            Layer::AvgPool { kernel, stride: fields.whole("stride")?.unwrap_or(kernel) }
        }
        "dropout" => Layer::Dropout { rate: fields.number("rate")?.unwrap_or(0.5) as f32 },
        "flatten" => Layer::Flatten,
        _ => Layer::Relu,
    })
}

fn refuse_unknown(kind: &str, table: &Table) -> Result<(), Finding> {
    let known: Vec<&str> = key::children(TABLE).filter(|key| key.is_of(kind)).map(key::Key::name).collect();
    match table.entries.iter().find(|entry| !known.contains(&entry.name.as_str())) {
        None => Ok(()),
        Some(entry) => Err(crate::check::unknown(entry, &format!(" for layer `{kind}`"), &known, TABLE)),
    }
}

/// The keys of one layer.
struct Fields<'a> {
    kind: &'a str,
    item: &'a Item,
    table: &'a Table,
}

impl Fields<'_> {
    fn typed(&self, name: &str) -> Result<Option<Typed>, Finding> {
        match (self.table.get(name), key::find(&key::join(TABLE, name))) {
            (Some(entry), Some(key)) => value::typed(key, &entry.item).map(Some),
            _ => Ok(None),
        }
    }

    fn whole(&self, name: &str) -> Result<Option<usize>, Finding> {
        Ok(match self.typed(name)? {
            Some(Typed::Whole(number)) => Some(number as usize),
            _ => None,
        })
    }

    fn number(&self, name: &str) -> Result<Option<f64>, Finding> {
        Ok(match self.typed(name)? {
            Some(Typed::Number(number)) => Some(number),
            _ => None,
        })
    }

    fn required(&self, name: &str) -> Result<usize, Finding> {
        self.whole(name)?.ok_or_else(|| missing(name, self.kind, self.item))
    }
}
