//! A picture as a file, for those who make a folder of them.

use super::decode::Picture;
use png::{BitDepth, ColorType, Encoder, EncodingError};

impl Picture {
    /// The content of a PNG file of 8 bits in colour.
    ///
    /// # Errors
    /// The pixels are not three bytes for each place, or a side is 0.
    pub fn png(&self) -> Result<Vec<u8>, EncodingError> {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, self.width as u32, self.height as u32);
        encoder.set_color(ColorType::Rgb);
        encoder.set_depth(BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.pixels)?;
        writer.finish()?;
        Ok(bytes)
    }
}
