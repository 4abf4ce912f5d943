//! Which layers' gradients travel together, and when: what was planned beside what was measured.

use super::condition_title;
use super::folding;
use crate::chart::{Figure, Scale, Table, Tick, WIDTH, arm_style, coordinate, row_label};
use crate::findings::Findings;
use crate::number_format::{self, Unit};
use comparison::study::PlacedCell;
use record::{HeldCost, Nanos, ScheduleRecord, ScheduledBucket};
use serde::Serialize;

/// Rows on one page.
const MOST_ROWS: usize = 16;
const LABELS: f64 = 190.0;
const ROW: f64 = 46.0;
const BAR: f64 = 16.0;
const PLANNED: f64 = 7.0;

#[derive(Debug, Serialize)]
pub(crate) struct Section {
    pub(crate) figure: Figure,
    pub(crate) width: String,
    pub(crate) height: String,
    pub(crate) label_x: String,
    pub(crate) axis: Axis,
    pub(crate) rows: Vec<Row>,
    /// Origin of each plan, a sentence each; empty where no schedule has one.
    pub(crate) plans: Vec<String>,
    /// Says how many rows are not shown; empty where all are.
    pub(crate) note: String,
}

/// The scale of time.
#[derive(Debug, Serialize)]
pub(crate) struct Axis {
    pub(crate) title: String,
    pub(crate) middle: String,
    pub(crate) top: String,
    pub(crate) bottom: String,
    pub(crate) labels_y: String,
    pub(crate) ticks: Vec<Tick>,
}

/// The messages of one arm under one condition.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) lines: Vec<Tick>,
    pub(crate) style: String,
    pub(crate) measured: Vec<Message>,
    pub(crate) planned: Vec<Message>,
    /// The end of the backward pass; empty where it is not known.
    pub(crate) computed: String,
    pub(crate) top: String,
    pub(crate) bottom: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct Message {
    pub(crate) x: String,
    pub(crate) y: String,
    pub(crate) width: String,
    pub(crate) height: String,
    pub(crate) title: String,
}

/// The schedule of the median run of an arm under a condition.
struct Found<'a> {
    arm: usize,
    name: &'a str,
    condition: String,
    record: &'a ScheduleRecord,
}

impl Section {
    /// `None` where all gradients travelled whole.
    pub(crate) fn of(findings: &Findings) -> Option<Self> {
        let study = &findings.study;
        let cells = study.arm_cells().filter_map(|PlacedCell { condition, cell, .. }| {
            let record = cell.median_run(condition.measure())?.attempt.schedule.as_ref()?;
            let condition =
                if findings.has_conditions() { condition_title(condition) } else { String::new() };
            Some(Found { arm: cell.arm, name: study.arm_name(cell.arm), condition, record })
        });
        let all: Vec<Found<'_>> = cells.collect();
        let ends = all.iter().flat_map(|found| found.record.buckets.iter().filter_map(last_end));
        let longest = ends.map(Nanos::seconds).reduce(f64::max)?;
        let shown = &all[..all.len().min(MOST_ROWS)];
        let planned = if folding::are_cut(findings) { shown } else { &all };
        let unit = Unit::of_seconds(longest);
        let scale = Scale::new(0.0..=longest, LABELS..=WIDTH - 16.0, unit.factor);
        let top = 30.0;
        let rows: Vec<Row> = shown
            .iter()
            .zip(0..)
            .map(|(found, place)| row(found, top + ROW * f64::from(place), &scale, unit))
            .collect();
        let bottom = top + ROW * rows.len() as f64;
        Some(Self {
            figure: Figure {
                id: "schedule".to_owned(),
                title: "Messages of a step".to_owned(),
                description: description(&all, unit),
                reading: String::new(),
                table: table(&all, findings.has_conditions(), unit),
            },
            width: coordinate(WIDTH),
            height: coordinate(bottom + 24.0),
            label_x: coordinate(LABELS - 10.0),
            axis: Axis {
                title: format!("time from the start of the forward pass ({})", unit.name),
                middle: coordinate((LABELS + WIDTH - 16.0) / 2.0),
                top: coordinate(top - 6.0),
                bottom: coordinate(bottom),
                labels_y: coordinate(bottom + 16.0),
                ticks: scale.ticks(8),
            },
            rows,
            plans: planned.iter().filter_map(|found| plan(found, unit)).collect(),
            note: match all.len() {
                count if count <= MOST_ROWS => String::new(),
                count if planned.len() < count => {
                    format!("The first {MOST_ROWS} of {count} schedules are drawn, and their plans said.")
                }
                count => format!("The first {MOST_ROWS} of {count} schedules are drawn."),
            },
        })
    }
}

/// The later end of a message, as planned or as measured.
fn last_end(bucket: &ScheduledBucket) -> Option<Nanos> {
    bucket.predicted.into_iter().chain(bucket.measured).map(|(_, end)| end).max()
}

impl Found<'_> {
    fn title(&self) -> String {
        if self.condition.is_empty() {
            self.name.to_owned()
        } else {
            format!("{}, {}", self.name, self.condition)
        }
    }
}

fn row(found: &Found<'_>, top: f64, scale: &Scale, unit: Unit) -> Row {
    let title = found.title();
    let message =
        |bucket: &ScheduledBucket, what: &str, (begin, end): (Nanos, Nanos), y: f64, height: f64| {
            let begin = begin.seconds();
            let end = end.seconds();
            Message {
                x: coordinate(scale.at(begin)),
                y: coordinate(y),
                width: coordinate(scale.length(end - begin).max(1.0)),
                height: coordinate(height),
                title: format!(
                    "{title}: {} ({}), {what} from {} to {}",
                    layers(bucket),
                    size(bucket),
                    unit.short(begin),
                    unit.short(end)
                ),
            }
        };
    let buckets = &found.record.buckets;
    let measured = buckets.iter().filter_map(|bucket| {
        bucket.measured.map(|times| message(bucket, "measured", times, top + 14.0, BAR))
    });
    let planned = buckets.iter().filter_map(|bucket| {
        bucket.predicted.map(|times| message(bucket, "planned", times, top + 4.0, PLANNED))
    });
    let lines = row_label(&title);
    let first = top + 26.0 - 7.0 * (lines.len() - 1) as f64;
    Row {
        lines: lines
            .into_iter()
            .zip(0..)
            .map(|(label, line)| Tick { at: coordinate(first + 14.0 * f64::from(line)), label })
            .collect(),
        name: title.clone(),
        style: arm_style(found.arm),
        measured: measured.collect(),
        planned: planned.collect(),
        computed: found
            .record
            .cost
            .map_or_else(String::new, |cost| coordinate(scale.at(cost.computed.seconds()))),
        top: coordinate(top),
        bottom: coordinate(top + ROW - 10.0),
    }
}

/// `linear2 to linear4`, from the input on.
fn layers(bucket: &ScheduledBucket) -> String {
    match (bucket.layers.first(), bucket.layers.last()) {
        (Some(first), Some(last)) if first != last => format!("{first} to {last}"),
        (Some(first), _) => first.clone(),
        (None, _) => String::new(),
    }
}

fn size(bucket: &ScheduledBucket) -> String {
    number_format::bytes(4.0 * bucket.elements as f64)
}

/// Origin of a plan, in a sentence; `None` of a schedule without one.
fn plan(found: &Found<'_>, unit: Unit) -> Option<String> {
    let cost = found.record.cost?;
    let held = match cost.held {
        None => "",
        Some(HeldCost::StartUp) => " (no start-up time could be told apart)",
        Some(HeldCost::PerByte) => " (no time per byte could be told apart)",
    };
    Some(format!(
        "{}: planned before step {} for messages of {} + {} per MiB{held} (measured messages off by at most {}), with the backward \
         pass ending at {}.",
        found.title(),
        found.record.from_step,
        number_format::seconds(cost.start_up),
        number_format::seconds(cost.per_byte * 1_048_576.0),
        number_format::percent(cost.worst),
        unit.short(cost.computed.seconds()),
    ))
}

fn description(all: &[Found<'_>], unit: Unit) -> String {
    let sentence = |found: &Found<'_>| {
        let count = number_format::plural(found.record.buckets.len(), "message");
        let end = found.record.buckets.iter().filter_map(|bucket| bucket.measured).map(|(_, end)| end).max();
        match end {
            Some(end) => {
                format!("{}: {count}, the last one ends at {}.", found.title(), unit.short(end.seconds()))
            }
            None => format!("{}: {count}.", found.title()),
        }
    };
    all.iter().take(MOST_ROWS).map(sentence).collect::<Vec<_>>().join(" ")
}

fn table(all: &[Found<'_>], has_conditions: bool, unit: Unit) -> Table {
    let mut table =
        Table::new(["arm", "condition", "layers", "size", "planned begin", "planned end", "begin", "end"]);
    let time = |time: Option<Nanos>| time.map_or_else(|| "–".to_owned(), |time| unit.short(time.seconds()));
    for found in all {
        for bucket in &found.record.buckets {
            let planned = bucket.predicted;
            let measured = bucket.measured;
            let mut row = vec![found.name.to_owned(), found.condition.clone(), layers(bucket), size(bucket)];
            for times in [planned, measured] {
                row.push(time(times.map(|(begin, _)| begin)));
                row.push(time(times.map(|(_, end)| end)));
            }
            table.rows.push(row);
        }
    }
    if !has_conditions {
        table.columns.remove(1);
        table.rows.iter_mut().for_each(|row| drop(row.remove(1)));
    }
    table.cut(200);
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::sample::Sample;
    use record::{Rank, ScheduleCost};

    fn bucket(names: [&str; 2], times: [u64; 4]) -> ScheduledBucket {
        let [from, to, begin, end] = times.map(|millis| Nanos(millis * 1_000_000));
        ScheduledBucket {
            layers: names.map(str::to_owned).to_vec(),
            elements: 262_144,
            predicted: Some((from, to)),
            measured: Some((begin, end)),
        }
    }

    fn record() -> ScheduleRecord {
        ScheduleRecord {
            rank: Rank(0),
            at: Nanos(0),
            from_step: 9,
            steps: 92,
            cost: Some(ScheduleCost {
                start_up: 1e-3,
                per_byte: 2e-8,
                worst: 0.04,
                held: None,
                computed: Nanos(40_000_000),
            }),
            layers: Vec::new(),
            buckets: vec![bucket(["c", "d"], [20, 30, 21, 32]), bucket(["a", "b"], [40, 50, 41, 52])],
        }
    }

    #[test]
    fn what_was_planned_stands_beside_what_was_measured() {
        let mut rows = Sample { workers: vec![2], repeats: 1, ..Sample::duel() }.rows();
        let options = Options::default();
        let none = crate::findings::Findings::of(&rows, &options).unwrap();
        assert!(Section::of(&none).is_none(), "nothing travels layer by layer");
        rows.runs[1].attempt.as_mut().unwrap().schedule = Some(record());
        let findings = crate::findings::Findings::of(&rows, &options).unwrap();
        let section = Section::of(&findings).unwrap();
        let plain = |row: &Vec<String>| row[1..].join(" ").replace('\u{a0}', " ");
        let cells: Vec<String> = section.figure.table.rows.iter().map(plain).collect();
        let wanted = [
            "c to d 1.00 MiB 20.0 ms 30.0 ms 21.0 ms 32.0 ms",
            "a to b 1.00 MiB 40.0 ms 50.0 ms 41.0 ms 52.0 ms",
        ];
        assert_eq!(cells, wanted);
        let [row] = &section.rows[..] else { panic!("one arm has a schedule") };
        let place = |text: &str| text.parse::<f64>().unwrap();
        // The line is where the second message was planned to begin, and a millisecond before it did.
        assert!((place(&row.computed) - place(&row.planned[1].x)).abs() < 0.1);
        let millisecond = (WIDTH - 16.0 - LABELS) / 52.0;
        assert!((place(&row.measured[1].x) - place(&row.computed) - millisecond).abs() < 0.2);
        assert!((place(&row.measured[0].width) - 11.0 * millisecond).abs() < 0.2);
        assert!(section.plans[0].contains("planned before step 9"), "{:?}", section.plans);
    }
}
