//! Python's part in the set-up: it finds packages, downloads, and unpacks.
//!
//! The scripts travel inside this program and use Python's own library only.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;

use crate::child::Child;

const LOCATE: &str = include_str!("locate.py");
const FETCH: &str = include_str!("fetch.py");
const CHECK: &str = include_str!("check.py");
const UNPACK: &str = include_str!("unpack.py");

/// Where downloads and pip's intermediate files go, inside the unfinished folder.
pub(crate) const DOWNLOAD_FOLDERS: [&str; 2] = [DOWNLOADS, INTERMEDIATE];
const DOWNLOADS: &str = "downloads";
const INTERMEDIATE: &str = "intermediate";

/// Which files of an archive are wanted, and where: a name that ends in `/` stands for all below it.
pub(crate) type Wanted = &'static [(&'static str, &'static str)];

/// The folder for downloads inside the unfinished one.
pub(crate) fn downloads(partial: &Path) -> Result<std::path::PathBuf> {
    for name in DOWNLOAD_FOLDERS {
        let folder = partial.join(name);
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    Ok(partial.join(DOWNLOADS))
}

/// The folder and the version of the PyTorch that Python has, as JSON; `null` if it has none.
pub(super) fn locate() -> Result<String> {
    script("locate.py", LOCATE).read()
}

/// Downloads a file with progress; its length must be the one that the server announced.
pub(super) fn fetch(address: &str, target: &Path) -> Result<()> {
    script("fetch.py", FETCH).argument(address).argument(target).run()
}

/// Compares every member of a ZIP archive with its checksum.
pub(super) fn check(archive: &Path) -> Result<()> {
    script("check.py", CHECK)
        .argument(archive)
        .run()
        .with_context(|| format!("{} is damaged", archive.display()))
}

/// Unpacks the wanted files of a ZIP archive below `folder`; every wish must be met.
pub(crate) fn unpack(archive: &Path, folder: &Path, wanted: Wanted) -> Result<()> {
    script("unpack.py", UNPACK)
        .argument(archive)
        .argument(folder)
        .feed(&json!(wanted).to_string())
        .with_context(|| format!("cannot unpack {}", archive.display()))
}

/// Downloads one exact Python package for one exact platform, with pip's own progress.
pub(crate) fn download_package(partial: &Path, package: &str, platform: &str) -> Result<()> {
    Child::new("python3")
        .called("python3 -m pip download")
        .arguments(&["-m", "pip", "download", "--disable-pip-version-check"])
        // A damaged file in pip's cache would come back each time; and it would double the space.
        .arguments(&["--no-cache-dir", "--no-deps", "--only-binary", ":all:"])
        .arguments(&["--python-version", "3.11", "--platform", platform, "--dest"])
        .argument(partial.join(DOWNLOADS))
        .argument(package)
        // The system's temporary folder may be too small for half a gigabyte.
        .variable("TMPDIR", partial.join(INTERMEDIATE))
        .run()
        .context("no package from pip (does `python3 -m pip --version` work?)")
}

fn script(name: &str, source: &str) -> Child {
    Child::new("python3").called(name).arguments(&["-c", source])
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    fn make_archive(path: &Path, members: &[&str]) {
        let script = "import sys, zipfile\n\
                      with zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED) as archive:\n    \
                      for name in sys.argv[2:]: archive.writestr(name, name * 1000)\n";
        Child::new("python3")
            .arguments(&["-c", script])
            .argument(path)
            .arguments(members)
            .run()
            .expect("made");
    }

    /// Replies to one request with a content that is announced as `announced` bytes long.
    fn serve_once(content: &'static [u8], announced: usize) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}/libtorch.zip", listener.local_addr().expect("an address"));
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let _ = stream.read(&mut [0; 4096]);
            let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {announced}\r\n\r\n");
            stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(content)).expect("an answer");
        });
        address
    }

    #[test]
    fn a_download_arrives_whole_or_is_an_error() {
        let scratch = tempfile::tempdir().expect("a folder");
        let target = scratch.path().join("libtorch.zip");
        fetch(&serve_once(b"archive", 7), &target).expect("all of it");
        assert_eq!(fs::read(&target).expect("there"), b"archive");
        fetch(&serve_once(b"arch", 7), &target).expect_err("part of it");
        assert_eq!(fs::read(&target).expect("there"), b"arch");
        let closed_port =
            TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
        let other = scratch.path().join("other.zip");
        fetch(&format!("http://{closed_port}/"), &other).expect_err("no server");
        assert!(!other.exists());
    }

    #[test]
    fn only_wanted_files_are_unpacked() {
        let scratch = tempfile::tempdir().expect("a folder");
        let archive = scratch.path().join("package.zip");
        make_archive(&archive, &["torch/include/a/b.h", "torch/lib/libc10.so", "torch/lib/other.so"]);
        let folder = scratch.path().join("out");
        unpack(
            &archive,
            &folder,
            &[("torch/include/", "include/"), ("torch/lib/libc10.so", "lib/libc10.so")],
        )
        .expect("unpacked");
        let header = fs::read_to_string(folder.join("include/a/b.h")).expect("there");
        assert_eq!(header, "torch/include/a/b.h".repeat(1000));
        assert!(folder.join("lib/libc10.so").is_file());
        assert_eq!(fs::read_dir(folder.join("lib")).expect("listed").count(), 1);
    }

    #[test]
    fn a_wish_that_cannot_be_met_is_an_error() {
        let scratch = tempfile::tempdir().expect("a folder");
        let archive = scratch.path().join("package.zip");
        make_archive(&archive, &["torch/lib/libc10.so"]);
        unpack(&archive, scratch.path(), &[("torch/include/", "include/")])
            .expect_err("nothing below include");
    }

    #[test]
    fn no_member_leaves_the_folder() {
        let scratch = tempfile::tempdir().expect("a folder");
        let archive = scratch.path().join("package.zip");
        make_archive(&archive, &["torch/include/../../../escaped.h"]);
        let folder = scratch.path().join("deep/er/out");
        unpack(&archive, &folder, &[("torch/include/", "include/")]).expect_err("refused");
        assert!(!scratch.path().join("deep/escaped.h").exists());
    }

    #[test]
    fn a_truncated_or_altered_archive_is_noticed() {
        let scratch = tempfile::tempdir().expect("a folder");
        let archive = scratch.path().join("package.zip");
        make_archive(&archive, &["libtorch/include/torch.h", "libtorch/lib/libc10.so"]);
        check(&archive).expect("sound");
        let sound = fs::read(&archive).expect("read");
        fs::write(&archive, &sound[..sound.len() / 2]).expect("written");
        check(&archive).expect_err("truncated");
        let mut altered = sound;
        altered[60] ^= 1;
        fs::write(&archive, altered).expect("written");
        check(&archive).expect_err("altered");
    }
}
