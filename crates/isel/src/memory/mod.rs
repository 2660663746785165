//! Loads, stores, address conversions and cache control.
//!
//! An access is made of what its modifiers mean ([`Access`]), an address ([`Address`]) and a value in consecutive registers. The
//! orders that the machine's own accesses do not have (acquire, release) are made with fences, as ptxas does: see [`crate::fence`].

mod address;
mod cache;
mod convert;
mod load;
mod matrix;
mod modifiers;
mod store;

pub(crate) use address::{Address, Reach};
pub(crate) use cache::{applypriority, createpolicy, discard, prefetch};
pub(crate) use convert::{cvta, isspacep};
pub(crate) use load::load;
pub(crate) use matrix::{load_matrix, store_matrix};
pub(crate) use modifiers::{Access, AccessSpace, has_clusters, order_of, scope_of, shared_load, strong};
pub(crate) use store::store;

use oriole_ir::{Class, Operand, OperandKind, Symbol, Value};

use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::select::Select;

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

    /// The descriptor of an access with a cache policy, which takes the place of the usual one and is marked by a suffix. It is only
    /// a hint, so it does not matter whose policy is taken where threads disagree.
    pub(crate) fn policy_descriptor(&mut self, ptx: &Ptx<'_>, position: usize) -> Result<Operand, Unsupported> {
        if self.target.profile().descriptor.is_none() {
            return self.unsupported(ptx);
        }
        let policy = self.wide(ptx.operand(position), oriole_ptx::types::ScalarType::U64)?;
        let halves = [self.low(policy), self.high(policy)].map(|half| self.b.define(Class::UR, "R2UR $, {}", &[half]));
        Ok(self.b.pack(Class::UR2, &halves).with_suffix(Symbol::_64))
    }
}
