//! One picture, decoded to three bytes a pixel.

use super::container::{MOST_PIXELS, PictureFormat, examine};
use super::error::{PictureError, PictureFault};
use std::fs::{self, File};
use std::io::{Cursor, Read};
use std::path::Path;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

/// No picture of [`MOST_PIXELS`] needs more bytes than this.
pub const LONGEST_FILE: u64 = 1 << 29;

/// A picture of three bytes per pixel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Pixels of a row; at least 1.
    pub width: usize,
    /// Rows; at least 1.
    pub height: usize,
    /// Row by row; of each pixel red, green, blue: 0 dark, 255 bright.
    pub pixels: Vec<u8>,
}

impl Picture {
    /// Reads and decodes a file.
    ///
    /// # Errors
    /// It cannot be read, is no whole JPEG or PNG file, or has too many pixels.
    pub fn read(path: &Path) -> Result<Self, PictureError> {
        let decoded = bytes_of(path).and_then(|bytes| Self::decode(&bytes));
        decoded.map_err(|fault| PictureError { path: path.to_owned(), fault })
    }

    /// Decodes the content of a file.
    ///
    /// # Errors
    /// It is no whole JPEG or PNG file, or has too many pixels.
    pub fn decode(bytes: &[u8]) -> Result<Self, PictureFault> {
        let header = examine(bytes)?;
        let pixels = match header.format {
            PictureFormat::Jpeg => jpeg(bytes)?,
            PictureFormat::Png => png(bytes)?,
        };
        let width = header.width as usize;
        let height = header.height as usize;
        let got = pixels.len();
        let expected = 3 * width * height;
        if got != expected {
            return Err(damaged(format!("{got} bytes of colours came, and {expected} were announced")));
        }
        Ok(Self { width, height, pixels })
    }
}

/// The content of a file, if it is one and not longer than any picture.
pub(crate) fn bytes_of(path: &Path) -> Result<Vec<u8>, PictureFault> {
    let unreadable = |source| PictureFault::Read { source };
    // Opening a pipe would wait for its writer.
    let about = fs::metadata(path).map_err(unreadable)?;
    if !about.is_file() {
        return Err(PictureFault::NoFile);
    }
    if about.len() > LONGEST_FILE {
        return Err(PictureFault::TooLong { bytes: about.len() });
    }
    let mut bytes = Vec::with_capacity(about.len() as usize);
    // It may have grown since.
    let file = File::open(path).map_err(unreadable)?;
    file.take(LONGEST_FILE).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

fn damaged(reason: impl ToString) -> PictureFault {
    PictureFault::Damaged { reason: reason.to_string().lines().next().unwrap_or_default().to_owned() }
}

fn jpeg(bytes: &[u8]) -> Result<Vec<u8>, PictureFault> {
    let options = DecoderOptions::default().jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(Cursor::new(bytes), options);
    let pixels = decoder.decode().map_err(|error| damaged(format!("{error:?}")))?;
    match decoder.output_colorspace() {
        Some(ColorSpace::Luma) => Ok(grey(&pixels, 1)),
        _ => Ok(pixels),
    }
}

fn png(bytes: &[u8]) -> Result<Vec<u8>, PictureFault> {
    let mut decoder = png::Decoder::new_with_limits(
        Cursor::new(bytes),
        // Four values of 16 bits a pixel, and what it takes to read them.
        png::Limits { bytes: MOST_PIXELS as usize * 10 },
    );
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(damaged)?;
    let size = reader.output_buffer_size().ok_or_else(|| damaged("it does not fit into memory"))?;
    let mut values = vec![0; size];
    let frame = reader.next_frame(&mut values).map_err(|error| damaged(without_chunk(&error.to_string())))?;
    values.truncate(frame.buffer_size());
    Ok(match frame.color_type {
        png::ColorType::Rgb => values,
        png::ColorType::Rgba => {
            values.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect()
        }
        png::ColorType::GrayscaleAlpha => grey(&values, 2),
        png::ColorType::Grayscale => grey(&values, 1),
        png::ColorType::Indexed => return Err(damaged("its palette is missing")),
    })
}

/// Message of the crate for a damaged file, without the part of the file, which it gives in Rust's debugging form.
fn without_chunk(text: &str) -> &str {
    text.split_once(" while decoding ").map_or(text, |(fault, _)| fault)
}

/// Three equal channels from the first of each `stride` values.
fn grey(values: &[u8], stride: usize) -> Vec<u8> {
    values.iter().step_by(stride).flat_map(|value| [*value; 3]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_checksum_is_told_without_the_form_of_debugging() {
        let picture = Picture { width: 8, height: 8, pixels: (0..192).collect() };
        let mut bytes = picture.png().unwrap();
        // The last eight bytes of the image's data are followed by its checksum and the end of the file.
        let checksum = bytes.len() - 12 - 1;
        bytes[checksum] ^= 1;
        let told = Picture::decode(&bytes).unwrap_err().to_string();
        assert!(told.contains("CRC error: expected 0x") && !told.contains("ChunkType"), "{told}");
    }
}
