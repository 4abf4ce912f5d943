//! The files of a data set on a machine, and their digest: what a worker would read there.

use crate::cache;
use pictures::{PictureError, PictureFolder};
use recipe::{DatasetFiles, SampleFiles, Source};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Why a data set cannot be digested.
#[derive(Debug, thiserror::Error)]
pub enum DataFilesError {
    /// A file is not there.
    #[error("{} has {}", .folder.display(), none_of(.names))]
    Missing {
        /// Where it was looked for.
        folder: PathBuf,
        /// The names that it may have.
        names: Vec<String>,
    },
    /// A file cannot be read.
    #[error("the data in {} cannot be read: {source}", .folder.display())]
    Unreadable {
        /// The one with all of its files.
        folder: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// Pictures cannot be used.
    #[error("{}", .problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Pictures {
        /// The first few, and at least one.
        problems: Vec<PictureError>,
    },
}

/// `neither A nor B`, or `no A`.
fn none_of(names: &[String]) -> String {
    match names {
        [one, more @ ..] if !more.is_empty() => format!("neither {one} nor {}", more.join(" nor ")),
        _ => format!("no {}", names.concat()),
    }
}

/// SHA-256 over name, length and content of each file of a data set on this machine; of its description where it is built in.
/// Pictures are read only where they have changed since they were last digested ([`pictures::digest`]).
///
/// # Errors
/// A file is missing or cannot be read.
pub fn digest(source: &Source) -> Result<String, DataFilesError> {
    match source.files() {
        SampleFiles::BuiltIn => {
            let described = serde_json::to_string(source).unwrap_or_default();
            Ok(recipe::hex(&Sha256::digest(described)))
        }
        SampleFiles::Pictures(path) => {
            // Without a place for a cache, all pictures are read each time.
            let cache = cache::folder().ok().map(|folder| folder.join("pictures"));
            pictures::digest(path, cache.as_deref()).map_err(|problems| DataFilesError::Pictures { problems })
        }
        SampleFiles::NamedFile(path) | SampleFiles::Folder(path, _) => digest_files(&files(source)?)
            .map_err(|source| DataFilesError::Unreadable { folder: path.to_owned(), source }),
    }
}

/// The files of a data set on this machine, in a fixed order; none where it is built in.
///
/// # Errors
/// A file is missing.
pub(crate) fn files(source: &Source) -> Result<Vec<PathBuf>, DataFilesError> {
    match source.files() {
        SampleFiles::BuiltIn => Ok(Vec::new()),
        SampleFiles::NamedFile(path) => named_file(path),
        SampleFiles::Pictures(path) => all_pictures(path),
        SampleFiles::Folder(folder, files) => FileSet { folder, files }.find(),
    }
}

/// The pictures of a folder, by their names.
fn all_pictures(path: &Path) -> Result<Vec<PathBuf>, DataFilesError> {
    let folder = PictureFolder::list(path).map_err(|problems| DataFilesError::Pictures { problems })?;
    let of = |split| (0..).map_while(|position| folder.path(split, position)).collect::<Vec<_>>();
    Ok([of(folder.train()), of(folder.test())].concat())
}

/// A file that the recipe names itself.
fn named_file(path: &Path) -> Result<Vec<PathBuf>, DataFilesError> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    Err(DataFilesError::Missing { folder, names: vec![name] })
}

/// The files of a data set in its folder, each with one of the endings that its kind allows.
struct FileSet<'a> {
    folder: &'a Path,
    files: DatasetFiles,
}

impl FileSet<'_> {
    fn find(&self) -> Result<Vec<PathBuf>, DataFilesError> {
        let mut found = Vec::new();
        for name in self.files.required {
            found.push(self.place(name).ok_or_else(|| self.missing(name))?);
        }
        let before = found.len();
        found.extend(self.files.some.iter().filter_map(|name| self.place(name)));
        match self.files.some.first() {
            Some(name) if found.len() == before => Err(self.missing(name)),
            _ => Ok(found),
        }
    }

    /// The first that is there, as a worker looks for it.
    fn place(&self, name: &str) -> Option<PathBuf> {
        self.names(name).map(|name| self.folder.join(name)).find(|path| path.is_file())
    }

    fn missing(&self, name: &str) -> DataFilesError {
        DataFilesError::Missing { folder: self.folder.to_owned(), names: self.names(name).collect() }
    }

    fn names(&self, name: &str) -> impl Iterator<Item = String> + use<'_> {
        let name = name.to_owned();
        self.files.endings.iter().map(move |ending| format!("{name}{ending}"))
    }
}

fn digest_files(files: &[PathBuf]) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    for path in files {
        let mut file = File::open(path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        hash.update(format!("{name}\n{}\n", file.metadata()?.len()));
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                read => hash.update(&buffer[..read]),
            }
        }
    }
    Ok(recipe::hex(&hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use recipe::{ArrayProfile, ArrayValues, Shape};
    use std::fs;

    fn mnist() -> &'static [&'static str] {
        DatasetFiles::IDX.required
    }

    fn digest_in(folder: &Path) -> Result<String, DataFilesError> {
        digest(&Source::Mnist { path: folder.to_owned() })
    }

    /// A folder with these files, each holding its name.
    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            fs::write(folder.path().join(name), name).unwrap();
        }
        folder
    }

    #[test]
    fn names_and_contents_of_the_files_decide_and_nothing_else() {
        let one = folder(mnist());
        let first = digest_in(one.path()).unwrap();
        fs::write(one.path().join("README"), "notes").unwrap();
        assert_eq!(digest_in(one.path()).unwrap(), first);
        assert_eq!(digest_in(folder(mnist()).path()).unwrap(), first);
        // Where both lie there, the plain file is read.
        fs::write(one.path().join("t10k-labels-idx1-ubyte.gz"), "packed").unwrap();
        assert_eq!(digest_in(one.path()).unwrap(), first);
        fs::remove_file(one.path().join("t10k-labels-idx1-ubyte")).unwrap();
        let packed = digest_in(one.path()).unwrap();
        fs::write(one.path().join("t10k-labels-idx1-ubyte.gz"), "packet").unwrap();
        let changed = digest_in(one.path()).unwrap();
        assert!(packed != first && changed != first && changed != packed);
    }

    #[test]
    fn a_users_arrays_are_their_files_wherever_they_are() {
        let names = DatasetFiles::ARRAYS.required;
        let arrays = ArrayProfile {
            train: 9,
            test: 9,
            classes: 3,
            shape: Shape::Flat(4),
            values: ArrayValues::Floats,
        };
        let digest = |path: &Path| digest(&Source::Npy { path: path.to_owned(), arrays });
        let one = folder(names);
        let other = folder(names);
        let first = digest(one.path()).unwrap();
        assert_eq!(digest(other.path()).unwrap(), first);
        fs::write(other.path().join("test_y.npy"), "others").unwrap();
        assert_ne!(digest(other.path()).unwrap(), first);
        // No worker would unpack it.
        fs::remove_file(one.path().join("test_x.npy")).unwrap();
        fs::write(one.path().join("test_x.npy.gz"), "packed").unwrap();
        let error = digest(one.path()).unwrap_err();
        assert_eq!(error.to_string(), format!("{} has no test_x.npy", one.path().display()));
    }

    #[test]
    fn a_text_is_its_file() {
        use recipe::{TextProfile, TextSize, TextTokens};
        let folder = folder(&["corpus.txt"]);
        let path = folder.path().join("corpus.txt");
        let size = TextSize { tokens: 10, vocabulary: 256 };
        let text = TextProfile::cut(size, TextTokens::Bytes, 2, 0.5).unwrap();
        let digest = |path: &Path| digest(&Source::TextLines { path: path.to_owned(), text });
        let first = digest(&path).unwrap();
        fs::write(&path, "corpus.txu").unwrap();
        assert_ne!(digest(&path).unwrap(), first);
        let error = digest(&folder.path().join("other.txt")).unwrap_err();
        assert_eq!(error.to_string(), format!("{} has no other.txt", folder.path().display()));
    }

    #[test]
    fn whichever_batches_are_there_count() {
        let of = |names: &[&str]| {
            let folder = folder(names);
            digest(&Source::Cifar10 { path: folder.path().to_owned() }).ok()
        };
        let one = of(&["test_batch.bin", "data_batch_4.bin"]);
        let two = of(&["test_batch.bin", "data_batch_4.bin", "data_batch_2.bin.gz"]);
        assert!(one.is_some() && two.is_some() && one != two);
        assert_eq!((of(&["test_batch.bin"]), of(&["data_batch_1.bin"])), (None, None));
    }
}
