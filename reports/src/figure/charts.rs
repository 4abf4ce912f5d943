//! The charts of each figure: those that the page has, by its own templates.

use super::drawing::{Chart, Drawing};
use super::legend::{LegendEntry, Sample};
use super::plain::without_controls;
use super::{FigureError, FigureName, FigureStyle, only_condition};
use crate::axes::Axes;
use crate::chart::{Figure, Key, Table};
use crate::findings::Findings;
use crate::render;
use crate::view::curves::Panel;
use crate::view::series::Series;
use crate::view::{
    accuracy, cost, forecast, forest, front, overview, parallel, phases, plane, scaling, scoreboard, search,
};
use crate::winner;
use comparison::study::Condition;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The figure of this name; `None` where the page has no such figure.
pub(super) fn drawing(
    findings: &Findings,
    name: FigureName,
    style: &FigureStyle,
) -> Result<Option<Drawing>, FigureError> {
    let has_axes = matches!(name, FigureName::Accuracy | FigureName::Loss);
    for (what, value) in [("axis", &style.by), ("scale", &style.scale)] {
        if !has_axes && !value.is_empty() {
            let known = vec!["one only".to_owned()];
            return Err(FigureError::NoSuchAxis { name, what, value: value.clone(), known });
        }
    }
    match name {
        FigureName::Winners => winners(findings),
        FigureName::Forest => forest_of(findings),
        FigureName::Parallel => parallel_of(findings),
        FigureName::Scaling => scaling_of(findings),
        FigureName::Plane => plane_of(findings),
        FigureName::Front => front_of(findings),
        FigureName::Accuracy => {
            curves(findings, name, style, |condition| condition.metric.map(Series::Metric))
        }
        FigureName::Loss => curves(findings, name, style, |_| Some(Series::TrainingLoss)),
        FigureName::Search => search_of(findings),
        FigureName::Phases => phases_of(findings),
        FigureName::Forecast => forecast_of(findings),
        FigureName::Scoreboard => scoreboard_of(findings),
        FigureName::Cost => Ok(cost_of(findings)),
    }
}

/// A chart by the template that the page has for it.
fn chart(template: &str, view: &impl Serialize) -> Result<Chart, FigureError> {
    let svg = without_controls(render::text(template, view)?.trim());
    Ok(Chart { section: "", name: String::new(), svg })
}

/// The only thing that a template shows, under its name there.
fn named<'a, T>(name: &'a str, shown: &'a T) -> BTreeMap<&'a str, &'a T> {
    BTreeMap::from([(name, shown)])
}

/// Variables of the template of curves.
#[derive(Serialize)]
struct Alone<'a> {
    figure: &'a Figure,
    panel: &'a Panel,
}

/// A figure of one chart.
fn single(figure: &Figure, caption: String, legend: Vec<LegendEntry>, chart: Chart) -> Drawing {
    Drawing { title: figure.title.clone(), caption, legend, charts: vec![chart], table: figure.table.clone() }
}

fn marks(keys: Vec<Key>) -> Vec<LegendEntry> {
    LegendEntry::of(Sample::Mark, keys)
}

fn winners(findings: &Findings) -> Result<Option<Drawing>, FigureError> {
    let Some(axes) = Axes::of(&findings.study) else { return Ok(None) };
    let Some(found) = overview::Overview::of(findings, &axes, &winner::winners(findings)) else {
        return Ok(None);
    };
    if let Some(lines) = &found.lines {
        let legend = LegendEntry::of(Sample::Line, found.legend);
        let drawn = chart("arm_lines.svg", &named("lines", lines))?;
        let caption = format!("{} {}", found.answer, found.reading);
        return Ok(Some(single(&lines.figure, caption, legend, drawn)));
    }
    let Some(first) = found.maps.first() else { return Ok(None) };
    let title = first.figure.title.clone();
    let mut table = first.figure.table.clone();
    let several = found.maps.len() > 1;
    if several {
        table = Table { rows: Vec::new(), ..table };
        table.columns.insert(0, "map".to_owned());
    }
    let mut charts = Vec::new();
    for map in &found.maps {
        let drawn = chart("winner_map.svg", &named("map", map))?;
        charts.push(Chart { name: map.name.clone(), ..drawn });
        if several {
            let named = |row: &Vec<String>| [std::slice::from_ref(&map.name), row.as_slice()].concat();
            table.rows.extend(map.figure.table.rows.iter().map(named));
        }
    }
    let won = |area: overview::Area| LegendEntry { sample: Sample::Won, key: area.key, hatch: area.hatch };
    let mut legend: Vec<LegendEntry> = found.areas.into_iter().map(won).collect();
    legend.push(LegendEntry {
        sample: Sample::Area,
        key: Key { style: "nothing".to_owned(), name: "undecided or even".to_owned(), mark: String::new() },
        hatch: String::new(),
    });
    let caption = [found.answer.as_str(), &found.reading, &found.note].join(" ").trim().to_owned();
    Ok(Some(Drawing { title, caption, legend, charts, table }))
}

fn forest_of(findings: &Findings) -> Result<Option<Drawing>, FigureError> {
    let Some(found) = forest::Forest::of(findings) else { return Ok(None) };
    let drawn = chart("forest.svg", &named("chart", &found.front))?;
    let caption = format!("{} {}", found.finding, found.reading);
    Ok(Some(single(&found.front.figure, caption, Vec::new(), drawn)))
}

fn parallel_of(findings: &Findings) -> Result<Option<Drawing>, FigureError> {
    let Some(axes) = Axes::of(&findings.study) else { return Ok(None) };
    let Some(found) = parallel::Section::of(findings, &axes) else { return Ok(None) };
    let drawn = chart("parallel.svg", &named("parallel", &found))?;
    let caption = [found.answer.as_str(), &found.reading, &found.note].join(" ").trim().to_owned();
    Ok(Some(single(&found.chart.figure, caption, LegendEntry::of(Sample::Line, found.legend), drawn)))
}

fn scaling_of(findings: &Findings) -> Result<Option<Drawing>, FigureError> {
    let Some(axes) = Axes::of(&findings.study) else { return Ok(None) };
    let Some(found) = scaling::Scaling::of(findings, &axes) else { return Ok(None) };
    let mut charts = Vec::new();
    let mut table = Table::default();
    let mut captions = Vec::new();
    for panel in &found.panels {
        for one in &panel.charts {
            let drawn = chart("scaling.svg", &named("chart", one))?;
            charts.push(Chart { name: panel.name.clone(), ..drawn });
        }
        let is_one_of_several = !panel.name.is_empty();
        table.columns.clone_from(&panel.table.columns);
        if is_one_of_several {
            table.columns.insert(0, "condition".to_owned());
        }
        for row in &panel.table.rows {
            let name = is_one_of_several.then(|| panel.name.clone());
            table.rows.push(name.into_iter().chain(row.iter().cloned()).collect());
        }
        captions.push(if is_one_of_several {
            format!("{}: {}", panel.name, panel.finding)
        } else {
            panel.finding.clone()
        });
    }
    let title = "Speed-up and efficiency over the number of workers".to_owned();
    captions.push(found.reading.clone());
    captions.extend((!found.note.is_empty()).then(|| found.note.clone()));
    let legend = LegendEntry::of(Sample::Line, found.legend);
    Ok(Some(Drawing { title, caption: captions.join(" "), legend, charts, table }))
}

fn plane_of(findings: &Findings) -> Result<Option<Drawing>, FigureError> {
    let Some(found) = plane::Planes::of(findings) else { return Ok(None) };
    let charts = found
        .charts
        .iter()
        .map(|one| Ok((one.name.as_str(), &one.figure, chart("plane.svg", &named("chart", one))?)));
    let charts = charts.collect::<Result<Vec<_>, FigureError>>()?;
    Ok(several("Steps and time per step", found.reading.clone(), marks(found.legend.clone()), charts))
}

fn front_of(findings: &Findings) -> Result<Option<Drawing>, FigureError> {
    let Some(found) = front::Fronts::of(findings) else { return Ok(None) };
    let charts = found
        .charts
        .iter()
        .map(|one| Ok((one.name.as_str(), &one.figure, chart("front.svg", &named("chart", one))?)));
    let charts = charts.collect::<Result<Vec<_>, FigureError>>()?;
    Ok(several("Time and quality", found.reading.clone(), marks(found.legend.clone()), charts))
}

/// A figure of a chart for each of several conditions, each with its name; `None` for no charts.
fn several(
    title: &str,
    reading: String,
    legend: Vec<LegendEntry>,
    found: Vec<(&str, &Figure, Chart)>,
) -> Option<Drawing> {
    let (_, first, _) = found.first()?;
    let mut table = Table { columns: first.table.columns.clone(), ..Table::default() };
    let mut charts = Vec::new();
    let mut said = Vec::new();
    let together = found.len() == 1;
    for (name, figure, drawn) in found {
        table.rows.extend(figure.table.rows.iter().cloned());
        said.push(if together || name.is_empty() {
            figure.description.clone()
        } else {
            format!("{name}: {}", figure.description)
        });
        charts.push(Chart { name: if together { String::new() } else { name.to_owned() }, ..drawn });
    }
    said.push(reading);
    Some(Drawing { title: title.to_owned(), caption: said.join(" "), legend, charts, table })
}

fn curves(
    findings: &Findings,
    name: FigureName,
    style: &FigureStyle,
    series: impl Fn(&Condition) -> Option<Series>,
) -> Result<Option<Drawing>, FigureError> {
    let Some(number) = only_condition(findings, name)? else { return Ok(None) };
    let condition = &findings.study.conditions[number];
    let Some(series) = series(condition) else { return Ok(None) };
    let choose = |what, value: &str, known: Vec<&'static str>| {
        // A part of a name is enough where it is one name's: `log`, `time`.
        let part = value.to_lowercase().replace('-', " ");
        let fits = |name: &&&str| name.contains(&part);
        let found = match known.iter().filter(fits).count() {
            1 => known.iter().position(|name| name.contains(&part)),
            // Nothing was said: the first.
            _ if part.is_empty() => Some(0),
            _ => None,
        };
        found.ok_or_else(|| FigureError::NoSuchAxis {
            name,
            what,
            value: value.to_owned(),
            known: known.into_iter().map(str::to_owned).collect(),
        })
    };
    let axis = choose("axis", &style.by, series.axes().iter().map(|axis| axis.name()).collect())?;
    let rise = choose("scale", &style.scale, accuracy::rise_names(series))?;
    let Some((figure, panel)) = accuracy::alone(findings, condition, series, [axis, rise]) else {
        return Ok(None);
    };
    let key = |arm| Key::of_arm(arm, findings.study.arm_name(arm));
    let legend = condition.cells.iter().map(|cell| key(cell.arm)).collect();
    let caption = [figure.description.as_str(), &panel.left].join(" ").trim().to_owned();
    let drawn = chart("curves.svg", &Alone { figure: &figure, panel: &panel })?;
    Ok(Some(single(&figure, caption, LegendEntry::of(Sample::Line, legend), drawn)))
}

fn search_of(findings: &Findings) -> Result<Option<Drawing>, FigureError> {
    let Some(found) = search::Section::of(findings) else { return Ok(None) };
    let mut table = Table::default();
    let mut charts = Vec::new();
    let mut said = Vec::new();
    for one in &found.charts {
        let figure = &one.figure;
        table.columns = [&["search of".to_owned()], figure.table.columns.as_slice()].concat();
        let named = |row: &Vec<String>| [std::slice::from_ref(&one.name), row.as_slice()].concat();
        table.rows.extend(figure.table.rows.iter().map(named));
        said.push(format!("{}: {}", one.name, figure.description));
        let drawn = chart("search.svg", &BTreeMap::from([("chart", one)]))?;
        charts.push(Chart { name: one.name.clone(), ..drawn });
    }
    if charts.is_empty() {
        return Ok(None);
    }
    said.extend([found.cautions, vec![found.reading]].concat());
    let title = "How settings were found".to_owned();
    Ok(Some(Drawing { title, caption: said.join(" "), legend: marks(found.legend), charts, table }))
}

fn phases_of(findings: &Findings) -> Result<Option<Drawing>, FigureError> {
    let Some(found) = phases::Phases::of(findings) else { return Ok(None) };
    let segments = found.bars.iter().flat_map(|bar| bar.segments.iter().chain(&bar.lanes));
    let shown: BTreeSet<&str> = segments.map(|segment| segment.style.as_str()).collect();
    let keys = found.legend.iter().flat_map(|group| &group.keys);
    let area = |key: &Key| LegendEntry {
        sample: Sample::Area,
        hatch: key.mark.clone(),
        key: Key { mark: String::new(), ..key.clone() },
    };
    let mut legend: Vec<LegendEntry> =
        keys.filter(|key| shown.contains(key.style.as_str())).map(area).collect();
    for kind in ["exposed", "hidden"].into_iter().filter(|kind| shown.contains(kind)) {
        let key = Key { style: kind.to_owned(), name: format!("{kind} communication"), mark: String::new() };
        legend.push(LegendEntry { sample: Sample::Area, key, hatch: format!("hatch-{kind}") });
    }
    let drawn = chart("phases.svg", &named("phases", &found))?;
    Ok(Some(single(&found.figure, found.figure.description.clone(), legend, drawn)))
}

fn forecast_of(findings: &Findings) -> Result<Option<Drawing>, FigureError> {
    let Some(found) = forecast::Section::of(findings) else { return Ok(None) };
    let Some(plot) = &found.chart else { return Ok(None) };
    let mut keys: Vec<Key> = Vec::new();
    for row in &found.rows {
        if !keys.contains(&row.key) {
            keys.push(row.key.clone());
        }
    }
    let drawn = chart("forecast.svg", &named("forecast", &found))?;
    let drawn = Chart { section: "forecast", ..drawn };
    let figure = Figure { table: found.table(), ..plot.figure.clone() };
    Ok(Some(single(&figure, plot.figure.description.clone(), marks(keys), drawn)))
}

fn scoreboard_of(findings: &Findings) -> Result<Option<Drawing>, FigureError> {
    let Some(number) = only_condition(findings, FigureName::Scoreboard)? else { return Ok(None) };
    let Some(board) = scoreboard::boards(findings).into_iter().nth(number) else { return Ok(None) };
    let mut table = Table::new(["arm"]);
    table.columns.extend(board.columns.iter().map(|column| column.name.clone()));
    table.columns.push("verdict".to_owned());
    for row in &board.rows {
        let mut cells = vec![row.key.name.clone()];
        cells.extend(row.cells.iter().map(|cell| cell.text.clone()));
        cells.push(row.grade.clone());
        table.rows.push(cells);
    }
    let caption = format!("Results of each arm, {}.", board.condition);
    Ok(Some(Drawing {
        title: "Scoreboard".to_owned(),
        caption,
        legend: Vec::new(),
        charts: Vec::new(),
        table,
    }))
}

fn cost_of(findings: &Findings) -> Option<Drawing> {
    let found = cost::Section::of(findings)?;
    Some(Drawing {
        title: "Cost".to_owned(),
        caption: found.said.iter().chain([&found.reading]).cloned().collect::<Vec<_>>().join(" "),
        legend: Vec::new(),
        charts: Vec::new(),
        table: found.table(),
    })
}
