//! Folders of files written by hand: the samples read from them, and the errors of invalid ones.

use super::*;
use proptest::prelude::*;
use recipe::TextTokens;
use std::collections::BTreeSet;
use std::fs;

const WORDS: LabelledTextForm = LabelledTextForm { header: false, unit: TextTokens::Words, most: 1000 };

struct Folder(tempfile::TempDir);

impl Folder {
    fn with(train: impl AsRef<[u8]>, test: impl AsRef<[u8]>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(TRAIN), train).unwrap();
        fs::write(folder.path().join(TEST), test).unwrap();
        Self(folder)
    }

    fn load(&self, form: LabelledTextForm, context: u32) -> Result<LabelledTexts, String> {
        let loaded = load_labelled_texts(self.0.path(), form, context, &mut |_| ());
        let surveyed = survey_labelled_texts(self.0.path(), form);
        // Both judge by the same rules, in the same order.
        match (&loaded, &surveyed) {
            (Ok(loaded), Ok(surveyed)) => assert_eq!(loaded.size, surveyed.size),
            (Err(one), Err(other)) => assert_eq!(one.to_string(), other.to_string()),
            (one, other) => panic!("{one:?} and {other:?}"),
        }
        loaded.map_err(|error| error.to_string().replace(&format!("{}/", self.0.path().display()), ""))
    }
}

fn loaded(train: &str, test: &str, context: u32) -> LabelledTexts {
    Folder::with(train, test).load(WORDS, context).unwrap()
}

fn refused(train: impl AsRef<[u8]>, test: impl AsRef<[u8]>) -> String {
    Folder::with(train, test).load(WORDS, 3).unwrap_err()
}

#[test]
fn the_most_frequent_words_have_the_smallest_numbers_and_ties_are_in_byte_order() {
    // b three times, a and c twice, d once; the last text ends in the test file's unknown word.
    let texts = loaded("1,b c A\n2,B b d c a\n", "2,\"d, e; a\"\n", 4);
    let size = LabelledTextSize { train: 2, test: 1, classes: 2, vocabulary: 6 };
    assert_eq!(texts.size, size);
    assert_eq!(texts.train.tokens, [2.0, 4.0, 3.0, 0.0, 2.0, 2.0, 5.0, 4.0], "the fifth word is cut");
    assert_eq!((texts.train.labels, texts.test.labels), (vec![0, 1], vec![1]));
    assert_eq!(texts.test.tokens, [5.0, 1.0, 3.0, 0.0]);
}

#[test]
fn rare_words_are_unknown() {
    let folder = Folder::with("x,a a b b c\ny,c c d\n", "x,d c b a\n");
    let texts = folder.load(LabelledTextForm { most: 2, ..WORDS }, 5).unwrap();
    assert_eq!(texts.size.vocabulary, 4);
    assert_eq!(texts.train.tokens, [3.0, 3.0, 1.0, 1.0, 2.0, 2.0, 2.0, 1.0, 0.0, 0.0]);
    assert_eq!(texts.test.tokens, [1.0, 2.0, 1.0, 3.0, 0.0]);
}

#[test]
fn classes_are_labels_in_byte_order_however_they_are_written() {
    let texts = loaded("sport,a\nWorld,a\n10,a\n9,a\nsport,a\n", "9,a\nWorld,a\n", 1);
    assert_eq!(texts.train.labels, [3, 2, 0, 1, 3]);
    assert_eq!(texts.test.labels, [1, 2]);
    let folder = Folder::with("sport,a\nWorld,a\n10,a\n", "10,a\n");
    assert_eq!(survey_labelled_texts(folder.0.path(), WORDS).unwrap().labels, ["10", "World", "sport"]);
}

#[test]
fn files_are_read_as_they_are_published() {
    // AG News: class from 1 on, title and description, all in quotes, quotes doubled; with the ends of lines of Windows.
    let train =
        "\"3\",\"Wall St. \"\"Bears\"\"\",\"Short-sellers,\n are back\"\r\n\"1\",\"Caf\u{c9}\",\"\"\r\n\r\n";
    let texts = loaded(train, "\u{feff}1,a,b", 8);
    let survey = Folder::with(train, "1,a,b");
    let survey = survey_labelled_texts(survey.0.path(), WORDS).unwrap();
    assert_eq!((survey.different, survey.lengths, survey.size.train), (8, vec![1, 7], 2));
    // are back bears café sellers short st wall
    assert_eq!(texts.train.tokens[..8], [9.0, 8.0, 4.0, 7.0, 6.0, 2.0, 3.0, 0.0]);
    assert_eq!(texts.train.tokens[8..], [5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(texts.train.labels, [1, 0]);
    assert_eq!(texts.test.labels, [0], "the mark in front of the test file is no part of its label");
}

#[test]
fn a_header_is_taken_for_one_only_if_the_recipe_says_so() {
    let folder = Folder::with("label,text\n1,a\n2,b\n", "label,text\n2,b\n");
    let sizes = |header| folder.load(LabelledTextForm { header, ..WORDS }, 2).unwrap().size;
    assert_eq!(sizes(true), LabelledTextSize { train: 2, test: 1, classes: 2, vocabulary: 4 });
    assert_eq!(sizes(false), LabelledTextSize { train: 3, test: 2, classes: 3, vocabulary: 5 });
}

#[test]
fn characters_and_bytes_are_tokens_too() {
    let folder = Folder::with("1,\u{e9}\u{e9} a,\u{e9}\n2,a,a\n", "1,Ab,c\n");
    let load = |unit| folder.load(LabelledTextForm { unit, ..WORDS }, 7).unwrap();
    // Three of each, in byte order: a blank between columns and in one, then a, then e with an accent.
    let characters = load(TextTokens::Characters);
    assert_eq!(
        characters.train.tokens,
        [4.0, 4.0, 2.0, 3.0, 2.0, 4.0, 0.0, 3.0, 2.0, 3.0, 0.0, 0.0, 0.0, 0.0]
    );
    assert_eq!(characters.test.tokens, [1.0, 1.0, 2.0, 1.0, 0.0, 0.0, 0.0]);
    // Four different bytes: three of each but the blank are equally frequent.
    let bytes = load(TextTokens::Bytes);
    assert_eq!(bytes.size.vocabulary, 6);
    assert_eq!(bytes.train.tokens[..7], [5.0, 4.0, 5.0, 4.0, 2.0, 3.0, 2.0]);
    let raw = Folder::with(b"1,\xff\xfe\n2,\xff\n", "1,a\n");
    let texts = raw.load(LabelledTextForm { unit: TextTokens::Bytes, ..WORDS }, 2).unwrap();
    assert_eq!(texts.train.tokens, [2.0, 3.0, 2.0, 0.0]);
}

#[test]
fn what_is_wrong_is_said_with_file_and_line() {
    let good = "1,a\n2,b\n";
    assert_eq!(refused("", good), "train.csv has no record with a label and a text");
    assert_eq!(refused("\n\r\n\n", good), "train.csv has no record with a label and a text");
    assert_eq!(refused(good, "\n"), "test.csv has no record with a label and a text");
    assert_eq!(
        refused("1,a\n1,b\n", good),
        "train.csv has the label \"1\" only: there is nothing to tell apart"
    );
    assert_eq!(refused("1,a\n\n,b\n", good), "train.csv has no label in line 3");
    assert_eq!(
        refused("1,a\n2\n", good),
        "train.csv has one column in line 2, where a label and a text are needed"
    );
    assert_eq!(refused("1,a\n2,b,c\n", good), "train.csv has 3 columns in line 2, and 2 in its first");
    let told = "test.csv has the label \"3\" in line 4, which train.csv does not have";
    assert_eq!(refused(good, "1,a\n2,\"b\nb\"\n3,c\n"), told);
    assert_eq!(refused("1,a\r\n2,b\0\r\n", good), "train.csv has a NUL byte in line 2, which no text has");
    assert_eq!(refused(b"1,a\n2,\"b\n\xff\"\n", good), "train.csv is not UTF-8 in line 3");
    assert_eq!(refused(b"1,a\n\xff,b\n", good), "train.csv is not UTF-8 in line 2");
    let open = "ends inside of quotes that are opened in the record of line 2";
    assert_eq!(refused("1,a\n2,\"b\n1,c\n2,d\n", good), format!("train.csv {open}"));
    assert_eq!(refused(good, "1,a\n2,\""), format!("test.csv {open}"));
    let long = format!("1,a\n{},b\n", "x".repeat(300));
    assert_eq!(refused(long, good), "train.csv has a label of 300 bytes in line 2; the longest has 256");
    let wide = format!("1,a\n2{}\n", ",b".repeat(64));
    assert_eq!(refused(wide, good), "train.csv has more than 64 columns in line 2");
}

#[test]
fn what_is_too_long_is_refused_before_it_is_held() {
    let good = "1,a\n2,b\n";
    let long = "has more than 1048576 bytes in the record of line 2";
    let line = [b"1,a\n2,".as_slice(), &vec![b'x'; LONGEST_RECORD]].concat();
    assert_eq!(refused(line, good), format!("train.csv {long}"));
    // Many short lines that one quote holds together.
    let lines = format!("1,a\n2,\"{}", "word\n".repeat(LONGEST_RECORD / 5 + 1));
    assert_eq!(refused(lines, good), format!("train.csv {long}"));
    // One that is barely short enough.
    let most = format!("1,a\n2,{}\n", "x".repeat(LONGEST_RECORD - 3));
    assert_eq!(Folder::with(most, good).load(WORDS, 1).unwrap().size.train, 2);
    // A line of a gigabyte, which takes no place on the disk: it is NUL bytes, of which the first million are looked at.
    let folder = Folder::with("1,a\n2,", good);
    fs::File::options().write(true).open(folder.0.path().join(TRAIN)).unwrap().set_len(1 << 30).unwrap();
    assert_eq!(folder.load(WORDS, 1).unwrap_err(), format!("train.csv {long}"));
    fs::File::options()
        .write(true)
        .open(folder.0.path().join(TRAIN))
        .unwrap()
        .set_len(LONGEST_CSV + 1)
        .unwrap();
    assert_eq!(
        folder.load(WORDS, 1).unwrap_err(),
        "train.csv has 2147483649 bytes; at most 2147483648 are read"
    );
}

#[test]
fn labels_and_words_are_counted_up_to_a_bound() {
    let most = MOST_CLASSES as usize;
    let labels = |count: usize| {
        let lines: Vec<String> = (0..count).map(|label| format!("{label},a\n")).collect();
        lines.concat()
    };
    let told = refused(labels(most + 1), "0,a\n");
    assert_eq!(told, "train.csv has more than 1048576 different labels: the one in line 1048577 is one more");
    let mut counting = Counting::default();
    for word in 0..MOST_TOKENS {
        counting.count(&word.to_le_bytes(), 1).unwrap();
    }
    assert!(counting.count(&7_u32.to_le_bytes(), 9).is_ok());
    let fault = counting.count(b"more", 9).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "has more than 4194304 different tokens: one in the text of line 9 is one more"
    );
}

#[test]
fn what_is_no_file_is_refused_before_it_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let told = || survey_labelled_texts(folder.path(), WORDS).unwrap_err();
    assert_eq!(told().to_string(), format!("{}/train.csv is missing", folder.path().display()));
    assert!(told().cure().contains("put train.csv and test.csv into one folder"));
    fs::create_dir(folder.path().join(TRAIN)).unwrap();
    assert_eq!(told().to_string(), format!("{}/train.csv is no file", folder.path().display()));
}

#[test]
fn names_and_contents_are_watched() {
    let folder = Folder::with("1,a\n2,b", "1,\"a\"\r\n");
    let mut seen = Vec::new();
    load_labelled_texts(folder.0.path(), WORDS, 2, &mut |bytes| seen.extend_from_slice(bytes)).unwrap();
    let length = |length: u64| length.to_le_bytes();
    let expected = [
        &length(9)[..],
        b"train.csv",
        &length(7),
        b"1,a\n2,b",
        &length(8),
        b"test.csv",
        &length(7),
        b"1,\"a\"\r\n",
    ];
    assert_eq!(seen, expected.concat());
}

/// A field as RFC 4180 writes it.
fn quoted(field: &str) -> String {
    format!("\"{}\"", field.replace('"', "\"\""))
}

proptest! {
    /// The reader finds the texts that were written. The test computes them by other means: words are looked for one by one, and their
    /// ranks counted anew.
    #[test]
    fn any_texts_are_read_as_they_were_written(
        texts in prop::collection::vec(("[a-c]", "[ ,\"'\nA-Da-d1\u{e9}-]{0,12}"), 2..12),
        most in 1_u32..5,
        context in 1_u32..6,
    ) {
        let labels: BTreeSet<&str> = texts.iter().map(|(label, _)| label.as_str()).collect();
        prop_assume!(labels.len() > 1);
        let lines: Vec<String> =
            texts.iter().map(|(label, text)| format!("{label},{}\n", quoted(text))).collect();
        let file = lines.concat();
        let folder = Folder::with(&file, &file);
        let found = folder.load(LabelledTextForm { most, ..WORDS }, context).unwrap();
        let of = |text: &str| -> Vec<String> {
            let plain = text.to_lowercase().replace(|letter: char| !letter.is_alphanumeric(), " ");
            plain.split_whitespace().map(str::to_owned).collect()
        };
        let all: Vec<String> = texts.iter().flat_map(|(_, text)| of(text)).collect();
        let mut ranks: Vec<&String> = all.iter().collect::<BTreeSet<_>>().into_iter().collect();
        ranks.sort_by_key(|word| usize::MAX - all.iter().filter(|other| other == word).count());
        ranks.truncate(most as usize);
        let number = |word: &String| ranks.iter().position(|rank| *rank == word).map_or(1, |rank| rank + 2);
        let mut expected = Vec::new();
        for (_, text) in &texts {
            let mut row: Vec<f32> = of(text).iter().map(|word| number(word) as f32).collect();
            row.resize(context as usize, 0.0);
            expected.extend(row);
        }
        let classes: Vec<u32> = texts.iter().map(|(label, _)| labels.iter().position(|other| other == label).unwrap() as u32).collect();
        prop_assert_eq!(found.size.vocabulary as usize, ranks.len() + 2);
        prop_assert_eq!(&found.train.tokens, &expected);
        prop_assert_eq!(&found.train.labels, &classes);
        prop_assert_eq!(found.test, found.train, "the test file is read by the same vocabulary");
    }

    #[test]
    fn no_bytes_panic(train in prop::collection::vec(prop::sample::select(b"12a,\"\n\r\0\xff\xc3\xa9 ".to_vec()), 0..60)) {
        let folder = Folder::with(&train, &train);
        for unit in [TextTokens::Words, TextTokens::Characters, TextTokens::Bytes] {
            let _ = folder.load(LabelledTextForm { unit, ..WORDS }, 3);
        }
    }
}
