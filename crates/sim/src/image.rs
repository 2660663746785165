//! Textures and surfaces of the simulated device: their contents. `sampling.rs` has the rules for coordinates.
//!
//! The contents are an allocation of global memory, so that they can be compared after a launch.
//!
//! The lower 20 bits of the handle of a texture are the number of the texture header; the bits above are the number of the sampler. The handle of
//! a separate sampler is the number of the sampler, which has 12 bits.

use oriole_kernel_test::{Arrangement, Element, FACES, Image, KernelTest, Sampler};
use oriole_sem::convert::{Overflow, float_to_float};
use oriole_sem::float::Mode;
use oriole_sem::format::{F16, F32, Rounding};

use crate::memory::GlobalMemory;
use crate::sampling::{Geometry, check_geometry};

/// Number of bits of the number of a texture header in a handle.
pub(crate) const HEADER_BITS: u32 = 20;
/// Number of bits in the number of a sampler.
const SAMPLER_BITS: u32 = 12;

/// A texture or surface with the address of its contents.
#[derive(Clone, Debug)]
pub(crate) struct DeviceImage {
    pub(crate) image: Image,
    /// The sampler that a fetch uses: that of the texture, unless the handle names another one.
    pub(crate) sampler: Sampler,
    address: u64,
}

/// The position of a texel in a texture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Texel {
    pub(crate) level: u32,
    pub(crate) layer: u32,
    pub(crate) place: [u32; 3],
    pub(crate) sample: u32,
}

/// The position that a surface instruction accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SurfacePlace {
    /// The kind of surface that the instruction names.
    pub(crate) geometry: Geometry,
    pub(crate) layer: u32,
    /// The coordinates: x in bytes or samples, y in rows, z in slices.
    pub(crate) place: [i32; 3],
    pub(crate) unit: SurfaceUnit,
    pub(crate) outside: OutsideAccess,
}

/// The unit of the first coordinate of a surface instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SurfaceUnit {
    Bytes,
    /// Samples, which are the texels of a surface.
    Samples,
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

/// Converts a word that `sust.p` stores to the format of a surface element, and returns its bits. The word is an integer if the format is one of
/// integers, otherwise a single.
fn stored(element: Element, value: u32) -> u32 {
    let signed = |least: i32, most: i32| (value as i32).clamp(least, most) as u32;
    match element {
        Element::U8 => value.min(u8::MAX.into()),
        Element::U16 => value.min(u16::MAX.into()),
        Element::S8 => signed(i8::MIN.into(), i8::MAX.into()),
        Element::S16 => signed(i16::MIN.into(), i16::MAX.into()),
        Element::F16 => stored_half(value),
        _ => value,
    }
}

/// Returns the half that `sust.p` stores for a single: the single rounded towards zero, so that numbers beyond the range become the largest
/// finite half. Of a NaN the upper bits of the significand are kept; if all of them are zero, an H200 stores 1 in their place.
fn stored_half(value: u32) -> u32 {
    const FRACTION: u32 = 13;
    let (sign, magnitude) = (value >> 16 & 0x8000, value & 0x7fff_ffff);
    if magnitude > f32::INFINITY.to_bits() {
        return sign | 0x7c00 | (magnitude >> FRACTION & 0x3ff).max(1);
    }
    float_to_float(F16, F32, value.into(), Mode::new(Rounding::Zero), Overflow::Ieee) as u32
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
        self.images.push(DeviceImage { image: image.clone(), sampler: image.sampler, address });
        self.samplers.push(image.sampler);
        (self.images.len() as u64 | (self.samplers.len() as u64) << HEADER_BITS, address)
    }

    /// Creates a sampler and returns its handle.
    pub fn create_sampler(&mut self, sampler: Sampler) -> u64 {
        self.samplers.push(sampler);
        self.samplers.len() as u64
    }

    /// Binds a texture, sampler or surface reference of a module, by its name, to a handle.
    pub fn bind_reference(&mut self, name: &str, handle: u64) {
        self.references.push((name.to_owned(), handle));
    }

    /// Returns the handle that a reference is bound to, as far as the machine uses it.
    pub(crate) fn reference(&self, name: &str) -> Result<u32, String> {
        let bound = self.references.iter().rev().find(|reference| reference.0 == name);
        bound.map(|&(_, handle)| handle as u32).ok_or_else(|| format!("nothing is bound to the reference `{name}`"))
    }

    /// Returns the texture or surface with the lower half of a handle.
    pub(crate) fn image(&self, handle: u32) -> Result<DeviceImage, String> {
        self.image_with_sampler(handle, handle >> HEADER_BITS)
    }

    /// Returns the texture with the handle `texture`, with the sampler that has the handle `sampler` in place of its own one.
    pub(crate) fn image_with_sampler(&self, texture: u32, sampler: u32) -> Result<DeviceImage, String> {
        let number = |word: u32, bits: u32| ((word & ((1 << bits) - 1)) as usize).checked_sub(1);
        let image = number(texture, HEADER_BITS).and_then(|number| self.images.get(number));
        let sampler = number(sampler, SAMPLER_BITS).and_then(|number| self.samplers.get(number));
        match (image, sampler) {
            (Some(image), Some(&sampler)) => Ok(DeviceImage { sampler, ..image.clone() }),
            (Some(_), None) => Err(format!("the handle {texture:#x} of a texture or surface without a sampler")),
            (None, _) => Err(format!("{texture:#x} is no handle of a texture or surface")),
        }
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

    /// Writes a sample of a surface (`sust.p`) and converts the elements to its format. Elements beyond the channels of the format are ignored,
    /// and channels without an element become zero, as on an H200.
    pub(crate) fn write_sample(&mut self, image: &DeviceImage, place: &SurfacePlace, elements: &[u32]) -> Result<(), String> {
        let channels = image.image.channels as usize;
        let converted = elements.iter().chain(std::iter::repeat(&0)).take(channels).map(|&element| stored(image.image.element, element));
        let bytes: Vec<u8> = converted.flat_map(|element| element.to_le_bytes().into_iter().take(image.image.element.bytes())).collect();
        self.write_surface(image, place, &bytes)
    }

    /// Executes a reduction on a sample of 4 or 8 bytes (`sured.p`). Minimum and maximum compare signed integers if the format of the surface is
    /// signed.
    pub(crate) fn reduce_sample(
        &mut self,
        image: &DeviceImage,
        place: &SurfacePlace,
        reduction: SurfaceReduction,
        bytes: usize,
        operand: u64,
    ) -> Result<(), String> {
        let is_signed = match image.image.element {
            Element::U32 => false,
            Element::S32 => true,
            other => return Err(format!("a reduction of samples of type {}", other.name())),
        };
        if image.texel_bytes() as usize != bytes {
            return Err(format!("a reduction of {bytes} bytes of samples of {} bytes", image.texel_bytes()));
        }
        let reduction = match reduction {
            SurfaceReduction::Min { .. } => SurfaceReduction::Min { is_signed },
            SurfaceReduction::Max { .. } => SurfaceReduction::Max { is_signed },
            other => other,
        };
        self.reduce_surface(image, place, reduction, bytes, operand)
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
    /// Returns the index of a sample of a texel in the contents, in samples.
    fn texel_number(&self, Texel { level, layer, place: [x, y, z], sample }: Texel) -> u64 {
        let before: usize = (0..level).map(|level| self.image.texels_of_level(level)).sum();
        let [width, height, depth] = self.image.size_of_level(level).map(u64::from);
        let texel = before as u64 + ((u64::from(layer) * depth + u64::from(z)) * height + u64::from(y)) * width + u64::from(x);
        texel * u64::from(self.image.samples) + u64::from(sample)
    }

    /// Returns the result of a query of width, height or depth. The layers of an image count as one more dimension. For dimensions that an image
    /// does not have, which the manual leaves open, the results are those of an H200.
    pub(crate) fn extent(&self, axis: usize) -> u32 {
        let Image { size, dimensions, arrangement, layers, is_surface, .. } = self.image;
        let count = if arrangement == Arrangement::Cubes { layers / FACES } else { layers };
        match arrangement {
            _ if axis < dimensions => size[axis],
            Arrangement::Layers | Arrangement::Cubes if axis == dimensions => count,
            _ => u32::from(axis == 1 && !is_surface),
        }
    }

    /// Returns the number of bytes of a sample.
    fn texel_bytes(&self) -> u32 {
        self.image.element.bytes() as u32 * self.image.channels
    }

    /// Returns the address of the accessed bytes. `None` means that they are outside of the surface and nothing is accessed.
    fn surface_address(&self, place: &SurfacePlace, bytes: usize) -> Result<Option<u64>, String> {
        check_geometry(self, place.geometry)?;
        let SurfacePlace { layer, place: [x, y, z], unit, outside, .. } = *place;
        let layer = match outside {
            _ if layer < self.image.layers => layer,
            OutsideAccess::Trap => return Err(format!("layer {layer} of a surface with {} layers", self.image.layers)),
            OutsideAccess::Zero => return Ok(None),
            OutsideAccess::Clamp => self.image.layers - 1,
        };
        let texel_bytes = self.texel_bytes();
        let x = i64::from(x) * if unit == SurfaceUnit::Samples { i64::from(texel_bytes) } else { 1 };
        let [y, z] = [y, z].map(i64::from);
        let [width, height, depth] = self.image.size;
        let row_bytes = width * texel_bytes;
        if x % bytes as i64 != 0 {
            return Err(format!("{bytes} bytes of a surface at byte {x} of a row"));
        }
        let limits = [row_bytes.saturating_sub(bytes as u32), height - 1, depth - 1];
        let is_inside = [x, y, z].iter().zip(limits).all(|(&place, limit)| u32::try_from(place).is_ok_and(|place| place <= limit));
        let place = match outside {
            _ if is_inside => [x, y, z].map(|place| place as u32),
            OutsideAccess::Trap => return Err(format!("{bytes} bytes at {:?} are outside of the surface", [x, y, z])),
            OutsideAccess::Zero => return Ok(None),
            OutsideAccess::Clamp => std::array::from_fn(|axis| [x, y, z][axis].clamp(0, limits[axis].into()) as u32),
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
        SurfacePlace { geometry: Geometry::of(&image.image), layer, place, unit: SurfaceUnit::Bytes, outside }
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
        // Layers outside: the last one, nothing, or an error.
        assert_eq!(memory.read_surface(&image, &at(&image, 3, [0; 3], OutsideAccess::Clamp), 4).unwrap(), [8, 0, 0, 0]);
        assert_eq!(memory.read_surface(&image, &at(&image, u32::MAX, [0; 3], OutsideAccess::Zero), 4).unwrap(), [0; 4]);
        assert!(memory.read_surface(&image, &at(&image, 3, [0; 3], OutsideAccess::Trap), 4).is_err());
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
        let plane = Geometry::new(2, oriole_kernel_test::Arrangement::Single);
        assert!(memory.read_surface(&image, &SurfacePlace { geometry: plane, ..place }, 4).is_err());
    }

    /// Results of an H200 (`tools/textures/surfaces.py`, `store`).
    #[test]
    fn stored_elements_have_the_format_of_the_surface() {
        let halves = [
            (0x3f80_1001, 0x3c00),
            (0xba16_3023, 0x90b1),
            (0x3eff_ffff, 0x37ff),
            (0x7f7f_ffff, 0x7bff),
            (0xff80_0000, 0xfc00),
            (0xffc1_2345, 0xfe09),
            (0x7f80_0001, 0x7c01),
            (0x391d_1bcb, 0x08e8),
        ];
        for (value, bits) in halves {
            assert_eq!(stored(Element::F16, value), bits, "{value:#x}");
        }
        assert_eq!([0xff, 0x100, u32::MAX].map(|value| stored(Element::U8, value)), [0xff; 3]);
        assert_eq!([0x7fff, 0x8000, 0xffff_7fff].map(|value| stored(Element::S16, value) & 0xffff), [0x7fff, 0x7fff, 0x8000]);
        assert_eq!(stored(Element::F32, 0x7f80_0001), 0x7f80_0001);
    }

    #[test]
    fn queries_count_layers_as_a_dimension() {
        let cases = [
            ("texture f32 8 = zero", [8, 1, 0]),
            ("surface f32 8 = zero", [8, 0, 0]),
            ("texture f32 8x4 = zero", [8, 4, 0]),
            ("texture f32 8x4x2 = zero", [8, 4, 2]),
            ("texture f32 8 layers:3 = zero", [8, 3, 0]),
            ("texture f32 8x4 layers:3 = zero", [8, 4, 3]),
            ("texture f32 4x4 cube = zero", [4, 4, 0]),
            ("texture f32 4x4 cubes:2 = zero", [4, 4, 2]),
        ];
        for (text, expected) in cases {
            let (_, image) = image(text);
            assert_eq!([0, 1, 2].map(|axis| image.extent(axis)), expected, "{text}");
        }
    }
}
