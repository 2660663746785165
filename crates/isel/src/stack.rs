//! Memory on the stack whose size is known when the code runs.
//!
//! The frame stays where it is, and so does the stack pointer while this function's own code runs. A value, the *dynamic stack*, says
//! where the stack ends: it moves with `alloca`, and a call passes it to its callee as stack pointer. Where the function calls
//! something, the place for parameters of its calls is at the end of the stack, so what `alloca` gives is above it.

use oriole_ir::{Class, Operand};
use oriole_ptx::types::ScalarType;

use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::select::Select;

/// The alignment of `alloca` without one.
const DEFAULT_ALIGN: u64 = 16;

/// `alloca`
pub(crate) fn alloca(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let size = select.source(ptx.operand(1), ScalarType::U32)?;
    let align = ptx.operands.get(2).and_then(|&align| select.literal(align, ScalarType::U32)).unwrap_or(DEFAULT_ALIGN);
    let end = select.dynamic_stack();
    let below = Operand::from(select.locals_start);
    let start = select.b.define(Class::R, "IADD3 $, PT, PT, {}, -{}, {}", &[end, size, below]);
    let mask = Operand::from(-(align as i64) as u32);
    let start = select.both(start, mask);
    let new_end = select.difference(start, below);
    let variable = select.dynamic_stack_variable();
    select.b.assign(variable, new_end);
    select.assign(ptx.operand(0), start)
}

/// `stacksave`
pub(crate) fn save(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let end = select.dynamic_stack();
    select.assign(ptx.operand(0), end)
}

/// `stackrestore`
pub(crate) fn restore(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let end = select.source(ptx.operand(0), ScalarType::U32)?;
    let end = select.in_register(end);
    let variable = select.dynamic_stack_variable();
    select.b.assign(variable, end);
    Ok(())
}

impl Select<'_> {
    /// Where the stack ends.
    pub(crate) fn dynamic_stack(&mut self) -> Operand {
        let variable = self.dynamic_stack_variable();
        self.b.whole(variable)
    }

    fn dynamic_stack_variable(&mut self) -> oriole_ir::Value {
        if let Some(variable) = self.dynamic_stack {
            return variable;
        }
        let variable = self.b.value(Class::R);
        let stack_pointer = self.stack_pointer();
        self.b.at_entry(|b| {
            let start = b.define(Class::R, "MOV $, {}", &[stack_pointer]);
            b.assign(variable, start);
        });
        self.dynamic_stack = Some(variable);
        variable
    }
}
