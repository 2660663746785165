//! Textures and surfaces of the simulated device: their contents. `sampling.rs` has the rules for coordinates.
//!
//! The contents are an allocation of global memory, so that they can be compared after a launch.
//!
//! A handle is the number of the texture header in 20 bits, with the number of the sampler above.

use oriole_kernel_test::{Element, Image, KernelTest};
use oriole_sem::convert::{Overflow, float_to_float};
use oriole_sem::float::Mode;
use oriole_sem::format::{F16, F32};

use crate::memory::GlobalMemory;

/// Number of bits of the number of a texture header in a handle.
const HEADER_BITS: u32 = 20;

/// A texture or surface with the address of its contents.
#[derive(Clone, Debug)]
pub(crate) struct DeviceImage {
    pub(crate) image: Image,
    address: u64,
}

/// A texel of a texture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Texel {
    pub(crate) level: u32,
    pub(crate) layer: u32,
    pub(crate) place: [u32; 3],
}

/// What a surface access outside of the surface does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutsideAccess {
    Trap,
    Clamp,
    /// Reads zero; writes nothing.
    Zero,
}

impl GlobalMemory {
    /// Creates a texture or surface. Returns its handle, and the address of its contents.
    pub fn create_image(&mut self, name: &str, image: &Image) -> (u64, u64) {
        let address = self.allocate(name, KernelTest::initial_bytes(image.element, image.count(), &image.fill));
        self.images.push(DeviceImage { image: image.clone(), address });
        let number = self.images.len() as u64;
        (number | number << HEADER_BITS, address)
    }

    /// Returns the texture or surface with the lower half of a handle.
    pub(crate) fn image(&self, handle: u32) -> Result<DeviceImage, String> {
        let (header, sampler) = (handle & ((1 << HEADER_BITS) - 1), handle >> HEADER_BITS);
        let found = (header as usize).checked_sub(1).and_then(|number| self.images.get(number)).filter(|_| header == sampler);
        found.cloned().ok_or_else(|| format!("{handle:#x} is no handle of a texture or surface"))
    }

    /// Returns the elements of a texel, each extended to a register; halves are converted to singles. Elements that the texture does not have
    /// are `None`. Without a texel the elements are zero.
    pub(crate) fn texel(&self, image: &DeviceImage, texel: Option<Texel>) -> [Option<u32>; 4] {
        let channels = image.image.channels as usize;
        let Some(texel) = texel else { return std::array::from_fn(|channel| (channel < channels).then_some(0)) };
        let bytes = image.image.element.bytes();
        let start = image.address + image.texel_number(texel) * (bytes * channels) as u64;
        let contents = self.read_unaligned(start, bytes * channels);
        std::array::from_fn(|channel| {
            let at = channel * bytes;
            let element = contents.get(at..at + bytes).filter(|_| channel < channels)?;
            let bits = element.iter().rev().fold(0_u32, |bits, &byte| bits << 8 | u32::from(byte));
            Some(match image.image.element {
                Element::S8 => bits as u8 as i8 as u32,
                Element::S16 => bits as u16 as i16 as u32,
                Element::F16 => float_to_float(F32, F16, bits.into(), Mode::RN, Overflow::Ieee) as u32,
                _ => bits,
            })
        })
    }

    /// Returns the bytes of a range that need not be aligned; empty outside of all allocations.
    fn read_unaligned(&self, address: u64, bytes: usize) -> Vec<u8> {
        (0..bytes as u64).filter_map(|offset| self.read(address + offset, 1).ok()).map(|byte| byte[0]).collect()
    }

    /// Reads bytes of a surface. Coordinates are bytes in x, rows in y and layers in z.
    pub(crate) fn read_surface(
        &self,
        image: &DeviceImage,
        place: [i32; 3],
        bytes: usize,
        outside: OutsideAccess,
    ) -> Result<Vec<u8>, String> {
        match image.surface_address(place, bytes, outside)? {
            Some(address) => Ok(self.read_unaligned(address, bytes)),
            None => Ok(vec![0; bytes]),
        }
    }

    /// Writes bytes of a surface.
    pub(crate) fn write_surface(
        &mut self,
        image: &DeviceImage,
        place: [i32; 3],
        bytes: &[u8],
        outside: OutsideAccess,
    ) -> Result<(), String> {
        let Some(address) = image.surface_address(place, bytes.len(), outside)? else { return Ok(()) };
        for (offset, &byte) in bytes.iter().enumerate() {
            let place = self.write(address + offset as u64, 1).map_err(|_| "a surface without contents".to_owned())?;
            place[0] = byte;
        }
        Ok(())
    }
}

impl DeviceImage {
    /// Returns the number of a texel in the contents.
    fn texel_number(&self, Texel { level, layer, place: [x, y, z] }: Texel) -> u64 {
        let before: usize = (0..level).map(|level| self.image.texels_of_level(level)).sum();
        let [width, height, depth] = self.image.size_of_level(level).map(u64::from);
        before as u64 + ((u64::from(layer) * depth + u64::from(z)) * height + u64::from(y)) * width + u64::from(x)
    }

    /// Returns the address of bytes of a surface; `None` if they are outside and nothing is accessed.
    fn surface_address(&self, [x, y, z]: [i32; 3], bytes: usize, outside: OutsideAccess) -> Result<Option<u64>, String> {
        let texel_bytes = self.image.element.bytes() as u32 * self.image.channels;
        let [width, height, depth] = self.image.size;
        let row_bytes = width * texel_bytes;
        if x % bytes as i32 != 0 {
            return Err(format!("{bytes} bytes of a surface at byte {x} of a row"));
        }
        let limits = [row_bytes.saturating_sub(bytes as u32), height - 1, depth - 1];
        let is_inside = [x, y, z].iter().zip(limits).all(|(&place, limit)| u32::try_from(place).is_ok_and(|place| place <= limit));
        let place = match outside {
            _ if is_inside => [x, y, z].map(|place| place as u32),
            OutsideAccess::Trap => return Err(format!("{bytes} bytes at {:?} are outside of the surface", [x, y, z])),
            OutsideAccess::Zero => return Ok(None),
            OutsideAccess::Clamp => std::array::from_fn(|axis| ([x, y, z][axis].max(0) as u32).min(limits[axis])),
        };
        let row = u64::from(place[2]) * u64::from(height) + u64::from(place[1]);
        Ok(Some(self.address + row * u64::from(row_bytes) + u64::from(place[0])))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use oriole_kernel_test::{ParameterValue, parse};

    /// Creates a texture or surface from its description.
    pub(crate) fn image(text: &str) -> (GlobalMemory, DeviceImage) {
        let header = format!("// kernel-test 1\n// kernel: k\n// param t: {text}\n// param o: u32[1] = zero\n// expect o: exact = 0\n");
        let ParameterValue::Image(image) = parse(&header).unwrap().parameters.remove(0).value else { panic!("no image") };
        let mut memory = GlobalMemory::new();
        let (handle, _) = memory.create_image("t", &image);
        let found = memory.image(handle as u32).unwrap();
        (memory, found)
    }

    #[test]
    fn surfaces_are_read_by_bytes() {
        let (mut memory, image) = image("surface u16x2 2x3 = index");
        assert_eq!(memory.read_surface(&image, [4, 2, 0], 4, OutsideAccess::Trap).unwrap(), [10, 0, 11, 0]);
        assert_eq!(memory.read_surface(&image, [8, 1, 0], 4, OutsideAccess::Zero).unwrap(), [0; 4]);
        assert_eq!(memory.read_surface(&image, [8, -1, 0], 4, OutsideAccess::Clamp).unwrap(), [2, 0, 3, 0]);
        assert!(memory.read_surface(&image, [0, 3, 0], 4, OutsideAccess::Trap).is_err());
        memory.write_surface(&image, [2, 0, 0], &[7, 8], OutsideAccess::Trap).unwrap();
        assert_eq!(memory.read_surface(&image, [0, 0, 0], 8, OutsideAccess::Trap).unwrap(), [0, 0, 7, 8, 2, 0, 3, 0]);
    }
}
