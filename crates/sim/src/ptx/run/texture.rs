//! Accesses to textures and surfaces.

use super::block::Block;
use super::warp::{Warp, lanes_of};
use super::{Machine, Stop};
use crate::ptx::finding::FindingKind;
use crate::ptx::program::{ImageAccess, ImageAccessKind};

/// All bits of a result of a fetch: elements that the texture does not have are undefined.
const ALL_BITS: u64 = u32::MAX as u64;

impl Warp {
    /// Performs an access for the active threads.
    pub(crate) fn access_image(
        &mut self,
        machine: &mut Machine<'_>,
        block: &Block,
        access: &ImageAccess,
        active: u32,
        line: u32,
    ) -> Result<(), Stop> {
        for lane in lanes_of(active) {
            let operands = access.coordinates.iter().chain([&access.handle]);
            if machine.options.undefined_values && operands.into_iter().any(|&source| self.read_undefined(source, lane) as u32 != 0) {
                machine.uninitialized(block, self, lane, line, "a coordinate or the handle of this access was never written");
            }
            if let Err(message) = self.access_by_lane(machine, access, lane) {
                return Err(machine.stop(FindingKind::BadOperand, block, self, lane, line, message));
            }
        }
        Ok(())
    }

    fn access_by_lane(&mut self, machine: &mut Machine<'_>, access: &ImageAccess, lane: usize) -> Result<(), String> {
        let image = machine.memory.image(self.read(&machine.pool, access.handle, lane) as u32)?;
        let count = access.coordinates.len();
        let mut places = [0_u32; 3];
        for (place, &source) in places.iter_mut().zip(&access.coordinates) {
            *place = self.read(&machine.pool, source, lane) as u32;
        }
        let texel = match access.kind {
            ImageAccessKind::Size(axis) => {
                self.write_image_result(access, 0, lane, Some(image.image.size[axis]));
                return Ok(());
            }
            ImageAccessKind::Surface { element_bytes, outside } => {
                return self.access_surface(machine, access, lane, places.map(|place| place as i32), usize::from(element_bytes), outside);
            }
            _ if count != image.image.dimensions => {
                return Err(format!("a texture of {} dimensions is read with {count}", image.image.dimensions));
            }
            ImageAccessKind::Fetch => image.at(places.map(f32::from_bits), count),
            ImageAccessKind::FetchTexel => Some(image.at_integers(places.map(|place| place as i32), count)?),
        };
        for (number, value) in machine.memory.texel(&image, texel).into_iter().enumerate() {
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
        machine: &mut Machine<'_>,
        access: &ImageAccess,
        lane: usize,
        place: [i32; 3],
        element_bytes: usize,
        outside: crate::image::Outside,
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
