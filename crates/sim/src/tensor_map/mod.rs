//! Tensor maps and the parts of tensors that tensor copies move, for both engines.
//!
//! The layout of the 128 bytes is that of `docs/tensor-maps.md`, which code for `tensormap.replace` writes. Boxes (`.tile`) and columns of
//! pixels (`.im2col`) are supported, each with and without interleaved layout.
//!
//! ```text
//! A tensor of 4 x 3 elements, a box of 3 x 2, coordinates {2, 1}; elements by row:
//!
//!   0  1  2  3
//!   4  5 [6  7  .]       shared memory: 6 7 0 10 11 0
//!   8  9 [10 11 .]       elements outside of the tensor are zeros; a store leaves them out
//! ```

mod reduce;
mod replace;
mod walk;

use oriole_kernel_test as kernel_test;
use oriole_kernel_test::{Conversion, Element};
use oriole_sem::Mode;
use oriole_sem::convert::{Overflow, tf32_register};
use oriole_sem::format::{BF16, F16, F32, F64, Format};
use oriole_sem::int::{self, Int};

pub(crate) use reduce::ReductionOperation;
pub(crate) use replace::MapField;

/// Bytes of a tensor map.
pub(crate) const MAP_BYTES: usize = 128;
/// Bytes of the unit of strides, and of the pieces that a swizzle permutes.
pub(crate) const UNIT: u64 = 16;
/// Maximum number of dimensions.
const MOST_DIMENSIONS: usize = 5;
/// Upper bound of the bytes of a box: more than any GPU has in shared memory.
const MOST_BOX_BYTES: u64 = 1 << 20;
/// The lower and upper byte of each half word outside of a tensor that is filled with NaN, for elements of all types (observed on an H200).
const NAN_BYTES: [u8; 2] = [0xf7, 0x7f];

/// The numbers of an element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbers {
    Int(Int),
    Float(Format),
}

/// An element type of a tensor map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ElementType {
    /// The number in the map.
    code: u32,
    /// Whether reductions flush subnormal numbers.
    flushes: bool,
    numbers: Numbers,
}

const fn element_type(code: u32, numbers: Numbers) -> ElementType {
    ElementType { code, flushes: false, numbers }
}

/// The supported types. Packed types of 4 and 6 bits are not among them.
const TYPES: [ElementType; 11] = [
    element_type(0, Numbers::Int(int::U8)),
    element_type(1, Numbers::Int(int::U16)),
    element_type(2, Numbers::Int(int::U32)),
    element_type(3, Numbers::Int(int::S32)),
    element_type(4, Numbers::Int(int::U64)),
    element_type(5, Numbers::Int(int::S64)),
    element_type(6, Numbers::Float(F16)),
    element_type(7, Numbers::Float(F32)),
    ElementType { code: 8, flushes: true, numbers: Numbers::Float(F32) },
    element_type(9, Numbers::Float(F64)),
    element_type(10, Numbers::Float(BF16)),
];

impl ElementType {
    fn bytes(self) -> u64 {
        match self.numbers {
            Numbers::Int(int) => u64::from(int.bits) / 8,
            Numbers::Float(format) => u64::from(format.width()) / 8,
        }
    }
}

/// The part of a tensor that a copy moves.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TensorRegion {
    /// A box with these sizes.
    Box(Vec<u64>),
    Columns(Columns),
}

/// Some channels of consecutive pixels in a part of the images (`.im2col`).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Columns {
    channels: u64,
    pixels: u64,
    /// First coordinate of the part in each dimension of an image.
    lower: Vec<i64>,
    /// Last coordinate of the part in each dimension of an image, relative to the last one of the image.
    upper: Vec<i64>,
}

/// A decoded tensor map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TensorMap {
    address: u64,
    element: ElementType,
    /// Whether loads round elements to `tf32`.
    rounds_to_tf32: bool,
    sizes: Vec<u64>,
    /// Distance in bytes of consecutive elements in each dimension.
    strides: Vec<u64>,
    region: TensorRegion,
    steps: Vec<u64>,
    /// Bytes of the swizzle pattern; 0 for none.
    swizzle: u64,
    /// Bytes of the slices of an interleaved layout; 0 for none.
    interleave: u64,
    fills_with_nan: bool,
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

/// Bits of a coordinate of a corner, by the number of dimensions of an image: two corners are in one word.
pub(crate) fn corner_bits(dimensions: usize) -> u32 {
    match dimensions {
        1 => 16,
        2 => 8,
        _ => 5,
    }
}

/// Returns the corners that a word has.
fn decode_corners(word: u64, dimensions: usize) -> [Vec<i64>; 2] {
    let bits = corner_bits(dimensions);
    [0, 16].map(|start| {
        let field = |dimension: usize| (word >> (start + bits as usize * dimension)) << (64 - bits);
        (0..dimensions).map(|dimension| field(dimension) as i64 >> (64 - bits)).collect()
    })
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
        let rounds_to_tf32 = flags >> 16 & 1 != 0;
        let element = TYPES.iter().find(|ty| ty.code == code).filter(|ty| !rounds_to_tf32 || ty.numbers == Numbers::Float(F32));
        let element = *element.ok_or_else(|| format!("a tensor map with element type {code} is not supported"))?;
        if rank > MOST_DIMENSIONS {
            return Err(format!("a tensor map with {rank} dimensions"));
        }
        let interleave = match flags >> 11 & 3 {
            layout @ 0..=2 => UNIT * layout,
            layout => return Err(format!("a tensor map with the unknown layout {layout}")),
        };
        let swizzle = match flags >> 13 & 3 | (flags >> 22 & 1) << 2 {
            0 => 0,
            mode @ 1..=3 => UNIT << mode,
            mode => return Err(format!("a tensor map with swizzle mode {mode} is not supported")),
        };
        let is_columns = flags & 1 != 0;
        if rank < 3 && (is_columns || interleave != 0) {
            return Err(format!("a tensor map for images or with interleaved layout that has {rank} dimensions"));
        }
        let stride = |dimension: usize| match dimension {
            0 => {
                if interleave == 0 {
                    element.bytes()
                } else {
                    interleave
                }
            }
            _ => UNIT * (word(bytes, 0x0c + 4 * (dimension - 1)) | (word(bytes, 0x1c) >> (4 * (dimension - 1)) & 15) << 32),
        };
        let first_size = (word(bytes, 0x34) >> 24) + 1;
        let region = if is_columns {
            let [lower, upper] = decode_corners(word(bytes, 0x38), rank - 2);
            TensorRegion::Columns(Columns { channels: first_size, pixels: (word(bytes, 0x3c) & 0x3ff) + 1, lower, upper })
        } else {
            let others = (1..rank).map(|dimension| (word(bytes, 0x38) >> (8 * (dimension - 1)) & 0xff) + 1);
            TensorRegion::Box([first_size].into_iter().chain(others).collect())
        };
        // The step of the first dimension is ignored unless the layout is interleaved.
        let has_step = |dimension: usize| dimension != 0 || interleave != 0;
        let step = |dimension: usize| if has_step(dimension) { (word(bytes, 0x34) >> (3 * dimension) & 7) + 1 } else { 1 };
        let map = TensorMap {
            address: word(bytes, 0) | word(bytes, 4) << 32,
            element,
            rounds_to_tf32,
            sizes: (0..rank).map(|dimension| word(bytes, 0x20 + 4 * dimension) + 1).collect(),
            strides: (0..rank).map(stride).collect(),
            region,
            steps: (0..rank).map(step).collect(),
            swizzle,
            interleave,
            fills_with_nan: flags >> 15 & 1 != 0,
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
        let code = match (map.element, map.conversion) {
            (Element::U8 | Element::S8, _) => 0,
            (Element::U16 | Element::S16, _) => 1,
            (Element::U32, _) => 2,
            (Element::S32, _) => 3,
            (Element::U64, _) => 4,
            (Element::S64, _) => 5,
            (Element::F16, _) => 6,
            (Element::F32, Conversion::None | Conversion::Tf32) => 7,
            (Element::F32, Conversion::Flush | Conversion::Tf32Flush) => 8,
            (Element::F64, _) => 9,
            (Element::Bf16, _) => 10,
        };
        set(&mut bytes, 0x08, 4, map.sizes.len() as u64 - 1);
        set(&mut bytes, 0x08, 7, code);
        set(&mut bytes, 0x08, 11, u64::from(map.interleave) / UNIT);
        set(&mut bytes, 0x08, 13, u64::from(map.swizzle / UNIT as u32).checked_ilog2().map_or(0, u64::from));
        set(&mut bytes, 0x08, 15, u64::from(map.fills_with_nan));
        set(&mut bytes, 0x08, 16, u64::from(matches!(map.conversion, Conversion::Tf32 | Conversion::Tf32Flush)));
        for (number, stride) in map.strides().into_iter().enumerate() {
            set(&mut bytes, 0x0c + 4 * number, 0, (stride / UNIT) & 0xffff_ffff);
            set(&mut bytes, 0x1c, 4 * number, ((stride / UNIT) >> 32) & 15);
        }
        for (number, size) in map.sizes.iter().enumerate() {
            set(&mut bytes, 0x20 + 4 * number, 0, size - 1);
            set(&mut bytes, 0x34, 3 * number, u64::from(map.steps[number]) - 1);
        }
        match &map.region {
            kernel_test::Region::Box(sizes) => {
                for (number, &size) in sizes.iter().enumerate() {
                    match number {
                        0 => set(&mut bytes, 0x34, 24, u64::from(size) - 1),
                        _ => set(&mut bytes, 0x38, 8 * (number - 1), u64::from(size) - 1),
                    }
                }
            }
            kernel_test::Region::Columns { channels, pixels, lower, upper } => {
                set(&mut bytes, 0x08, 0, 1);
                set(&mut bytes, 0x34, 24, u64::from(*channels) - 1);
                set(&mut bytes, 0x3c, 0, u64::from(*pixels) - 1);
                let bits = corner_bits(lower.len());
                for (start, corner) in [(0, lower), (16, upper)] {
                    for (dimension, &coordinate) in corner.iter().enumerate() {
                        set(&mut bytes, 0x38, start + bits as usize * dimension, coordinate as u64 & ((1 << bits) - 1));
                    }
                }
            }
        }
        bytes
    }

    /// Returns the bytes of the pieces that a copy moves one by one: an element, or the unit of a swizzle of an interleaved layout.
    pub(crate) fn piece_bytes(&self) -> usize {
        match self.interleave {
            0 => self.element.bytes() as usize,
            _ => UNIT as usize,
        }
    }

    /// Returns the bytes of a piece outside of the tensor, of which the caller takes as many as a piece has.
    pub(crate) fn outside(&self) -> [u8; UNIT as usize] {
        match self.fills_with_nan {
            true => std::array::from_fn(|number| NAN_BYTES[number % 2]),
            false => [0; UNIT as usize],
        }
    }

    /// Changes the elements of a piece of the tensor as a load does.
    pub(crate) fn convert(&self, piece: &mut [u8]) {
        if self.rounds_to_tf32 {
            for element in piece.chunks_exact_mut(4) {
                let rounded = tf32_register(word(element, 0), Mode::RN, Overflow::Ieee) as u32;
                element.copy_from_slice(&rounded.to_le_bytes());
            }
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
        map.visit(coordinates, &[], 0, visit).unwrap();
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
