//! The types of elements that are read, of those that NumPy knows.

use std::fmt::{Display, Formatter, Result as FormatResult};

/// The type of an array's elements. All are little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// `float32`: IEEE 754, single precision.
    F4,
    /// `float64`: IEEE 754, double precision.
    F8,
    /// `uint8`: unsigned, one byte.
    U1,
    /// `int8`: signed, one byte.
    I1,
    /// `uint16`: unsigned, two bytes.
    U2,
    /// `int16`: signed, two bytes.
    I2,
    /// `uint32`: unsigned, four bytes.
    U4,
    /// `int32`: signed, four bytes.
    I4,
    /// `uint64`: unsigned, eight bytes.
    U8,
    /// `int64`: signed, eight bytes.
    I8,
}

impl Element {
    /// All types, in the order of their declaration.
    pub const ALL: [Self; 10] =
        [Self::F4, Self::F8, Self::U1, Self::I1, Self::U2, Self::I2, Self::U4, Self::I4, Self::U8, Self::I8];

    /// NumPy's `dtype.str`: byte order, kind, bytes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F4 => "<f4",
            Self::F8 => "<f8",
            Self::U1 => "|u1",
            Self::I1 => "|i1",
            Self::U2 => "<u2",
            Self::I2 => "<i2",
            Self::U4 => "<u4",
            Self::I4 => "<i4",
            Self::U8 => "<u8",
            Self::I8 => "<i8",
        }
    }

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            Self::U1 | Self::I1 => 1,
            Self::U2 | Self::I2 => 2,
            Self::F4 | Self::U4 | Self::I4 => 4,
            Self::F8 | Self::U8 | Self::I8 => 8,
        }
    }

    /// The type of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|element| element.name() == name)
    }
}

impl Display for Element {
    fn fmt(&self, out: &mut Formatter<'_>) -> FormatResult {
        out.write_str(self.name())
    }
}
