//! Coordinates, array indices, offsets and geometries.

use oriole_ir::{Class, Operand, RegFile};
use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Slot};
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;

/// The largest array index that the machine accepts. A larger one reads the last layer, as the manual says.
const MOST_LAYERS: u32 = 0xffff;

/// Bits of an offset, and distance between offsets, in the word with offsets.
pub(super) const OFFSET_FIELD: (u32, u32) = (4, 4);

/// The geometry of a texture.
#[derive(Clone, Copy)]
pub(super) struct Geometry {
    /// The name of the geometry in machine instructions.
    pub name: &'static str,
    /// Number of coordinates, without array index and sample number.
    pub dimensions: usize,
    pub is_array: bool,
    pub is_cube: bool,
    pub has_samples: bool,
}

impl Geometry {
    /// Returns the geometry that an instruction names.
    pub(super) fn of(ptx: &Ptx<'_>) -> Option<Geometry> {
        let plain = |name, dimensions| Geometry { name, dimensions, is_array: false, is_cube: false, has_samples: false };
        let array = |name, dimensions| Geometry { is_array: true, ..plain(name, dimensions) };
        Some(match ptx.get(Slot::Geom)? {
            Modifier::N1d => plain("1D", 1),
            Modifier::N2d => plain("2D", 2),
            Modifier::N3d => plain("3D", 3),
            Modifier::A1d => array("ARRAY_1D", 1),
            Modifier::A2d => array("ARRAY_2D", 2),
            Modifier::Cube => Geometry { is_cube: true, ..plain("CUBE", 3) },
            Modifier::Acube => Geometry { is_cube: true, ..array("ARRAY_CUBE", 3) },
            Modifier::N2dms => Geometry { has_samples: true, ..plain("2D", 2) },
            Modifier::A2dms => Geometry { has_samples: true, ..array("ARRAY_2D", 2) },
            _ => return None,
        })
    }
}

/// The parts of a coordinate vector.
pub(super) struct Coordinates {
    /// The sample number of a texture with several samples.
    pub sample: Option<Operand>,
    /// The index into an array of textures or surfaces.
    pub index: Option<Operand>,
    /// The coordinates.
    pub places: Vec<Operand>,
}

impl Select<'_> {
    /// Returns the parts of a coordinate vector. Further elements of the vector are ignored.
    pub(super) fn coordinates(&mut self, vector: ast::Operand, geometry: Geometry, ty: ScalarType) -> Result<Coordinates, Unsupported> {
        let mut elements = self.elements(vector).into_iter();
        let mut take = |select: &mut Self, ty: ScalarType| match elements.next() {
            Some(element) => select.source(element, ty),
            None => Err(Unsupported::new("a coordinate vector that is too short")),
        };
        let sample = if geometry.has_samples { Some(take(self, ScalarType::S32)?) } else { None };
        let index = if geometry.is_array { Some(take(self, ScalarType::S32)?) } else { None };
        let mut places = Vec::new();
        for _ in 0..geometry.dimensions {
            places.push(take(self, ty)?);
        }
        Ok(Coordinates { sample, index, places })
    }

    /// Returns the first `count` elements of a vector.
    pub(super) fn leading(&mut self, vector: ast::Operand, count: usize, ty: ScalarType) -> Result<Vec<Operand>, Unsupported> {
        self.elements(vector).into_iter().take(count).map(|element| self.source(element, ty)).collect()
    }

    /// Returns an array index that is at most the largest one that the machine accepts.
    pub(super) fn clamped_index(&mut self, index: Operand) -> Operand {
        if let Some(number) = index.integer() {
            return Operand::from((number as u32).min(MOST_LAYERS));
        }
        let is_above = self.compare_words("GT", false, index, MOST_LAYERS.into());
        self.select_by_predicate(is_above, MOST_LAYERS.into(), index)
    }

    /// Converts an integer coordinate to single precision.
    pub(super) fn as_single(&mut self, place: Operand) -> Operand {
        let place = self.in_register(place);
        let template = if self.encodes("I2FP.F32.S32 R0, R1") { "I2FP.F32.S32 $, {}" } else { "I2F $, {}" };
        self.b.define(Class::R, template, &[place])
    }

    /// Divides the coordinates of a cube map by the largest magnitude among them.
    pub(super) fn projected_to_cube(&mut self, places: &[Operand]) -> Vec<Operand> {
        let places: Vec<Operand> = places.iter().map(|&place| self.in_register(place)).collect();
        let first = self.b.define(Class::R, "FMNMX $, |{}|, |{}|, !PT", &[places[0], places[1]]);
        let largest = self.b.define(Class::R, "FMNMX $, |{}|, {}, !PT", &[places[2], first]);
        let factor = self.b.define(Class::R, "MUFU.RCP $, {}", &[largest]);
        places.iter().map(|&place| self.b.define(Class::R, "FMUL $, {}, {}", &[place, factor])).collect()
    }

    /// Returns one word with the offsets of an offset vector: each has `bits` bits, and starts `distance` bits after the one before.
    pub(super) fn packed_offsets(
        &mut self,
        vector: ast::Operand,
        dimensions: usize,
        bits: u32,
        distance: u32,
    ) -> Result<Operand, Unsupported> {
        let offsets: Vec<ast::Operand> = self.elements(vector).into_iter().take(dimensions).collect();
        let mut word = Operand::from(0_u32);
        for (number, offset) in offsets.into_iter().enumerate() {
            let shift = number as u32 * distance;
            let mask = ((1_u32 << bits) - 1) << shift;
            let offset = self.source(offset, ScalarType::S32)?;
            let shifted = match offset.integer() {
                Some(number) => Operand::from((number as u32) << shift & mask),
                None if shift == 0 => offset,
                None => self.shift_left(offset, shift.into()),
            };
            word = self.inserted_bits(word, shifted, mask, number == 0);
        }
        Ok(word)
    }

    /// Returns `word` with the bits of `mask` taken from `field`. The machine ignores bits above the last field, so the first field, and no
    /// other, may keep them.
    fn inserted_bits(&mut self, word: Operand, field: Operand, mask: u32, is_first: bool) -> Operand {
        if is_first {
            return field;
        }
        if let (Some(word), Some(field)) = (word.integer(), field.integer()) {
            return Operand::from(word as u32 & !mask | field as u32 & mask);
        }
        let (field, word) = (self.in_register(field), self.in_register(word));
        self.b.define(Class::R, "LOP3.LUT $, {}, {}, {}, 0xe2, !PT", &[field, mask.into(), word])
    }

    /// Returns words in consecutive registers, never in the zero register, which the machine does not accept. A single word is copied,
    /// because a variable without a value would be read as the zero register.
    pub(super) fn tuple(&mut self, words: &[Operand]) -> Operand {
        let words: Vec<Operand> = words.iter().map(|&word| if word == Operand::RZ { word } else { self.in_register(word) }).collect();
        match words[..] {
            [only] => self.b.define(Class::R, "MOV $, {}", &[only]),
            _ => self.b.pack(Class::new(RegFile::General, words.len() as u8), &words),
        }
    }
}
