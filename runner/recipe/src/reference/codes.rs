//! Every code of a problem, and what there is to say about it.

mod faults;
mod images;
mod pairs;
mod values;
mod warnings;

/// A code of problems, with its page.
#[derive(Debug)]
pub(crate) struct Code {
    /// `R012`. Below R100 a key or value is wrong by itself, below R200 together with others; from R200 on
    /// problems are warnings.
    pub(crate) id: &'static str,
    /// The problem, in a few words.
    pub(crate) title: &'static str,
    /// Why that is refused, and what to do.
    pub(crate) text: &'static str,
}

const fn code(id: &'static str, title: &'static str, text: &'static str) -> Code {
    Code { id, title, text }
}

/// The page of a code.
pub(crate) fn find(code: &str) -> Option<&'static Code> {
    all().find(|page| page.id == code)
}

/// All pages, in the order of their codes.
pub(crate) fn all() -> impl Iterator<Item = &'static Code> {
    values::VALUES
        .iter()
        .chain(pairs::PAIRS)
        .chain(images::IMAGES)
        .chain(faults::FAULTS)
        .chain(warnings::WARNINGS)
}
