//! The order in which a tensor copy visits elements, and their places in both memories.
//!
//! ```text
//! Columns of four pixels from {w, h} = {2, 1} in the part from {0, 0} to {2, 1} of an image of 4 x 3 pixels, with offsets {1, 0}:
//!
//!   position   2 1   0 0 of the next image, and so on: the first coordinate runs from its lower to its upper bound
//!   pixel      3 1   1 0
//! ```
//!
//! Positions stay in the part of the image; the offsets, which a convolution takes from the place in its filter, are added at the end.

use super::{Columns, TensorMap, TensorRegion, UNIT, corner_bits};

impl TensorMap {
    /// Returns the number of units that a copy moves in each dimension. With an interleaved layout the last dimension but one is that of
    /// slices of channels; a copy moves a single slice, whatever the size of the box (observed on an H200).
    fn counts(&self, sizes: &[u64]) -> Vec<u64> {
        let mut counts: Vec<u64> = sizes.iter().zip(&self.steps).map(|(size, &step)| size.div_ceil(step)).collect();
        if self.interleave != 0 {
            let slices = counts.len() - 2;
            counts[slices] = 1;
        }
        counts
    }

    /// Returns the number of consecutive units of a row, and the number of rows.
    fn extent(&self) -> (u64, u64) {
        match &self.region {
            TensorRegion::Box(sizes) => {
                let counts = self.counts(sizes);
                (counts[0], counts[1..].iter().product())
            }
            TensorRegion::Columns(columns) => (if self.interleave == 0 { columns.channels } else { 1 }, columns.pixels),
        }
    }

    /// Returns the bytes that a copy moves, which the barrier of a load counts.
    pub(crate) fn box_bytes(&self) -> u64 {
        let (units, rows) = self.extent();
        units * rows * self.strides[0]
    }

    /// Fails where an H200 reports an illegal instruction, or if the mode of the copy is not that of the map.
    pub(crate) fn check(&self, coordinates: &[i32], is_columns: bool, is_load: bool) -> Result<(), String> {
        if is_columns != matches!(self.region, TensorRegion::Columns(_)) {
            return Err("a tensor copy whose mode (.tile or .im2col) is not that of its tensor map".to_owned());
        }
        if coordinates.len() != self.sizes.len() {
            return Err(format!("a tensor copy with {} coordinates in {} dimensions", coordinates.len(), self.sizes.len()));
        }
        let first_byte = i64::from(coordinates[0]) * self.strides[0] as i64;
        if first_byte % UNIT as i64 != 0 {
            return Err(format!("the first coordinate of a tensor copy is at byte {first_byte}, which is no multiple of {UNIT}"));
        }
        match &self.region {
            TensorRegion::Columns(columns) => self.check_position(coordinates, columns),
            TensorRegion::Box(_) if !is_load && coordinates.iter().any(|&coordinate| coordinate < 0) => {
                Err("a box that is stored starts before the tensor".to_owned())
            }
            TensorRegion::Box(_) => Ok(()),
        }
    }

    /// Fails if the first position of columns is outside of the part of the image.
    fn check_position(&self, coordinates: &[i32], columns: &Columns) -> Result<(), String> {
        for (number, dimension) in self.image_dimensions().enumerate() {
            let bounds = self.bounds(columns, number);
            if !bounds.contains(&i64::from(coordinates[dimension])) {
                return Err(format!("coordinate {} of a copy of columns is outside of {bounds:?}", coordinates[dimension]));
            }
        }
        Ok(())
    }

    /// Returns the dimensions of an image: all but channels and images. The channels of an interleaved layout are the last but one.
    fn image_dimensions(&self) -> std::ops::Range<usize> {
        let first = usize::from(self.interleave == 0);
        first..first + self.sizes.len() - 2
    }

    /// Returns the bounds of positions in a dimension of an image, which is given by its number.
    fn bounds(&self, columns: &Columns, number: usize) -> std::ops::RangeInclusive<i64> {
        let size = self.sizes[self.image_dimensions().start + number] as i64;
        columns.lower[number]..=size - 1 + columns.upper[number]
    }

    /// Calls `visit` for each piece of the region at some coordinates, with its address in shared memory and its address in global memory;
    /// `None` for a piece outside of the tensor. The offsets are those of `.im2col`, one for each dimension of an image, or none.
    pub(crate) fn visit<E>(
        &self,
        coordinates: &[i32],
        offsets: &[u32],
        shared: u64,
        mut visit: impl FnMut(u64, Option<u64>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (units, rows) = self.extent();
        let unit = self.strides[0];
        // Each row of a swizzled region starts a new pattern (observed on an H200).
        let pitch = if self.interleave == 0 { self.swizzle.max(units * unit) } else { units * unit };
        let mut position: Vec<i64> = coordinates.iter().copied().map(i64::from).collect();
        for row in 0..rows {
            let mut at = match &self.region {
                TensorRegion::Box(sizes) => self.row_of_box(coordinates, &self.counts(sizes), row),
                TensorRegion::Columns(_) => self.with_offsets(&position, offsets),
            };
            for number in 0..units {
                let global = self.address_of(&at);
                for offset in (0..unit).step_by(self.piece_bytes()) {
                    visit(self.swizzled(shared + row * pitch + number * unit + offset), global.map(|address| address + offset))?;
                }
                at[0] += self.steps[0] as i64;
            }
            if let TensorRegion::Columns(columns) = &self.region {
                self.advance(&mut position, columns);
            }
        }
        Ok(())
    }

    /// Returns the coordinates of the first element of a row of a box.
    fn row_of_box(&self, coordinates: &[i32], counts: &[u64], row: u64) -> Vec<i64> {
        let mut rest = row;
        let mut at: Vec<i64> = coordinates.iter().copied().map(i64::from).collect();
        for dimension in 1..at.len() {
            at[dimension] += (rest % counts[dimension] * self.steps[dimension]) as i64;
            rest /= counts[dimension];
        }
        at
    }

    /// Returns the coordinates of the pixel at a position.
    fn with_offsets(&self, position: &[i64], offsets: &[u32]) -> Vec<i64> {
        let mut at = position.to_vec();
        let mask = (1 << corner_bits(position.len() - 2)) - 1;
        for (dimension, &offset) in self.image_dimensions().zip(offsets) {
            at[dimension] += i64::from(offset & mask);
        }
        at
    }

    /// Moves a position to the next pixel of the part of the image, or to the first one of the next image.
    fn advance(&self, position: &mut [i64], columns: &Columns) {
        for (number, dimension) in self.image_dimensions().enumerate() {
            position[dimension] += self.steps[dimension] as i64;
            if position[dimension] <= *self.bounds(columns, number).end() {
                return;
            }
            position[dimension] = columns.lower[number];
        }
        let images = position.len() - 1;
        position[images] += self.steps[images] as i64;
    }

    /// Returns the address in global memory of the unit with some coordinates; `None` outside of the tensor.
    fn address_of(&self, at: &[i64]) -> Option<u64> {
        at.iter().zip(&self.sizes).zip(&self.strides).try_fold(self.address, |address, ((&coordinate, &size), &stride)| {
            let coordinate = u64::try_from(coordinate).ok().filter(|&coordinate| coordinate < size)?;
            Some(address + coordinate * stride)
        })
    }

    /// Returns the address in shared memory to which the swizzle moves an address: the number of the 16-byte piece in its pattern is
    /// changed by the number of the 128-byte line.
    fn swizzled(&self, address: u64) -> u64 {
        match self.swizzle {
            0 => address,
            bytes => address ^ (address >> 7 & (bytes / UNIT - 1)) << 4,
        }
    }
}
