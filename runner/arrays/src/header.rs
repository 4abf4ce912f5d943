//! The head of an NPY file: magic, version, and a dictionary in Python's notation, which is parsed and never evaluated.
//!
//! ```text
//! byte 0    6          8                10 (12 from version 2.0 on)
//!      magic  major minor  header's length  {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n
//! ```
//!
//! Source: NumPy, `numpy.lib.format`, versions 1.0, 2.0 (lengths of 32 bits) and 3.0 (UTF-8 in names of fields, of which plain
//! elements have none).

use super::error::ArrayFault;
use std::io::Read;

const MAGIC: &[u8] = b"\x93NUMPY";
/// Longer headers are refused: NumPy's own limit (`_MAX_HEADER_SIZE`). That of a plain array has less than 120 bytes.
const MOST_HEADER: u64 = 10_000;
/// NumPy's arrays have at most 64 dimensions (`NPY_MAXDIMS`).
const MOST_DIMENSIONS: usize = 64;

/// Parsed header of an NPY file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayHeader {
    /// `descr`: NumPy's name of the type of elements, whether or not it is one that is read here.
    pub element: String,
    /// `fortran_order`: whether the first index varies fastest.
    pub order: IndexOrder,
    /// `shape`: elements along each dimension.
    pub shape: Vec<u64>,
    /// Bytes before the first element.
    pub offset: u64,
}

/// Which index of neighbouring elements differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexOrder {
    /// The last one: a matrix lies row by row.
    C,
    /// The first one: a matrix lies column by column.
    Fortran,
}

/// Where a dictionary cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{expected} was expected at byte {at}")]
pub struct HeaderFault {
    /// Offset in the file.
    pub at: u64,
    /// Words for the expected text, such as `the rest of the header`.
    pub expected: &'static str,
}

/// Reads the head of a file; the reader is then at the first element.
///
/// # Errors
/// It is no NPY file, one of another version, or its header is too long or malformed.
pub fn parse_header(reader: &mut dyn Read) -> Result<ArrayHeader, ArrayFault> {
    let start = up_to(reader, 8)?;
    let (true, [major, minor]) = (start.starts_with(MAGIC), start.get(6..).unwrap_or_default()) else {
        return Err(ArrayFault::Magic);
    };
    let width = match (*major, *minor) {
        (1, 0) => 2,
        (2 | 3, 0) => 4,
        (major, minor) => return Err(ArrayFault::Version { major, minor }),
    };
    let length = up_to(reader, width)?;
    let begin = 8 + width;
    if (length.len() as u64) < width {
        return Err(HeaderFault { at: 8 + length.len() as u64, expected: "the length of the header" }.into());
    }
    let length = length.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    if length > MOST_HEADER {
        return Err(ArrayFault::HeaderLength { bytes: length, most: MOST_HEADER });
    }
    let text = up_to(reader, length)?;
    if (text.len() as u64) < length {
        return Err(HeaderFault { at: begin + text.len() as u64, expected: "the rest of the header" }.into());
    }
    Ok(Dictionary { text: &text, at: 0, begin }.read()?)
}

/// `length` bytes, fewer only at the end of the file.
fn up_to(reader: &mut dyn Read, length: u64) -> Result<Vec<u8>, ArrayFault> {
    let mut bytes = Vec::new();
    reader.take(length).read_to_end(&mut bytes).map_err(|source| ArrayFault::Read { source })?;
    Ok(bytes)
}

/// A reader of the dictionary.
struct Dictionary<'a> {
    text: &'a [u8],
    at: usize,
    /// Offset of the text in the file.
    begin: u64,
}

impl Dictionary<'_> {
    /// Each of the three keys once, in any order; then blanks to the end.
    fn read(mut self) -> Result<ArrayHeader, HeaderFault> {
        let mut element = None;
        let mut order = None;
        let mut shape = None;
        self.token(b'{', "`{`")?;
        while !self.taken(b'}') {
            let at = self.at;
            let key = self.text("a key in quotes")?;
            self.token(b':', "`:`")?;
            let again = match key.as_str() {
                "descr" => element.replace(self.text("the name of a type, as in '<f4',")?).is_some(),
                "fortran_order" => order.replace(self.order()?).is_some(),
                "shape" => shape.replace(self.shape()?).is_some(),
                _ => true,
            };
            if again {
                self.at = at;
                return Err(self.fault("'descr', 'fortran_order' or 'shape', each once,"));
            }
            if !self.taken(b',') {
                self.token(b'}', "`,` or `}`")?;
                break;
            }
        }
        self.blanks();
        match (element, order, shape) {
            _ if self.at < self.text.len() => Err(self.fault("nothing but blanks")),
            (Some(element), Some(order), Some(shape)) => {
                Ok(ArrayHeader { element, order, shape, offset: self.begin + self.text.len() as u64 })
            }
            _ => Err(self.fault("each of 'descr', 'fortran_order' and 'shape'")),
        }
    }

    fn fault(&self, expected: &'static str) -> HeaderFault {
        HeaderFault { at: self.begin + self.at as u64, expected }
    }

    fn blanks(&mut self) {
        let blank = |byte: &&u8| matches!(byte, b' ' | b'\n' | b'\t' | b'\r');
        self.at += self.text[self.at..].iter().take_while(blank).count();
    }

    /// Whether the next token is this one, which is then behind.
    fn taken(&mut self, token: u8) -> bool {
        self.blanks();
        let found = self.text.get(self.at) == Some(&token);
        self.at += usize::from(found);
        found
    }

    fn token(&mut self, token: u8, expected: &'static str) -> Result<(), HeaderFault> {
        if self.taken(token) { Ok(()) } else { Err(self.fault(expected)) }
    }

    /// Printable ASCII in quotes of either kind, without escapes.
    fn text(&mut self, expected: &'static str) -> Result<String, HeaderFault> {
        self.blanks();
        let rest = &self.text[self.at..];
        let Some(quote @ (b'\'' | b'"')) = rest.first() else { return Err(self.fault(expected)) };
        let plain = |byte: &&u8| (b' '..=b'~').contains(byte) && *byte != quote && **byte != b'\\';
        let inner: Vec<u8> = rest[1..].iter().take_while(plain).copied().collect();
        if rest.get(1 + inner.len()) != Some(quote) {
            self.at += 1 + inner.len();
            return Err(self.fault("the closing quote"));
        }
        self.at += inner.len() + 2;
        Ok(inner.into_iter().map(char::from).collect())
    }

    fn order(&mut self) -> Result<IndexOrder, HeaderFault> {
        self.blanks();
        for (word, order) in [("True", IndexOrder::Fortran), ("False", IndexOrder::C)] {
            if self.text[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(order);
            }
        }
        Err(self.fault("True or False"))
    }

    /// A tuple: `()`, `(3,)`, `(3, 4)`. `(3)` is a number in Python, and no tuple.
    fn shape(&mut self) -> Result<Vec<u64>, HeaderFault> {
        let mut shape = Vec::new();
        self.token(b'(', "`(`")?;
        while !self.taken(b')') {
            if shape.len() == MOST_DIMENSIONS {
                return Err(self.fault("no more than 64 dimensions"));
            }
            shape.push(self.number()?);
            if self.taken(b',') {
                continue;
            }
            if shape.len() < 2 {
                return Err(self.fault("`,`"));
            }
            self.token(b')', "`,` or `)`")?;
            break;
        }
        Ok(shape)
    }

    /// Decimal digits without a sign, a needless zero or Python 2's `L`; the number has at most 63 bits, as NumPy's sizes do.
    fn number(&mut self) -> Result<u64, HeaderFault> {
        self.blanks();
        let rest = &self.text[self.at..];
        let digits = &rest[..rest.iter().take_while(|byte| byte.is_ascii_digit()).count()];
        let value = digits.iter().try_fold(0_u64, |value, digit| {
            value.checked_mul(10)?.checked_add(u64::from(digit - b'0')).filter(|value| *value >> 63 == 0)
        });
        match value {
            Some(value) if !digits.is_empty() && (digits.len() == 1 || digits[0] != b'0') => {
                self.at += digits.len();
                Ok(value)
            }
            _ => Err(self.fault("a whole number from 0 to 2^63 - 1")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A file of version 1.0 with this dictionary and nothing behind it.
    fn file(dictionary: &str) -> Vec<u8> {
        let length = (dictionary.len() as u16).to_le_bytes();
        [MAGIC, &[1, 0], &length, dictionary.as_bytes()].concat()
    }

    fn parsed(bytes: &[u8]) -> Result<ArrayHeader, String> {
        parse_header(&mut &*bytes).map_err(|fault| fault.to_string())
    }

    fn fault(dictionary: &str) -> String {
        parsed(&file(dictionary)).unwrap_err()
    }

    #[test]
    fn every_version_is_read() {
        let dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }      \n";
        let length = dictionary.len();
        let read = |head: &[u8]| parsed(&[MAGIC, head, dictionary.as_bytes(), b"elements"].concat());
        let header = |offset| ArrayHeader {
            element: "<f4".into(),
            order: IndexOrder::C,
            shape: vec![3, 4],
            offset: offset + length as u64,
        };
        assert_eq!(read(&[&[1, 0][..], &(length as u16).to_le_bytes()].concat()), Ok(header(10)));
        assert_eq!(read(&[&[2, 0][..], &(length as u32).to_le_bytes()].concat()), Ok(header(12)));
        assert_eq!(read(&[&[3, 0][..], &(length as u32).to_le_bytes()].concat()), Ok(header(12)));
        assert!(read(&[4, 0, 0, 0]).unwrap_err().contains("version 4.0"));
        assert!(read(&[1, 1, 0, 0]).unwrap_err().contains("version 1.1"));
        let huge = read(&[&[2, 0][..], &u32::MAX.to_le_bytes()].concat()).unwrap_err();
        assert!(huge.contains("4294967295"), "{huge}");
    }

    #[test]
    fn python_may_write_a_dictionary_in_several_ways() {
        for (written, shape) in [
            ("{\"shape\":(7,),\"fortran_order\":False,\"descr\":\"<f4\"}", vec![7]),
            ("{ 'descr' : '<f4' , 'fortran_order' : False , 'shape' : ( ) }\n", vec![]),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 0, 10,)}", vec![1, 0, 10]),
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807,), }",
                vec![u64::MAX >> 1],
            ),
        ] {
            let header = parsed(&file(written)).unwrap();
            assert_eq!((header.element.as_str(), header.order, header.shape), ("<f4", IndexOrder::C, shape));
        }
        let fortran = parsed(&file("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2)}")).unwrap();
        assert_eq!(fortran.order, IndexOrder::Fortran);
    }

    #[test]
    fn anything_else_is_refused_with_its_place() {
        let begin = "{'descr': '<f4', 'fortran_order': False, 'shape': ";
        for (shape, at, expected) in [
            ("(-1,)}", 1, "a whole number"),
            ("(3)}", 2, "`,`"),
            ("[3]}", 0, "`(`"),
            ("(03,)}", 1, "a whole number"),
            ("(3L,)}", 2, "`,`"),
            ("(9223372036854775808,)}", 1, "a whole number"),
            ("(99999999999999999999999999,)}", 1, "a whole number"),
            ("(3, 4", 5, "`,` or `)`"),
            ("(3,,4)}", 3, "a whole number"),
            ("(3,)", 4, "`,` or `}`"),
            ("(3,)} x", 6, "nothing but blanks"),
            ("(3,), 'shape': (3,)}", 6, "each once"),
            ("(3,), 'more': 1}", 6, "each once"),
            ("__import__('os')}", 0, "`(`"),
        ] {
            let said = fault(&format!("{begin}{shape}"));
            let place = format!("expected at byte {}", 10 + begin.len() + at);
            assert!(said.contains(expected) && said.ends_with(&place), "{shape}: {said}");
        }
        assert!(fault("{'descr': '<f4', 'shape': (1,)}").contains("each of 'descr'"));
        assert!(fault("{'descr': [('a', '<f4')], 'shape': (1,)}").contains("the name of a type"));
        assert!(fault("{'descr': '<f4\\', 'shape': (1,)}").contains("the closing quote"));
        assert!(fault("{'descr': '<f4").contains("the closing quote"));
        assert!(fault("{'fortran_order': 0}").contains("True or False"));
        assert!(fault("").contains("`{`"));
        let many = format!("{begin}({})}}", "1, ".repeat(65));
        assert!(fault(&many).contains("64 dimensions"));
    }

    #[test]
    fn a_file_may_end_anywhere() {
        let whole = file("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n");
        assert!(parsed(&whole).is_ok());
        for length in 0..whole.len() {
            assert!(parsed(&whole[..length]).is_err(), "{length}");
        }
        assert_eq!(parsed(b"PK\x03\x04 and more"), Err(ArrayFault::Magic.to_string()));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), wrapped in prop::bool::ANY) {
            let bytes = if wrapped {
                [MAGIC, &[1, 0], &(bytes.len() as u16).to_le_bytes(), &bytes].concat()
            } else {
                bytes
            };
            let _ = parsed(&bytes);
        }

        #[test]
        fn no_text_panics(text in "[{}(),:' \"\\\\a-z<0-9\n-]{0,80}", at in 0_usize..70) {
            let mut dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n".to_owned();
            dictionary.replace_range(at.min(dictionary.len())..(at + 3).min(dictionary.len()), &text);
            let _ = parsed(&file(&dictionary));
        }

        #[test]
        fn what_is_written_is_read(shape in prop::collection::vec(0_u64..1 << 63, 0..9), element in "[<|>][a-zA-Z][0-9]") {
            let sizes: String = shape.iter().map(|size| size.to_string() + ", ").collect();
            let header = parsed(&file(&format!("{{'descr': '{element}', 'fortran_order': False, 'shape': ({sizes}), }}")));
            let header = header.unwrap();
            prop_assert_eq!((header.shape, header.element), (shape, element));
        }
    }
}
