//! A figure as a page of a PDF, just as large as the figure, its letters embedded.

use crate::exit::{Exit, Failure};
use std::collections::BTreeSet;
use std::sync::Arc;
use svg2pdf::usvg::fontdb::{Database, Family, Query};
use svg2pdf::usvg::{self, Group, Node, Options, Tree};
use svg2pdf::{ConversionOptions, PageOptions, to_pdf};

/// Units of an SVG in an inch, by which its millimetres are read.
const UNITS: f32 = 96.0;

/// A figure as a PDF.
pub(crate) struct Pdf {
    pub(crate) bytes: Vec<u8>,
    /// Characters that no installed font has: a box stands for each.
    pub(crate) missing: BTreeSet<char>,
}

/// The PDF of an SVG; its letters are of the first of `families` that is installed, or of any that has them.
pub(crate) fn pdf(svg: &str, families: &str) -> Result<Pdf, Failure> {
    let mut fonts = Database::new();
    fonts.load_system_fonts();
    let family = installed(&fonts, families).ok_or_else(|| no_font(&fonts, families))?;
    let options =
        Options { dpi: UNITS, font_family: family.clone(), fontdb: Arc::new(fonts), ..Options::default() };
    // Other programs choose among the families by themselves; this one takes one that is there.
    let svg = svg.replacen(
        &format!("font-family=\"{}\"", attribute(families)),
        &format!("font-family=\"{}\"", attribute(&family)),
        1,
    );
    let tree = Tree::from_str(&svg, &options).map_err(|error: usvg::Error| broken(&error))?;
    let bytes = to_pdf(&tree, ConversionOptions::default(), PageOptions { dpi: UNITS });
    let mut missing = BTreeSet::new();
    collect_missing(tree.root(), &mut missing);
    Ok(Pdf { bytes: bytes.map_err(|error| broken(&error))?, missing })
}

/// The first glyph of every font stands for what it does not have.
const NO_GLYPH: u16 = 0;

fn collect_missing(group: &Group, missing: &mut BTreeSet<char>) {
    for node in group.children() {
        match node {
            Node::Group(inner) => collect_missing(inner, missing),
            Node::Text(text) => {
                let glyphs = text.layouted().iter().flat_map(|span| &span.positioned_glyphs);
                missing.extend(
                    glyphs.filter(|glyph| glyph.id.0 == NO_GLYPH).flat_map(|glyph| glyph.text.chars()),
                );
            }
            Node::Path(_) | Node::Image(_) => {}
        }
    }
}

fn broken(error: &impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Internal, format!("the figure cannot be written as PDF: {error}"))
        .cure("write it as .svg, and convert it with another program")
}

fn attribute(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The name of the first family that a font is installed of.
fn installed(fonts: &Database, families: &str) -> Option<String> {
    let names = families.split(',').map(|name| name.trim().trim_matches(['"', '\'']));
    names.filter(|name| !name.is_empty()).find_map(|name| match name {
        "sans-serif" | "serif" | "monospace" => any_of_kind(fonts, name),
        _ => {
            let query = Query { families: &[Family::Name(name)], ..Query::default() };
            fonts.query(&query).map(|_| name.to_owned())
        }
    })
}

/// A family that is there, whatever the machine calls its usual one: with serifs, without, or of equal widths.
fn any_of_kind(fonts: &Database, kind: &str) -> Option<String> {
    let mut families: Vec<&str> = fonts
        .faces()
        .filter(|face| face.monospaced == (kind == "monospace"))
        .filter_map(|face| face.families.first().map(|(name, _)| name.as_str()))
        .collect();
    families.sort_unstable();
    let has_serifs =
        |name: &&&str| name.contains("Serif") || name.contains("Roman") || name.contains("Times");
    match kind {
        "serif" => families.iter().find(has_serifs),
        "sans-serif" => families.iter().find(|name| name.contains("Sans")).or(families.first()),
        _ => families.first(),
    }
    .map(|name| (*name).to_owned())
}

fn no_font(fonts: &Database, families: &str) -> Failure {
    let failure = Failure::new(Exit::Preflight, format!("no font of {families} is installed"));
    let mut known: Vec<&str> =
        fonts.faces().filter_map(|face| face.families.first().map(|(name, _)| name.as_str())).collect();
    known.sort_unstable();
    known.dedup();
    known.truncate(6);
    if known.is_empty() {
        return failure
            .cure("install one, as the package fonts-dejavu-core of Debian, or write the figure as .svg");
    }
    failure.cure(format!("name one with --font, such as {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SVG: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 340 170\" width=\"85.00mm\" height=\"42.50mm\" \
        font-family=\"Nowhere, sans-serif\"><text x=\"10\" y=\"20\" font-size=\"12\">d-sync</text></svg>";

    #[test]
    fn a_page_is_as_large_as_its_figure_and_has_its_letters() {
        let mut fonts = Database::new();
        fonts.load_system_fonts();
        match pdf(SVG, "Nowhere, sans-serif") {
            Ok(pdf) => {
                assert_eq!(pdf.missing, BTreeSet::new());
                let text = String::from_utf8_lossy(&pdf.bytes);
                // 85 mm and 42.5 mm in points.
                let box_begin = text.find("/MediaBox").unwrap();
                let sides: Vec<f64> = text[box_begin..]
                    .split(['[', ']'])
                    .nth(1)
                    .unwrap()
                    .split_whitespace()
                    .map(|side| side.parse().unwrap())
                    .collect();
                assert!((sides[2] - 240.945).abs() < 0.01 && (sides[3] - 120.472).abs() < 0.01, "{sides:?}");
                assert!(text.contains("/FontFile"), "no letters are embedded");
            }
            Err(_) => assert!(any_of_kind(&fonts, "sans-serif").is_none()),
        }
        assert!(pdf(SVG, "Nowhere").is_err());
        assert!(pdf("<svg", "sans-serif").is_err());
    }

    /// Characters that no standard has assigned: no font has them.
    #[test]
    fn what_no_font_has_is_named() {
        let svg = SVG.replace("d-sync", "d-\u{3fff0}sync\u{3fff1}\u{3fff0}");
        if let Ok(pdf) = pdf(&svg, "Nowhere, sans-serif") {
            assert_eq!(pdf.missing, BTreeSet::from(['\u{3fff0}', '\u{3fff1}']));
        }
    }
}
