//! The disk, as recipes see it.

use crate::output::human;
use launch::DescriptionError;
use recipe::{
    ArrayProblem, ArrayProfile, FileProblem, Files, LabelledTextForm, LabelledTextSize, ModelLayout,
    PictureCounts, Shape, TextSize, TextTokens,
};
use std::env;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// No recipe is that large, and a device never ends.
const LARGEST: u64 = 8 << 20;

/// The files of this machine.
pub(crate) struct DiskFiles;

impl Files for DiskFiles {
    fn read(&self, path: &Path) -> Result<String, FileProblem> {
        read(path).map_err(|error| match error.kind() {
            ErrorKind::FileTooLarge => {
                FileProblem::new(format!("it is larger than {}, so it is no recipe", human::bytes(LARGEST)))
            }
            ErrorKind::NotFound => FileProblem::new("no such file"),
            ErrorKind::InvalidData => FileProblem::new("it is not UTF-8 text"),
            ErrorKind::IsADirectory => FileProblem::new("it is a folder"),
            ErrorKind::PermissionDenied => FileProblem::new("permission denied"),
            _ => FileProblem::new(error.to_string()),
        })
    }

    fn describe_model(&self, file: &Path, input: Shape) -> Result<ModelLayout, FileProblem> {
        let described = launch::find_worker()
            .map_err(DescriptionError::from)
            .and_then(|worker| launch::describe_model(&worker, file, input));
        described.map_err(|error| FileProblem::new(error.to_string()))
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn arrays(&self, folder: &Path) -> Result<ArrayProfile, Vec<ArrayProblem>> {
        arrays::describe(folder).map_err(|errors| errors.into_iter().map(ArrayProblem::from).collect())
    }

    fn safetensors(&self, folder: &Path) -> Result<ArrayProfile, Vec<ArrayProblem>> {
        let described = arrays::describe_safetensors(folder);
        described.map_err(|errors| errors.into_iter().map(ArrayProblem::from).collect())
    }

    fn text(&self, path: &Path, unit: TextTokens) -> Result<TextSize, ArrayProblem> {
        let text = arrays::Text::read(path, unit, &mut |_| ()).map_err(ArrayProblem::from)?;
        Ok(text.size())
    }

    fn labelled_texts(
        &self,
        folder: &Path,
        form: LabelledTextForm,
    ) -> Result<LabelledTextSize, ArrayProblem> {
        arrays::labelled_text_size(folder, form)
    }

    fn pictures(&self, folder: &Path) -> Result<PictureCounts, Vec<ArrayProblem>> {
        let listed = pictures::PictureFolder::list(folder);
        let listed =
            listed.map_err(|errors| errors.into_iter().map(ArrayProblem::from).collect::<Vec<_>>())?;
        Ok(listed.counts())
    }

    fn current_directory(&self) -> PathBuf {
        env::current_dir().unwrap_or_else(|_| PathBuf::from("/"))
    }

    fn data_folder(&self) -> PathBuf {
        self.current_directory().join(data_folder())
    }
}

/// The default folder of data sets: `BAKEOFF_DATA`, else `data` in the current folder.
pub(crate) fn data_folder() -> PathBuf {
    let named = env::var_os("BAKEOFF_DATA").filter(|folder| !folder.is_empty());
    named.map_or_else(|| PathBuf::from("data"), PathBuf::from)
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(LARGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST { Err(ErrorKind::FileTooLarge.into()) } else { Ok(text) }
}
