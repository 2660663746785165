//! Addresses of memory accesses, in the form that the instructions accept: register plus immediate offset.

use oriole_ir::{Class, Operand};
use oriole_ptx::ast;

use super::modifiers::AccessSpace;
use crate::context::Select;
use crate::error::Unsupported;
use crate::variables::BaseOffset;

/// The address operands of an access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressOperands {
    /// A register pair for a 64-bit address, otherwise one register; RZ if there is no base.
    pub base: Operand,
    /// Byte offset that fits into the instruction.
    pub offset: i64,
}

/// The immediate offsets that an instruction can encode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OffsetRange {
    /// Width of the signed offset field in bits.
    bits: u32,
    /// The offset must be a multiple of this number.
    multiple: i64,
}

impl OffsetRange {
    /// Ordinary loads and stores.
    pub(crate) const ACCESS: OffsetRange = OffsetRange { bits: 24, multiple: 1 };
    /// Loads and stores at several fixed distances below 2 KiB from one address.
    pub(crate) const HALF: OffsetRange = OffsetRange { bits: 23, multiple: 1 };
    /// Atomic operations.
    pub(crate) const ATOMIC: OffsetRange = OffsetRange { bits: 23, multiple: 1 };
    /// Accesses of 256 bits.
    pub(crate) const WIDE: OffsetRange = OffsetRange { bits: 22, multiple: 32 };
    /// The shared address of an asynchronous copy.
    pub(crate) const COPY_TARGET: OffsetRange = OffsetRange { bits: 20, multiple: 1 };
    /// The global address of an asynchronous copy.
    pub(crate) const COPY_SOURCE: OffsetRange = OffsetRange { bits: 12, multiple: 1 };
    /// Constant banks.
    const BANK: OffsetRange = OffsetRange { bits: 16, multiple: 1 };
    /// No offset at all.
    pub(crate) const NONE: OffsetRange = OffsetRange { bits: 1, multiple: 2 };

    /// Returns whether the instruction can encode this offset.
    pub(crate) fn holds(self, offset: i64) -> bool {
        let limit = 1_i64 << (self.bits - 1);
        (-limit..limit).contains(&offset) && offset % self.multiple == 0
    }
}

impl Select<'_> {
    /// Returns the address inside the brackets of an operand, as base and offset.
    pub(crate) fn bracket(&mut self, operand: ast::Operand) -> Result<BaseOffset, Unsupported> {
        let (ast::Operand::Address(position) | ast::Operand::UnifiedAddress(position)) = operand else {
            return Err(Unsupported::new("this address"));
        };
        let address = self.frame.body.addresses[position as usize];
        self.place(address.base, address.offset)
    }

    /// Returns the address of an access; an offset that does not fit is added to the base.
    pub(crate) fn address(
        &mut self,
        operand: ast::Operand,
        space: AccessSpace,
        range: OffsetRange,
    ) -> Result<AddressOperands, Unsupported> {
        let place = self.bracket(operand)?;
        Ok(match space {
            AccessSpace::Generic | AccessSpace::Global => self.address_64(place, range),
            AccessSpace::Cluster => self.cluster_address(place, range),
            AccessSpace::Shared | AccessSpace::Local => self.address_32(place, range),
            AccessSpace::Constant | AccessSpace::Parameter => self.address_32(place, OffsetRange::BANK),
        })
    }

    /// Returns a 64-bit address; a 32-bit base is zero-extended.
    fn address_64(&mut self, place: BaseOffset, range: OffsetRange) -> AddressOperands {
        let Some(base) = place.base else { return AddressOperands { base: self.wide_number(place.offset as u64), offset: 0 } };
        let pair = match self.register_count(base) {
            1 => self.b.pack(Class::R2, &[base, Operand::RZ]),
            _ => base,
        };
        if range.holds(place.offset) {
            return AddressOperands { base: pair, offset: place.offset };
        }
        AddressOperands { base: self.add_to_pair(pair, place.offset), offset: 0 }
    }

    /// Returns a 32-bit address; of a 64-bit base, the low half is used.
    fn address_32(&mut self, place: BaseOffset, range: OffsetRange) -> AddressOperands {
        let fits = range.holds(place.offset);
        match place.base {
            None if fits => AddressOperands { base: Operand::RZ, offset: place.offset },
            None => AddressOperands { base: self.in_register(Operand::from(place.offset as u32)), offset: 0 },
            Some(base) if fits => AddressOperands { base: self.low(base), offset: place.offset },
            Some(base) => {
                let offset = Operand::from(place.offset as u32);
                let sum = self.b.define(Class::R, "IADD3 $, PT, PT, {}, {}, RZ", &[self.low(base), offset]);
                AddressOperands { base: sum, offset: 0 }
            }
        }
    }

    /// Returns the generic address of a location in the shared memory of a cluster.
    fn cluster_address(&mut self, place: BaseOffset, range: OffsetRange) -> AddressOperands {
        let short = self.address_32(place, range);
        let high = self.shared_window_high();
        AddressOperands { base: self.b.pack(Class::R2, &[short.base, high]), offset: short.offset }
    }
}
