//! Renders a view as HTML. Templates see only the view; an unknown name is an error.

use crate::ReportError;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use serde::Serialize;

/// The text of a template with a view.
#[expect(clippy::expect_used, reason = "generated while building, which checked the same templates")]
pub(crate) fn text(template: &str, view: &impl Serialize) -> Result<String, ReportError> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    // All templates, because all contain text of users.
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    minijinja_embed::load_templates!(&mut environment);
    Ok(environment.get_template(template)?.render(Serde(view))?)
}
