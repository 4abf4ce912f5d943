//! Settings of a strategy of another crate.

use crate::Strategy;
use crate::keys::lookup::{KeyId, id};
use crate::resolve::cell::STRATEGY_KIND;
use crate::text::finding::Finding;
use crate::values::settings::Settings;

const NAME: KeyId = id("strategy.custom");
const NUMBERS: KeyId = id("strategy.settings");

/// The strategy that the settings describe, without the numbers that cannot be read.
pub(crate) fn read(settings: &Settings) -> Strategy {
    let numbers = settings.list(NUMBERS).iter().filter_map(|text| number(text));
    Strategy::Custom { name: settings.text(NAME).to_owned(), settings: numbers.collect() }
}

/// `name = number`.
fn number(text: &str) -> Option<(String, f64)> {
    let (name, value) = text.split_once('=')?;
    let value: f64 = value.trim().parse().ok()?;
    (value.is_finite() && !name.trim().is_empty()).then(|| (name.trim().to_owned(), value))
}

/// What cannot work about the settings.
pub(crate) fn findings(settings: &Settings) -> Option<Finding> {
    if settings.text(NAME).is_empty() {
        let finding = Finding::new("R134", "a custom strategy needs its name".to_owned());
        return Some(finding.at_option(settings.span(STRATEGY_KIND), "of another crate").cure(
            "write `custom = \"lazy-sgd\"`, with the name under which your `bakeoff-worker` registers it",
        ));
    }
    let Some(wrong) = settings.list(NUMBERS).iter().find(|text| number(text).is_none()) else {
        return twice(settings);
    };
    Some(
        Finding::new("R134", format!("`{wrong}` is not a setting of a custom strategy"))
            .at_option(settings.span(NUMBERS), "each is `name = number`")
            .cure("write `settings = [\"period = 4\"]`, for example"),
    )
}

/// A setting that is given twice.
fn twice(settings: &Settings) -> Option<Finding> {
    let names: Vec<String> =
        settings.list(NUMBERS).iter().filter_map(|text| number(text)).map(|(name, _)| name).collect();
    let (_, name) = names.iter().enumerate().find(|(place, name)| names[..*place].contains(name))?;
    Some(
        Finding::new("R134", format!("the setting `{name}` of a custom strategy is given twice"))
            .at_option(settings.span(NUMBERS), "which of the two?")
            .cure("keep one of them"),
    )
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
