//! Fewer marks of a crowded chart, without an empty place where there were some.

use super::{Place, WIDTH};
use crate::number_format;
use std::collections::BTreeSet;

/// Marks of a chart of many conditions.
const MOST_MARKS: usize = 1_000;

/// Side of the smallest squares, in which marks cover each other.
const SMALLEST: f64 = 4.0;

/// A mark of a chart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) arm: usize,
    /// Whether it is drawn otherwise than most marks of its arm, which then never stand for it.
    pub(crate) differs: bool,
    pub(crate) place: Place,
}

/// For each mark whether it is drawn: of marks that look alike in one square, the first. Squares grow until few enough are
/// drawn.
pub(crate) fn uncrowded(marks: &[Mark]) -> Vec<bool> {
    let mut side = SMALLEST;
    loop {
        let square = |at: f64| (at / side).floor() as i64;
        let mut taken = BTreeSet::new();
        let is_first =
            |mark: &Mark| taken.insert((mark.arm, mark.differs, square(mark.place.x), square(mark.place.y)));
        let drawn: Vec<bool> = marks.iter().map(is_first).collect();
        // A square as large as a chart holds one of each kind.
        if taken.len() <= MOST_MARKS || side > WIDTH {
            return drawn;
        }
        side *= 1.5;
    }
}

/// The remark on a chart with marks that are not drawn; `rest` says where all of them are. `None` where all are drawn.
pub(crate) fn uncrowded_remark(drawn: &[bool], rest: &str) -> Option<String> {
    let count = drawn.iter().filter(|drawn| **drawn).count();
    (count < drawn.len()).then(|| {
        format!(
            " Of marks of one arm that lie close together one is drawn, {} of {}; {rest}.",
            number_format::count(count as u64),
            number_format::count(drawn.len() as u64)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(arm: usize, x: f64, y: f64) -> Mark {
        Mark { arm, differs: false, place: Place { x, y } }
    }

    #[test]
    fn marks_that_lie_alone_are_drawn_however_many_others_there_are() {
        let crowd = (0..20_000_u32).map(|number| mark(0, f64::from(number % 200), f64::from(number / 200)));
        let mut marks: Vec<Mark> = crowd.collect();
        marks.extend([
            mark(0, 900.0, 300.0),
            mark(1, 10.0, 10.0),
            Mark { differs: true, ..mark(0, 10.0, 10.0) },
        ]);
        let drawn = uncrowded(&marks);
        let count = drawn.iter().filter(|drawn| **drawn).count();
        assert!((100..=MOST_MARKS).contains(&count), "{count}");
        assert_eq!(drawn[20_000..], [true; 3]);
        let said = uncrowded_remark(&drawn, "the CSV files have all").unwrap();
        assert!(
            said.ends_with(&format!("{count} of {}; the CSV files have all.", number_format::count(20_003))),
            "{said}"
        );
    }

    #[test]
    fn few_marks_that_do_not_cover_each_other_are_all_drawn() {
        let marks: Vec<Mark> = (0..30_u32).map(|number| mark(0, f64::from(number) * 5.0, 20.0)).collect();
        assert_eq!(uncrowded(&marks), vec![true; 30]);
        assert_eq!(uncrowded_remark(&[true; 30], "the CSV files have all"), None);
    }

    #[test]
    fn more_arms_than_marks_have_a_mark_each() {
        let marks: Vec<Mark> = (0..2_000).map(|arm| mark(arm, 1.0, 1.0)).collect();
        assert_eq!(uncrowded(&marks), vec![true; 2_000]);
    }
}
