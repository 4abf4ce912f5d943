//! Predicted step times beside the measured ones, where the network is known: because it is emulated, or because an arm of the
//! condition measured its messages.

use super::condition_title;
use super::folding;
use crate::chart::{Area, Figure, Frame, Key, Mark, Place, Scale, Table, arm_style, coordinate, marker};
use crate::findings::Findings;
use crate::forecast::{Computing, Forecast, Measured, PassTimes, Passes, forecast, measured};
use crate::number_format::{self, Unit};
use crate::phase_shares::{self, StepShares};
use comparison::study::{Condition, PlacedCell};
use predict::network::LinkRates;
use record::Phase;
use serde::Serialize;

/// Points within this share of the measured time are called close.
const CLOSE: f64 = 0.1;

#[derive(Debug, Serialize)]
pub(crate) struct Section {
    /// `None` where no arm is predicted.
    pub(crate) chart: Option<Plot>,
    pub(crate) rows: Vec<Row>,
    pub(crate) has_conditions: bool,
    /// Order and regret, a sentence each.
    pub(crate) findings: Vec<String>,
    /// Costs of messages where no network is emulated, a sentence for each condition.
    pub(crate) probes: Vec<String>,
    /// Why arms are missing; empty where none is.
    pub(crate) missing: Vec<String>,
}

/// Predicted against measured step times.
#[derive(Debug, Serialize)]
pub(crate) struct Plot {
    pub(crate) figure: Figure,
    pub(crate) frame: Frame,
    /// Equal times, and the edges of the band around them.
    pub(crate) diagonal: String,
    pub(crate) band: String,
    pub(crate) points: Vec<Point>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Point {
    pub(crate) style: String,
    pub(crate) mark: String,
    pub(crate) title: String,
}

/// One arm under one condition.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) key: Key,
    pub(crate) condition: String,
    pub(crate) predicted: String,
    pub(crate) measured: String,
    /// Of the prediction, relative to the measured step.
    pub(crate) error: String,
    /// Predicted less measured seconds of each pass, and of exposed communication.
    pub(crate) forward: String,
    pub(crate) backward: String,
    pub(crate) update: String,
    pub(crate) exposed: String,
    /// Measured time that no prediction has.
    pub(crate) left_out: String,
    /// Largest part of the error, in words; empty for a prediction that is close.
    pub(crate) missed: String,
    /// The equations of the prediction.
    pub(crate) equation: &'static str,
}

/// A prediction and what became of it, in seconds per step.
struct Compared<'a> {
    arm: usize,
    name: &'a str,
    number: usize,
    condition: String,
    forecast: Forecast,
    measured: f64,
    passes: PassTimes,
    exposed: f64,
    /// Whether the link is known by the arm's own messages, so that it is fitted and not predicted.
    fitted: bool,
}

impl Compared<'_> {
    fn error(&self) -> f64 {
        self.forecast.step / self.measured - 1.0
    }

    fn left_out(&self) -> f64 {
        (self.measured - self.passes.sum() - self.exposed).max(0.0)
    }

    /// The part of the error that is largest, in words.
    fn missed(&self, unit: Unit) -> String {
        if self.error().abs() <= CLOSE {
            return String::new();
        }
        let compute = self.forecast.compute() - self.passes.sum();
        let exposed = self.forecast.exposed() - self.exposed;
        let parts = [
            ("computing", compute.abs()),
            ("exposed communication", exposed.abs()),
            ("what no model has", self.left_out()),
        ];
        let most = parts.iter().max_by(|left, right| left.1.total_cmp(&right.1));
        most.map_or_else(String::new, |(part, seconds)| format!("{part}: {}", unit.short(*seconds)))
    }
}

impl Section {
    /// `None` where no arm was measured on a network that is known.
    pub(crate) fn of(findings: &Findings) -> Option<Self> {
        let mut missing = Vec::new();
        let mut all = Vec::new();
        for placed in findings.study.arm_cells() {
            match compared(findings, placed) {
                Some(Ok(found)) => all.push(found),
                Some(Err(why)) if !missing.contains(&why) => missing.push(why),
                Some(Err(_)) | None => {}
            }
        }
        if all.is_empty() && missing.is_empty() {
            return None;
        }
        let longest = all.iter().map(|found| found.measured.max(found.forecast.step)).reduce(f64::max);
        let unit = longest.map(Unit::of_seconds);
        let min_effect = findings.rows().plan.report.min_effect;
        let listed = all.iter().filter(|found| found.number < folding::listed(findings));
        let mut said = unit.map_or_else(Vec::new, |unit| sentences(&all, min_effect, unit));
        if folding::are_cut(findings) && !all.is_empty() {
            said.push(format!(
                "The tables are of the first {} conditions, and where marks lie close together, one of them is drawn; \
                 `bakeoff figure forecast -o forecast.csv` has all.",
                folding::listed(findings)
            ));
        }
        Some(Self {
            chart: longest.map(|longest| plot(findings, &all, longest)),
            rows: unit.map_or_else(Vec::new, |unit| listed.map(|found| row(found, unit)).collect()),
            has_conditions: findings.has_conditions(),
            findings: said,
            probes: probes(findings),
            missing,
        })
    }
}

/// `longest` is the longest step, in seconds.
fn plot(findings: &Findings, all: &[Compared<'_>], longest: f64) -> Plot {
    let unit = Unit::of_seconds(longest);
    let page = Area { width: 520.0, height: 400.0, left: 64.0, right: 508.0, top: 26.0, bottom: 352.0 };
    let area = findings.sheet.square(page);
    let end = longest * 1.05;
    let x = Scale::new(0.0..=end, area.left..=area.right, unit.factor);
    let y = Scale::new(0.0..=end, area.bottom..=area.top, unit.factor);
    let labels =
        [format!("predicted step time ({})", unit.name), format!("measured step time ({})", unit.name)];
    let place = |predicted: f64, measured: f64| {
        format!("{} {}", coordinate(x.at(predicted)), coordinate(y.at(measured)))
    };
    let mark = |found: &Compared<'_>| Mark {
        arm: found.arm,
        differs: false,
        place: Place { x: x.at(found.forecast.step), y: y.at(found.measured) },
    };
    let marks: Vec<Mark> = all.iter().map(mark).collect();
    let drawn = folding::drawn(findings, &marks);
    Plot {
        figure: Figure {
            id: "forecast".to_owned(),
            title: "Predicted and measured step times".to_owned(),
            description: description(all),
            reading: String::new(),
            table: Table::default(),
        },
        frame: area.frame(&x, &y, labels),
        diagonal: format!("M{}L{}", place(0.0, 0.0), place(end, end)),
        band: format!(
            "M{}L{}L{}Z",
            place(0.0, 0.0),
            place(end, end * (1.0 - CLOSE)),
            place(end * (1.0 - CLOSE), end)
        ),
        points: (0..all.len())
            .filter(|at| drawn[*at])
            .map(|at| point(&all[at], marks[at].place, unit))
            .collect(),
    }
}

impl Section {
    /// The rows as text.
    pub(crate) fn table(&self) -> Table {
        let mut table =
            Table::new(["arm", "condition", "predicted step", "measured step", "error", "missed most"]);
        for row in &self.rows {
            let cells =
                [&row.key.name, &row.condition, &row.predicted, &row.measured, &row.error, &row.missed];
            table.rows.push(cells.map(Clone::clone).to_vec());
        }
        table
    }
}

/// The measured links of conditions without an emulated network.
fn probes(findings: &Findings) -> Vec<String> {
    let sentence = |condition: &Condition<'_>| {
        let first = &findings.rows().plan.cells.get(condition.cells.first()?.index)?.spec;
        if first.emulation.network.is_some() {
            return None;
        }
        let Probe { name, rates, .. } = Probe::of(findings, condition)?;
        let place = if findings.has_conditions() {
            format!("{}: ", condition_title(condition))
        } else {
            String::new()
        };
        Some(format!(
            "{place}by the messages that {name} measured, a link takes {} and {} per MiB.",
            number_format::seconds(rates.alpha()),
            number_format::seconds(rates.beta() * 1_048_576.0)
        ))
    };
    findings.study.conditions.iter().take(folding::listed(findings)).filter_map(sentence).collect()
}

/// The link of a condition whose network is not emulated, by an arm that measured its messages, and what layers took there.
struct Probe<'a> {
    arm: usize,
    name: &'a str,
    rates: LinkRates,
    /// Parts of the backward pass, from the input on.
    layers: Vec<f64>,
}

impl<'a> Probe<'a> {
    /// Of the first arm that has one.
    fn of(findings: &'a Findings<'a>, condition: &Condition<'a>) -> Option<Self> {
        condition.cells.iter().find_map(|cell| {
            let spec = &findings.rows().plan.cells.get(cell.index)?.spec;
            let run = cell.median_run(condition.measure())?;
            let Measured { computing, rates } = measured(spec, run.attempt)?;
            let layers = computing.ok().and_then(|computing| computing.passes).map(|passes| passes.layers);
            Some(Self {
                arm: cell.arm,
                name: findings.study.arm_name(cell.arm),
                rates: rates.ok()?,
                layers: layers.unwrap_or_default(),
            })
        })
    }
}

/// `None` where the network is not known or nothing was measured; the reason where no model fits.
fn compared<'a>(
    findings: &'a Findings<'a>,
    PlacedCell { number, condition, cell }: PlacedCell<'_, 'a>,
) -> Option<Result<Compared<'a>, String>> {
    let study = &findings.study;
    let name = study.arm_name(cell.arm);
    let spec = &findings.rows().plan.cells.get(cell.index)?.spec;
    if spec.cluster.with_gpus().is_some() {
        return Some(Err(format!("{name}: no equation has the copies between the host and a GPU")));
    }
    let probe = Probe::of(findings, condition);
    let rates = match spec.emulation.network {
        Some(network) => {
            LinkRates::new(network.latency.as_secs_f64(), 1.0 / network.bandwidth as f64, 0.0).ok()?
        }
        None => probe.as_ref()?.rates,
    };
    let shares: StepShares = phase_shares::mean(cell, phase_shares::workers)?;
    let [forward, backward, update] =
        [Phase::Forward, Phase::Backward, Phase::Update].map(|phase| shares.of(phase));
    let passes = PassTimes { forward, backward, update };
    let stated = spec.emulation.compute.map(|compute| compute.step_time.as_secs_f64());
    let computing = stated.map_or_else(
        || {
            let layers = probe.as_ref().map(|probe| probe.layers.clone()).unwrap_or_default();
            Computing { step: passes.sum(), passes: Some(Passes { forward, backward, update, layers }) }
        },
        Computing::of_step,
    );
    let title = if findings.has_conditions() { condition_title(condition) } else { String::new() };
    Some(match forecast(spec, rates, &computing) {
        Ok(forecast) => Ok(Compared {
            arm: cell.arm,
            name,
            number,
            condition: title,
            forecast,
            measured: shares.length,
            passes,
            exposed: shares.exposed.unwrap_or(0.0),
            fitted: spec.emulation.network.is_none() && probe.is_some_and(|probe| probe.arm == cell.arm),
        }),
        Err(why) => Err(format!("{name}: {}", why.0)),
    })
}

fn point(found: &Compared<'_>, at: Place, unit: Unit) -> Point {
    let condition = if found.condition.is_empty() { String::new() } else { format!(", {}", found.condition) };
    Point {
        style: arm_style(found.arm),
        mark: marker(found.arm, at.x, at.y, 4.5),
        title: format!(
            "{}{condition}: predicted {}, measured {}",
            found.name,
            unit.short(found.forecast.step),
            unit.short(found.measured)
        ),
    }
}

fn row(found: &Compared<'_>, unit: Unit) -> Row {
    let signed = |seconds: f64| {
        let text = unit.short(seconds.abs());
        if seconds < 0.0 { format!("\u{2212}{text}") } else { format!("+{text}") }
    };
    Row {
        key: Key::of_arm(found.arm, found.name),
        condition: found.condition.clone(),
        predicted: unit.short(found.forecast.step),
        measured: unit.short(found.measured),
        error: format!("{}\u{a0}%", number_format::signed(100.0 * found.error(), 1)),
        forward: signed(found.forecast.passes.forward - found.passes.forward),
        backward: signed(found.forecast.passes.backward - found.passes.backward),
        update: signed(found.forecast.passes.update - found.passes.update),
        exposed: signed(found.forecast.exposed() - found.exposed),
        left_out: unit.short(found.left_out()),
        missed: if found.fitted { "fitted to its own messages".to_owned() } else { found.missed(unit) },
        equation: found.forecast.equation,
    }
}

fn description(all: &[Compared<'_>]) -> String {
    let all: Vec<&Compared<'_>> = all.iter().filter(|found| !found.fitted).collect();
    let close = all.iter().filter(|found| found.error().abs() <= CLOSE).count();
    let worst = all.iter().max_by(|left, right| left.error().abs().total_cmp(&right.error().abs()));
    let worst = worst.map_or_else(String::new, |found| {
        format!(
            " The farthest is {}, off by {}\u{a0}%.",
            found.name,
            number_format::signed(100.0 * found.error(), 1)
        )
    });
    format!("{close} of {} predictions are within 10\u{a0}% of the measured step.{worst}", all.len())
}

/// Whether the prediction puts arms in the measured order, and what trusting it would have cost.
fn sentences(all: &[Compared<'_>], min_effect: f64, unit: Unit) -> Vec<String> {
    let mut sentences = vec![description(all)];
    let pairs: Vec<bool> = all
        .iter()
        .enumerate()
        .flat_map(|(place, one)| all[place + 1..].iter().map(move |other| (one, other)))
        .filter(|(one, other)| one.number == other.number && !one.fitted && !other.fitted)
        .filter(|(one, other)| (one.measured / other.measured).ln().abs() > min_effect.ln_1p())
        .map(|(one, other)| (one.measured < other.measured) == (one.forecast.step < other.forecast.step))
        .collect();
    if !pairs.is_empty() {
        let right = pairs.iter().filter(|right| **right).count();
        sentences.push(format!(
            "Of {} of arms whose measured steps differ by more than {}, the prediction puts {right} in the measured order.",
            number_format::plural(pairs.len(), "pair"),
            number_format::percent(min_effect)
        ));
    }
    sentences.extend(regret(all, unit));
    sentences
}

/// The measured cost of choosing the arm that is predicted to be the fastest.
fn regret(all: &[Compared<'_>], unit: Unit) -> Option<String> {
    let conditions: std::collections::BTreeSet<usize> = all.iter().map(|found| found.number).collect();
    let costs = conditions.into_iter().filter_map(|number| {
        let arms = || all.iter().filter(|found| found.number == number && !found.fitted);
        let chosen = arms().min_by(|one, other| one.forecast.step.total_cmp(&other.forecast.step))?;
        let best = arms().min_by(|one, other| one.measured.total_cmp(&other.measured))?;
        (arms().count() > 1).then_some((
            chosen,
            chosen.measured - best.measured,
            chosen.measured / best.measured - 1.0,
        ))
    });
    let all: Vec<_> = costs.collect();
    let (chosen, seconds, share) = all.iter().max_by(|one, other| one.2.total_cmp(&other.2))?;
    let many = all.len() > 1;
    let place =
        if many && !chosen.condition.is_empty() { format!(" ({})", chosen.condition) } else { String::new() };
    Some(if *seconds <= 0.0 {
        format!(
            "The arm that is predicted to be the fastest is the fastest{}.",
            if many { " in each condition" } else { "" }
        )
    } else {
        format!(
            "Choosing by the prediction costs {}{} per step ({}): it names {}{place}.",
            if many { "at most " } else { "" },
            unit.short(*seconds),
            number_format::percent(*share),
            chosen.name
        )
    })
}
