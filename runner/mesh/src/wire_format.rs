//! The wire format as a number: a digest of the types that driver and workers exchange.
//!
//! It is taken from the JSON Schema of these types, so it changes with a field, a variant, a type or a default, and
//! not with a comment or with the file that a type is in. A type that travels without a schema does not compile.

use crate::{Briefing, Inventory, ToDriver, ToMember};
use schemars::{Schema, schema_for};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The digest of everything that travels as MessagePack, and of what a worker says of itself. Frames and handshakes, whose bytes are laid out by hand, are
/// covered by [`PROTOCOL`](crate::PROTOCOL).
pub fn wire_format() -> u64 {
    static DIGEST: LazyLock<u64> = LazyLock::new(|| {
        digest(&[schema_for!(Briefing), schema_for!(ToMember), schema_for!(ToDriver), schema_for!(Inventory)])
    });
    *DIGEST
}

/// The first eight bytes of the SHA-256 over the schemas' canonical form.
fn digest(schemas: &[Schema]) -> u64 {
    let mut text = String::new();
    for schema in schemas {
        write_canonical(&mut text, schema.as_value());
    }
    Sha256::digest(text).iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// JSON with sorted keys (`serde_json` keeps another order where a dependency asks for it) and without annotations.
fn write_canonical(out: &mut String, value: &Value) {
    match value {
        Value::Object(entries) => {
            if let Some(names) = unit_variants(value) {
                out.push_str("{oneOf:[");
                write_names(out, &names);
                out.push_str("]}");
                return;
            }
            let sorted: BTreeMap<_, _> =
                entries.iter().filter(|(key, value)| !is_annotation(key, value)).collect();
            out.push('{');
            for (key, value) in sorted {
                out.push_str(key);
                out.push(':');
                write_canonical(out, value);
            }
            out.push('}');
        }
        Value::Array(values) => {
            // `schemars` lists variants without fields one by one if they have comments, and together if not.
            let names: Vec<&str> = values.iter().filter_map(unit_variants).flatten().collect();
            out.push('[');
            write_names(out, &names);
            for value in values.iter().filter(|value| unit_variants(value).is_none()) {
                write_canonical(out, value);
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.push_str(&value.to_string());
            out.push(',');
        }
    }
}

/// The names in the schema of variants without fields.
fn unit_variants(schema: &Value) -> Option<Vec<&str>> {
    if schema.get("type")? != "string" {
        return None;
    }
    match (schema.get("const"), schema.get("enum")) {
        (Some(name), _) => Some(vec![name.as_str()?]),
        (None, Some(names)) => names.as_array()?.iter().map(Value::as_str).collect(),
        (None, None) => None,
    }
}

fn write_names(out: &mut String, names: &[&str]) {
    for name in names {
        out.push_str(name);
        out.push(';');
    }
}

/// Whether a keyword comes from a doc comment. A field that is called `description` has a schema, not a text.
fn is_annotation(key: &str, value: &Value) -> bool {
    matches!(key, "title" | "description" | "$schema") && value.is_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemars::JsonSchema;

    /// A heartbeat as it is today, in another file and with other comments.
    mod moved {
        use record::{LaneId, Nanos, Phase};
        use schemars::JsonSchema;

        /// Another comment.
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        pub(super) struct Heartbeat {
            lane: LaneId,
            /// A comment about a field.
            step: u64,
            phase: Phase,
            since: Nanos,
            samples: u64,
            loss: Option<f32>,
        }
    }

    /// The same with a new field.
    mod grown {
        use record::{LaneId, Nanos, Phase};
        use schemars::JsonSchema;

        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        pub(super) struct Heartbeat {
            lane: LaneId,
            step: u64,
            phase: Phase,
            since: Nanos,
            samples: u64,
            loss: Option<f32>,
            description: u64,
        }
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Carries<T> {
        inner: Vec<T>,
    }

    fn digest_of<T: JsonSchema>() -> u64 {
        digest(&[schema_for!(T)])
    }

    #[test]
    fn a_moved_type_with_other_comments_is_the_same_format() {
        assert_eq!(digest_of::<crate::Heartbeat>(), digest_of::<moved::Heartbeat>());
    }

    #[test]
    fn a_new_field_is_another_format_also_inside_other_types() {
        assert_ne!(digest_of::<crate::Heartbeat>(), digest_of::<grown::Heartbeat>());
        assert_ne!(digest_of::<Carries<crate::Heartbeat>>(), digest_of::<Carries<grown::Heartbeat>>());
    }

    #[test]
    fn variants_and_widths_of_numbers_are_part_of_the_format() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        enum Two {
            One,
            Other,
        }
        #[derive(JsonSchema)]
        #[schemars(rename = "Two")]
        #[expect(dead_code, reason = "only its schema is used")]
        enum Three {
            One,
            Other,
            More(u8),
        }
        assert_ne!(digest_of::<Two>(), digest_of::<Three>());
        assert_ne!(digest_of::<u32>(), digest_of::<u64>());
        assert_ne!(digest_of::<f32>(), digest_of::<f64>());
    }

    #[test]
    fn comments_on_variants_are_no_part_of_the_format() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        enum Plain {
            One,
            Other,
            More(u8),
        }
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is used")]
        enum Bare {
            One,
            Other,
        }
        #[derive(JsonSchema)]
        #[schemars(rename = "Bare")]
        #[expect(dead_code, reason = "only its schema is used")]
        enum Explained {
            /// The first.
            One,
            /// The second.
            Other,
        }
        /// A comment.
        #[derive(JsonSchema)]
        #[schemars(rename = "Plain")]
        #[expect(dead_code, reason = "only its schema is used")]
        enum Commented {
            /// The first.
            One,
            /// The second.
            Other,
            /// With a field.
            More(
                /// A number.
                u8,
            ),
        }
        assert_eq!(digest_of::<Bare>(), digest_of::<Explained>());
        assert_eq!(digest_of::<Plain>(), digest_of::<Commented>());
        assert_eq!(digest_of::<Vec<Plain>>(), digest_of::<Vec<Commented>>());
    }

    /// Types that only a variant of a field of a field names are part of it.
    #[test]
    fn the_format_reaches_every_type_that_travels() {
        let known =
            schema_for!(Briefing).as_value().to_string() + &schema_for!(ToDriver).as_value().to_string();
        for name in ["MovingRate", "SyncVariant", "Codec", "PlacedLayer", "GossipAct", "Standing", "RankEnd"]
        {
            assert!(known.contains(&format!("\"{name}\"")), "{name}");
        }
    }
}
