//! `multimem`: accesses to multicast addresses, each of which stands for one location on every GPU of a multicast object.
//!
//! Stores and reductions are ordinary global ones; the address makes them multicast. Loads that reduce have an instruction of their own,
//! which is always performed at system scope.

use oriole_ir::{Class, MemoryAccess, Operand, RegFile, Scope};
use oriole_ptx::table::Modifier;
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::error::Unsupported;
use crate::memory::{AccessSpace, OffsetRange};
use crate::ptx::Ptx;

/// Selects `multimem.ld_reduce`.
pub(crate) fn load_reduced(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let mut access = select.access(ptx, ptx.operand(1));
    access.space = AccessSpace::Global;
    let ty = ptx.ty();
    let lanes = select.lanes(ptx.operand(0), ptx.vector_lanes());
    let bytes = ty.bytes() * lanes.len() as u32;
    let (Some(operation), Some(kind)) = (operation(select, ptx), type_modifier(ty, bytes)) else { return select.unsupported(ptx) };
    let address = select.address(ptx.operand(1), access.space, OffsetRange::ATOMIC)?;
    let width = bytes.div_ceil(4) as u8;
    let template = format!("LDGMC.E{operation}{kind}.STRONG.SYS $, [{{}}.64+URZ+{{}}]");
    let class = Class::new(RegFile::General, width);
    let value = select.b.define(class, &template, &[address.base, address.offset.into()]);
    let scope = if access.scope == Scope::Thread { Scope::System } else { access.scope };
    // Other GPUs may write the locations at any time.
    select.b.describe(MemoryAccess { volatile: true, scope, ..access.describe(bytes) });
    select.fence_after(&access);
    let words: Vec<Operand> = (0..width).map(|word| select.register_of(value, word)).collect();
    for (lane, &destination) in lanes.iter().enumerate() {
        if let Some(value) = select.lane_of(&words, ty, lane, destination, lanes.len()) {
            select.assign(destination, value)?;
        }
    }
    Ok(())
}

/// Returns the machine's modifier for the reduction. Sums of higher precision have another name on later targets.
fn operation(select: &Select<'_>, ptx: &Ptx<'_>) -> Option<&'static str> {
    let precise = if select.encodes("LDGMC.E.F32ADD.F16x2.RN.STRONG.SYS R0, [R2.64+URZ+0x0]") { ".F32ADD" } else { ".HPADD" };
    let kinds = [
        (Modifier::AccF32, precise),
        (Modifier::AccF16, ".HPADD"),
        (Modifier::Add, ".ADD"),
        (Modifier::Min, ".MIN"),
        (Modifier::Max, ".MAX"),
        (Modifier::And, ".AND"),
        (Modifier::Or, ".OR"),
        (Modifier::Xor, ".XOR"),
    ];
    kinds.iter().find(|(modifier, _)| ptx.has(*modifier)).map(|&(_, name)| name)
}

/// Returns the machine's modifier for the type of an access.
fn type_modifier(ty: ScalarType, bytes: u32) -> Option<&'static str> {
    use ScalarType::{Bf16, Bf16x2, E4m3, E4m3x2, E4m3x4, E5m2, E5m2x2, E5m2x4, F16, F16x2, F32, F64, S32, S64};
    Some(match (ty, bytes) {
        (F32, 4) => ".F32.RN",
        (F32, 8) => ".F32x2.RN",
        (F32, 16) => ".F32x4.RN",
        (F64, 8) => ".F64.RN",
        (F16 | F16x2, 4) => ".F16x2.RN",
        (F16 | F16x2, 8) => ".F16x4.RN",
        (F16 | F16x2, 16) => ".F16x8.RN",
        (Bf16 | Bf16x2, 4) => ".BF16x2.RN",
        (Bf16 | Bf16x2, 8) => ".BF16x4.RN",
        (Bf16 | Bf16x2, 16) => ".BF16x8.RN",
        (E5m2 | E5m2x2 | E5m2x4, 4) => ".E5M2x4.RN",
        (E5m2 | E5m2x2 | E5m2x4, 8) => ".E5M2x8.RN",
        (E5m2 | E5m2x2 | E5m2x4, 16) => ".E5M2x16.RN",
        (E4m3 | E4m3x2 | E4m3x4, 4) => ".E4M3x4.RN",
        (E4m3 | E4m3x2 | E4m3x4, 8) => ".E4M3x8.RN",
        (E4m3 | E4m3x2 | E4m3x4, 16) => ".E4M3x16.RN",
        (S32, 4) => ".S32",
        (S64, 8) => ".S64",
        (_, 4) => ".32",
        (_, 8) => ".64",
        _ => return None,
    })
}

/// Selects `multimem.st`.
pub(crate) fn store(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let mut access = select.access(ptx, ptx.operand(0));
    access.space = AccessSpace::Global;
    crate::memory::store_at(select, ptx, access)
}
