//! The legend of a figure: its entries in rows above the charts.

use crate::chart::{Key, coordinate};
use crate::view::winner_map::clipped;
use serde::Serialize;

/// The sample of an entry, by what it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Sample {
    /// An arm's line with its mark.
    Line,
    /// An arm's mark, without its line.
    Mark,
    /// An area that an arm won, with its hatch and its mark.
    Won,
    /// An area, as of a phase.
    Area,
}

impl Sample {
    /// Width of the sample, and of the space to the name.
    fn width(self) -> f64 {
        match self {
            Self::Line => 32.0,
            Self::Mark => 14.0,
            Self::Won | Self::Area => 24.0,
        }
    }
}

/// An entry before it has a place.
pub(super) struct LegendEntry {
    pub(super) sample: Sample,
    pub(super) key: Key,
    /// Id of a pattern over the area; empty for none.
    pub(super) hatch: String,
}

impl LegendEntry {
    pub(super) fn of(sample: Sample, keys: Vec<Key>) -> Vec<Self> {
        keys.into_iter().map(|key| Self { sample, key, hatch: String::new() }).collect()
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Legend {
    pub(super) items: Vec<Item>,
    #[serde(skip)]
    pub(super) height: f64,
}

/// An entry with its place.
#[derive(Debug, Serialize)]
pub(super) struct Item {
    sample: Sample,
    x: String,
    y: String,
    style: String,
    mark: String,
    hatch: String,
    name: String,
    text_x: String,
}

/// Distance between the baselines of two rows.
const ROW: f64 = 18.0;

/// Width of a letter on average; names are rarely wider.
const LETTER: f64 = 6.5;

/// Distance between an entry and the next one in its row.
const GAP: f64 = 16.0;

impl Legend {
    /// As many entries in a row as fit into `width`.
    pub(super) fn of(entries: &[LegendEntry], width: f64) -> Self {
        let mut x = 0.0;
        let mut y = 10.0;
        let mut items = Vec::new();
        for entry in entries {
            let beside = entry.sample.width();
            let room = ((width - beside) / LETTER).max(4.0) as usize;
            let name = clipped(&entry.key.name, room);
            let wide = beside + LETTER * name.chars().count() as f64;
            if x > 0.0 && x + wide > width {
                x = 0.0;
                y += ROW;
            }
            items.push(Item {
                sample: entry.sample,
                x: coordinate(x),
                y: coordinate(y),
                style: entry.key.style.clone(),
                mark: entry.key.mark.clone(),
                hatch: entry.hatch.clone(),
                name,
                text_x: coordinate(beside),
            });
            x += wide + GAP;
        }
        let height = if items.is_empty() { 0.0 } else { y + 14.0 };
        Self { items, height }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_do_not_fit_begin_a_row() {
        let keys = ["d-sync", "ps-sync", "a strategy with a long name"].map(|name| Key::of_arm(0, name));
        let legend = Legend::of(&LegendEntry::of(Sample::Line, keys.to_vec()), 200.0);
        let places: Vec<[&str; 2]> =
            legend.items.iter().map(|item| [item.x.as_str(), item.y.as_str()]).collect();
        assert_eq!(places, [["0", "10"], ["87", "10"], ["0", "28"]]);
        assert!(Legend::of(&[], 200.0).height == 0.0);
    }
}
