//! The colours of a figure: those of the page in daylight, or greys.

use std::collections::BTreeMap;

/// Colours of a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Palette {
    /// Those of the page, which colour-blind readers can tell apart, on white.
    #[default]
    Colour,
    /// Greys, for print without colours; dashes, marks and hatches distinguish arms.
    Grey,
}

/// Greys of arms: neighbours differ most.
const ARMS: [&str; 8] =
    ["#000000", "#8c8c8c", "#4d4d4d", "#a6a6a6", "#262626", "#737373", "#595959", "#999999"];

/// The name of a custom property begins with this, in place of two hyphens, which the reader of style sheets does not know.
pub(super) const CUSTOM: &str = "__";

/// The custom properties of the page's root.
pub(super) fn properties(root: &str, palette: Palette) -> BTreeMap<String, String> {
    let declared = root.split(';').filter_map(|part| part.split_once(':'));
    let custom = declared.filter(|(name, _)| name.trim().starts_with(CUSTOM));
    let mut found: BTreeMap<String, String> =
        custom.map(|(name, value)| (name.trim().to_owned(), in_daylight(value.trim()).to_owned())).collect();
    found.insert(format!("{CUSTOM}paper"), "#ffffff".to_owned());
    if palette == Palette::Grey {
        for value in found.values_mut() {
            if let Some(grey) = grey(value) {
                *value = grey;
            }
        }
        for (arm, grey) in ARMS.iter().enumerate() {
            found.insert(format!("{CUSTOM}arm-{arm}"), (*grey).to_owned());
        }
    }
    found
}

/// The first of the colours of `light-dark(#fff, #000)`.
fn in_daylight(value: &str) -> &str {
    let both = value.strip_prefix("light-dark(").and_then(|rest| rest.strip_suffix(')'));
    both.and_then(|both| both.split_once(',')).map_or(value, |(light, _)| light.trim())
}

/// The grey that is as bright as a colour (`#rrggbb`).
fn grey(colour: &str) -> Option<String> {
    let digits = colour.strip_prefix('#').filter(|digits| digits.len() == 6 && digits.is_ascii())?;
    let part = |place: usize| u8::from_str_radix(digits.get(place..place + 2)?, 16).ok().map(f64::from);
    // Weights of ITU-R BT.709, on the coded values: what screens and printers do for "grey".
    let bright = 0.2126 * part(0)? + 0.7152 * part(2)? + 0.0722 * part(4)?;
    let level = bright.round() as u8;
    Some(format!("#{level:02x}{level:02x}{level:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_those_of_daylight_and_greys_are_as_bright() {
        let root = "color-scheme: light dark; __ink: light-dark(#1b1f24, #e8e9ea); __dash-1: 9 4; __arm-1: light-dark(#cc5200, #ff9850); __good: light-dark(#00ff00, #fff)";
        let colours = properties(root, Palette::Colour);
        assert_eq!((colours["__ink"].as_str(), colours["__dash-1"].as_str()), ("#1b1f24", "9 4"));
        assert_eq!((colours["__arm-1"].as_str(), colours["__paper"].as_str()), ("#cc5200", "#ffffff"));
        let greys = properties(root, Palette::Grey);
        assert_eq!((greys["__good"].as_str(), greys["__arm-1"].as_str()), ("#b6b6b6", ARMS[1]));
        assert_eq!(greys["__dash-1"], "9 4");
    }
}
