//! Texture fetches: `tex` and `tld4`.
//!
//! | PTX | machine |
//! |---|---|
//! | `tex` with float coordinates | `TEX.LL` with a level below every other, so that the most detailed level is read |
//! | `tex.level` with float coordinates | `TEX.LL` |
//! | `tex` with integer coordinates | `TLD.LZ`, `TLD.LZ.MS` |
//! | `tex.level` with integer coordinates | `TLD.LL.CL` |
//! | `tex.grad` | `TXD`, or see [`super::gradient`] |
//! | `tld4` | `TLD4` |
//!
//! The coordinates are in one tuple of registers: array index, x, y, z. Another tuple has the handle if it is in a general register, the
//! level, the offsets, and the sample number or the value to compare with. `TXD` has other tuples: see [`gradients`].
//! A one-dimensional texture is read as a two-dimensional one, except with integer coordinates.

use oriole_ir::{Class, Operand};
use oriole_isa::{SystemLayout, TextureHandle};
use oriole_ptx::ast::{self};
use oriole_ptx::table::{Modifier, Opcode, Slot};
use oriole_ptx::types::ScalarType;

use super::gradient::{GradientHelp, call_driver, fetch_by_quad, gradient_help};
use super::handle::{Handle, HandleOperand};
use super::operands::{Coordinates, Geometry, OFFSET_FIELD};
use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::texture::fetch_results::define;
use crate::texture::fetch_results::{Tail, as_plane, converted};

/// The level of a fetch that has none, as the bits of a single: -32, which is below every level.
const BASE_LEVEL: u32 = 0xc200_0000;
/// Bits of an offset, and distance between offsets, in the word with offsets of `tld4`.
const GATHER_OFFSET_FIELD: (u32, u32) = (6, 8);
/// Position of the word with offsets above the array index of `TXD`, and the bits that it has there.
const GRADIENT_OFFSET_SHIFT: u32 = 16;
const GRADIENT_OFFSET_MASK: u32 = 0x0fff_0000;

/// A machine instruction that fetches, without handle and results.
struct Fetch {
    opcode: &'static str,
    /// Modifiers before and after `.B`, which says that the handle is in a general register.
    modifiers: [String; 2],
    geometry: &'static str,
    /// The two tuples of registers.
    coordinates: Vec<Operand>,
    rest: Vec<Operand>,
}

/// Selects `tex` and `tld4`.
pub(crate) fn fetch(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let Some(geometry) = Geometry::of(ptx) else { return select.unsupported(ptx) };
    let help = gradient_help(ptx.form, select.target);
    if help == Some(GradientHelp::Driver) {
        return call_driver(select, ptx, geometry);
    }
    let place = select.elements(ptx.operand(1));
    let (texture, sampler, vector) = match place[..] {
        [texture, vector] => (texture, None, vector),
        [texture, sampler, vector] => (texture, Some(sampler), vector),
        _ => return select.unsupported(ptx),
    };
    let has_integers = ptx.types().last() == Some(&ScalarType::S32);
    let handle = select.handle(texture, sampler)?;
    let ty = if has_integers { ScalarType::S32 } else { ScalarType::F32 };
    let mut coordinates = select.coordinates(vector, geometry, ty)?;
    let tail = Tail::of(ptx);
    // Without a level a separate sampler applies to integer coordinates too, unless the texture has one dimension. `TLD` uses no sampler.
    let has_no_sampler = ptx.has(Modifier::Level) || geometry.has_samples || geometry.name == "1D";
    let is_sampled = has_integers && sampler.is_some() && !has_no_sampler;
    if is_sampled {
        coordinates.places = coordinates.places.into_iter().map(|place| select.as_single(place)).collect();
    }
    let fetch = match ptx.opcode() {
        Opcode::Tld4 => gather(select, ptx, geometry, coordinates, &tail)?,
        _ if has_integers && !is_sampled => integers(select, ptx, geometry, coordinates, &tail)?,
        _ if help == Some(GradientHelp::Quad) => return fetch_by_quad(select, ptx, geometry, coordinates, &handle),
        _ if ptx.has(Modifier::Grad) => gradients(select, geometry, coordinates, &tail)?,
        _ => floats(select, ptx, geometry, coordinates, &tail)?,
    };
    emit(select, ptx, &handle, &fetch)
}

/// Returns the tuple of coordinates: array index, then places.
fn coordinate_tuple(select: &mut Select<'_>, geometry: Geometry, coordinates: Coordinates) -> Vec<Operand> {
    let index = coordinates.index.map(|index| select.clamped_index(index));
    let places = if geometry.is_cube { select.projected_to_cube(&coordinates.places) } else { coordinates.places };
    index.into_iter().chain(places).collect()
}

/// Returns offsets and the value to compare with, as modifiers and words.
fn offsets_and_compare(
    select: &mut Select<'_>,
    geometry: Geometry,
    tail: &Tail,
    (bits, distance): (u32, u32),
) -> Result<(String, Vec<Operand>), Unsupported> {
    let (mut modifiers, mut words) = (String::new(), Vec::new());
    if let Some(offsets) = tail.offsets {
        modifiers += ".AOFFI";
        words.push(select.packed_offsets(offsets, geometry.dimensions, bits, distance)?);
    }
    if let Some(compare) = tail.compare {
        modifiers += ".DC";
        words.push(select.source(compare, ScalarType::F32)?);
    }
    Ok((modifiers, words))
}

/// Returns the fetch of `tex` and `tex.level` with float coordinates.
fn floats(select: &mut Select<'_>, ptx: &Ptx<'_>, geometry: Geometry, coordinates: Coordinates, tail: &Tail) -> Result<Fetch, Unsupported> {
    let (level, name) = if ptx.has(Modifier::Level) {
        match select.source(tail.before[0], ScalarType::F32)? {
            level if level.integer() == Some(0) => (None, ".LZ"),
            level => (Some(level), ".LL"),
        }
    } else if SystemLayout::of(select.target).fetches_without_level {
        (None, "")
    } else {
        (Some(Operand::from(BASE_LEVEL)), ".LL")
    };
    let (further, words) = offsets_and_compare(select, geometry, tail, OFFSET_FIELD)?;
    let modifiers = format!("{name}{further}");
    let rest = level.into_iter().chain(words).collect();
    let mut coordinates = coordinate_tuple(select, geometry, coordinates);
    let geometry = as_plane(geometry, &mut coordinates);
    Ok(Fetch { opcode: "TEX", modifiers: [String::new(), modifiers], geometry, coordinates, rest })
}

/// Returns the fetch of `tex` and `tex.level` with integer coordinates.
fn integers(
    select: &mut Select<'_>,
    ptx: &Ptx<'_>,
    geometry: Geometry,
    coordinates: Coordinates,
    tail: &Tail,
) -> Result<Fetch, Unsupported> {
    let mut rest = Vec::new();
    let mut modifiers = String::from(".LZ");
    if ptx.has(Modifier::Level) {
        let level = select.source(tail.before[0], ScalarType::S32)?;
        if level.integer() != Some(0) {
            rest.push(level);
            modifiers = String::from(".LL");
        }
    }
    let (further, words) = offsets_and_compare(select, geometry, tail, OFFSET_FIELD)?;
    modifiers += &further;
    rest.extend(words);
    if let Some(sample) = coordinates.sample {
        rest.push(sample);
        modifiers += ".MS";
    }
    if ptx.has(Modifier::Level) {
        modifiers += ".CL";
    }
    let coordinates = coordinate_tuple(select, geometry, coordinates);
    Ok(Fetch { opcode: "TLD", modifiers: [String::new(), modifiers], geometry: geometry.name, coordinates, rest })
}

/// Returns the fetch of `tld4`.
fn gather(select: &mut Select<'_>, ptx: &Ptx<'_>, geometry: Geometry, coordinates: Coordinates, tail: &Tail) -> Result<Fetch, Unsupported> {
    let component = match ptx.get(Slot::Comp) {
        Some(Modifier::R) => ".R",
        Some(Modifier::G) => ".G",
        Some(Modifier::B) => ".B",
        _ => ".A",
    };
    let (modifiers, rest) = offsets_and_compare(select, geometry, tail, GATHER_OFFSET_FIELD)?;
    let coordinates = coordinate_tuple(select, geometry, coordinates);
    Ok(Fetch { opcode: "TLD4", modifiers: [component.to_owned(), modifiers], geometry: geometry.name, coordinates, rest })
}

/// Returns the fetch of `tex.grad`. One tuple has the handle if it is in a general register, the coordinates, and a word with the array
/// index in its lower and the offsets in its upper half. The other has the derivatives by x and y of each coordinate.
fn gradients(select: &mut Select<'_>, geometry: Geometry, coordinates: Coordinates, tail: &Tail) -> Result<Fetch, Unsupported> {
    let mut sides = Vec::new();
    for &vector in &tail.before {
        sides.push(select.leading(vector, geometry.dimensions, ScalarType::F32)?);
    }
    let mut rest: Vec<Operand> = sides[0].iter().zip(&sides[1]).flat_map(|(&by_x, &by_y)| [by_x, by_y]).collect();
    let mut places = coordinates.places;
    let name = as_plane(geometry, &mut places);
    if name != geometry.name {
        rest.extend([Operand::RZ; 2]);
    }
    let mut word = coordinates.index.map(|index| select.clamped_index(index));
    let mut modifiers = String::new();
    if let Some(offsets) = tail.offsets {
        let (bits, distance) = OFFSET_FIELD;
        let offsets = select.packed_offsets(offsets, geometry.dimensions, bits, distance)?;
        let offsets = select.in_register(offsets);
        let shifted = select.shift_left(offsets, GRADIENT_OFFSET_SHIFT.into());
        let index = word.map_or(Operand::RZ, |index| select.in_register(index));
        word = Some(select.b.define(Class::R, "LOP3.LUT $, {}, {}, {}, 0xe2, !PT", &[shifted, GRADIENT_OFFSET_MASK.into(), index]));
        modifiers += ".AOFFI";
    }
    places.extend(word);
    Ok(Fetch { opcode: "TXD", modifiers: [String::new(), modifiers], geometry: name, coordinates: places, rest })
}

/// Emits a fetch and assigns its results.
fn emit(select: &mut Select<'_>, ptx: &Ptx<'_>, handle: &Handle, fetch: &Fetch) -> Result<(), Unsupported> {
    let (vector, resident) = select.split_pair(ptx.operand(0));
    let destinations = select.elements(vector);
    let is_uniform = SystemLayout::of(select.target).texture_handle == TextureHandle::Uniform;
    // With a handle that is not in a general register the tuples can be made before the loop over the handles.
    let made = (is_uniform || handle.is_bound()).then(|| (select.tuple(&fetch.coordinates), fetch.rest_tuple(select)));
    let access = |select: &mut Select<'_>, operand| {
        let (coordinates, rest, bindless, suffix, handle) = match operand {
            HandleOperand::General(word) => {
                let (coordinates, rest) = fetch.tuples_with(select, word);
                (coordinates, rest, ".B", String::new(), None)
            }
            HandleOperand::Uniform(words) => {
                let pair = HandleOperand::pair(select, words);
                let (coordinates, rest) = made.unwrap_or((Operand::RZ, None));
                (coordinates, rest, "", uniform_suffix(select).to_owned(), Some(pair))
            }
            HandleOperand::Bound(word) => {
                let (coordinates, rest) = made.unwrap_or((Operand::RZ, None));
                (coordinates, rest, "", bound_suffix(word), None)
            }
        };
        let second = if rest.is_some() { ", {}" } else { "" };
        let [before, after] = &fetch.modifiers;
        let head = format!("{}{before}{bindless}{after}", fetch.opcode);
        let tail = format!("{{}}{second}{suffix}, {}", fetch.geometry);
        let arguments: Vec<Operand> = std::iter::once(coordinates).chain(rest).chain(handle).collect();
        let mask = component_mask(ptx, &destinations);
        define(select, &head, &tail, mask, resident != ast::Operand::Sink, &arguments)
    };
    select.with_handle(handle, access, |select, (values, is_absent)| {
        let values = converted(select, ptx, &values, destinations.len());
        for (&destination, value) in destinations.iter().zip(values) {
            select.assign(destination, value)?;
        }
        // The machine's predicate says that some of the data was not resident.
        let Some(is_absent) = is_absent else { return Ok(()) };
        let is_resident = select.materialized_predicate(is_absent.inverted_predicate());
        select.assign(resident, is_resident)
    })
}

impl Fetch {
    /// Returns the second tuple; `None` if it is empty.
    fn rest_tuple(&self, select: &mut Select<'_>) -> Option<Operand> {
        if self.rest.is_empty() { None } else { Some(select.tuple(&self.rest)) }
    }

    /// Returns both tuples with a handle in a general register.
    fn tuples_with(&self, select: &mut Select<'_>, handle: Operand) -> (Operand, Option<Operand>) {
        let with_handle = |words: &[Operand]| std::iter::once(handle).chain(words.iter().copied()).collect::<Vec<Operand>>();
        if self.opcode == "TXD" {
            (select.tuple(&with_handle(&self.coordinates)), self.rest_tuple(select))
        } else {
            (select.tuple(&self.coordinates), Some(select.tuple(&with_handle(&self.rest))))
        }
    }
}

/// Returns the operands for a handle in a word of constant bank 0, as a part of a template.
pub(super) fn bound_suffix(word: u32) -> String {
    format!(", 0x0, {word:#x}")
}

/// Returns the operands for a handle in uniform registers, as a part of a template.
pub(super) fn uniform_suffix(select: &Select<'_>) -> &'static str {
    if select.encodes("TEX.LL R4, R6, R8, R10, UR4, 2D") { ", {}" } else { ", {}, 0x0" }
}

/// Returns the set of components, x to w, that some destination takes.
fn component_mask(ptx: &Ptx<'_>, destinations: &[ast::Operand]) -> u32 {
    let each = if ptx.form.scalar_type(Slot::Dtype) == Some(ScalarType::F16x2) { 2 } else { 1 };
    let taken = destinations.iter().enumerate().filter(|(_, destination)| **destination != ast::Operand::Sink);
    let mask = taken.fold(0, |mask, (number, _)| mask | ((1_u32 << each) - 1) << (number as u32 * each));
    mask.max(1)
}
