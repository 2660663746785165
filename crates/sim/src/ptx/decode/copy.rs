//! Decodes `cp.async` and its commit and wait instructions.

use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;

use super::{Decode, FunctionDecoder, PtxInst};
use crate::ptx::program::{CopyAsync, PtxAction, PtxSpace};

impl FunctionDecoder<'_> {
    pub(crate) fn copy_async(&mut self, ptx: &PtxInst<'_>) -> Decode {
        let action = match ptx.form.opcode {
            Opcode::CpAsyncCommitGroup => PtxAction::CommitCopies,
            Opcode::CpAsyncWaitAll => PtxAction::WaitCopies { all_but: 0, uncommitted: true },
            Opcode::CpAsyncWaitGroup => {
                let Some(all_but) = self.literal(ptx.operand(0), ScalarType::U32) else { return self.unsupported(ptx) };
                PtxAction::WaitCopies { all_but: all_but as u32, uncommitted: false }
            }
            _ => self.start_copy(ptx)?,
        };
        self.push(action);
        Ok(())
    }

    /// Decodes `cp.async` itself. The operand after the size is the number of source bytes, or a predicate that ignores the source.
    fn start_copy(&mut self, ptx: &PtxInst<'_>) -> Decode<PtxAction> {
        let to = self.address(ptx.operand(0), PtxSpace::Shared)?;
        let from = self.address(ptx.operand(1), PtxSpace::Global)?;
        let Some(bytes) = self.literal(ptx.operand(2), ScalarType::U32) else { return self.unsupported(ptx) };
        // A cache policy is the last operand.
        let rest = &ptx.operands[3..ptx.operands.len() - usize::from(ptx.has(Modifier::L2CacheHint))];
        let is_predicate = |operand: ast::Operand| match operand {
            ast::Operand::Register(_) => self.width(operand) == 1,
            ast::Operand::NotRegister(_) => true,
            _ => false,
        };
        let (mut source_bytes, mut ignored) = (None, None);
        match rest.first() {
            Some(&operand) if is_predicate(operand) => ignored = Some(self.predicate(operand)?),
            Some(&operand) => source_bytes = Some(self.source(operand, ScalarType::U32)?),
            None => {}
        }
        Ok(PtxAction::CopyAsync(Box::new(CopyAsync { to, from, bytes: bytes as u8, source_bytes, ignored })))
    }
}
