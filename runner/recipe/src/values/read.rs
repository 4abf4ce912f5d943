//! Reads the value of any key: a list of tables by the reader of its entries, a path relative to the file it stands in,
//! everything else by itself.

use crate::keys::key::{Key, Kind};
use crate::paths::tidy;
use crate::text::finding::Finding;
use crate::text::source::Sources;
use crate::text::tree::{Item, Value};
use crate::values::fault::FaultSetting;
use crate::values::leaf::{Leaf, Typed};
use crate::values::slow::SlowSetting;
use crate::values::value::{typed, wrong_type};
use crate::values::{fault_list, layer_list, slow_list};

/// Checks a value against its key.
///
/// # Errors
/// Its problems: of a list of tables, those of all entries.
pub(crate) fn leaf(key: &'static Key, item: &Item, sources: &Sources) -> Result<Leaf, Vec<Finding>> {
    let alone = |finding| vec![finding];
    let typed = match &key.kind {
        Kind::Path => path(key, item, sources).map_err(alone)?,
        Kind::LayerRows => Typed::LayerRows(layer_list::read_rows(key, item).map_err(alone)?),
        Kind::Layers => Typed::Layers(layer_list::read(key, item).map_err(alone)?),
        Kind::Slow => Typed::Slow(slow_list::read(item)?),
        Kind::Faults => Typed::Faults(fault_list::read(item)?),
        _ => typed(key, item).map_err(alone)?,
    };
    let toml = match &typed {
        Typed::Path(path) => crate::text::tree::quote(&path.to_string_lossy()),
        _ => item.value.toml(),
    };
    let text = match &typed {
        Typed::Slow(slow) => labels(slow, SlowSetting::label),
        Typed::Faults(faults) => labels(faults, FaultSetting::label),
        _ => item.value.plain(),
    };
    Ok(Leaf { typed, text, toml, span: Some(item.span) })
}

/// A list of tables in a few letters.
fn labels<T>(entries: &[T], label: impl Fn(&T) -> String) -> String {
    if entries.is_empty() {
        return "none".to_owned();
    }
    entries.iter().map(label).collect::<Vec<_>>().join("+")
}

fn path(key: &Key, item: &Item, sources: &Sources) -> Result<Typed, Finding> {
    match &item.value {
        Value::Text(text) if !text.is_empty() && !text.contains('\0') => {
            Ok(Typed::Path(tidy(&sources.folder(item.span.source).join(text))))
        }
        _ => Err(wrong_type(key, item, "a path in quotes")),
    }
}
