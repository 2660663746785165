//! Tensor maps and the boxes that tensor copies move, for both engines.
//!
//! The layout of the 128 bytes is that of `docs/tensor-maps.md`, which code for `tensormap.replace` writes. Copies of whole boxes (`.tile`)
//! without interleaved layout are supported.
//!
//! ```text
//! A tensor of 4 x 3 elements, a box of 3 x 2, coordinates {2, 1}; elements by row:
//!
//!   0  1  2  3
//!   4  5 [6  7  .]       shared memory: 6 7 0 10 11 0
//!   8  9 [10 11 .]       elements outside of the tensor are zeros; a store leaves them out
//! ```

use oriole_kernel_test as kernel_test;
use oriole_kernel_test::Element;

/// Bytes of a tensor map.
pub(crate) const MAP_BYTES: usize = 128;
/// Maximum number of dimensions.
const MOST_DIMENSIONS: usize = 5;
/// Upper bound of the bytes of a box: more than any GPU has in shared memory.
const MOST_BOX_BYTES: u64 = 1 << 20;
/// Bytes of the unit of strides, and of the pieces that a swizzle permutes.
const UNIT: u64 = 16;

/// An element type of a tensor map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ElementType {
    /// The number in the map.
    code: u32,
    bytes: u64,
}

/// The supported types. Types that change values (`.ftz`, `.tf32`) and packed types are not among them.
const TYPES: [ElementType; 9] = [
    ElementType { code: 0, bytes: 1 },
    ElementType { code: 1, bytes: 2 },
    ElementType { code: 2, bytes: 4 },
    ElementType { code: 3, bytes: 4 },
    ElementType { code: 4, bytes: 8 },
    ElementType { code: 5, bytes: 8 },
    ElementType { code: 6, bytes: 2 },
    ElementType { code: 7, bytes: 4 },
    ElementType { code: 9, bytes: 8 },
];

/// Type number of `bf16`.
const BF16: ElementType = ElementType { code: 10, bytes: 2 };

/// A decoded tensor map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TensorMap {
    address: u64,
    element: ElementType,
    sizes: Vec<u64>,
    /// Distance in bytes of consecutive elements in each dimension.
    strides: Vec<u64>,
    box_sizes: Vec<u64>,
    steps: Vec<u64>,
    /// Bytes of the swizzle pattern; 0 for none.
    swizzle: u64,
}

/// Returns a word of a map.
fn word(bytes: &[u8], offset: usize) -> u64 {
    bytes[offset..offset + 4].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// Sets bits of a word of a map.
fn set(bytes: &mut [u8], offset: usize, shift: usize, value: u64) {
    let bits = (word(bytes, offset) | value << shift) as u32;
    bytes[offset..offset + 4].copy_from_slice(&bits.to_le_bytes());
}

impl TensorMap {
    /// Decodes a map.
    pub(crate) fn decode(bytes: &[u8]) -> Result<TensorMap, String> {
        if bytes.len() != MAP_BYTES {
            return Err(format!("a tensor map has {MAP_BYTES} bytes, not {}", bytes.len()));
        }
        let flags = word(bytes, 0x08);
        let rank = (flags >> 4 & 7) as usize + 1;
        let code = (flags >> 7 & 15) as u32;
        let element = TYPES.iter().chain([&BF16]).find(|ty| ty.code == code).filter(|_| flags >> 16 & 1 == 0);
        let element = *element.ok_or_else(|| format!("a tensor map with element type {code} is not supported"))?;
        if rank > MOST_DIMENSIONS {
            return Err(format!("a tensor map with {rank} dimensions"));
        }
        if flags >> 11 & 3 != 0 || flags >> 15 & 1 != 0 {
            return Err("a tensor map with an interleaved layout or NaN outside of the tensor is not supported".to_owned());
        }
        let swizzle = match flags >> 13 & 3 | (flags >> 22 & 1) << 2 {
            0 => 0,
            mode @ 1..=3 => UNIT << mode,
            mode => return Err(format!("a tensor map with swizzle mode {mode} is not supported")),
        };
        let stride = |dimension: usize| match dimension {
            0 => element.bytes,
            _ => UNIT * (word(bytes, 0x0c + 4 * (dimension - 1)) | (word(bytes, 0x1c) >> (4 * (dimension - 1)) & 15) << 32),
        };
        let box_size = |dimension: usize| match dimension {
            0 => (word(bytes, 0x34) >> 24) + 1,
            _ => (word(bytes, 0x38) >> (8 * (dimension - 1)) & 0xff) + 1,
        };
        let map = TensorMap {
            address: word(bytes, 0) | word(bytes, 4) << 32,
            element,
            sizes: (0..rank).map(|dimension| word(bytes, 0x20 + 4 * dimension) + 1).collect(),
            strides: (0..rank).map(stride).collect(),
            box_sizes: (0..rank).map(box_size).collect(),
            // The step of the first dimension is ignored unless the layout is interleaved.
            steps: (0..rank).map(|dimension| if dimension == 0 { 1 } else { (word(bytes, 0x34) >> (3 * dimension) & 7) + 1 }).collect(),
            swizzle,
        };
        match map.box_bytes() {
            bytes if bytes > MOST_BOX_BYTES => Err(format!("a box of {bytes} bytes is larger than any shared memory")),
            _ => Ok(map),
        }
    }

    /// Encodes the map of a kernel test for a buffer at an address.
    pub(crate) fn encode(map: &kernel_test::TensorMap, address: u64) -> Vec<u8> {
        let mut bytes = vec![0; MAP_BYTES];
        bytes[..8].copy_from_slice(&address.to_le_bytes());
        let code = match map.element {
            Element::U8 | Element::S8 => 0,
            Element::U16 | Element::S16 => 1,
            Element::U32 => 2,
            Element::S32 => 3,
            Element::U64 => 4,
            Element::S64 => 5,
            Element::F16 => 6,
            Element::F32 => 7,
            Element::F64 => 9,
            Element::Bf16 => 10,
        };
        set(&mut bytes, 0x08, 4, map.sizes.len() as u64 - 1);
        set(&mut bytes, 0x08, 7, code);
        set(&mut bytes, 0x08, 13, u64::from(map.swizzle / UNIT as u32).checked_ilog2().map_or(0, u64::from));
        for (number, stride) in map.strides().into_iter().enumerate() {
            set(&mut bytes, 0x0c + 4 * number, 0, (stride / UNIT) & 0xffff_ffff);
            set(&mut bytes, 0x1c, 4 * number, ((stride / UNIT) >> 32) & 15);
        }
        for (number, size) in map.sizes.iter().enumerate() {
            set(&mut bytes, 0x20 + 4 * number, 0, size - 1);
            set(&mut bytes, 0x34, 3 * number, u64::from(map.steps[number]) - 1);
            let last = u64::from(map.box_sizes[number]) - 1;
            match number {
                0 => set(&mut bytes, 0x34, 24, last),
                _ => set(&mut bytes, 0x38, 8 * (number - 1), last),
            }
        }
        bytes
    }

    /// Returns the number of elements that a copy moves in each dimension.
    fn counts(&self) -> Vec<u64> {
        self.box_sizes.iter().zip(&self.steps).map(|(size, &step)| size.div_ceil(step)).collect()
    }

    /// Returns the bytes of an element.
    pub(crate) fn element_bytes(&self) -> usize {
        self.element.bytes as usize
    }

    /// Returns the bytes that a copy moves, which the barrier of a load counts.
    pub(crate) fn box_bytes(&self) -> u64 {
        self.counts().iter().product::<u64>() * self.element.bytes
    }

    /// Calls `visit` for each element of the box at some coordinates, with its address in shared memory and its address in global memory;
    /// `None` for an element outside of the tensor.
    pub(crate) fn visit<E>(
        &self,
        coordinates: &[i32],
        shared: u64,
        mut visit: impl FnMut(u64, Option<u64>) -> Result<(), E>,
    ) -> Result<(), E> {
        let counts = self.counts();
        let total: u64 = counts.iter().product();
        for number in 0..total {
            let mut rest = number;
            let mut address = Some(self.address);
            for (dimension, &count) in counts.iter().enumerate() {
                let inside = rest % count * self.steps[dimension];
                rest /= count;
                let first = coordinates.get(dimension).copied().unwrap_or(0);
                let coordinate = i64::from(first) + inside as i64;
                let is_inside = u64::try_from(coordinate).is_ok_and(|coordinate| coordinate < self.sizes[dimension]);
                address = address.filter(|_| is_inside).map(|address| address + coordinate as u64 * self.strides[dimension]);
            }
            visit(self.swizzled(shared + number * self.element.bytes), address)?;
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> TensorMap {
        let header =
            format!("// kernel-test 1\n// kernel: k\n// param a: u32[4096] = index\n// param m: {text} = a\n// expect a: exact = ?*4096\n");
        let test = kernel_test::parse(&header).unwrap();
        let kernel_test::ParameterValue::TensorMap(map) = &test.parameters[1].value else { panic!("no tensor map") };
        TensorMap::decode(&TensorMap::encode(map, 0x1_0000_1000)).unwrap()
    }

    fn elements(map: &TensorMap, coordinates: &[i32]) -> Vec<(u64, Option<u64>)> {
        let mut found = Vec::new();
        let visit = |to, from: Option<u64>| {
            found.push((to, from.map(|from| from - 0x1_0000_1000)));
            Ok::<(), ()>(())
        };
        map.visit(coordinates, 0, visit).unwrap();
        found
    }

    #[test]
    fn elements_outside_of_the_tensor_have_no_address() {
        let map = map("tensormap u32 4x3 box 3x2");
        assert_eq!(map.box_bytes(), 24);
        let found: Vec<Option<u64>> = elements(&map, &[2, 1]).into_iter().map(|(_, from)| from).collect();
        assert_eq!(found, [Some(24), Some(28), None, Some(40), Some(44), None]);
        assert!(elements(&map, &[-3, 0]).iter().all(|(_, from)| from.is_none()));
    }

    #[test]
    fn steps_leave_elements_out() {
        let map = map("tensormap u32 4x8 box 2x6 step 1x4");
        let found: Vec<Option<u64>> = elements(&map, &[1, 3]).into_iter().map(|(_, from)| from).collect();
        assert_eq!(found, [Some(52), Some(56), Some(116), Some(120)]);
    }

    #[test]
    fn a_swizzle_permutes_pieces_of_16_bytes_by_line() {
        let places = |swizzle: u32| -> Vec<u64> {
            let width = swizzle / 4;
            let map = map(&format!("tensormap u32 {width}x16 box {width}x16 swizzle {swizzle}"));
            elements(&map, &[0, 0]).into_iter().map(|(to, _)| to / 16).step_by(4).collect()
        };
        // The second line of 128 bytes: pieces 8 to 15.
        assert_eq!(places(128)[8..16], [9, 8, 11, 10, 13, 12, 15, 14]);
        assert_eq!(places(128)[24..32], [27, 26, 25, 24, 31, 30, 29, 28]);
        assert_eq!(places(64)[16..24], [18, 19, 16, 17, 22, 23, 20, 21]);
        assert_eq!(places(32)[8..12], [9, 8, 11, 10]);
    }
}
