//! Decodes `atom` and `red` into a function of the old contents and the operands.

use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;
use oriole_sem::Mode;
use oriole_sem::float::{self, Extreme, ExtremeMode};

use super::float::{each, format_of};
use super::integer::int_type;
use super::memory::ordering;
use super::{Decode, FunctionDecoder, Missing, PtxInst};
use crate::ptx::program::{PtxAction, PtxAtomic, PtxSource, SINK, Update};

/// Makes an update from a function of the old value and the operand, both of up to 64 bits.
fn narrow(f: impl Fn(u64, u64) -> u64 + Send + Sync + 'static) -> Update {
    Box::new(move |old, value, _| u128::from(f(old as u64, value as u64)))
}

/// Returns the update function of an instruction.
pub(super) fn update(ptx: &PtxInst<'_>, ty: ScalarType, flush: bool) -> Option<Update> {
    if ptx.has(Modifier::Exch) {
        return Some(Box::new(|_, value, _| value));
    }
    if ptx.has(Modifier::Cas) {
        return Some(Box::new(|old, expected, value| if old == expected { value } else { old }));
    }
    if let Some((format, count)) = format_of(ty) {
        let f: Box<dyn Fn([u64; 2]) -> u64 + Send + Sync> = match () {
            () if ptx.has(Modifier::Add) => {
                let mode = Mode::RN.ftz(flush);
                Box::new(move |[a, b]| float::add(format, a, b, mode))
            }
            () if ptx.has(Modifier::Min) => Box::new(move |[a, b]| float::min_max(format, Extreme::Min, a, b, ExtremeMode::default())),
            () if ptx.has(Modifier::Max) => Box::new(move |[a, b]| float::min_max(format, Extreme::Max, a, b, ExtremeMode::default())),
            () => return None,
        };
        let f = each(format, count, f);
        return Some(narrow(move |a, b| f([a, b])));
    }
    let int = int_type(ty)?;
    Some(match () {
        () if ptx.has(Modifier::Add) => narrow(move |a, b| int.add(a, b)),
        () if ptx.has(Modifier::Min) => narrow(move |a, b| int.min(a, b)),
        () if ptx.has(Modifier::Max) => narrow(move |a, b| int.max(a, b)),
        () if ptx.has(Modifier::And) => narrow(|a, b| a & b),
        () if ptx.has(Modifier::Or) => narrow(|a, b| a | b),
        () if ptx.has(Modifier::Xor) => narrow(|a, b| a ^ b),
        () if ptx.has(Modifier::Inc) => narrow(|old, limit| if old >= limit { 0 } else { old + 1 }),
        () if ptx.has(Modifier::Dec) => narrow(|old, limit| if old == 0 || old > limit { limit } else { old - 1 }),
        () => return None,
    })
}

impl FunctionDecoder<'_> {
    /// Decodes `atom` and `red`.
    pub(crate) fn atomic(&mut self, ptx: &PtxInst<'_>) -> Decode {
        let ty = ptx.ty();
        let missing = || Missing::new(ptx.spelling());
        let in_shared = update(ptx, ty, false).ok_or_else(missing)?;
        // `f32` additions flush subnormals in global memory, but not in shared memory.
        let in_global = if ty == ScalarType::F32 { Some(update(ptx, ty, true).ok_or_else(missing)?) } else { None };
        let count = [(Modifier::V2, 2), (Modifier::V4, 4), (Modifier::V8, 8)].iter().find(|(v, _)| ptx.has(*v)).map_or(1, |&(_, n)| n);
        let first = usize::from(ptx.form.opcode == Opcode::Atom);
        let results = if first == 1 { self.elements(ptx.operand(0), count) } else { vec![ast::Operand::Sink; count] };
        let mut destinations = Vec::new();
        for result in results {
            let slot = self.destination(result)?;
            destinations.push((slot != SINK).then_some(slot));
        }
        let address = self.address(ptx.operand(first), self.space(ptx))?;
        let values = self.elements(ptx.operand(first + 1), count);
        let replacement = if ptx.has(Modifier::Cas) { Some(ptx.operand(first + 2)) } else { None };
        let mut operands: Vec<[[PtxSource; 2]; 2]> = Vec::new();
        for value in values {
            let second = match replacement {
                Some(operand) => self.wide_operand(operand, ty)?,
                None => [self.zero(); 2],
            };
            operands.push([self.wide_operand(value, ty)?, second]);
        }
        let mut ordering = ordering(ptx);
        ordering.strong = true;
        let atomic = PtxAtomic {
            address,
            element_bytes: ty.bytes() as u8,
            destinations: destinations.into(),
            operands: operands.into(),
            update: in_shared,
            update_global: in_global,
            ordering,
        };
        self.push(PtxAction::Atomic(Box::new(atomic)));
        Ok(())
    }

    /// Returns both halves of an operand; the upper one is zero if the type has at most 64 bits.
    fn wide_operand(&mut self, operand: ast::Operand, ty: ScalarType) -> Decode<[PtxSource; 2]> {
        if ty.bits() == 128 { self.halves(operand, ty) } else { Ok([self.source(operand, ty)?, self.zero()]) }
    }
}
