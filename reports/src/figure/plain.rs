//! A chart without its style sheet: what the sheet says of each part becomes that part's attributes.
//!
//! Programs that read SVG differ in what they know of style sheets; hardly any but browsers knows custom properties. Rules of
//! screens, printers and states of a mouse are left out.

use super::palette::{CUSTOM, Palette, properties};
use roxmltree::{Document, Node};
use simplecss::{AttributeOperator, Element, PseudoClass, StyleSheet};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The page's own sheet.
const SHEET: &str = include_str!("../../../templates/page.css");

/// Properties that SVG has as attributes.
const DRAWN: [&str; 17] = [
    "fill",
    "fill-opacity",
    "stroke",
    "stroke-width",
    "stroke-opacity",
    "stroke-dasharray",
    "stroke-linecap",
    "stroke-linejoin",
    "opacity",
    "paint-order",
    "font-size",
    "font-weight",
    "font-style",
    "text-anchor",
    "dominant-baseline",
    "display",
    "visibility",
];

/// Properties whose value is a paint: an opacity beside it is a property of its own.
const PAINTS: [&str; 2] = ["fill", "stroke"];

/// References within properties are followed to this depth.
const DEEPEST: usize = 8;

/// Height of all letters, in a chart's own units.
const SIZE: &str = "12";

/// Weights from here on are bold: families for print have two.
const BOLD: f64 = 600.0;

/// The text of `svg`, whose parts have classes of the page, without classes.
pub(super) fn plain(svg: &str, palette: Palette) -> Result<String, roxmltree::Error> {
    let text = SHEET.replace("--", CUSTOM);
    let rules = rules(&text);
    let root = rules.iter().find(|(selector, _)| *selector == ":root").map_or("", |(_, body)| body);
    let custom = properties(root, palette);
    let simple = rules.iter().filter(|(selector, _)| !selector.contains([':', '@', '>', '+', '~']));
    let simple = simple.fold(String::new(), |text, (selector, body)| text + selector + " {" + body + "}\n");
    let svg = without_controls(svg);
    let document = Document::parse(&svg)?;
    let writer = Writer { sheet: StyleSheet::parse(&simple), used: used(&document) };
    let mut out = String::new();
    writer.element(document.root_element(), &custom, &mut out);
    out.push('\n');
    Ok(out)
}

/// No name can break the file, not even one with characters that XML has no way to write.
pub(super) fn without_controls(svg: &str) -> String {
    svg.replace(|sign: char| sign.is_control() && sign != '\n', "\u{fffd}")
}

/// The rules of a sheet, each with its selector and its declarations.
fn rules(sheet: &str) -> Vec<(&str, &str)> {
    let mut rules = Vec::new();
    let mut begin = 0;
    let mut open = 0;
    let mut depth = 0_usize;
    for (at, sign) in sheet.char_indices() {
        match sign {
            '{' => {
                if depth == 0 {
                    open = at;
                }
                depth += 1;
            }
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    rules.push((sheet[begin..open].trim(), sheet[open + 1..at].trim()));
                    begin = at + 1;
                }
            }
            _ => {}
        }
    }
    rules
}

/// The ids that a part of the drawing refers to.
fn used(document: &Document<'_>) -> BTreeSet<String> {
    let attributes = document.descendants().flat_map(|node| node.attributes().collect::<Vec<_>>());
    let target = |value: &str| {
        let inside = value.strip_prefix("url(#").and_then(|rest| rest.strip_suffix(')'));
        inside.or(value.strip_prefix('#')).map(str::to_owned)
    };
    attributes.filter_map(|attribute| target(attribute.value())).collect()
}

struct Writer<'s> {
    sheet: StyleSheet<'s>,
    used: BTreeSet<String>,
}

impl Writer<'_> {
    fn element(&self, node: Node<'_, '_>, above: &BTreeMap<String, String>, out: &mut String) {
        let outermost = node.parent_element().is_none();
        let tag = node.tag_name().name();
        let is_aside = matches!(tag, "title" | "desc");
        let told_once = node.parent_element().is_some_and(|parent| parent.parent_element().is_none());
        if is_aside && !told_once {
            return;
        }
        if tag == "defs" || tag == "pattern" {
            return self.definitions(node, above, out);
        }
        let styled = self.styled(node, above);
        if styled.drawn.get("display").is_some_and(|value| value == "none") {
            return;
        }
        // A chart within the figure has the figure's units.
        let tag = if tag == "svg" && !outermost { "g" } else { tag };
        let _ = write!(out, "<{tag}");
        if outermost {
            out.push_str(" xmlns=\"http://www.w3.org/2000/svg\"");
        }
        for (name, value) in self.attributes(node, &styled.drawn, outermost) {
            let _ = write!(out, " {name}=\"{}\"", escaped(&value));
        }
        let inside: Vec<Node<'_, '_>> = node.children().filter(is_kept).collect();
        if inside.is_empty() {
            out.push_str("/>");
            return;
        }
        out.push('>');
        for child in inside {
            if child.is_element() {
                self.element(child, &styled.custom, out);
            } else {
                out.push_str(&escaped(child.text().unwrap_or_default()));
            }
        }
        let _ = write!(out, "</{tag}>");
        if matches!(tag, "g" | "text" | "path") {
            out.push('\n');
        }
    }

    /// Definitions, as far as anything uses them.
    fn definitions(&self, node: Node<'_, '_>, above: &BTreeMap<String, String>, out: &mut String) {
        let tag = node.tag_name().name();
        let id = node.attribute("id").unwrap_or_default();
        let is_used = |node: &Node<'_, '_>| {
            node.descendants().filter_map(|part| part.attribute("id")).any(|id| self.used.contains(id))
        };
        if tag == "pattern" && !self.used.contains(id) || tag == "defs" && !is_used(&node) {
            return;
        }
        let _ = write!(out, "<{tag}");
        for attribute in node.attributes() {
            let _ = write!(out, " {}=\"{}\"", attribute.name(), escaped(attribute.value()));
        }
        out.push('>');
        for child in node.children().filter(Node::is_element) {
            self.element(child, above, out);
        }
        let _ = write!(out, "</{tag}>");
    }

    fn attributes(
        &self,
        node: Node<'_, '_>,
        drawn: &BTreeMap<&'static str, String>,
        outermost: bool,
    ) -> Vec<(String, String)> {
        let ours = |name: &str| {
            matches!(name, "class" | "role" | "style")
                || name.starts_with("aria-")
                || name.starts_with("data-")
        };
        let placed = |name: &str| {
            let of_page = !outermost && node.tag_name().name() == "svg";
            !(of_page && matches!(name, "viewBox" | "width" | "height"))
        };
        let mut kept: Vec<(String, String)> = node
            .attributes()
            .filter(|attribute| !ours(attribute.name()) && placed(attribute.name()))
            .filter(|attribute| attribute.name() != "id" || self.used.contains(attribute.value()))
            .filter(|attribute| !drawn.contains_key(attribute.name()))
            .map(|attribute| (attribute.name().to_owned(), attribute.value().to_owned()))
            .collect();
        kept.extend(drawn.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        kept
    }

    /// Style that the sheet gives to a part; `above` are the custom properties of the parts around it.
    fn styled(&self, node: Node<'_, '_>, above: &BTreeMap<String, String>) -> Styled {
        let mut custom = above.clone();
        let mut said: BTreeMap<&'static str, &str> = BTreeMap::new();
        let part = Part(node);
        for rule in self.sheet.rules.iter().filter(|rule| rule.selector.matches(&part)) {
            for declaration in &rule.declarations {
                if declaration.name.starts_with(CUSTOM) {
                    let value = resolved(declaration.value, &custom);
                    custom.insert(declaration.name.to_owned(), value);
                } else if let Some(name) = DRAWN.into_iter().find(|name| *name == declaration.name) {
                    said.insert(name, declaration.value);
                }
            }
        }
        let mut drawn = BTreeMap::new();
        for (name, value) in said {
            let value = resolved(value, &custom);
            match (name, paint_and_opacity(&value)) {
                (name, Some((paint, opacity))) if PAINTS.contains(&name) => {
                    drawn.insert(name, paint);
                    let beside = if name == "fill" { "fill-opacity" } else { "stroke-opacity" };
                    drawn.entry(beside).or_insert(opacity);
                }
                // A figure has one size of letters: the one that was asked for.
                ("font-size", _) => {
                    drawn.insert(name, SIZE.to_owned());
                }
                ("font-weight", _) => {
                    let weight =
                        if value.parse().is_ok_and(|weight: f64| weight >= BOLD) { "bold" } else { "normal" };
                    drawn.insert(name, weight.to_owned());
                }
                _ => {
                    drawn.insert(name, value.strip_suffix("px").unwrap_or(&value).to_owned());
                }
            }
        }
        Styled { custom, drawn }
    }
}

/// The custom properties of a part and its descendants, and its own attributes.
struct Styled {
    custom: BTreeMap<String, String>,
    drawn: BTreeMap<&'static str, String>,
}

/// A value with its references replaced. One that leads nowhere is left as it is.
fn resolved(value: &str, custom: &BTreeMap<String, String>) -> String {
    let mut value = value.to_owned();
    for _ in 0..DEEPEST {
        let Some((before, rest)) = value.split_once("var(") else { break };
        let Some((name, after)) = rest.split_once(')') else { break };
        let Some(known) = custom.get(name.trim()) else { break };
        value = format!("{before}{known}{after}");
    }
    value
}

/// The two parts of `rgb(255 255 255 / .55)`, which few programs read.
fn paint_and_opacity(value: &str) -> Option<(String, String)> {
    let inside = value.strip_prefix("rgb(")?.strip_suffix(')')?;
    let (levels, opacity) = inside.split_once('/')?;
    let levels: Vec<u8> = levels.split_whitespace().filter_map(|level| level.parse().ok()).collect();
    let [red, green, blue] = levels[..] else { return None };
    Some((format!("#{red:02x}{green:02x}{blue:02x}"), opacity.trim().to_owned()))
}

fn is_kept(node: &Node<'_, '_>) -> bool {
    let is_of_text = |node: &Node<'_, '_>| {
        node.parent_element()
            .is_some_and(|parent| matches!(parent.tag_name().name(), "text" | "title" | "desc"))
    };
    node.is_element() || (node.is_text() && is_of_text(node))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A part of the drawing, as the sheet's selectors see it.
struct Part<'a, 'input>(Node<'a, 'input>);

impl Element for Part<'_, '_> {
    fn parent_element(&self) -> Option<Self> {
        self.0.parent_element().map(Part)
    }

    fn prev_sibling_element(&self) -> Option<Self> {
        self.0.prev_sibling_element().map(Part)
    }

    fn has_local_name(&self, name: &str) -> bool {
        self.0.tag_name().name() == name
    }

    fn attribute_matches(&self, local_name: &str, operator: AttributeOperator<'_>) -> bool {
        self.0.attribute(local_name).is_some_and(|value| operator.matches(value))
    }

    fn pseudo_class_matches(&self, _: PseudoClass<'_>) -> bool {
        false
    }
}
