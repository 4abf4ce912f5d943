//! The digest of a folder's pictures: of every byte, and yet quick where nothing has changed.
//!
//! A data set of a million pictures takes minutes to read, and each command asks what it is. So digests are remembered: of each
//! class one, under the *stamp* of its files, which is a digest of their names, lengths, numbers (inodes) and the times, to the
//! nanosecond, at which contents and properties last changed. The second of these times no program can set back, so that
//! `touch` and `cp --preserve` hide no change. A command that finds the same stamps opens no picture; where one picture changed,
//! its class is read again. Stamps are not remembered of files that changed in the last two seconds: a clock of a file system may
//! be so coarse that a change to come would leave the stamp as it is (git calls such files *racily clean*).
//!
//! Every picture that is read is also examined ([`super::examine`]), so that a file that is cut or no picture is found before a run.
//! Damage inside of its compressed data is found by decoding alone ([`decode_all`]).

use super::container::examine;
use super::decode::{Picture, bytes_of};
use super::error::{PictureError, PictureFault};
use super::folder::{PictureFolder, PictureSplit};
use recipe::hex;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Classes that are read at the same time, at most: disks gain nothing from more.
const READERS: usize = 8;
/// Coarser than the clock of any file system in use (FAT's).
const COARSEST_CLOCK: Duration = Duration::from_secs(2);
/// Part of each stamp: another number where a picture that passed may not pass any more.
const EXAMINATION: u32 = 1;
/// Problems that are told at once.
const TOLD: usize = 10;

/// SHA-256 over the pictures of a folder, in hexadecimal: for each class of `train`, then of the test pictures, the name of the
/// split, that of the class, and the digest over name, length and content of each of its pictures. Where the folder lies, and
/// what the folder of the test pictures is called, does not matter. Digests are remembered in the folder `cache`, which is made if
/// it does not exist; where it cannot be written, nothing is remembered.
///
/// # Errors
/// The first few pictures that cannot be read, or that are no whole pictures.
pub fn digest(root: &Path, cache: Option<&Path>) -> Result<String, Vec<PictureError>> {
    digest_by(root, cache, COARSEST_CLOCK)
}

/// The same where clocks of file systems are this coarse.
fn digest_by(root: &Path, cache: Option<&Path>, clock: Duration) -> Result<String, Vec<PictureError>> {
    let folder = PictureFolder::list(root)?;
    let memory = cache.map(|cache| Memory::open(cache, root));
    let units: Vec<Unit<'_>> = [folder.train(), folder.test()]
        .into_iter()
        .enumerate()
        .flat_map(|(number, split)| units(&folder, split, number))
        .collect();
    let known = memory.as_ref().map(|memory| &memory.known);
    let digested = at_once(&units, |unit| unit.digest(known, clock));
    let mut hash = Sha256::new();
    let mut problems = Vec::new();
    let mut remembered = BTreeMap::new();
    for (unit, found) in units.iter().zip(digested) {
        match found {
            Ok(found) => {
                unit.announce(&mut hash);
                hash.update(&found.content);
                if found.settled {
                    remembered.insert(found.stamp, found.content);
                }
            }
            Err(error) => problems.push(error),
        }
    }
    if let Some(memory) = memory {
        memory.keep(&remembered);
    }
    problems.truncate(TOLD);
    if problems.is_empty() { Ok(hex(&hash.finalize())) } else { Err(problems) }
}

/// Decodes every picture of a folder, several at the same time: damage inside is found in no other way.
///
/// # Errors
/// The first few pictures that cannot be decoded.
pub fn decode_all(root: &Path) -> Result<(), Vec<PictureError>> {
    let folder = PictureFolder::list(root)?;
    let splits = [folder.train(), folder.test()];
    let paths: Vec<PathBuf> = splits
        .into_iter()
        .flat_map(|split| (0..split.len()).filter_map(|position| folder.path(split, position)))
        .collect();
    let decoded = at_once(&paths, |path| Picture::read(path).map(drop));
    let problems: Vec<PictureError> = decoded.into_iter().filter_map(Result::err).take(TOLD).collect();
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// The pictures of one class in one split.
struct Unit<'a> {
    folder: &'a PictureFolder,
    split: &'a PictureSplit,
    /// 0 to train on, 1 to test with.
    number: usize,
    class: usize,
    positions: Range<usize>,
}

/// The digest of a unit.
struct Digested {
    stamp: String,
    content: String,
    /// Whether a later change would change the stamp.
    settled: bool,
}

fn units<'a>(folder: &'a PictureFolder, split: &'a PictureSplit, number: usize) -> Vec<Unit<'a>> {
    let mut units = Vec::new();
    let mut begin = 0;
    for same in split.labels().chunk_by(|one, next| one == next) {
        let positions = begin..begin + same.len();
        begin = positions.end;
        units.push(Unit { folder, split, number, class: same[0] as usize, positions });
    }
    units
}

impl Unit<'_> {
    fn announce(&self, hash: &mut Sha256) {
        hash.update([self.number as u8]);
        let name = self.folder.classes()[self.class].as_bytes();
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name);
    }

    fn digest(
        &self,
        known: Option<&BTreeMap<String, String>>,
        clock: Duration,
    ) -> Result<Digested, PictureError> {
        let (stamp, latest) = self.stamp()?;
        // Before the contents are read: a change from now on changes the stamp.
        let age = latest.and_then(|latest| latest.elapsed().ok());
        let settled = age.is_some_and(|age| age > clock);
        let content = match known.and_then(|known| known.get(&stamp)) {
            Some(content) => content.clone(),
            None => self.content()?,
        };
        Ok(Digested { stamp, content, settled })
    }

    /// The stamp of the files, and the last time at which one of them changed.
    fn stamp(&self) -> Result<(String, Option<SystemTime>), PictureError> {
        let mut hash = Sha256::new();
        let mut latest = None;
        hash.update(EXAMINATION.to_le_bytes());
        self.announce(&mut hash);
        self.each(|path, name| {
            let about = fs::metadata(path).map_err(|source| PictureFault::Read { source })?;
            hash.update((name.len() as u64).to_le_bytes());
            hash.update(name);
            for number in [about.dev(), about.ino(), about.len()] {
                hash.update(number.to_le_bytes());
            }
            for time in [about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec()] {
                hash.update(time.to_le_bytes());
            }
            latest = latest.max(changed(&about));
            Ok(())
        })?;
        Ok((hex(&hash.finalize()), latest))
    }

    fn content(&self) -> Result<String, PictureError> {
        let mut hash = Sha256::new();
        self.each(|path, name| {
            let bytes = bytes_of(path)?;
            examine(&bytes)?;
            hash.update((name.len() as u64).to_le_bytes());
            hash.update(name);
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(&bytes);
            Ok(())
        })?;
        Ok(hex(&hash.finalize()))
    }

    fn each(
        &self,
        mut work: impl FnMut(&Path, &[u8]) -> Result<(), PictureFault>,
    ) -> Result<(), PictureError> {
        for position in self.positions.clone() {
            let path = self.folder.path(self.split, position).unwrap_or_default();
            let name = self.split.name_of(position).unwrap_or_default().as_bytes();
            work(&path, name).map_err(|fault| PictureError { path: path.clone(), fault })?;
        }
        Ok(())
    }
}

/// When content or properties of a file last changed, whichever is later; `None` for a time before 1970.
fn changed(about: &Metadata) -> Option<SystemTime> {
    let properties = SystemTime::UNIX_EPOCH
        .checked_add(Duration::new(u64::try_from(about.ctime()).ok()?, about.ctime_nsec() as u32))?;
    Some(about.modified().ok()?.max(properties))
}

/// The results of `work` for each unit, in the order of the units.
fn at_once<'a, U: Sync, T: Send>(units: &'a [U], work: impl Fn(&'a U) -> T + Sync) -> Vec<T> {
    let readers = std::thread::available_parallelism().map_or(1, usize::from).min(READERS);
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(units.len()));
    std::thread::scope(|scope| {
        for _ in 0..readers.min(units.len()) {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(unit) = units.get(place) else { break };
                    let found = work(unit);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((place, found));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, found)| found).collect()
}

/// The digests of one folder's classes, in a file: lines of a stamp and a digest.
struct Memory {
    file: PathBuf,
    known: BTreeMap<String, String>,
}

impl Memory {
    fn open(cache: &Path, root: &Path) -> Self {
        let whole = fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
        let name = hex(&Sha256::digest(whole.as_os_str().as_bytes())[..16]);
        let file = cache.join(format!("{name}.digests"));
        let text = fs::read_to_string(&file).unwrap_or_default();
        let is_digest = |word: &&str| word.len() == 64 && word.bytes().all(|digit| digit.is_ascii_hexdigit());
        let known = text.lines().filter_map(|line| {
            let (stamp, content) = line.split_once(' ')?;
            let whole = [stamp, content].iter().all(is_digest);
            whole.then(|| (stamp.to_owned(), content.to_owned()))
        });
        Self { known: known.collect(), file }
    }

    /// Writes the digests known now, if they differ from those before. A command that cannot will read the pictures again.
    fn keep(&self, remembered: &BTreeMap<String, String>) {
        if *remembered != self.known {
            let _ = self.write(remembered);
        }
    }

    fn write(&self, remembered: &BTreeMap<String, String>) -> io::Result<()> {
        let folder = self.file.parent().unwrap_or(Path::new(""));
        fs::create_dir_all(folder)?;
        let lines: Vec<String> =
            remembered.iter().map(|(stamp, content)| format!("{stamp} {content}")).collect();
        // Commands that run at the same time write the same, or the later one wins.
        let unfinished = self.file.with_extension(format!("{}.part", std::process::id()));
        fs::write(&unfinished, lines.join("\n") + "\n")?;
        fs::rename(&unfinished, &self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Picture;

    /// Two classes of one picture each, of these greys.
    fn write(root: &Path, one: u8, other: u8) {
        for (name, grey) in [("train/a/1.png", one), ("train/b/1.png", other), ("test/a/1.png", 9)] {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let pixels = vec![grey; 12];
            fs::write(path, Picture { width: 2, height: 2, pixels }.png().unwrap()).unwrap();
        }
    }

    #[test]
    fn what_is_remembered_is_used_until_a_file_changes_however_its_times_are_set() {
        let root = tempfile::tempdir().unwrap();
        let cache = tempfile::tempdir().unwrap();
        let root = root.path();
        let remembered = || digest_by(root, Some(cache.path()), Duration::ZERO).unwrap();
        write(root, 1, 2);
        let first = remembered();
        assert_eq!(first, digest(root, None).unwrap());
        let file = fs::read_dir(cache.path()).unwrap().next().unwrap().unwrap().path();
        let known = fs::read_to_string(&file).unwrap();
        assert_eq!(known.lines().count(), 3);
        assert_eq!((remembered(), fs::read_to_string(&file).unwrap()), (first.clone(), known.clone()));
        // Other digests under the same stamps are believed, so that no picture was opened.
        let lies: String = known.lines().map(|line| line[..65].to_owned() + &"0".repeat(64) + "\n").collect();
        fs::write(&file, lies).unwrap();
        assert_ne!(remembered(), first);
        fs::write(&file, &known).unwrap();
        // The same length and the same time of the last change of its content.
        let changed = root.join("train/b/1.png");
        let length = fs::metadata(&changed).unwrap().len();
        let time = fs::metadata(&changed).unwrap().modified().unwrap();
        let mut other = fs::read(&changed).unwrap();
        let last = other.len() - 1;
        other[last] ^= 1;
        fs::write(&changed, other).unwrap();
        fs::File::options().append(true).open(&changed).unwrap().set_modified(time).unwrap();
        assert_eq!(fs::metadata(&changed).unwrap().len(), length);
        let second = remembered();
        assert_eq!(second, digest(root, None).unwrap());
        assert_ne!(second, first);
        let again = fs::read_to_string(&file).unwrap();
        assert_eq!(
            again.lines().filter(|line| known.contains(line)).count(),
            2,
            "of the other classes it is kept"
        );
        fs::write(&file, b"\xff nonsense\n\n a b c").unwrap();
        assert_eq!(remembered(), second);
    }

    #[test]
    fn files_that_have_just_changed_are_not_remembered() {
        let root = tempfile::tempdir().unwrap();
        let cache = tempfile::tempdir().unwrap();
        write(root.path(), 1, 2);
        let hour = Duration::from_hours(1);
        let found = digest_by(root.path(), Some(cache.path()), hour).unwrap();
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0);
        assert_eq!(
            digest(root.path(), Some(&root.path().join("train/a/1.png"))).unwrap(),
            found,
            "no such cache"
        );
    }
}
