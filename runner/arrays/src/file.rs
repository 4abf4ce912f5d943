//! One array on disk, a file of its own or a tensor of a file: opened, its header believed as far as the file's length bears it out, its
//! elements read piece by piece.

use super::element::Element;
use super::error::{ArrayError, ArrayFault, ArrayHome, ArrayRole};
use super::header::{ArrayHeader, IndexOrder, parse_header};
use super::tensors::{TensorPlace, parse_tensors};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Bytes that are read at once; a multiple of the size of every element.
const PIECE: usize = 1 << 16;

/// An array whose type and shape are of use, in a file as long as they say.
pub(crate) struct ArrayFile {
    pub(crate) path: PathBuf,
    home: ArrayHome,
    /// Name in messages about other arrays.
    pub(crate) name: &'static str,
    pub(crate) element: Element,
    /// Samples first; every size is at least 1, and their product fits memory's addresses.
    pub(crate) shape: Vec<u64>,
    /// Bytes of the file.
    length: u64,
    /// Where its part of the file begins: 0 if it is the first in its file, so that the header belongs to it.
    begin: u64,
    /// Where its elements begin, and end.
    offset: u64,
    end: u64,
    file: File,
}

impl ArrayFile {
    /// Opens an array and judges its header.
    pub(crate) fn open(folder: &Path, name: &'static str, role: ArrayRole) -> Result<Self, ArrayError> {
        let path = folder.join(name);
        Self::judged(&path, name, role).map_err(|fault| ArrayError {
            file: path,
            home: ArrayHome::Npy,
            fault,
        })
    }

    fn judged(path: &Path, name: &'static str, role: ArrayRole) -> Result<Self, ArrayFault> {
        let (mut file, length) = open_plain(path)?;
        let header = parse_header(&mut file)?;
        let element = usable(&header, role)?;
        let ArrayHeader { shape, offset, .. } = header;
        let size = |product: Option<u128>, size: &u64| product?.checked_mul(u128::from(*size));
        let expected = shape.iter().fold(Some(element.size() as u128), size);
        let expected = expected.and_then(|bytes| bytes.checked_add(u128::from(offset)));
        if expected != Some(u128::from(length)) {
            return Err(ArrayFault::FileLength { expected, got: length, shape, element, offset });
        }
        let path = path.to_owned();
        let home = ArrayHome::Npy;
        Ok(Self { path, home, name, element, shape, length, begin: 0, offset, end: length, file })
    }

    /// Opens the features and the labels of a safetensors file, and judges its header.
    pub(crate) fn open_tensors(
        folder: &Path,
        name: &str,
        names: [&'static str; 2],
    ) -> Result<[Self; 2], Vec<ArrayError>> {
        let path = folder.join(name);
        let error = |home, fault| ArrayError { file: path.clone(), home, fault };
        let whole = |fault| vec![error(ArrayHome::Safetensors, fault)];
        let (mut file, length) = open_plain(&path).map_err(whole)?;
        let other = file.try_clone().map_err(|source| whole(ArrayFault::Read { source }))?;
        let [x, y] = parse_tensors(&mut file, length).map_err(whole)?;
        // They lie one behind the other: the header belongs to the first.
        let x_first = x.header.offset < y.header.offset;
        let part = |home, role, first: bool, place: TensorPlace, file: File| -> Result<Self, ArrayError> {
            let element = usable(&place.header, role).map_err(|fault| error(home, fault))?;
            let ArrayHeader { shape, offset, .. } = place.header;
            let begin = if first { 0 } else { offset };
            let path = path.clone();
            let end = place.end;
            let name = "";
            Ok(Self { path, home, name, element, shape, length, begin, offset, end, file })
        };
        let [name_x, name_y] = names;
        let x = part(ArrayHome::TensorX, ArrayRole::Features, x_first, x, file)
            .map(|x| Self { name: name_x, ..x });
        let y = part(ArrayHome::TensorY, ArrayRole::Labels, !x_first, y, other)
            .map(|y| Self { name: name_y, ..y });
        match (x, y) {
            (Ok(x), Ok(y)) => Ok([x, y]),
            (x, y) => Err([x, y].into_iter().filter_map(Result::err).collect()),
        }
    }

    /// Whether the digest of a folder meets it before the other array of the same samples.
    pub(crate) fn is_before(&self, other: &Self) -> bool {
        self.begin <= other.begin
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
        ArrayError { file: self.path.clone(), home: self.home, fault }
    }

    /// An empty vector with room for all elements, which are known to be there.
    pub(crate) fn room<T>(&self) -> Result<Vec<T>, ArrayFault> {
        let count = (self.end - self.offset) / self.element.size() as u64;
        let bytes = count.saturating_mul(size_of::<T>() as u64);
        let mut room = Vec::new();
        let count = usize::try_from(count).map_err(|_| ArrayFault::Memory { bytes })?;
        room.try_reserve_exact(count).map_err(|_| ArrayFault::Memory { bytes })?;
        Ok(room)
    }

    /// Shows `watch` the name and the length of the file, which a digest has beside its content: once for each file.
    pub(crate) fn announce(&self, watch: &mut dyn FnMut(&[u8])) {
        if self.begin > 0 {
            return;
        }
        let name = self.path.file_name().unwrap_or_default().as_encoded_bytes();
        watch(&(name.len() as u64).to_le_bytes());
        watch(name);
        watch(&self.length.to_le_bytes());
    }

    /// Reads all elements: `take` receives them in pieces of whole elements. `watch` sees every byte of its part of
    /// the file, in order.
    pub(crate) fn read(
        &mut self,
        watch: &mut dyn FnMut(&[u8]),
        take: &mut dyn FnMut(&[u8]) -> Result<(), ArrayFault>,
    ) -> Result<(), ArrayFault> {
        let unreadable = |source| ArrayFault::Read { source };
        self.file.seek(SeekFrom::Start(self.begin)).map_err(unreadable)?;
        // No header is longer than a mebibyte and its length.
        let mut head = vec![0; (self.offset - self.begin) as usize];
        self.file.read_exact(&mut head).map_err(unreadable)?;
        watch(&head);
        let mut left = self.end - self.offset;
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

/// A plain file and its length.
fn open_plain(path: &Path) -> Result<(File, u64), ArrayFault> {
    let unreadable = |source: std::io::Error| match source.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => ArrayFault::Missing,
        _ => ArrayFault::Read { source },
    };
    // Opening a pipe would wait for its writer.
    let about = fs::metadata(path).map_err(unreadable)?;
    if !about.is_file() {
        return Err(ArrayFault::NoFile);
    }
    Ok((File::open(path).map_err(unreadable)?, about.len()))
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
