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
use crate::sampling::{Geometry, check_geometry};

/// Number of bits of the number of a texture header in a handle.
const HEADER_BITS: u32 = 20;

/// A texture or surface with the address of its contents.
#[derive(Clone, Debug)]
pub(crate) struct DeviceImage {
    pub(crate) image: Image,
    address: u64,
}

/// The position of a texel in a texture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Texel {
    pub(crate) level: u32,
    pub(crate) layer: u32,
    pub(crate) place: [u32; 3],
}

/// The position that a surface instruction accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SurfacePlace {
    /// The kind of surface that the instruction names.
    pub(crate) geometry: Geometry,
    pub(crate) layer: u32,
    /// The coordinates: x in bytes, y in rows, z in slices.
    pub(crate) place: [i32; 3],
    pub(crate) outside: OutsideAccess,
}

/// The operation of a surface reduction (`sured`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SurfaceReduction {
    Add,
    Min { is_signed: bool },
    Max { is_signed: bool },
    And,
    Or,
}

impl SurfaceReduction {
    /// Returns the new value of a surface element of 4 or 8 bytes, from its old value and the operand of the reduction.
    fn combine(self, old: u64, operand: u64, bytes: usize) -> u64 {
        let unused = u64::BITS - 8 * bytes as u32;
        let signed = |number: u64| (number << unused) as i64 >> unused;
        let is_less = |is_signed: bool| if is_signed { signed(old) < signed(operand) } else { old < operand };
        match self {
            SurfaceReduction::Add => old.wrapping_add(operand),
            SurfaceReduction::Min { is_signed } => {
                if is_less(is_signed) {
                    old
                } else {
                    operand
                }
            }
            SurfaceReduction::Max { is_signed } => {
                if is_less(is_signed) {
                    operand
                } else {
                    old
                }
            }
            SurfaceReduction::And => old & operand,
            SurfaceReduction::Or => old | operand,
        }
    }
}

/// The behaviour of an access whose coordinates are outside of the surface.
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

    /// Returns the bytes at an address, which may be unaligned. The result is empty if the address is outside of all allocations.
    fn read_unaligned(&self, address: u64, bytes: usize) -> Vec<u8> {
        (0..bytes as u64).filter_map(|offset| self.read(address + offset, 1).ok()).map(|byte| byte[0]).collect()
    }

    /// Reads bytes of a surface.
    pub(crate) fn read_surface(&self, image: &DeviceImage, place: &SurfacePlace, bytes: usize) -> Result<Vec<u8>, String> {
        match image.surface_address(place, bytes)? {
            Some(address) => Ok(self.read_unaligned(address, bytes)),
            None => Ok(vec![0; bytes]),
        }
    }

    /// Writes bytes of a surface.
    pub(crate) fn write_surface(&mut self, image: &DeviceImage, place: &SurfacePlace, bytes: &[u8]) -> Result<(), String> {
        let Some(address) = image.surface_address(place, bytes.len())? else { return Ok(()) };
        for (offset, &byte) in bytes.iter().enumerate() {
            let place = self.write(address + offset as u64, 1).map_err(|_| "a surface without contents".to_owned())?;
            place[0] = byte;
        }
        Ok(())
    }

    /// Executes a reduction on a surface element of 4 or 8 bytes.
    pub(crate) fn reduce_surface(
        &mut self,
        image: &DeviceImage,
        place: &SurfacePlace,
        reduction: SurfaceReduction,
        bytes: usize,
        operand: u64,
    ) -> Result<(), String> {
        let old = self.read_surface(image, place, bytes)?;
        let old = old.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
        let new = reduction.combine(old, operand, bytes);
        self.write_surface(image, place, &new.to_le_bytes()[..bytes])
    }
}

impl DeviceImage {
    /// Returns the index of a texel in the contents, in texels.
    fn texel_number(&self, Texel { level, layer, place: [x, y, z] }: Texel) -> u64 {
        let before: usize = (0..level).map(|level| self.image.texels_of_level(level)).sum();
        let [width, height, depth] = self.image.size_of_level(level).map(u64::from);
        before as u64 + ((u64::from(layer) * depth + u64::from(z)) * height + u64::from(y)) * width + u64::from(x)
    }

    /// Returns the address of the accessed bytes. `None` means that they are outside of the surface and nothing is accessed.
    fn surface_address(&self, place: &SurfacePlace, bytes: usize) -> Result<Option<u64>, String> {
        check_geometry(self, place.geometry)?;
        let SurfacePlace { layer, place: [x, y, z], outside, .. } = *place;
        if layer >= self.image.layers {
            return Err(format!("layer {layer} of a surface with {} layers", self.image.layers));
        }
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
        let row = (u64::from(layer) * u64::from(depth) + u64::from(place[2])) * u64::from(height) + u64::from(place[1]);
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

    fn at(image: &DeviceImage, layer: u32, place: [i32; 3], outside: OutsideAccess) -> SurfacePlace {
        let geometry = Geometry { dimensions: image.image.dimensions, arrangement: image.image.arrangement };
        SurfacePlace { geometry, layer, place, outside }
    }

    #[test]
    fn surfaces_are_read_by_bytes() {
        let (mut memory, image) = image("surface u16x2 2x3 = index");
        let read = |memory: &GlobalMemory, place: [i32; 3], outside| memory.read_surface(&image, &at(&image, 0, place, outside), 4);
        assert_eq!(read(&memory, [4, 2, 0], OutsideAccess::Trap).unwrap(), [10, 0, 11, 0]);
        assert_eq!(read(&memory, [8, 1, 0], OutsideAccess::Zero).unwrap(), [0; 4]);
        assert_eq!(read(&memory, [8, -1, 0], OutsideAccess::Clamp).unwrap(), [2, 0, 3, 0]);
        assert!(read(&memory, [0, 3, 0], OutsideAccess::Trap).is_err());
        memory.write_surface(&image, &at(&image, 0, [2, 0, 0], OutsideAccess::Trap), &[7, 8]).unwrap();
        let row = memory.read_surface(&image, &at(&image, 0, [0, 0, 0], OutsideAccess::Trap), 8).unwrap();
        assert_eq!(row, [0, 0, 7, 8, 2, 0, 3, 0]);
    }

    #[test]
    fn surfaces_have_layers_and_reductions() {
        let (mut memory, image) = image("surface u32 2x2 layers:3 = index");
        let place = at(&image, 2, [4, 1, 0], OutsideAccess::Trap);
        assert_eq!(memory.read_surface(&image, &place, 4).unwrap(), [11, 0, 0, 0]);
        assert!(memory.read_surface(&image, &at(&image, 3, [0; 3], OutsideAccess::Clamp), 4).is_err());
        for (reduction, operand, result) in [
            (SurfaceReduction::Add, 5, 16),
            (SurfaceReduction::Min { is_signed: false }, 0xffff_fff0, 16),
            (SurfaceReduction::Min { is_signed: true }, 0xffff_fff0, 0xffff_fff0),
            (SurfaceReduction::Max { is_signed: true }, 3, 3),
            (SurfaceReduction::Or, 12, 15),
            (SurfaceReduction::And, 6, 6),
        ] {
            memory.reduce_surface(&image, &place, reduction, 4, operand).unwrap();
            assert_eq!(memory.read_surface(&image, &place, 4).unwrap(), u32::to_le_bytes(result), "{reduction:?}");
        }
        let plane = Geometry { dimensions: 2, arrangement: oriole_kernel_test::Arrangement::Single };
        assert!(memory.read_surface(&image, &SurfacePlace { geometry: plane, ..place }, 4).is_err());
    }
}
