//! `ldmatrix` and `stmatrix`: move 8x8 matrices of 16-bit elements, and matrices of 8-bit elements, between shared memory and the registers
//! of a warp. `ldmatrix` can expand elements of 4 and 6 bits to 8 bits. `movmatrix`:
//! transposes such a matrix in registers.

use oriole_ir::{Class, MemoryAccess, Operand, RegFile, Space};
use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Slot};
use oriole_ptx::types::ScalarType;

use super::address::OffsetRange;
use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;

/// Returns the size of the elements and the shape in the machine's spelling, and the number of registers.
fn shape(ptx: &Ptx<'_>) -> (String, u8) {
    let element = match ptx.get(Slot::SrcFmt) {
        Some(Modifier::B6x16P32) => ".U6x16P32TO8",
        Some(Modifier::B4x16P64) => ".U4x16P64TO8",
        _ if ptx.has(Modifier::M8n8) => ".16",
        _ => ".8",
    };
    let (layout, each) = match () {
        () if ptx.has(Modifier::M16n16) => (".MT1616", 2),
        () if ptx.has(Modifier::M16n8) => (".MT168", 1),
        () if ptx.has(Modifier::M8n16) => (".M816", 1),
        () if ptx.has(Modifier::Trans) => (".MT88", 1),
        () => (".M88", 1),
    };
    let (count, number) = match ptx.get(Slot::Num) {
        Some(Modifier::X2) => (".2", 2),
        Some(Modifier::X4) => (".4", 4),
        _ => ("", 1),
    };
    (format!("{element}{layout}{count}"), each * number)
}

/// Returns the address in shared memory, converted from a generic one if the instruction names no state space.
fn address(select: &mut Select<'_>, ptx: &Ptx<'_>, operand: ast::Operand) -> Result<(Operand, i64), Unsupported> {
    let address = select.shared_address(ptx, operand, OffsetRange::ACCESS)?;
    Ok((select.low(address.base), address.offset))
}

/// Selects `ldmatrix`.
pub(crate) fn load_matrix(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let (shape, count) = shape(ptx);
    let (base, offset) = address(select, ptx, ptx.operand(1))?;
    let class = Class::new(RegFile::General, count);
    let value = select.b.define(class, &format!("LDSM{shape} $, [{{}}+{{}}]"), &[base, offset.into()]);
    select.b.describe(MemoryAccess::weak(Space::Shared, 4 * count));
    for (element, destination) in select.elements(ptx.operand(0)).into_iter().enumerate() {
        let part = select.register_of(value, element as u8);
        select.assign(destination, part)?;
    }
    Ok(())
}

/// Selects `stmatrix`.
pub(crate) fn store_matrix(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let (shape, count) = shape(ptx);
    let mut parts = Vec::new();
    for element in select.elements(ptx.operand(1)) {
        let part = select.source(element, ScalarType::B32)?;
        parts.push(select.in_register(part));
    }
    let value = if count == 1 { parts[0] } else { select.b.pack(Class::new(RegFile::General, count), &parts) };
    let (base, offset) = address(select, ptx, ptx.operand(0))?;
    select.b.emit(&format!("STSM{shape} [{{}}+{{}}], {{}}"), &[base, offset.into(), value]);
    select.b.describe(MemoryAccess::weak(Space::Shared, 4 * count));
    Ok(())
}

/// Selects `movmatrix`.
pub(crate) fn transpose_matrix(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let source = select.source(ptx.operand(1), ScalarType::B32)?;
    let source = select.in_register(source);
    let value = select.b.define(Class::R, "MOVM.16.MT88 $, {}", &[source]);
    select.assign(ptx.operand(0), value)
}
