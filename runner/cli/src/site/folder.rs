//! The folder of a site: only what differs is written, each file whole or not at all, and only what was written by this program is
//! replaced or removed.

use super::SiteFile;
use super::manifest::{self, Manifest};
use crate::exit::{Exit, Failure};
use crate::page;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Effect of publishing on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It is not there yet.
    New,
    /// It is there with other content, and is written again.
    Changed,
    /// It is there with the same content, and is not touched.
    Unchanged,
}

impl Change {
    /// The word for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
        }
    }
}

/// Treatment of files of earlier publications that are not part of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Former {
    Leave,
    /// They are removed, unless they were changed since.
    Remove,
}

/// A folder and the list of what this program wrote into it.
#[derive(Debug)]
pub(crate) struct Folder {
    root: PathBuf,
    manifest: Manifest,
}

impl Folder {
    /// Opens a folder, which may not exist yet, and reads its list of files.
    pub(crate) fn open(root: &Path) -> Result<Self, Failure> {
        match fs::metadata(root) {
            Ok(found)
                if found.is_dir() && fs::canonicalize(root).is_ok_and(|whole| whole.parent().is_none()) =>
            {
                let what = "the root of the file system is no place for a site".to_owned();
                return Err(Failure::new(Exit::Usage, what).cure("name a folder of its own"));
            }
            Ok(found) if found.is_dir() => {}
            Ok(_) => {
                let what = format!("{} is a file, and a site is a folder", root.display());
                return Err(Failure::new(Exit::Usage, what).cure("name another folder"));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(unreadable(root, &error)),
        }
        Ok(Self { root: root.to_owned(), manifest: Manifest::read(root)? })
    }

    /// The change that publishing would make to a file. An existing file that this program did not write is an error.
    pub(crate) fn change(&self, file: &SiteFile) -> Result<Change, Failure> {
        let path = self.root.join(&file.path);
        self.check_parents(&file.path)?;
        let found = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Change::New),
            found => found.map_err(|error| unreadable(&path, &error))?,
        };
        if !found.is_file() {
            return Err(foreign(&path));
        }
        let same = found.len() == file.text.len() as u64
            && fs::read(&path).map_err(|error| unreadable(&path, &error))? == file.text.as_bytes();
        match (same, self.manifest.files.contains_key(&file.path)) {
            (true, _) => Ok(Change::Unchanged),
            (false, true) => Ok(Change::Changed),
            (false, false) => Err(foreign(&path)),
        }
    }

    /// A link in the place of a folder would lead elsewhere.
    fn check_parents(&self, path: &str) -> Result<(), Failure> {
        let above = Path::new(path).ancestors().skip(1).filter(|part| !part.as_os_str().is_empty());
        for folder in above.map(|part| self.root.join(part)) {
            if fs::symlink_metadata(&folder).is_ok_and(|found| !found.is_dir()) {
                return Err(foreign(&folder));
            }
        }
        Ok(())
    }

    /// Files of earlier publications that are not among `files`.
    pub(crate) fn former(&self, files: &[SiteFile]) -> Vec<String> {
        let known = self.manifest.files.keys();
        known.filter(|path| files.iter().all(|file| file.path != **path)).cloned().collect()
    }

    /// Writes what differs, in the order of `files`. The list comes first, so that after an interruption everything that was
    /// written is known as this program's. Returns the former files that stay.
    pub(crate) fn write(
        &mut self,
        files: &[SiteFile],
        changes: &[Change],
        former: Former,
    ) -> Result<Vec<String>, Failure> {
        let earlier = self.former(files);
        for file in files {
            self.manifest.files.insert(file.path.clone(), manifest::digest(file.text.as_bytes()));
        }
        self.save_manifest()?;
        for (file, _) in files.iter().zip(changes).filter(|(_, change)| **change != Change::Unchanged) {
            page::save(&self.root.join(&file.path), &file.text)?;
        }
        match former {
            Former::Leave => Ok(earlier),
            Former::Remove => self.remove(earlier),
        }
    }

    /// Removes former files, if they are as this program wrote them; returns the others.
    fn remove(&mut self, former: Vec<String>) -> Result<Vec<String>, Failure> {
        let mut stay = Vec::new();
        for path in former {
            let file = self.root.join(&path);
            self.check_parents(&path)?;
            let content = match fs::symlink_metadata(&file) {
                Ok(found) if found.is_file() => {
                    Some(fs::read(&file).map_err(|error| unreadable(&file, &error))?)
                }
                Ok(_) => None,
                Err(_) => {
                    self.manifest.files.remove(&path);
                    continue;
                }
            };
            let own = content.map(|content| manifest::digest(&content));
            if own.as_ref() != self.manifest.files.get(&path) {
                stay.push(path);
                continue;
            }
            fs::remove_file(&file).map_err(|error| {
                Failure::new(Exit::Internal, format!("{} cannot be removed: {error}", file.display()))
                    .cure("check the folder's owner")
            })?;
            // Fails, as it should, where anything is left.
            let _ = file.parent().filter(|folder| *folder != self.root).map(fs::remove_dir);
            self.manifest.files.remove(&path);
        }
        self.save_manifest()?;
        Ok(stay)
    }

    fn save_manifest(&self) -> Result<(), Failure> {
        let file = self.root.join(manifest::NAME);
        let text = self.manifest.text()?;
        if fs::read(&file).is_ok_and(|found| found == text.as_bytes()) {
            return Ok(());
        }
        page::save(&file, &text)
    }

    /// Every file that this program wrote and that is still there, with its content and the list itself.
    pub(crate) fn content(&self) -> Result<Vec<(String, Vec<u8>)>, Failure> {
        let paths = self.manifest.files.keys().map(String::as_str).chain([manifest::NAME]);
        let mut content = Vec::new();
        for path in paths {
            let file = self.root.join(path);
            match fs::read(&file) {
                Ok(bytes) => content.push((path.to_owned(), bytes)),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(unreadable(&file, &error)),
            }
        }
        Ok(content)
    }
}

fn foreign(path: &Path) -> Failure {
    Failure::new(Exit::Usage, format!("{} was not written by `bakeoff publish`", path.display()))
        .cure("publish into another folder, or move it away; nothing was changed")
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::Preflight, format!("{} cannot be read: {error}", path.display()))
        .cure("check its owner and permissions, or name another folder")
}
