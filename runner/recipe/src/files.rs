//! The only window to the disk: the rim hands one in, tests hand in texts.

use crate::{
    ArrayProfile, LabelledTextForm, LabelledTextSize, ModelLayout, PictureCounts, Shape, TextSize, TextTokens,
};
use std::path::{Path, PathBuf};

/// Questions about the file system that a recipe may ask.
pub trait Files {
    /// The text of a file.
    ///
    /// # Errors
    /// Where it is missing, unreadable, or not UTF-8.
    fn read(&self, path: &Path) -> Result<String, FileProblem>;

    /// The layout of a model file, which takes examples of the shape `input`.
    ///
    /// # Errors
    /// It is missing, is no such file, or cannot be trained on such examples.
    fn describe_model(&self, _file: &Path, _input: Shape) -> Result<ModelLayout, FileProblem> {
        Err(FileProblem::new("model files cannot be described here"))
    }

    /// Whether there is anything at this path.
    fn exists(&self, path: &Path) -> bool;

    /// Profile of the NumPy arrays in a folder, from their headers and labels.
    ///
    /// # Errors
    /// Everything that keeps them from being trained on.
    fn arrays(&self, folder: &Path) -> Result<ArrayProfile, Vec<ArrayProblem>> {
        let reason = format!("the arrays in {} cannot be described here", folder.display());
        Err(vec![ArrayProblem { reason, cure: "take another data set".to_owned() }])
    }

    /// Profile of the safetensors files in a folder, from their headers and labels.
    ///
    /// # Errors
    /// Everything that keeps them from being trained on.
    fn safetensors(&self, folder: &Path) -> Result<ArrayProfile, Vec<ArrayProblem>> {
        let reason = format!("the tensors in {} cannot be described here", folder.display());
        Err(vec![ArrayProblem { reason, cure: "take another data set".to_owned() }])
    }

    /// How long a text is in these tokens, and how many different ones it has.
    ///
    /// # Errors
    /// It cannot be read, or is no such text.
    fn text(&self, path: &Path, _unit: TextTokens) -> Result<TextSize, ArrayProblem> {
        let reason = format!("the text {} cannot be described here", path.display());
        Err(ArrayProblem { reason, cure: "take another data set".to_owned() })
    }

    /// Counts of the labelled texts in a folder.
    ///
    /// # Errors
    /// A file cannot be read, or is no such table.
    fn labelled_texts(
        &self,
        folder: &Path,
        _form: LabelledTextForm,
    ) -> Result<LabelledTextSize, ArrayProblem> {
        let reason = format!("the texts in {} cannot be described here", folder.display());
        Err(ArrayProblem { reason, cure: "take another data set".to_owned() })
    }

    /// How many pictures and classes a folder has, by their names.
    ///
    /// # Errors
    /// Everything that keeps them from being trained on.
    fn pictures(&self, folder: &Path) -> Result<PictureCounts, Vec<ArrayProblem>> {
        let reason = format!("the pictures in {} cannot be described here", folder.display());
        Err(vec![ArrayProblem { reason, cure: "take another data set".to_owned() }])
    }

    /// The folder that relative paths are relative to; absolute.
    fn current_directory(&self) -> PathBuf;

    /// The folder whose subfolders are the data sets that recipes do not place themselves; absolute.
    fn data_folder(&self) -> PathBuf {
        self.current_directory().join("data")
    }
}

/// Why a file could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct FileProblem {
    /// A fragment of a sentence: `no such file`, `not UTF-8`.
    pub reason: String,
}

impl FileProblem {
    /// A problem with this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

/// Why arrays, pictures, or texts, cannot be trained on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayProblem {
    /// A fragment of a sentence that names the file: `/data/train_y.npy has label -1 at [5]`.
    pub reason: String,
    /// Advice to the user: `take another data set`.
    pub cure: String,
}

/// The machine that a plan is made on, as far as plans depend on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Cores that may be used: the slots of `local` where the recipe gives no number.
    pub cores: u32,
    /// The hosts of the Slurm allocation that the planner runs in; empty outside of one.
    pub allocation: Vec<AllocatedHost>,
    /// Whether each run gets its hosts later, from a queue of jobs; `slurm` then means as many as its workers need.
    pub queued: bool,
}

impl Machine {
    /// A machine outside of any allocation.
    pub const fn new(cores: u32) -> Self {
        Self { cores, allocation: Vec::new(), queued: false }
    }

    /// The same with the hosts of `SLURM_JOB_NODELIST` and their processors in `SLURM_JOB_CPUS_PER_NODE`: `n[1-3]` and `2(x3)`.
    /// A list that cannot be read is none.
    #[must_use]
    pub fn inside(self, hosts: &str, processors: &str) -> Self {
        let names: Vec<String> = split_list(hosts)
            .into_iter()
            .flat_map(|part| crate::node_list::expanded(part).unwrap_or_default())
            .collect();
        let mut cores = processors.split(',').flat_map(|part| {
            let (count, times) = part.split_once("(x").unwrap_or((part, "1"));
            let times: usize = times.trim_end_matches(')').parse().unwrap_or(1);
            std::iter::repeat_n(count.trim().parse().unwrap_or(1), times.min(names.len()))
        });
        let host = |name: &String| AllocatedHost { name: name.clone(), cores: cores.next().unwrap_or(1) };
        Self { allocation: names.iter().map(host).collect(), ..self }
    }

    /// The same in front of a queue that gives each run hosts of its own.
    #[must_use]
    pub fn in_front_of_a_queue(self) -> Self {
        Self { allocation: Vec::new(), queued: true, ..self }
    }
}

/// A host of an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatedHost {
    /// Its name in Slurm.
    pub name: String,
    /// Processors of the allocation on it.
    pub cores: u32,
}

/// The parts of `a[1,3],b`: commas in brackets belong to a part.
fn split_list(list: &str) -> Vec<&str> {
    let mut depth = 0;
    let outside = |letter: char| {
        match letter {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0
    };
    list.split(outside).map(str::trim).filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocation_is_read_as_slurm_writes_it() {
        let host = |name: &str, cores| AllocatedHost { name: name.into(), cores };
        let inside = |hosts, processors| Machine::new(1).inside(hosts, processors).allocation;
        assert_eq!(inside("n[1-3]", "2(x3)"), [host("n1", 2), host("n2", 2), host("n3", 2)]);
        assert_eq!(inside("a[1,3],b", "2(x2),8"), [host("a1", 2), host("a3", 2), host("b", 8)]);
        assert_eq!(inside("b", ""), [host("b", 1)]);
        assert_eq!(inside("", ""), []);
    }
}
