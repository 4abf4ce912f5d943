//! Sheets that charts are drawn on: the page, or a figure of its own for print.

use super::{Area, Table, WIDTH};

/// Height of a figure by its width, where the page's charts are flatter than that.
const STEEP: f64 = 0.62;

/// Height of a figure whose two axes have the same unit.
const SQUARE: f64 = 0.92;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Sheet {
    #[default]
    Page,
    /// As wide as this, in units of which a letter is twelve high.
    Figure { width: f64 },
}

impl Sheet {
    /// Width of a chart as wide as the sheet.
    pub(crate) fn width(self) -> f64 {
        match self {
            Self::Page => WIDTH,
            Self::Figure { width } => width,
        }
    }

    /// Keeps the first `most` rows on the page; a figure's table is the only one there is.
    pub(crate) fn cut(self, table: &mut Table, most: usize) {
        if self == Self::Page {
            table.cut(most);
        }
    }

    /// A chart as wide as the sheet; on the page as high as `height`.
    pub(crate) fn wide(self, height: f64) -> Area {
        match self {
            Self::Page => Area::wide(height),
            Self::Figure { width } => Self::fitted(width, (width * STEEP).min(height)),
        }
    }

    /// The page's chart, or one as wide as the figure.
    pub(crate) fn small(self, page: Area) -> Area {
        match self {
            Self::Page => page,
            Self::Figure { width } => Self::fitted(width, (width * STEEP).min(page.height)),
        }
    }

    /// The same for two axes with one unit.
    pub(crate) fn square(self, page: Area) -> Area {
        match self {
            Self::Page => page,
            Self::Figure { width } => Self::fitted(width, (width * SQUARE).min(page.height)),
        }
    }

    fn fitted(width: f64, height: f64) -> Area {
        Area { width, height, left: 58.0, right: width - 12.0, top: 26.0, bottom: height - 42.0 }
    }
}
