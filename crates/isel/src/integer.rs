//! Integer arithmetic.

use oriole_ir::Class;
use oriole_ptx::table::Modifier;
use oriole_ptx::types::ScalarType;

use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::select::Select;

/// `add`
pub(crate) fn add(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    match ptx.ty() {
        ScalarType::F32 if ptx.form.modifiers.len() == 1 => {
            let a = select.source(ptx.operand(1), ScalarType::F32)?;
            let b = select.source(ptx.operand(2), ScalarType::F32)?;
            let sum = select.b.define(Class::R, "FADD $, {}, {}", &[a, b]);
            select.assign(ptx.operand(0), sum)
        }
        _ => select.unsupported(ptx),
    }
}

/// `mad`
pub(crate) fn multiply_add(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    if ty != ScalarType::U32 {
        return select.unsupported(ptx);
    }
    let a = select.source(ptx.operand(1), ty)?;
    let b = select.source(ptx.operand(2), ty)?;
    let product = if ptx.has(Modifier::Wide) {
        let c = select.wide(ptx.operand(3), ScalarType::U64)?;
        select.b.define(Class::R2, "IMAD.WIDE.U32 $, {}, {}, {}", &[a, b, c])
    } else if ptx.has(Modifier::Lo) {
        let c = select.source(ptx.operand(3), ty)?;
        select.b.define(Class::R, "IMAD $, {}, {}, {}", &[a, b, c])
    } else {
        return select.unsupported(ptx);
    };
    select.assign(ptx.operand(0), product)
}
