//! `atom` and `red`
//!
//! The machine has atomic operations on global memory (`ATOMG`, `RED`), on shared memory (`ATOMS`) and by generic address (`ATOM`). What
//! it lacks, mostly 64-bit and floating-point operations on shared memory, becomes a loop around compare-and-swap ([`mod@swap`]).
//! Operations by generic address that exist for global memory only report by a predicate whether they were done; the loop follows where
//! they were not.

mod operation;
mod swap;

use oriole_ir::{Class, File, MemoryAccess, Operand, Order, Scope};
use oriole_isa::Opcode;
use oriole_ptx::ast;
use oriole_ptx::table::Opcode as PtxOpcode;
use oriole_ptx::types::ScalarType;

use crate::error::Unsupported;
use crate::memory::{Access, AccessSpace, Address, Reach, strong};
use crate::ptx::Ptx;
use crate::select::Select;
use operation::{Kind, Operation};

/// An atomic operation with its operands at hand.
pub(crate) struct Atomic {
    access: Access,
    operation: Operation,
    address: Address,
    /// The operand, as many registers as the operation takes; of compare-and-swap what is stored.
    value: Operand,
    /// What compare-and-swap compares with.
    expected: Option<Operand>,
    /// The descriptor for global memory.
    descriptor: Operand,
    /// Where the old value goes: the elements of a vector, or one.
    destinations: Vec<ast::Operand>,
}

/// `atom`, `red`
pub(crate) fn atomic(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    // What clusters came with: vectors, bf16 and 128 bits, in instructions that have `REDG` beside them.
    let is_known = |operation: &Operation| !operation.is_new() || select.target.has(Opcode::REDG);
    let Some(operation) = Operation::of(ptx).filter(is_known) else { return select.unsupported(ptx) };
    let atomic = Atomic::read(select, ptx, operation)?;
    if atomic.needs_branches() {
        return select.branch_around(|select| atomic.write(select));
    }
    atomic.write(select)
}

impl Atomic {
    fn read(select: &mut Select<'_>, ptx: &Ptx<'_>, operation: Operation) -> Result<Atomic, Unsupported> {
        let first = usize::from(ptx.opcode() == PtxOpcode::Atom);
        let mut access = select.access(ptx, ptx.operand(first));
        if access.space == AccessSpace::Local {
            return Err(Unsupported::new("an atomic operation on a variable in local memory"));
        }
        if access.space == AccessSpace::Shared && operation.lanes > 1 {
            return Err(Unsupported::new("an atomic operation on a vector in shared memory"));
        }
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
        let reach = if operation.is_half_word() { Reach::NONE } else { Reach::ATOMIC };
        let address = select.address(ptx.operand(first), access.space, reach)?;
        let is_swap = operation.kind == Kind::CompareAndSwap;
        let values = select.lanes(ptx.operand(first + if is_swap { 2 } else { 1 }), lanes);
        let value = select.atomic_operand(&values, operation.ty)?;
        let expected = match is_swap {
            true => Some(select.atomic_operand(&[ptx.operand(first + 1)], operation.ty)?),
            false => None,
        };
        let is_global = matches!(access.space, AccessSpace::Global | AccessSpace::Generic | AccessSpace::Cluster);
        let descriptor = if is_global { select.access_descriptor(ptx, ptx.operands.len() - 1)? } else { Operand::URZ };
        Ok(Atomic { access, operation, address, value, expected, descriptor, destinations })
    }

    /// Whether it is more than one instruction with fences.
    fn needs_branches(&self) -> bool {
        self.operation.is_half_word() || self.needs_loop() || self.may_fail()
    }

    /// Whether nothing but a loop does it.
    fn needs_loop(&self) -> bool {
        self.access.space == AccessSpace::Shared && !self.operation.is_native_in_shared()
    }

    /// Whether an operation by generic address may not be done, because it exists for global memory only.
    fn may_fail(&self) -> bool {
        let is_generic = matches!(self.access.space, AccessSpace::Generic | AccessSpace::Cluster);
        is_generic && self.operation.lanes == 1 && (self.operation.bytes() == 8 || self.operation.is_float())
    }

    fn write(&self, select: &mut Select<'_>) -> Result<(), Unsupported> {
        select.fence_before(&self.access);
        let old = if self.operation.is_half_word() {
            Some(self.half_word(select))
        } else if self.needs_loop() {
            Some(self.looped(select))
        } else if self.may_fail() {
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

    fn class(&self) -> Class {
        Class::new(File::General, (self.operation.bytes() / 4).max(1) as u8)
    }

    fn description(&self) -> MemoryAccess {
        MemoryAccess { volatile: true, ..self.access.describe(self.operation.bytes()) }
    }

    /// One instruction. Nothing comes back where nobody wants the old value.
    fn native(&self, select: &mut Select<'_>) -> Option<Operand> {
        let is_wanted = self.destinations.iter().any(|&destination| destination != ast::Operand::Sink);
        if self.access.space == AccessSpace::Shared {
            return Some(self.in_shared(select));
        }
        if !is_wanted && self.access.space == AccessSpace::Global && self.operation.has_reduction() {
            let opcode = if select.target.has(Opcode::REDG) { "REDG" } else { "RED" };
            let template = format!("{opcode}{} desc[{{}}][{{}}.64+{{}}], {{}}", self.modifiers(select));
            select.b.emit(&template, &[self.descriptor, self.address.base, self.address.offset.into(), self.value]);
            select.b.describe(self.description());
            return None;
        }
        Some(self.general(select, false).1)
    }

    fn modifiers(&self, select: &Select<'_>) -> String {
        format!(".E{}{}{}", self.operation.mnemonic(), self.operation.type_modifier(), strong(select.target, self.access.scope))
    }

    /// `ATOMG` or `ATOM`: whether it was done, if that is asked, and the old value.
    fn general(&self, select: &mut Select<'_>, asks: bool) -> (Operand, Operand) {
        let opcode = if self.access.space == AccessSpace::Global { "ATOMG" } else { "ATOM" };
        let modifiers = self.modifiers(select);
        let done = if asks { "$" } else { "PT" };
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
        let result = match asks {
            true => select.b.define_two([Class::P, self.class()], &template, &arguments),
            false => (Operand::PT, select.b.define(self.class(), &template, &arguments)),
        };
        select.b.describe(self.description());
        result
    }

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

    /// Hands the old value to the destinations.
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
    /// The operand of an atomic operation in registers.
    fn atomic_operand(&mut self, lanes: &[ast::Operand], ty: ScalarType) -> Result<Operand, Unsupported> {
        let value = self.joined(lanes, ty)?;
        Ok(if self.register_count(value) == 1 { self.in_register(value) } else { value })
    }
}
