//! Stores of a thread to the same sector of memory, which should issue one directly after the other.
//!
//! The level-one cache forwards stores in sectors of 32 bytes. If another store to a sector follows closely, both are forwarded together,
//! otherwise each on its own, and the traffic doubles. On an H200, a kernel whose threads store 32 bytes each with two `STG.128` forwards
//! 262,080 sectors if the first store issues as soon as its data is available, 203,432 with six instructions between the stores, and 133,568 with
//! one between them (ncu, `l1tex__m_l1tex2xbar_write_sectors_mem_lg_op_st`); it takes 4.5, 4.2 and 3.4 us.
//!
//! So an earlier store of a sector also waits for the operands of the later ones, as far as they are computed before it in program order:
//!
//! ```text
//! 0  FMUL R4, R2, R3          2  STG [R8], R0        depends on 1
//! 1  FADD R5, R2, R3          3  STG [R8+4], R5      depends on 1
//! ```

use std::ops::Range;

use oriole_hardware::SECTOR_BYTES;
use oriole_isa::Opcode;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::code::{Item, MemAccessKind, OrderEffect, PortAccess, SchedCode};

/// Maximum number of items from one store of a sector to the next one.
const MAX_DISTANCE: usize = 64;

/// Maximum number of later stores to a sector whose operands a store waits for: the other words of the sector.
const MAX_LATER_STORES: usize = 7;

/// For the stores of a region, the next store to the same sector.
pub(super) struct StoreClusters(FxHashMap<u32, u32>);

impl StoreClusters {
    /// Finds the stores of a region that are to the same sector, by their base registers and offsets.
    pub(super) fn find(code: &SchedCode, region: &Range<usize>) -> StoreClusters {
        let mut latest: FxHashMap<(u64, &[u32], i64), u32> = FxHashMap::default();
        let mut next = FxHashMap::default();
        for position in region.clone() {
            let Some(sector) = stored_sector(code, &code.items[position]) else { continue };
            let node = (position - region.start) as u32;
            if let Some(before) = latest.insert(sector, node)
                && (node - before) as usize <= MAX_DISTANCE
            {
                next.insert(before, node);
            }
        }
        StoreClusters(next)
    }

    /// Returns the operands, of the later stores to the sector of the store `node`, that are computed before `node`. Each one comes with the
    /// position of the store that reads it.
    pub(super) fn later_operands(&self, code: &SchedCode, region: &Range<usize>, node: u32) -> SmallVec<[(PortAccess, usize); 8]> {
        let mut found = SmallVec::new();
        let mut later = self.0.get(&node);
        for _ in 0..MAX_LATER_STORES {
            let Some(&last) = later else { break };
            let store = region.start + last as usize;
            found.extend(operands_computed_before(code, region.start + node as usize, store).into_iter().map(|operand| (operand, store)));
            later = self.0.get(&last);
        }
        found
    }
}

/// Returns the sector to which an item stores, if it is an ordinary store of a part of it: the form of its address, the base registers and
/// the number of the sector after the base.
fn stored_sector<'c>(code: &'c SchedCode, item: &Item) -> Option<(u64, &'c [u32], i64)> {
    let OrderEffect::Access(access) = item.effect else { return None };
    let address = access.address.filter(|address| i64::from(address.bytes) < SECTOR_BYTES)?;
    let is_store = matches!(item.opcode, Some(Opcode::STG | Opcode::ST)) && access.kind == MemAccessKind::Write && !access.strong;
    let first = address.first_register as usize;
    let registers = &code.address_registers[first..first + usize::from(address.register_count)];
    is_store.then_some((address.form, registers, address.offset.div_euclid(SECTOR_BYTES)))
}

/// Returns the registers that the store at `store` reads, except for those that items after `earlier` compute. The result of a pseudo operation,
/// such as a vector that is put together from words, is replaced by the registers that the operation reads.
fn operands_computed_before(code: &SchedCode, earlier: usize, store: usize) -> SmallVec<[PortAccess; 8]> {
    let mut operands: SmallVec<[PortAccess; 8]> = SmallVec::from_slice(code.reads(&code.items[store]));
    for item in code.items[earlier + 1..store].iter().rev() {
        let is_written = |operand: &PortAccess| code.writes(item).iter().any(|write| write.register == operand.register);
        let Some(first) = operands.iter().find(|operand| is_written(operand)).copied() else { continue };
        operands.retain(|operand| !is_written(operand));
        if item.opcode.is_none() {
            operands.extend(code.reads(item).iter().map(|read| PortAccess { port: first.port, ..*read }));
        }
    }
    operands
}
