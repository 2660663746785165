//! Accesses to surfaces: `suld`, `sust`, `sured`.
//!
//! The coordinates are in one tuple of registers: x, y, z, or x, y, array index. Accesses by bytes (`.b`) have the modifier `.BA`.

use oriole_ir::{Class, Operand, RegFile, Scope};
use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Slot};
use oriole_ptx::types::ScalarType;

use super::handle::{Handle, HandleOperand};
use super::operands::Geometry;
use crate::context::Select;
use crate::error::Unsupported;
use crate::memory::{size_modifier, strong};
use crate::ptx::Ptx;

/// A surface and a place in it.
struct SurfaceElement {
    handle: Handle,
    coordinates: Operand,
    /// The modifier for the geometry.
    geometry: &'static str,
}

/// Returns the surface and the place that an operand in brackets names.
fn place(select: &mut Select<'_>, ptx: &Ptx<'_>, operand: ast::Operand) -> Result<SurfaceElement, Unsupported> {
    let Some(geometry) = Geometry::of(ptx) else { return select.unsupported(ptx) };
    let [surface, vector] = select.elements(operand)[..] else { return select.unsupported(ptx) };
    let name = match geometry.name {
        "1D" => ".1D",
        "2D" => ".2D",
        "3D" => ".3D",
        "ARRAY_1D" => ".1D_ARRAY",
        _ => ".2D_ARRAY",
    };
    let handle = select.handle(surface, None)?;
    let parts = select.coordinates(vector, geometry, ScalarType::S32)?;
    let words: Vec<Operand> = parts.places.into_iter().chain(parts.index).collect();
    let coordinates = select.tuple(&words);
    Ok(SurfaceElement { handle, coordinates, geometry: name })
}

/// Returns the modifier for accesses outside of the surface.
fn clamp(ptx: &Ptx<'_>) -> &'static str {
    if ptx.has(Modifier::Trap) {
        ".TRAP"
    } else if ptx.has(Modifier::Zero) {
        ".IGN"
    } else {
        ""
    }
}

/// Returns the modifiers for eviction and for ordering and scope.
fn caching(select: &Select<'_>, ptx: &Ptx<'_>) -> (&'static str, &'static str) {
    let is_system = [Modifier::Cg, Modifier::Cv, Modifier::Wt].iter().any(|&operator| ptx.get(Slot::Cop) == Some(operator));
    let eviction = if ptx.get(Slot::Cop) == Some(Modifier::Cs) { ".EF" } else { "" };
    (eviction, strong(select.target, if is_system { Scope::System } else { Scope::Block }))
}

/// Returns the operand for a handle, and its part of a template.
fn handle_operand(select: &Select<'_>, operand: HandleOperand) -> (Option<Operand>, String) {
    match operand {
        HandleOperand::General(word) => (Some(word), ", {}".to_owned()),
        HandleOperand::Uniform([word, _]) => (Some(word), super::fetch::uniform_suffix(select).to_owned()),
        HandleOperand::Bound(word) => (None, super::fetch::bound_suffix(word)),
    }
}

/// Selects `suld`.
pub(crate) fn load(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let place = place(select, ptx, ptx.operand(1))?;
    let ty = ptx.ty();
    let lanes = select.lanes(ptx.operand(0), ptx.vector_lanes());
    let bytes = ty.bytes() * lanes.len() as u32;
    let (eviction, scope) = caching(select, ptx);
    let (size, clamp) = (size_modifier(bytes, false), clamp(ptx));
    let head = format!("SULD.D.BA{}{eviction}{size}{scope}{clamp}", place.geometry);
    let width = bytes.div_ceil(4) as u8;
    let access = |select: &mut Select<'_>, operand| {
        let (handle, suffix) = handle_operand(select, operand);
        let class = Class::new(RegFile::General, width);
        let arguments: Vec<Operand> = std::iter::once(place.coordinates).chain(handle).collect();
        select.b.define(class, &format!("{head} $, [{{}}]{suffix}"), &arguments)
    };
    select.with_handle(&place.handle, access, |select, value| {
        let words: Vec<Operand> = (0..width).map(|word| select.register_of(value, word)).collect();
        for (lane, &destination) in lanes.iter().enumerate() {
            if let Some(value) = select.lane_of(&words, ty, lane, destination, lanes.len()) {
                select.assign(destination, value)?;
            }
        }
        Ok(())
    })
}

/// Selects `sust`.
pub(crate) fn store(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let place = place(select, ptx, ptx.operand(0))?;
    let ty = ptx.ty();
    let lanes = select.lanes(ptx.operand(1), ptx.vector_lanes());
    let bytes = ty.bytes() * lanes.len() as u32;
    let value = select.joined(&lanes, ty)?;
    let value = select.in_register(value);
    let (eviction, scope) = caching(select, ptx);
    let clamp = clamp(ptx);
    let head = if ptx.has(Modifier::P) {
        let components = [".R", ".RG", ""][lanes.len().ilog2() as usize];
        format!("SUST.P{}{eviction}{scope}{components}{clamp}", place.geometry)
    } else {
        format!("SUST.D.BA{}{eviction}{}{scope}{clamp}", place.geometry, size_modifier(bytes, false))
    };
    emit(select, &place, &head, value)
}

/// Selects `sured`.
pub(crate) fn reduce(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let place = place(select, ptx, ptx.operand(0))?;
    let operations =
        [(Modifier::Add, ".ADD"), (Modifier::Min, ".MIN"), (Modifier::Max, ".MAX"), (Modifier::And, ".AND"), (Modifier::Or, ".OR")];
    let Some(&(operator, operation)) = operations.iter().find(|(modifier, _)| ptx.has(*modifier)) else { return select.unsupported(ptx) };
    let is_compared = matches!(operator, Modifier::Min | Modifier::Max);
    let ty = ptx.ty();
    let name = match ty {
        ScalarType::S32 => ".S32",
        ScalarType::U64 => ".U64",
        ScalarType::S64 => ".S64",
        ScalarType::B32 if is_compared => ".SD32",
        ScalarType::B64 => ".SD64",
        _ => "",
    };
    let bytes = if ptx.has(Modifier::P) { "" } else { ".BA" };
    let words = select.words(ptx.operand(1), ty)?;
    let value = select.tuple(&words);
    let scope = strong(select.target, Scope::System);
    let head = format!("SURED.D{bytes}{}{operation}{name}{scope}{}", place.geometry, clamp(ptx));
    emit(select, &place, &head, value)
}

/// Emits a store or reduction.
fn emit(select: &mut Select<'_>, place: &SurfaceElement, head: &str, value: Operand) -> Result<(), Unsupported> {
    let access = |select: &mut Select<'_>, operand| {
        let (handle, suffix) = handle_operand(select, operand);
        let arguments: Vec<Operand> = [place.coordinates, value].into_iter().chain(handle).collect();
        select.b.emit(&format!("{head} [{{}}], {{}}{suffix}"), &arguments);
    };
    select.with_handle(&place.handle, access, |_, ()| Ok(()))
}
