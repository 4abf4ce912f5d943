//! Renders a view as HTML. Templates see only the view; an unknown name is an error.

use crate::ReportError;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, HtmlEscape, UndefinedBehavior};
use serde::Serialize;

/// The text of a template with a view.
#[expect(clippy::expect_used, reason = "generated while building, which checked the same templates")]
pub(crate) fn text(template: &str, view: &impl Serialize) -> Result<String, ReportError> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    // All templates, because all contain text of users.
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.add_filter("code", |text: String| Value::from_safe_string(code(&text)));
    minijinja_embed::load_templates!(&mut environment);
    Ok(environment.get_template(template)?.render(Serde(view))?)
}

/// A text, escaped, with what stands between backticks as code. A backtick without a second one stays, and so does one within a word:
/// names of users may have some.
fn code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, inside, after)) = quoted(rest) {
        out.push_str(&escaped(before));
        out.push_str("<code>");
        out.push_str(&escaped(inside));
        out.push_str("</code>");
        rest = after;
    }
    out.push_str(&escaped(rest));
    out
}

/// The text before the first backtick that opens, that between it and the next one, which must close, and the rest.
fn quoted(text: &str) -> Option<(&str, &str, &str)> {
    let opens =
        |before: &str| before.chars().next_back().is_none_or(|last| last.is_whitespace() || last == '(');
    let closes = |rest: &str| rest.chars().next().is_none_or(|first| !first.is_alphanumeric());
    let has_edges = |inside: &str| !inside.is_empty() && inside.trim() == inside;
    text.match_indices('`').find_map(|(place, _)| {
        let before = &text[..place];
        let (inside, rest) = text[place + 1..].split_once('`')?;
        (opens(before) && closes(rest) && has_edges(inside)).then_some((before, inside, rest))
    })
}

fn escaped(text: &str) -> String {
    HtmlEscape(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::code;

    #[test]
    fn only_pairs_of_backticks_are_code_and_all_is_escaped() {
        assert_eq!(code("run `a < b` & `c`"), "run <code>a &lt; b</code> &amp; <code>c</code>");
        assert_eq!(code("one ` alone <b>"), "one ` alone &lt;b&gt;");
        assert_eq!(code("`</code><script>`"), "<code>&lt;&#x2f;code&gt;&lt;script&gt;</code>");
        assert_eq!(code(""), "");
        assert_eq!(code("a` was faster than b`"), "a` was faster than b`");
        assert_eq!(
            code("x` and y were not; `--fresh` trains"),
            "x` and y were not; <code>--fresh</code> trains"
        );
    }
}
