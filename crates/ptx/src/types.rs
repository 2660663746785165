//! Scalar types and state spaces.

/// A scalar type of PTX. Registers and variables can be declared with some of them only ([`ScalarType::is_declarable`]); values of packed
/// and alternate formats are held in untyped registers (`.b16`, `.b32`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[rustfmt::skip]
#[allow(missing_docs)]
pub enum ScalarType {
    Pred,
    B1, S2, U2, S4, U4,
    B8, S8, U8,
    B16, S16, U16,
    B32, S32, U32,
    B64, S64, U64,
    B128,
    F16, F32, F64,
    F16x2, F32x2,
    Bf16, Bf16x2, Tf32,
    S16x2, U16x2, U8x4, S8x4,
    E4m3, E5m2, E2m3, E3m2, E2m1, Ue8m0, Ue4m3,
    E4m3x2, E5m2x2, E2m3x2, E3m2x2, E2m1x2, Ue8m0x2, S2f6x2,
    E4m3x4, E5m2x4, E2m3x4, E3m2x4, E2m1x4,
}

/// The class of a type, which determines which registers may hold its values.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TypeClass {
    /// A predicate.
    Predicate,
    /// Untyped bits.
    Bits,
    /// Signed or unsigned integer.
    Integer,
    /// IEEE float of the type's width.
    Float,
    /// Two or more values in one register, or a format with which registers cannot be declared.
    Packed,
}

impl ScalarType {
    /// Returns the spelling without the dot.
    #[rustfmt::skip]
    pub fn spelling(self) -> &'static str {
        use ScalarType::*;
        match self {
            Pred => "pred",
            B1 => "b1", S2 => "s2", U2 => "u2", S4 => "s4", U4 => "u4",
            B8 => "b8", S8 => "s8", U8 => "u8",
            B16 => "b16", S16 => "s16", U16 => "u16",
            B32 => "b32", S32 => "s32", U32 => "u32",
            B64 => "b64", S64 => "s64", U64 => "u64",
            B128 => "b128",
            F16 => "f16", F32 => "f32", F64 => "f64",
            F16x2 => "f16x2", F32x2 => "f32x2",
            Bf16 => "bf16", Bf16x2 => "bf16x2", Tf32 => "tf32",
            S16x2 => "s16x2", U16x2 => "u16x2", U8x4 => "u8x4", S8x4 => "s8x4",
            E4m3 => "e4m3", E5m2 => "e5m2", E2m3 => "e2m3", E3m2 => "e3m2", E2m1 => "e2m1", Ue8m0 => "ue8m0", Ue4m3 => "ue4m3",
            E4m3x2 => "e4m3x2", E5m2x2 => "e5m2x2", E2m3x2 => "e2m3x2", E3m2x2 => "e3m2x2", E2m1x2 => "e2m1x2", Ue8m0x2 => "ue8m0x2", S2f6x2 => "s2f6x2",
            E4m3x4 => "e4m3x4", E5m2x4 => "e5m2x4", E2m3x4 => "e2m3x4", E3m2x4 => "e3m2x4", E2m1x4 => "e2m1x4",
        }
    }

    /// Returns the width in bits.
    #[rustfmt::skip]
    pub fn bits(self) -> u32 {
        use ScalarType::*;
        match self {
            Pred | B1 => 1,
            S2 | U2 => 2,
            S4 | U4 | E2m1 => 4,
            E2m3 | E3m2 => 6,
            B8 | S8 | U8 | E4m3 | E5m2 | Ue8m0 | Ue4m3 | E2m1x2 => 8,
            B16 | S16 | U16 | F16 | Bf16 | E4m3x2 | E5m2x2 | E2m3x2 | E3m2x2 | Ue8m0x2 | S2f6x2 | E2m1x4 => 16,
            B32 | S32 | U32 | F32 | F16x2 | Bf16x2 | Tf32 | S16x2 | U16x2 | U8x4 | S8x4
            | E4m3x4 | E5m2x4 | E2m3x4 | E3m2x4 => 32,
            B64 | S64 | U64 | F64 | F32x2 => 64,
            B128 => 128,
        }
    }

    /// Returns the size in bytes, rounded up.
    pub fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    /// Returns the class of the type.
    #[rustfmt::skip]
    pub fn class(self) -> TypeClass {
        use ScalarType::*;
        match self {
            Pred => TypeClass::Predicate,
            B1 | B8 | B16 | B32 | B64 | B128 => TypeClass::Bits,
            S2 | U2 | S4 | U4 | S8 | U8 | S16 | U16 | S32 | U32 | S64 | U64 => TypeClass::Integer,
            F16 | F32 | F64 => TypeClass::Float,
            F16x2 | F32x2 | Bf16 | Bf16x2 | Tf32 | S16x2 | U16x2 | U8x4 | S8x4 | E4m3 | E5m2 | E2m3 | E3m2 | E2m1 | Ue8m0 | Ue4m3
            | E4m3x2 | E5m2x2 | E2m3x2 | E3m2x2 | E2m1x2 | Ue8m0x2 | S2f6x2
            | E4m3x4 | E5m2x4 | E2m3x4 | E3m2x4 | E2m1x4 => TypeClass::Packed,
        }
    }

    /// Returns whether the type is a signed integer.
    pub fn is_signed(self) -> bool {
        use ScalarType::*;
        matches!(self, S2 | S4 | S8 | S16 | S32 | S64)
    }

    /// Returns the type of the same kind with twice the width; `None` if there is none.
    pub fn widened(self) -> Option<ScalarType> {
        use ScalarType::*;
        Some(match self {
            B8 => B16,
            S8 => S16,
            U8 => U16,
            B16 => B32,
            S16 => S32,
            U16 => U32,
            B32 => B64,
            S32 => S64,
            U32 => U64,
            B64 => B128,
            F16 => F32,
            F32 => F64,
            _ => return None,
        })
    }

    /// Returns whether registers and variables may be declared with this type.
    #[rustfmt::skip]
    pub(crate) fn is_declarable(self) -> bool {
        use ScalarType::*;
        matches!(
            self,
            Pred | B8 | S8 | U8 | B16 | S16 | U16 | B32 | S32 | U32 | B64 | S64 | U64 | B128 | F16 | F32 | F64 | F16x2
        )
    }
}

/// The state space of an address operand.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)]
pub enum AddressSpace {
    Generic,
    Const,
    Global,
    Local,
    Param,
    ParamEntry,
    ParamFunc,
    Shared,
    SharedCta,
    SharedCluster,
    Tmem,
    /// A generic address, or the name of any variable.
    Any,
}

/// The state space of a variable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)]
pub enum StateSpace {
    Const,
    Global,
    Local,
    Param,
    Shared,
    Tex,
}

impl StateSpace {
    /// Returns the spelling with the dot.
    pub fn spelling(self) -> &'static str {
        match self {
            StateSpace::Const => ".const",
            StateSpace::Global => ".global",
            StateSpace::Local => ".local",
            StateSpace::Param => ".param",
            StateSpace::Shared => ".shared",
            StateSpace::Tex => ".tex",
        }
    }
}

impl AddressSpace {
    /// Returns whether an address operand of this space may name a variable declared in `space`. A generic address operand may name global,
    /// shared and local variables; the address is converted to a generic one.
    pub fn holds(self, space: StateSpace) -> bool {
        match self {
            AddressSpace::Any => true,
            AddressSpace::Generic => matches!(space, StateSpace::Global | StateSpace::Shared | StateSpace::Local),
            AddressSpace::Const => space == StateSpace::Const,
            AddressSpace::Global => matches!(space, StateSpace::Global | StateSpace::Tex),
            AddressSpace::Local => space == StateSpace::Local,
            AddressSpace::Param | AddressSpace::ParamEntry | AddressSpace::ParamFunc => space == StateSpace::Param,
            AddressSpace::Shared | AddressSpace::SharedCta | AddressSpace::SharedCluster => space == StateSpace::Shared,
            AddressSpace::Tmem => false,
        }
    }

    /// Returns whether a 32-bit register may hold an address of this space even if the module's address size is 64.
    pub(crate) fn takes_32_bit_addresses(self) -> bool {
        !matches!(self, AddressSpace::Generic | AddressSpace::Global | AddressSpace::Any)
    }
}
