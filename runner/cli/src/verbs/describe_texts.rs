//! Description of a user's own labelled texts, for `bakeoff data describe`.

use crate::exit::{Exit, Failure};
use crate::output::table::Sheet;
use crate::output::{self, human};
use arrays::LabelledTextSurvey;
use clap::Args;
use recipe::{ArrayProblem, Family, LabelledTextForm, LabelledTextSize, SPECIAL_TOKENS, TextTokens};
use std::path::Path;

/// Arguments about texts.
#[derive(Debug, Args)]
pub(crate) struct TextArgs {
    /// Of labelled texts: whether the first line of train.csv and test.csv names their columns, as `dataset.header` says it.
    #[arg(long, value_name = "true|false", action = clap::ArgAction::Set)]
    header: Option<bool>,
    /// Of labelled texts: what a token is, as `dataset.tokens` says it.
    #[arg(long, value_name = "UNIT", default_value = "words", value_parser = unit)]
    tokens: TextTokens,
}

fn unit(name: &str) -> Result<TextTokens, String> {
    let names: Vec<&str> = TextTokens::ALL.iter().map(|unit| unit.name()).collect();
    TextTokens::named(name).ok_or_else(|| format!("tokens are {}", names.join(", ")))
}

/// Labels that are shown.
const SHOWN_LABELS: usize = 20;

impl TextArgs {
    /// Whether they, or the files of the folder, are about texts.
    pub(crate) fn are_meant(&self, folder: &Path) -> bool {
        let has = |name: &str| folder.join(name).is_file();
        self.header.is_some() || (has("train.csv") && !has("train_x.npy"))
    }

    /// Says what the texts in a folder are.
    pub(crate) fn describe(&self, folder: &Path) -> Result<Exit, Failure> {
        let Some(header) = self.header else {
            let what =
                format!("{} has texts, and nothing in them tells a header from a record", folder.display());
            return Err(Failure::new(Exit::Usage, what)
                .cure("say `--header true` if their first lines name the columns, else `--header false`"));
        };
        // All tokens are counted; a recipe keeps the most frequent ones.
        let form = LabelledTextForm { header, unit: self.tokens, most: u32::MAX - SPECIAL_TOKENS };
        let survey = arrays::survey_labelled_texts(folder, form).map_err(|error| {
            let ArrayProblem { reason, cure } = error.into();
            Failure::new(Exit::Preflight, reason).cure(cure)
        })?;
        output::data(&sheet(&survey).render(output::width()))?;
        Ok(Exit::Done)
    }
}

fn sheet(survey: &LabelledTextSurvey) -> Sheet {
    let LabelledTextSurvey { size, labels, different, lengths } = survey;
    let LabelledTextSize { train, test, classes, vocabulary: _ } = *size;
    // The shortest context that holds this share of the texts whole.
    let holds = |percent: usize| {
        let place = (lengths.len() * percent).div_ceil(100).saturating_sub(1);
        human::thousands(lengths.get(place).copied().unwrap_or_default().into())
    };
    let mut shown = labels.iter().take(SHOWN_LABELS).map(|label| format!("{label:?}")).collect::<Vec<_>>();
    if labels.len() > SHOWN_LABELS {
        shown.push(format!("and {} more", human::thousands((labels.len() - SHOWN_LABELS) as u64)));
    }
    let mut sheet = Sheet::new(&["property", "value"]);
    for (what, how) in [
        ("training texts", human::thousands(train.into())),
        ("test texts", human::thousands(test.into())),
        ("classes", human::thousands(classes.into())),
        ("labels", shown.join(", ")),
        ("different tokens", human::thousands((*different).into())),
        ("tokens of a text", format!("{} or fewer in half of them", holds(50))),
        ("", format!("{} or fewer in 95 % of them", holds(95))),
        ("", format!("{} in the longest", holds(100))),
    ] {
        sheet.row(vec![what.into(), how.into()]);
    }
    sheet
}
