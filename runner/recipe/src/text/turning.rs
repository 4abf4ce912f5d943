//! Characters that change how the text around them is shown: a terminal obeys the first kind, the second lets a name read as
//! another one, and the third begins a line where none is meant.

use crate::text::finding::Finding;
use crate::text::source::Span;
use crate::text::tree::{Table, Value};
use std::path::Path;

/// Whether a character changes how the text around it is shown: control characters, marks of direction, and the separators of
/// lines and paragraphs.
pub fn turns_text(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// The text with such characters spelled out, as in `\u{1b}`; ends of lines and tabs stay.
pub fn spelled_out(text: &str) -> String {
    let turns = |letter: char| turns_text(letter) && letter != '\n' && letter != '\t';
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if turns(letter) {
            out.extend(letter.escape_unicode());
        } else {
            out.push(letter);
        }
    }
    out
}

/// Keys of sentences, which may have several lines.
const PROSE: [&str; 3] = ["question", "when", "reason"];

/// Refuses such characters in every text of a recipe: any of them can become a name or a label.
pub(crate) fn refuse(table: &Table, findings: &mut Vec<Finding>) {
    for entry in &table.entries {
        if let Some(letter) = entry.name.chars().find(|letter| turns_text(*letter)) {
            findings.push(finding(letter, Some(entry.name_span)));
        }
        refuse_in(&entry.name, &entry.item.value, entry.item.span, findings);
    }
}

fn refuse_in(key: &str, value: &Value, span: Span, findings: &mut Vec<Finding>) {
    match value {
        Value::Text(text) => {
            let text = if PROSE.contains(&key) { text.replace("\r\n", "\n") } else { text.clone() };
            let is_line = |letter: char| PROSE.contains(&key) && matches!(letter, '\n' | '\t');
            if let Some(letter) = text.chars().find(|letter| turns_text(*letter) && !is_line(*letter)) {
                findings.push(finding(letter, Some(span)));
            }
        }
        Value::List(items) => items.iter().for_each(|item| refuse_in(key, &item.value, item.span, findings)),
        Value::Table(table) => refuse(table, findings),
        Value::Integer(_) | Value::Float(_) | Value::Flag(_) | Value::Foreign(_) => {}
    }
}

/// Refuses such characters in an argument of the command line.
pub(crate) fn refuse_text(text: &str, span: Span, findings: &mut Vec<Finding>) {
    if let Some(letter) = text.chars().find(|letter| turns_text(*letter)) {
        findings.push(finding(letter, Some(span)));
    }
}

/// The path of a recipe is shown by lists and pages, and its name is that of a sweep whose recipe gives none.
pub(crate) fn refuse_file(path: &Path, findings: &mut Vec<Finding>) {
    let path = path.to_string_lossy();
    if let Some(letter) = path.chars().find(|letter| turns_text(*letter)) {
        findings.push(
            finding(letter, None)
                .note("it is in the path of the recipe, which lists and pages show")
                .cure("give the file or the folder another name"),
        );
    }
}

fn finding(letter: char, span: Option<Span>) -> Finding {
    let title = format!("the character {} changes how the text around it is shown", letter.escape_unicode());
    Finding::new("R024", title)
        .at_option(span, "in here")
        .cure("leave it out: names and values are single lines of visible characters")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_turns_text_is_every_control_character_and_mark_of_direction() {
        let ranges =
            [(0, 0x1f), (0x7f, 0x9f), (0x61c, 0x61c), (0x200e, 0x200f), (0x2028, 0x202e), (0x2066, 0x2069)];
        let named = |code: u32| ranges.iter().any(|(from, to)| (*from..=*to).contains(&code));
        for letter in '\0'..=char::MAX {
            assert_eq!(turns_text(letter), named(letter.into()), "{}", letter.escape_unicode());
        }
    }

    #[test]
    fn what_is_spelled_out_keeps_its_lines() {
        assert_eq!(spelled_out("ä\u{1b}[2J\u{202e}\tb\r\nc"), "ä\\u{1b}[2J\\u{202e}\tb\\u{d}\nc");
    }
}
