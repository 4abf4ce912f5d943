//! Pictures in files: decoded when a batch is put together, by several threads, and never all in memory.

use super::DataError;
use super::augment::Change;
use crate::threads;
use pictures::{Offset, Picture, PictureFolder, PictureSplit, scaled_sides};
use recipe::PictureProfile;
use std::sync::{Arc, Mutex, PoisonError};

/// The pictures of a split, and the part seen of each.
#[derive(Clone, Debug, PartialEq)]
pub struct PictureFiles {
    folder: Arc<PictureFolder>,
    half: Half,
    resize: usize,
    crop: usize,
}

/// A half of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    Train,
    Test,
}

impl PictureFiles {
    pub(super) fn new(folder: Arc<PictureFolder>, half: Half, profile: &PictureProfile) -> Self {
        Self { folder, half, resize: profile.resize as usize, crop: profile.crop as usize }
    }

    pub(super) fn split(&self) -> &PictureSplit {
        match self.half {
            Half::Train => self.folder.train(),
            Half::Test => self.folder.test(),
        }
    }

    /// The values of the pictures at some positions, one after the other. A channel's table maps its bytes to values;
    /// `change` says how each picture is changed.
    pub(super) fn values(
        &self,
        positions: &[u32],
        tables: &[[f32; 256]],
        change: &(dyn Fn(u32) -> Change + Sync),
    ) -> Result<Vec<f32>, DataError> {
        let size = 3 * self.crop * self.crop;
        let mut values = vec![0.0; positions.len() * size];
        in_pieces(&mut values, size, threads::computing(), |place, piece| {
            let square = self.square(positions[place], change(positions[place]))?;
            let channels = piece.chunks_exact_mut(self.crop * self.crop);
            for ((into, pixels), table) in
                channels.zip(square.chunks_exact(self.crop * self.crop)).zip(tables)
            {
                for (value, pixel) in into.iter_mut().zip(pixels) {
                    *value = table[usize::from(*pixel)];
                }
            }
            Ok(())
        })?;
        Ok(values)
    }

    fn square(&self, position: u32, change: Change) -> Result<Vec<u8>, DataError> {
        let path = self
            .folder
            .path(self.split(), position as usize)
            .ok_or(DataError::Position { position, samples: self.split().len() })?;
        let picture = Picture::read(&path).map_err(|error| DataError::Pictures { problems: vec![error] })?;
        let (width, height) = scaled_sides(picture.width, picture.height, self.resize);
        let room = Offset { across: width - self.crop, down: height - self.crop };
        let middle = Offset { across: half(room.across), down: half(room.down) };
        let corner = change.corner(room).unwrap_or(middle);
        let mut square = picture.window(self.resize, self.crop, corner);
        if change.is_flipped() {
            square.chunks_exact_mut(self.crop).for_each(<[u8]>::reverse);
        }
        Ok(square)
    }
}

/// Half of a number, rounded to even: where torchvision's `CenterCrop` begins.
fn half(room: usize) -> usize {
    let down = room / 2;
    if room % 4 == 3 { down + 1 } else { down }
}

/// Gives each piece of `size` values of a vector to `work`, with its place; `threads` of them at the same time. The error of the
/// first piece by place that has one.
fn in_pieces(
    values: &mut [f32],
    size: usize,
    threads: usize,
    work: impl Fn(usize, &mut [f32]) -> Result<(), DataError> + Sync,
) -> Result<(), DataError> {
    let workers = threads.min(values.len().checked_div(size).unwrap_or(0));
    // Pieces are given out in order: all before one that fails have been given out, and are finished.
    let pieces = Mutex::new(values.chunks_exact_mut(size.max(1)).enumerate());
    let failed = Mutex::new(None);
    let turn = || {
        loop {
            let next = pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((place, piece)) = next else { break };
            if let Err(error) = work(place, piece) {
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                if failed.as_ref().is_none_or(|(other, _)| place < *other) {
                    *failed = Some((place, error));
                }
                break;
            }
        }
    };
    if workers <= 1 {
        turn();
    } else {
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(turn);
            }
        });
    }
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_worked_on_by_any_number_of_threads_with_the_same_result() {
        for threads in [1, 2, 7, 100] {
            let mut values = vec![0.0; 60];
            in_pieces(&mut values, 3, threads, |place, piece| {
                piece.fill(place as f32);
                Ok(())
            })
            .unwrap();
            let expected: Vec<f32> = (0..60).map(|value| (value / 3) as f32).collect();
            assert_eq!(values, expected, "{threads}");
        }
    }

    #[test]
    fn of_several_errors_the_first_by_place_is_told() {
        for threads in [1, 4] {
            let error = in_pieces(&mut [0.0; 40], 1, threads, |place, _| {
                let position = place as u32;
                if place >= 5 { Err(DataError::Position { position, samples: 5 }) } else { Ok(()) }
            });
            assert!(matches!(error.unwrap_err(), DataError::Position { position: 5, .. }));
        }
        in_pieces(&mut [], 3, 4, |_, _| Ok(())).unwrap();
    }
}
