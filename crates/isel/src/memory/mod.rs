//! Loads, stores, address conversions and cache control.
//!
//! An access consists of the meaning of its modifiers ([`AccessProperties`]), an address ([`AddressOperands`]) and a value in consecutive registers. The
//! instructions themselves have no acquire or release semantics; fences provide it, as in ptxas (see [`crate::fence`]).

mod address;
mod cache;
mod convert;
mod copy;
mod load;
mod matrix;
mod modifiers;
mod store;

pub(crate) use address::{AddressOperands, OffsetRange};
pub(crate) use cache::{applypriority, createpolicy, discard, prefetch};
pub(crate) use convert::{cvta, isspacep, istypep};
pub(crate) use copy::{commit_copies, start_copy, wait_for_copies};
pub(crate) use load::{load, size_modifier};
pub(crate) use matrix::{load_matrix, store_matrix, transpose_matrix};
pub(crate) use modifiers::{AccessProperties, AccessSpace, constant_load, has_clusters, order_of, scope_of, shared_load, strong};
pub(crate) use store::{store, store_at};

use oriole_ir::{Class, Operand, OperandKind, Symbol, Value};
use oriole_isa::SystemLayout;

use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;

impl Select<'_> {
    /// Returns the descriptor that accesses to global memory name. It is loaded once, at the start of the function.
    /// `URZ` stands for no descriptor.
    pub(crate) fn descriptor(&mut self) -> Operand {
        if let Some(value) = self.descriptor {
            return self.b.whole(value);
        }
        let offset = SystemLayout::of(self.target).descriptor.filter(|_| !self.options.without_descriptors);
        let Some(offset) = offset else { return Operand::URZ };
        let value: Value = self.b.value(Class::UR2);
        self.b.at_entry(|b| {
            let whole = b.whole(value);
            b.emit("ULDC.64 {}, {}", &[whole, Operand::new(OperandKind::Constant { bank: 0, offset })]);
        });
        self.descriptor = Some(value);
        self.b.whole(value)
    }

    /// Returns the descriptor of an access with a cache policy. It replaces the usual descriptor and is marked by a suffix. The policy is
    /// moved to a uniform register although threads may have different ones: it is only a hint, so any thread's policy will do.
    pub(crate) fn policy_descriptor(&mut self, ptx: &Ptx<'_>, position: usize) -> Result<Operand, Unsupported> {
        if SystemLayout::of(self.target).descriptor.is_none() || self.options.without_descriptors {
            return self.unsupported(ptx);
        }
        let policy = self.wide_source(ptx.operand(position), oriole_ptx::types::ScalarType::U64)?;
        let halves = [self.low(policy), self.high(policy)].map(|half| self.b.define(Class::UR, "R2UR $, {}", &[half]));
        Ok(self.b.pack(Class::UR2, &halves).with_suffix(Symbol::_64))
    }
}
