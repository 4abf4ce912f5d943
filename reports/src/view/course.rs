//! How long the steps of each worker were over a run: ranks down, time to the right, the stronger the longer.

use super::condition_title;
use super::rank_matrix::Shade;
use crate::chart::{Area, Figure, Frame, Key, Path, Scale, Sheet, Table, Tick, coordinate};
use crate::findings::Findings;
use crate::number_format::{self, Unit};
use crate::waiting::SLOW_RANK;
use comparison::statistics::median;
use comparison::study::{ArmCell, Condition, JudgedRun};
use recipe::Role;
use record::Nanos;
use serde::Serialize;
use std::collections::BTreeMap;
use store::{Course, WorkerCourse};

/// Rows of a map: more ranks share them.
const MOST_ROWS: usize = 64;

/// Columns of the table behind a map.
const TABLE_STRETCHES: usize = 8;

/// From which ratio to the median on, and the darkness of what lies between it and the next.
const LEVELS: [(f64, f64); 7] =
    [(0.0, 0.05), (0.9, 0.15), (1.1, 0.3), (1.25, 0.45), (SLOW_RANK, 0.62), (2.0, 0.8), (4.0, 1.0)];

/// The map of one run.
#[derive(Debug, Serialize)]
pub(crate) struct Map {
    pub(crate) figure: Figure,
    pub(crate) key: Key,
    pub(crate) condition: String,
    pub(crate) frame: Frame,
    /// Width and height of all cells together.
    pub(crate) size: [String; 2],
    /// Height of a row.
    pub(crate) bar: String,
    pub(crate) levels: Vec<Level>,
    /// Number of columns, each a stretch of the run's time.
    pub(crate) stretches: usize,
    /// Meaning of the shades, from the lightest to the darkest.
    pub(crate) shades: Vec<Shade>,
}

/// The cells of one shade.
#[derive(Debug, Serialize)]
pub(crate) struct Level {
    pub(crate) weight: String,
    pub(crate) label: String,
    /// Strokes as thick as a row is high.
    pub(crate) path: String,
}

/// A run with its place in the study.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'s, 'a> {
    pub(crate) number: usize,
    pub(crate) condition: &'s Condition<'a>,
    pub(crate) cell: &'s ArmCell<'a>,
    pub(crate) judged: &'s JudgedRun<'a>,
}

/// The rows of a map: of each the first and the last rank, and its stretches relative to the median.
struct Rows {
    median: f64,
    ranks: Vec<[u32; 2]>,
    ratios: Vec<Vec<Option<f64>>>,
}

/// `None` unless the steps of several workers were kept.
pub(crate) fn map(findings: &Findings, shown: &Shown<'_, '_>, course: &Course) -> Option<Map> {
    let rows = Rows::of(shown, course)?;
    let arm = findings.study.arm_name(shown.cell.arm);
    let condition = condition_title(shown.condition);
    let height = (440.0 / rows.ranks.len() as f64).clamp(6.0, 18.0);
    let area = area(findings.sheet, height * rows.ranks.len() as f64);
    let unit = Unit::of_seconds(course.to.seconds());
    let x = Scale::new(course.from.seconds()..=course.to.seconds(), area.left..=area.right, unit.factor);
    let y = Scale::new(0.0..=rows.ranks.len() as f64, area.top..=area.bottom, 1.0);
    let labels = [format!("time of training ({})", unit.name), "rank".to_owned()];
    let frame = Frame { y_ticks: rank_ticks(&rows.ranks, &y, height), ..area.frame(&x, &y, labels) };
    Some(Map {
        figure: Figure {
            id: format!("course-{}-{}", shown.number, shown.cell.arm),
            title: format!("Time of each worker's steps over the run: {arm}, {condition}"),
            description: described(course, &rows),
            reading: String::new(),
            table: table(findings, course, &rows),
        },
        key: Key::of_arm(shown.cell.arm, arm),
        condition,
        frame,
        size: [coordinate(area.right - area.left), coordinate(area.bottom - area.top)],
        bar: coordinate(if height > 8.0 { height - 1.0 } else { height }),
        stretches: rows.ratios.iter().map(Vec::len).max().unwrap_or(0),
        levels: levels(&rows, [area.left, area.right], &y),
        shades: (0..LEVELS.len()).map(|level| Shade { weight: weight(level), label: label(level) }).collect(),
    })
}

/// As high as the rows need.
fn area(sheet: Sheet, rows: f64) -> Area {
    let page = Area { width: 500.0, height: 0.0, left: 48.0, right: 490.0, top: 26.0, bottom: 0.0 };
    let area = sheet.small(page);
    Area { top: page.top, bottom: page.top + rows, height: page.top + rows + 44.0, ..area }
}

impl Rows {
    fn of(shown: &Shown<'_, '_>, course: &Course) -> Option<Self> {
        let workers = &course.workers;
        if workers.len() < 2 {
            return None;
        }
        let median = own_median(shown.judged, course).filter(|median| *median > 0.0)?;
        let together = workers.len().div_ceil(MOST_ROWS);
        let ends = |group: &[WorkerCourse]| {
            let rank = |worker: Option<&WorkerCourse>| worker.map_or(0, |worker| worker.rank.0);
            [rank(group.first()), rank(group.last())]
        };
        let ratios = |group: &[WorkerCourse]| -> Vec<Option<f64>> {
            let count = group.iter().map(|worker| worker.stretches.len()).max().unwrap_or(0);
            let own = |place: usize| {
                let longest =
                    group.iter().filter_map(|worker| worker.stretches.get(place).copied().flatten());
                longest.max().map(|own| own.seconds() / median)
            };
            (0..count).map(own).collect()
        };
        let groups = || workers.chunks(together);
        Some(Self { median, ranks: groups().map(ends).collect(), ratios: groups().map(ratios).collect() })
    }
}

/// The median over the workers of their median steps without waiting; of the stretches in runs recorded before paces were kept.
fn own_median(judged: &JudgedRun<'_>, course: &Course) -> Option<f64> {
    let workers = judged.attempt.ranks.iter().filter(|rank| rank.role == Role::Worker);
    let own: Vec<f64> = workers.filter_map(|rank| Some(rank.pace?.own.seconds())).collect();
    let kept = || course.workers.iter().flat_map(|worker| worker.stretches.iter().flatten());
    median(&own).or_else(|| median(&kept().map(|own| own.seconds()).collect::<Vec<_>>()))
}

/// The index of the shade of a ratio.
fn level_of(ratio: f64) -> usize {
    LEVELS.iter().rposition(|(from, _)| ratio >= *from).unwrap_or(0)
}

fn weight(level: usize) -> String {
    LEVELS.get(level).map_or(String::new(), |(_, weight)| format!("{weight:.2}"))
}

/// Range of the ratios of a shade: `1.25× to 1.5×`.
fn label(level: usize) -> String {
    let from = LEVELS.get(level).map_or(0.0, |(from, _)| *from);
    match LEVELS.get(level + 1) {
        Some((to, _)) if level == 0 => format!("below {to}×"),
        Some((to, _)) => format!("{from}× to {to}×"),
        None => format!("{from}× and more"),
    }
}

/// Equal neighbours of a row are one stroke.
fn levels(rows: &Rows, ends: [f64; 2], y: &Scale) -> Vec<Level> {
    let mut paths: BTreeMap<usize, Path> = BTreeMap::new();
    for (row, ratios) in rows.ratios.iter().enumerate() {
        let at = |place: usize| ends[0] + (ends[1] - ends[0]) * place as f64 / ratios.len().max(1) as f64;
        let mut from = 0;
        let levels: Vec<Option<usize>> = ratios.iter().map(|ratio| ratio.map(level_of)).collect();
        for same in levels.chunk_by(|left, right| left == right) {
            let to = from + same.len();
            if let Some(level) = same[0] {
                paths.entry(level).or_default().level([at(from), at(to)], y.at(row as f64 + 0.5));
            }
            from = to;
        }
    }
    let level = |(level, path): (usize, Path)| Level {
        weight: weight(level),
        label: label(level),
        path: path.finish(),
    };
    paths.into_iter().map(level).collect()
}

/// A label at each row, or at every n-th of many.
fn rank_ticks(ranks: &[[u32; 2]], y: &Scale, height: f64) -> Vec<Tick> {
    let stride = (13.0 / height).ceil().max(1.0) as usize;
    let tick = |(row, [first, last]): (usize, &[u32; 2])| Tick {
        at: coordinate(y.at(row as f64 + 0.5)),
        label: if first == last { first.to_string() } else { format!("{first}–{last}") },
    };
    ranks.iter().enumerate().step_by(stride).map(tick).collect()
}

/// The longest step, and the workers that are slow in a tenth of the run or more.
fn described(course: &Course, rows: &Rows) -> String {
    let mut said = Vec::new();
    let mut often: Vec<(f64, [u32; 2])> =
        rows.ratios.iter().map(|ratios| slow_share(ratios)).zip(rows.ranks.iter().copied()).collect();
    often.retain(|(share, _)| *share >= 0.1);
    often.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.cmp(&right.1)));
    match often.first() {
        Some((share, ranks)) => {
            let others = if often.len() > 1 {
                format!("; {} more in a tenth or more", number_format::count(often.len() as u64 - 1))
            } else {
                String::new()
            };
            let subject = match ranks {
                [first, last] if first == last => format!("rank {first} has"),
                [first, last] => format!("ranks {first} to {last} have"),
            };
            let share = number_format::percent(*share);
            said.push(format!(
                "{subject} steps of {SLOW_RANK}× or more in {share} of the stretches{others}."
            ));
        }
        None => {
            said.push(format!("No worker has steps of {SLOW_RANK}× or more in a tenth of the stretches."));
        }
    }
    if let Some(worst) = course.workers.iter().max_by_key(|worker| worker.longest.own) {
        let longest = worst.longest;
        said.push(format!(
            "The longest is step {} of rank {}, {} at {}.",
            number_format::count(longest.step),
            worst.rank,
            number_format::times(longest.own.seconds() / rows.median),
            number_format::seconds(longest.begin.seconds()),
        ));
    }
    said.push(format!("The median is {}.", number_format::seconds(rows.median)));
    crate::verdict::capitalised(&said.join(" "))
}

/// The share of a row's stretches in which its longest step was slow.
fn slow_share(ratios: &[Option<f64>]) -> f64 {
    let known = ratios.iter().flatten().count().max(1);
    ratios.iter().flatten().filter(|ratio| **ratio >= SLOW_RANK).count() as f64 / known as f64
}

/// Of each rank the longest step in each of a few stretches, and of all.
fn table(findings: &Findings, course: &Course, rows: &Rows) -> Table {
    let ratio = |own: Nanos| number_format::times(own.seconds() / rows.median);
    let mut table = Table::new(["rank", "steps kept", "longest", "in step", "at"]);
    let width = (course.to.0.saturating_sub(course.from.0)) as f64 / 1e9 / TABLE_STRETCHES as f64;
    let unit = Unit::of_seconds(course.to.seconds());
    let border =
        |place: usize| number_format::short((course.from.seconds() + width * place as f64) * unit.factor);
    let stretch = |place: usize| format!("{}–{} {}", border(place), border(place + 1), unit.name);
    table.columns.extend((0..TABLE_STRETCHES).map(stretch));
    for worker in &course.workers {
        let mut row = vec![
            worker.rank.to_string(),
            number_format::count(worker.steps),
            ratio(worker.longest.own),
            number_format::count(worker.longest.step),
            number_format::seconds(worker.longest.begin.seconds()),
        ];
        let count = worker.stretches.len();
        for place in 0..TABLE_STRETCHES {
            let own =
                &worker.stretches[count * place / TABLE_STRETCHES..count * (place + 1) / TABLE_STRETCHES];
            row.push(own.iter().flatten().max().map_or_else(|| "–".to_owned(), |own| ratio(*own)));
        }
        table.rows.push(row);
    }
    findings.sheet.cut(&mut table, 256);
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Sample, Straggler, timelines};
    use crate::view::waiting::Section;
    use crate::{Options, Timelines};
    use record::Rank;
    use store::{CourseStep, SweepRows};

    fn rows(workers: u32) -> SweepRows {
        let straggler = Straggler { rank: Rank(3), compute: 3.0, link: 1.0 };
        Sample { workers: vec![workers], repeats: 1, epochs: (1, 1), straggler, ..Sample::duel() }.rows()
    }

    fn section(rows: &SweepRows, given: &Timelines) -> Section {
        Section::of(&Findings::of(rows, &Options::default()).unwrap(), given).unwrap()
    }

    /// Cells of a map by the darkness of their shade, in stretches.
    fn cells(map: &Map) -> BTreeMap<&str, u32> {
        let width = (490.0 - 48.0) / map.stretches as f64;
        let length = |path: &str| -> f64 {
            path.split('h').skip(1).map(|rest| rest.split('m').next().unwrap().parse::<f64>().unwrap()).sum()
        };
        map.levels
            .iter()
            .map(|level| (level.label.as_str(), (length(&level.path) / width).round() as u32))
            .collect()
    }

    #[test]
    fn each_stretch_of_each_rank_has_the_shade_of_its_longest_step() {
        let rows = rows(4);
        let mut given = timelines(&rows);
        for traced in given.values_mut() {
            let course = traced.course.as_mut().unwrap();
            let own = course.workers[0].stretches[0].unwrap().0;
            for worker in &mut course.workers {
                let factor = if worker.rank == Rank(3) { 3 } else { 1 };
                worker.stretches = vec![Some(Nanos(own * factor)); 120];
            }
            // One hiccup, and nothing known of two stretches.
            course.workers[1].stretches[60] = Some(Nanos(own * 9));
            course.workers[1].longest =
                CourseStep { step: 77, begin: Nanos(1_500_000_000), own: Nanos(own * 9) };
            course.workers[2].stretches[..2].fill(None);
        }
        let section = section(&rows, &given);
        assert_eq!(section.courses.len(), 2);
        let map = &section.courses[0];
        let found = cells(map);
        assert_eq!(found.get("2× to 4×"), Some(&120), "{found:?}");
        assert_eq!(found.get("4× and more"), Some(&1), "{found:?}");
        assert_eq!(found.values().sum::<u32>(), 4 * 120 - 2, "{found:?}");
        let said = map.figure.description.replace('\u{a0}', " ");
        assert!(said.starts_with("Rank 3 has steps of 1.5× or more in 100.0 % of the stretches."), "{said}");
        assert!(
            said.contains("The longest is step 77 of rank 1, ") && said.contains(" at 1.50 s."),
            "{said}"
        );
        // The extremes are in the table, too.
        let table = &map.figure.table;
        assert_eq!((table.columns.len(), table.rows.len()), (5 + TABLE_STRETCHES, 4));
        assert_eq!(table.rows[1][5 + 4], table.rows[1][2]);
        assert!(table.rows[1][5 + 3] != table.rows[1][2], "{:?}", table.rows[1]);
    }

    #[test]
    fn more_ranks_than_rows_share_them_and_none_is_lost() {
        let rows = rows(130);
        let mut given = timelines(&rows);
        for traced in given.values_mut() {
            let slow = &mut traced.course.as_mut().unwrap().workers[4];
            slow.stretches.iter_mut().flatten().for_each(|own| own.0 *= 3);
        }
        let section = section(&rows, &given);
        let map = &section.courses[0];
        // 130 ranks in threes.
        assert_eq!(cells(map).values().sum::<u32>(), 44 * 120);
        assert!(map.frame.y_ticks.iter().any(|tick| tick.label == "0–2"), "{:?}", map.frame.y_ticks);
        assert_eq!(map.figure.table.rows.len(), 130);
        assert!(map.figure.description.starts_with("Ranks 3 to 5 have"), "{}", map.figure.description);
    }

    #[test]
    fn what_is_not_shown_is_said() {
        let mut rows = rows(4);
        rows.runs.iter_mut().for_each(|run| run.attempt.as_mut().unwrap().step_stride = 4);
        let without = section(&rows, &Timelines::new());
        assert!(without.courses.is_empty());
        assert_eq!(without.course_note, "2 runs kept no steps of several workers.");
        let some = section(&rows, &timelines(&rows)).course_note;
        assert!(some.starts_with("Of the steps of 2 runs, every n-th and the slowest"), "{some}");
    }

    #[test]
    fn maps_of_other_conditions_are_folded_away() {
        let rows = Sample { workers: vec![2, 4], repeats: 1, epochs: (1, 1), ..Sample::duel() }.rows();
        let section = section(&rows, &timelines(&rows));
        assert_eq!((section.courses.len(), section.other_courses.len()), (2, 2));
        assert!(section.courses.iter().all(|map| map.condition == "workers=2"));
    }

    #[test]
    fn shades_leave_no_ratio_out() {
        let found: Vec<usize> =
            [0.0, 0.89, 0.9, 1.0, 1.3, 1.5, 3.9, 4.0, f64::INFINITY].map(level_of).to_vec();
        assert_eq!(found, [0, 0, 1, 1, 3, 4, 5, 6, 6]);
        assert_eq!([0, 1, 6].map(label), ["below 0.9×", "0.9× to 1.1×", "4× and more"]);
    }
}
