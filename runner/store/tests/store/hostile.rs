//! Bundles that no bakeoff wrote, or that were changed on their way: each is refused, and leaves the store as it was.

use crate::bundles::{bundled, imported, place};
use crate::rebuild::{dump, history};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use store::{BundleError, DATABASE, Selection, Store};
use tar::{Archive, EntryType, Header};

/// A file of a bundle.
#[derive(Clone)]
struct Part {
    name: String,
    kind: EntryType,
    bytes: Vec<u8>,
    /// As the archive says, where that is something else.
    size: Option<u64>,
}

/// A bundle taken apart: the manifest, and the files.
#[derive(Clone)]
struct Apart {
    manifest: Value,
    parts: Vec<Part>,
}

impl Apart {
    fn of(bundle: &Path) -> Self {
        let mut archive = Archive::new(GzDecoder::new(fs::File::open(bundle).unwrap()));
        let entries = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let name = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            Part { name, kind: EntryType::Regular, bytes, size: None }
        });
        let mut parts: Vec<Part> = entries.collect();
        let manifest = serde_json::from_slice(&parts.remove(0).bytes).unwrap();
        Self { manifest, parts }
    }

    /// Makes the manifest fit the files, as one does who forges a bundle.
    fn signed(mut self) -> Self {
        let listed = self.parts.iter().map(|part| {
            let sha256 = recipe::hex(&Sha256::digest(&part.bytes));
            json!({ "name": part.name, "size": part.bytes.len(), "sha256": sha256 })
        });
        self.manifest["files"] = listed.collect();
        self
    }

    fn write(&self, file: &Path) {
        let mut archive =
            tar::Builder::new(GzEncoder::new(fs::File::create(file).unwrap(), Compression::fast()));
        let manifest = serde_json::to_vec(&self.manifest).unwrap();
        let head =
            Part { name: "manifest.json".into(), kind: EntryType::Regular, bytes: manifest, size: None };
        for part in [&head].into_iter().chain(&self.parts) {
            let mut header = Header::new_ustar();
            // Not `set_path`, which refuses what a forger writes.
            let name = &mut header.as_old_mut().name;
            name[..part.name.len()].copy_from_slice(part.name.as_bytes());
            header.set_size(part.size.unwrap_or(part.bytes.len() as u64));
            header.set_entry_type(part.kind);
            if part.kind != EntryType::Regular {
                header.set_link_name("/etc/passwd").unwrap();
            }
            header.set_mode(0o777);
            header.set_cksum();
            archive.append(&header, part.bytes.as_slice()).unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap().flush().unwrap();
    }

    /// The first journal, line by line.
    fn journal(&mut self, change: impl Fn(&mut Vec<Value>)) {
        let part = self.parts.iter_mut().find(|part| part.name.contains("/sweep-")).unwrap();
        let text = String::from_utf8(part.bytes.clone()).unwrap();
        let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        change(&mut lines);
        part.bytes = lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect();
    }
}

/// Makes a bundle whose models are others.
pub(crate) fn with_other_models(bundle: &Path, forged: &Path) {
    let mut apart = Apart::of(bundle);
    for part in apart.parts.iter_mut().filter(|part| part.name.contains("/snapshots/")) {
        part.bytes.iter_mut().for_each(|byte| *byte ^= 1);
    }
    apart.signed().write(forged);
}

/// A good bundle, in a folder of its own.
async fn good() -> (tempfile::TempDir, PathBuf) {
    let (folder, _) = history().await;
    let file = folder.path().join("good.tar.gz");
    let store = Store::open(&place(folder.path())).await.unwrap();
    bundled(&store, "", &file).await.unwrap();
    (folder, file)
}

/// An import of this bundle must fail and leave nothing; returns its error.
async fn refused(here: &Path, bundle: &Path) -> String {
    let database = place(here).join(DATABASE);
    Store::open(&place(here)).await.unwrap().close().await;
    let before = dump(&database).await;
    let error = imported(here, bundle).await.unwrap_err();
    assert!(!matches!(error, BundleError::Store(_)), "{error}");
    assert_eq!(dump(&database).await, before);
    assert!(!place(here).join("import").exists());
    let runs = fs::read_dir(place(here).join("runs")).into_iter().flatten().count();
    assert_eq!(runs, 0, "{error}");
    let said = error.to_string();
    assert!(!said.contains('\u{1b}'), "{said:?}");
    said
}

#[tokio::test]
async fn a_bundle_that_was_cut_or_changed_at_any_place_is_refused() {
    let (folder, file) = good().await;
    let whole = fs::read(&file).unwrap();
    let here = tempfile::tempdir().unwrap();
    let changed = folder.path().join("changed.tar.gz");
    for length in [0, 1, 2, 9, 100, whole.len() / 2, whole.len() - 9, whole.len() - 1] {
        fs::write(&changed, &whole[..length]).unwrap();
        refused(here.path(), &changed).await;
    }
    for place in (10..whole.len()).step_by(whole.len() / 40) {
        let mut bytes = whole.clone();
        bytes[place] ^= 0x10;
        if inflated(&bytes).is_some_and(|content| Some(content) == inflated(&whole)) {
            // A bit that the format leaves unused, such as one that fills up the last byte of a block.
            continue;
        }
        fs::write(&changed, &bytes).unwrap();
        refused(here.path(), &changed).await;
    }
    fs::write(&changed, [&whole[..], b"more"].concat()).unwrap();
    assert!(refused(here.path(), &changed).await.contains("after its end"));
    fs::write(&changed, "name = \"recipe\"").unwrap();
    assert!(refused(here.path(), &changed).await.contains("is no bundle"));
    assert!(refused(here.path(), folder.path()).await.contains("is no bundle: it is no file"));
    assert!(refused(here.path(), &folder.path().join("absent")).await.contains("cannot be read"));
    imported(here.path(), &file).await.unwrap();
}

/// Content of a compressed file, if the file is whole.
fn inflated(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut content).ok()?;
    Some(content)
}

/// A forger's change of a bundle, and the error of its import.
type Forgery = (&'static str, fn(&mut Apart));

#[tokio::test]
async fn names_kinds_and_sizes_that_no_driver_writes_are_refused() {
    let (folder, file) = good().await;
    let good = Apart::of(&file);
    let last = good.parts.len() - 1;
    let forgeries: [Forgery; 14] = [
        ("none of a sweep's", |apart| apart.parts.last_mut().unwrap().name = "../x".into()),
        ("none of a sweep's", |apart| apart.parts.last_mut().unwrap().name = "/tmp/bakeoff-escaped".into()),
        ("none of a sweep's", |apart| apart.parts.last_mut().unwrap().name = "runs/../../x".into()),
        ("none of a sweep's", |apart| apart.parts.last_mut().unwrap().name = "bakeoff.db".into()),
        ("none of a sweep's", |apart| apart.parts.last_mut().unwrap().name = "runs/\u{1b}[2J".into()),
        ("no journal tells of", |apart| {
            apart.parts.last_mut().unwrap().name = "runs/01JD0QV1CKSTARR0000000000A/1/events.mpk".into();
        }),
        ("no plain file", |apart| apart.parts.last_mut().unwrap().kind = EntryType::Symlink),
        ("no plain file", |apart| apart.parts.last_mut().unwrap().kind = EntryType::Link),
        ("no plain file", |apart| apart.parts.last_mut().unwrap().kind = EntryType::Directory),
        ("no plain file", |apart| apart.parts.last_mut().unwrap().kind = EntryType::Char),
        ("no plain file", |apart| apart.parts.last_mut().unwrap().kind = EntryType::GNULongName),
        ("the manifest says", |apart| apart.parts.last_mut().unwrap().size = Some(1 << 60)),
        ("twice", |apart| {
            let again = apart.parts.last().unwrap().clone();
            apart.parts.push(again);
        }),
        ("are not the same ones", |apart| {
            apart.manifest["sweeps"].as_array_mut().unwrap().pop();
        }),
    ];
    let here = tempfile::tempdir().unwrap();
    let forged = folder.path().join("forged.tar.gz");
    for (words, forge) in forgeries {
        let mut apart = good.clone();
        forge(&mut apart);
        apart.signed().write(&forged);
        let said = refused(here.path(), &forged).await;
        assert!(said.contains(words), "{words}: {said}");
        assert!(!folder.path().join("x").exists() && !Path::new("/tmp/bakeoff-escaped").exists());
    }
    let unsigned: [Forgery; 7] = [
        ("reads up to 1", |apart| apart.manifest["format"] = json!(2)),
        ("unpacks to", |apart| {
            apart.manifest["files"].as_array_mut().unwrap().last_mut().unwrap()["size"] = json!(1_u64 << 61);
        }),
        ("would have", |apart| apart.manifest["files"][0]["size"] = json!(1_u64 << 40)),
        ("it ends before", |apart| drop(apart.parts.pop())),
        ("where", |apart| apart.parts.swap(2, 3)),
        ("more files than", |apart| {
            let more = apart.parts.last().unwrap().clone();
            apart.parts.push(more);
        }),
        ("SHA-256", |apart| apart.parts.last_mut().unwrap().bytes[0] ^= 1),
    ];
    for (words, forge) in unsigned {
        let mut apart = good.clone();
        forge(&mut apart);
        apart.write(&forged);
        let said = refused(here.path(), &forged).await;
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(last > 3);
    good.signed().write(&forged);
    imported(here.path(), &forged).await.unwrap();
}

/// The entry of this name in the lines of a journal.
fn entry<'l>(lines: &'l mut [Value], name: &str) -> &'l mut Value {
    lines.iter_mut().find_map(|line| line.get_mut(name)).unwrap()
}

/// A forger's change of a journal, and the error of its import.
type Lie = (&'static str, fn(&mut Vec<Value>));

#[tokio::test]
async fn journals_that_no_driver_writes_are_refused() {
    let (folder, file) = good().await;
    let good = Apart::of(&file);
    let lies: [Lie; 23] = [
        ("is that of", |lines| entry(lines, "sweep")["sweep"] = json!("01JD0QV1CKSTARR0000000000A")),
        ("not those of its plan", |lines| {
            entry(lines, "sweep")["runs"].as_array_mut().unwrap().push(json!("01JD0QV1CKSTARR0000000000A"));
        }),
        ("not those of its plan", |lines| {
            let sweep = entry(lines, "sweep");
            let run = sweep["plan"]["runs"][0].clone();
            sweep["plan"]["runs"].as_array_mut().unwrap().push(run);
            sweep["runs"].as_array_mut().unwrap().push(json!("../../../etc/cron.d/mine"));
        }),
        ("none of the sweep's", |lines| {
            let runs = entry(lines, "sweep")["runs"].as_array_mut().unwrap();
            runs[0] = runs[1].clone();
        }),
        ("contradicts itself", |lines| entry(lines, "sweep")["plan"]["runs"][0]["cell"] = json!(99)),
        ("contradicts itself", |lines| entry(lines, "sweep")["plan"]["cells"][0]["arm"] = json!(99)),
        ("contradicts itself", |lines| entry(lines, "sweep")["plan"]["arms"][1]["baseline"] = json!(true)),
        ("numbers that no run can have", |lines| {
            entry(lines, "sweep")["plan"]["cells"][0]["spec"]["model"]["input"]["flat"] = json!(1_u64 << 40);
        }),
        ("numbers that no run can have", |lines| {
            entry(lines, "sweep")["plan"]["report"]["confidence"] = json!(2.0);
        }),
        ("has the name", |lines| entry(lines, "sweep")["plan"]["name"] = json!("\u{1b}]0;owned\u{7}")),
        ("has the name", |lines| entry(lines, "attempt")["nodes"][0]["host"] = json!("a\nb")),
        ("changes how text is shown", |lines| {
            entry(lines, "sweep")["plan"]["arms"][0]["name"] = json!("a\u{202e}b");
        }),
        ("\\u{1b}[2J", |lines| {
            entry(lines, "sweep")["plan"]["cells"][0]["spec"]["cluster"]["nodes"][0]["name"] =
                json!("\u{1b}[2J");
        }),
        ("is two of them", |lines| {
            let cells = &mut entry(lines, "sweep")["plan"]["cells"];
            cells[0]["config_hash"] = cells[1]["config_hash"].clone();
        }),
        ("none of the sweep's", |lines| {
            entry(lines, "identity")["run"] = json!("01JD0QV1CKSTARR0000000000A");
        }),
        ("has no end", |lines| lines.retain(|line| line.get("sweep-end").is_none())),
        ("has no end", |lines| {
            let at = lines.iter().position(|line| line.get("attempt-end").is_some()).unwrap();
            lines.remove(at);
        }),
        ("never began", |lines| lines.retain(|line| line.get("attempt").is_none())),
        ("cannot be read", |lines| lines.push(json!({ "unheard-of": 1 }))),
        ("a second plan", |lines| lines.push(lines[0].clone())),
        ("is no tag", |lines| lines.push(json!({ "tag": { "name": "a b", "time": 1 } }))),
        ("changes how the text around it is shown", |lines| {
            lines.push(json!({ "sweep-note": { "text": "\u{1b}[2J", "time": 1 } }));
        }),
        ("neither in the bundle nor here", |lines| {
            let run = entry(lines, "sweep")["runs"][0].clone();
            lines.push(json!({ "reused": { "run": run, "source": "01JD0QV1CKSTARR0000000000A" } }));
        }),
    ];
    let here = tempfile::tempdir().unwrap();
    let forged = folder.path().join("forged.tar.gz");
    for (words, lie) in lies {
        let mut apart = good.clone();
        apart.journal(lie);
        apart.signed().write(&forged);
        let said = refused(here.path(), &forged).await;
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[tokio::test]
async fn logs_that_do_not_fit_their_journals_are_refused() {
    let (folder, file) = good().await;
    let good = Apart::of(&file);
    let here = tempfile::tempdir().unwrap();
    let forged = folder.path().join("forged.tar.gz");
    let log = |apart: &Apart| {
        apart
            .parts
            .iter()
            .enumerate()
            .filter(|(_, part)| part.name.ends_with("events.mpk"))
            .max_by_key(|(_, part)| part.bytes.len())
            .unwrap()
            .0
    };
    // The events of a rank that the plan does not have.
    let mut apart = good.clone();
    let at_log = log(&apart);
    let stranger = record::Event::Link(record::LinkRecord {
        from: record::Rank(7),
        to: record::Rank(9),
        bytes: 1,
        messages: 1,
    });
    let record = stranger.encode().unwrap();
    apart.parts[at_log].bytes.extend(u32::try_from(record.len()).unwrap().to_le_bytes());
    apart.parts[at_log].bytes.extend(record);
    apart.signed().write(&forged);
    refused(here.path(), &forged).await;
    // A log that is shorter than it was.
    let mut apart = good.clone();
    apart.parts[at_log].bytes.truncate(100);
    apart.signed().write(&forged);
    assert!(refused(here.path(), &forged).await.contains("of whole events"));
    // A small file that unpacks to far more than its journal says.
    let mut apart = good.clone();
    let mut zipped = GzEncoder::new(Vec::new(), Compression::best());
    for _ in 0..200 {
        zipped.write_all(&apart.parts[at_log].bytes).unwrap();
    }
    apart.parts[at_log].bytes = zipped.finish().unwrap();
    apart.parts[at_log].name += ".gz";
    apart.signed().write(&forged);
    assert!(refused(here.path(), &forged).await.contains("it unpacks to more than"));
    // A model that an export would look for elsewhere.
    let mut apart = good.clone();
    let part = &mut apart.parts[at_log];
    let name = b"last.safetensors";
    let at = part.bytes.windows(name.len()).position(|bytes| bytes == name).unwrap();
    part.bytes[at..at + name.len()].copy_from_slice(b"/etc/../../passw");
    apart.signed().write(&forged);
    assert!(refused(here.path(), &forged).await.contains("a model of it would be in"));
    let store = Store::open_existing(&place(here.path())).await.unwrap();
    assert!(store.list(&Selection::all()).await.unwrap().is_empty());
}

/// One digest must not name two configurations, or runs of this store would show the settings of another one's.
#[tokio::test]
async fn a_configuration_of_this_store_is_not_replaced() {
    let (folder, file) = good().await;
    let here = tempfile::tempdir().unwrap();
    let own = Store::open(&place(here.path())).await.unwrap();
    crate::world::begin(&own, &crate::world::plan(), store::Driver::this()).await;
    own.close().await;
    drop(own);
    let mut apart = Apart::of(&file);
    apart.journal(|lines| {
        let spec = &mut entry(lines, "sweep")["plan"]["cells"][0]["spec"];
        spec["train"]["global_batch"] = json!(11);
    });
    let forged = folder.path().join("forged.tar.gz");
    apart.signed().write(&forged);
    let before = dump(&place(here.path()).join(DATABASE)).await;
    let error = imported(here.path(), &forged).await.unwrap_err();
    assert!(error.to_string().contains("is another one here"), "{error}");
    assert_eq!(dump(&place(here.path()).join(DATABASE)).await, before);
    imported(here.path(), &file).await.unwrap();
}
