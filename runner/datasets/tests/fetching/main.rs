//! Data sets over a real connection to a server of our own: all that can go wrong on the way, and the files left behind.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

mod archives;
mod server;

use datasets::{
    Archive, DownloadSource, Errand, FetchError, FetchProgress, FileState, KnownFile, Packing, Patience,
    PublicDataSet, Refusal,
};
use flate2::Compression;
use flate2::write::GzEncoder;
use server::{Reply, Server};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// No pauses; silence is noticed soon, and an answer is given all the time that a slow machine needs.
const PATIENCE: Patience = Patience {
    answer: Duration::from_secs(30),
    silence: Duration::from_secs(30),
    tries: 3,
    pause: Duration::ZERO,
};

fn hex(bytes: &[u8]) -> &'static str {
    let digits: Vec<String> = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    digits.concat().leak()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Bytes that are worth something: no two pieces are alike.
fn content(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// A data set of one gzipped file, as it is published.
struct Published {
    set: &'static PublicDataSet,
    plain: Vec<u8>,
    packed: Vec<u8>,
}

impl Published {
    fn new() -> Self {
        let plain = content(300_000, 1);
        let packed = gzip(&plain);
        let files = [KnownFile { name: "images", bytes: plain.len() as u64, sha256: Some(hex(&plain)) }];
        let set = set(Packing::Gzip, "images.gz", &packed, files);
        Self { set, plain, packed }
    }

    fn serve(&self, script: &[Reply]) -> Server {
        Server::start(vec![("images.gz".to_owned(), self.packed.clone())], script)
    }
}

fn set<const N: usize>(
    packing: Packing,
    name: &'static str,
    packed: &[u8],
    files: [KnownFile; N],
) -> &'static PublicDataSet {
    let files: &'static [KnownFile] = Box::leak(Box::new(files));
    let archives: &'static [Archive] =
        vec![Archive { name, bytes: packed.len() as u64, sha256: hex(packed), sources: &[], packing, files }]
            .leak();
    Box::leak(Box::new(PublicDataSet {
        name: "test",
        title: "Test",
        folder: "test",
        terms: "none",
        archives,
    }))
}

fn fetch(
    set: &'static PublicDataSet,
    folder: &Path,
    sources: &[&str],
    patience: Patience,
) -> Result<Vec<String>, FetchError> {
    let sources: Vec<DownloadSource> = sources.iter().map(|source| DownloadSource::read(source)).collect();
    let mut told = Vec::new();
    let mut note = |progress: FetchProgress<'_>| match progress {
        FetchProgress::Here { .. } => told.push("here".to_owned()),
        FetchProgress::Source { have, .. } => told.push(format!("from {have}")),
        FetchProgress::Again { reason } => told.push(format!("again: {reason}")),
        FetchProgress::Refused { refusal } => told.push(format!("refused: {refusal}")),
        FetchProgress::Received { .. } | FetchProgress::Unpacking { .. } => {}
    };
    datasets::fetch(set, folder, Errand { sources: &sources, patience }, &mut note)?;
    Ok(told)
}

/// Nothing but whole files under their own names.
fn complete(folder: &TempDir, published: &Published) {
    assert_eq!(names(folder.path()), ["SHA256SUMS", "images"]);
    assert!(fs::read(folder.path().join("images")).unwrap() == published.plain);
    let sums = fs::read_to_string(folder.path().join("SHA256SUMS")).unwrap();
    assert_eq!(sums, format!("{}  images\n", hex(&published.plain)));
}

fn names(folder: &Path) -> Vec<String> {
    let entries =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.collect();
    names.sort();
    names
}

/// Fetches from a server with this script; returns the progress that was reported, and which bytes were asked for.
fn fetched(script: &[Reply]) -> (Vec<String>, Vec<Option<u64>>) {
    let published = Published::new();
    let folder = tempfile::tempdir().unwrap();
    let server = published.serve(script);
    let told = fetch(published.set, folder.path(), &[&server.url], PATIENCE).unwrap();
    complete(&folder, &published);
    (told, server.seen().into_iter().map(|(_, from)| from).collect())
}

/// Fails against a server with this script; returns the last refusal and the error.
fn refused(script: &[Reply]) -> (Refusal, FetchError) {
    let published = Published::new();
    let folder = tempfile::tempdir().unwrap();
    let server = published.serve(script);
    let error = fetch(published.set, folder.path(), &[&server.url], PATIENCE).unwrap_err();
    assert!(!folder.path().join("images").exists());
    let FetchError::Unavailable { refusals, .. } = &error else { panic!("{error}") };
    (refusals.last().unwrap().clone(), error)
}

#[test]
fn a_file_comes_is_checked_and_unpacked() {
    assert_eq!(fetched(&[Reply::Good]), (vec!["from 0".to_owned()], vec![None]));
}

#[test]
fn a_second_fetch_asks_for_nothing() {
    let published = Published::new();
    let folder = tempfile::tempdir().unwrap();
    let server = published.serve(&[Reply::Good]);
    fetch(published.set, folder.path(), &[&server.url], PATIENCE).unwrap();
    assert_eq!(fetch(published.set, folder.path(), &[&server.url], PATIENCE).unwrap(), ["here"]);
    assert_eq!(server.seen().len(), 1);
    // A file that was damaged since then comes again.
    let path = folder.path().join("images");
    let mut bytes = fs::read(&path).unwrap();
    bytes[1000] ^= 1;
    fs::write(&path, bytes).unwrap();
    let found = datasets::verify(published.set, folder.path()).unwrap();
    assert!(matches!(&found[0].state, FileState::Different { why } if why.starts_with("SHA-256 ")));
    fetch(published.set, folder.path(), &[&server.url], PATIENCE).unwrap();
    complete(&folder, &published);
    assert_eq!(datasets::verify(published.set, folder.path()).unwrap()[0].state, FileState::Published);
}

#[test]
fn what_breaks_off_goes_on_where_it_stopped_as_often_as_it_gets_on() {
    let cuts = [Reply::Cut(100_000), Reply::Cut(50_000), Reply::Cut(50_000), Reply::Cut(50_000), Reply::Good];
    let (told, asked) = fetched(&cuts);
    assert_eq!(asked, [None, Some(100_000), Some(150_000), Some(200_000), Some(250_000)]);
    assert_eq!(told.iter().filter(|line| line.starts_with("again: ")).count(), 4);
    // A server without ranges sends all of it once more.
    let (_, asked) = fetched(&[Reply::Cut(100_000), Reply::NoRanges]);
    assert_eq!(asked, [None, Some(100_000)]);
    let (_, asked) = fetched(&[Reply::Status(503), Reply::Status(429), Reply::Good]);
    assert_eq!(asked, [None, None, None]);
}

#[test]
fn a_later_call_goes_on_too_and_wrong_bytes_of_another_day_are_thrown_away() {
    for (kept, asked) in [(100_000_usize, vec![Some(100_000)]), (0, vec![None])] {
        for wrong in [0_u8, 1] {
            let published = Published::new();
            let folder = tempfile::tempdir().unwrap();
            let part = folder.path().join(".fetch/images.gz.part");
            fs::create_dir(folder.path().join(".fetch")).unwrap();
            let bytes: Vec<u8> = published.packed[..kept].iter().map(|byte| byte ^ wrong).collect();
            fs::write(&part, bytes).unwrap();
            let server = published.serve(&[Reply::Good]);
            fetch(published.set, folder.path(), &[&server.url], PATIENCE).unwrap();
            complete(&folder, &published);
            let again = if kept > 0 && wrong == 1 { vec![None] } else { vec![] };
            let seen: Vec<Option<u64>> = server.seen().into_iter().map(|(_, from)| from).collect();
            assert_eq!(seen, [asked.clone(), again].concat(), "{kept} bytes, wrong by {wrong}");
        }
    }
}

#[test]
fn a_part_that_is_longer_than_the_file_is_no_part_of_it() {
    let published = Published::new();
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join(".fetch")).unwrap();
    fs::write(folder.path().join(".fetch/images.gz.part"), content(published.packed.len() + 1, 2)).unwrap();
    let server = published.serve(&[Reply::Good]);
    fetch(published.set, folder.path(), &[&server.url], PATIENCE).unwrap();
    complete(&folder, &published);
}

#[test]
fn redirects_are_followed() {
    let published = Published::new();
    let folder = tempfile::tempdir().unwrap();
    let behind = published.serve(&[Reply::Cut(10_000), Reply::Good]);
    let front = published.serve(&[Reply::Redirect(format!("{}/deep/images.gz", behind.url))]);
    fetch(published.set, folder.path(), &[&front.url], PATIENCE).unwrap();
    complete(&folder, &published);
    let asked = [("/deep/images.gz".to_owned(), None), ("/deep/images.gz".to_owned(), Some(10_000))];
    assert_eq!(behind.seen(), asked);
    // A server that sends one round in circles is given up.
    let (refusal, _) = refused(&[Reply::Redirect("/images.gz".to_owned())]);
    assert!(matches!(refusal, Refusal::Connection { tries: 3, .. }), "{refusal}");
}

#[test]
fn a_silent_server_is_given_up_and_keeps_what_it_sent() {
    let published = Published::new();
    let folder = tempfile::tempdir().unwrap();
    let server = published.serve(&[Reply::Silent(1000), Reply::Silent(0), Reply::Silent(0)]);
    let patience = Patience { silence: Duration::from_secs(2), ..PATIENCE };
    let error = fetch(published.set, folder.path(), &[&server.url], patience).unwrap_err();
    assert!(error.to_string().contains("images.gz: "), "{error}");
    assert!(error.cure().contains("HTTPS_PROXY") && error.cure().contains("--from"), "{}", error.cure());
    let part = fs::read(folder.path().join(".fetch/images.gz.part")).unwrap();
    assert!(part == published.packed[..1000]);
    let server = published.serve(&[Reply::Good]);
    fetch(published.set, folder.path(), &[&server.url], PATIENCE).unwrap();
    assert_eq!(server.seen()[0].1, Some(1000));
    complete(&folder, &published);
}

#[test]
fn what_a_source_will_not_give_is_told_with_its_address() {
    let (refusal, error) = refused(&[Reply::Status(404)]);
    assert!(matches!(refusal, Refusal::Status { status: 404, .. }), "{refusal}");
    assert!(error.to_string().contains("/images.gz: the server returned status 404"), "{error}");
    let (refusal, error) = refused(&[Reply::Wrong]);
    assert!(matches!(refusal, Refusal::Digest { .. }), "{refusal}");
    assert!(error.cure().contains("not what was published"), "{}", error.cure());
    let (refusal, _) = refused(&[Reply::Short]);
    assert!(matches!(refusal, Refusal::Length { got: Some(3), .. }), "{refusal}");
    let (refusal, _) = refused(&[Reply::Endless]);
    assert!(matches!(refusal, Refusal::Length { got: None, .. }), "{refusal}");
    let (refusal, _) = refused(&[Reply::Status(500)]);
    assert!(matches!(refusal, Refusal::Connection { tries: 3, .. }), "{refusal}");
}

#[test]
fn the_next_source_is_asked_and_what_the_first_one_sent_is_used() {
    let published = Published::new();
    let folder = tempfile::tempdir().unwrap();
    let first = published.serve(&[Reply::Cut(5000), Reply::Status(403)]);
    let second = published.serve(&[Reply::Good]);
    let told = fetch(published.set, folder.path(), &[&first.url, &second.url], PATIENCE).unwrap();
    complete(&folder, &published);
    assert_eq!(second.seen()[0].1, Some(5000));
    assert!(
        told.iter().any(|line| line.starts_with("refused: ") && line.ends_with("returned status 403")),
        "{told:?}"
    );
    // Nothing listens there any more.
    let gone = first.url.clone();
    let folder = tempfile::tempdir().unwrap();
    drop(first);
    fetch(published.set, folder.path(), &[&gone, &second.url], PATIENCE).unwrap();
    complete(&folder, &published);
    let folder = tempfile::tempdir().unwrap();
    let error = fetch(published.set, folder.path(), &[&gone], PATIENCE).unwrap_err();
    assert!(error.to_string().ends_with("(3 times)"), "{error}");
}

#[test]
fn a_folder_is_a_source_and_an_archive_put_there_by_hand_is_used() {
    let published = Published::new();
    let from = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let there = from.path().to_str().unwrap();
    let error = fetch(published.set, folder.path(), &[there], PATIENCE).unwrap_err();
    assert!(error.to_string().ends_with("images.gz: no such file"), "{error}");
    fs::write(from.path().join("images.gz"), &published.packed).unwrap();
    fetch(published.set, folder.path(), &[there], PATIENCE).unwrap();
    complete(&folder, &published);
    assert_eq!(names(from.path()), ["images.gz"], "a source stays as it is");
    // The same folder is where it is wanted: nothing has to be asked for.
    assert_eq!(datasets::verify(published.set, from.path()).unwrap()[0].state, FileState::Published);
    fetch(published.set, from.path(), &["http://127.0.0.1:1"], PATIENCE).unwrap();
    fs::write(from.path().join("images.gz"), b"cut").unwrap();
    let found = datasets::verify(published.set, from.path()).unwrap();
    assert!(
        matches!(&found[0].state, FileState::Different { why } if why.starts_with("no intact gzip")),
        "{found:?}"
    );
}

#[test]
fn one_fetch_at_a_time() {
    let published = Published::new();
    let folder = tempfile::tempdir().unwrap();
    let server = published.serve(&[Reply::Good]);
    let mut second = None;
    let source = [DownloadSource::read(&server.url)];
    let mut while_under_way = |progress: FetchProgress<'_>| {
        if matches!(progress, FetchProgress::Unpacking { .. }) {
            second = Some(datasets::fetch(
                published.set,
                folder.path(),
                Errand { sources: &source, patience: PATIENCE },
                &mut |_| (),
            ));
        }
    };
    datasets::fetch(
        published.set,
        folder.path(),
        Errand { sources: &source, patience: PATIENCE },
        &mut while_under_way,
    )
    .unwrap();
    let error = second.unwrap().unwrap_err();
    assert!(matches!(error, FetchError::Busy { holder: Some(_), .. }), "{error}");
    complete(&folder, &published);
}

#[test]
fn a_folder_that_cannot_be_made_is_named_with_its_cure() {
    let published = Published::new();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let error = fetch(published.set, &folder.path().join("file/data"), &["http://127.0.0.1:1"], PATIENCE)
        .unwrap_err();
    assert!(matches!(error, FetchError::File { what: "made", .. }), "{error}");
    assert!(error.cure().contains("--folder"));
    let full = std::io::Error::from_raw_os_error(28);
    let error = FetchError::File { path: "x".into(), what: "written", source: full };
    assert!(error.cure().contains("continues where it stopped"), "{}", error.cure());
}
