//! Powers of two: an example of a codec of another crate.
//!
//! Each value becomes the nearest power of two with its sign, in one byte: the sign's bit, and the exponent counted from the
//! setting `least`, the exponent of the smallest power that is not rounded to 0. Guarantee: a value from 2^least up to 2^(least + 126)
//! changes by at most a third of its magnitude. Not linear. Bytes: 1 per element.
//!
//! Source: Horvath et al., "Natural compression for distributed deep learning", MSML 2022, without its randomness: rounding by
//! chance would be right on average, rounding to the nearest needs error feedback.

use strategies::compress::{Compressor, Guarantee, Slot};
use strategies::{CustomSettings, Packet, StepError, codec_setting};

/// The bit of the sign.
const SIGN: u8 = 0x80;
/// Codes from 1 to this are powers; 0 is zero, or no number in a code with a sign.
const MOST: i32 = 127;

/// Sends signs and exponents.
#[derive(Clone, Copy, Debug)]
pub struct PowersOfTwo {
    /// Exponent of the code 1.
    least: i32,
}

impl PowersOfTwo {
    /// A codec whose smallest power is 2^`least`; its largest is 2^(`least` + 126).
    pub fn new(least: i32) -> Self {
        Self { least }
    }

    /// The codec that a recipe describes. Setting: `least`, from -126 to 0.
    pub fn from_settings(settings: &CustomSettings) -> Result<Box<dyn Compressor>, StepError> {
        let least = codec_setting(settings, "least")?;
        if !(-126.0..=0.0).contains(&least) || least.fract() != 0.0 {
            let what = format!("`least = {least}` is no whole number from -126 to 0; take -40, for example");
            return Err(StepError::Environment(what));
        }
        Ok(Box::new(Self::new(least as i32)))
    }

    fn code(self, x: f32) -> u8 {
        if x.is_nan() {
            return SIGN;
        }
        let sign = if x < 0.0 { SIGN } else { 0 };
        let bits = x.abs().to_bits();
        // From 1.5 on, the next power is as near.
        let exponent = (bits >> 23) as i32 - 127 + i32::from(bits & (1 << 22) != 0);
        match exponent - self.least + 1 {
            ..1 => 0,
            code => sign | code.min(MOST) as u8,
        }
    }

    fn value(self, code: u8) -> f32 {
        let power = i32::from(code & !SIGN);
        let size = match power {
            0 if code == SIGN => return f32::NAN,
            0 => 0.0,
            _ => 2.0_f32.powi(power - 1 + self.least),
        };
        if code & SIGN == 0 { size } else { -size }
    }
}

impl Compressor for PowersOfTwo {
    fn encode(&mut self, _: Slot, x: &[f32]) -> Packet {
        let codes: Vec<u8> = x.iter().map(|x| self.code(*x)).collect();
        Packet(codes.into())
    }

    fn decode(&self, packet: &Packet, into: &mut [f32]) -> Result<(), StepError> {
        if packet.0.len() != into.len() {
            return Err(StepError::Packet { bytes: packet.0.len(), elements: into.len() });
        }
        for (value, code) in into.iter_mut().zip(packet.0.iter()) {
            *value = self.value(*code);
        }
        Ok(())
    }

    fn elements(&self, packet: &Packet) -> usize {
        packet.0.len()
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::RelativeError(1.0 / 3.0)
    }

    fn linear(&self) -> bool {
        false
    }
}
