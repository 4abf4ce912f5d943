//! Settings of a data set of labelled texts, and what its files hold.

use crate::files::{ArrayProblem, Files};
use crate::resolve::cell::Cell;
use crate::resolve::shared_keys::{CONTEXT, DATASET_KIND, DATASET_PATH, TOKENS};
use crate::text::finding::Finding;
use crate::values::typed_key::{Defaulted, Optional};
use crate::values::value;
use crate::{LabelledTextForm, LabelledTextProfile, LabelledTextSize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const HEADER: Optional<bool> = Optional::flag("dataset.header");
const VOCABULARY: Defaulted<u64> = Defaulted::whole("dataset.vocabulary");

/// The folders of labelled texts, each looked at once for each form.
pub(crate) struct LabelledTexts<'a> {
    files: &'a dyn Files,
    seen: BTreeMap<(PathBuf, LabelledTextForm), Result<LabelledTextSize, ArrayProblem>>,
}

impl<'a> LabelledTexts<'a> {
    pub(crate) fn new(files: &'a dyn Files) -> Self {
        Self { files, seen: BTreeMap::new() }
    }

    /// The texts that a cell names, or what stands for them where they cannot be used.
    pub(crate) fn read(&mut self, cell: &mut Cell<'_>, path: &Path) -> LabelledTextProfile {
        let settings = cell.settings;
        let header = HEADER.of(settings);
        let form = LabelledTextForm {
            header: header.unwrap_or_default(),
            unit: TOKENS.of(settings),
            most: VOCABULARY.of(settings) as u32,
        };
        let named = settings.given(DATASET_PATH).map(|leaf| leaf.span);
        if named.is_none() {
            cell.miss(DATASET_PATH, ": your own texts are in a folder of yours");
        }
        if header.is_none() {
            cell.miss(HEADER, ": nothing in a file says whether its first line names the columns");
        }
        let size = match named.zip(header) {
            None => LabelledTextSize::UNKNOWN,
            Some((span, _)) => {
                let files = self.files;
                let found = self.seen.entry((path.to_owned(), form));
                let found = found.or_insert_with(|| files.labelled_texts(path, form));
                found.clone().unwrap_or_else(|ArrayProblem { reason, cure }| {
                    cell.findings.push(
                        Finding::new("R184", reason)
                            .at_option(span.or(settings.span(DATASET_KIND)), "this folder")
                            .note(value::more("R184"))
                            .cure(cure),
                    );
                    LabelledTextSize::UNKNOWN
                })
            }
        };
        LabelledTextProfile { form, context: CONTEXT.of(settings) as u32, size }
    }
}
