//! Accesses to textures and surfaces.

use super::block::PtxBlock;
use super::warp::{PtxWarp, lanes_of};
use super::{LaunchState, Stop};
use crate::ptx::finding::FindingKind;
use crate::ptx::program::{ImageAccess, ImageAccessKind};
use crate::sampling::{Fetch, Geometry, Level};

/// All bits of a result of a fetch: elements that the texture does not have are undefined.
const ALL_BITS: u64 = u32::MAX as u64;

/// Returns the fetch of a thread; `words` are the index, if there is one, and the coordinates.
fn fetch(geometry: Geometry, level: Level, words: &[u32], offsets: [i32; 3]) -> Fetch {
    let (index, places) = match words.split_first() {
        Some((&index, places)) if geometry.has_index() => (index, places),
        _ => (0, words),
    };
    let mut coordinates = [0; 3];
    coordinates.iter_mut().zip(places).for_each(|(coordinate, &place)| *coordinate = place);
    Fetch { geometry, level, index, coordinates, offsets }
}

impl PtxWarp {
    /// Performs an access for the active threads.
    pub(crate) fn access_image(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &PtxBlock,
        access: &ImageAccess,
        active: u32,
        line: u32,
    ) -> Result<(), Stop> {
        for lane in lanes_of(active) {
            let operands = access.coordinates.iter().chain(&access.offsets).chain([&access.handle]);
            if machine.options.undefined_values && operands.into_iter().any(|&source| self.read_undefined(source, lane) as u32 != 0) {
                machine.uninitialized(block, self, lane, line, "a coordinate, an offset or the handle of this access was never written");
            }
            if let Err(message) = self.access_by_lane(machine, access, lane) {
                return Err(machine.stop(FindingKind::BadOperand, block, self, lane, line, message));
            }
        }
        Ok(())
    }

    fn access_by_lane(&mut self, machine: &mut LaunchState<'_>, access: &ImageAccess, lane: usize) -> Result<(), String> {
        let image = machine.memory.image(self.read(&machine.pool, access.handle, lane) as u32)?;
        let words: Vec<u32> = access.coordinates.iter().map(|&source| self.read(&machine.pool, source, lane) as u32).collect();
        let level = access.level.map(|source| self.read(&machine.pool, source, lane) as u32);
        let mut offsets = [0; 3];
        for (offset, &source) in offsets.iter_mut().zip(&access.offsets) {
            *offset = self.read(&machine.pool, source, lane) as i32;
        }
        // The machine has four bits for an offset, and six in `tld4`.
        let limit = if matches!(access.kind, ImageAccessKind::Gather(..)) { 32 } else { 8 };
        if let Some(offset) = offsets.iter().find(|offset| !(-limit..limit).contains(*offset)) {
            return Err(format!("an offset of {offset}, which is not in the range from {} to {}", -limit, limit - 1));
        }
        let texel = match access.kind {
            ImageAccessKind::Size(axis) => {
                self.write_image_result(access, 0, lane, Some(image.image.size[axis]));
                return Ok(());
            }
            ImageAccessKind::Surface { element_bytes, outside } => {
                let mut place = [0; 3];
                place.iter_mut().zip(&words).for_each(|(place, &word)| *place = word as i32);
                return self.access_surface(machine, access, lane, place, usize::from(element_bytes), outside);
            }
            ImageAccessKind::Fetch(geometry) => {
                let level = match level {
                    Some(level) => Level::Float(f32::from_bits(level)),
                    None if access.has_gradient => Level::Gradient,
                    None => Level::Base,
                };
                machine.memory.sample(&image, &fetch(geometry, level, &words, offsets))?
            }
            ImageAccessKind::FetchTexel(geometry) => {
                let level = level.map_or(Level::Base, |level| Level::Integer(level as i32));
                machine.memory.texel_at(&image, &fetch(geometry, level, &words, offsets))?
            }
            ImageAccessKind::Gather(geometry, component) => {
                machine.memory.gather(&image, &fetch(geometry, Level::Base, &words, offsets), component)?
            }
        };
        for (number, value) in texel.into_iter().enumerate() {
            self.write_image_result(access, number, lane, value);
        }
        Ok(())
    }

    fn write_image_result(&mut self, access: &ImageAccess, number: usize, lane: usize, value: Option<u32>) {
        if let Some(&Some(slot)) = access.destinations.get(number) {
            self.write_with(slot, lane, u64::from(value.unwrap_or(0)), if value.is_some() { 0 } else { ALL_BITS });
        }
    }

    fn access_surface(
        &mut self,
        machine: &mut LaunchState<'_>,
        access: &ImageAccess,
        lane: usize,
        place: [i32; 3],
        element_bytes: usize,
        outside: crate::image::OutsideAccess,
    ) -> Result<(), String> {
        let image = machine.memory.image(self.read(&machine.pool, access.handle, lane) as u32)?;
        if access.values.is_empty() {
            let bytes = machine.memory.read_surface(&image, place, element_bytes * access.destinations.len(), outside)?;
            for (element, destination) in bytes.chunks_exact(element_bytes).zip(&access.destinations) {
                let value = element.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
                if let Some(slot) = *destination {
                    self.write(slot, lane, value);
                }
            }
            return Ok(());
        }
        let values = access.values.iter().map(|&source| self.read(&machine.pool, source, lane));
        let bytes: Vec<u8> = values.flat_map(|value| value.to_le_bytes().into_iter().take(element_bytes)).collect();
        machine.memory.write_surface(&image, place, &bytes, outside)
    }
}
