//! Decodes `barrier.cluster`, `mapa`, `getctarank`, `st.async` and `red.async`.
//!
//! The upper eight bits of a 32-bit address in shared memory are the rank of the block in its cluster.

use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;

use super::atomic::update;
use super::{Decode, FunctionDecoder, Missing, PtxInst};
use crate::ptx::program::{PtxAction, PtxClusterBarrier, PtxSpace, RANK_BITS, RANK_SHIFT, SHARED_WINDOW, StoreAsync};

impl FunctionDecoder<'_> {
    /// Decodes an instruction on clusters.
    pub(crate) fn cluster(&mut self, ptx: &PtxInst<'_>) -> Decode {
        match ptx.form.opcode {
            Opcode::BarrierCluster => {
                let (waits, aligned) = (ptx.has(Modifier::Wait), ptx.has(Modifier::Aligned));
                let releases = !waits && !ptx.has(Modifier::Relaxed);
                self.push(PtxAction::ClusterBarrier(PtxClusterBarrier { waits, releases, aligned }));
            }
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

    /// Decodes `st.async` and `red.async` to the shared memory of a cluster.
    pub(crate) fn store_async(&mut self, ptx: &PtxInst<'_>) -> Decode {
        if !ptx.has(Modifier::MbarrierCompleteTxBytes) {
            return self.unsupported(ptx);
        }
        let ty = ptx.ty();
        let update = match ptx.form.opcode {
            Opcode::RedAsync => Some(update(ptx, ty, false).ok_or_else(|| Missing::new(ptx.spelling()))?),
            _ => None,
        };
        let count = [(Modifier::V2, 2), (Modifier::V4, 4)].iter().find(|(vector, _)| ptx.has(*vector)).map_or(1, |&(_, count)| count);
        let mut values = Vec::new();
        for element in self.elements(ptx.operand(1), count) {
            values.push(self.source(element, ty)?);
        }
        let to = self.address(ptx.operand(0), PtxSpace::SharedCluster)?;
        let barrier = self.address(ptx.operand(2), PtxSpace::SharedCluster)?;
        let store = StoreAsync { to, barrier, element_bytes: ty.bytes() as u8, values: values.into(), update };
        self.push(PtxAction::StoreAsync(Box::new(store)));
        Ok(())
    }
}
