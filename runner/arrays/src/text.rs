//! A user's own text: a file of bytes or characters, and its tokens.

use recipe::{ArrayProblem, TextSize, TextTokens};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The longest text, in bytes: its samples take eight times as much of a worker's memory.
pub const LONGEST_TEXT: u64 = 256 << 20;
/// The most different characters, so that a token fits 16 bits.
pub const LARGEST_ALPHABET: usize = 1 << 16;

/// A text as tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The tokens in order: bytes, or places in the alphabet.
    pub tokens: Vec<u16>,
    /// Tokens are below it: 256, or the length of the alphabet.
    pub vocabulary: u32,
}

/// Why a file is no text that can be learned from.
#[derive(Debug, thiserror::Error)]
#[error("{} {fault}", .file.display())]
pub struct TextError {
    /// As `dataset.path` gives it.
    pub file: PathBuf,
    /// Its problem: the rest of a sentence.
    pub fault: TextFault,
}

/// A problem with a text.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum TextFault {
    #[error("is missing")]
    Missing,
    /// A folder or a device has the name.
    #[error("is no file")]
    NoFile,
    /// The system could not read it.
    #[error("cannot be read: {source}")]
    Read { source: std::io::Error },
    /// Words lose what lies between them.
    #[error("is cut into words, between which something would be lost that comes next")]
    Words,
    #[error("is empty")]
    Empty,
    #[error("has {bytes} bytes; at most {LONGEST_TEXT} are read")]
    TooLong { bytes: u64 },
    /// The process may not have that much memory.
    #[error("needs {bytes} bytes of memory, which cannot be had")]
    Memory { bytes: u64 },
    #[error("is not UTF-8: byte {offset} begins no character")]
    NotUtf8 { offset: usize },
    #[error("has more than {LARGEST_ALPHABET} different characters: the one at byte {offset} is one more")]
    Alphabet { offset: usize },
}

impl TextError {
    /// Advice in the imperative, without a full stop.
    pub fn cure(&self) -> &'static str {
        match self.fault {
            TextFault::Missing | TextFault::NoFile => "mend `dataset.path`: it names one file of text",
            TextFault::Read { .. } => "check the owner of the file",
            TextFault::Empty => "give a file with text in it",
            TextFault::TooLong { .. } | TextFault::Memory { .. } => "take a part of the text",
            TextFault::NotUtf8 { .. } => "convert the file to UTF-8, or take `dataset.tokens = \"bytes\"`",
            TextFault::Words => "take `dataset.tokens = \"bytes\"` or `\"characters\"`",
            TextFault::Alphabet { .. } => "take `dataset.tokens = \"bytes\"`",
        }
    }
}

impl From<TextError> for ArrayProblem {
    fn from(error: TextError) -> Self {
        Self { reason: error.to_string(), cure: error.cure().to_owned() }
    }
}

impl Text {
    /// How long it is.
    pub fn size(&self) -> TextSize {
        TextSize { tokens: self.tokens.len() as u64, vocabulary: self.vocabulary }
    }

    /// Reads a text. `watch` sees its name, its length and its bytes.
    ///
    /// # Errors
    /// The file cannot be read or held, has nothing in it, or does not consist of such tokens.
    pub fn read(path: &Path, unit: TextTokens, watch: &mut dyn FnMut(&[u8])) -> Result<Self, TextError> {
        let text = contents(path).and_then(|bytes| {
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            watch(&(name.len() as u64).to_le_bytes());
            watch(name);
            watch(&(bytes.len() as u64).to_le_bytes());
            watch(&bytes);
            Self::of(bytes, unit)
        });
        text.map_err(|fault| TextError { file: path.to_owned(), fault })
    }

    fn of(bytes: Vec<u8>, unit: TextTokens) -> Result<Self, TextFault> {
        match unit {
            TextTokens::Bytes => {
                let mut tokens = room(bytes.len())?;
                tokens.extend(bytes.iter().map(|byte| u16::from(*byte)));
                Ok(Self { tokens, vocabulary: 256 })
            }
            TextTokens::Characters => {
                let offset = |error: std::string::FromUtf8Error| TextFault::NotUtf8 {
                    offset: error.utf8_error().valid_up_to(),
                };
                characters(&String::from_utf8(bytes).map_err(offset)?)
            }
            TextTokens::Words => Err(TextFault::Words),
        }
    }
}

fn characters(text: &str) -> Result<Text, TextFault> {
    let mut alphabet = BTreeSet::new();
    let mut count = 0;
    for (offset, character) in text.char_indices() {
        count += 1;
        if alphabet.insert(character) && alphabet.len() > LARGEST_ALPHABET {
            return Err(TextFault::Alphabet { offset });
        }
    }
    let alphabet: Vec<char> = alphabet.into_iter().collect();
    let mut tokens = room(count)?;
    for character in text.chars() {
        // Each is there: the alphabet was made of them.
        let (Ok(place) | Err(place)) = alphabet.binary_search(&character);
        tokens.push(place as u16);
    }
    Ok(Text { tokens, vocabulary: alphabet.len() as u32 })
}

fn room(tokens: usize) -> Result<Vec<u16>, TextFault> {
    let mut room = Vec::new();
    room.try_reserve_exact(tokens).map_err(|_| TextFault::Memory { bytes: 2 * tokens as u64 })?;
    Ok(room)
}

fn contents(path: &Path) -> Result<Vec<u8>, TextFault> {
    let unreadable = |source: std::io::Error| match source.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => TextFault::Missing,
        _ => TextFault::Read { source },
    };
    // Opening a pipe would wait for its writer.
    let about = fs::metadata(path).map_err(unreadable)?;
    if !about.is_file() {
        return Err(TextFault::NoFile);
    }
    let long = |bytes: u64| if bytes > LONGEST_TEXT { Err(TextFault::TooLong { bytes }) } else { Ok(()) };
    long(about.len())?;
    let mut bytes = Vec::new();
    let length = about.len() as usize;
    bytes.try_reserve_exact(length).map_err(|_| TextFault::Memory { bytes: about.len() })?;
    // The file may grow while it is read.
    let file = File::open(path).map_err(unreadable)?;
    file.take(LONGEST_TEXT + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    long(bytes.len() as u64)?;
    if bytes.is_empty() { Err(TextFault::Empty) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &[u8], unit: TextTokens) -> Result<Text, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("corpus.txt");
        fs::write(&path, content).unwrap();
        let text = Text::read(&path, unit, &mut |_| ());
        text.map_err(|error| error.to_string().replace(&path.display().to_string(), "FILE"))
    }

    #[test]
    fn bytes_are_themselves_and_characters_are_places_in_the_alphabet() {
        let bytes = read("b\u{e9}a".as_bytes(), TextTokens::Bytes).unwrap();
        assert_eq!((bytes.tokens, bytes.vocabulary), (vec![98, 0xc3, 0xa9, 97], 256));
        let characters = read("b\u{e9}ab".as_bytes(), TextTokens::Characters).unwrap();
        assert_eq!((characters.tokens, characters.vocabulary), (vec![1, 2, 0, 1], 3));
    }

    #[test]
    fn what_is_no_text_is_refused_with_the_byte() {
        let told = |content: &[u8], unit| read(content, unit).unwrap_err();
        assert_eq!(told(b"", TextTokens::Bytes), "FILE is empty");
        assert_eq!(told(b"ab\xffc", TextTokens::Characters), "FILE is not UTF-8: byte 2 begins no character");
        assert_eq!(
            told(b"abc\xe2\x82", TextTokens::Characters),
            "FILE is not UTF-8: byte 3 begins no character"
        );
        assert!(read(b"ab\xffc", TextTokens::Bytes).is_ok());
        let all: String = (0_u32..).filter_map(char::from_u32).take(LARGEST_ALPHABET + 1).collect();
        let last = all.char_indices().next_back().unwrap().0;
        let expected =
            format!("FILE has more than 65536 different characters: the one at byte {last} is one more");
        assert_eq!(told(all.as_bytes(), TextTokens::Characters), expected);
        assert_eq!(read(&all.as_bytes()[..last], TextTokens::Characters).unwrap().vocabulary, 65_536);
    }

    #[test]
    fn what_is_no_file_is_refused_before_it_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let told = |path: &Path| Text::read(path, TextTokens::Bytes, &mut |_| ()).unwrap_err().to_string();
        let missing = folder.path().join("none.txt");
        assert_eq!(told(&missing), format!("{} is missing", missing.display()));
        assert_eq!(told(folder.path()), format!("{} is no file", folder.path().display()));
        let sparse = folder.path().join("sparse.txt");
        File::create(&sparse).unwrap().set_len(LONGEST_TEXT + 1).unwrap();
        let expected = format!("{} has 268435457 bytes; at most 268435456 are read", sparse.display());
        assert_eq!(told(&sparse), expected);
    }

    #[test]
    fn name_and_content_are_watched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ab");
        fs::write(&path, "xyz").unwrap();
        let mut seen = Vec::new();
        Text::read(&path, TextTokens::Bytes, &mut |bytes| seen.extend_from_slice(bytes)).unwrap();
        let expected = [&2_u64.to_le_bytes()[..], b"ab", &3_u64.to_le_bytes(), b"xyz"].concat();
        assert_eq!(seen, expected);
    }
}
