//! Decodes `mbarrier`, `cp.async.mbarrier.arrive` and bulk copies.

use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;

use super::atomic::update;
use super::{Decode, FunctionDecoder, Missing, PtxInst};
use crate::ptx::program::{Bulk, PtxAction, PtxAddress, PtxMbarrier, PtxMbarrierKind, PtxSpace, SINK, TensorCopy};
use crate::tensor_map::ReductionOperation;

/// The operations of `cp.reduce.async.bulk.tensor`.
const TENSOR_OPERATIONS: [(Modifier, ReductionOperation); 8] = [
    (Modifier::Add, ReductionOperation::Add),
    (Modifier::Min, ReductionOperation::Min),
    (Modifier::Max, ReductionOperation::Max),
    (Modifier::Inc, ReductionOperation::Increment),
    (Modifier::Dec, ReductionOperation::Decrement),
    (Modifier::And, ReductionOperation::And),
    (Modifier::Or, ReductionOperation::Or),
    (Modifier::Xor, ReductionOperation::Xor),
];

impl FunctionDecoder<'_> {
    /// Decodes an instruction of the family `mbarrier`.
    pub(crate) fn mbarrier(&mut self, ptx: &PtxInst<'_>) -> Decode {
        if ptx.form.opcode == Opcode::MbarrierPendingCount {
            let destination = self.destination(ptx.operand(0))?;
            let state = self.source(ptx.operand(1), ScalarType::U64)?;
            self.compute1(destination, state, |state| state & 0xffff_ffff);
            return Ok(());
        }
        let kind = match ptx.form.opcode {
            Opcode::MbarrierInit => PtxMbarrierKind::Init,
            Opcode::MbarrierInval => PtxMbarrierKind::Invalidate,
            Opcode::MbarrierExpectTx => PtxMbarrierKind::ExpectTransactions,
            Opcode::MbarrierCompleteTx => PtxMbarrierKind::CompleteTransactions,
            Opcode::CpAsyncMbarrierArrive => PtxMbarrierKind::AfterCopies,
            Opcode::MbarrierTestWait | Opcode::MbarrierTryWait if ptx.has(Modifier::Parity) => PtxMbarrierKind::TestParity,
            Opcode::MbarrierTestWait | Opcode::MbarrierTryWait => PtxMbarrierKind::TestState,
            _ => PtxMbarrierKind::Arrive {
                drops: ptx.form.opcode == Opcode::MbarrierArriveDrop,
                expects: ptx.has(Modifier::ExpectTx),
                completes: !ptx.has(Modifier::NoComplete),
            },
        };
        let has_result = matches!(kind, PtxMbarrierKind::Arrive { .. } | PtxMbarrierKind::TestParity | PtxMbarrierKind::TestState);
        let first = usize::from(has_result);
        let destination = if has_result { self.destination(ptx.operand(0))? } else { SINK };
        let space = match self.space(ptx) {
            space @ (PtxSpace::Shared | PtxSpace::SharedCluster) => space,
            _ => PtxSpace::Generic,
        };
        let address = self.address_in_shared(ptx.operand(first), space)?;
        let count = match (kind, ptx.operands.get(first + 1)) {
            (PtxMbarrierKind::AfterCopies, _) => self.constant(u64::from(ptx.has(Modifier::Noinc))),
            (PtxMbarrierKind::TestState, Some(&state)) => self.source(state, ScalarType::U64)?,
            (_, Some(&count)) => self.source(count, ScalarType::U32)?,
            (_, None) => self.constant(1),
        };
        self.push(PtxAction::Mbarrier(Box::new(PtxMbarrier { kind, address, count, destination })));
        Ok(())
    }

    /// Decodes a copy or reduction of a part of a tensor.
    pub(crate) fn tensor_copy(&mut self, ptx: &PtxInst<'_>) -> Decode {
        let others = [Modifier::Im2colW, Modifier::Im2colW128, Modifier::TileGather4, Modifier::TileScatter4, Modifier::CtaGroup2];
        if others.iter().any(|&mode| ptx.has(mode)) {
            return self.unsupported(ptx);
        }
        let is_load = ptx.has(Modifier::MbarrierCompleteTxBytes);
        let ast::Operand::Bracket(tensor) = ptx.operand(usize::from(is_load)) else { return self.unsupported(ptx) };
        let &[map, coordinates] = self.body.list(tensor) else { return self.unsupported(ptx) };
        let map = match map {
            ast::Operand::Address(_) | ast::Operand::UnifiedAddress(_) => self.address(map, PtxSpace::Generic)?,
            _ => PtxAddress { space: PtxSpace::Generic, base: self.source(map, ScalarType::U64)?, offset: 0, in_frame: false },
        };
        let mut sources = Vec::new();
        for coordinate in self.elements(coordinates, self.lanes(coordinates)) {
            sources.push(self.source(coordinate, ScalarType::S32)?);
        }
        let (place, space) = if is_load { (ptx.operand(0), PtxSpace::SharedCluster) } else { (ptx.operand(1), PtxSpace::Shared) };
        let mut next = if is_load { 3 } else { 2 };
        let mut offsets = Vec::new();
        if ptx.has(Modifier::Im2col) && is_load {
            let list = ptx.operand(next);
            next += 1;
            for offset in self.elements(list, self.lanes(list)) {
                offsets.push(self.source(offset, ScalarType::U16)?);
            }
        }
        let operation = match ptx.form.opcode {
            Opcode::CpReduceAsyncBulkTensor => {
                let named = TENSOR_OPERATIONS.iter().find(|(modifier, _)| ptx.has(*modifier));
                Some(named.ok_or_else(|| Missing::new(ptx.spelling()))?.1)
            }
            _ => None,
        };
        let copy = TensorCopy {
            map,
            coordinates: sources.into(),
            offsets: offsets.into(),
            is_columns: ptx.has(Modifier::Im2col) || ptx.has(Modifier::Im2colNoOffs),
            operation,
            shared: self.address(place, space)?,
            barrier: if is_load { Some(self.address(ptx.operand(2), PtxSpace::SharedCluster)?) } else { None },
            blocks: if ptx.has(Modifier::MulticastCluster) { Some(self.source(ptx.operand(next), ScalarType::U16)?) } else { None },
        };
        self.push(PtxAction::TensorCopy(Box::new(copy)));
        Ok(())
    }

    /// Decodes a bulk copy or an instruction for groups of them.
    pub(crate) fn bulk(&mut self, ptx: &PtxInst<'_>) -> Decode {
        match ptx.form.opcode {
            Opcode::CpAsyncBulkCommitGroup => self.push(PtxAction::CommitBulk),
            Opcode::CpAsyncBulkWaitGroup => {
                let Some(all_but) = self.literal(ptx.operand(0), ScalarType::U32) else { return self.unsupported(ptx) };
                self.push(PtxAction::WaitBulk { all_but: all_but as u32, only_reads: ptx.has(Modifier::Read) });
            }
            Opcode::CpAsyncBulkPrefetch => self.push(PtxAction::Nothing),
            _ if ptx.has(Modifier::CpMask) => return self.unsupported(ptx),
            _ => {
                let to_shared = ptx.has(Modifier::MbarrierCompleteTxBytes);
                let from_global = to_shared && ptx.has(Modifier::Global);
                let space = |is_global: bool| if is_global { PtxSpace::Global } else { PtxSpace::Shared };
                let reduction = match ptx.form.opcode {
                    Opcode::CpReduceAsyncBulk => {
                        let ty = ptx.ty();
                        let function = update(ptx, ty, false).ok_or_else(|| Missing::new(ptx.spelling()))?;
                        Some((ty.bytes() as u8, function))
                    }
                    _ => None,
                };
                let bulk = Bulk {
                    to: self.address(ptx.operand(0), if to_shared { PtxSpace::SharedCluster } else { PtxSpace::Global })?,
                    from: self.address(ptx.operand(1), space(from_global))?,
                    bytes: self.source(ptx.operand(2), ScalarType::U32)?,
                    barrier: if to_shared { Some(self.address(ptx.operand(3), PtxSpace::SharedCluster)?) } else { None },
                    blocks: if ptx.has(Modifier::MulticastCluster) { Some(self.source(ptx.operand(4), ScalarType::U16)?) } else { None },
                    reduction,
                };
                self.push(PtxAction::Bulk(Box::new(bulk)));
            }
        }
        Ok(())
    }
}
