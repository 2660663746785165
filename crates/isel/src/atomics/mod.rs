//! Handlers of `atom`, `red`, `multimem.red`, and `red.async` with release semantics.
//!
//! The machine has atomic instructions for global memory (`ATOMG`, `RED`), shared memory (`ATOMS`) and generic addresses (`ATOM`). An
//! operation that it lacks, mostly 64-bit and floating-point operations on shared memory, becomes a loop around compare-and-swap
//! ([`mod@swap`]). Some generic instructions work only if the address is in global memory; such an instruction returns a predicate that
//! tells whether it was performed. If it was not, the loop performs the operation.

mod operation;
mod swap;

use oriole_ir::{Class, MemoryAccess, Operand, Order, RegFile, Scope};
use oriole_isa::Opcode;
use oriole_ptx::ast;
use oriole_ptx::table::Opcode as PtxOpcode;
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::error::Unsupported;
use crate::memory::{AccessProperties, AccessSpace, AddressOperands, OffsetRange, strong};
use crate::ptx::Ptx;
use operation::{AtomicKind, TypedOperation};

/// An atomic operation with its operands.
pub(crate) struct AtomicOperands {
    access: AccessProperties,
    operation: TypedOperation,
    address: AddressOperands,
    /// The operand of the operation, in as many registers as the operation needs; for compare-and-swap, the value to store.
    value: Operand,
    /// For compare-and-swap: the value to compare with.
    expected: Option<Operand>,
    /// The memory descriptor for global accesses.
    descriptor: Operand,
    /// The destinations of the old value: one per element; `_` discards it.
    destinations: Vec<ast::Operand>,
}

/// Selects `atom`, `red`, `multimem.red`.
pub(crate) fn atomic(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let Some(operation) = TypedOperation::of(ptx) else { return select.unsupported(ptx) };
    let atomic = AtomicOperands::read(select, ptx, operation)?;
    if atomic.needs_branches() {
        return select.branch_around(|select| atomic.write(select));
    }
    atomic.write(select)
}

impl AtomicOperands {
    /// Reads the operands of `atom` or `red`.
    fn read(select: &mut Select<'_>, ptx: &Ptx<'_>, operation: TypedOperation) -> Result<AtomicOperands, Unsupported> {
        let first = usize::from(ptx.opcode() == PtxOpcode::Atom);
        let mut access = select.access(ptx, ptx.operand(first));
        // Multicast addresses are in global memory; without an explicit scope, the scope of `multimem` is the system.
        if ptx.opcode() == PtxOpcode::MultimemRed {
            access.space = AccessSpace::Global;
            if access.scope == Scope::Thread {
                access.scope = Scope::System;
            }
        }
        // PTX: `red.async` with release semantics is for addresses in global memory.
        if ptx.opcode() == PtxOpcode::RedAsync {
            access.space = AccessSpace::Global;
        }
        if access.space == AccessSpace::Local {
            return Err(Unsupported::new("an atomic operation on a variable in local memory"));
        }
        if access.space == AccessSpace::Shared && operation.lanes > 1 {
            return Err(Unsupported::new("an atomic operation on a vector in shared memory"));
        }
        // PTX: without an explicit order an atomic operation is relaxed, without an explicit scope its scope is the GPU.
        if access.order == Order::Weak {
            access.order = Order::Relaxed;
        }
        if access.scope == Scope::Thread {
            access.scope = Scope::Gpu;
        }
        let lanes = operation.lanes;
        let destinations = match first {
            0 => vec![ast::Operand::Sink],
            _ => select.lanes(ptx.operand(0), lanes),
        };
        let range = if operation.is_half_word() { OffsetRange::NONE } else { OffsetRange::ATOMIC };
        let address = select.address(ptx.operand(first), access.space, range)?;
        let is_swap = operation.kind == AtomicKind::CompareAndSwap;
        let values = select.lanes(ptx.operand(first + if is_swap { 2 } else { 1 }), lanes);
        let value = select.atomic_operand(&values, operation.ty)?;
        let expected = match is_swap {
            true => Some(select.atomic_operand(&[ptx.operand(first + 1)], operation.ty)?),
            false => None,
        };
        let is_global = matches!(access.space, AccessSpace::Global | AccessSpace::Generic | AccessSpace::Cluster);
        let descriptor = if is_global { select.access_descriptor(ptx, ptx.operands.len() - 1)? } else { Operand::URZ };
        Ok(AtomicOperands { access, operation, address, value, expected, descriptor, destinations })
    }

    /// Returns whether the operation needs control flow, not just one instruction with fences.
    fn needs_branches(&self) -> bool {
        self.operation.is_half_word() || self.needs_loop() || self.needs_fallback()
    }

    /// Returns whether only a compare-and-swap loop can perform the operation.
    fn needs_loop(&self) -> bool {
        self.access.space == AccessSpace::Shared && !self.operation.is_native_in_shared()
    }

    /// Returns whether the instruction for a generic address may fail, because it exists for global memory only.
    fn needs_fallback(&self) -> bool {
        let is_generic = matches!(self.access.space, AccessSpace::Generic | AccessSpace::Cluster);
        is_generic && self.operation.lanes == 1 && (self.operation.bytes() == 8 || self.operation.is_float())
    }

    /// Emits the operation with its fences and assigns the old value.
    fn write(&self, select: &mut Select<'_>) -> Result<(), Unsupported> {
        select.fence_before(&self.access);
        let old = if self.operation.is_half_word() {
            Some(self.half_word(select))
        } else if self.needs_loop() {
            Some(self.looped(select))
        } else if self.needs_fallback() {
            Some(self.with_fallback(select))
        } else {
            self.native(select)
        };
        select.fence_after(&self.access);
        match old {
            Some(old) => self.assign(select, old),
            None => Ok(()),
        }
    }

    /// Returns the register class of the value in memory.
    fn class(&self) -> Class {
        Class::new(RegFile::General, (self.operation.bytes() / 4).max(1) as u8)
    }

    /// Describes the access for later passes. Atomic accesses are marked volatile, so that no pass removes or duplicates them.
    fn description(&self) -> MemoryAccess {
        MemoryAccess { volatile: true, ..self.access.describe(self.operation.bytes()) }
    }

    /// Emits one instruction. Returns the old value, or `None` from a reduction, which is used where no destination reads the old value.
    fn native(&self, select: &mut Select<'_>) -> Option<Operand> {
        let is_wanted = self.destinations.iter().any(|&destination| destination != ast::Operand::Sink);
        if self.access.space == AccessSpace::Shared {
            return Some(self.in_shared(select));
        }
        if !is_wanted && self.access.space == AccessSpace::Global && self.operation.has_reduction() {
            let opcode = if Opcode::REDG.exists_on(select.target) { "REDG" } else { "RED" };
            if self.access.is_mmio {
                let operation = format!("{}{}", self.operation.mnemonic(), self.operation.type_modifier());
                let place = [self.address.base, self.address.offset.into(), self.value];
                select.b.emit(&format!("{opcode}.E{operation}.MMIO.SYS [{{}}+{{}}], {{}}"), &place);
            } else {
                let template = format!("{opcode}{} desc[{{}}][{{}}.64+{{}}], {{}}", self.modifiers(select));
                select.b.emit(&template, &[self.descriptor, self.address.base, self.address.offset.into(), self.value]);
            }
            select.b.describe(self.description());
            return None;
        }
        Some(self.emit_atom(select, false).1)
    }

    /// Returns the modifiers of `ATOMG`, `ATOM` and `RED`.
    fn modifiers(&self, select: &Select<'_>) -> String {
        format!(".E{}{}{}", self.operation.mnemonic(), self.operation.type_modifier(), strong(select.target, self.access.scope))
    }

    /// Emits `ATOMG` or `ATOM`. Returns the predicate that tells whether the operation was performed (PT unless `returns_success`), and the
    /// old value.
    fn emit_atom(&self, select: &mut Select<'_>, returns_success: bool) -> (Operand, Operand) {
        let opcode = if self.access.space == AccessSpace::Global { "ATOMG" } else { "ATOM" };
        let modifiers = self.modifiers(select);
        let done = if returns_success { "$" } else { "PT" };
        let place = [self.address.base, self.address.offset.into()];
        let (template, arguments) = match self.expected {
            Some(expected) => {
                let [expected, value] = [expected, self.value].map(|operand| select.in_register(operand));
                (format!("{opcode}{modifiers} {done}, $, [{{}}+{{}}], {{}}, {{}}"), vec![place[0], place[1], expected, value])
            }
            None => {
                let value = select.in_register(self.value);
                (format!("{opcode}{modifiers} {done}, $, desc[{{}}][{{}}.64+{{}}], {{}}"), vec![self.descriptor, place[0], place[1], value])
            }
        };
        let result = match returns_success {
            true => select.b.define_two([Class::P, self.class()], &template, &arguments),
            false => (Operand::PT, select.b.define(self.class(), &template, &arguments)),
        };
        select.b.describe(self.description());
        result
    }

    /// Emits `ATOMS` and returns the old value.
    fn in_shared(&self, select: &mut Select<'_>) -> Operand {
        let modifiers = format!("{}{}", self.operation.mnemonic(), self.operation.type_modifier());
        let place = [self.address.base, self.address.offset.into()];
        let value = select.in_register(self.value);
        let old = match self.expected {
            Some(expected) => {
                let expected = select.in_register(expected);
                let template = format!("ATOMS{modifiers} $, [{{}}+{{}}], {{}}, {{}}");
                select.b.define(self.class(), &template, &[place[0], place[1], expected, value])
            }
            None => select.b.define(self.class(), &format!("ATOMS{modifiers} $, [{{}}+{{}}], {{}}"), &[place[0], place[1], value]),
        };
        select.b.describe(self.description());
        old
    }

    /// Assigns the old value, split into elements, to the destinations.
    fn assign(&self, select: &mut Select<'_>, old: Operand) -> Result<(), Unsupported> {
        let bytes = self.operation.ty.bytes();
        let mut values = Vec::new();
        for lane in 0..self.destinations.len() as u32 {
            let at = lane * bytes;
            values.push(match bytes {
                2 if self.operation.lanes == 1 => old,
                2 => {
                    let word = select.register_of(old, (at / 4) as u8);
                    let selector: u32 = if at.is_multiple_of(4) { 0x7710 } else { 0x7732 };
                    select.b.define(Class::R, "PRMT $, {}, {}, RZ", &[word, selector.into()])
                }
                4 => select.register_of(old, (at / 4) as u8),
                _ => old,
            });
        }
        for (&destination, value) in self.destinations.iter().zip(values) {
            select.assign(destination, value)?;
        }
        Ok(())
    }
}

impl Select<'_> {
    /// Returns the operand of an atomic operation in registers.
    fn atomic_operand(&mut self, lanes: &[ast::Operand], ty: ScalarType) -> Result<Operand, Unsupported> {
        let value = self.joined(lanes, ty)?;
        Ok(if self.register_count(value) == 1 { self.in_register(value) } else { value })
    }
}
