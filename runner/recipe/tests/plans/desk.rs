//! Files that exist only in a test.

use recipe::{
    ArrayProblem, ArrayProfile, FileLayer, FileProblem, Files, LabelledTextForm, LabelledTextSize, Machine,
    ModelLayout, Parameter, PictureCounts, Plan, PlanRequest, Problems, Shape, TextSize, TextTokens,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Files by name; everything is relative to `/desk`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Desk {
    files: BTreeMap<PathBuf, String>,
    /// Folders with arrays, or with their problems.
    arrays: BTreeMap<PathBuf, Result<ArrayProfile, Vec<ArrayProblem>>>,
}

/// Four cores, whatever this machine has.
pub(crate) const MACHINE: Machine = Machine::new(4);

impl Desk {
    /// A desk with one recipe, `recipe.toml`.
    pub(crate) fn with(text: &str) -> Self {
        Self::default().and("recipe.toml", text)
    }

    /// The desk with one more file.
    pub(crate) fn and(mut self, name: &str, text: &str) -> Self {
        self.files.insert(PathBuf::from(name), text.to_owned());
        self
    }

    /// The desk with one more folder of arrays.
    pub(crate) fn with_arrays(
        mut self,
        folder: &str,
        arrays: Result<ArrayProfile, Vec<ArrayProblem>>,
    ) -> Self {
        self.arrays.insert(PathBuf::from("/desk").join(folder), arrays);
        self
    }

    /// Plans `recipe.toml` without arguments of the command line.
    pub(crate) fn plan(&self) -> Result<Plan, Problems> {
        recipe::plan(self, &PlanRequest::new(Path::new("recipe.toml")), &MACHINE)
    }

    /// Plans `recipe.toml` with `--set` arguments.
    pub(crate) fn plan_with(&self, overrides: &[&str]) -> Result<Plan, Problems> {
        let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
        let request = PlanRequest { overrides: &overrides, ..PlanRequest::new(Path::new("recipe.toml")) };
        recipe::plan(self, &request, &MACHINE)
    }
}

impl Files for Desk {
    /// Of `9.pt`, a model of one layer that scores nine classes; `two-rows/9.pt` takes two rows at least.
    fn describe_model(&self, file: &Path, input: Shape) -> Result<ModelLayout, FileProblem> {
        let named = file.strip_prefix("/desk").unwrap_or(file).with_extension("");
        let classes = named.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
        let classes: usize = classes.ok_or_else(|| FileProblem::new("no such file"))?;
        let weight = Parameter { name: "weight".into(), shape: vec![classes, input.size()] };
        let layer = FileLayer {
            name: "forward".into(),
            children: Vec::new(),
            parameters: vec![weight],
            activations: classes,
            kept: 0,
            flops: 0,
        };
        Ok(ModelLayout {
            sha256: "0".repeat(64),
            input,
            classes,
            layers: vec![layer],
            frozen: 0,
            needs_two_rows: named.starts_with("two-rows"),
        })
    }

    fn read(&self, path: &Path) -> Result<String, FileProblem> {
        self.files
            .get(path.strip_prefix("/desk").unwrap_or(path))
            .cloned()
            .ok_or_else(|| FileProblem::new("no such file"))
    }

    fn exists(&self, path: &Path) -> bool {
        path.starts_with("/desk/data")
    }

    fn arrays(&self, folder: &Path) -> Result<ArrayProfile, Vec<ArrayProblem>> {
        self.arrays.get(folder).cloned().unwrap_or_else(|| {
            let reason = format!("{} is missing", folder.join("train_x.npy").display());
            Err(vec![ArrayProblem { reason, cure: "write it".into() }])
        })
    }

    /// Of `photos`, 900 and 100 pictures of 20 classes.
    fn pictures(&self, folder: &Path) -> Result<PictureCounts, Vec<ArrayProblem>> {
        if folder.ends_with("photos") {
            return Ok(PictureCounts { train: 900, test: 100, classes: 20 });
        }
        let reason = format!("{} is missing", folder.display());
        Err(vec![ArrayProblem { reason, cure: "make it".into() }])
    }

    /// Texts of the desk; `long.txt` stands for one of a hundred thousand tokens.
    fn text(&self, path: &Path, unit: TextTokens) -> Result<TextSize, ArrayProblem> {
        if path.ends_with("long.txt") {
            return Ok(TextSize { tokens: 100_000, vocabulary: 96 });
        }
        let text = self.files.get(path.strip_prefix("/desk").unwrap_or(path)).ok_or_else(|| {
            ArrayProblem { reason: format!("{} is missing", path.display()), cure: "write it".into() }
        })?;
        let vocabulary = match unit {
            TextTokens::Bytes => 256,
            TextTokens::Words => {
                let reason = format!("{} is cut into words", path.display());
                return Err(ArrayProblem { reason, cure: "take characters".into() });
            }
            TextTokens::Characters => text.chars().collect::<std::collections::BTreeSet<_>>().len() as u32,
        };
        Ok(TextSize { tokens: text.len() as u64, vocabulary })
    }

    /// The arrays of a folder are there in both forms.
    fn safetensors(&self, folder: &Path) -> Result<ArrayProfile, Vec<ArrayProblem>> {
        self.arrays(folder)
    }

    /// In `news` a thousand texts whose vocabulary is as large as the recipe allows; other folders have none.
    fn labelled_texts(
        &self,
        folder: &Path,
        form: LabelledTextForm,
    ) -> Result<LabelledTextSize, ArrayProblem> {
        if folder != Path::new("/desk/news") {
            let reason = format!("{} is missing", folder.join("train.csv").display());
            return Err(ArrayProblem { reason, cure: "write it".into() });
        }
        Ok(LabelledTextSize {
            train: 1000 - u32::from(form.header),
            test: 100,
            classes: 4,
            vocabulary: form.most + 2,
        })
    }

    fn current_directory(&self) -> PathBuf {
        PathBuf::from("/desk")
    }
}
