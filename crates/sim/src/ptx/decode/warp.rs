//! Decodes warp-synchronous operations.

use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;
use oriole_sem::warp::Shuffle;

use super::{Decode, FunctionDecoder, PtxInst};
use crate::ptx::program::{PtxAction, PtxSource, ReduxOperation, SINK, WarpSyncKind, WarpSyncOperation};

impl FunctionDecoder<'_> {
    /// Appends a wait for all threads of the warp, which a matrix instruction starts with.
    pub(super) fn converge(&mut self) {
        let zero = self.zero();
        let mask = Some(self.constant(u64::from(u32::MAX)));
        self.push(PtxAction::Together(Box::new(WarpSyncOperation {
            kind: WarpSyncKind::Converge,
            mask,
            sources: [zero; 3],
            destinations: [SINK; 2],
        })));
    }

    /// Decodes a warp-synchronous operation.
    pub(crate) fn together(&mut self, ptx: &PtxInst<'_>) -> Decode {
        let zero = self.zero();
        match ptx.form.opcode {
            Opcode::Activemask => {
                let destination = self.destination(ptx.operand(0))?;
                self.push(PtxAction::ActiveMask { destination });
                Ok(())
            }
            Opcode::BarWarpSync => self.push_together(WarpSyncKind::Barrier, Some(ptx.operand(0)), [zero; 3], [SINK; 2]),
            Opcode::Shfl | Opcode::ShflSync => {
                let mode = match () {
                    () if ptx.has(Modifier::Up) => Shuffle::Up,
                    () if ptx.has(Modifier::Down) => Shuffle::Down,
                    () if ptx.has(Modifier::Bfly) => Shuffle::Butterfly,
                    () => Shuffle::Index,
                };
                let mut sources = [zero; 3];
                for (position, source) in sources.iter_mut().enumerate() {
                    *source = self.source(ptx.operand(position + 1), ScalarType::B32)?;
                }
                let (value, in_range) = self.pair(ptx.operand(0));
                let destinations = [self.destination(value)?, self.destination(in_range)?];
                self.push_together(WarpSyncKind::Shuffle(mode), ptx.operands.get(4).copied(), sources, destinations)
            }
            Opcode::Vote | Opcode::VoteSync => {
                let kind = match () {
                    () if ptx.has(Modifier::Ballot) => WarpSyncKind::Ballot,
                    () if ptx.has(Modifier::All) => WarpSyncKind::VoteAll,
                    () if ptx.has(Modifier::Any) => WarpSyncKind::VoteAny,
                    () => WarpSyncKind::VoteUni,
                };
                let predicate = self.predicate(ptx.operand(1))?;
                let destination = self.destination(ptx.operand(0))?;
                self.push_together(kind, ptx.operands.get(2).copied(), [predicate, zero, zero], [destination, SINK])
            }
            Opcode::Match => {
                let value = self.source(ptx.operand(1), ptx.ty())?;
                let (mask, same) = self.pair(ptx.operand(0));
                let destinations = [self.destination(mask)?, self.destination(same)?];
                let kind = if ptx.has(Modifier::Any) { WarpSyncKind::MatchAny } else { WarpSyncKind::MatchAll };
                self.push_together(kind, Some(ptx.operand(2)), [value, zero, zero], destinations)
            }
            Opcode::ReduxSync => {
                let ty = ptx.ty();
                let signed = ty.is_signed();
                let kind = match () {
                    () if ty == ScalarType::F32 => ReduxOperation::Float {
                        is_max: ptx.has(Modifier::Max),
                        absolute: ptx.has(Modifier::Abs),
                        nan: ptx.has(Modifier::NaN),
                    },
                    () if ptx.has(Modifier::Add) => ReduxOperation::Add,
                    () if ptx.has(Modifier::Min) => ReduxOperation::Min { signed },
                    () if ptx.has(Modifier::Max) => ReduxOperation::Max { signed },
                    () if ptx.has(Modifier::And) => ReduxOperation::And,
                    () if ptx.has(Modifier::Or) => ReduxOperation::Or,
                    () => ReduxOperation::Xor,
                };
                let value = self.source(ptx.operand(1), ty)?;
                let destination = self.destination(ptx.operand(0))?;
                self.push_together(WarpSyncKind::Reduce(kind), Some(ptx.operand(2)), [value, zero, zero], [destination, SINK])
            }
            Opcode::ElectSync => {
                let (leader, is_elected) = self.pair(ptx.operand(0));
                let destinations = [self.destination(leader)?, self.destination(is_elected)?];
                self.push_together(WarpSyncKind::Elect, Some(ptx.operand(1)), [zero; 3], destinations)
            }
            _ => self.unsupported(ptx),
        }
    }

    fn push_together(&mut self, kind: WarpSyncKind, mask: Option<ast::Operand>, sources: [PtxSource; 3], destinations: [u32; 2]) -> Decode {
        let mask = mask.map(|mask| self.source(mask, ScalarType::U32)).transpose()?;
        self.push(PtxAction::Together(Box::new(WarpSyncOperation { kind, mask, sources, destinations })));
        Ok(())
    }
}
