//! Texts of others, made safe for a terminal: nothing is left that it would obey, except for our own colours.

use recipe::turns_text;

/// The text with control characters and marks of direction spelled out. Ends of lines, tabs and colours stay.
pub(crate) fn calm(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        if let Some(length) = colour(rest) {
            let (code, after) = rest.split_at(length);
            out.push_str(code);
            rest = after;
            continue;
        }
        if turns_text(letter) && letter != '\n' && letter != '\t' {
            out.extend(letter.escape_unicode());
        } else {
            out.push(letter);
        }
        rest = rest.get(letter.len_utf8()..).unwrap_or_default();
    }
    out
}

/// Bytes of the escape sequence for a colour that a text begins with: `ESC [ 1 ; 31 m`.
fn colour(text: &str) -> Option<usize> {
    let inside = text.strip_prefix("\u{1b}[")?;
    let end = inside.find(|letter: char| !letter.is_ascii_digit() && letter != ';')?;
    inside.get(end..)?.starts_with('m').then_some(2 + end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_stay_and_everything_else_that_a_terminal_obeys_is_spelled_out() {
        let painted = "\u{1b}[1m\u{1b}[38;5;9mä\u{1b}[0m\n\tb";
        assert_eq!(calm(painted), painted);
        let cases = [
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("\u{1b}]0;owned\u{7}", "\\u{1b}]0;owned\\u{7}"),
            ("\u{1b}[31", "\\u{1b}[31"),
            ("\u{1b}", "\\u{1b}"),
            ("a\rb\u{9b}1m", "a\\u{d}b\\u{9b}1m"),
            ("a\u{202e}b\u{2028}", "a\\u{202e}b\\u{2028}"),
        ];
        for (text, told) in cases {
            assert_eq!(calm(text), told);
        }
    }
}
