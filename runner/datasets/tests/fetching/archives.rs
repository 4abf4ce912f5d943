//! Archives that are unpacked: only known files are written, only in the folder, and no more of them than is known.

use crate::server::{Files, Reply, Server};
use crate::{PATIENCE, fetch, gzip, hex, names, set};
use datasets::{FetchError, FileState, KnownFile, Packing};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs;
use std::io::Write;
use tempfile::TempDir;

/// A tar archive whose entries have these names and contents.
fn tar(entries: &[(&str, u8, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (path, kind, content) in entries {
        let mut block = vec![0; 512];
        block[..path.len()].copy_from_slice(path.as_bytes());
        block[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        block[148..156].copy_from_slice(b"        ");
        block[156] = *kind;
        let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        out.extend(block);
        out.extend_from_slice(content);
        out.resize(out.len().next_multiple_of(512), 0);
    }
    out.resize(out.len() + 1024, 0);
    out
}

/// Fetches an archive with these entries, of which `set/a.bin` and `set/b.bin` are known; returns the folder.
fn unpacked(
    entries: &[(&str, u8, &[u8])],
    known: [(&'static str, &[u8]); 2],
) -> (TempDir, Result<Vec<String>, FetchError>) {
    let packed = gzip(&tar(entries));
    let file = |(name, content): (&'static str, &[u8])| KnownFile {
        name,
        bytes: content.len() as u64,
        sha256: (name == "a.bin").then(|| hex(content)),
    };
    let set = set(Packing::TarGzip("set"), "set.tar.gz", &packed, known.map(file));
    let outer = tempfile::tempdir().unwrap();
    let files: Files = vec![("set.tar.gz".to_owned(), packed)];
    let server = Server::start(files, &[Reply::Good]);
    let told = fetch(set, &outer.path().join("inner"), &[&server.url], PATIENCE);
    if told.is_ok() {
        let states: Vec<FileState> = datasets::verify(set, &outer.path().join("inner"))
            .unwrap()
            .into_iter()
            .map(|found| found.state)
            .collect();
        assert_eq!(states, [FileState::Published, FileState::AsUnpacked]);
    }
    (outer, told)
}

#[test]
fn of_an_archive_only_known_files_are_written_and_only_in_the_folder() {
    let known = [("a.bin", &b"aaaa"[..]), ("b.bin", &b"bb"[..])];
    let (outer, told) = unpacked(
        &[
            ("set/", b'5', b""),
            ("../../escaped", b'0', b"evil"),
            ("/tmp/absolute", b'0', b"evil"),
            ("set/../a.bin", b'0', b"evil"),
            ("set/readme.html", b'0', b"hello"),
            ("set/a.bin", b'2', b""),
            ("set/a.bin", b'0', b"aaaa"),
            ("./set/b.bin", b'0', b"bb"),
        ],
        known,
    );
    told.unwrap();
    assert_eq!(names(outer.path()), ["inner"]);
    assert_eq!(names(&outer.path().join("inner")), ["SHA256SUMS", "a.bin", "b.bin"]);
    assert_eq!(fs::read(outer.path().join("inner/b.bin")).unwrap(), b"bb");
}

#[test]
fn an_archive_with_something_else_inside_leaves_no_file() {
    let known = [("a.bin", &b"aaaa"[..]), ("b.bin", &b"bb"[..])];
    for (entries, why) in [
        (vec![("set/a.bin", b'0', &b"aaaa"[..])], "it has no b.bin"),
        (vec![("set/a.bin", b'0', &b"aaab"[..]), ("set/b.bin", b'0', b"bb")], "a.bin has SHA-256 "),
        (vec![("set/a.bin", b'0', &b"aaaaa"[..])], "of 5 bytes"),
        (vec![("set/a.bin", b'0', &b"aaaa"[..]), ("set/a.bin", b'0', b"aaaa")], "is there twice"),
    ] {
        let (outer, told) = unpacked(&entries, known);
        let error = told.unwrap_err();
        assert!(matches!(error, FetchError::Packing { .. }) && error.to_string().contains(why), "{error}");
        assert_eq!(names(&outer.path().join("inner")), [".fetch"]);
    }
}

#[test]
fn a_bomb_is_not_unpacked_beyond_what_is_known() {
    let plain = vec![0; 50 << 20];
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&plain).unwrap();
    let packed = encoder.finish().unwrap();
    let set =
        set(Packing::Gzip, "images.gz", &packed, [KnownFile { name: "images", bytes: 1000, sha256: None }]);
    let from = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(from.path().join("images.gz"), &packed).unwrap();
    let error = fetch(set, folder.path(), &[from.path().to_str().unwrap()], PATIENCE).unwrap_err();
    assert!(error.to_string().ends_with("images is longer than 1000 bytes"), "{error}");
    assert!(fs::metadata(folder.path().join(".fetch/images")).unwrap().len() <= 1000);
    // To look at such a file reads one byte more than it may have.
    fs::write(folder.path().join("images.gz"), &packed).unwrap();
    let found = datasets::verify(set, folder.path()).unwrap();
    assert_eq!(found[0].state, FileState::Published, "the archive itself is as published");
}
