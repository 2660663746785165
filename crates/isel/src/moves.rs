//! Moves, vectors, special registers.

use oriole_ir::{Class, Operand, Symbol};
use oriole_ptx::ast;
use oriole_ptx::table::SpecialRegister;
use oriole_ptx::types::ScalarType;

use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::select::Select;

/// `mov`
pub(crate) fn mov(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    if matches!(ptx.operand(0), ast::Operand::Vector(_)) || matches!(ptx.operand(1), ast::Operand::Vector(_)) {
        return select.unsupported(ptx);
    }
    let value = select.any(ptx.operand(1), ty)?;
    let value = if ty != ScalarType::Pred && value.value().is_none() { select.in_register(value) } else { value };
    select.assign(ptx.operand(0), value)
}

impl Select<'_> {
    /// The value of a special register, as wide as it is.
    pub(crate) fn special_register(&mut self, special: SpecialRegister) -> Result<Operand, Unsupported> {
        let name = special.to_string();
        let machine = match name.as_str() {
            "%tid.x" => "SR_TID.X",
            "%tid.y" => "SR_TID.Y",
            "%tid.z" => "SR_TID.Z",
            "%ctaid.x" => "SR_CTAID.X",
            "%ctaid.y" => "SR_CTAID.Y",
            "%ctaid.z" => "SR_CTAID.Z",
            "%laneid" => "SR_LANEID",
            "%ntid.x" => return Ok(self.b.define(Class::R, "MOV $, c[0x0][0x0]", &[])),
            _ => return Err(Unsupported::new(format!("the special register {name}"))),
        };
        let Some(symbol) = Symbol::find(machine) else { return Err(Unsupported::new(format!("the special register {name}"))) };
        Ok(self.b.define(Class::R, "S2R $, {}", &[symbol.into()]))
    }
}
