//! Draws problems as compilers do; the only module that knows the drawing crate.

use crate::spec::problem::{Place, Problem, Problems, Severity};
use crate::text::turning::{spelled_out, turns_text};
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

/// How the parts of a drawing are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    /// Colours by ANSI escape sequences.
    Ansi,
    /// Text without escape sequences.
    None,
}

impl Problems {
    /// The problems for people, an empty line between two of them.
    pub fn render(&self, colours: Colours, width: usize) -> String {
        render(&self.list, colours, width)
    }
}

/// Problems for people, an empty line between two of them; no line is cut below 60 columns.
pub fn render(problems: &[Problem], colours: Colours, width: usize) -> String {
    let renderer = match colours {
        Colours::Ansi => Renderer::styled(),
        Colours::None => Renderer::plain(),
    };
    let renderer = renderer.term_width(width.max(60));
    let drawn: Vec<String> =
        problems.iter().map(|problem| renderer.render(&[group(&harmless(problem))])).collect();
    drawn.join("\n\n")
}

/// The problem without anything that a terminal would obey: the drawing crate takes out the usual characters only. Places keep their
/// columns.
fn harmless(problem: &Problem) -> Problem {
    let turns = |letter: char| turns_text(letter) && !matches!(letter, '\n' | '\t');
    let place = |place: &Place| Place {
        file: spelled_out(&place.file),
        excerpt: place.excerpt.replace(turns, "\u{fffd}"),
        label: spelled_out(&place.label),
        ..place.clone()
    };
    Problem {
        title: spelled_out(&problem.title),
        places: problem.places.iter().map(place).collect(),
        ..problem.clone()
    }
}

fn group(problem: &Problem) -> Group<'_> {
    let level = match problem.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(problem.title.as_str()).id(problem.code.as_str());
    let mut group = Group::with_title(title);
    for (index, place) in problem.places.iter().enumerate() {
        let kind = if index == 0 { AnnotationKind::Primary } else { AnnotationKind::Context };
        group = group.element(snippet(place, kind));
    }
    for line in lines(problem) {
        group = group.element(Level::NOTE.no_name().message(line));
    }
    group
}

fn snippet(place: &Place, kind: AnnotationKind) -> Snippet<'_, annotate_snippets::Annotation<'_>> {
    let byte = |characters: usize| {
        place.excerpt.char_indices().nth(characters).map_or(place.excerpt.len(), |(index, _)| index)
    };
    let span = byte(place.column - 1)..byte(place.column - 1 + place.length);
    let label = (!place.label.is_empty()).then_some(place.label.as_str());
    Snippet::source(place.excerpt.as_str())
        .line_start(place.line)
        .path(place.file.as_str())
        .annotation(kind.span(span).label(label))
}

/// The notes; they may quote files and arguments.
fn lines(problem: &Problem) -> Vec<String> {
    let mut lines = problem.notes.clone();
    if let Some(affected) = &problem.affected {
        let because =
            if affected.because.is_empty() { String::new() } else { format!(" ({})", affected.because) };
        lines.push(format!("affects {} of {} runs{because}", affected.runs, affected.of));
    }
    if let Some(cure) = &problem.cure {
        lines.push(format!("cure: {cure}"));
    }
    lines.iter().map(|line| spelled_out(line)).collect()
}
