//! Stack memory whose size is only known at run time: `alloca`, `stacksave`, `stackrestore`.
//!
//! The frame and the stack pointer do not move while the code of this function runs. A variable, the *dynamic stack*, holds the current
//! end of the stack. `alloca` lowers the end, and a call passes it to its callee as the stack pointer. In a function with calls, the area
//! for the stack arguments of the calls is at the end of the stack, so memory from `alloca` lies above that area.
//!
//! On targets where threads may have to fetch from textures for others of their quad, they keep their registers below their stack pointers
//! meanwhile ([`QuadFetch`]), at any time. There the dynamic stack starts below that memory.

use oriole_ir::{Class, Operand};
use oriole_isa::{SystemLayout, TextureHandle};
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::texture::QuadFetch;

/// Alignment in bytes of an `alloca` that does not specify one.
const DEFAULT_ALIGN: u64 = 16;

/// Selects `alloca`.
pub(crate) fn alloca(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let size = select.source(ptx.operand(1), ScalarType::U32)?;
    let align = ptx.operands.get(2).and_then(|&align| select.literal(align, ScalarType::U32)).unwrap_or(DEFAULT_ALIGN);
    let end = select.dynamic_stack();
    let below = Operand::from(select.locals_start);
    // The area below `locals_start` (arguments and results of calls) has to stay below the new memory.
    let start = select.b.define(Class::R, "IADD3 $, PT, PT, {}, -{}, {}", &[end, size, below]);
    let mask = Operand::from(-(align as i64) as u32);
    let start = select.bitwise_and(start, mask);
    let new_end = select.difference(start, below);
    let variable = select.dynamic_stack_variable();
    select.b.assign(variable, new_end);
    select.assign(ptx.operand(0), start)
}

/// Selects `stacksave`.
pub(crate) fn save(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let end = select.dynamic_stack();
    select.assign(ptx.operand(0), end)
}

/// Selects `stackrestore`.
pub(crate) fn restore(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let end = select.source(ptx.operand(0), ScalarType::U32)?;
    let end = select.in_register(end);
    let variable = select.dynamic_stack_variable();
    select.b.assign(variable, end);
    Ok(())
}

impl Select<'_> {
    /// Returns the current end of the stack.
    pub(crate) fn dynamic_stack(&mut self) -> Operand {
        let variable = self.dynamic_stack_variable();
        self.b.whole(variable)
    }

    /// Returns the variable that holds the end of the stack; its initial value is the stack pointer.
    fn dynamic_stack_variable(&mut self) -> oriole_ir::Value {
        if let Some(variable) = self.dynamic_stack {
            return variable;
        }
        let variable = self.b.value(Class::R);
        let stack_pointer = self.stack_pointer();
        let is_quad_target = SystemLayout::of(self.target).texture_handle == TextureHandle::General;
        // Memory from `alloca` starts `locals_start` bytes above the end of the dynamic stack.
        let kept_bytes = QuadFetch::SAVED_BYTES.saturating_add(self.locals_start).next_multiple_of(DEFAULT_ALIGN as u32);
        self.b.at_entry(|b| {
            let start = match is_quad_target {
                true => b.define(Class::R, "IADD3 $, PT, PT, {}, {}, RZ", &[stack_pointer, kept_bytes.wrapping_neg().into()]),
                false => b.define(Class::R, "MOV $, {}", &[stack_pointer]),
            };
            b.assign(variable, start);
        });
        self.dynamic_stack = Some(variable);
        variable
    }
}
