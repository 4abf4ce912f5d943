//! The JSON schema of a recipe (draft 07), for editors that complete and check while one types.

use crate::keys::key::{Ends, Key, Kind, Range, Reach};
use crate::keys::lookup;
use crate::reference::explain::takes;
use crate::spec::family::Choice;
use serde_json::{Map, Value, json};

/// The schema: what this version can run, and nothing else.
pub fn schema() -> Value {
    let mut schema = table("");
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    schema["title"] = json!("Bakeoff recipe");
    schema["required"] = json!(["schema", "strategy"]);
    schema["definitions"] = json!({ "layer": layer() });
    schema
}

/// A layer, in a place of its own because the layers of a residual block are layers again.
fn layer() -> Value {
    let mut layer = table("model.layers");
    layer["required"] = json!(["kind"]);
    json!({ "anyOf": [layer, { "type": "string" }] })
}

fn table(path: &str) -> Value {
    let mut properties = Map::new();
    for key in lookup::children(path).filter(|key| !key.later) {
        properties.insert(key.name().to_owned(), described(key));
    }
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn described(key: &'static Key) -> Value {
    let mut value = value(key);
    let kind = takes(&key.kind);
    let takes = if matches!(key.kind, Kind::Table) { String::new() } else { format!(" Takes {kind}.") };
    let only = if key.of.is_empty() { String::new() } else { format!(" Only for {}.", key.of.join(", ")) };
    let usual = key.usual.iter().map(|usual| format!(" By default {} for {}.", usual.toml, usual.kind));
    let usual: String = usual.collect();
    value["description"] = json!(format!("{}{takes}{only}{usual}", key.doc));
    if let Some(default) = key.default.and_then(|toml| crate::text::parse::value(toml, 0, 0)) {
        value["default"] = plain(&default.value);
    }
    value
}

fn plain(value: &crate::text::tree::Value) -> Value {
    use crate::text::tree::Value as Toml;
    match value {
        Toml::Text(text) => json!(text),
        Toml::Integer(number) => json!(number),
        Toml::Float(number) => json!(number),
        Toml::Flag(flag) => json!(flag),
        Toml::Foreign(_) => Value::Null,
        Toml::List(items) => items.iter().map(|item| plain(&item.value)).collect(),
        Toml::Table(table) => {
            let entries = table.entries.iter().map(|entry| (entry.name.clone(), plain(&entry.item.value)));
            Value::Object(entries.collect())
        }
    }
}

fn length() -> Value {
    json!({ "type": "string", "pattern": "^ *[0-9._]+ *(epochs?|steps?) *$" })
}

fn value(key: &'static Key) -> Value {
    match &key.kind {
        Kind::Table => tables(key.path),
        Kind::Text | Kind::Path => json!({ "type": "string" }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Whole(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Kind::Number(range) => number(*range),
        Kind::Share(range) => {
            json!({ "anyOf": [number(*range), { "type": "string", "pattern": "^[0-9.]+ *%?$" }] })
        }
        Kind::Choice(choices) => names(choices),
        Kind::Duration => json!({ "type": "string", "pattern": "^ *[0-9._]+ *(ns|us|ms|s|min|h|d) *$" }),
        Kind::Extent(_) => length(),
        Kind::Extents => json!({ "type": "array", "minItems": 1, "items": length() }),
        Kind::TextList => json!({ "anyOf": [
            { "type": "string" },
            { "type": "array", "items": { "type": "string" } },
        ] }),
        Kind::ChoiceList(choices) => {
            json!({ "anyOf": [names(choices), { "type": "array", "items": names(choices), "uniqueItems": true }] })
        }
        Kind::Seeds => json!({ "anyOf": [
            { "type": "array", "items": { "type": "integer", "minimum": 0 } },
            {
                "type": "object",
                "properties": { "from": { "type": "integer", "minimum": 0 } },
                "required": ["from"],
                "additionalProperties": false,
            },
        ] }),
        Kind::Bandwidth => {
            json!({ "type": "string", "pattern": "^ *[0-9._]+ *([kMG]?bit/s|[kMG]?B/s) *$" })
        }
        Kind::Size => json!({ "type": "string", "pattern": "^ *[0-9._]+ *([kMG]?B|[KMG]iB) *$" }),
        Kind::Slow | Kind::Faults => json!({ "type": "array", "items": table(key.path) }),
        Kind::LayerRows => {
            let row = json!({ "type": "array", "items": { "$ref": "#/definitions/layer" } });
            json!({ "type": "array", "minItems": 1, "items": row })
        }
        Kind::Layers => json!({ "type": "array", "items": { "$ref": "#/definitions/layer" } }),
    }
}

fn tables(path: &str) -> Value {
    match path {
        "strategy" => {
            let mut one = table(path);
            one["required"] = json!(["kind"]);
            json!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
        }
        // The names of strategies are the recipe's own, so that axes can be checked by bakeoff only.
        "sweep.axes" => axes(),
        "sweep.zip" => json!({ "type": "array", "items": axes() }),
        "sweep.include" => json!({ "type": "array", "items": included() }),
        "sweep.random" => json!({ "type": "array", "items": random(path) }),
        "sweep.exclude" => {
            let mut one = table(path);
            one["required"] = json!(["when"]);
            json!({ "type": "array", "items": one })
        }
        _ => match lookup::find(&lookup::join(path, "kind")).map(|key| &key.kind) {
            Some(Kind::Choice(choices)) => json!({ "anyOf": [names(choices), table(path)] }),
            _ => table(path),
        },
    }
}

/// A point with any value for each axis.
fn included() -> Value {
    let mut point = axes();
    point["patternProperties"] = json!({ "^[a-z][a-z-]*\\.": {} });
    point
}

/// Ranges in the places of lists, and the number of draws.
fn random(path: &str) -> Value {
    let mut ranges = axes();
    if let (Some(all), Value::Object(own)) =
        (ranges["properties"].as_object_mut(), table(path)["properties"].take())
    {
        all.extend(own);
    }
    ranges["patternProperties"] = json!({ "^[a-z][a-z-]*\\.": { "type": "object" } });
    ranges["required"] = json!(["draws"]);
    ranges
}

/// Completes the first part of an axis' path.
fn axes() -> Value {
    let varied = lookup::children("").filter(|key| key.reach != Reach::Sweep && !key.later);
    let axis = |key: &Key| match key.kind {
        Kind::Table => json!({ "type": "object" }),
        // Itself an axis: a list of values, or a range of draws.
        _ => json!({ "type": ["array", "object"] }),
    };
    let properties: Map<String, Value> = varied.map(|key| (key.name().to_owned(), axis(key))).collect();
    // A path in quotes is one key: `"nodes.workers" = [2, 4]`.
    let quoted = json!({ "^[a-z][a-z-]*\\.": { "type": "array" } });
    json!({
        "type": "object",
        "properties": properties,
        "patternProperties": quoted,
        "additionalProperties": false,
    })
}

fn names(choices: &[Choice]) -> Value {
    json!({ "enum": lookup::available(choices).collect::<Vec<_>>() })
}

fn number(range: Range) -> Value {
    let mut schema = json!({ "type": "number" });
    let (lower, upper) = match range.ends {
        Ends::Closed => ("minimum", "maximum"),
        Ends::Open => ("exclusiveMinimum", "exclusiveMaximum"),
        Ends::Lower => ("minimum", "exclusiveMaximum"),
    };
    if range.least.is_finite() {
        schema[lower] = json!(range.least);
    }
    if range.most.is_finite() {
        schema[upper] = json!(range.most);
    }
    schema
}
