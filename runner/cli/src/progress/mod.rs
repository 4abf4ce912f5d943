//! Progress of a sweep: a bar and a line on a terminal, else one line per change of state.

mod bars;
mod run_view;
mod sending;
mod training;
mod transfer;

pub(crate) use sending::Sending;
pub(crate) use transfer::Transfer;

use crate::args::ProgressChoice;
use crate::durations::Estimate;
use crate::live::{Board, Live, LiveArm};
use crate::live_curve::LiveCurve;
use crate::output::paint::{FAINT, paint, state_style};
use crate::output::{self, Console, Loudness, human};
use bars::Bars;
use launch::Update;
use recipe::{Arm, Plan, Run};
use record::Nanos;
use run_view::RunView;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use store::{Driver, RunState, SweepId};

/// Columns for the state of a run that ended, above the bars.
const MARGIN: usize = 13;

/// The progress display. Clones share it.
#[derive(Clone)]
pub(crate) struct Progress {
    console: Console,
    state: Arc<Mutex<State>>,
}

struct State {
    bars: Option<Bars>,
    /// Lines for changes of state.
    plain: bool,
    total: usize,
    ended: usize,
    /// Expected duration of the runs that are left, those under way among them.
    expected: Option<Estimate>,
    /// The runs under way, in the order in which they began.
    under_way: Vec<(Run, RunView)>,
    /// The most of them.
    at_once: usize,
    begun: Instant,
    /// The most of a cell.
    repeats: u32,
    /// Whether that many are made only while something is open.
    until_decided: bool,
    /// For `bakeoff status`, with the parts that do not change.
    board: Option<(Board, Live)>,
}

/// How a run of the sweep ended, for the line about it.
pub(crate) struct RunEnd<'a> {
    /// State of the run at its end.
    pub(crate) state: RunState,
    /// The wall time, where it was trained.
    pub(crate) wall: Option<Nanos>,
    /// Why, where it did not end as planned.
    pub(crate) detail: &'a str,
    /// Whether its recipe asked for what it lost or failed by.
    pub(crate) as_ordered: bool,
}

impl Progress {
    /// Begins a sweep; [`add`](Self::add) says how many runs it has.
    pub(crate) fn begin(choice: ProgressChoice, console: &Console, plan: &Plan) -> Self {
        let quiet = console.loudness() == Loudness::Quiet;
        let terminal = std::io::stderr().is_terminal();
        let bar = match choice {
            ProgressChoice::Auto => terminal && !quiet,
            ProgressChoice::Bar => true,
            ProgressChoice::Plain | ProgressChoice::None => false,
        };
        let plain = !bar && !quiet && choice != ProgressChoice::None;
        let state = State {
            bars: bar.then(|| Bars::new(console.show_bars())),
            plain,
            total: 0,
            ended: 0,
            expected: None,
            under_way: Vec::new(),
            at_once: 1,
            begun: Instant::now(),
            repeats: plan.runs.iter().map(|run| run.repeat + 1).max().unwrap_or(0),
            until_decided: !plan.looks.is_empty(),
            board: None,
        };
        Self { console: console.clone(), state: Arc::new(Mutex::new(state)) }
    }

    /// Shows the sweep to other commands too, until it is finished.
    pub(crate) fn publish(&self, store: &Path, plan: &Plan, sweep: &SweepId) {
        let live = Live {
            driver: Driver::this(),
            sweep: sweep.to_string(),
            recipe: plan.name.clone(),
            argv: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
            since: human::now(),
            written: human::now(),
            runs: 0,
            ended: 0,
            seconds_left: None,
            left_by: String::new(),
            run: None,
            beside: Vec::new(),
            arms: arms(plan),
        };
        let mut state = self.state();
        state.board = Some((Board::new(store), live));
        state.post();
    }

    /// That many runs are under way at once.
    pub(crate) fn at_once(&self, runs: usize) {
        self.state().at_once = runs;
    }

    /// Sets the expected duration of the runs of this round that are left, those under way among them.
    pub(crate) fn expect(&self, estimate: Option<Estimate>) {
        self.state().expected = estimate;
    }

    /// The sweep has more runs.
    pub(crate) fn add(&self, runs: usize) {
        let mut state = self.state();
        state.total += runs;
        let total = state.total;
        if let Some((_, live)) = &mut state.board {
            live.runs = total;
        }
        if let Some(bars) = &state.bars {
            bars.length(total);
        }
        state.post();
        state.show();
    }

    /// The comparisons that are open after a look, or that none is.
    pub(crate) fn looked(&self, words: &str) {
        self.tell(Some(words.to_owned()));
    }

    /// A run's numbers were taken from an earlier one.
    pub(crate) fn reused(&self, plan: &Plan, run: &Run) {
        let mut state = self.state();
        state.ended += 1;
        state.count(plan, run, RunState::Done);
        let line = state.line(&paint(FAINT, "reused"), "reused", &state.title(plan, run));
        state.show();
        drop(state);
        // How many there are was said before the first one.
        if let Some(line) = line {
            self.console.detail(&line);
        }
    }

    /// An attempt at a run begins.
    pub(crate) fn attempt(&self, plan: &Plan, run: &Run, number: u32) {
        let mut state = self.state();
        state.begin(plan, run);
        let again = if number > 1 { format!(", attempt {number}") } else { String::new() };
        let place = state.ended + state.under_way.len();
        let line = state
            .plain
            .then(|| format!("[{place}/{}] started: {}{again}", state.total, state.title(plan, run)));
        state.show();
        drop(state);
        if let Some(line) = line {
            self.console.say(&line);
        }
    }

    /// Something happened in the attempt.
    pub(crate) fn update(&self, run: &Run, update: &Update) {
        let mut state = self.state();
        let Some(view) = state.view(run) else { return };
        view.update(update, Instant::now());
        let beside = state.under_way.len() > 1;
        let title =
            state.view(run).filter(|_| beside).map_or_else(String::new, |view| format!("{}: ", view.title()));
        if matches!(update, Update::Spawned { .. } | Update::State(_) | Update::Lost { .. }) {
            state.post();
        }
        state.show();
        drop(state);
        match update {
            Update::Note(text) => self.console.say(&format!("note: {title}{text}")),
            Update::Lost { reason, .. } => {
                let state = RunState::Degraded;
                let name = paint(state_style(state), state.name());
                self.console.say(&format!("{name}: {title}{reason}; the run continues without it"));
            }
            Update::Spawned { member, pid } => {
                self.console.detail(&format!("{title}{member} is process {pid}"));
            }
            _ => {}
        }
    }

    /// A run is about to become a job of a queue.
    pub(crate) fn submitting(&self, plan: &Plan, run: &Run) {
        let mut state = self.state();
        state.begin(plan, run);
        state.show();
    }

    /// How the job of a run stands in its queue.
    pub(crate) fn queued(&self, run: &Run, words: &str) {
        let mut state = self.state();
        let Some(view) = state.view(run) else { return };
        if view.queued(words) {
            let line = state.plain.then(|| state.view(run).map(|view| view.job_words())).flatten();
            state.post();
            state.show();
            drop(state);
            self.tell(line);
        }
    }

    /// A run continues without this driver.
    pub(crate) fn left(&self, run: &Run) {
        let mut state = self.state();
        state.forget(run);
        state.show();
    }

    /// An attempt failed and will be repeated.
    pub(crate) fn again(&self, plan: &Plan, run: &Run, detail: &str) {
        let title = self.state().title(plan, run);
        self.tell(Some(format!("{}: {title}: {detail}", paint(state_style(RunState::Failed), "retrying"))));
    }

    pub(crate) fn ended(&self, plan: &Plan, run: &Run, end: &RunEnd<'_>) {
        let mut state = self.state();
        state.ended += 1;
        let mut parts = vec![state.title(plan, run)];
        parts.extend(end.wall.map(human::time));
        parts.extend(state.view(run).and_then(|view| view.metric_words()));
        if !end.detail.is_empty() {
            parts.push(end.detail.to_owned());
        }
        state.count(plan, run, end.state);
        state.forget(run);
        let name = if end.as_ordered {
            format!("{} as ordered", end.state.name())
        } else {
            end.state.name().to_owned()
        };
        let line = state.line(&paint(state_style(end.state), &name), &name, &parts.join(", "));
        state.show();
        drop(state);
        self.tell(line);
    }

    /// The sweep is over: bars go, and nothing is shown to other commands.
    pub(crate) fn finish(&self) {
        let mut state = self.state();
        state.board = None;
        if let Some(bars) = state.bars.take() {
            bars.clear();
        }
    }

    fn tell(&self, line: Option<String>) {
        if let Some(line) = line {
            self.console.say(&line);
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // The display has no invariant that a panic could have broken.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The arms of a plan before its first run.
fn arms(plan: &Plan) -> Vec<LiveArm> {
    let planned = |arm: usize| plan.runs.iter().filter(|run| plan.cells[run.cell].arm == arm).count();
    let live = |(number, arm): (usize, &Arm)| LiveArm {
        name: arm.name.clone(),
        ended: 0,
        troubled: 0,
        planned: planned(number),
        curve: LiveCurve::default(),
        metric: None,
    };
    plan.arms.iter().enumerate().map(live).collect()
}

impl State {
    /// A run has ended, or its numbers were taken from another.
    fn count(&mut self, plan: &Plan, run: &Run, end: RunState) {
        // The run is still among those under way, so that other commands see its last metrics.
        self.post();
        let arm = plan.cells[run.cell].arm;
        let Some(arm) = self.board.as_mut().and_then(|(_, live)| live.arms.get_mut(arm)) else { return };
        arm.ended += 1;
        arm.troubled += usize::from(end != RunState::Done);
    }

    /// The line about a run that ended, for the kind of progress that is shown.
    fn line(&self, painted: &str, word: &str, rest: &str) -> Option<String> {
        if self.bars.is_some() {
            let lines = output::fold(rest, output::width().saturating_sub(MARGIN));
            let rest = lines.join(&format!("\n{}", " ".repeat(MARGIN)));
            return Some(format!("{painted}{}{rest}", " ".repeat(MARGIN.saturating_sub(word.len()))));
        }
        self.plain.then(|| format!("[{}/{}] {painted}: {rest}", self.ended, self.total))
    }

    /// Brings the bars up to date.
    fn show(&mut self) {
        self.post_if_due();
        let left = self.left();
        let Some(bars) = &self.bars else { return };
        bars.sweep(self.ended, self.begun.elapsed(), left.as_ref());
        let now = Instant::now();
        bars.runs(self.under_way.len(), |place, width| self.under_way[place].1.line(width, now));
    }

    /// Updates the driver's file for other commands if it is due.
    fn post_if_due(&mut self) {
        if self.board.as_ref().is_some_and(|(board, _)| board.is_due()) {
            self.post();
        }
    }

    /// Updates the driver's file for other commands.
    fn post(&mut self) {
        let left = self.left();
        if let Some((board, live)) = &mut self.board {
            live.written = human::now();
            live.ended = self.ended;
            live.seconds_left = left.as_ref().map(|left| left.length.as_secs());
            live.left_by = left.map(|left| left.by()).unwrap_or_default();
            let now = Instant::now();
            let mut runs = self.under_way.iter().map(|(_, view)| view.live(now));
            live.run = runs.next();
            live.beside = runs.collect();
            for (_, view) in &self.under_way {
                // An earlier run's curve stays until this one has a value.
                if let (Some(arm), Some(metric)) = (live.arms.get_mut(view.arm()), view.metric_words()) {
                    (arm.curve, arm.metric) = (view.curve().clone(), Some(metric));
                }
            }
            board.show(live);
        }
    }

    /// The time that the remaining runs take; those under way count with what they have not used.
    fn left(&self) -> Option<Estimate> {
        let expected = self.expected.as_ref()?;
        let now = Instant::now();
        let used: Duration = self.under_way.iter().map(|(_, view)| view.elapsed(now)).sum();
        let length = expected.length.saturating_sub(used);
        // Fewer runs than there are places do not fill them.
        let places = self.at_once.min(self.total.saturating_sub(self.ended)).max(1);
        Some(Estimate { length, bases: expected.bases.clone() }.at_once(places))
    }

    fn begin(&mut self, plan: &Plan, run: &Run) {
        let view = RunView::new(self.title(plan, run), &plan.cells[run.cell], Instant::now());
        let view = if plan.is_of_a_rung(run.cell) { view.in_rung() } else { view };
        self.forget(run);
        self.under_way.push((*run, view));
    }

    fn view(&mut self, run: &Run) -> Option<&mut RunView> {
        self.under_way.iter_mut().find(|(other, _)| other == run).map(|(_, view)| view)
    }

    fn forget(&mut self, run: &Run) {
        self.under_way.retain(|(other, _)| other != run);
    }

    /// `d-sync workers=4, repeat 2 of 5`.
    fn title(&self, plan: &Plan, run: &Run) -> String {
        let label = &plan.cells[run.cell].label;
        if self.repeats > 1 && !plan.is_of_a_rung(run.cell) {
            let most = if self.until_decided { "at most " } else { "" };
            format!("{label}, repeat {} of {most}{}", run.repeat + 1, self.repeats)
        } else {
            label.clone()
        }
    }
}
