//! Accesses to textures and surfaces.

use super::block::PtxBlock;
use super::warp::{PtxWarp, lanes_of};
use super::{LaunchState, Stop};
use crate::image::{OutsideAccess, SurfacePlace, SurfaceUnit};
use crate::ptx::finding::FindingKind;
use crate::ptx::program::{ImageAccess, ImageAccessKind, ImageHandle, ImageResults};
use crate::sampling::{Fetch, Geometry, Level};
use oriole_sem::convert::{Overflow, float_to_float};
use oriole_sem::float::Mode;
use oriole_sem::format::{F16, F32};

/// All bits of a result of a fetch: elements that the texture does not have are undefined.
const ALL_BITS: u64 = u32::MAX as u64;
/// Number of bits of a half, and all of its bits.
const HALF: u32 = 16;
const HALF_BITS: u64 = (1 << HALF) - 1;

/// Returns the fetch of a thread; `words` are the sample and the index, if there are any, and the coordinates.
fn fetch(geometry: Geometry, level: Level, words: &[u32], offsets: [i32; 3]) -> Fetch {
    let mut words = words.iter().copied();
    let mut next = |is_present: bool| if is_present { words.next().unwrap_or(0) } else { 0 };
    let (sample, index) = (next(geometry.has_samples), next(geometry.has_index()));
    let mut coordinates = [0; 3];
    coordinates.iter_mut().zip(words).for_each(|(coordinate, place)| *coordinate = place);
    Fetch { geometry, level, index, sample, coordinates, offsets }
}

/// Returns a place of a surface; `words` are the index, if there is one, and the coordinates.
fn surface_place(geometry: Geometry, words: &[u32], unit: SurfaceUnit, outside: OutsideAccess) -> SurfacePlace {
    let Fetch { index, coordinates, .. } = fetch(geometry, Level::Base, words, [0; 3]);
    SurfacePlace { geometry, layer: index, place: coordinates.map(|word| word as i32), unit, outside }
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
            let operands = access
                .coordinates
                .iter()
                .chain(&access.derivatives)
                .chain(&access.offsets)
                .chain(access.handle.register())
                .chain(access.sampler.as_ref().and_then(ImageHandle::register));
            if machine.options.undefined_values && operands.into_iter().any(|&source| self.read_undefined(source, lane) as u32 != 0) {
                machine.uninitialized(
                    block,
                    self,
                    lane,
                    line,
                    "a coordinate, a derivative, an offset or a handle of this access was never written",
                );
            }
            if let Err(message) = self.access_by_lane(machine, access, lane) {
                return Err(machine.stop(FindingKind::BadOperand, block, self, lane, line, message));
            }
        }
        Ok(())
    }

    fn access_by_lane(&mut self, machine: &mut LaunchState<'_>, access: &ImageAccess, lane: usize) -> Result<(), String> {
        let handle = self.image_handle(machine, &access.handle, lane)?;
        let image = match &access.sampler {
            Some(sampler) => machine.memory.image_with_sampler(handle, self.image_handle(machine, sampler, lane)?)?,
            None => machine.memory.image(handle)?,
        };
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
                self.write_image_result(access, 0, lane, Some(image.extent(axis)));
                return Ok(());
            }
            ImageAccessKind::Surface { geometry, element_bytes, unit, outside } => {
                let place = surface_place(geometry, &words, unit, outside);
                return self.access_surface(machine, access, lane, &place, usize::from(element_bytes));
            }
            ImageAccessKind::Reduction { geometry, reduction, bytes, unit, outside } => {
                let place = surface_place(geometry, &words, unit, outside);
                let (operand, bytes) = (self.read(&machine.pool, access.values[0], lane), usize::from(bytes));
                return match unit {
                    SurfaceUnit::Bytes => machine.memory.reduce_surface(&image, &place, reduction, bytes, operand),
                    SurfaceUnit::Samples => machine.memory.reduce_sample(&image, &place, reduction, bytes, operand),
                };
            }
            ImageAccessKind::Fetch(geometry) => {
                let level = match level {
                    Some(level) => Level::Float(f32::from_bits(level)),
                    None if !access.derivatives.is_empty() => Level::Gradient(self.derivatives(machine, access, lane)),
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
        self.write_texel(access, lane, texel);
        if let Some(resident) = access.resident {
            self.write(resident, lane, 1);
        }
        Ok(())
    }

    /// Returns the part of a handle that the machine uses.
    fn image_handle(&self, machine: &LaunchState<'_>, handle: &ImageHandle, lane: usize) -> Result<u32, String> {
        match handle {
            &ImageHandle::Register(source) => Ok(self.read(&machine.pool, source, lane) as u32),
            ImageHandle::Reference(name) => machine.memory.reference(name),
        }
    }

    /// Returns the derivatives of the coordinates by x and by y.
    fn derivatives(&self, machine: &LaunchState<'_>, access: &ImageAccess, lane: usize) -> [[f32; 3]; 2] {
        let mut derivatives = [[0.0; 3]; 2];
        let count = access.derivatives.len() / 2;
        for (to, sources) in derivatives.iter_mut().zip(access.derivatives.chunks_exact(count)) {
            for (to, &source) in to.iter_mut().zip(sources) {
                *to = f32::from_bits(self.read(&machine.pool, source, lane) as u32);
            }
        }
        derivatives
    }

    /// Writes the four results of a fetch.
    fn write_texel(&mut self, access: &ImageAccess, lane: usize, texel: [Option<u32>; 4]) {
        let half = |word: Option<u32>| word.map(|word| float_to_float(F16, F32, word.into(), Mode::RN, Overflow::Ieee) as u32);
        match access.results {
            ImageResults::Words | ImageResults::Halves => {
                let texel = if access.results == ImageResults::Halves { texel.map(half) } else { texel };
                (0..).zip(texel).for_each(|(number, value)| self.write_image_result(access, number, lane, value));
            }
            ImageResults::PairsOfHalves => {
                for (number, pair) in texel.map(half).chunks_exact(2).enumerate() {
                    let Some(&Some(slot)) = access.destinations.get(number) else { continue };
                    let undefined = [(pair[0], HALF_BITS), (pair[1], HALF_BITS << HALF)]
                        .iter()
                        .filter(|(half, _)| half.is_none())
                        .map(|(_, bits)| bits)
                        .sum();
                    let [lower, upper] = [pair[0], pair[1]].map(|half| u64::from(half.unwrap_or(0)));
                    self.write_with(slot, lane, lower | upper << HALF, undefined);
                }
            }
        }
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
        place: &SurfacePlace,
        element_bytes: usize,
    ) -> Result<(), String> {
        let image = machine.memory.image(self.image_handle(machine, &access.handle, lane)?)?;
        if access.values.is_empty() {
            let bytes = machine.memory.read_surface(&image, place, element_bytes * access.destinations.len())?;
            for (element, destination) in bytes.chunks_exact(element_bytes).zip(&access.destinations) {
                let value = element.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
                if let Some(slot) = *destination {
                    self.write(slot, lane, value);
                }
            }
            return Ok(());
        }
        let values = access.values.iter().map(|&source| self.read(&machine.pool, source, lane));
        if place.unit == SurfaceUnit::Samples {
            let elements: Vec<u32> = values.map(|value| value as u32).collect();
            let channels = image.image.channels as usize;
            if elements.len() < channels {
                return Err(format!(
                    "{} elements are stored to samples of {channels}, which leaves the others unpredictable",
                    elements.len()
                ));
            }
            return machine.memory.write_sample(&image, place, &elements);
        }
        let bytes: Vec<u8> = values.flat_map(|value| value.to_le_bytes().into_iter().take(element_bytes)).collect();
        machine.memory.write_surface(&image, place, &bytes)
    }
}
