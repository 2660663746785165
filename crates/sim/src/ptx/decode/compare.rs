//! Decodes `setp`, `set`, `selp`, `slct`.

use oriole_ptx::table::{Modifier, Opcode, Slot as FormSlot};
use oriole_ptx::types::ScalarType;
use oriole_sem::Comparison;
use oriole_sem::compare::{float, int};
use oriole_sem::format::F32;

use super::float::format_of;
use super::integer::{int_type, with_constant_type};
use super::{Decode, FunctionDecoder, Missing, PtxInst};
use crate::ptx::program::{Pure, SINK, Taint};
use oriole_sem::Int;
use oriole_sem::int::{S16, S32, S64, U16, U32, U64};

/// A comparison of two values.
type CompareFunction = Box<dyn Fn(u64, u64) -> bool + Send + Sync>;

/// Returns the comparison that the modifiers name.
pub(crate) fn comparison(ptx: &PtxInst<'_>) -> Decode<Comparison> {
    use Comparison as C;
    Ok(match ptx.get(FormSlot::Cmp) {
        Some(Modifier::Eq) => C::Eq,
        Some(Modifier::Ne) => C::Ne,
        Some(Modifier::Lt) => C::Lt,
        Some(Modifier::Le) => C::Le,
        Some(Modifier::Gt) => C::Gt,
        Some(Modifier::Ge) => C::Ge,
        Some(Modifier::Lo) => C::Lo,
        Some(Modifier::Ls) => C::Ls,
        Some(Modifier::Hi) => C::Hi,
        Some(Modifier::Hs) => C::Hs,
        Some(Modifier::Equ) => C::Equ,
        Some(Modifier::Neu) => C::Neu,
        Some(Modifier::Ltu) => C::Ltu,
        Some(Modifier::Leu) => C::Leu,
        Some(Modifier::Gtu) => C::Gtu,
        Some(Modifier::Geu) => C::Geu,
        Some(Modifier::Num) => C::Num,
        Some(Modifier::Nan) => C::Nan,
        _ => return Err(Missing::new(ptx.spelling())),
    })
}

/// Returns a comparison of values of a type; for packed types, of the lowest elements.
fn test(ptx: &PtxInst<'_>, ty: ScalarType) -> Decode<CompareFunction> {
    let comparison = comparison(ptx)?;
    let ftz = ptx.has(Modifier::Ftz);
    if let Some((format, _)) = format_of(ty) {
        let mask = format.mask();
        return Ok(Box::new(move |a, b| float(format, comparison, a & mask, b & mask, ftz)));
    }
    let kind = int_type(ty).ok_or_else(|| Missing::new(ptx.spelling()))?;
    Ok(with_constant_type!(kind, INT => Box::new(move |a, b| int(INT, comparison, a, b))))
}

/// Returns the function that combines a comparison with a predicate.
fn combine(ptx: &PtxInst<'_>) -> fn(bool, bool) -> bool {
    match ptx.get(FormSlot::Bool) {
        Some(Modifier::And) => |a, b| a & b,
        Some(Modifier::Or) => |a, b| a | b,
        Some(Modifier::Xor) => |a, b| a ^ b,
        _ => |a, _| a,
    }
}

impl FunctionDecoder<'_> {
    pub(crate) fn compare(&mut self, ptx: &PtxInst<'_>) -> Decode {
        match ptx.form.opcode {
            Opcode::Setp => self.set_predicate(ptx),
            Opcode::Set => self.set(ptx),
            Opcode::Selp => {
                let ty = ptx.ty();
                let sources = [self.source(ptx.operand(1), ty)?, self.source(ptx.operand(2), ty)?, self.predicate(ptx.operand(3))?];
                let d = self.destination(ptx.operand(0))?;
                let function = Pure::Three(Box::new(|a, b, p| if p != 0 { a } else { b }));
                self.compute(d, &sources, function, Taint::Select);
                Ok(())
            }
            _ => self.select_by_sign(ptx),
        }
    }

    /// Decodes `setp`, with one or two destination predicates.
    fn set_predicate(&mut self, ptx: &PtxInst<'_>) -> Decode {
        let ty = ptx.ty();
        let (p, q) = self.pair(ptx.operand(0));
        let [p, q] = [self.destination(p)?, self.destination(q)?];
        let a = self.source(ptx.operand(1), ty)?;
        let b = self.source(ptx.operand(2), ty)?;
        let c = if ptx.operands.len() > 3 { self.predicate(ptx.operand(3))? } else { self.zero() };
        let test = test(ptx, ty)?;
        let combine = combine(ptx);
        if let Some((format, 2)) = format_of(ty) {
            let width = format.width();
            self.compute_pair([p, q], &[a, b, c], move |s| {
                let results = [test(s[0], s[1]), test(s[0] >> width, s[1] >> width)];
                results.map(|result| u64::from(combine(result, s[2] != 0)))
            });
            return Ok(());
        }
        if q == SINK {
            if ptx.operands.len() > 3 {
                self.compute3(p, [a, b, c], move |a, b, c| u64::from(combine(test(a, b), c != 0)));
            } else {
                self.compute2(p, [a, b], move |a, b| u64::from(test(a, b)));
            }
            return Ok(());
        }
        self.compute_pair([p, q], &[a, b, c], move |s| {
            let result = test(s[0], s[1]);
            [u64::from(combine(result, s[2] != 0)), u64::from(combine(!result, s[2] != 0))]
        });
        Ok(())
    }

    /// Decodes `set`: writes all ones, or 1.0, if the comparison is true.
    fn set(&mut self, ptx: &PtxInst<'_>) -> Decode {
        let types = ptx.types();
        let [to, from] = types[..] else { return self.unsupported(ptx) };
        let a = self.source(ptx.operand(1), from)?;
        let b = self.source(ptx.operand(2), from)?;
        let c = if ptx.operands.len() > 3 { self.predicate(ptx.operand(3))? } else { self.zero() };
        let d = self.destination(ptx.operand(0))?;
        let test = test(ptx, from)?;
        let combine = combine(ptx);
        let truth = match format_of(to) {
            Some((format, _)) => format.one(),
            None => int_type(to).map_or(0xffff_ffff, Int::mask),
        };
        match format_of(from) {
            Some((format, 2)) => {
                let width = format.width();
                let truth = truth & format.mask();
                self.compute3(d, [a, b, c], move |a, b, c| {
                    let half = |shift: u32| if combine(test(a >> shift, b >> shift), c != 0) { truth } else { 0 };
                    half(0) | half(width) << width
                });
            }
            _ => self.compute3(d, [a, b, c], move |a, b, c| if combine(test(a, b), c != 0) { truth } else { 0 }),
        }
        Ok(())
    }

    /// Decodes `slct`: selects by the sign of the third operand.
    fn select_by_sign(&mut self, ptx: &PtxInst<'_>) -> Decode {
        let types = ptx.types();
        let [ty, by] = types[..] else { return self.unsupported(ptx) };
        let sources = [self.source(ptx.operand(1), ty)?, self.source(ptx.operand(2), ty)?, self.source(ptx.operand(3), by)?];
        let d = self.destination(ptx.operand(0))?;
        let ftz = ptx.has(Modifier::Ftz);
        if by == ScalarType::F32 {
            self.compute3(d, sources, move |a, b, c| if float(F32, Comparison::Ge, c, 0, ftz) { a } else { b });
        } else {
            self.compute3(d, sources, |a, b, c| if (c as u32 as i32) >= 0 { a } else { b });
        }
        Ok(())
    }
}
