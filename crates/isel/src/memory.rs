//! Loads, stores and address conversions.

use oriole_ir::{Class, MemoryAccess, Operand, OperandKind, Space, Value};
use oriole_ptx::ast;
use oriole_ptx::table::Modifier;

use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::select::{Select, class_of};
use crate::variables::Place;

/// `cvta`
pub(crate) fn cvta(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    if !ptx.has(Modifier::Global) {
        return select.unsupported(ptx);
    }
    let value = select.any(ptx.operand(1), ptx.ty())?;
    select.assign(ptx.operand(0), value)
}

/// `ld`
pub(crate) fn load(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let place = address(select, ptx.operand(1))?;
    let ty = ptx.ty();
    if ptx.has(Modifier::Param) && place.base.is_none() {
        let offset = place.offset as u32;
        let words: Vec<Operand> = (0..class_of(ty).width)
            .map(|word| select.b.define(Class::R, "MOV $, {}", &[Operand::constant(0, offset + 4 * u32::from(word))]))
            .collect();
        let value = if words.len() == 1 { words[0] } else { select.b.pack(class_of(ty), &words) };
        return select.assign(ptx.operand(0), value);
    }
    if !ptx.has(Modifier::Global) || ty.bits() != 32 {
        return select.unsupported(ptx);
    }
    let descriptor = select.descriptor();
    let base = place.base.unwrap_or(Operand::RZ);
    let value = select.b.define(Class::R, "LDG.E $, desc[{}][{}.64+{}]", &[descriptor, base, place.offset.into()]);
    select.b.describe(MemoryAccess::weak(Space::Global, 4));
    select.assign(ptx.operand(0), value)
}

/// `st`
pub(crate) fn store(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let place = address(select, ptx.operand(0))?;
    let ty = ptx.ty();
    if !ptx.has(Modifier::Global) || ty.bits() != 32 {
        return select.unsupported(ptx);
    }
    let value = select.source(ptx.operand(1), ty)?;
    let descriptor = select.descriptor();
    let base = place.base.unwrap_or(Operand::RZ);
    select.b.emit("STG.E desc[{}][{}.64+{}], {}", &[descriptor, base, place.offset.into(), value]);
    select.b.describe(MemoryAccess::weak(Space::Global, 4));
    Ok(())
}

fn address(select: &mut Select<'_>, operand: ast::Operand) -> Result<Place, Unsupported> {
    let ast::Operand::Address(position) = operand else { return Err(Unsupported::new("this address")) };
    let address = select.frame.body.addresses[position as usize];
    select.place(address.base, address.offset)
}

impl Select<'_> {
    /// The descriptor that accesses to global memory name. It is loaded at the start of the function.
    pub(crate) fn descriptor(&mut self) -> Operand {
        if let Some(value) = self.descriptor {
            return self.b.whole(value);
        }
        let Some(offset) = self.target.profile().descriptor else { return Operand::URZ };
        let value: Value = self.b.value(Class::UR2);
        self.b.at_entry(|b| {
            let whole = b.whole(value);
            b.emit("ULDC.64 {}, {}", &[whole, Operand::new(OperandKind::Constant { bank: 0, offset })]);
        });
        self.descriptor = Some(value);
        self.b.whole(value)
    }
}
