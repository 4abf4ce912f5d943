//! Settings of a strategy or a codec of another crate.

use crate::keys::lookup::{KeyId, id};
use crate::text::finding::Finding;
use crate::text::source::Span;
use crate::values::settings::Settings;
use crate::{CustomCodec, Strategy};
use std::collections::BTreeMap;

/// The keys that name what another crate brings.
pub(crate) struct Custom {
    name: KeyId,
    numbers: KeyId,
    /// Noun for it in problems: `strategy`.
    noun: &'static str,
    /// A name, for examples.
    name_example: &'static str,
    /// One of its numbers, for examples.
    number_example: &'static str,
}

/// The strategy of another crate.
pub(crate) const STRATEGY: Custom = Custom {
    name: id("strategy.custom"),
    numbers: id("strategy.settings"),
    noun: "strategy",
    name_example: "lazy-sgd",
    number_example: "period = 4",
};

/// The codec of another crate.
pub(crate) const CODEC: Custom = Custom {
    name: id("compression.custom"),
    numbers: id("compression.settings"),
    noun: "codec",
    name_example: "powers-of-two",
    number_example: "least = -40",
};

/// The strategy that the settings describe, without the numbers that cannot be read.
pub(crate) fn strategy(settings: &Settings) -> Strategy {
    Strategy::Custom { name: STRATEGY.name_in(settings), settings: STRATEGY.numbers_in(settings) }
}

/// The codec that the settings describe, likewise.
pub(crate) fn codec(settings: &Settings) -> CustomCodec {
    CustomCodec { name: CODEC.name_in(settings), settings: CODEC.numbers_in(settings) }
}

/// Name and value of `name = number`; `None` for an empty name or a number that is not finite.
fn number(text: &str) -> Option<(String, f64)> {
    let (name, value) = text.split_once('=')?;
    let value: f64 = value.trim().parse().ok()?;
    (value.is_finite() && !name.trim().is_empty()).then(|| (name.trim().to_owned(), value))
}

impl Custom {
    fn name_in(&self, settings: &Settings) -> String {
        settings.text(self.name).to_owned()
    }

    fn numbers_in(&self, settings: &Settings) -> BTreeMap<String, f64> {
        settings.list(self.numbers).iter().filter_map(|text| number(text)).collect()
    }

    /// Problem of the settings, if there is one; `kind` is the place of the `kind` that asks for them.
    pub(crate) fn findings(&self, settings: &Settings, kind: Option<Span>) -> Option<Finding> {
        let Self { noun, name_example, number_example, .. } = self;
        if settings.text(self.name).is_empty() {
            let finding = Finding::new("R134", format!("a custom {noun} needs its name"));
            return Some(finding.at_option(kind, "of another crate").cure(format!(
                "write `custom = \"{name_example}\"`, with the name under which your `bakeoff-worker` registers it"
            )));
        }
        let Some(wrong) = settings.list(self.numbers).iter().find(|text| number(text).is_none()) else {
            return self.twice(settings);
        };
        Some(
            Finding::new("R134", format!("`{wrong}` is not a setting of a custom {noun}"))
                .at_option(settings.span(self.numbers), "each is `name = number`")
                .cure(format!("write `settings = [\"{number_example}\"]`, for example")),
        )
    }

    /// A setting that is given twice.
    fn twice(&self, settings: &Settings) -> Option<Finding> {
        let numbers = settings.list(self.numbers).iter().filter_map(|text| number(text));
        let names: Vec<String> = numbers.map(|(name, _)| name).collect();
        let (_, name) = names.iter().enumerate().find(|(place, name)| names[..*place].contains(name))?;
        Some(
            Finding::new("R134", format!("the setting `{name}` of a custom {} is given twice", self.noun))
                .at_option(settings.span(self.numbers), "which of the two?")
                .cure("keep one of them"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_a_name_and_a_finite_number() {
        assert_eq!(number(" period = 4 "), Some(("period".into(), 4.0)));
        assert_eq!(number("rate=-1e-3"), Some(("rate".into(), -1e-3)));
        for wrong in ["period", "period = four", "= 4", "rate = inf", "rate = nan", ""] {
            assert_eq!(number(wrong), None, "{wrong}");
        }
    }
}
