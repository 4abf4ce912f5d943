//! One array on disk: opened, its header believed as far as the file's length bears it out, its elements read piece by piece.

use super::element::Element;
use super::error::{ArrayError, ArrayFault, ArrayRole};
use super::header::{ArrayHeader, IndexOrder, parse_header};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek};
use std::path::{Path, PathBuf};

/// Bytes that are read at once; a multiple of the size of every element.
const PIECE: usize = 1 << 16;

/// An array whose type and shape are of use, in a file as long as they say.
pub(crate) struct ArrayFile {
    pub(crate) path: PathBuf,
    pub(crate) element: Element,
    /// Samples first; every size is at least 1, and their product fits memory's addresses.
    pub(crate) shape: Vec<u64>,
    /// Bytes of the file, of which the header takes `offset`.
    length: u64,
    offset: u64,
    file: File,
}

impl ArrayFile {
    /// Opens an array and judges its header.
    pub(crate) fn open(folder: &Path, name: &str, role: ArrayRole) -> Result<Self, ArrayError> {
        let path = folder.join(name);
        Self::judged(&path, role).map_err(|fault| ArrayError { file: path, fault })
    }

    fn judged(path: &Path, role: ArrayRole) -> Result<Self, ArrayFault> {
        let unreadable = |source: std::io::Error| match source.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => ArrayFault::Missing,
            _ => ArrayFault::Read { source },
        };
        // Opening a pipe would wait for its writer.
        let about = fs::metadata(path).map_err(unreadable)?;
        if !about.is_file() {
            return Err(ArrayFault::NoFile);
        }
        let mut file = File::open(path).map_err(unreadable)?;
        let header = parse_header(&mut file)?;
        let element = usable(&header, role)?;
        let ArrayHeader { shape, offset, .. } = header;
        let size = |product: Option<u128>, size: &u64| product?.checked_mul(u128::from(*size));
        let expected = shape.iter().fold(Some(element.size() as u128), size);
        let expected = expected.and_then(|bytes| bytes.checked_add(u128::from(offset)));
        if expected != Some(u128::from(about.len())) {
            return Err(ArrayFault::FileLength { expected, got: about.len(), shape, element, offset });
        }
        Ok(Self { path: path.to_owned(), element, shape, length: about.len(), offset, file })
    }

    /// Samples, of which there are fewer than 2^32.
    pub(crate) fn samples(&self) -> u64 {
        self.shape.first().copied().unwrap_or_default()
    }

    /// Sizes of one sample.
    pub(crate) fn example(&self) -> &[u64] {
        self.shape.get(1..).unwrap_or_default()
    }

    /// The same fault with the name of this file.
    pub(crate) fn error(&self, fault: ArrayFault) -> ArrayError {
        ArrayError { file: self.path.clone(), fault }
    }

    /// An empty vector with room for all elements, which are known to be there.
    pub(crate) fn room<T>(&self) -> Result<Vec<T>, ArrayFault> {
        let count = (self.length - self.offset) / self.element.size() as u64;
        let bytes = count.saturating_mul(size_of::<T>() as u64);
        let mut room = Vec::new();
        let count = usize::try_from(count).map_err(|_| ArrayFault::Memory { bytes })?;
        room.try_reserve_exact(count).map_err(|_| ArrayFault::Memory { bytes })?;
        Ok(room)
    }

    /// What a digest has of a file beside its content: its name and its length.
    pub(crate) fn announce(&self, watch: &mut dyn FnMut(&[u8])) {
        let name = self.path.file_name().unwrap_or_default().as_encoded_bytes();
        watch(&(name.len() as u64).to_le_bytes());
        watch(name);
        watch(&self.length.to_le_bytes());
    }

    /// Reads all elements: `take` receives them in pieces of whole elements. `watch` sees every byte of the file, in order.
    pub(crate) fn read(
        &mut self,
        watch: &mut dyn FnMut(&[u8]),
        take: &mut dyn FnMut(&[u8]) -> Result<(), ArrayFault>,
    ) -> Result<(), ArrayFault> {
        let unreadable = |source| ArrayFault::Read { source };
        self.file.rewind().map_err(unreadable)?;
        // No header is longer than 10,012 bytes.
        let mut head = vec![0; self.offset as usize];
        self.file.read_exact(&mut head).map_err(unreadable)?;
        watch(&head);
        let mut left = self.length - self.offset;
        let mut piece = vec![0; PIECE];
        while left > 0 {
            let part = &mut piece[..left.min(PIECE as u64) as usize];
            self.file.read_exact(part).map_err(unreadable)?;
            watch(part);
            take(part)?;
            left -= part.len() as u64;
        }
        Ok(())
    }
}

/// The type of the elements, if an array with this header can be what it is for.
fn usable(header: &ArrayHeader, role: ArrayRole) -> Result<Element, ArrayFault> {
    let ArrayHeader { element: name, order, shape, .. } = header;
    let suits = |element: &Element| match element {
        Element::F4 | Element::F8 => role == ArrayRole::Features,
        Element::U1 => true,
        Element::I1 | Element::U2 | Element::I2 | Element::U4 | Element::I4 | Element::U8 | Element::I8 => {
            role == ArrayRole::Labels
        }
    };
    let known = Element::named(name).filter(suits);
    let element = known.ok_or_else(|| ArrayFault::ElementType { element: name.clone(), role })?;
    let fits = match role {
        ArrayRole::Features => matches!(shape[..], [_, _] | [_, _, _, _]),
        ArrayRole::Labels => shape.len() == 1,
    };
    if !fits {
        return Err(ArrayFault::Dimensions { shape: shape.clone(), role });
    }
    // The order of a vector's elements is both.
    if *order == IndexOrder::Fortran && shape.len() > 1 {
        return Err(ArrayFault::FortranOrder { role });
    }
    if shape.contains(&0) {
        return Err(ArrayFault::Nothing { shape: shape.clone() });
    }
    match shape.first() {
        Some(samples) if *samples > u64::from(u32::MAX) => Err(ArrayFault::TooMany { samples: *samples }),
        _ => Ok(element),
    }
}
