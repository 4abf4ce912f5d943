//! Embeds the templates and checks their syntax while building.

fn main() {
    minijinja_embed::embed_templates!("../templates", &[".html", ".svg", ".css", ".js", ".xml"]);
}
