//! The phases of each lane over time: the median run of each arm, at its start, in a typical step, in its longest step.

use super::condition_title;
use super::described::{self, LanePhase};
use super::folding::are_folded;
use super::phases::{self, LegendGroup};
use crate::Timelines;
use crate::chart::{Area, Figure, Frame, Path, Scale, Table, Tick, coordinate};
use crate::findings::Findings;
use crate::number_format::{self, Unit};
use comparison::study::{PlacedCell, Study};
use record::{LaneId, Nanos, Phase, Rank};
use serde::Serialize;
use std::collections::BTreeMap;
use store::{AttemptRow, RunState, SpanRow};

/// The width of a letter of a lane's name, at most on average.
const LETTER: f64 = 7.0;

/// Number of timelines on one page; `bakeoff export` has the others.
const MOST_TIMELINES: usize = 6;

/// The same on a page of many conditions, where they are those of the first one.
const MOST_TIMELINES_FOLDED: usize = 3;

fn most_timelines(study: &Study) -> usize {
    if are_folded(study) { MOST_TIMELINES_FOLDED } else { MOST_TIMELINES }
}

/// Number of lanes in one timeline.
const MOST_LANES: usize = 24;

/// Number of bars in one window, shared by its lanes; shorter spans are merged into the longest phase nearby.
const MOST_SLICES: usize = 4_500;

#[derive(Debug, Serialize)]
pub(crate) struct Section {
    pub(crate) legend: Vec<LegendGroup>,
    pub(crate) timelines: Vec<Timeline>,
    /// The omissions, and their reason; may be empty.
    pub(crate) note: String,
}

/// Timeline of one run.
#[derive(Debug, Serialize)]
pub(crate) struct Timeline {
    pub(crate) arm: String,
    pub(crate) condition: String,
    /// Which run, and why this one.
    pub(crate) run: String,
    /// How far the clocks of its machines are apart; empty where there is one.
    pub(crate) clocks: String,
    pub(crate) windows: Vec<Window>,
}

/// A stretch of the run.
#[derive(Debug, Serialize)]
pub(crate) struct Window {
    pub(crate) figure: Figure,
    pub(crate) frame: Frame,
    pub(crate) lanes: Vec<Tick>,
    pub(crate) phases: Vec<PhasePath>,
    /// Height of a bar.
    pub(crate) bar: String,
    pub(crate) steps: Vec<Tick>,
    pub(crate) note: String,
}

/// All bars of one phase, each a stroke as thick as a bar is high.
#[derive(Debug, Serialize)]
pub(crate) struct PhasePath {
    pub(crate) style: String,
    pub(crate) hatch: String,
    pub(crate) name: String,
    pub(crate) path: String,
}

/// The runs whose spans a page shows, each with its condition and arm: the median run of each cell.
pub(crate) fn chosen_runs(study: &Study) -> Vec<(usize, usize, String)> {
    let middle = |PlacedCell { number, condition, cell }: PlacedCell| {
        let judged = cell.median_run(condition.measure())?;
        Some((number, cell.arm, judged.run.id.clone()))
    };
    let mut chosen: Vec<_> = study.arm_cells().filter_map(middle).collect();
    chosen.truncate(most_timelines(study));
    chosen
}

impl Section {
    pub(crate) fn of(findings: &Findings, given: &Timelines) -> Self {
        let study = &findings.study;
        let mut timelines = Vec::new();
        let mut without = 0;
        let mut thinned = 0;
        for (number, arm, run) in chosen_runs(study) {
            let condition = &study.conditions[number];
            let spans = given.get(&run).map_or(&[][..], |traced| traced.spans.as_slice());
            let row = study.rows.runs.iter().find(|row| row.id == run);
            let attempt = row.and_then(|row| row.attempt.as_ref());
            let apart = attempt.and_then(|attempt| record::clocks_apart(&attempt.hosts));
            let windows = windows(&format!("timeline-{number}-{arm}"), study.arm_name(arm), spans, apart);
            if windows.is_empty() {
                without += 1;
                continue;
            }
            let repeat = row.map_or(0, |row| row.repeat);
            let diverged = row.is_some_and(|row| row.state == RunState::Diverged);
            let aside = if diverged { "; all runs of this arm diverged" } else { "" };
            thinned += usize::from(attempt.is_some_and(|attempt| attempt.traced_steps.is_some()));
            timelines.push(Timeline {
                arm: study.arm_name(arm).to_owned(),
                condition: condition_title(condition),
                run: format!("repeat {} of this arm, the median by speed (run {run}){aside}", repeat + 1),
                clocks: attempt.map_or_else(String::new, clocks),
                windows,
            });
        }
        let pairs: usize =
            study.conditions.iter().flat_map(|c| &c.cells).filter(|cell| !cell.runs.is_empty()).count();
        Self {
            legend: phases::legend(),
            timelines,
            note: note([pairs, most_timelines(study)], without, thinned),
        }
    }
}

/// How well the clocks of the machines of a run are known.
fn clocks(attempt: &AttemptRow) -> String {
    let mut nodes: Vec<u32> = attempt.hosts.iter().map(|reading| reading.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    match record::clocks_apart(&attempt.hosts) {
        Some(apart) => format!(
            "The clocks of its {} machines differ by at most {}: no bar is drawn finer than that, and of events of different machines that are \
             closer together the order is not known. Each wait was measured on one clock.",
            nodes.len(),
            number_format::seconds(apart.seconds())
        ),
        None if nodes.len() > 1 => {
            "How far the clocks of its machines differ was not recorded: no order of events of different \
            machines can be read off. Each wait was measured on one clock."
                .to_owned()
        }
        None => String::new(),
    }
}

/// `shown` are the number of combinations and the most that are shown.
fn note(shown: [usize; 2], without: usize, thinned: usize) -> String {
    let mut notes = Vec::new();
    let [pairs, most] = shown;
    if pairs > most {
        notes.push(format!("The first {most} of {pairs} combinations of arm and condition are shown."));
    }
    if without > 0 {
        notes.push(format!("{} kept no spans (`measure.trace`).", number_format::plural(without, "run")));
    }
    if thinned > 0 {
        notes.push(format!(
            "Of the spans of {}, those of the steps shown here were kept (`measure.steps = \"all\"` keeps each).",
            number_format::plural(thinned, "run")
        ));
    }
    notes.join(" ")
}

/// The compute lanes' bounds of each step that kept its spans.
fn step_bounds(spans: &[SpanRow]) -> BTreeMap<u64, (u64, u64)> {
    let mut bounds = BTreeMap::new();
    for span in spans.iter().filter(|span| span.lane == LaneId::Compute && span.step > 0) {
        let end = (span.begin + span.length).0;
        let (from, to) = bounds.entry(span.step).or_insert((span.begin.0, end));
        *from = span.begin.0.min(*from);
        *to = end.max(*to);
    }
    bounds
}

/// `apart` says how far the clocks differ that the spans were taken from.
fn windows(id: &str, arm: &str, spans: &[SpanRow], apart: Option<Nanos>) -> Vec<Window> {
    let bounds = step_bounds(spans);
    let Some(first) = bounds.keys().next().copied() else { return Vec::new() };
    let length = |step: &u64| bounds[step].1 - bounds[step].0;
    let mut by_length: Vec<u64> = bounds.keys().copied().collect();
    by_length.sort_by_key(|step| (length(step), *step));
    let opening: Vec<u64> = (first..first + 3).take_while(|step| bounds.contains_key(step)).collect();
    let worst = by_length[by_length.len() - 1];
    // The first steps warm up; a typical step is sought among the later ones where there are any.
    let later: Vec<u64> = by_length.iter().copied().filter(|step| !opening.contains(step)).collect();
    let settled = if later.is_empty() { &by_length } else { &later };
    let typical = settled[(settled.len() - 1) / 2];
    let mut chosen = vec![("First steps", opening.clone())];
    if bounds.len() > opening.len() {
        chosen.push(("A typical step", vec![typical]));
    }
    if bounds.len() > 1 && worst != typical {
        chosen.push(("The longest step", vec![worst]));
    }
    chosen
        .into_iter()
        .enumerate()
        .map(|(place, (name, steps))| {
            let from = steps.iter().map(|step| bounds[step].0).min().unwrap_or(0);
            let to = steps.iter().map(|step| bounds[step].1).max().unwrap_or(0);
            let cut = Cut { spans, steps: &steps, bounds: &bounds, from, to, apart };
            cut.window(&format!("{id}-{place}"), arm, name)
        })
        .collect()
}

/// A stretch of a lane in one phase; its ends are shares of the window.
struct Slice {
    phase: Phase,
    from: f64,
    to: f64,
}

struct Cut<'a> {
    spans: &'a [SpanRow],
    steps: &'a [u64],
    bounds: &'a BTreeMap<u64, (u64, u64)>,
    from: u64,
    to: u64,
    apart: Option<Nanos>,
}

impl Cut<'_> {
    fn window(&self, id: &str, arm: &str, name: &str) -> Window {
        let lanes = self.lanes();
        let shown = &lanes[..lanes.len().min(MOST_LANES)];
        let row = if shown.len() > 8 { 16.0 } else { 24.0 };
        let height = 30.0 + row * shown.len() as f64 + 40.0;
        let longest =
            shown.iter().map(|(rank, lane)| lane_name(*rank, *lane).chars().count()).max().unwrap_or(0);
        let left = f64::max(118.0, LETTER * longest as f64 + 12.0);
        let area = Area { left, top: 24.0, bottom: height - 40.0, ..Area::wide(height) };
        let unit = Unit::of_seconds(Nanos(self.to - self.from).seconds());
        let x = Scale::new(0.0..=Nanos(self.to - self.from).seconds(), area.left..=area.right, unit.factor);
        let y = Scale::new(0.0..=1.0, area.bottom..=area.top, 1.0);
        let top = |place: usize| area.top + 3.0 + row * place as f64;
        let place = |place: usize| Tick {
            at: coordinate(top(place) + row / 2.0 + 2.0),
            label: lane_name(shown[place].0, shown[place].1),
        };
        let mut frame =
            area.frame(&x, &y, [format!("time since the window's start ({})", unit.name), String::new()]);
        frame.y_ticks.clear();
        Window {
            frame,
            lanes: (0..shown.len()).map(place).collect(),
            phases: self.paths(shown, &x, &|place| top(place) + (row - 4.0) / 2.0),
            bar: coordinate(row - 4.0),
            steps: self.marks(&x),
            note: self.note(name, lanes.len()),
            figure: Figure {
                id: id.to_owned(),
                title: format!("{name}: {arm}"),
                description: self.described(shown),
                reading: String::new(),
                table: self.table(shown),
            },
        }
    }

    fn step_words(&self) -> String {
        match self.steps {
            [only] => format!("step {only}"),
            steps => format!("steps {} to {}", steps.first().unwrap_or(&0), steps.last().unwrap_or(&0)),
        }
    }

    fn note(&self, name: &str, lanes: usize) -> String {
        let time = number_format::seconds(Nanos(self.to - self.from).seconds());
        let hidden = if lanes > MOST_LANES {
            format!("; the first {MOST_LANES} of {lanes} lanes")
        } else {
            String::new()
        };
        format!("{name} ({}, {time}{hidden})", self.step_words())
    }

    fn lanes(&self) -> Vec<(Rank, LaneId)> {
        let mut lanes: Vec<(Rank, LaneId)> = self.inside().map(|span| (span.rank, span.lane)).collect();
        lanes.sort_unstable();
        lanes.dedup();
        lanes
    }

    /// Lanes other than compute count their own steps, so spans are selected by time.
    fn inside(&self) -> impl Iterator<Item = &SpanRow> {
        self.spans.iter().filter(|span| span.begin.0 < self.to && (span.begin + span.length).0 > self.from)
    }

    /// The beginning of each step, on the rank that begins first.
    fn marks(&self, x: &Scale) -> Vec<Tick> {
        let begin = |step: &u64| Nanos(self.bounds[step].0 - self.from).seconds();
        self.steps
            .iter()
            .map(|step| Tick { at: coordinate(x.at(begin(step))), label: format!("step {step}") })
            .collect()
    }

    fn paths(&self, lanes: &[(Rank, LaneId)], x: &Scale, middle: &dyn Fn(usize) -> f64) -> Vec<PhasePath> {
        let columns = self.columns(lanes.len());
        let mut paths: BTreeMap<Phase, Path> = BTreeMap::new();
        let width = (self.to - self.from).max(1) as f64;
        for (row, lane) in lanes.iter().enumerate() {
            for slice in self.slices(*lane, columns) {
                let left = x.at(slice.from * width / 1e9);
                let right = x.at(slice.to * width / 1e9);
                paths.entry(slice.phase).or_default().level([left, right], middle(row));
            }
        }
        paths
            .into_iter()
            .map(|(phase, path)| PhasePath {
                style: phases::phase_style(phase),
                hatch: phases::hatch(phase).to_owned(),
                name: phase.name().to_owned(),
                path: path.finish(),
            })
            .collect()
    }

    /// Columns of a lane's time: none narrower than the clocks are apart.
    fn columns(&self, lanes: usize) -> usize {
        let most = (MOST_SLICES / lanes.max(1)).min(900);
        let Some(Nanos(apart)) = self.apart.filter(|apart| *apart > Nanos(0)) else { return most };
        usize::try_from((self.to - self.from) / apart).map_or(most, |columns| columns.clamp(1, most))
    }

    /// The lane's time cut into equal columns, each given to the phase that lasts longest in it; equal neighbours
    /// joined.
    fn slices(&self, lane: (Rank, LaneId), columns: usize) -> Vec<Slice> {
        let width = (self.to - self.from).max(1) as f64 / columns as f64;
        let mut held: Vec<BTreeMap<Phase, f64>> = vec![BTreeMap::new(); columns];
        for span in self.inside().filter(|span| (span.rank, span.lane) == lane) {
            let begin = span.begin.0.saturating_sub(self.from) as f64;
            let end = ((span.begin + span.length).0.min(self.to) - self.from) as f64;
            let last = ((end / width) as usize).min(columns - 1);
            for (column, cell) in held.iter_mut().enumerate().take(last + 1).skip((begin / width) as usize) {
                let from = begin.max(column as f64 * width);
                let to = end.min((column + 1) as f64 * width);
                *cell.entry(span.phase).or_insert(0.0) += (to - from).max(0.0);
            }
        }
        let mut slices: Vec<Slice> = Vec::new();
        for (column, cell) in held.iter().enumerate() {
            let longest = cell.iter().max_by(|left, right| left.1.total_cmp(right.1));
            let Some((phase, _)) = longest.filter(|(_, time)| **time > 0.0) else { continue };
            let from = column as f64 / columns as f64;
            let to = (column + 1) as f64 / columns as f64;
            match slices.last_mut() {
                Some(last) if last.phase == *phase && (last.to - from).abs() < 1e-12 => last.to = to,
                _ => slices.push(Slice { phase: *phase, from, to }),
            }
        }
        slices
    }

    fn described(&self, lanes: &[(Rank, LaneId)]) -> String {
        let sums = self.sums();
        let shown = sums.iter().filter(|((rank, lane, _), _)| lanes.contains(&(*rank, *lane)));
        let found: Vec<LanePhase> = shown
            .map(|((rank, lane, phase), (time, _))| LanePhase {
                lane: lane_name(*rank, *lane),
                phase: *phase,
                seconds: time.seconds(),
            })
            .collect();
        let words = match self.steps {
            [only] => format!("The lanes of step {only}"),
            _ => format!("The lanes of {}", self.step_words()),
        };
        described::window(&words, Nanos(self.to - self.from).seconds(), &found)
    }

    /// The time and the number of spans of each phase of each lane in the window.
    fn sums(&self) -> BTreeMap<(Rank, LaneId, Phase), (Nanos, usize)> {
        let mut sums: BTreeMap<(Rank, LaneId, Phase), (Nanos, usize)> = BTreeMap::new();
        for span in self.inside() {
            let begin = span.begin.max(Nanos(self.from));
            let end = (span.begin + span.length).min(Nanos(self.to));
            let sum = sums.entry((span.rank, span.lane, span.phase)).or_default();
            *sum = (sum.0 + (end - begin), sum.1 + 1);
        }
        sums
    }

    fn table(&self, lanes: &[(Rank, LaneId)]) -> Table {
        let mut table = Table::new(["rank", "lane", "phase", "time", "share of the window", "spans"]);
        for ((rank, lane, phase), (time, spans)) in self.sums() {
            if lanes.contains(&(rank, lane)) {
                table.rows.push(vec![
                    rank.to_string(),
                    lane.to_string(),
                    phase.to_string(),
                    number_format::seconds(time.seconds()),
                    number_format::percent(time.0 as f64 / (self.to - self.from).max(1) as f64),
                    spans.to_string(),
                ]);
            }
        }
        table.cut(200);
        table
    }
}

fn lane_name(rank: Rank, lane: LaneId) -> String {
    format!("rank {rank} {lane}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hundred spans of a millisecond, of two phases in turn.
    fn spans() -> Vec<SpanRow> {
        let span = |place: u64| SpanRow {
            rank: Rank(0),
            lane: LaneId::Compute,
            step: 1,
            phase: if place.is_multiple_of(2) { Phase::Forward } else { Phase::Backward },
            begin: Nanos(place * 1_000_000),
            length: Nanos(1_000_000),
            peer: None,
            bytes: 0,
        };
        (0..100).map(span).collect()
    }

    #[test]
    fn no_bar_is_finer_than_the_clocks_are_apart() {
        let spans = spans();
        let bars = |apart: Option<u64>| {
            let [window] = &windows("a", "arm", &spans, apart.map(Nanos))[..] else { panic!("one step") };
            window.phases.iter().map(|phase| phase.path.matches('h').count()).sum::<usize>()
        };
        assert_eq!(bars(None), 100);
        assert_eq!(bars(Some(0)), 100);
        // A span is as long as the clocks may differ.
        assert_eq!(bars(Some(1_000_000)), 100);
        assert!(bars(Some(4_900_000)) <= 20);
        assert_eq!(bars(Some(1_000_000_000)), 1);
    }
}
