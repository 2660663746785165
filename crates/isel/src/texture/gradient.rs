//! Gradients that `TXD` cannot express: those of three-dimensional textures and cube maps, and those with a value to compare with.
//!
//! **Since Hopper** the CUDA driver has a function for each form, which code calls by the general calling convention. The handles are in R4
//! to R7, the coordinates from R8 on, the first vector of derivatives from R12 on, the second at the start of the stack, the offsets 16
//! bytes later. The value to compare with is in R6 if no sampler is there, otherwise on the stack. The results are in R4 (not zero if all
//! data was resident) and from R5 on; two halves share a register.
//!
//! **Before**, the texture unit computes derivatives as differences between the four threads of a quad. [`QuadFetch`] stands for the
//! sequence that the driver of the compiler writes after register allocation, because its registers must not hold anything in the threads
//! of the quad that do not take part. In the intermediate code it is a `CALL` of a name that encodes the fetch, with fixed operands.

use oriole_ir::Operand;
use oriole_isa::{SystemLayout, Target, TextureHandle};
use oriole_ptx::ast::{self, Form, FormShape, ValueType};
use oriole_ptx::table::{Modifier, Opcode, Slot};
use oriole_ptx::types::ScalarType;

use super::handle::Handle;
use super::operands::{Coordinates, Geometry, OFFSET_FIELD};
use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::texture::fetch_results::{Tail, as_plane, converted, halves_of};

/// Common prefix of the names of the functions of the CUDA driver.
const DRIVER_PREFIX: &str = "__cuda_syscall_tex_grad_";
/// Size of a vector on the stack of a call of the driver, in bytes.
const VECTOR_BYTES: u32 = 16;
/// Stack of such a call: a vector of derivatives, offsets, the value to compare with.
const DRIVER_STACK_BYTES: u32 = 3 * VECTOR_BYTES;

/// Common prefix of the names that stand for fetches by quads.
const QUAD_PREFIX: &str = "__oriole_quad_fetch_";

/// How a target executes a gradient that `TXD` cannot express.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GradientHelp {
    /// By a function of the CUDA driver.
    Driver,
    /// By the four threads of a quad.
    Quad,
}

/// Returns how a target executes an instruction; `None` if it is no gradient, or one that `TXD` can express.
pub fn gradient_help(form: &Form, target: Target) -> Option<GradientHelp> {
    if form.opcode != Opcode::Tex || !form.has(Modifier::Grad) {
        return None;
    }
    let is_single = |shape: &FormShape| matches!(shape, FormShape::Value(value) if value.ty == ValueType::Scalar(ScalarType::F32));
    // Result, texture and coordinates, two vectors of derivatives; then offsets and the value to compare with.
    let has_compare = form.operands.iter().skip(4).any(|operand| is_single(&operand.shape));
    let is_deep = matches!(form.get(Slot::Geom), Some(Modifier::N3d | Modifier::Cube | Modifier::Acube));
    if !has_compare && !is_deep {
        return None;
    }
    match SystemLayout::of(target).texture_handle {
        TextureHandle::Uniform => Some(GradientHelp::Driver),
        TextureHandle::General => Some(GradientHelp::Quad),
    }
}

/// Returns whether the coordinates are integers.
fn coordinates_are_integers(form: &Form) -> bool {
    form.modifiers.iter().rev().find_map(|value| value.modifier.scalar_type()) == Some(ScalarType::S32)
}

/// Returns the stack that the call for a form needs, in bytes.
pub(crate) fn driver_stack_bytes(form: &Form, target: Target) -> u32 {
    if gradient_help(form, target) == Some(GradientHelp::Driver) { DRIVER_STACK_BYTES } else { 0 }
}

/// Returns whether the CUDA driver provides this function for gradients.
pub fn is_driver_gradient(name: &str) -> bool {
    name.starts_with(DRIVER_PREFIX)
}

/// Registers of the arguments of a call of the driver.
const TEXTURE: u8 = 4;
const SAMPLER: u8 = 6;
const COMPARE: u8 = 6;
const COORDINATES: u8 = 8;
const DERIVATIVES: u8 = 12;
/// The register that says whether all data was resident, and the first register of the results.
const RESIDENT: u8 = 4;
const FIRST_RESULT: u8 = 5;

/// Selects a gradient as a call of the CUDA driver.
pub(super) fn call_driver(select: &mut Select<'_>, ptx: &Ptx<'_>, geometry: Geometry) -> Result<(), Unsupported> {
    let place = select.elements(ptx.operand(1));
    let (texture, sampler, vector) = match place[..] {
        [texture, vector] => (texture, None, vector),
        [texture, sampler, vector] => (texture, Some(sampler), vector),
        _ => return select.unsupported(ptx),
    };
    let tail = Tail::of(ptx);
    let (destinations, resident) = select.split_pair(ptx.operand(0));
    let destinations = select.elements(destinations);
    let name = driver_name(ptx, &tail, sampler.is_some(), resident != ast::Operand::Sink);
    let is_half = matches!(ptx.form.scalar_type(Slot::Dtype), Some(ScalarType::F16 | ScalarType::F16x2));
    select.branch_around(|select| {
        let mut registers: Vec<(u8, Operand)> = Vec::new();
        for (first, handle) in [(TEXTURE, Some(texture)), (SAMPLER, sampler)] {
            let Some(handle) = handle else { continue };
            let words = select.handle_words(handle)?;
            registers.extend((first..).zip(words));
        }
        let ty = if coordinates_are_integers(ptx.form) { ScalarType::S32 } else { ScalarType::F32 };
        let coordinates = select.coordinates(vector, geometry, ty)?;
        registers.extend((COORDINATES..).zip(coordinates.index.into_iter().chain(coordinates.places)));
        let by_x = select.leading(tail.before[0], geometry.dimensions, ScalarType::F32)?;
        registers.extend((DERIVATIVES..).zip(by_x));
        let mut stack = vec![select.leading(tail.before[1], geometry.dimensions, ScalarType::F32)?];
        if let Some(offsets) = tail.offsets {
            stack.push(select.leading(offsets, geometry.dimensions, ScalarType::S32)?);
        }
        if let Some(compare) = tail.compare {
            let compare = select.source(compare, ScalarType::F32)?;
            if sampler.is_none() { registers.push((COMPARE, compare)) } else { stack.push(vec![compare]) }
        }
        for (number, words) in stack.into_iter().enumerate() {
            select.store_argument(&words, VECTOR_BYTES * number as u32);
        }
        let count = if is_half { 2 } else { 4 };
        let results: Vec<u8> = std::iter::once(RESIDENT).chain(FIRST_RESULT..FIRST_RESULT + count).collect();
        let words = select.call_by_name(&name, true, &registers, &results);
        let values = match ptx.form.scalar_type(Slot::Dtype) {
            Some(ScalarType::F16) => words[1..].iter().flat_map(|&word| halves_of(select, word)).collect(),
            _ => words[1..].to_vec(),
        };
        for (&destination, value) in destinations.iter().zip(values) {
            select.assign(destination, value)?;
        }
        if resident != ast::Operand::Sink {
            let is_resident = select.compare_words("NE", false, words[0], Operand::RZ);
            select.assign(resident, is_resident)?;
        }
        Ok(())
    })
}

/// Returns the name of the function of the CUDA driver for a gradient.
fn driver_name(ptx: &Ptx<'_>, tail: &Tail, has_sampler: bool, wants_resident: bool) -> String {
    let of_slot = |slot| ptx.get(slot).map_or("", |modifier| modifier.spelling().trim_start_matches('.'));
    let result = match ptx.form.scalar_type(Slot::Dtype) {
        Some(ScalarType::F16x2) => "f16",
        _ => of_slot(Slot::Dtype),
    };
    format!(
        "{DRIVER_PREFIX}{}{}_v4_{result}_{}{}{}{}",
        if wants_resident { "pred_" } else { "" },
        of_slot(Slot::Geom),
        if coordinates_are_integers(ptx.form) { "s32" } else { "f32" },
        if has_sampler { "_texmode_independent" } else { "" },
        if tail.offsets.is_some() { "_offset" } else { "" },
        if tail.compare.is_some() { "_depth_compare" } else { "" },
    )
}

/// Selects a gradient as a fetch by the four threads of a quad.
pub(super) fn fetch_by_quad(
    select: &mut Select<'_>,
    ptx: &Ptx<'_>,
    geometry: Geometry,
    coordinates: Coordinates,
    handle: &Handle,
) -> Result<(), Unsupported> {
    let tail = Tail::of(ptx);
    let (vector, resident) = select.split_pair(ptx.operand(0));
    let destinations = select.elements(vector);
    let wants_absent = resident != ast::Operand::Sink;
    select.branch_around(|select| {
        let index = coordinates.index.map(|index| select.clamped_index(index));
        let mut places = coordinates.places;
        let mut by_x = select.leading(tail.before[0], geometry.dimensions, ScalarType::F32)?;
        let mut by_y = select.leading(tail.before[1], geometry.dimensions, ScalarType::F32)?;
        let name = as_plane(geometry, &mut places);
        for derivatives in [&mut by_x, &mut by_y] {
            derivatives.resize(places.len(), Operand::RZ);
        }
        let (bits, distance) = OFFSET_FIELD;
        let offsets = match tail.offsets {
            Some(offsets) => Some(select.packed_offsets(offsets, geometry.dimensions, bits, distance)?),
            None => None,
        };
        let compare = match tail.compare {
            Some(compare) => Some(select.source(compare, ScalarType::F32)?),
            None => None,
        };
        let fetch = QuadFetch {
            geometry: name,
            dimensions: places.len() as u8,
            has_index: index.is_some(),
            has_offsets: offsets.is_some(),
            has_compare: compare.is_some(),
            wants_absent,
        };
        let word = select.general_word(handle);
        let mut registers = vec![(QuadFetch::HANDLE, word)];
        registers.extend((QuadFetch::COORDINATES..).zip(places));
        registers.extend((QuadFetch::BY_X..).zip(by_x));
        registers.extend((QuadFetch::BY_Y..).zip(by_y));
        let optional = [(QuadFetch::INDEX, index), (QuadFetch::OFFSETS, offsets), (QuadFetch::COMPARE, compare)];
        registers.extend(optional.into_iter().filter_map(|(register, word)| Some((register, word?))));
        let mut results: Vec<u8> = (QuadFetch::COMPONENTS..QuadFetch::COMPONENTS + 4).collect();
        results.extend(wants_absent.then_some(QuadFetch::ABSENT));
        let words = select.call_by_name(&fetch.name(), false, &registers, &results);
        let values = converted(select, ptx, &words[..4], destinations.len());
        for (&destination, value) in destinations.iter().zip(values) {
            select.assign(destination, value)?;
        }
        if wants_absent {
            let is_resident = select.compare_words("EQ", false, words[4], Operand::RZ);
            select.assign(resident, is_resident)?;
        }
        Ok(())
    })
}

/// A fetch by the four threads of a quad.
///
/// Arguments and results are in fixed registers. The sequence overwrites the registers of the results and those from
/// [`QuadFetch::FIRST_SCRATCH`] on, and the first two predicates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuadFetch {
    /// The geometry in machine instructions.
    pub geometry: &'static str,
    /// Number of coordinates, without array index.
    pub dimensions: u8,
    /// Whether there is an array index.
    pub has_index: bool,
    /// Whether there is a word with offsets.
    pub has_offsets: bool,
    /// Whether there is a value to compare with.
    pub has_compare: bool,
    /// Whether the predicate that says that data was not resident is wanted.
    pub wants_absent: bool,
}

impl QuadFetch {
    /// The register with the mask that says that data was not resident, and the four registers of the components.
    pub const ABSENT: u8 = 3;
    /// See [`QuadFetch::ABSENT`].
    pub const COMPONENTS: u8 = 4;
    /// The register with the value to compare with.
    pub const COMPARE: u8 = 0;
    /// The first of up to three registers with coordinates.
    pub const COORDINATES: u8 = 8;
    /// The first of up to three registers with derivatives by x, and by y.
    pub const BY_X: u8 = 11;
    /// See [`QuadFetch::BY_X`].
    pub const BY_Y: u8 = 14;
    /// The register with the handle.
    pub const HANDLE: u8 = 17;
    /// The register with the array index.
    pub const INDEX: u8 = 18;
    /// The register with the offsets.
    pub const OFFSETS: u8 = 19;
    /// The first scratch register.
    pub const FIRST_SCRATCH: u8 = 22;
    /// Number of scratch registers.
    pub const SCRATCH_COUNT: u8 = 13;
    /// Number of predicates that the sequence overwrites.
    pub const PREDICATES: u8 = 2;
    /// Number of general registers that a function with such a fetch needs.
    pub const REGISTERS: u32 = (Self::FIRST_SCRATCH + Self::SCRATCH_COUNT) as u32;
    /// The convergence barrier that holds the active threads meanwhile.
    pub const BARRIER: u8 = 15;
    /// Size of the memory below the stack pointer in which threads that do not take part keep their registers.
    pub const SAVED_BYTES: u32 = 80;

    const GEOMETRIES: [(&'static str, u8, bool); 6] =
        [("2D", 2, false), ("3D", 3, false), ("CUBE", 3, false), ("ARRAY_1D", 1, true), ("ARRAY_2D", 2, true), ("ARRAY_CUBE", 3, true)];

    /// Returns the name that stands for the fetch.
    pub fn name(&self) -> String {
        let flag = |is_set: bool, letter: &'static str| if is_set { letter } else { "" };
        let flags = [flag(self.has_offsets, "o"), flag(self.has_compare, "c"), flag(self.wants_absent, "a")].concat();
        format!("{QUAD_PREFIX}{flags}.{}", self.geometry)
    }

    /// Returns the fetch that a name stands for.
    pub fn parse(name: &str) -> Option<QuadFetch> {
        let (flags, geometry) = name.strip_prefix(QUAD_PREFIX)?.split_once('.')?;
        let &(geometry, dimensions, has_index) = Self::GEOMETRIES.iter().find(|(known, ..)| *known == geometry)?;
        let has = |letter| flags.contains(letter);
        Some(QuadFetch { geometry, dimensions, has_index, has_offsets: has('o'), has_compare: has('c'), wants_absent: has('a') })
    }
}

#[cfg(test)]
mod tests {
    use super::QuadFetch;

    #[test]
    fn a_name_stands_for_one_fetch() {
        for (geometry, dimensions, has_index) in QuadFetch::GEOMETRIES {
            for bits in 0..8 {
                let [has_offsets, has_compare, wants_absent] = [1, 2, 4].map(|bit| bits & bit != 0);
                let fetch = QuadFetch { geometry, dimensions, has_index, has_offsets, has_compare, wants_absent };
                assert_eq!(QuadFetch::parse(&fetch.name()), Some(fetch));
            }
        }
        assert_eq!(QuadFetch::parse("__oriole_quad_fetch_x.4D"), None);
        assert_eq!(QuadFetch::parse("vprintf"), None);
    }
}
