//! A picture's file before it is decoded: its format, its sides, and whether its end is there.
//!
//! Decoders fill the missing part of a cut JPEG file with grey and say nothing; here a file without its end is refused.

use super::error::PictureFault;

/// A picture has at most this many pixels: more than cameras make, and few enough for memory (200 MB decoded).
pub const MOST_PIXELS: u64 = 1 << 26;

const PNG: [u8; 8] = *b"\x89PNG\r\n\x1a\n";
const JPEG: [u8; 2] = [0xff, 0xd8];
const JPEG_END: [u8; 2] = [0xff, 0xd9];

/// How a picture is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureFormat {
    /// JPEG, as ISO 10918 defines it.
    Jpeg,
    /// PNG, as ISO 15948 defines it.
    Png,
}

impl PictureFormat {
    /// The word for people: `JPEG`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Jpeg => "JPEG",
            Self::Png => "PNG",
        }
    }
}

/// Format and sides that the head of a file announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PictureHeader {
    /// By its first bytes, whatever the file's name says.
    pub format: PictureFormat,
    /// Pixels of a row; at least 1.
    pub width: u32,
    /// Rows; at least 1.
    pub height: u32,
}

/// Format and sides of a whole file; nothing is decoded.
///
/// # Errors
/// It is no JPEG or PNG file, its end is missing, it is of an unusual kind (arithmetic coding, 12 bits), or it has no pixels or more than [`MOST_PIXELS`].
pub fn examine(bytes: &[u8]) -> Result<PictureHeader, PictureFault> {
    let (format, sides) = if bytes.starts_with(&PNG) {
        (PictureFormat::Png, png(bytes))
    } else if bytes.starts_with(&JPEG) {
        (PictureFormat::Jpeg, jpeg(bytes))
    } else {
        return Err(PictureFault::NoPicture { begins: bytes.iter().take(8).copied().collect() });
    };
    let (width, height) = sides.map_err(|damage| match damage {
        Damage::Cut => PictureFault::Cut { format, bytes: bytes.len() as u64 },
        Damage::NoImage => PictureFault::NoImage { format },
        Damage::Kind => PictureFault::Unsupported { format },
    })?;
    if width == 0 || height == 0 {
        return Err(PictureFault::NoPixels { width, height });
    }
    if u64::from(width) * u64::from(height) > MOST_PIXELS {
        return Err(PictureFault::TooLarge { width, height });
    }
    Ok(PictureHeader { format, width, height })
}

/// A problem with the parts of a file.
enum Damage {
    /// It ends within a part, or before its last.
    Cut,
    /// It is whole, and holds no image.
    NoImage,
    /// Its image is coded in a way that no decoder here knows.
    Kind,
}

/// The number in two or four bytes at an offset, big-endian.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Result<u32, Damage> {
    let digits = at.checked_add(N).and_then(|end| bytes.get(at..end)).ok_or(Damage::Cut)?;
    Ok(digits.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
}

/// Chunks: length of the data, type, data, checksum. The first is `IHDR`, the last `IEND`.
fn png(bytes: &[u8]) -> Result<(u32, u32), Damage> {
    let mut at = PNG.len();
    let mut sides = None;
    loop {
        let length = number::<4>(bytes, at)? as usize;
        let name = bytes.get(at + 4..at + 8).ok_or(Damage::Cut)?;
        let end = at.checked_add(12).and_then(|end| end.checked_add(length));
        let end = end.filter(|end| *end <= bytes.len()).ok_or(Damage::Cut)?;
        match (name, sides) {
            (b"IHDR", None) if length >= 8 => {
                sides = Some((number::<4>(bytes, at + 8)?, number::<4>(bytes, at + 12)?));
            }
            (_, None) => return Err(Damage::NoImage),
            (b"IEND", Some(sides)) => return Ok(sides),
            (_, Some(_)) => {}
        }
        at = end;
    }
}

/// Segments: `FF`, a marker, and but for a few markers the length of what follows. The sides are in the frame header
/// (`SOF`), and behind the first scan header (`SOS`) come compressed data, in which `FF D9` can only be the end.
fn jpeg(bytes: &[u8]) -> Result<(u32, u32), Damage> {
    let mut at = JPEG.len();
    let mut sides = None;
    loop {
        if number::<1>(bytes, at)? != 0xff {
            // Some programs leave bytes between segments.
            at += 1;
            continue;
        }
        let marker = number::<1>(bytes, at + 1)?;
        match marker {
            // Fill.
            0xff => at += 1,
            // Without a length.
            0x00 | 0x01 | 0xd0..=0xd8 => at += 2,
            0xd9 => return Err(Damage::NoImage),
            0xda => break,
            _ => {
                let is_frame = matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc);
                if is_frame && sides.is_none() {
                    let usual = matches!(marker, 0xc0..=0xc2) && number::<1>(bytes, at + 4)? == 8;
                    if !usual || !matches!(number::<1>(bytes, at + 9)?, 1 | 3 | 4) {
                        return Err(Damage::Kind);
                    }
                    sides = Some((number::<2>(bytes, at + 7)?, number::<2>(bytes, at + 5)?));
                }
                at += 2 + number::<2>(bytes, at + 2)? as usize;
            }
        }
    }
    let compressed = bytes.get(at..).unwrap_or_default();
    if !compressed.windows(2).rev().any(|pair| pair == JPEG_END) {
        return Err(Damage::Cut);
    }
    sides.ok_or(Damage::NoImage)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A PNG file's head with these sides, and its end.
    fn announced(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = PNG.to_vec();
        bytes.extend([0, 0, 0, 13]);
        bytes.extend(b"IHDR");
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        bytes.extend([8, 2, 0, 0, 0, 1, 2, 3, 4]);
        bytes.extend([0, 0, 0, 0]);
        bytes.extend(b"IEND");
        bytes.extend([5, 6, 7, 8]);
        bytes
    }

    /// Segments of a JPEG file: a comment, a frame header, a scan header, four bytes of data, the end.
    fn segments(width: u16, height: u16) -> Vec<u8> {
        let [w, h] = [width.to_be_bytes(), height.to_be_bytes()];
        let mut bytes = JPEG.to_vec();
        bytes.extend([0xff, 0xfe, 0, 6, 0xff, 0xd9, 0xff, 0xda]);
        bytes.extend([0xff, 0xff, 0xc2, 0, 11, 8, h[0], h[1], w[0], w[1], 1, 1, 0x11, 0]);
        bytes.extend([0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0, 1, 2, 0xff, 0x00, 0xff, 0xd9]);
        bytes
    }

    #[test]
    fn sides_are_read_from_the_head() {
        let png = PictureHeader { format: PictureFormat::Png, width: 300, height: 200 };
        assert_eq!(examine(&announced(300, 200)).unwrap(), png);
        let jpeg = PictureHeader { format: PictureFormat::Jpeg, width: 300, height: 200 };
        assert_eq!(examine(&segments(300, 200)).unwrap(), jpeg);
    }

    #[test]
    fn too_many_pixels_are_refused_by_the_head_alone() {
        let told = |bytes: &[u8]| examine(bytes).unwrap_err().to_string();
        assert_eq!(
            told(&announced(60_000, 60_000)),
            "announces 60000 x 60000 pixels; at most 67108864 are decoded"
        );
        assert_eq!(
            told(&segments(65_535, 65_535)),
            "announces 65535 x 65535 pixels; at most 67108864 are decoded"
        );
        assert_eq!(told(&announced(u32::MAX, 0)), "has 4294967295 x 0 pixels");
        assert!(examine(&announced(8192, 8192)).is_ok() && examine(&announced(8192, 8193)).is_err());
    }

    #[test]
    fn a_file_without_its_end_is_refused_wherever_it_was_cut() {
        for whole in [announced(3, 2), segments(3, 2)] {
            for length in 0..whole.len() {
                let fault = examine(&whole[..length]).unwrap_err();
                let cut = matches!(fault, PictureFault::Cut { .. });
                assert!(cut || length < 8, "{length}: {fault}");
            }
        }
    }

    /// Arithmetic coding, 12 bits, and two components.
    #[test]
    fn unusual_kinds_of_jpeg_are_refused() {
        let frame = segments(3, 2).windows(2).position(|pair| pair == [0xff, 0xc2]).unwrap();
        for (place, value) in [(1, 0xc9), (4, 12), (9, 2)] {
            let mut bytes = segments(3, 2);
            bytes[frame + place] = value;
            let fault = examine(&bytes).unwrap_err();
            assert!(matches!(fault, PictureFault::Unsupported { .. }), "{place}: {fault}");
        }
    }

    #[test]
    fn what_is_no_picture_is_refused() {
        let told = |bytes: &[u8]| examine(bytes).unwrap_err().to_string();
        assert_eq!(told(b""), "is empty");
        assert_eq!(
            told(b"GIF89a0123"),
            "is no JPEG or PNG file: it begins with the bytes 47 49 46 38 39 61 30 31"
        );
        assert_eq!(told(&[0xff, 0xd8, 0xff, 0xd9]), "is a JPEG file without an image");
        let mut headless = announced(3, 2);
        headless[12..16].copy_from_slice(b"tEXt");
        assert_eq!(told(&headless), "is a PNG file without an image");
    }
}
