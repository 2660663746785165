//! The kind of an atomic operation, the forms in which the machine supports it, and its spelling.

use oriole_ir::{Class, Operand};
use oriole_ptx::table::Modifier;
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::ptx::Ptx;

/// What the operation does to the value in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AtomicKind {
    Add,
    Min,
    Max,
    Increment,
    Decrement,
    And,
    Or,
    Xor,
    Exchange,
    CompareAndSwap,
}

/// An atomic operation on a type.
#[derive(Clone, Copy, Debug)]
pub(super) struct TypedOperation {
    pub kind: AtomicKind,
    /// The type of an element.
    pub ty: ScalarType,
    /// The number of elements.
    pub lanes: usize,
}

impl TypedOperation {
    /// Reads the operation from the modifiers of `atom` or `red`.
    pub(super) fn of(ptx: &Ptx<'_>) -> Option<TypedOperation> {
        let kinds = [
            (Modifier::Add, AtomicKind::Add),
            (Modifier::Min, AtomicKind::Min),
            (Modifier::Max, AtomicKind::Max),
            (Modifier::Inc, AtomicKind::Increment),
            (Modifier::Dec, AtomicKind::Decrement),
            (Modifier::And, AtomicKind::And),
            (Modifier::Or, AtomicKind::Or),
            (Modifier::Xor, AtomicKind::Xor),
            (Modifier::Exch, AtomicKind::Exchange),
            (Modifier::Cas, AtomicKind::CompareAndSwap),
        ];
        let kind = kinds.iter().find(|(modifier, _)| ptx.has(*modifier)).map(|&(_, kind)| kind)?;
        Some(TypedOperation { kind, ty: ptx.ty(), lanes: ptx.vector_lanes() })
    }

    /// Returns the number of bytes that each thread accesses.
    pub(super) fn bytes(self) -> u32 {
        self.ty.bytes() * self.lanes as u32
    }

    /// Returns whether it accesses half of a 32-bit word, for which there is no instruction.
    pub(super) fn is_half_word(self) -> bool {
        self.bytes() == 2
    }

    /// Returns whether the elements are floating-point numbers.
    pub(super) fn is_float(self) -> bool {
        use ScalarType::{Bf16, Bf16x2, F16, F16x2, F32, F64};
        matches!(self.ty, F16 | F16x2 | Bf16 | Bf16x2 | F32 | F64)
    }

    /// Returns whether there is an instruction for shared memory.
    pub(super) fn is_native_in_shared(self) -> bool {
        match self.kind {
            AtomicKind::Exchange | AtomicKind::CompareAndSwap => true,
            _ => self.bytes() == 4 && !self.is_float(),
        }
    }

    /// Returns whether there is an instruction that does not return the old value.
    pub(super) fn has_reduction(self) -> bool {
        !matches!(self.kind, AtomicKind::Exchange | AtomicKind::CompareAndSwap)
    }

    /// Returns the machine's modifier for the operation.
    pub(super) fn mnemonic(self) -> &'static str {
        match self.kind {
            AtomicKind::Add => ".ADD",
            AtomicKind::Min => ".MIN",
            AtomicKind::Max => ".MAX",
            AtomicKind::Increment => ".INC",
            AtomicKind::Decrement => ".DEC",
            AtomicKind::And => ".AND",
            AtomicKind::Or => ".OR",
            AtomicKind::Xor => ".XOR",
            AtomicKind::Exchange => ".EXCH",
            AtomicKind::CompareAndSwap => ".CAS",
        }
    }

    /// Returns the machine's modifier for the type.
    pub(super) fn type_modifier(self) -> &'static str {
        use ScalarType::{Bf16, Bf16x2, F16, F16x2, F32, F64, S32, S64};
        let is_compared = matches!(self.kind, AtomicKind::Min | AtomicKind::Max);
        match (self.ty, self.bytes()) {
            (F32, 4) => ".F32.FTZ.RN",
            (F32, 8) => ".F32x2.FTZ.RN",
            (F32, _) => ".F32x4.FTZ.RN",
            (F64, _) => ".F64.RN",
            (F16 | F16x2, 4) => ".F16x2.RN",
            (F16 | F16x2, 8) => ".F16x4.RN",
            (F16 | F16x2, _) => ".F16x8.RN",
            (Bf16 | Bf16x2, 4) => ".BF16x2.RN",
            (Bf16 | Bf16x2, 8) => ".BF16x4.RN",
            (Bf16 | Bf16x2, _) => ".BF16x8.RN",
            (S32, _) if is_compared => ".S32",
            (S64, _) if is_compared => ".S64",
            (_, 8) => ".64",
            (_, 16) => ".128",
            _ => "",
        }
    }

    /// Emits the computation of the new value from the old one and the operand, for use in compare-and-swap loops.
    pub(super) fn apply(self, select: &mut Select<'_>, old: Operand, value: Operand) -> Operand {
        match self.kind {
            AtomicKind::Exchange | AtomicKind::CompareAndSwap | AtomicKind::Increment | AtomicKind::Decrement => value,
            AtomicKind::Add if self.is_float() => self.add_floats(select, old, value),
            AtomicKind::Add if self.bytes() == 8 => {
                let [a, b] = [old, value].map(|operand| [select.low(operand), select.high(operand)]);
                select.add_pairs(a, b)
            }
            AtomicKind::Add => select.b.define(Class::R, "IADD3 $, PT, PT, {}, {}, RZ", &[old, value]),
            AtomicKind::And | AtomicKind::Or | AtomicKind::Xor => self.combine(select, old, value),
            AtomicKind::Min | AtomicKind::Max => self.choose(select, old, value),
        }
    }

    /// Emits a floating-point addition. For a single half, the operand is added to both halves of the word.
    fn add_floats(self, select: &mut Select<'_>, old: Operand, value: Operand) -> Operand {
        match self.ty {
            ScalarType::F64 => select.b.define(Class::R2, "DADD $, {}, {}", &[old, value]),
            ScalarType::F32 => select.b.define(Class::R, "FADD $, {}, {}", &[old, value]),
            ScalarType::F16 => select.b.define(Class::R, "HADD2 $, {}, {}.H0_H0", &[old, value]),
            ScalarType::F16x2 => select.b.define(Class::R, "HADD2 $, {}, {}", &[old, value]),
            ScalarType::Bf16 => select.b.define(Class::R, "HADD2.BF16_V2 $, {}, {}.H0_H0", &[old, value]),
            _ => select.b.define(Class::R, "HADD2.BF16_V2 $, {}, {}", &[old, value]),
        }
    }

    /// Emits a bitwise operation on 64 bits.
    fn combine(self, select: &mut Select<'_>, old: Operand, value: Operand) -> Operand {
        let table = match self.kind {
            AtomicKind::And => "0xc0",
            AtomicKind::Or => "0xfc",
            _ => "0x3c",
        };
        let template = format!("LOP3.LUT $, {{}}, {{}}, RZ, {table}, !PT");
        let half = |select: &mut Select<'_>, index| {
            let (a, b) = (select.register_of(old, index), select.register_of(value, index));
            select.b.define(Class::R, &template, &[a, b])
        };
        let halves = [half(select, 0), half(select, 1)];
        select.b.pack(Class::R2, &halves)
    }

    /// Emits the minimum or maximum of two 64-bit integers.
    fn choose(self, select: &mut Select<'_>, old: Operand, value: Operand) -> Operand {
        let relation = if self.kind == AtomicKind::Min { "LT" } else { "GT" };
        let sign = if self.ty == ScalarType::S64 { "" } else { ".U32" };
        let [a, b] = [old, value].map(|operand| [select.low(operand), select.high(operand)]);
        let low = select.b.define(Class::P, &format!("ISETP.{relation}.U32.AND $, PT, {{}}, {{}}, PT"), &[a[0], b[0]]);
        let template = format!("ISETP.{relation}{sign}.AND.EX $, PT, {{}}, {{}}, PT, {{}}");
        let keeps = select.b.define(Class::P, &template, &[a[1], b[1], low]);
        let halves = [0, 1].map(|half| select.b.define(Class::R, "SEL $, {}, {}, {}", &[a[half], b[half], keeps]));
        select.b.pack(Class::R2, &halves)
    }
}
