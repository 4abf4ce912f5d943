//! Folders of pictures: their files, the refused ones, and the changes that their digest sees.

use crate::decoding::bytes;
use crate::samples::{JPEG_BASELINE, PNG_RGB};
use pictures::{PictureFolder, decode_all, digest};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A folder with these files.
struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Two classes of two and one pictures to train on, one of them to test with.
    fn small() -> Self {
        let desk = Self::new();
        for name in ["train/cat/2.PNG", "train/cat/1.png", "test/dog/x.png"] {
            desk.write(name, &bytes(PNG_RGB));
        }
        desk.write("train/dog/a.JPEG", &bytes(JPEG_BASELINE));
        desk
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    fn write(&self, name: impl AsRef<Path>, content: &[u8]) {
        fs::create_dir_all(self.at(&name).parent().unwrap()).unwrap();
        fs::write(self.at(&name), content).unwrap();
    }

    fn listed(&self) -> PictureFolder {
        PictureFolder::list(self.path()).unwrap()
    }

    /// Its errors, with FOLDER in place of its path.
    fn refused(&self) -> Vec<String> {
        let errors = PictureFolder::list(self.path()).unwrap_err();
        errors.into_iter().map(|error| self.words(&format!("{error}; {}", error.cure()))).collect()
    }

    fn words(&self, text: &str) -> String {
        text.replace(&self.path().display().to_string(), "FOLDER")
    }

    fn digest(&self) -> String {
        digest(self.path(), None).unwrap()
    }
}

#[test]
fn classes_and_pictures_are_in_the_order_of_their_names() {
    let desk = Desk::small();
    for other in
        ["train/notes.txt", "train/cat/notes.txt", "train/cat/.hidden.png", "train/.git/x.png", "boxes.csv"]
    {
        desk.write(other, b"not for training");
    }
    let folder = desk.listed();
    assert_eq!(folder.classes(), ["cat", "dog"]);
    assert_eq!(folder.train().labels(), [0, 0, 1]);
    assert_eq!(folder.test().labels(), [1]);
    let paths: Vec<PathBuf> = (0..4).map_while(|at| folder.path(folder.train(), at)).collect();
    assert_eq!(paths, ["train/cat/1.png", "train/cat/2.PNG", "train/dog/a.JPEG"].map(|name| desk.at(name)));
    assert_eq!(folder.path(folder.test(), 0).unwrap(), desk.at("test/dog/x.png"));
    fs::rename(desk.at("test"), desk.at("val")).unwrap();
    assert_eq!(desk.listed().test().name(), "val");
    assert_eq!(desk.listed().path(desk.listed().test(), 0).unwrap(), desk.at("val/dog/x.png"));
}

#[test]
fn names_may_be_any_bytes_and_links_are_followed() {
    let desk = Desk::small();
    let name = Path::new("train").join(OsStr::from_bytes(b"\xff\xfe")).join(OsStr::from_bytes(b"\xe9.png"));
    desk.write(&name, &bytes(PNG_RGB));
    symlink(desk.at("train/dog"), desk.at("train/wolf")).unwrap();
    symlink(desk.at("train/cat/1.png"), desk.at("train/cat/3.png")).unwrap();
    let folder = desk.listed();
    assert_eq!(folder.counts().classes, 4);
    assert_eq!(folder.train().labels(), [0, 0, 0, 1, 2, 3]);
    assert_eq!(folder.path(folder.train(), 5).unwrap(), desk.at(name));
    assert_eq!(desk.digest().len(), 64);
}

#[test]
fn thousands_of_classes_are_classes() {
    let desk = Desk::small();
    for class in 0..3000 {
        desk.write(format!("train/n{class:05}/1.jpg"), &bytes(JPEG_BASELINE));
    }
    let counts = desk.listed().counts();
    assert_eq!((counts.train, counts.test, counts.classes), (3003, 1, 3002));
    let cache = tempfile::tempdir().unwrap();
    assert_eq!(digest(desk.path(), Some(cache.path())).unwrap(), desk.digest());
}

const PUT: &str = "put the pictures into FOLDER/train/CLASS/ and FOLDER/test/CLASS/ (or val), and name the folder: `path = \
                   \"FOLDER\"` in [dataset]";

#[test]
fn folders_that_cannot_be_learned_from_are_refused_with_the_reason() {
    let refused = |change: &dyn Fn(&Desk)| {
        let desk = Desk::small();
        change(&desk);
        desk.refused()
    };
    let remove = |name: &'static str| move |desk: &Desk| fs::remove_dir_all(desk.at(name)).unwrap();
    assert_eq!(refused(&remove("")), [format!("FOLDER is missing; {PUT}")]);
    assert_eq!(refused(&remove("test")), [format!("FOLDER has neither test nor val; {PUT}")]);
    assert_eq!(refused(&remove("train")), [format!("FOLDER/train is missing; {PUT}")]);
    let both = refused(&|desk: &Desk| fs::create_dir(desk.at("val")).unwrap());
    assert_eq!(both, ["FOLDER has both test and val; remove or rename one of them"]);
    let none = refused(&|desk: &Desk| {
        fs::remove_dir_all(desk.at("train")).unwrap();
        fs::create_dir(desk.at("train")).unwrap();
    });
    assert_eq!(none, [format!("FOLDER/train has no folders, which are the classes; {PUT}")]);
    let one = [
        "FOLDER/train has one class, dog: there is nothing to tell apart; add a folder for each other class",
    ];
    assert_eq!(refused(&remove("train/cat")), one);
    let empty = refused(&|desk: &Desk| {
        fs::create_dir(desk.at("train/emu")).unwrap();
        desk.write("test/gnu/1.png", b"");
    });
    assert_eq!(
        empty,
        [
            "FOLDER/train/emu has no pictures: no name in it ends with .jpg, .jpeg or .png; put JPEG or PNG pictures of this \
             class there, or remove the folder",
            "FOLDER/test/gnu is no class of the training pictures; name it as the class is named in train, or remove it",
        ]
    );
    let untested = refused(&|desk: &Desk| fs::remove_file(desk.at("test/dog/x.png")).unwrap());
    assert!(untested[0].starts_with("FOLDER/test has no pictures"), "{untested:?}");
    let file = refused(&|desk: &Desk| {
        fs::remove_dir_all(desk.at("train")).unwrap();
        desk.write("train", b"a file");
    });
    assert_eq!(file, [format!("FOLDER/train is no folder; {PUT}")]);
}

#[test]
fn files_that_are_no_whole_pictures_are_found_when_they_are_digested() {
    let told = |name: &str, content: &[u8]| {
        let desk = Desk::small();
        desk.write(name, content);
        let errors = digest(desk.path(), None).unwrap_err();
        let words: Vec<String> = errors.iter().map(|error| desk.words(&error.to_string())).collect();
        assert_eq!(words.len(), 1, "{words:?}");
        words[0].clone()
    };
    let jpeg = bytes(JPEG_BASELINE);
    let cut = told("train/dog/b.jpg", &jpeg[..jpeg.len() - 9]);
    assert!(cut.starts_with("FOLDER/train/dog/b.jpg is cut off: a JPEG file of "), "{cut}");
    assert_eq!(told("test/dog/x.png", b""), "FOLDER/test/dog/x.png is empty");
    let text = told("train/cat/0.png", b"<html>");
    assert_eq!(
        text,
        "FOLDER/train/cat/0.png is no JPEG or PNG file: it begins with the bytes 3C 68 74 6D 6C 3E"
    );
    let mut vast = bytes(PNG_RGB);
    vast[16..24].copy_from_slice(&[0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60]);
    let vast = told("train/cat/0.png", &vast);
    assert_eq!(vast, "FOLDER/train/cat/0.png announces 60000 x 60000 pixels; at most 67108864 are decoded");

    let desk = Desk::small();
    symlink(desk.at("nowhere"), desk.at("train/cat/0.png")).unwrap();
    fs::create_dir(desk.at("train/dog/b.jpg")).unwrap();
    let errors = digest(desk.path(), None).unwrap_err();
    let words: Vec<String> = errors.iter().map(|error| desk.words(&error.to_string())).collect();
    assert_eq!(words[1..], ["FOLDER/train/dog/b.jpg is no file"]);
    assert!(words[0].starts_with("FOLDER/train/cat/0.png cannot be read: "), "{words:?}");
}

#[test]
fn the_digest_knows_names_classes_and_contents_and_nothing_else() {
    let desk = Desk::small();
    let first = desk.digest();
    assert_eq!(Desk::small().digest(), first, "wherever it lies");
    fs::rename(desk.at("test"), desk.at("val")).unwrap();
    desk.write("README", b"notes");
    assert_eq!(desk.digest(), first);
    let changes: [&dyn Fn(&Desk); 5] = [
        &|desk| fs::rename(desk.at("train/cat/1.png"), desk.at("train/cat/0.png")).unwrap(),
        &|desk| fs::rename(desk.at("train/cat/1.png"), desk.at("train/dog/1.png")).unwrap(),
        &|desk| fs::rename(desk.at("train/cat"), desk.at("train/cow")).unwrap(),
        &|desk| desk.write("train/cat/1.png", &bytes(JPEG_BASELINE)),
        &|desk| desk.write("test/cat/1.png", &bytes(PNG_RGB)),
    ];
    let mut digests = vec![first];
    for change in changes {
        let desk = Desk::small();
        change(&desk);
        let changed = desk.digest();
        assert!(!digests.contains(&changed));
        digests.push(changed);
    }
}

/// A digest looks at the parts of a file only, and says nothing of what lies in them.
#[test]
fn damage_inside_of_compressed_data_is_found_by_decoding() {
    let desk = Desk::small();
    let mut damaged = bytes(PNG_RGB);
    let data = damaged.windows(4).position(|four| four == b"IDAT").unwrap() + 8;
    damaged[data] ^= 0xff;
    desk.write("test/dog/x.png", &damaged);
    digest(desk.path(), None).unwrap();
    let problems = decode_all(desk.path()).unwrap_err();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].to_string().contains("test/dog/x.png cannot be decoded"), "{}", problems[0]);
    desk.write("test/dog/x.png", &bytes(PNG_RGB));
    decode_all(desk.path()).unwrap();
}
