//! Decodes `barrier.cluster`, `mapa` and `getctarank`. Each block is a cluster of its own: the launch of a kernel with larger clusters is
//! refused if the module has one of these instructions.
//!
//! The upper eight bits of a 32-bit address in shared memory are the rank of the block in its cluster. An address of another block is
//! outside of shared memory here, so accesses to it are reported.

use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;

use super::{Decode, Decoder, Ptx};
use crate::ptx::program::{Action, Barrier, BarrierKind, SHARED_WINDOW, SINK};

/// Position of the rank in an address.
const RANK_SHIFT: u32 = 24;
/// The bits of the rank in an address.
const RANK_BITS: u64 = 0xff << RANK_SHIFT;

impl Decoder<'_> {
    /// Decodes an instruction on clusters.
    pub(crate) fn cluster(&mut self, ptx: &Ptx<'_>) -> Decode {
        self.program.uses_clusters = true;
        match ptx.form.opcode {
            // All threads of the cluster, which is the block, arrive before they wait, so the wait alone is a barrier of the block.
            Opcode::BarrierCluster if ptx.has(Modifier::Wait) => {
                let (number, aligned) = (self.zero(), ptx.has(Modifier::Aligned));
                let barrier = Barrier { kind: BarrierKind::Sync, number, threads: None, predicate: None, destination: SINK, aligned };
                self.push(Action::Barrier(Box::new(barrier)));
            }
            Opcode::BarrierCluster => self.push(Action::Fence),
            opcode => {
                let operand = ptx.operand(1);
                // A variable without a state space modifier is a generic address.
                let is_generic = !ptx.has(Modifier::SharedCluster) && self.space_of_variable(operand).is_some();
                let start = if is_generic { SHARED_WINDOW } else { 0 };
                let address = self.source(operand, ScalarType::U64)?;
                let d = self.destination(ptx.operand(0))?;
                if opcode == Opcode::Getctarank {
                    self.compute1(d, address, |address| (address & RANK_BITS) >> RANK_SHIFT);
                } else {
                    let rank = self.source(ptx.operand(2), ScalarType::U32)?;
                    self.compute2(d, [address, rank], move |address, rank| (address + start) & !RANK_BITS | rank << RANK_SHIFT & RANK_BITS);
                }
            }
        }
        Ok(())
    }
}
