//! Reductions of tensors: `cp.reduce.async.bulk.tensor`. The type of the elements is that of the tensor map.

use oriole_sem::Mode;
use oriole_sem::float::{self, Extreme, ExtremeMode};
use oriole_sem::int::{S64, U32};

use super::{ElementType, Numbers, TensorMap};

/// The operation of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReductionOperation {
    Add,
    Min,
    Max,
    Increment,
    Decrement,
    And,
    Or,
    Xor,
}

impl TensorMap {
    /// Combines the elements of a piece of the tensor with those of a piece in shared memory.
    pub(crate) fn reduce(&self, operation: ReductionOperation, tensor: &mut [u8], piece: &[u8]) -> Result<(), String> {
        let bytes = self.element.bytes() as usize;
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |bits: u64, &byte| bits << 8 | u64::from(byte));
        for (old, new) in tensor.chunks_exact_mut(bytes).zip(piece.chunks_exact(bytes)) {
            let result = combine(self.element, operation, number(old), number(new))
                .ok_or_else(|| format!("a reduction {operation:?} of elements of type {} is not supported", self.element.code))?;
            old.copy_from_slice(&result.to_le_bytes()[..bytes]);
        }
        Ok(())
    }
}

/// Returns the combination of two elements; `None` if the manual has no such operation.
fn combine(element: ElementType, operation: ReductionOperation, old: u64, new: u64) -> Option<u64> {
    match element.numbers {
        Numbers::Int(int) if int.bits < 32 => None,
        // Of signed 64-bit numbers there are only the extremes (`Xor` is an illegal instruction on an H200).
        Numbers::Int(S64) if !matches!(operation, ReductionOperation::Min | ReductionOperation::Max) => None,
        Numbers::Int(int) => Some(match operation {
            ReductionOperation::Add => int.add(old, new),
            ReductionOperation::Min => int.min(old, new),
            ReductionOperation::Max => int.max(old, new),
            ReductionOperation::And => old & new,
            ReductionOperation::Or => old | new,
            ReductionOperation::Xor => old ^ new,
            ReductionOperation::Increment if int == U32 => {
                if old >= new {
                    0
                } else {
                    old + 1
                }
            }
            ReductionOperation::Decrement if int == U32 => {
                if old == 0 || old > new {
                    new
                } else {
                    old - 1
                }
            }
            ReductionOperation::Increment | ReductionOperation::Decrement => return None,
        }),
        Numbers::Float(format) => {
            let extreme = |which| float::min_max(format, which, old, new, ExtremeMode::default());
            match operation {
                ReductionOperation::Add => Some(float::add(format, old, new, Mode::RN.ftz(element.flushes))),
                ReductionOperation::Min if format.width() == 16 => Some(extreme(Extreme::Min)),
                ReductionOperation::Max if format.width() == 16 => Some(extreme(Extreme::Max)),
                _ => None,
            }
        }
    }
}
