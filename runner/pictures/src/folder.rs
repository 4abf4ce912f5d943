//! The pictures of a folder by their names: which there are, in which order, and of which class.

use super::error::{PictureError, PictureFault};
use recipe::PictureCounts;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirEntry};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Problems that are told at once; a thousand empty classes need not all be named.
const TOLD: usize = 10;

const TRAIN: &str = "train";
const TESTS: [&str; 2] = ["test", "val"];

/// The pictures of a folder: `train/CLASS/PICTURE` and `test/CLASS/PICTURE`, or `val` in place of `test`.
///
/// Classes are the folders in `train`, numbered by the order of their names' bytes; so are the pictures of a class. Names may be any
/// bytes. Links are followed. What begins with a dot, files beside the classes, and files and folders in a class whose names do
/// not end with `.jpg`, `.jpeg` or `.png` in any case are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PictureFolder {
    classes: Vec<OsString>,
    train: PictureSplit,
    test: PictureSplit,
}

/// The pictures of `train`, or of `test`: class after class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PictureSplit {
    root: PathBuf,
    name: &'static str,
    /// Names one behind the other: a million of them take a fifth of what a million strings would.
    names: Vec<u8>,
    /// Where each name ends.
    ends: Vec<usize>,
    /// The class of each picture.
    labels: Vec<u32>,
    /// Entries of the classes' folders that are no pictures.
    left_out: u64,
}

impl PictureFolder {
    /// The names of a folder's pictures; the pictures themselves are not opened.
    ///
    /// # Errors
    /// The first few things that keep them from being trained on.
    pub fn list(root: &Path) -> Result<Self, Vec<PictureError>> {
        let tests: Vec<&'static str> = TESTS.into_iter().filter(|name| root.join(name).exists()).collect();
        let fault = |path: &Path, fault| Err(vec![PictureError { path: path.to_owned(), fault }]);
        if !root.is_dir() {
            return fault(root, if root.exists() { PictureFault::NoFolder } else { PictureFault::Missing });
        }
        let test = match tests[..] {
            [test] => test,
            [] => return fault(root, PictureFault::NoTest),
            _ => return fault(root, PictureFault::TwoTests),
        };
        let one = |error| vec![error];
        let classes = folders(&root.join(TRAIN)).map_err(one)?;
        match &classes[..] {
            [] => return fault(&root.join(TRAIN), PictureFault::NoClasses),
            [class] => {
                let class = class.to_string_lossy().into_owned();
                return fault(&root.join(TRAIN), PictureFault::OneClass { class });
            }
            _ => {}
        }
        let mut problems = Vec::new();
        let train = PictureSplit::list(root, TRAIN, &classes, &mut problems);
        let test = PictureSplit::list(root, test, &classes, &mut problems);
        if test.is_empty() && problems.is_empty() {
            problems.push(PictureError { path: root.join(test.name), fault: PictureFault::NoPictures });
        }
        problems.truncate(TOLD);
        if problems.is_empty() { Ok(Self { classes, train, test }) } else { Err(problems) }
    }

    /// The classes' names, by their number.
    pub fn classes(&self) -> &[OsString] {
        &self.classes
    }

    /// The pictures to train on.
    pub fn train(&self) -> &PictureSplit {
        &self.train
    }

    /// The pictures to test with.
    pub fn test(&self) -> &PictureSplit {
        &self.test
    }

    /// How many there are.
    pub fn counts(&self) -> PictureCounts {
        PictureCounts {
            train: self.train.len() as u32,
            test: self.test.len() as u32,
            classes: self.classes.len() as u32,
        }
    }

    /// Files and folders within the classes that are left out for their names.
    pub fn left_out(&self) -> u64 {
        self.train.left_out + self.test.left_out
    }

    /// The path of the picture at a position; `None` behind the last.
    pub fn path(&self, split: &PictureSplit, position: usize) -> Option<PathBuf> {
        let class = self.classes.get(*split.labels.get(position)? as usize)?;
        Some(split.root.join(split.name).join(class).join(split.name_of(position)?))
    }
}

impl PictureSplit {
    fn list(root: &Path, name: &'static str, classes: &[OsString], problems: &mut Vec<PictureError>) -> Self {
        let root = root.to_owned();
        let mut split =
            Self { root, name, names: Vec::new(), ends: Vec::new(), labels: Vec::new(), left_out: 0 };
        let folder = split.root.join(name);
        let training = name == TRAIN;
        let here = match if training { Ok(classes.to_vec()) } else { folders(&folder) } {
            Ok(here) => here,
            Err(error) => {
                problems.push(error);
                return split;
            }
        };
        for class in here {
            if problems.len() >= TOLD {
                break;
            }
            let path = folder.join(&class);
            let fault = match (classes.binary_search(&class), pictures(&path)) {
                (Err(_), _) => PictureFault::UnknownClass,
                (_, Err(source)) => PictureFault::Read { source },
                (Ok(_), Ok(entries)) if entries.pictures.is_empty() && training => PictureFault::NoPictures,
                (Ok(number), Ok(entries)) => {
                    split.add(number as u32, &entries.pictures);
                    split.left_out += entries.left_out;
                    continue;
                }
            };
            problems.push(PictureError { path, fault });
        }
        if split.len() as u64 > u64::from(u32::MAX) {
            let fault = PictureFault::TooMany { pictures: split.len() as u64 };
            problems.push(PictureError { path: folder, fault });
        }
        split
    }

    fn add(&mut self, class: u32, files: &[OsString]) {
        for file in files {
            self.names.extend_from_slice(file.as_bytes());
            self.ends.push(self.names.len());
            self.labels.push(class);
        }
    }

    /// Its folder's name: `train`, `test` or `val`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Number of pictures of all classes.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The class of each picture; ascending.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// The file's name of the picture at a position; `None` behind the last.
    pub fn name_of(&self, position: usize) -> Option<&OsStr> {
        let end = *self.ends.get(position)?;
        let begin = position.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.names.get(begin..end).map(OsStr::from_bytes)
    }
}

/// The folders in a folder, sorted.
fn folders(path: &Path) -> Result<Vec<OsString>, PictureError> {
    let faulty = |fault| PictureError { path: path.to_owned(), fault };
    let folder = |entry: &DirEntry| -> io::Result<bool> {
        let kind = entry.file_type()?;
        // A link that leads nowhere is no folder.
        Ok(kind.is_dir() || (kind.is_symlink() && entry.path().is_dir()))
    };
    sorted(path, folder).map_err(|source| match source.kind() {
        ErrorKind::NotFound => faulty(PictureFault::Missing),
        ErrorKind::NotADirectory => faulty(PictureFault::NoFolder),
        _ => faulty(PictureFault::Read { source }),
    })
}

/// The entries of a class's folder.
struct ClassEntries {
    /// Names of pictures, sorted; whether they are files is seen when they are opened.
    pictures: Vec<OsString>,
    /// The number of others; what begins with a dot does not count.
    left_out: u64,
}

fn pictures(path: &Path) -> io::Result<ClassEntries> {
    let (pictures, others): (Vec<_>, Vec<_>) =
        sorted(path, |_| Ok(true))?.into_iter().partition(|name| is_picture(Path::new(name)));
    Ok(ClassEntries { pictures, left_out: others.len() as u64 })
}

fn is_picture(name: &Path) -> bool {
    let ending = name.extension().map(OsStr::to_ascii_lowercase);
    ending.is_some_and(|ending| ["jpg", "jpeg", "png"].iter().any(|known| ending == *known))
}

fn sorted(path: &Path, wanted: impl Fn(&DirEntry) -> io::Result<bool>) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if wanted(&entry)? && !entry.file_name().as_bytes().starts_with(b".") {
            names.push(entry.file_name());
        }
    }
    names.sort_unstable();
    Ok(names)
}
