//! `bakeoff figure`: one chart or table of a page, for print.

use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::paint::{STRONG, paint};
use crate::output::table::{Cell, Sheet};
use crate::{page, pdf};
use clap::{Args, ValueEnum, ValueHint};
use reports::{DrawnChart, DrawnFigure, FigureName, FigureStyle, Options, Palette};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use store::{Selection, Store, StoreError, SweepRows};

/// Shown at the end of the verb's help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  bakeoff figure                                    figures of the newest sweep
  bakeoff figure last~1                             those of the one before
  bakeoff figure accuracy -o fig.pdf                for a column of 85 mm
  bakeoff figure accuracy -o fig.pdf -o fig.tex     and its numbers for LaTeX
  bakeoff figure forest last -o fig.svg --width 178mm --palette grey
  bakeoff figure accuracy \"last and workers=4\" -o fig.pdf --by epochs
  bakeoff figure scoreboard -o table.tex

The end of a file's name is its format: svg, pdf, tex (a table with the rules of
booktabs) or csv (numbers alone, with units in the heads). Charts are drawn anew
for the width, in letters of the size that is asked for; what a caption may say
is printed. An arm has the colour, dash and mark that it has on the page.
Accuracy, loss and scoreboard are of one condition. The same runs give the same
SVG, byte for byte; the parts of a PDF stand in another order each time.";

/// Arguments of `figure`.
#[derive(Debug, Args)]
pub(crate) struct FigureArgs {
    /// Which figure: winners, forest, parallel, scaling, plane, front, accuracy, loss, search, phases, forecast, scoreboard or cost;
    /// without it those that there are are listed.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Which runs of one sweep; the newest where nothing is said.
    #[arg(value_name = "SELECTION")]
    selection: Option<String>,
    /// The file to write; may be repeated.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Vec<PathBuf>,
    /// Width on paper, as in 85mm, 17.8cm or 3.35in.
    #[arg(long, value_name = "LENGTH", default_value = "85mm", value_parser = millimetres)]
    width: f64,
    /// Height of letters, as in 8pt.
    #[arg(long, value_name = "SIZE", default_value = "8pt", value_parser = points)]
    font_size: f64,
    /// Families of letters; the first that is installed is taken.
    #[arg(long, value_name = "FAMILIES")]
    font: Option<String>,
    /// Colours, or greys that differ by dashes, marks and hatches.
    #[arg(long, value_name = "PALETTE", default_value = "colour")]
    palette: Colours,
    /// Horizontal axis of `accuracy` and `loss`: `time`, `epochs` or `samples`.
    #[arg(long, value_name = "AXIS")]
    by: Option<String>,
    /// Vertical axis: `linear` or `error` of accuracies, `linear` or `log` of losses.
    #[arg(long, value_name = "SCALE")]
    scale: Option<String>,
    /// Compare with this arm, in place of the recipe's baseline.
    #[arg(long, value_name = "ARM")]
    baseline: Option<String>,
}

/// The palette, as users write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Colours {
    /// The page's colours.
    #[value(alias = "color")]
    Colour,
    /// Greys.
    #[value(alias = "gray")]
    Grey,
}

/// The format of a file, by the end of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Svg,
    Pdf,
    Tex,
    Csv,
}

impl Format {
    fn of(file: &Path) -> Result<Self, Failure> {
        let end = file.extension().and_then(|end| end.to_str()).unwrap_or_default().to_lowercase();
        match end.as_str() {
            "svg" => Ok(Self::Svg),
            "pdf" => Ok(Self::Pdf),
            "tex" => Ok(Self::Tex),
            "csv" => Ok(Self::Csv),
            _ => {
                let what = format!("{} says no format", file.display());
                Err(Failure::new(Exit::Usage, what).cure("let its name end in .svg, .pdf, .tex or .csv"))
            }
        }
    }

    fn is_chart(self) -> bool {
        matches!(self, Self::Svg | Self::Pdf)
    }
}

/// Lists figures, or writes one.
pub(crate) fn execute(args: &FigureArgs, context: &Context<'_>) -> Result<Exit, Failure> {
    let files = args.output.iter().map(|file| Ok((file.as_path(), Format::of(file)?)));
    let files: Vec<(&Path, Format)> = files.collect::<Result<_, Failure>>()?;
    let (name, expression) = asked(args)?;
    let selection = Selection::parse(expression)?;
    let rows = super::wait(async {
        let store = Store::open_existing(&context.global.store).await?;
        let rows = store.sweep_rows(&selection).await?;
        store.close().await;
        if rows.runs.is_empty() {
            return Err(StoreError::Empty { selection: expression.to_owned() }.into());
        }
        Ok(rows)
    })?;
    let options = Options { baseline: args.baseline.clone(), ..page::options() };
    let Some(name) = name else { return list(&rows, &options) };
    if files.is_empty() {
        let what = format!("no file is named for the figure `{name}`");
        return Err(Failure::new(Exit::Usage, what).cure("name one with -o, as in -o fig.pdf"));
    }
    let style = style(args);
    let drawn = reports::figure(&rows, name, &options, &style)?;
    if drawn.chart.is_none() && files.iter().any(|(_, format)| format.is_chart()) {
        let what = format!("`{name}` is a table, and no chart");
        return Err(Failure::new(Exit::Usage, what).cure("write it as .tex or .csv"));
    }
    if let Some(chart) = drawn.chart.as_ref().filter(|_| files.iter().any(|(_, format)| format.is_chart())) {
        warn(chart, &style, context);
    }
    let mut missing = BTreeSet::new();
    for (file, format) in files {
        missing.extend(write(file, format, &drawn, &style)?);
        output::data(&format!("{} {}", paint(STRONG, "figure:"), file.display()))?;
    }
    warn_of_missing(&missing, context);
    context.console.say(&format!("{} {}", paint(STRONG, "caption:"), drawn.caption));
    Ok(Exit::Done)
}

/// Characters that a warning names.
const NAMED: usize = 12;

fn warn_of_missing(missing: &BTreeSet<char>, context: &Context<'_>) {
    if missing.is_empty() {
        return;
    }
    let named = missing.iter().take(NAMED).map(|letter| format!("{letter} (U+{:04X})", u32::from(*letter)));
    let more = if missing.len() > NAMED { " and others" } else { "" };
    let what = format!(
        "no installed font has {}{more}: the PDF shows a box for each",
        named.collect::<Vec<_>>().join(", ")
    );
    context.console.warn(&what, "install a font that has them, such as the package fonts-noto of Debian, or name the arms in other letters");
}

/// The figure, and the selection of its runs: a single word that is no figure is a selection whose figures are listed.
fn asked(args: &FigureArgs) -> Result<(Option<FigureName>, &str), Failure> {
    let known = |word: &str| FigureName::ALL.into_iter().find(|name| name.name() == word);
    match (args.name.as_deref(), args.selection.as_deref()) {
        (None, _) if args.output.is_empty() => Ok((None, "last")),
        (Some(word), None) if known(word).is_none() && args.output.is_empty() => Ok((None, word)),
        (Some(word), selection) => {
            let name = known(word).ok_or_else(|| {
                let all = FigureName::ALL.map(FigureName::name).join(", ");
                Failure::new(Exit::Usage, format!("there is no figure `{word}`"))
                    .cure(format!("take one of {all}"))
            })?;
            Ok((Some(name), selection.unwrap_or("last")))
        }
        (None, _) => Err(Failure::new(Exit::Usage, "no figure is named for the file")
            .cure("name one, as in `bakeoff figure accuracy -o fig.pdf`")),
    }
}

fn style(args: &FigureArgs) -> FigureStyle {
    let usual = FigureStyle::default();
    FigureStyle {
        width: args.width,
        letter: args.font_size,
        font: args.font.clone().unwrap_or(usual.font),
        palette: match args.palette {
            Colours::Colour => Palette::Colour,
            Colours::Grey => Palette::Grey,
        },
        by: args.by.clone().unwrap_or_default(),
        scale: args.scale.clone().unwrap_or_default(),
    }
}

/// Height of a printed page without its margins, in millimetres.
const PAGE: f64 = 240.0;

fn warn(chart: &DrawnChart, style: &FigureStyle, context: &Context<'_>) {
    let cure = "select fewer conditions, or give it more --width";
    if chart.letter < style.letter * 0.99 {
        let what = format!(
            "the chart needs more width: its letters are {:.1} pt high, not {}",
            chart.letter, style.letter
        );
        context.console.warn(&what, cure);
    }
    if chart.height > PAGE {
        let what = format!("the figure is {:.0} mm high, more than a page", chart.height);
        context.console.warn(&what, cure);
    }
}

/// Writes a file; returns the characters that it has no letters for.
fn write(
    file: &Path,
    format: Format,
    drawn: &DrawnFigure,
    style: &FigureStyle,
) -> Result<BTreeSet<char>, Failure> {
    let svg = drawn.chart.as_ref().map_or("", |chart| &chart.svg);
    match format {
        Format::Svg => page::save(file, svg)?,
        Format::Pdf => {
            let pdf = pdf::pdf(svg, &style.font)?;
            page::save(file, pdf.bytes)?;
            return Ok(pdf.missing);
        }
        Format::Tex => page::save(file, &drawn.latex)?,
        Format::Csv => page::save(file, &drawn.csv)?,
    }
    Ok(BTreeSet::new())
}

fn list(rows: &SweepRows, options: &Options) -> Result<Exit, Failure> {
    let mut sheet = Sheet::new(&["figure", "shows"]).whole(&[0]);
    for name in reports::figures(rows, options)? {
        sheet.row(vec![Cell::from(name.name()), Cell::from(name.words())]);
    }
    output::data(sheet.render(output::width()).trim_end())?;
    Ok(Exit::Done)
}

/// Millimetres of a length with its unit.
fn millimetres(text: &str) -> Result<f64, String> {
    let units = [("mm", 1.0), ("cm", 10.0), ("in", 25.4), ("pt", 25.4 / 72.0)];
    measure(text, &units)
        .ok_or_else(|| "a width is a number with a unit, as in 85mm, 17.8cm or 3.35in".to_owned())
}

/// Points of a size; a bare number is of points.
fn points(text: &str) -> Result<f64, String> {
    let units = [("pt", 1.0), ("mm", 72.0 / 25.4), ("", 1.0)];
    measure(text, &units).ok_or_else(|| "a size is a number of points, as in 8pt".to_owned())
}

fn measure(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (number, unit) =
        units.iter().find_map(|(unit, size)| Some((text.trim().strip_suffix(unit)?, size)))?;
    let number: f64 = number.trim().parse().ok()?;
    (number.is_finite() && number > 0.0).then_some(number * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_units() {
        for (text, wanted) in [("85mm", 85.0), ("8.5 cm", 85.0), ("2in", 50.8), ("72pt", 25.4)] {
            assert!((millimetres(text).unwrap() - wanted).abs() < 1e-9, "{text}");
        }
        for text in ["85", "", "mm", "-3mm", "infmm", "NaNcm"] {
            assert!(millimetres(text).is_err(), "{text}");
        }
        assert!((points("8").unwrap() - 8.0).abs() < 1e-9 && (points("9pt").unwrap() - 9.0).abs() < 1e-9);
        assert!(points("big").is_err());
    }

    #[test]
    fn a_file_says_its_format() {
        assert_eq!(Format::of(Path::new("a/FIG.PDF")).unwrap(), Format::Pdf);
        assert_eq!(Format::of(Path::new("fig.tex")).unwrap(), Format::Tex);
        assert!(Format::of(Path::new("fig")).is_err() && Format::of(Path::new("fig.png")).is_err());
    }
}
