//! Figures stand alone: every reference leads somewhere, nothing is left of the page's style sheet, and names stay text.

use super::*;
use crate::sample::{GridAxis, Sample, decided, on_grid};
use roxmltree::{Document, Node};
use std::collections::BTreeSet;

fn duel() -> SweepRows {
    Sample { repeats: 3, ..Sample::duel() }.rows()
}

/// Two arms over numbers of workers and of parameters.
fn grid() -> SweepRows {
    let one = Sample { repeats: 3, epochs: (4, 4), ..Sample::duel() }.rows();
    let axes = [
        GridAxis::new("nodes.workers", &[2.0, 4.0, 8.0]),
        GridAxis::new("model.parameters", &[1e4, 1e6, 1e7]),
    ];
    on_grid(&one, &axes, |arm, at| {
        if arm == 0 { 4e-3 + 3e-10 * at[0] * at[1] } else { 6e-3 + 1e-4 * at[0] + 1e-10 * at[1] }
    })
}

/// Two arms over three axes.
fn cube() -> SweepRows {
    let one = Sample { repeats: 2, epochs: (4, 4), ..Sample::duel() }.rows();
    let axes = [
        GridAxis::new("nodes.workers", &[2.0, 8.0]),
        GridAxis::new("model.parameters", &[1e4, 1e6]),
        GridAxis::new("network.latency", &[0.0, 0.01]),
    ];
    on_grid(&one, &axes, |arm, at| 5e-3 + at[0] * 1e-5 + at[1] * 1e-10 + arm as f64 * at[2])
}

/// Two arms that searched among three rates.
fn searched() -> SweepRows {
    decided(&[0.1, 0.2, 0.4], 2, |arm, rate, rung| {
        0.9 - 0.1 * arm as f64 - (rate - 0.2).abs() / 20.0 + f64::from(rung) / 50.0
    })
}

fn drawn(rows: &SweepRows, name: FigureName, style: &FigureStyle) -> DrawnFigure {
    figure(rows, name, &Options::default(), style).unwrap()
}

fn charts(rows: &SweepRows, style: &FigureStyle) -> Vec<(FigureName, String)> {
    let chart = |name| match figure(rows, name, &Options::default(), style) {
        Ok(drawn) => Some((name, drawn.chart?.svg)),
        Err(FigureError::SeveralConditions { .. }) => None,
        Err(error) => panic!("{name}: {error}"),
    };
    figures(rows, &Options::default()).unwrap().into_iter().filter_map(chart).collect()
}

fn attribute<'a>(node: &Node<'a, '_>, name: &str) -> Option<&'a str> {
    node.attribute(name)
}

#[test]
fn nothing_is_left_of_the_style_sheet_and_every_reference_leads_somewhere() {
    let styles = [FigureStyle::default(), FigureStyle { palette: Palette::Grey, ..FigureStyle::default() }];
    let mut seen = BTreeSet::new();
    for rows in [duel(), grid(), cube(), searched()] {
        for (name, svg) in styles.iter().flat_map(|style| charts(&rows, style)) {
            seen.insert(name);
            for left in ["var(", "light-dark", "class=", "<style", "__", " style="] {
                assert!(!svg.contains(left), "{name}: {left}");
            }
            let document = Document::parse(&svg).unwrap();
            let ids: BTreeSet<&str> =
                document.descendants().filter_map(|node| attribute(&node, "id")).collect();
            for node in document.descendants() {
                for value in node.attributes().map(|attribute| attribute.value()) {
                    let inside = value.strip_prefix("url(#").and_then(|rest| rest.strip_suffix(')'));
                    if let Some(id) =
                        inside.or(value.strip_prefix('#').filter(|_| node.tag_name().name() == "use"))
                    {
                        assert!(ids.contains(id), "{name}: {value}");
                    }
                }
            }
        }
    }
    assert!(seen.len() >= 9, "{seen:?}");
}

#[test]
fn arms_have_the_colours_of_the_page_or_greys() {
    let median = |svg: &str, dash: &str| {
        let document = Document::parse(svg).unwrap();
        let mut paths =
            document.descendants().filter(|node| attribute(node, "stroke-dasharray") == Some(dash));
        paths.next().and_then(|path| attribute(&path, "stroke")).unwrap().to_owned()
    };
    let rows = duel();
    let colours = drawn(&rows, FigureName::Accuracy, &FigureStyle::default()).chart.unwrap().svg;
    assert_eq!(
        (median(&colours, "none"), median(&colours, "9 4")),
        ("#0067a8".to_owned(), "#cc5200".to_owned())
    );
    let grey = FigureStyle { palette: Palette::Grey, ..FigureStyle::default() };
    let greys = drawn(&rows, FigureName::Accuracy, &grey).chart.unwrap().svg;
    let painted = greys.split('#').skip(1).filter_map(|rest| rest.get(..6));
    for colour in painted.filter(|colour| colour.bytes().all(|digit| digit.is_ascii_hexdigit())) {
        assert!(colour[..2] == colour[2..4] && colour[2..4] == colour[4..], "{colour}");
    }
}

#[test]
fn a_figure_is_as_wide_as_the_column_and_its_letters_as_high_as_asked() {
    for (width, letter) in [(85.0, 8.0), (178.0, 9.0)] {
        let style = FigureStyle { width, letter, ..FigureStyle::default() };
        for (name, svg) in charts(&grid(), &style) {
            let document = Document::parse(&svg).unwrap();
            let root = document.root_element();
            assert_eq!(attribute(&root, "width"), Some(format!("{width:.2}mm").as_str()), "{name}");
            let units: f64 = attribute(&root, "viewBox").unwrap().split(' ').nth(2).unwrap().parse().unwrap();
            // A letter of twelve units is as many points as asked.
            let points = 12.0 * width / units / POINT;
            assert!((points - letter).abs() < 0.01, "{name}: {points}");
            let sizes = document.descendants().filter_map(|node| attribute(&node, "font-size"));
            assert!(sizes.into_iter().all(|size| size == "12"), "{name}");
        }
    }
}

#[test]
fn names_stay_text() {
    let mut rows = duel();
    rows.plan.arms[1].name = "<script>&\"'\u{1F980}".to_owned();
    let (name, svg) = charts(&rows, &FigureStyle::default()).remove(0);
    let document = Document::parse(&svg).unwrap();
    let texts: Vec<&str> = document.descendants().filter_map(|node| node.text()).collect();
    assert!(texts.contains(&"<script>&\"'\u{1F980}"), "{name}: {texts:?}");
    assert!(document.descendants().all(|node| node.tag_name().name() != "script"));
}

#[test]
fn the_same_rows_give_the_same_bytes() {
    for rows in [duel(), grid(), cube(), searched()] {
        assert_eq!(charts(&rows, &FigureStyle::default()), charts(&rows, &FigureStyle::default()));
    }
}

#[test]
fn what_cannot_be_drawn_is_refused_with_what_can() {
    let error = |rows: &SweepRows, name, style: &FigureStyle| {
        figure(rows, name, &Options::default(), style).unwrap_err().to_string()
    };
    let usual = FigureStyle::default();
    let several = error(&grid(), FigureName::Accuracy, &usual);
    assert!(several.contains("these runs have 9: workers=2"), "{several}");
    let absent = error(&duel(), FigureName::Scaling, &usual);
    assert!(absent.contains("no figure `scaling`; it has ") && absent.contains("accuracy"), "{absent}");
    let narrow = error(&duel(), FigureName::Accuracy, &FigureStyle { width: 20.0, ..usual.clone() });
    assert!(narrow.contains("20 mm"), "{narrow}");
    let axis = error(&duel(), FigureName::Accuracy, &FigureStyle { by: "steps".to_owned(), ..usual.clone() });
    assert!(axis.contains("no axis `steps`; it has wall time, epochs, samples"), "{axis}");
    let several = FigureStyle { by: "s".to_owned(), ..usual.clone() };
    assert!(error(&duel(), FigureName::Accuracy, &several).contains("no axis `s`"));
    let none = error(&duel(), FigureName::Phases, &FigureStyle { scale: "log".to_owned(), ..usual });
    assert!(none.contains("no scale `log`"), "{none}");
}

#[test]
fn every_choice_of_axes_is_drawn() {
    let mut seen = BTreeSet::new();
    for by in ["", "wall time", "epochs", "samples"] {
        for scale in ["", "linear", "by error rate"] {
            let style = FigureStyle { by: by.to_owned(), scale: scale.to_owned(), ..FigureStyle::default() };
            let svg = drawn(&duel(), FigureName::Accuracy, &style).chart.unwrap().svg;
            // Each has curves and marks of its own.
            assert!(svg.matches("<use ").count() >= 6, "{by} {scale}");
            seen.insert(svg);
        }
    }
    assert_eq!(seen.len(), 6, "three axes on two scales");
}

#[test]
fn a_forest_keeps_rows_apart_however_narrow_it_is() {
    let rows = grid();
    for width in [60.0, 85.0, 178.0] {
        let style = FigureStyle { width, ..FigureStyle::default() };
        let chart = drawn(&rows, FigureName::Forest, &style).chart.unwrap();
        for parameters in ["10000", "1000000", "10000000"] {
            assert!(chart.svg.contains(&format!(">workers=8 parameters={parameters}<")), "{width}");
        }
        assert_eq!(chart.letter < 7.99, width < 80.0, "{width}: {}", chart.letter);
        assert_eq!(chart.svg.contains("–"), width > 100.0, "{width}");
    }
}

#[test]
fn nothing_is_left_out_in_silence() {
    let one = Sample { repeats: 3, epochs: (4, 4), ..Sample::duel() }.rows();
    let factors: Vec<f64> = (0..70).map(|place| 1.03_f64.powi(place)).collect();
    let many =
        on_grid(
            &one,
            &[GridAxis::new("train.factor", &factors)],
            |arm, at| {
                if arm == 0 { 1e-2 } else { 1e-2 / at[0] }
            },
        );
    let forest = drawn(&many, FigureName::Forest, &FigureStyle::default());
    assert_eq!(forest.csv.lines().count(), 1 + 70);
    assert!(!forest.caption.contains("are shown"), "{}", forest.caption);
    assert_eq!(forest.chart.unwrap().svg.matches(">factor=").count(), 70);
    let few = on_grid(&one, &[GridAxis::new("train.factor", &[0.5, 1.0, 2.0])], |arm, at| {
        if arm == 0 { 1e-2 } else { 1e-2 / at[0] }
    });
    for name in [FigureName::Plane, FigureName::Front] {
        let figure = drawn(&few, name, &FigureStyle::default());
        let svg = figure.chart.unwrap().svg;
        for factor in ["factor=0.5", "factor=1", "factor=2"] {
            assert!(svg.contains(&format!(">{factor}<")), "{name}");
            let said = [&figure.csv, &figure.latex, &figure.caption];
            assert!(said.iter().all(|text| text.contains(factor)), "{name}: {factor}");
        }
    }
}

#[test]
fn parallel_coordinates_have_a_line_and_a_row_for_each_arm_under_each_condition() {
    for width in [85.0, 178.0] {
        let figure = drawn(&cube(), FigureName::Parallel, &FigureStyle { width, ..FigureStyle::default() });
        assert_eq!(figure.csv.lines().count(), 1 + 16);
        let head = "arm,workers,parameters,latency,time to target (s),final test accuracy (%),beaten\n";
        assert!(figure.csv.starts_with(head), "{}", figure.csv);
        assert!(figure.latex.contains("time to target") && figure.caption.contains("changes it most"));
        let chart = figure.chart.unwrap();
        assert!(chart.svg.contains(">latency<") && chart.svg.contains(">time to target<"), "{width}");
        // A narrow column has no room for five heads in full letters.
        assert_eq!(chart.letter < 7.99, width < 100.0, "{width}: {}", chart.letter);
    }
}

#[test]
fn a_search_has_a_chart_for_each_arm_and_a_row_for_each_setting() {
    let figure = drawn(&searched(), FigureName::Search, &FigureStyle::default());
    assert_eq!(figure.csv.lines().count(), 1 + 2 * 3);
    assert!(figure.csv.starts_with("search of,setting,after "), "{}", figure.csv);
    assert!(
        figure.csv.contains("\nd-sync,lr=0.2,") && figure.csv.contains("\nps-sync,lr=0.2,"),
        "{}",
        figure.csv
    );
    assert!(figure.caption.contains("lr=0.2 was the best"), "{}", figure.caption);
    let svg = figure.chart.unwrap().svg;
    assert!(svg.contains(">ps-sync<") && svg.contains(">d-sync<"));
    let absent = self::figure(&duel(), FigureName::Search, &Options::default(), &FigureStyle::default());
    assert!(absent.unwrap_err().to_string().contains("no figure `search`"));
}

#[test]
fn a_selection_of_one_condition_is_one_condition() {
    let mut rows = grid();
    let chosen = rows.plan.cells[0].condition.clone();
    let cells: Vec<String> = rows.plan.cells.iter().map(|cell| cell.condition.clone()).collect();
    rows.runs.retain(|run| cells[run.cell] == chosen);
    for name in [FigureName::Accuracy, FigureName::Loss, FigureName::Scoreboard] {
        let figure = drawn(&rows, name, &FigureStyle::default());
        assert!(figure.csv.contains("d-sync") && figure.csv.contains("ps-sync"), "{name}");
    }
}

#[test]
fn characters_that_xml_has_no_way_to_write_break_nothing() {
    let mut rows = duel();
    rows.plan.arms[1].name = "a\u{1}\u{1b}[31mb".to_owned();
    assert!(charts(&rows, &FigureStyle::default()).iter().all(|(_, svg)| Document::parse(svg).is_ok()));
}
